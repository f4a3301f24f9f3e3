"""What makers of block patterns are given, checked: errors name the maker, the argument, the rule and the value."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor

BLOCK_SIZES = (16, 32, 64, 128)
Pair = tuple[int, int]


def shapes(who: str, shape: Any, block_shape: Any) -> tuple[Pair, Pair]:
    """``(out, in)`` and ``(r, c)`` as Python ints."""
    out_in = _pair(who, "shape", "(out, in)", shape)
    block = block_shape_of(who, block_shape)
    if min(out_in) < 1:
        raise ValueError(f"{who}: expected both sizes of shape to be at least 1, but got {out_in}")
    if max(out_in) >= 2**31:
        raise ValueError(
            f"{who}: expected both sizes of shape to be less than 2**31, since indices are int32, but got {out_in}"
        )
    rows, columns = grid_of(out_in, block)
    if rows * columns >= 2**31:
        raise ValueError(
            f"{who}: expected shape to have fewer than 2**31 blocks, since indices are int32, but {out_in} has "
            f"{rows} x {columns} of {block}"
        )
    return out_in, block


def block_shape_of(who: str, block_shape: Any) -> Pair:
    block = _pair(who, "block_shape", "(r, c)", block_shape)
    if not set(block) <= set(BLOCK_SIZES):
        offered = ", ".join(map(str, BLOCK_SIZES))
        raise ValueError(f"{who}: expected each size of block_shape to be one of {offered}, but got {block}")
    return block


def grid_of(shape: Pair, block_shape: Pair) -> Pair:
    """How many rows and columns of blocks cover the shape."""
    return -(-shape[0] // block_shape[0]), -(-shape[1] // block_shape[1])


def shapes_of_grid(who: str, name: str, one_a_block: Tensor, block_shape: Any, shape: Any) -> tuple[Pair, Pair]:
    """As `shapes`, for an argument with one element a block, which gives the shape if that is None."""
    if one_a_block.dim() != 2:
        raise ValueError(
            f"{who}: expected {name} to have 2 dimensions, one element for each block, but got shape "
            f"{list(one_a_block.shape)}"
        )
    block = block_shape_of(who, block_shape)
    given = tuple(one_a_block.shape)
    if shape is None:
        if 0 in given:
            raise ValueError(f"{who}: expected both sizes of {name} to be at least 1, but got {list(given)}")
        shape = (given[0] * block[0], given[1] * block[1])
    out_in, block = shapes(who, shape, block)
    grid = grid_of(out_in, block)
    if given != grid:
        raise ValueError(
            f"{who}: expected {name} to have shape {list(grid)}, the blocks of {block} that cover {out_in}, but got "
            f"{list(given)}"
        )
    return out_in, block


def blocks_of_density(who: str, density: Any, grid: Pair) -> int:
    """How many blocks a density means: the nearest number, at least one."""
    if isinstance(density, bool) or not isinstance(density, Real):
        raise TypeError(f"{who}: expected density to be a number, but got {density!r}")
    if not 0 < float(density) <= 1:
        raise ValueError(f"{who}: expected density to be in (0, 1], but got {density}")
    return max(1, round(float(density) * math.prod(grid)))


def dtype_name(given: Tensor) -> str:
    return str(given.dtype).removeprefix("torch.")


def tensor(who: str, name: str, value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise TypeError(f"{who}: expected {name} to be a tensor, but got {type(value).__name__}")
    return value


def stored_tensor(who: str, name: str, value: Any) -> Tensor:
    """One whose elements can be looked at."""
    if tensor(who, name, value).is_meta:
        raise ValueError(f"{who}: expected {name} to have data, but got a tensor on the device meta")
    return value


def indices(who: str, name: str, value: Any) -> Tensor:
    """A list of integers, or a tensor of them, as a tensor. A list stays on the host."""
    if isinstance(value, Tensor):
        given = stored_tensor(who, name, value)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        try:
            given = torch.tensor(value, device="cpu") if value else torch.empty(0, dtype=torch.int32, device="cpu")
        except (TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise TypeError(f"{who}: expected {name} to be a list of integers, but got {value!r:.80}") from error
    else:
        raise TypeError(f"{who}: expected {name} to be a tensor or a list, but got {type(value).__name__}")
    if given.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"{who}: expected {name} to hold int32 or int64, but got {dtype_name(given)}")
    if given.dim() != 1:
        raise ValueError(f"{who}: expected {name} to have 1 dimension, but got shape {list(given.shape)}")
    return given


#: Where a rule is broken (a flat bool tensor), and the error for the first such place.
Rule = tuple[Tensor, Callable[[int], Exception]]


def expect(rules: Sequence[Rule]) -> None:
    """Raises the error of the first rule that is broken anywhere. One copy to the host, for all rules together."""
    kept = [broken.logical_not().cumprod(0).sum() for broken, _ in rules]
    for (broken, error), first in zip(rules, torch.stack(kept).tolist(), strict=True):
        if first < broken.shape[0]:
            raise error(first)


def coordinate_rules(
    who: str, rows: Tensor, columns: Tensor, grid: Pair, names: tuple[str, str] = ("rows", "columns")
) -> list[Rule]:
    """Blocks are inside the grid and stand row by row, columns ascending, each once."""
    rows, columns = rows.long(), columns.long()
    places = rows * grid[1] + columns

    def outside(given: Tensor, size: int, name: str) -> Rule:
        return (given < 0) | (given >= size), lambda k: IndexError(
            f"{who}: expected {name} to be in [0, {size}), but got {name}[{k}] = {int(given[k])}"
        )

    def out_of_order(k: int) -> Exception:
        before, behind = [(int(rows[i]), int(columns[i])) for i in (k, k + 1)]
        if before == behind:
            return ValueError(f"{who}: expected each block once, but got block {before} at {k} and at {k + 1}")
        return ValueError(
            f"{who}: expected blocks row by row, columns ascending, but got block {behind} at {k + 1} behind block "
            f"{before}"
        )

    return [
        outside(rows, grid[0], names[0]),
        outside(columns, grid[1], names[1]),
        (places[1:] <= places[:-1], out_of_order),
    ]


def bsr_rows(who: str, offsets: Tensor, columns: Tensor, count: int, grid: Pair) -> Tensor:
    """The rows ``[count]`` of blocks whose rows begin at `offsets`. Lengths are checked, values are not."""
    for name, given, length in (("crow_indices", offsets, grid[0] + 1), ("col_indices", columns, count)):
        if tuple(given.shape) != (length,):
            raise ValueError(f"{who}: expected {name} to have shape [{length}], but got {list(given.shape)}")
    numbers = torch.arange(count, dtype=offsets.dtype, device=offsets.device)
    return torch.searchsorted(offsets, numbers, right=True) - 1


def ascending_offsets(who: str, name: str, given: Tensor, count: int) -> Rule:
    """From 0 to `count`."""
    ends = given.new_zeros(1), given.new_full((1,), count)
    ascending = torch.cat([ends[0], given[1:-1].clamp(max=count)]).cummax(0).values
    return given != torch.cat([ascending, ends[1]]), lambda k: ValueError(
        f"{who}: expected {name} to ascend from 0 to the number of blocks, {count}, but got {name}[{k}] = "
        f"{int(given[k])}"
    )


def no_nan(who: str, name: str, given: Tensor) -> Rule:
    return given.isnan().flatten(), lambda k: ValueError(
        f"{who}: expected {name} to have no NaN, but got one at {list(divmod(k, given.shape[1]))}"
    )


def _pair(who: str, name: str, meaning: str, value: Any) -> Pair:
    try:
        first, second = (operator.index(size) for size in value if not isinstance(size, bool))
    except (TypeError, ValueError):
        raise TypeError(f"{who}: expected {name} to be two integers {meaning}, but got {value!r}") from None
    return first, second
