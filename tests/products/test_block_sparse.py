"""Block-sparse products beside dense ones of the same matrix."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from cases import nvrtc_is_here
from devices import DEVICES
from long_tests import dear_test, leave_to_long_tests_on_a_cpu, some_cases, some_tests
from torch._dynamo.testing import CompileCounterWithBackend
from torch.library import opcheck

import torch_slang
from torch_slang import BlockPattern, block_sparse_mm, block_sparse_sdd

pytestmark = [pytest.mark.usefixtures("seeded"), some_tests(6)]

Tensor = torch.Tensor
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
# Of one term of a sum: its rounding, and that of the result. (Sums of halves are floats.)
UNIT = {torch.float16: 2**-11, torch.bfloat16: 2**-8, torch.float32: 2**-24, torch.float64: 2**-53}
BLOCKS = [(16, 16), (32, 64), (64, 32), (128, 16), (64, 64), (128, 128)]
mm, sdd = torch.ops.slang.block_sparse_mm, torch.ops.slang.block_sparse_sdd


def drawn(shape: tuple[int, int], block: tuple[int, int], density: float = 0.4, device: str = "cpu") -> BlockPattern:
    return BlockPattern.random(shape, block, density, torch.Generator().manual_seed(3), device=device)


def values_of(pattern: BlockPattern, dtype: torch.dtype = torch.float64, batch: tuple[int, ...] = ()) -> Tensor:
    return torch.randn(*batch, pattern.count, *pattern.block_shape, dtype=dtype, device=pattern.device)


def check(got: Tensor, a: Tensor, b: Tensor, expected: Tensor | None = None) -> None:
    """Of ``a @ b``, or what `expected` has of it: each element is as near as its terms and its rounding let it be."""
    wide = a.double() @ b.double() if expected is None else expected
    bound = a.double().abs() @ b.double().abs() if expected is None else wide.abs() + wide.abs().max()
    unit = UNIT[got.dtype]
    summed = 2**-24 if got.dtype != torch.float64 else unit
    allowed = unit * wide.abs() + 4 * summed * a.shape[-1] ** 0.5 * bound + 1e-30
    assert got.shape == wide.shape
    assert ((got.double() - wide).abs() <= 2 * allowed).all()


@some_cases(6)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_products_are_those_of_the_dense_matrix(block: tuple[int, int], dtype: torch.dtype, device: str) -> None:
    if (BLOCKS.index(block) + DTYPES.index(dtype)) % len(DTYPES):  # types take turns with blocks
        leave_to_long_tests_on_a_cpu(device)
    pattern = drawn((3 * block[0], 5 * block[1]), block, device=device)
    values = values_of(pattern, dtype)
    dense = pattern.to_dense(values)
    x, z = (torch.randn(2, 37, size, dtype=dtype, device=device) for size in pattern.shape)
    check(block_sparse_mm(x, values, pattern), x, dense)
    check(block_sparse_mm(z, values, pattern, transpose=True), z, dense.mT)
    check(block_sparse_mm(z.mT, values, pattern, left=True), dense, z.mT)
    check(block_sparse_mm(x.mT, values, pattern, transpose=True, left=True), dense.mT, x.mT)
    a, b = x[0].mT, z[0]
    sampled = block_sparse_sdd(a, b, pattern)
    check(pattern.to_dense(sampled), a, b * 1, (a.double() @ b.double()) * pattern.element_mask())


@some_cases(4)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("block", [(16, 16), (32, 32), (64, 64), (16, 128), (128, 32), (32, 16)], ids=str)
@pytest.mark.parametrize("density", [0.05, 0.6])
def test_many_lines_of_blocks_and_rows(density: float, block: tuple[int, int], device: str) -> None:
    pattern = drawn((11 * block[0], 13 * block[1] - 8), block, density, device=device)
    values = values_of(pattern, torch.bfloat16, (2,))
    dense = torch.stack([pattern.to_dense(one) for one in values])
    x, z = (torch.randn(2, 1100, size, dtype=torch.bfloat16, device=device) for size in pattern.shape)
    check(block_sparse_mm(x, values, pattern), x, dense)
    check(block_sparse_mm(z, values, pattern, transpose=True), z, dense.mT)


SHAPES = [(1, 1), (15, 33), (129, 200), (300, 64)]


@some_cases(2)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rows", [1, 64, 130])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("block", [(16, 32), (128, 64)], ids=str)
def test_shapes_need_not_be_multiples_of_blocks(
    block: tuple[int, int], shape: tuple[int, int], rows: int, device: str
) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        pattern = drawn(shape, block, 0.7, device)
        values = values_of(pattern, dtype)
        dense = pattern.to_dense(values)
        x, z = (torch.randn(rows, size, dtype=dtype, device=device) for size in shape)
        check(block_sparse_mm(x, values, pattern), x, dense)
        check(block_sparse_mm(z, values, pattern, True), z, dense.mT)
        blocks = block_sparse_sdd(x.mT, z, pattern)
        check(pattern.to_dense(blocks), x.mT, z, (x.mT.double() @ z.double()) * pattern.element_mask())
        torch.testing.assert_close(
            pattern.from_dense(pattern.to_dense(blocks)), blocks, rtol=0, atol=0
        )  # outside: zero


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("kind", ["none", "full", "empty rows", "one row", "triangle"])
def test_patterns_of_all_kinds(kind: str, dtype: torch.dtype, device: str) -> None:
    mask = torch.zeros(6, 7, dtype=torch.bool)
    if kind == "full":
        mask[:] = True
    elif kind == "empty rows":
        mask[1::2, 2] = True
    elif kind == "one row":
        mask[3] = True
    elif kind == "triangle":
        mask = torch.ones(6, 7, dtype=torch.bool).tril()
    pattern = BlockPattern.from_mask(mask.to(device), (32, 64))
    values = values_of(pattern, dtype)
    dense = pattern.to_dense(values)
    x, z = (torch.randn(70, size, dtype=dtype, device=device) for size in pattern.shape)
    check(block_sparse_mm(x, values, pattern), x, dense)
    check(block_sparse_mm(z, values, pattern, True), z, dense.mT)
    sampled = block_sparse_sdd(x.mT, z, pattern)
    check(pattern.to_dense(sampled), x.mT, z, (x.mT.double() @ z.double()) * pattern.element_mask())


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_infinite_in_a_missing_block_does_not_spread(device: str) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        for block in ((16, 16), (32, 32), (64, 64)):
            pattern = BlockPattern.from_mask(torch.eye(4, dtype=torch.bool, device=device), block)
            values = values_of(pattern, dtype)
            x = torch.randn(5, 4 * block[0], dtype=dtype, device=device)
            expected = block_sparse_mm(x, values, pattern)
            x[:, : block[0]] = torch.inf
            got = block_sparse_mm(x, values, pattern)
            assert torch.equal(got[:, block[1] :], expected[:, block[1] :])


@pytest.mark.parametrize("device", DEVICES)
def test_strides_and_leading_dimensions(device: str) -> None:
    pattern = drawn((96, 80), (32, 16), device=device)
    values = values_of(pattern)
    dense = pattern.to_dense(values)
    base = torch.randn(4, 96, 3, 5, dtype=torch.float64, device=device)
    for x in (
        base.permute(0, 2, 3, 1),
        base[0, :, 0, 0],
        base.permute(2, 0, 3, 1)[::2, :, ::2],
        base[:0].permute(0, 2, 3, 1),
    ):
        torch.testing.assert_close(block_sparse_mm(x, values, pattern), x @ dense)
    flipped = values.flip(0).transpose(1, 2).contiguous().transpose(1, 2).flip(0)
    torch.testing.assert_close(block_sparse_mm(base[0, :, 0].mT, flipped, pattern), base[0, :, 0].mT @ dense)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("block", [(32, 32), (64, 64), (128, 128)], ids=str)
@pytest.mark.parametrize("transpose", [False, True])
def test_where_values_lie_does_not_matter(transpose: bool, block: tuple[int, int], device: str) -> None:
    pattern = drawn((4 * block[0], 4 * block[1]), block, device=device)
    values = values_of(pattern, torch.bfloat16)
    x = torch.randn(70, pattern.shape[1 if transpose else 0], dtype=torch.bfloat16, device=device)
    expected = block_sparse_mm(x, values, pattern, transpose)
    behind_one = torch.empty(values.numel() + 1, dtype=values.dtype, device=device)[1:].view(values.shape).copy_(values)
    apart = torch.empty(*values.shape, 2, dtype=values.dtype, device=device)[..., 1].copy_(values)
    padded = torch.empty(*values.shape[:2], block[1] + 3, dtype=values.dtype, device=device)[..., : block[1]].copy_(
        values
    )
    for other in (behind_one, apart, padded):
        torch.testing.assert_close(block_sparse_mm(x, other, pattern, transpose), expected, rtol=0, atol=0)


@pytest.mark.parametrize("device", DEVICES)
def test_batches_of_values(device: str) -> None:
    pattern = drawn((96, 80), (32, 16), device=device)
    values = values_of(pattern, batch=(3,))
    dense = pattern.to_dense(values)
    x = torch.randn(3, 2, 7, 96, dtype=torch.float64, device=device)
    torch.testing.assert_close(block_sparse_mm(x, values, pattern), x @ dense[:, None])
    blocks = block_sparse_sdd(x[:, 0].mT, x[:, 1, :, :80], pattern)
    torch.testing.assert_close(pattern.to_dense(blocks), (x[:, 0].mT @ x[:, 1, :, :80]) * pattern.element_mask())


def cases(device: str) -> Iterator[tuple[str, object, tuple[Tensor, ...]]]:
    pattern = drawn((43, 29), (16, 32), 0.6, device)
    shape, tensors = pattern.shape, pattern.tensors()

    def random(*sizes: int) -> Tensor:
        return torch.randn(*sizes, dtype=torch.float64, device=device, requires_grad=True)

    values = random(pattern.count, 16, 32)
    yield "mm", lambda x, v: mm(x, v, tensors, shape, False), (random(2, 3, 43), values)
    yield "mm transposed", lambda x, v: mm(x, v, tensors, shape, True), (random(4, 29), values)
    yield "mm of a vector", lambda x, v: mm(x, v, tensors, shape, True), (random(29), values)
    yield (
        "mm of batches",
        lambda x, v: mm(x, v, tensors, shape, True),
        (random(2, 3, 29), random(2, pattern.count, 16, 32)),
    )
    yield "sdd", lambda a, b: sdd(a, b, tensors, shape, [16, 32]), (random(43, 5), random(5, 29))
    yield "sdd of batches", lambda a, b: sdd(a, b, tensors, shape, [16, 32]), (random(2, 43, 5), random(2, 5, 29))


NAMES = ["mm", "mm transposed", "mm of a vector", "mm of batches", "sdd", "sdd of batches"]


@dear_test
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", NAMES)
def test_derivatives_of_first_and_second_order(name: str, device: str) -> None:
    _, function, inputs = next(case for case in cases(device) if case[0] == name)
    assert torch.autograd.gradcheck(
        function,
        inputs,
        fast_mode=True,
        check_forward_ad=True,
        check_batched_grad=True,
        check_batched_forward_grad=True,
    )
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("transpose", [False, True])
def test_gradients_are_those_of_the_dense_product(transpose: bool, device: str) -> None:
    pattern = drawn((100, 72), (32, 16), device=device)
    depth, width = pattern.shape[::-1] if transpose else pattern.shape
    for needs in ((True, True), (True, False), (False, True)):
        x = torch.randn(3, 9, depth, dtype=torch.float64, device=device, requires_grad=needs[0])
        values = values_of(pattern).requires_grad_(needs[1])
        dense = pattern.to_dense(values)
        wanted = [tensor for tensor, need in zip((x, values), needs, strict=True) if need]
        expanded = torch.randn(1, 9, 1, dtype=torch.float64, device=device).expand(3, 9, width)
        turned = torch.randn(width, 9, 3, dtype=torch.float64, device=device).permute(2, 1, 0)
        for grad in (expanded, turned):
            expected = torch.autograd.grad(x @ (dense.mT if transpose else dense), wanted, grad, retain_graph=True)
            got = torch.autograd.grad(block_sparse_mm(x, values, pattern, transpose), wanted, grad)
            for one, other in zip(got, expected, strict=True):
                torch.testing.assert_close(one, other)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", NAMES)
def test_operators_are_proper(name: str, device: str) -> None:
    pattern = drawn((43, 29), (16, 32), 0.6, device)
    _, _, (first, second) = next(case for case in cases(device) if case[0] == name)
    if name.startswith("mm"):
        opcheck(mm.default, (first, second, pattern.tensors(), pattern.shape, name != "mm"))
    else:
        opcheck(sdd.default, (first, second, pattern.tensors(), pattern.shape, [16, 32]))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_without_breaks(backend: str, device: str) -> None:
    pattern = drawn((64, 96), (32, 32), device=device)
    x, values = torch.randn(5, 96, device=device), values_of(pattern, torch.float32).requires_grad_()

    def loss(x: Tensor, values: Tensor) -> Tensor:
        return block_sparse_mm(x, values, pattern, transpose=True).sin().sum()

    compiled = torch.compile(loss, backend=backend, fullgraph=True)
    got = torch.autograd.grad(compiled(x, values), values)
    torch.testing.assert_close(got, torch.autograd.grad(loss(x, values), values))


@dear_test
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", NAMES)
def test_compiled_autograd(name: str, device: str) -> None:
    _, function, inputs = next(case for case in cases(device) if case[0] == name)
    expected = torch.autograd.grad(function(*inputs).sin().sum(), inputs)
    counter = CompileCounterWithBackend("aot_eager")
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend=counter, fullgraph=True)):
        function(*inputs).sin().sum().backward()
    assert sum("block_sparse" in node.name for graph in counter.graphs for node in graph.graph.nodes) > 0
    for tensor, gradient in zip(inputs, expected, strict=True):
        torch.testing.assert_close(tensor.grad, gradient)


@pytest.mark.parametrize("device", DEVICES)
def test_no_rows(device: str) -> None:
    pattern = drawn((43, 29), (16, 32), 0.6, device)
    for leading, batch in (((0,), ()), ((2, 0), ()), ((0, 3), (0,)), ((2, 0), (2,))):
        x = torch.randn(*leading, 43, device=device, requires_grad=True)
        values = values_of(pattern, torch.float32, batch).requires_grad_()
        y = block_sparse_mm(x, values, pattern)
        assert y.shape == (*leading, 29)
        of_x, of_values = torch.autograd.grad(y.sum(), (x, values))
        assert of_x.shape == x.shape
        assert not of_values.any()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_what_is_infinite_does_not_reach_outside(dtype: torch.dtype, device: str) -> None:
    pattern = BlockPattern.full((40, 70), (64, 64), device=device)
    a, b = torch.randn(40, 9, dtype=dtype, device=device), torch.randn(9, 70, dtype=dtype, device=device)
    a[3], b[:, 5] = torch.inf, -torch.inf
    blocks = block_sparse_sdd(a, b, pattern)
    inside = pattern.from_dense(torch.ones(40, 70, dtype=torch.bool, device=device))
    assert not blocks[~inside].any()
    expected = (a.float() @ b.float()).to(dtype)  # some processors' products of bfloat16 spread a NaN to other columns
    torch.testing.assert_close(pattern.to_dense(blocks), expected, equal_nan=True, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("device", DEVICES)
def test_long_lines(device: str) -> None:
    """More blocks than the lanes of a warp read at once, and depths that are no multiple of a step."""
    for shape, block in (((64, 64 * 70), (64, 64)), ((130, 32 * 41), (128, 32)), ((64, 128 * 40 + 7), (64, 128))):
        pattern = BlockPattern.full(shape, block, device=device)
        for dtype in (torch.bfloat16, torch.float32):
            values = values_of(pattern, dtype)
            values = pattern.from_dense(pattern.to_dense(values))
            z = torch.randn(150, shape[1], dtype=dtype, device=device)
            check(block_sparse_mm(z, values, pattern, True), z, pattern.to_dense(values).mT)


@pytest.mark.parametrize("device", DEVICES)
def test_vmap_is_a_loop(device: str) -> None:
    pattern = drawn((43, 29), (16, 32), 0.6, device)
    x = torch.randn(4, 6, 29, dtype=torch.float64, device=device)
    values = values_of(pattern, batch=(4,))

    def product(x: Tensor, values: Tensor) -> Tensor:
        return block_sparse_mm(x, values, pattern, transpose=True)

    both = torch.stack([product(*pair) for pair in zip(x, values, strict=True)])
    torch.testing.assert_close(torch.vmap(product)(x, values), both)
    torch.testing.assert_close(torch.vmap(product, (1, None))(x, values[0]), product(x.transpose(0, 1), values[0]))
    torch.testing.assert_close(
        torch.vmap(product, (None, 0), 1)(x[0], values), torch.vmap(product, (None, 0))(x[0], values).transpose(0, 1)
    )
    nested = torch.vmap(torch.vmap(product), (None, 0))(x, values.expand(2, *values.shape))
    torch.testing.assert_close(nested, both.expand(2, *both.shape))
    per_sample = torch.vmap(torch.func.grad(lambda v, x: product(x, v).square().sum()), (None, 0))(values[0], x)
    for one, row in zip(per_sample, x, strict=True):
        torch.testing.assert_close(one, torch.func.grad(lambda v: product(row, v).square().sum())(values[0]))  # noqa: B023
    sampled = torch.vmap(lambda a, b: block_sparse_sdd(a, b, pattern), (0, None))(
        torch.randn(3, 43, 5, dtype=torch.float64, device=device),
        torch.randn(5, 29, dtype=torch.float64, device=device),
    )
    assert sampled.shape == (3, pattern.count, 16, 32)


@pytest.mark.parametrize("device", DEVICES)
def test_autocast_casts_operands(device: str) -> None:
    pattern = drawn((64, 32), (32, 32), device=device)
    values = values_of(pattern, torch.float32)
    with torch.autocast(device, torch.bfloat16):
        y = block_sparse_mm(torch.randn(3, 64, device=device), values, pattern)
        assert y.dtype == torch.bfloat16
        assert (
            block_sparse_sdd(torch.randn(64, 5, device=device), torch.randn(5, 32, device=device), pattern).dtype
            == y.dtype
        )


@pytest.mark.parametrize("device", DEVICES)
def test_results_are_the_same_from_run_to_run(device: str) -> None:
    pattern = drawn((512, 512), (32, 32), device=device)
    for dtype in (torch.float32, torch.bfloat16):
        x, values = torch.randn(300, 512, dtype=dtype, device=device), values_of(pattern, dtype)
        first = block_sparse_mm(x, values, pattern)
        blocks = block_sparse_sdd(x.mT, x, pattern)
        for _ in range(3):
            assert torch.equal(block_sparse_mm(x, values, pattern), first)
            assert torch.equal(block_sparse_sdd(x.mT, x, pattern), blocks)


def test_operands_that_do_not_fit_are_refused() -> None:
    pattern = drawn((64, 96), (32, 32))
    x, values = torch.randn(5, 64), values_of(pattern, torch.float32)
    count = pattern.count

    def refused(message: str, *arguments: object, **options: object) -> None:
        with pytest.raises(RuntimeError, match=message):
            block_sparse_mm(*arguments, **options)  # type: ignore[arg-type]

    refused(r"expected dense to have shape \[..., 64\], .* but got \[5, 65\]", torch.randn(5, 65), values, pattern)
    refused(
        r"expected dense to have shape \[..., 96\], .* that is transposed, but got \[5, 64\]", x, values, pattern, True
    )
    refused(f"expected values to have a block for each of the pattern's {count}, but got", x, values[1:], pattern)
    refused(r"expected values to have the pattern's blocks \[32, 32\], but got shape", x, values[:, :16], pattern)
    refused("expected values to have dtype float32 like dense, but got float64", x, values.double(), pattern)
    refused(
        "expected dense to have dtype float16, bfloat16, float32 or float64, but got int64",
        x.long(),
        values.long(),
        pattern,
    )
    refused(r"expected values to have shape \[n, r, c\]", x, values[0], pattern)
    refused("expected the pattern to be on meta", x.to("meta"), values.to("meta"), pattern)
    refused(r"expected dense to have shape \[3, ..., 64\] like values", x, values.expand(3, *values.shape), pattern)
    refused("expected x to have at least 2 dimensions", x[0], values, pattern, left=True)
    for blocks, message in [
        (values[:, :16], "expected row_offsets of the pattern to have 5 elements"),
        (values[:, :8], r"expected blocks of 16, 32, 64 or 128 rows and columns, but got \[8, 32\]"),
    ]:
        with pytest.raises(RuntimeError, match=message):
            mm(x, blocks.contiguous(), pattern.tensors(), pattern.shape, False)
    with pytest.raises(RuntimeError, match="expected pattern to be the 8 tensors"):
        mm(x, values, pattern.tensors()[1:], pattern.shape, False)
    with pytest.raises(
        RuntimeError, match=r"expected columns of the pattern to be a tensor of int32 with one dimension"
    ):
        mm(
            x,
            values,
            [tensor.long() if i == 1 else tensor for i, tensor in enumerate(pattern.tensors())],
            pattern.shape,
            False,
        )
    with pytest.raises(TypeError, match="expected pattern to be a BlockPattern, but got list"):
        block_sparse_mm(x, values, pattern.tensors())  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match=r"expected a to have shape \[64, K\]"):
        block_sparse_sdd(torch.randn(63, 5), torch.randn(5, 96), pattern)
    with pytest.raises(
        RuntimeError, match=r"expected b to have shape \[K, in\] with K = 5 and in = 96, but got \[4, 96\]"
    ):
        block_sparse_sdd(torch.randn(64, 5), torch.randn(4, 96), pattern)
    with pytest.raises(RuntimeError, match="expected one pattern for all that vmap maps over"):
        torch.vmap(lambda p: mm(x, values, [p, *pattern.tensors()[1:]], pattern.shape, False))(
            pattern.row_offsets.expand(2, -1)
        )


@some_cases(1)
@pytest.mark.skipif(not nvrtc_is_here(), reason="NVRTC is not installed")
@pytest.mark.parametrize(
    ("suffix", "dtype", "architecture"), [("", "bfloat16", "sm_90"), ("_wide", "float32", "sm_80")]
)
@pytest.mark.parametrize("kernel", ["product", "sampled"])
def test_kernels_compile_for_a_gpu(kernel: str, suffix: str, dtype: str, architecture: str) -> None:
    name = "block_sparse.slang" if kernel == "product" else f"block_sparse_{kernel}.slang"
    module = torch_slang.load(Path(torch_slang.__file__).parent / "ops" / name, namespace="block_sparse_compiled")
    cubin = module._handle.cubin(f"block_sparse_{kernel}{suffix}", "forward", [dtype], True, architecture)
    assert cubin.startswith(b"\x7fELF")


@some_cases(1)
@pytest.mark.skipif(not nvrtc_is_here(), reason="NVRTC is not installed")
@pytest.mark.parametrize(("block", "dtype"), [("16_128", "float16"), ("32_32", "bfloat16"), ("64_16", "float16")])
def test_kernels_of_lines_compile_for_hopper(block: str, dtype: str) -> None:
    file = Path(torch_slang.__file__).parent / "ops" / "block_sparse_lines.slang"
    module = torch_slang.load(file, namespace="block_sparse_lines_compiled")
    cubin = module._handle.cubin(f"block_sparse_lines_{block}", "forward", [dtype], True, "sm_90a")
    assert cubin.startswith(b"\x7fELF")
