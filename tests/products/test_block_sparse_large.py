"""Block-sparse products that are larger than kernels can count, or than one launch: refused, or made in parts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from devices import DEVICES
from long_tests import dear_test

import torch_slang
from torch_slang import _C, BlockPattern

Tensor = torch.Tensor


@pytest.fixture
def few_tiles() -> Iterator[None]:
    before = _C.set_most_tiles(3)
    yield
    _C.set_most_tiles(before)


def pattern_of(device: str, block_shape: tuple[int, int] = (16, 32)) -> BlockPattern:
    generator = torch.Generator().manual_seed(0)
    return BlockPattern.random((80, 96), block_shape, 0.6, generator=generator, device=device)


# --- more tiles than a launch has


@pytest.mark.usefixtures("few_tiles")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("leading", [(300,), (5, 70)], ids=str)
def test_products_of_many_tiles_are_made_in_parts(
    leading: tuple[int, ...], transpose: bool, dtype: torch.dtype, device: str
) -> None:
    pattern = pattern_of(device, (128, 32))  # one line of blocks: 2 tiles for each 64 rows
    x = torch.randn(*leading, pattern.shape[transpose], device=device, dtype=dtype)
    values = torch.randn(pattern.count, *pattern.block_shape, device=device, dtype=dtype)
    if not transpose:
        pattern = BlockPattern.full((80, 96), (16, 32), device)
        values = torch.randn(pattern.count, 16, 32, device=device, dtype=dtype)
    y = torch_slang.block_sparse_mm(x, values, pattern, transpose)
    dense = pattern.to_dense(values).double()
    torch.testing.assert_close(y.double(), x.double() @ (dense.mT if transpose else dense), rtol=2e-3, atol=2e-2)


@dear_test
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("batch", [1, 5])
def test_parts_give_what_one_launch_gives(batch: int, device: str) -> None:
    pattern = BlockPattern.full((32, 32), (16, 16), device)
    x = torch.randn(batch, 200, 32, device=device)
    values = torch.randn(batch, pattern.count, 16, 16, device=device)
    a, b = torch.randn(batch, 32, 50, device=device), torch.randn(batch, 50, 32, device=device)
    op = torch_slang.block_sparse_mm_with_epilogue(
        "[Differentiable] T f<T : __BuiltinFloatingPointType>(T sum, T scale, T other) { return sum * scale + other; }"
    )
    scale, other = torch.randn(200, 1, device=device), torch.randn(batch, 1, 32, device=device, requires_grad=True)

    def results() -> list[Tensor]:
        y = op(x, values, pattern, scale, other)
        products = [torch_slang.block_sparse_mm(x, values, pattern), torch_slang.block_sparse_mm(x, values[0], pattern)]
        return [
            *products,
            torch_slang.block_sparse_sdd(a, b, pattern),
            y.detach(),
            *torch.autograd.grad(y.sum(), other),
        ]

    whole = results()
    before = _C.set_most_tiles(3)
    try:
        parts = results()
    finally:
        _C.set_most_tiles(before)
    for one, expected in zip(parts, whole, strict=True):
        assert torch.equal(one, expected)


@pytest.mark.usefixtures("few_tiles")
@pytest.mark.parametrize("device", DEVICES)
def test_one_row_of_too_many_tiles_is_refused(device: str) -> None:
    pattern = BlockPattern.full((16, 64), (16, 16), device)
    x, values = torch.randn(1, 16, device=device), torch.randn(4, 16, 16, device=device)
    with pytest.raises(
        RuntimeError, match=r"slang::block_sparse_mm: expected at most 3 tiles beside each other .*, but got 4"
    ):
        torch_slang.block_sparse_mm(x, values, pattern)


# --- more than int32 counts


def repeated(count: int) -> Tensor:
    return torch.zeros(1, dtype=torch.int32).expand(count)


def tensors_of(shape: tuple[int, int], count: int, block: int = 16) -> list[Tensor]:
    """Of a pattern that nobody could store."""
    rows, columns = (-(-size // block) for size in shape)
    return [repeated(n) for n in (rows + 1, count, count, rows, columns + 1, count, count, columns)]


def zeros(*sizes: int) -> Tensor:
    return torch.zeros(1).expand(sizes)


def test_more_than_kernels_count_is_refused_before_anything_is_allocated() -> None:
    mm, sdd = torch.ops.slang.block_sparse_mm, torch.ops.slang.block_sparse_sdd
    small, many = (32, 32), 2**31
    indices = tensors_of(small, 4)
    for call, message in [
        (lambda: mm(zeros(many, 32), zeros(4, 16, 16), indices, small), "2147483647 rows of dense, .* got 2147483648"),
        (lambda: mm(zeros(2**20, 2**20, 32), zeros(4, 16, 16), indices, small), "rows of dense, .* got 1099511627776"),
        (lambda: mm(zeros(2**30, 1, 32), zeros(2**30, 4, 16, 16), indices, small), "blocks in values, .* 4294967296"),
        (
            lambda: mm(zeros(1, 16), zeros(1, 16, 16), tensors_of((16, many), 1), (16, many)),
            "2147483647 columns of the matrix, since kernels count them with int32, but got 2147483648",
        ),
        (
            lambda: mm(zeros(1, many + 5), zeros(1, 16, 16), tensors_of((many + 5, 16), 1), (many + 5, 16)),
            "rows of the matrix, .* but got 2147483653",
        ),
        (lambda: sdd(zeros(32, many), zeros(many, 32), indices, small, (16, 16)), "columns of a, .* 2147483648"),
        (lambda: sdd(zeros(2**30, 32, 1), zeros(2**30, 1, 32), indices, small, (16, 16)), "blocks, .* 4294967296"),
        (
            lambda: sdd(zeros(16, 1), zeros(1, many), tensors_of((16, many), 1), (16, many), (16, 16)),
            "columns of the matrix, .* 2147483648",
        ),
    ]:
        with pytest.raises(RuntimeError, match=f"slang::block_sparse_(mm|sdd): expected at most .*{message}"):
            call()


def test_patterns_of_more_than_int32_are_refused() -> None:
    for make in (
        lambda shape: BlockPattern.full(shape, (16, 16), "meta"),
        lambda shape: BlockPattern.random(shape, (16, 16), 0.5, device="meta"),
        lambda shape: BlockPattern.banded(shape, (16, 16), 2, "meta"),
        lambda shape: BlockPattern.butterfly(shape, (16, 16), "meta"),
        lambda shape: BlockPattern.from_indices([0], [0], shape, (16, 16)),
    ):
        with pytest.raises(
            ValueError, match=r"expected both sizes of shape to be less than 2\*\*31, .* \(2147483648, 16"
        ):
            make((2**31, 16))
        with pytest.raises(ValueError, match=r"expected shape to have fewer than 2\*\*31 blocks, .* 65536 x 65536"):
            make((2**20, 2**20))


# --- on a GPU that has the memory

ROOM = 40 << 30


@pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.mem_get_info()[0] < ROOM, reason="needs a GPU with 40 GiB free"
)
def test_more_blocks_than_a_launch_has_tiles() -> None:
    pattern = BlockPattern.full((65536 + 16, 65536), (16, 16), "cuda")
    a = torch.randn(65536 + 16, 16, device="cuda", dtype=torch.float16)
    b = torch.randn(16, 65536, device="cuda", dtype=torch.float16)
    blocks = torch_slang.block_sparse_sdd(a, b, pattern)
    for number in (0, 1, pattern.count // 2 - 1, pattern.count // 2, pattern.count - 1):
        row, column = (int(of[number]) * 16 for of in (pattern.rows, pattern.columns))
        expected = a[row : row + 16].float() @ b[:, column : column + 16].float()
        torch.testing.assert_close(blocks[number].float(), expected, rtol=2e-3, atol=2e-3)
