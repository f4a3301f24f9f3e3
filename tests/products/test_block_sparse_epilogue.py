"""Values and gradients of torch_slang.block_sparse_mm_with_epilogue."""

from __future__ import annotations

from collections.abc import Callable

import products
import pytest
import torch
from block_sparse_epilogues import (
    SHADE,
    SQUARE,
    assert_agrees,
    assert_agrees_twice,
    drawn,
    operands,
    product_in_torch,
    randn,
    shade_in_torch,
    square_in_torch,
)
from long_tests import dear_file, dear_test, leave_to_long_tests_on_a_cpu, some_cases, some_tests
from torch.autograd import gradcheck, gradgradcheck

import torch_slang
from torch_slang import BlockPattern, BlockSparseEpilogue

Tensor = torch.Tensor
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
BLOCKS = [(16, 16), (32, 64), (128, 16), (64, 128)]

pytestmark = [pytest.mark.usefixtures("seeded", "the_first_tile"), some_tests(4), dear_file]


@pytest.fixture(scope="module")
def shade() -> BlockSparseEpilogue:
    return torch_slang.block_sparse_mm_with_epilogue(SHADE)


@pytest.fixture(scope="module")
def square() -> BlockSparseEpilogue:
    return torch_slang.block_sparse_mm_with_epilogue(SQUARE)


class TestValues:
    @some_cases(1)
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("block", BLOCKS, ids=str)
    def test_it_is_the_function_of_the_product(
        self, shade: BlockSparseEpilogue, block: tuple[int, int], dtype: torch.dtype, device: torch.device
    ) -> None:
        if BLOCKS.index(block) != DTYPES.index(dtype):  # types take turns with blocks
            leave_to_long_tests_on_a_cpu(device)
        pattern = drawn((3 * block[0], 4 * block[1]), block, device)
        for transpose in (False, True):
            assert_agrees(shade, shade_in_torch, pattern, operands(pattern, dtype, transpose), transpose)

    def test_a_function_of_float_takes_halves(self, square: BlockSparseEpilogue, device: torch.device) -> None:
        pattern = drawn((64, 96), (32, 32), device)
        x, values, bias = operands(pattern, torch.bfloat16)[:3]
        assert_agrees(square, square_in_torch, pattern, [x, values, bias])

    @some_cases(1)
    @pytest.mark.parametrize("shape", [(1, 1), (15, 33), (129, 200), (300, 64)], ids=str)
    @pytest.mark.parametrize("rows", [1, 130])
    def test_sizes_need_not_be_multiples_of_blocks(
        self, shade: BlockSparseEpilogue, shape: tuple[int, int], rows: int, device: torch.device
    ) -> None:
        for block in ((16, 32), (128, 64)):
            pattern = drawn(shape, block, device, 0.7)
            for transpose in (False, True):
                values = operands(pattern, torch.float32, transpose, (rows,))
                assert_agrees(shade, shade_in_torch, pattern, values, transpose)

    @dear_test
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    @pytest.mark.parametrize("kind", ["none", "full", "empty lines"])
    def test_the_function_of_zero_where_there_are_no_blocks(
        self, shade: BlockSparseEpilogue, kind: str, dtype: torch.dtype, device: torch.device
    ) -> None:
        mask = torch.full((4, 3), kind == "full", device=device)
        mask[1:3, 1] = kind != "none"
        pattern = BlockPattern.from_mask(mask, (32, 16), (120, 45))
        for transpose in (False, True):
            values = operands(pattern, dtype, transpose, (2, 3))
            assert_agrees(shade, shade_in_torch, pattern, values, transpose)

    def test_no_rows_and_no_batches(self, shade: BlockSparseEpilogue, device: torch.device) -> None:
        pattern = drawn((64, 48), (16, 16), device)
        for transpose in (False, True):
            for leading in ((0,), (3, 0), (0, 3)):
                values = operands(pattern, transpose=transpose, leading=leading)
                assert_agrees(shade, shade_in_torch, pattern, values, transpose)
        values = operands(pattern, leading=(0, 3))
        values[1] = randn(0, pattern.count, 16, 16, device=device).requires_grad_()
        assert_agrees(shade, shade_in_torch, pattern, values)

    def test_a_matrix_without_rows_gives_the_function_of_zero(
        self, square: BlockSparseEpilogue, device: torch.device
    ) -> None:
        columns = BlockPattern.from_mask(torch.zeros(1, 3, dtype=torch.bool, device=device), (16, 16)).tensors()[4:]
        none = torch.zeros(1, dtype=torch.int32, device=device)
        indices = [none, none[:0], none[:0], none[:0], *columns]
        x, values, bias = (randn(*s, dtype=torch.float32, device=device) for s in [(2, 5, 0), (0, 16, 16), (48,)])
        op = torch.ops.slang.block_sparse_mm_with_epilogue
        assert torch.equal(op(square.name, x, values, indices, [0, 48], False, [bias]), bias.expand(2, 5, 48))

    @dear_test
    @some_cases(1)
    @pytest.mark.parametrize(
        ("leading", "bias", "residual"),
        [
            ((), (48,), ()),
            ((4,), (4, 1), (1, 1)),
            ((2, 4), (48,), (2, 4, 48)),
            ((2, 4), (4, 1), (2, 1, 48)),
            ((3, 2, 4), (3, 1, 1, 48), (2, 4, 1)),
        ],
    )
    def test_arguments_broadcast(
        self,
        shade: BlockSparseEpilogue,
        leading: tuple[int, ...],
        bias: tuple[int, ...],
        residual: tuple[int, ...],
        device: torch.device,
    ) -> None:
        pattern = drawn((64, 48), (16, 16), device)
        values = operands(pattern, leading=leading)
        values[2], values[4] = (randn(*s, device=device).requires_grad_() for s in (bias, residual))
        assert_agrees(shade, shade_in_torch, pattern, values)

    def test_a_batch_of_values(self, shade: BlockSparseEpilogue, device: torch.device) -> None:
        pattern = drawn((64, 48), (16, 16), device)
        for leading in ((3,), (3, 4), (3, 2, 4)):
            values = operands(pattern, leading=leading)
            if len(leading) == 1:  # one row a matrix
                values[0] = randn(3, 1, 64, device=device).requires_grad_()
                values[4] = randn(3, 1, 48, device=device).requires_grad_()
            values[1] = randn(3, pattern.count, 16, 16, device=device).requires_grad_()
            assert_agrees(shade, shade_in_torch, pattern, values)

    def test_constants_and_integers_may_be_tensors(self, shade: BlockSparseEpilogue, device: torch.device) -> None:
        pattern = drawn((64, 48), (16, 16), device)
        times = torch.arange(48, dtype=torch.int32, device=device) % 3
        for dtype in (torch.float16, torch.float32):
            values = [*operands(pattern, torch.float16), times]
            values[3] = randn(5, 1, dtype=dtype, device=device)
            assert_agrees(shade, shade_in_torch, pattern, values)

    def test_any_strides(self, shade: BlockSparseEpilogue, device: torch.device) -> None:
        pattern = drawn((48, 48), (16, 16), device)
        x, values, bias, scale, residual = operands(pattern, leading=(48,))
        turned = [x.detach().mT, values.detach().mT, bias.detach().flip(0), scale, residual.detach().mT]
        turned = [one.requires_grad_() if isinstance(one, Tensor) else one for one in turned]
        assert_agrees(shade, shade_in_torch, pattern, turned)

    @some_cases(1)
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    @pytest.mark.parametrize("columns", [256, 132, 131])  # of whole tiles, of whole vectors, neither
    def test_arguments_that_lie_in_vectors_or_not(
        self, shade: BlockSparseEpilogue, dtype: torch.dtype, columns: int, device: torch.device
    ) -> None:
        for block in ((64, 128), (16, 16)):
            pattern = drawn((64, columns), block, device, 0.6)
            x, values, *_ = operands(pattern, dtype, leading=(130,))
            row = randn(130, 1, dtype=dtype, device=device)
            more, long = (randn(*s, dtype=dtype, device=device) for s in [(130, columns + 4), (2 * columns + 2,)])
            for bias, scale, residual in [
                (long[:columns], long[2 : columns + 2], more[:, :columns]),
                (long[1 : columns + 1], row, more[:, 3:-1]),
                (long[:-2:2], long[:columns], more.mT[2:-2].contiguous().mT),
            ]:
                assert_agrees(shade, shade_in_torch, pattern, [x, values, bias, scale, residual])

    def test_results_are_the_same_to_the_bit(self, shade: BlockSparseEpilogue, device: torch.device) -> None:
        pattern = drawn((256, 256), (32, 32), device)
        values = operands(pattern, torch.bfloat16, leading=(65,))
        first, *others = (shade(values[0], values[1], pattern, *values[2:]) for _ in range(3))
        assert all(torch.equal(first, other) for other in others)


class TestGradients:
    @dear_test
    @pytest.mark.parametrize("transpose", [False, True])
    def test_gradcheck(self, shade: BlockSparseEpilogue, transpose: bool) -> None:
        pattern = drawn((20, 36), (16, 16), torch.device("cpu"), 0.5)
        x, values, bias, scale, residual = operands(pattern, transpose=transpose, leading=(2,))
        inside = pattern.from_dense(torch.ones(pattern.shape, dtype=torch.float64))  # zero outside

        def op(x: Tensor, values: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
            return shade(x, values * inside, pattern, bias, scale, residual, transpose=transpose)

        assert gradcheck(op, (x, values, bias, residual), nondet_tol=0.0)

    @pytest.mark.parametrize("only", range(4))
    def test_frozen_inputs(self, shade: BlockSparseEpilogue, only: int, device: torch.device) -> None:
        pattern = drawn((64, 48), (16, 16), device)
        values = operands(pattern)
        for i, place in enumerate((0, 1, 2, 4)):
            values[place].requires_grad_(i == only)
        assert_agrees(shade, shade_in_torch, pattern, values)

    def test_nothing_is_recorded_where_nothing_wants_a_gradient(
        self, shade: BlockSparseEpilogue, device: torch.device
    ) -> None:
        pattern = drawn((64, 48), (16, 16), device)
        x, values, *arguments = (v.detach() if isinstance(v, Tensor) else v for v in operands(pattern))
        arguments[1] = torch.tensor(0.1, dtype=torch.float64, device=device, requires_grad=True)  # no_diff
        assert not shade(x, values, pattern, *arguments).requires_grad
        with torch.no_grad(), products.Recorded() as recorded:
            shade(x.requires_grad_(), values, pattern, *arguments)
        assert "slang.block_sparse_mm_with_epilogue.default" in [name for name, _ in recorded.calls]  # no sums

    @pytest.mark.parametrize(
        "grad",
        [
            lambda y: torch.ones((), dtype=y.dtype, device=y.device).expand_as(y),
            lambda y: randn(*y.shape[::-1], device=y.device).permute(2, 1, 0),
            lambda y: randn(y.size(1), 1, device=y.device).expand_as(y),
        ],
    )
    def test_gradients_of_results_may_lie_anyhow(
        self, shade: BlockSparseEpilogue, grad: Callable[[Tensor], Tensor], device: torch.device
    ) -> None:
        pattern = drawn((64, 48), (16, 16), device)
        assert_agrees(shade, shade_in_torch, pattern, operands(pattern, leading=(3, 5)), grad=grad)

    @pytest.mark.parametrize("transpose", [False, True])
    def test_second_derivatives_and_forward_mode(
        self, shade: BlockSparseEpilogue, transpose: bool, device: torch.device
    ) -> None:
        pattern = drawn((20, 36), (16, 16), device, 0.3)
        x, values, bias, scale, residual = operands(pattern, transpose=transpose, leading=(2,))
        inside = pattern.from_dense(torch.ones(pattern.shape, dtype=torch.float64, device=device))  # zero outside

        def op(x: Tensor, values: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
            return shade(x, values * inside, pattern, bias, scale, residual, transpose=transpose)

        inputs = (x, values, bias, residual)
        assert gradcheck(op, inputs, check_forward_ad=True, fast_mode=True)
        assert gradgradcheck(op, inputs, check_fwd_over_rev=True, fast_mode=True)

    @dear_test
    @some_cases(3)
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("transpose", [False, True])
    def test_second_derivatives_beside_torch(
        self, shade: BlockSparseEpilogue, transpose: bool, dtype: torch.dtype, device: torch.device
    ) -> None:
        pattern = drawn((64, 48), (16, 16), device)
        assert_agrees_twice(shade, shade_in_torch, pattern, operands(pattern, dtype, transpose), transpose)

    @pytest.mark.parametrize("only", range(4))
    def test_second_derivatives_of_frozen_inputs(
        self, shade: BlockSparseEpilogue, only: int, device: torch.device
    ) -> None:
        pattern = drawn((64, 48), (16, 16), device)
        values = operands(pattern)
        for i, place in enumerate((0, 1, 2, 4)):
            values[place].requires_grad_(i == only)
        assert_agrees_twice(shade, shade_in_torch, pattern, values)

    @pytest.mark.parametrize("block", [(16, 32), (64, 32)], ids=str)
    def test_tangents_beside_torch(
        self, shade: BlockSparseEpilogue, block: tuple[int, int], device: torch.device
    ) -> None:
        pattern = drawn((130, 70), block, device)
        x, blocks, bias, scale, residual = (
            v.detach() if isinstance(v, Tensor) else v for v in operands(pattern, leading=(2, 3))
        )
        primals = (x, blocks, bias, residual)
        tangents = tuple(torch.randn_like(one) for one in primals)

        def ours(x: Tensor, blocks: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
            return shade(x, blocks, pattern, bias, scale, residual)

        def theirs(x: Tensor, blocks: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
            return shade_in_torch(product_in_torch(x, blocks, pattern, False), bias, scale, residual)

        torch.testing.assert_close(
            torch.func.jvp(ours, primals, tangents), torch.func.jvp(theirs, primals, tangents), rtol=1e-12, atol=1e-12
        )

    def test_a_pattern_that_was_changed_in_place_is_refused(self, square: BlockSparseEpilogue) -> None:
        pattern = drawn((64, 96), (32, 32), torch.device("cpu"))
        indices = [one.clone() for one in pattern.tensors()]
        x, values, bias = operands(pattern, torch.float32)[:3]
        y = torch.ops.slang.block_sparse_mm_with_epilogue(square.name, x, values, indices, pattern.shape, False, [bias])
        indices[0].add_(0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
