"""Patterns of blocks that hypothesis chooses, and references for them: plain loops over blocks."""

from __future__ import annotations

import math

import torch
from hypothesis import settings
from hypothesis import strategies as st

from torch_slang import BlockPattern

Tensor = torch.Tensor
BOUNDED = settings(max_examples=60, deadline=None, derandomize=True)

sizes = st.sampled_from([16, 32, 64, 128])


@st.composite
def shapes(draw: st.DrawFn, most: int = 9) -> tuple[tuple[int, int], tuple[int, int]]:
    """A shape, which need not be a multiple, and the shape of its blocks."""
    block = draw(sizes), draw(sizes)
    return tuple(draw(st.integers(1, most)) * size - draw(st.integers(0, size - 1)) for size in block), block


@st.composite
def patterns(draw: st.DrawFn) -> BlockPattern:
    shape, block = draw(shapes())
    grid = [math.ceil(size / one) for size, one in zip(shape, block, strict=True)]
    mask = torch.tensor(draw(st.lists(st.booleans(), min_size=math.prod(grid), max_size=math.prod(grid))))
    return BlockPattern.from_mask(mask.view(grid), block, shape)


def blocks_of(mask: Tensor) -> list[tuple[int, int]]:
    rows, columns = mask.shape
    return [(i, j) for i in range(rows) for j in range(columns) if mask[i, j]]


def longest_first(numbers: list[int], size: int) -> list[int]:
    return sorted(range(size), key=lambda k: (-numbers.count(k), k))


def assert_consistent(pattern: BlockPattern, blocks: list[tuple[int, int]]) -> None:
    """All of the pattern's indices are those of `blocks`, in their order."""
    rows, columns = [i for i, _ in blocks], [j for _, j in blocks]
    by_column = sorted(range(len(blocks)), key=lambda k: (columns[k], rows[k]))
    expected = [
        [sum(i < row for i in rows) for row in range(pattern.grid[0] + 1)],
        columns,
        rows,
        longest_first(rows, pattern.grid[0]),
        [sum(j < column for j in columns) for column in range(pattern.grid[1] + 1)],
        [rows[k] for k in by_column],
        by_column,
        longest_first(columns, pattern.grid[1]),
    ]
    assert [indices.tolist() for indices in pattern.tensors()] == expected
    assert all(one.dtype == torch.int32 and one.is_contiguous() for one in pattern.tensors())
    assert pattern.count == len(blocks)
    assert pattern.density == len(blocks) / math.prod(pattern.grid)


def inside(pattern: BlockPattern) -> Tensor:
    """[n, r, c]: 1 where an element of a block lies inside the shape."""
    (r, c), (out_features, in_features) = pattern.block_shape, pattern.shape
    made = torch.zeros(pattern.count, r, c, dtype=torch.float64)
    for k, (i, j) in enumerate(zip(pattern.rows.tolist(), pattern.columns.tolist(), strict=True)):
        made[k, : out_features - i * r, : in_features - j * c] = 1
    return made


def dense_of(pattern: BlockPattern, values: Tensor) -> Tensor:
    (rows, columns), (r, c) = pattern.grid, pattern.block_shape
    whole = values.new_zeros(rows * r, columns * c)
    for k, (i, j) in enumerate(zip(pattern.rows.tolist(), pattern.columns.tolist(), strict=True)):
        whole[i * r : (i + 1) * r, j * c : (j + 1) * c] = values[k]
    return whole[: pattern.shape[0], : pattern.shape[1]]
