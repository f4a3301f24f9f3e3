"""The rival in Triton for matrix products: the tiled kernel of Triton's tutorial, with its grouped order of tiles.

One kernel does all transposes, by strides, and is tuned for each; the list of tiles is the part of the tutorial's that
wins for large products, since each costs seconds to compile.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


def _config(rows: int, columns: int, depth: int, stages: int, warps: int) -> triton.Config:
    tile = {"ROWS": rows, "COLUMNS": columns, "DEPTH": depth, "GROUP": 8}
    return triton.Config(tile, num_stages=stages, num_warps=warps)


CONFIGS = [
    _config(128, 256, 64, 3, 8),
    _config(256, 128, 64, 3, 8),
    _config(128, 128, 64, 4, 4),
    _config(64, 256, 32, 4, 4),
]


def _time(call, quantiles):
    return triton.testing.do_bench(call, warmup=5, rep=25, quantiles=quantiles)


@triton.autotune(configs=CONFIGS, key=["rows", "columns", "depth", "a_row", "b_row"], do_bench=_time)
@triton.jit
def _product(
    a,
    b,
    c,
    rows,
    columns,
    depth,
    a_row,
    a_column,
    b_row,
    b_column,
    c_row,
    c_column,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    GROUP: tl.constexpr,
):
    # Tiles are taken in bands of GROUP rows of tiles, each column by column, so that neighbours share operands in L2.
    down = tl.cdiv(rows, ROWS)
    band_tiles = GROUP * tl.cdiv(columns, COLUMNS)
    first = tl.program_id(0) // band_tiles * GROUP
    height = min(down - first, GROUP)
    within = tl.program_id(0) % band_tiles
    row = (first + within % height) * ROWS + tl.arange(0, ROWS)
    column = within // height * COLUMNS + tl.arange(0, COLUMNS)

    # What lies past the last row or column reads another one, and is not stored.
    k = tl.arange(0, DEPTH)
    a_at = a + (row % rows)[:, None] * a_row + k[None, :] * a_column
    b_at = b + k[:, None] * b_row + (column % columns)[None, :] * b_column
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for step in range(0, tl.cdiv(depth, DEPTH)):
        left = depth - step * DEPTH
        a_tile = tl.load(a_at, mask=k[None, :] < left, other=0.0)
        b_tile = tl.load(b_at, mask=k[:, None] < left, other=0.0)
        total = tl.dot(a_tile, b_tile, total)
        a_at += DEPTH * a_column
        b_at += DEPTH * b_row
    c_at = c + row[:, None] * c_row + column[None, :] * c_column
    tl.store(c_at, total.to(c.dtype.element_ty), mask=(row[:, None] < rows) & (column[None, :] < columns))


def mm(a: Tensor, b: Tensor) -> Tensor:
    """[M, K] x [K, N] of any strides. The first call of a shape and of a layout tunes: not to be captured."""
    rows, depth = a.shape
    columns = b.shape[1]
    c = torch.empty(rows, columns, dtype=a.dtype, device=a.device)

    def grid(tile):
        return (triton.cdiv(rows, tile["ROWS"]) * triton.cdiv(columns, tile["COLUMNS"]),)

    _product[grid](a, b, c, rows, columns, depth, *a.stride(), *b.stride(), *c.stride())
    return c
