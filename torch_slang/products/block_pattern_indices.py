"""The blocks of a pattern as tensors of indices. Numbers of blocks are known beforehand: nothing asks the device.

A block's *place* is ``row * C + column`` in a grid of R x C blocks; sorted places are the order of a pattern's values.
"""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

Grid = tuple[int, int]


class Indices(NamedTuple):
    """All int32 and contiguous; torch_slang.BlockPattern says what each is."""

    row_offsets: Tensor
    columns: Tensor
    rows: Tensor
    row_order: Tensor
    column_offsets: Tensor
    column_rows: Tensor
    column_blocks: Tensor
    column_order: Tensor


def from_coordinates(rows: Tensor, columns: Tensor, grid: Grid) -> Indices:
    """`rows`, `columns`: integers, sorted by place, each block once. Copied, so that nobody else can change them."""
    rows, columns = (given.to(torch.int32, copy=True).contiguous() for given in (rows, columns))
    row_offsets = _offsets(rows, grid[0])
    # Stable: the blocks of a column stay in the order of their rows.
    by_column, blocks = columns.sort(stable=True)
    column_offsets = _offsets(by_column, grid[1])
    return Indices(
        row_offsets=row_offsets,
        columns=columns,
        rows=rows,
        row_order=_longest_first(row_offsets),
        column_offsets=column_offsets,
        column_rows=rows[blocks],
        column_blocks=blocks.int(),
        column_order=_longest_first(column_offsets),
    )


def from_places(places: Tensor, grid: Grid) -> Indices:
    """`places`: integers, sorted, each once."""
    return from_coordinates(places // grid[1], places % grid[1], grid)


def from_mask(mask: Tensor, count: int) -> Indices:
    """`mask`: bool ``[R, C]`` of which `count` are True."""
    seen = mask.flatten().cumsum(0, dtype=torch.int32)
    numbers = torch.arange(1, count + 1, dtype=torch.int32, device=mask.device)
    # The k-th True stands where k are seen for the first time. (nonzero would wait for the device, to know the count.)
    return from_places(torch.searchsorted(seen, numbers, out_int32=True), (mask.shape[0], mask.shape[1]))


def transposed(of: Indices) -> Indices:
    """Those of the transposed matrix, whose values are ``values[column_blocks].mT``."""
    return Indices(
        row_offsets=of.column_offsets,
        columns=of.column_rows,
        rows=of.columns[of.column_blocks],
        row_order=of.column_order,
        column_offsets=of.row_offsets,
        column_rows=of.columns,
        column_blocks=of.column_blocks.argsort().int(),  # the inverse permutation
        column_order=of.row_order,
    )


def banded(grid: Grid, width: int, device: torch.device | str | None) -> Indices:
    size = min(grid)
    width = min(width, size)
    rows_of, columns_of = _stretch(grid)
    below = [0, *accumulate(columns_of)]
    count = sum(
        rows * (below[min(size, number + width)] - below[max(0, number - width + 1)])
        for number, rows in enumerate(rows_of)
    )
    rows, columns = _numbers(grid, device)
    return from_mask((rows - columns).abs() < width, count)


def butterfly(grid: Grid, device: torch.device | str | None) -> Indices:
    size = min(grid)
    rows_of, columns_of = _stretch(grid)
    count = sum(
        rows * columns_of[other]
        for number, rows in enumerate(rows_of)
        for other in (number, *(number ^ (1 << bit) for bit in range(size.bit_length())))
        if other < size
    )
    rows, columns = _numbers(grid, device)
    differing = rows ^ columns
    return from_mask(differing & (differing - 1) == 0, count)


# Patterns that are defined on a square of blocks are stretched to the grid: its rows and columns have numbers of the
# square. The square is of the grid's smaller size. Of the larger one, rows or columns could stay without a block: in a
# grid of 8 x 2 the columns would be 0 and 4, and the butterfly has no block (3, 0) or (3, 4).


def _stretch(grid: Grid) -> tuple[list[int], list[int]]:
    """How many rows, and how many columns, of the grid have each number of the square: counts without the device."""
    rows, columns = (Counter(k * min(grid) // size for k in range(size)) for size in grid)
    return [rows[number] for number in range(min(grid))], [columns[number] for number in range(min(grid))]


def _numbers(grid: Grid, device: torch.device | str | None) -> tuple[Tensor, Tensor]:
    """The numbers of rows ``[R, 1]`` and of columns ``[C]``."""
    rows, columns = (torch.arange(size, device=device) * min(grid) // size for size in grid)
    return rows[:, None], columns


def _offsets(sorted_numbers: Tensor, size: int) -> Tensor:
    """``[size + 1]``: how many are lower than 0, 1, ..., size."""
    bounds = torch.arange(size + 1, dtype=torch.int32, device=sorted_numbers.device)
    return torch.searchsorted(sorted_numbers, bounds, out_int32=True)


def _longest_first(offsets: Tensor) -> Tensor:
    return offsets.diff().argsort(descending=True, stable=True).int()
