"""torch_slang.block_sparse_mm_with_epilogue under transforms and compilers; how one is made; wrong arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import products
import pytest
import torch
from block_sparse_epilogues import (
    ROUNDING,
    SHADE,
    SQUARE,
    assert_agrees,
    drawn,
    operands,
    product_in_torch,
    randn,
    shade_in_torch,
    square_in_torch,
)
from cases import nvrtc_is_here
from long_tests import dear_file, dear_test, some_cases, some_tests

import torch_slang
from torch_slang import BlockSparseEpilogue

Tensor = torch.Tensor

pytestmark = [pytest.mark.usefixtures("seeded", "the_first_tile"), some_tests(3), dear_file]


@pytest.fixture(scope="module")
def shade() -> BlockSparseEpilogue:
    return torch_slang.block_sparse_mm_with_epilogue(SHADE)


@pytest.fixture(scope="module")
def square() -> BlockSparseEpilogue:
    return torch_slang.block_sparse_mm_with_epilogue(SQUARE)


class TestPyTorch:
    def test_checks_of_testing(self, square: BlockSparseEpilogue, device: torch.device) -> None:
        pattern = drawn((40, 96), (32, 32), device)
        x, values, bias = operands(pattern, torch.float32, leading=(2, 3))[:3]
        arguments = (square.name, x, values, pattern.tensors(), pattern.shape, False, [bias])
        for name in ("block_sparse_mm_with_epilogue", "block_sparse_mm_with_epilogue_and_sum"):
            torch.library.opcheck(getattr(torch.ops.slang, name).default, arguments)

    @pytest.mark.usefixtures("fresh_dynamo")
    @pytest.mark.parametrize("dynamic", [False, True])
    def test_compile(self, shade: BlockSparseEpilogue, dynamic: bool, device: torch.device) -> None:
        pattern = drawn((64, 48), (16, 16), device)
        compiled = torch.compile(shade, fullgraph=True, dynamic=dynamic, backend="aot_eager")
        for rows in (4, 9):
            assert_agrees(compiled, shade_in_torch, pattern, operands(pattern, leading=(rows,)))

    @pytest.mark.usefixtures("fresh_dynamo")
    @pytest.mark.parametrize("dynamic", [False, True])
    def test_compiled_autograd(self, shade: BlockSparseEpilogue, dynamic: bool, device: torch.device) -> None:
        pattern = drawn((64, 48), (16, 16), device)
        for transpose in (False, True):
            values = operands(pattern, transpose=transpose)
            x, blocks, *arguments = values
            leaves = [v for v in values if isinstance(v, Tensor)]
            expected = torch.autograd.grad(shade(x, blocks, pattern, *arguments, transpose=transpose).sum(), leaves)
            backend = torch.compile(backend="eager", fullgraph=True, dynamic=dynamic)
            with torch._dynamo.compiled_autograd._enable(backend, dynamic=dynamic):
                shade(x, blocks, pattern, *arguments, transpose=transpose).sum().backward()
            for leaf, gradient in zip(leaves, expected, strict=True):
                assert torch.allclose(leaf.grad, gradient)

    @dear_test
    def test_vmap(self, shade: BlockSparseEpilogue, device: torch.device) -> None:
        pattern = drawn((64, 48), (16, 16), device)
        n = pattern.count
        x, values, bias, residual = (
            randn(*s, device=device) for s in [(3, 2, 4, 64), (3, n, 16, 16), (3, 48), (3, 4, 1)]
        )

        def ours(x: Tensor, values: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
            return shade(x, values, pattern, bias, 0.1, residual)

        def theirs(x: Tensor, values: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
            return shade_in_torch(product_in_torch(x, values, pattern, False), bias, 0.1, residual)

        for dims in [(0, None, 0, None), (None, None, 0, 0), (0, 0, None, 0), (None, 0, 0, None)]:
            for vector in (False, True):
                given = (x[:, 0, 0], values, bias, residual[:, 0]) if vector else (x, values, bias, residual)
                given = [t if d == 0 else t[0] for t, d in zip(given, dims, strict=True)]
                got = torch.vmap(ours, dims)(*given)
                products.assert_near(got, torch.vmap(theirs, dims)(*given), torch.float64, 2)

    @dear_test
    def test_vmap_of_batches_of_values(self, shade: BlockSparseEpilogue, device: torch.device) -> None:
        pattern = drawn((64, 48), (16, 16), device)
        shapes = [(3, 2, 4, 64), (3, 2, pattern.count, 16, 16), (3, 48)]
        x, values, bias = (randn(*s, device=device) for s in shapes)

        def ours(x: Tensor, values: Tensor, bias: Tensor) -> Tensor:
            return shade(x, values, pattern, bias, 0.1, 0.5)

        for dims in [(0, 0, 0), (None, 0, None), (0, None, 0)]:
            given = [t if d == 0 else t[0] for t, d in zip((x, values, bias), dims, strict=True)]
            expected = [ours(*(t[i] if d == 0 else t for t, d in zip(given, dims, strict=True))) for i in range(3)]
            products.assert_near(torch.vmap(ours, dims)(*given), torch.stack(expected), torch.float64)

    def test_gradients_under_vmap(self, shade: BlockSparseEpilogue, device: torch.device) -> None:
        pattern = drawn((64, 48), (16, 16), device)
        x, (_, values, bias, scale, residual) = randn(3, 5, 64, device=device), operands(pattern)

        def loss(op: Any, x: Tensor, values: Tensor) -> Tensor:
            return op(x, values, bias.detach(), residual.detach()).square().sum()

        def ours(x: Tensor, values: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
            return shade(x, values, pattern, bias, scale, residual)

        def theirs(x: Tensor, values: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
            return shade_in_torch(product_in_torch(x, values, pattern, False), bias, scale, residual)

        got, expected = (
            torch.vmap(torch.func.grad(lambda x, v, op=op: loss(op, x, v), argnums=(0, 1)), (0, None))(
                x, values.detach()
            )
            for op in (ours, theirs)
        )
        for one, other in zip(got, expected, strict=True):
            products.assert_near(one, other, torch.float64, 12)

    def test_autocast(self, shade: BlockSparseEpilogue, device: torch.device) -> None:
        pattern = drawn((64, 48), (16, 16), device)
        x, values, *arguments = all_values = operands(pattern, torch.float32)
        with torch.autocast(device.type, torch.bfloat16):
            result = shade(x, values, pattern, *arguments)
        half = [v.bfloat16() if isinstance(v, Tensor) else v for v in all_values]
        assert result.dtype == torch.bfloat16
        assert torch.equal(result, shade(half[0], half[1], pattern, *half[2:]))
        leaves = [v for v in all_values if isinstance(v, Tensor)]
        gradients = torch.autograd.grad(result.float().sum(), leaves)
        assert all(g.dtype == torch.float32 for g in gradients)

    def test_meta(self, shade: BlockSparseEpilogue) -> None:
        pattern = drawn((64, 48), (16, 16), torch.device("cpu"))
        values = operands(pattern, torch.float16, leading=(2, 3))
        x, blocks, *arguments = (v.detach().to("meta") if isinstance(v, Tensor) else v for v in values)
        y = shade(x, blocks, pattern.to("meta"), *arguments)
        assert (y.shape, y.dtype, y.is_meta) == ((2, 3, 48), torch.float16, True)

    @some_cases(1)
    @pytest.mark.skipif(not nvrtc_is_here(), reason="NVRTC is not installed")
    @pytest.mark.parametrize("kernel", ["linear_gelu_bias_block_sparse_mm", "linear_gelu_bias_block_sparse_mm_and_sum"])
    @pytest.mark.parametrize("tile", [128128, 64064])
    def test_sums_stay_in_a_gpus_registers(self, kernel: str, tile: int) -> None:
        path = Path(torch_slang.__file__).with_name("ops") / "epilogues" / "linear_gelu_bias_block_sparse.slang"
        module = torch_slang.load(path, namespace=f"test_epilogues_of_blocks_{tile}", defines={"TILE": tile})
        ptx = module._handle.cubin(kernel, "forward", ["bfloat16"], False, "compute_90a").decode(errors="replace")
        assert "wgmma.mma_async" in ptx
        assert "__local_depot" not in ptx


class TestMaking:
    def test_arguments_by_name(self, shade: BlockSparseEpilogue) -> None:
        pattern = drawn((64, 48), (16, 16), torch.device("cpu"))
        x, values, bias, scale, residual = operands(pattern)
        expected = shade(x, values, pattern, bias, scale, residual, 2)
        assert torch.equal(shade(x, values, pattern, bias, residual=residual, scale=scale), expected)

    def test_of_an_epilogue_of_the_dense_product(self) -> None:
        dense = torch_slang.matmul_with_epilogue(SHADE.replace("tint", "both"))
        sparse = torch_slang.block_sparse_mm_with_epilogue(dense)
        assert sparse.name == dense.name == "both"
        pattern = drawn((64, 48), (16, 16), torch.device("cpu"))
        values = operands(pattern)
        assert_agrees(sparse, shade_in_torch, pattern, values)
        x, blocks, *arguments = values
        expected = dense(x, pattern.to_dense(blocks), *arguments)
        products.assert_near(sparse(x, blocks, pattern, *arguments), expected, torch.float64)

    def test_an_edited_file_is_reloaded_and_earlier_callables_keep_theirs(self, tmp_path: Path) -> None:
        path = tmp_path / "edited_of_blocks.slang"
        pattern = drawn((64, 96), (32, 32), torch.device("cpu"))
        x, values, bias = operands(pattern, torch.float32)[:3]
        text = "[Differentiable] float edited_of_blocks(float sum, float bias) { return sum + bias; }"
        path.write_text(text)
        before = torch_slang.block_sparse_mm_with_epilogue(path)
        recorded = before(x, values, pattern, bias)
        path.write_text(text.replace("sum + bias", "sum - bias"))
        after = torch_slang.block_sparse_mm_with_epilogue(path)
        for result, sign in (
            (recorded, 1),
            (before(x, values, pattern, bias), 1),
            (after(x, values, pattern, bias), -1),
        ):
            expected = product_in_torch(x, values, pattern, False) + sign * bias
            products.assert_near(result, expected, torch.float32, 2, ROUNDING)
            assert torch.equal(torch.autograd.grad(result.sum(), bias)[0], torch.full((96,), 5.0 * sign))

    def test_a_namespace_of_its_own(self) -> None:
        op = torch_slang.block_sparse_mm_with_epilogue(SQUARE, namespace="test_epilogues")
        pattern = drawn((64, 96), (32, 32), torch.device("cpu"))
        x, values, bias = operands(pattern, torch.float32)[:3]
        assert op.name == "test_epilogues::squared"
        assert_agrees(op, square_in_torch, pattern, [x, values, bias])


class TestErrors:
    @pytest.mark.parametrize(
        ("source", "message"),
        [
            ("float f(float sum) { return sum; }", r"to be \[Differentiable\], but it is not"),
            (
                "[Differentiable] float f(float sum, float2 b) { return sum; }",
                "numbers as parameters, but b is a vector",
            ),
            (
                "[Differentiable] float f(float sum, float transpose) { return sum * transpose; }",
                "expected f to have no parameter named transpose, which is an argument of the product",
            ),
        ],
    )
    def test_wrong_signatures(self, source: str, message: str) -> None:
        with pytest.raises(TypeError, match=message) as error:
            torch_slang.block_sparse_mm_with_epilogue(source)
        assert "torch_slang.block_sparse_mm_with_epilogue: epilogue_" in str(error.value)

    def test_calls(self, shade: BlockSparseEpilogue, square: BlockSparseEpilogue) -> None:
        pattern = drawn((64, 48), (16, 16), torch.device("cpu"))
        x, values, bias, scale, residual = operands(pattern)
        for arguments, named, message in [
            ((bias, scale), {}, "missing residual"),
            ((bias, scale, residual, 1, 2), {}, "at most 7 arguments, but got 8"),
            ((bias, scale, residual), {"bios": bias}, "no argument bios"),
            ((bias, "x", residual), {}, "expected scale to be a tensor or a number, but got 'x'"),
        ]:
            with pytest.raises(TypeError, match=message):
                shade(x, values, pattern, *arguments, **named)
        with pytest.raises(TypeError, match="with_epilogue: expected pattern to be a BlockPattern, but got Tensor"):
            shade(x, values, pattern.mask(), bias, scale, residual)  # type: ignore[arg-type]
        where = r"slang::block_sparse_mm_with_epilogue\(tint\): "
        for given, message in [
            ((x, values, bias[:3], scale, residual), r"expected bias to broadcast to .* \[5, 48\], but got \[3\]"),
            ((x, values, bias, scale, residual[None]), r"expected residual to broadcast .*, but got \[1, 5, 48\]"),
            ((x, values, bias.float(), scale, residual), "bias to have dtype float64 like dense, but got float32"),
            ((x, values, bias.to("meta"), scale, residual), "bias to be on cpu like dense|dense is on cpu and bias"),
            ((x[:, :-1], values, bias, scale, residual), r"expected dense to have shape \[..., 64\]"),
            ((x, values[1:], bias, scale, residual), "expected values to have a block for each of the pattern's"),
            ((x, values.float(), bias, scale, residual), "expected values to have dtype float64|same dtype"),
        ]:
            with pytest.raises(RuntimeError, match=where + ".*" + f"({message})"):
                shade(given[0], given[1], pattern, *given[2:])
        with pytest.raises(RuntimeError, match="expected dense to have dtype float16, bfloat16 or float32, since"):
            square(x, values, pattern, bias)

    def test_operators(self, square: BlockSparseEpilogue) -> None:
        op = torch.ops.slang.block_sparse_mm_with_epilogue
        pattern = drawn((64, 96), (32, 32), torch.device("cpu"))
        x, values, bias = operands(pattern, torch.float32)[:3]
        rest = (x, values, pattern.tensors(), pattern.shape, False)
        with pytest.raises(RuntimeError, match=r"no epilogue is named 'missing'; .*block_sparse_mm_with_epilogue"):
            op("missing", *rest, [])
        with pytest.raises(RuntimeError, match=r"expected 1 argument \(bias\) behind dense and values, but got 2"):
            op(square.name, *rest, [bias, bias])
        with pytest.raises(RuntimeError, match="no epilogue is named"):  # what was made for the other product
            torch.ops.slang.matmul_with_epilogue(square.name + "_block_sparse", x, x.mT, [bias])

    def test_a_mapped_pattern_is_refused(self, square: BlockSparseEpilogue) -> None:
        pattern = drawn((64, 96), (32, 32), torch.device("cpu"))
        x, values, bias = (v.detach() for v in operands(pattern, torch.float32)[:3])
        indices = [one.expand(2, -1) for one in pattern.tensors()]

        def op(indices: list[Tensor]) -> Tensor:
            return torch.ops.slang.block_sparse_mm_with_epilogue(
                square.name, x, values, indices, pattern.shape, False, [bias]
            )

        with pytest.raises(RuntimeError, match="with_epilogue: expected one pattern for all that vmap maps over"):
            torch.vmap(op)(indices)
