"""``torch_slang.BlockPattern``: which blocks of a block-sparse matrix there are (docs/block_sparse.md)."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from torch_slang.products import block_pattern_checks as checks
from torch_slang.products import block_pattern_indices as make
from torch_slang.products.block_pattern_picture import picture_of

__all__ = ["BlockPattern"]

_WHO = "torch_slang.BlockPattern"


@dataclass(frozen=True, eq=False, repr=False, init=False)
class BlockPattern:
    """Which blocks of a matrix ``[out, in]`` there are. Immutable, and checked when it is made.

    ::

        pattern = torch_slang.BlockPattern.random((4096, 1024), block_shape=(32, 64), density=0.25)
        values = torch.randn(pattern.count, *pattern.block_shape)      # the blocks of a matrix
        weight = pattern.to_dense(values)                              # [4096, 1024]

    Made by :meth:`from_mask`, :meth:`from_indices`, :meth:`from_importance`, :meth:`from_bsr`, :meth:`random`,
    :meth:`banded`, :meth:`butterfly` and :meth:`full`. ``shape`` and ``block_shape`` are (out, in), as the weight of
    ``torch.nn.Linear`` is. Each size of a block is 16, 32, 64 or 128. The shape need not be a multiple of it: the last
    blocks of rows or columns then lie partly outside, and what they have there is nowhere used.

    With a grid of R x C blocks of which n are there, the index tensors are int32, contiguous and on one device; values
    are ``[n, r, c]``, row by row, columns ascending, as in ``torch.sparse_bsr``. Block k is the one of values[k].
    """

    shape: tuple[int, int]
    block_shape: tuple[int, int]
    #: ``[R + 1]``: where each row's blocks begin
    row_offsets: Tensor
    #: ``[n]``: each block's column
    columns: Tensor
    #: ``[n]``: each block's row
    rows: Tensor
    #: ``[R]``: the rows, those with the most blocks first, of equal ones the lower first
    row_order: Tensor
    #: ``[C + 1]``: where each column's blocks begin in the next two
    column_offsets: Tensor
    #: ``[n]``: their rows, column by column, rows ascending
    column_rows: Tensor
    #: ``[n]``: their places in values
    column_blocks: Tensor
    #: ``[C]``: the columns, those with the most blocks first
    column_order: Tensor

    def __init__(self, *_: Any, **__: Any) -> None:
        raise TypeError(
            f"{_WHO}: expected a pattern to be made by from_mask, from_indices, from_importance, from_bsr, random, "
            "banded, butterfly or full"
        )

    @classmethod
    def from_mask(cls, mask: Tensor, block_shape: Sequence[int], shape: Sequence[int] | None = None) -> Self:
        """The blocks where `mask`, bool ``[R, C]``, is True, on its device.

        `shape` is ``(R * r, C * c)`` if it is not given. The host waits for the device once, for the number of blocks.
        """
        who = f"{_WHO}.from_mask"
        if checks.stored_tensor(who, "mask", mask).dtype != torch.bool:
            raise TypeError(f"{who}: expected mask to hold bool, but got {checks.dtype_name(mask)}")
        out_in, block = checks.shapes_of_grid(who, "mask", mask, block_shape, shape)
        return cls._of(out_in, block, make.from_mask(mask, int(mask.sum())))

    @classmethod
    def from_indices(
        cls,
        rows: Tensor | Sequence[int],
        columns: Tensor | Sequence[int],
        shape: Sequence[int],
        block_shape: Sequence[int],
        *,
        device: torch.device | str | None = None,
    ) -> Self:
        """The blocks (rows[k], columns[k]), which stand row by row, columns ascending, each once.

        Tensors ``[n]`` of int32 or int64, or lists. `device`: None for that of the tensors, or torch's default device
        for lists. The host waits for the tensors' device once, for the checks.

        Raises:
            IndexError: an index is out of range.
            ValueError: blocks are out of order or doubled.
        """
        who = f"{_WHO}.from_indices"
        out_in, block = checks.shapes(who, shape, block_shape)
        row, column = checks.indices(who, "rows", rows), checks.indices(who, "columns", columns)
        if row.device != column.device:
            raise ValueError(
                f"{who}: expected rows and columns to be on one device, but got {row.device} and {column.device}"
            )
        if row.shape != column.shape:
            raise ValueError(
                f"{who}: expected rows and columns to be of one length, but got {row.shape[0]} and {column.shape[0]}"
            )
        grid = checks.grid_of(out_in, block)
        checks.expect(checks.coordinate_rules(who, row, column, grid))
        if device is None:
            device = row.device if isinstance(rows, Tensor) else torch.get_default_device()
        return cls._of(out_in, block, make.from_coordinates(_moved(row, device), _moved(column, device), grid))

    @classmethod
    def from_importance(
        cls, scores: Tensor, block_shape: Sequence[int], density: float, shape: Sequence[int] | None = None
    ) -> Self:
        """The ``round(density * R * C)`` blocks (at least one) with the highest `scores`, ``[R, C]``, on their device.

        Of equal scores those at lower places, row by row, go first. `shape` is ``(R * r, C * c)`` if it is not given.
        Scores are integers, or floating-point numbers without NaN; the host waits for the device once, to know that.
        """
        who = f"{_WHO}.from_importance"
        scores = checks.stored_tensor(who, "scores", scores).detach()
        if scores.dtype == torch.bool or scores.is_complex():
            raise TypeError(
                f"{who}: expected scores to hold integers or floating-point numbers, but got "
                f"{checks.dtype_name(scores)}"
            )
        out_in, block = checks.shapes_of_grid(who, "scores", scores, block_shape, shape)
        count = checks.blocks_of_density(who, density, checks.grid_of(out_in, block))
        if scores.is_floating_point():
            checks.expect([checks.no_nan(who, "scores", scores)])
        highest = scores.flatten().argsort(descending=True, stable=True)[:count]
        return cls._of_places(out_in, block, highest.sort().values)

    @classmethod
    def random(
        cls,
        shape: Sequence[int],
        block_shape: Sequence[int],
        density: float,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
    ) -> Self:
        """``round(density * R * C)`` blocks (at least one), all choices equally likely.

        They are drawn where the generator is, if one is given, and then moved to `device` (None: they stay), so that a
        seed on the CPU gives one pattern for all devices.
        """
        who = f"{_WHO}.random"
        out_in, block = checks.shapes(who, shape, block_shape)
        rows, columns = checks.grid_of(out_in, block)
        count = checks.blocks_of_density(who, density, (rows, columns))
        drawn_on = device if generator is None else generator.device
        chosen = torch.randperm(rows * columns, generator=generator, device=drawn_on)[:count]
        return cls._of_places(out_in, block, _moved(chosen, device or chosen.device).sort().values)

    @classmethod
    def banded(
        cls, shape: Sequence[int], block_shape: Sequence[int], width: int, device: torch.device | str | None = None
    ) -> Self:
        """The blocks whose row and column differ by less than `width`: 1 is the diagonal.

        In a grid that is not square the rows (or columns) of the longer side are numbered as those of the shorter:
        row i of R is ``i * min(R, C) // R``. So the band goes from corner to corner.
        """
        who = f"{_WHO}.banded"
        out_in, block = checks.shapes(who, shape, block_shape)
        try:
            blocks = operator.index(width)
        except TypeError:
            raise TypeError(f"{who}: expected width to be an integer, but got {width!r}") from None
        if blocks < 1:
            raise ValueError(f"{who}: expected width to be at least 1, but got {blocks}")
        return cls._of(out_in, block, make.banded(checks.grid_of(out_in, block), blocks, device))

    @classmethod
    def butterfly(
        cls, shape: Sequence[int], block_shape: Sequence[int], device: torch.device | str | None = None
    ) -> Self:
        """The blocks whose row and column, as binary numbers, differ in at most one bit.

        These are all places of the butterfly factors of Dao et al., "Learning Fast Algorithms for Linear Transforms
        Using Butterfly Factorizations" (2019), whose product takes each input to each output: the *flat block
        butterfly* of Chen et al., "Pixelated Butterfly" (2021). Each row has about log2 of the grid's size of them. A
        grid that is not square is numbered as :meth:`banded` says; its size need not be a power of two.
        """
        out_in, block = checks.shapes(f"{_WHO}.butterfly", shape, block_shape)
        return cls._of(out_in, block, make.butterfly(checks.grid_of(out_in, block), device))

    @classmethod
    def full(cls, shape: Sequence[int], block_shape: Sequence[int], device: torch.device | str | None = None) -> Self:
        """All blocks."""
        out_in, block = checks.shapes(f"{_WHO}.full", shape, block_shape)
        rows, columns = checks.grid_of(out_in, block)
        return cls._of_places(out_in, block, torch.arange(rows * columns, device=device))

    @classmethod
    def from_bsr(cls, matrix: Tensor) -> tuple[Self, Tensor]:
        """The pattern and the values of a ``torch.sparse_bsr`` matrix; the values are the matrix's own, not a copy.

        The host waits for the device once, to check the indices, which torch may not have done.
        """
        who = f"{_WHO}.from_bsr"
        if checks.stored_tensor(who, "matrix", matrix).layout != torch.sparse_bsr:
            raise TypeError(f"{who}: expected matrix to have the layout torch.sparse_bsr, but got {matrix.layout}")
        values = matrix.values()
        if matrix.dim() != 2 or values.dim() != 3:
            raise ValueError(
                f"{who}: expected matrix to have 2 dimensions and numbers as elements, but got shape "
                f"{list(matrix.shape)} and values {list(values.shape)}"
            )
        out_in, block = checks.shapes(who, matrix.shape, values.shape[1:])
        grid = checks.grid_of(out_in, block)
        offsets, columns = matrix.crow_indices(), matrix.col_indices()
        rows = checks.bsr_rows(who, offsets, columns, values.shape[0], grid)
        checks.expect(
            [
                checks.ascending_offsets(who, "crow_indices", offsets, values.shape[0]),
                *checks.coordinate_rules(who, rows, columns, grid, ("rows", "col_indices")),
            ]
        )
        indices = make.from_coordinates(rows, columns, grid)
        return cls._of(out_in, block, indices), values

    @classmethod
    def _of(cls, shape: tuple[int, int], block_shape: tuple[int, int], indices: Sequence[Tensor]) -> Self:
        """Without checks. `indices`: as `tensors` gives them."""
        pattern = object.__new__(cls)
        names = ("shape", "block_shape", *make.Indices._fields)
        for name, value in zip(names, (shape, block_shape, *indices), strict=True):
            object.__setattr__(pattern, name, value)
        return pattern

    @classmethod
    def _of_places(cls, shape: tuple[int, int], block_shape: tuple[int, int], places: Tensor) -> Self:
        return cls._of(shape, block_shape, make.from_places(places, checks.grid_of(shape, block_shape)))

    @property
    def grid(self) -> tuple[int, int]:
        """``(R, C)``: how many rows and columns of blocks cover the shape."""
        return checks.grid_of(self.shape, self.block_shape)

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return int(self.columns.shape[0])

    @property
    def density(self) -> float:
        """The part of the grid's blocks that are there."""
        return self.count / (self.grid[0] * self.grid[1])

    @property
    def device(self) -> torch.device:
        return self.columns.device

    def tensors(self) -> list[Tensor]:
        """What operators take: the eight index tensors, in the order in which the class names them."""
        return [getattr(self, name) for name in make.Indices._fields]

    def to(self, device: torch.device | str) -> Self:
        """The pattern on a device; itself if it is there."""
        moved = [indices.to(device) for indices in self.tensors()]
        return self if moved[0] is self.row_offsets else self._of(self.shape, self.block_shape, moved)

    def transpose(self) -> Self:
        """The pattern of the transposed matrix. Its values are ``values[pattern.column_blocks].mT``."""
        shape, block = self.shape[::-1], self.block_shape[::-1]
        return self._of(shape, block, make.transposed(make.Indices(*self.tensors())))

    def mask(self) -> Tensor:
        """bool ``[R, C]``: which blocks are there."""
        rows, columns = self.grid
        nowhere = torch.zeros(rows * columns, dtype=torch.bool, device=self.device)
        return nowhere.index_fill_(0, self._places(), True).view(rows, columns)

    def element_mask(self) -> Tensor:
        """bool ``[out, in]``: which elements lie in blocks that are there."""
        (r, c), (out_features, in_features) = self.block_shape, self.shape
        return self.mask().repeat_interleave(r, 0)[:out_features].repeat_interleave(c, 1)[:, :in_features]

    def to_dense(self, values: Tensor) -> Tensor:
        """The matrices ``[..., out, in]`` whose blocks are `values`, ``[..., n, r, c]``. Differentiable."""
        self._expect_values("to_dense", values)
        (rows, columns), (r, c), (out_features, in_features) = self.grid, self.block_shape, self.shape
        blocks = values.new_zeros((*values.shape[:-3], rows * columns, r, c)).index_copy(-3, self._places(), values)
        tiled = blocks.unflatten(-3, (rows, columns)).transpose(-3, -2)
        return tiled.flatten(-2).flatten(-3, -2)[..., :out_features, :in_features]

    def from_dense(self, dense: Tensor) -> Tensor:
        """The blocks ``[..., n, r, c]`` of matrices ``[..., out, in]``, contiguous. Differentiable.

        What lies in a block but outside the shape is zero.
        """
        who = f"{_WHO}.from_dense"
        if checks.tensor(who, "dense", dense).dim() < 2 or tuple(dense.shape[-2:]) != self.shape:
            raise ValueError(
                f"{who}: expected dense to have shape [..., {self.shape[0]}, {self.shape[1]}], but got "
                f"{list(dense.shape)}"
            )
        self._expect_device(who, "dense", dense)
        (rows, columns), (r, c) = self.grid, self.block_shape
        outside = (rows * r - self.shape[0], columns * c - self.shape[1])
        whole = torch.nn.functional.pad(dense, (0, outside[1], 0, outside[0])) if any(outside) else dense
        tiled = whole.unflatten(-1, (columns, c)).unflatten(-3, (rows, r)).transpose(-3, -2)
        return tiled[..., self.rows, self.columns, :, :].contiguous()

    def to_bsr(self, values: Tensor) -> Tensor:
        """A ``torch.sparse_bsr`` tensor that shares `values`, ``[n, r, c]``, and the indices. Differentiable."""
        who = f"{_WHO}.to_bsr"
        self._expect_values("to_bsr", values)
        if values.dim() != 3:
            raise ValueError(f"{who}: expected values to be those of one matrix, but got shape {list(values.shape)}")
        covered = tuple(blocks * size for blocks, size in zip(self.grid, self.block_shape, strict=True))
        if covered != self.shape:
            raise ValueError(
                f"{who}: expected the pattern's shape to be a multiple of its blocks {self.block_shape}, since torch's "
                f"BSR has no blocks that lie partly outside, but got {self.shape}"
            )
        return torch.sparse_bsr_tensor(self.row_offsets, self.columns, values, size=self.shape, check_invariants=False)

    def draw(self) -> str:
        """A picture of text: a character is two blocks, one above the other; in large patterns the density of more."""
        return picture_of(self.mask())

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(shape={self.shape}, block_shape={self.block_shape}, count={self.count}, "
            f"density={self.density:.4g}, device='{self.device}')"
        )

    def __eq__(self, other: object) -> bool:
        """Of the same shape and blocks, wherever they are. Waits for the device."""
        if not isinstance(other, BlockPattern):
            return NotImplemented
        if self is other:
            return True
        if (self.shape, self.block_shape, self.count) != (other.shape, other.block_shape, other.count):
            return False
        pairs = ((self.row_offsets, other.row_offsets), (self.columns, other.columns))
        return all(torch.equal(mine, theirs.to(self.device)) for mine, theirs in pairs)

    def __hash__(self) -> int:
        """Of the shapes and the number of blocks: which they are is on the device."""
        return hash((self.shape, self.block_shape, self.count))

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (type(self), self.shape, self.block_shape, self.tensors())

    def _places(self) -> Tensor:
        return self.rows.long() * self.grid[1] + self.columns

    def _expect_values(self, method: str, values: Tensor) -> None:
        who = f"{_WHO}.{method}"
        expected = (self.count, *self.block_shape)
        if tuple(checks.tensor(who, "values", values).shape[-3:]) != expected:
            raise ValueError(
                f"{who}: expected values to have shape [..., {', '.join(map(str, expected))}], the pattern's blocks, "
                f"but got {list(values.shape)}"
            )
        self._expect_device(who, "values", values)

    def _expect_device(self, who: str, name: str, given: Tensor) -> None:
        if given.device != self.device:
            raise ValueError(
                f"{who}: expected {name} to be on the pattern's device, {self.device}, but got {given.device}"
            )


def _moved(given: Tensor, device: torch.device | str) -> Tensor:
    """The host does not wait for a copy from its memory. One to its memory it would read before it is there."""
    return given.to(device, non_blocking=given.device.type == "cpu")


def _unpickled(kind: type[BlockPattern], *parts: Any) -> BlockPattern:
    """Pickled parts are not checked again: pickle is for trusted data."""
    return kind._of(*parts)
