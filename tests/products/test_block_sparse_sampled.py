"""The kernels that block_sparse_sdd has besides tiles of single blocks.

Tables of where blocks are, and all of a product of which the blocks are stored. Tiles of gathered columns are Hopper's
alone: there test_block_sparse.py runs them.
"""

from __future__ import annotations

import pytest
import torch

from torch_slang import BlockPattern

SHAPES = [  # of the matrix, of a block
    ((70, 90), (16, 32)),
    ((256, 192), (64, 16)),
    ((33, 17), (16, 16)),
    ((300, 260), (128, 64)),
]


def numbers_of(pattern: BlockPattern) -> torch.Tensor:
    return torch.ops.slang.block_sparse_numbers(pattern.row_offsets, pattern.columns, pattern.grid[1])


@pytest.mark.parametrize("density", [0.0, 0.3, 1.0])
def test_numbers_say_which_block_is_where(device: torch.device, density: float) -> None:
    mask = torch.rand(9, 13, generator=torch.Generator().manual_seed(1)) < density
    pattern = BlockPattern.from_mask(mask.to(device), (16, 32))
    expected = torch.full((9, 13), -1, dtype=torch.int32)
    expected[mask] = torch.arange(int(mask.sum()), dtype=torch.int32)
    assert torch.equal(numbers_of(pattern).cpu(), expected)


@pytest.mark.parametrize("density", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("block_shape", [(16, 16), (32, 128), (128, 32), (64, 64)])
@pytest.mark.parametrize("shape", [(300, 2300), (17, 40), (1000, 64)])
def test_groups_are_the_columns_in_which_a_strip_has_blocks(
    device: torch.device, shape: tuple[int, int], block_shape: tuple[int, int], density: float
) -> None:
    (r, c), strip = block_shape, 128 // block_shape[0]
    grid = -(-shape[0] // r), -(-shape[1] // c)
    mask = torch.rand(grid, generator=torch.Generator().manual_seed(2)) < density
    pattern = BlockPattern.from_mask(mask.to(device), block_shape)
    kernel = torch.ops.slang.block_sparse_groups
    numbers, groups = kernel(pattern.row_offsets, pattern.rows, pattern.columns, grid[1], strip, c)
    assert torch.equal(numbers, numbers_of(pattern))
    columns = mask.repeat_interleave(c, dim=1)
    for number, rows in enumerate(columns.split(strip)):
        expected = [g for g, part in enumerate(rows.split(64, dim=1)) if part.any()]
        count = int(groups[number, 0])
        assert groups[number, 1 : 1 + count].tolist() == expected


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("shape", "block_shape"), SHAPES)
def test_blocks_are_those_of_the_product(
    device: torch.device, shape: tuple[int, int], block_shape: tuple[int, int], dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(0)
    pattern = BlockPattern.random(shape, block_shape, 0.4, generator, device)
    a = torch.randn(3, shape[0], 40, generator=generator, dtype=torch.float64).to(device, dtype)
    b = torch.randn(3, 40, shape[1], generator=generator, dtype=torch.float64).to(device, dtype)
    b[:, 0, -1] = float("inf")  # times the zeros outside the matrix it would be NaN
    kernel = "block_sparse_masked" if dtype.itemsize == 2 else "block_sparse_masked_wide"
    got = getattr(torch.ops.slang, kernel)(a, b, numbers_of(pattern), pattern.count, *block_shape)
    expected = pattern.from_dense(a.double() @ b.double())
    torch.testing.assert_close(
        got.view(expected.shape).double(),
        expected.to(dtype).double(),
        rtol=4 * torch.finfo(dtype).eps,
        atol=40 * torch.finfo(torch.float32 if dtype.itemsize <= 4 else dtype).eps,
    )
