"""The rivals in CUDA (*.cu beside this file), compiled at run time by cupy and launched on torch's current stream.

Which vector width and how many loads in flight are best depends on the kernel and the machine, so each rival comes in
several `Variant`s, and the fastest is the one that is compared with.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

FOLDER = Path(__file__).parent
BLOCK = 256
ELEMENTS = {torch.float32: "float", torch.float64: "double", torch.float16: "Half", torch.bfloat16: "BFloat16"}

Grid = tuple[int, ...]
Function = Callable[[Grid, tuple[int, ...], tuple[Any, ...]], None]


@dataclass(frozen=True)
class Variant:
    """`vector_bytes`: what one load takes (0: one element); `unroll`: loads in flight; `rows`: of biased.cu."""

    vector_bytes: int
    unroll: int
    rows: int = 0

    def width(self, dtype: torch.dtype) -> int:
        return max(1, self.vector_bytes // dtype.itemsize)

    def __str__(self) -> str:
        loads = f"{self.unroll} x {self.vector_bytes} bytes" if self.vector_bytes else f"{self.unroll} x 1"
        return f"{loads}, {self.rows} rows" if self.rows else loads


FLAT = (Variant(0, 4), Variant(8, 2), Variant(16, 1), Variant(16, 2))
ROWS = (Variant(0, 4), Variant(8, 4), Variant(16, 2), Variant(16, 4))
MANY_ROWS = tuple(Variant(bytes, 4, rows) for bytes in (0, 8, 16) for rows in (16, 64, 256))


def missing() -> str | None:
    """Why there is no rival in CUDA on this machine."""
    if not torch.cuda.is_available():
        return "no GPU"
    return None if importlib.util.find_spec("cupy") else "cupy is not installed"


@functools.cache
def function(file: str, name: str, dtype: torch.dtype, variant: Variant) -> Function:
    kernel = _module(file, dtype, variant).get_function(name)

    def launch(grid: Grid, block: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
        import cupy

        given = tuple(_argument(value, dtype) for value in arguments)
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            kernel(grid, block, given)

    return launch


@functools.cache
def _module(file: str, dtype: torch.dtype, variant: Variant) -> Any:
    import cupy

    return cupy.RawModule(code=text(file), backend="nvrtc", options=("-std=c++17", *defines(dtype, variant)))


def text(file: str) -> str:
    """The file with its header in it: cupy's cache of compiled modules does not look into headers."""
    header = (FOLDER / "tile.cuh").read_text().replace("#pragma once\n", "")
    return (FOLDER / file).read_text().replace('#include "tile.cuh"\n', header)


def defines(dtype: torch.dtype, variant: Variant) -> list[str]:
    values: Mapping[str, object] = {
        "ELEMENT": ELEMENTS[dtype],
        "VECTOR_BYTES": variant.vector_bytes,
        "UNROLL": variant.unroll,
        **({"ROWS": variant.rows} if variant.rows else {}),
    }
    return [f"-D{name}={value}" for name, value in values.items()]


def _argument(value: object, dtype: torch.dtype) -> object:
    """A kernel takes pointers, 32-bit indices and numbers of what it computes in."""
    import numpy as np

    if isinstance(value, Tensor):
        return value.data_ptr()
    if isinstance(value, int):
        return np.uint32(value)
    return np.float64(value) if dtype == torch.float64 else np.float32(value)


def flat(file: str, name: str, sized: Tensor, variant: Variant, *arguments: Tensor | float) -> None:
    """A launch over the elements of `sized`, whose number is the last argument."""
    count = sized.numel()
    tile = BLOCK * variant.unroll * variant.width(sized.dtype)
    function(file, name, sized.dtype, variant)((-(-count // tile),), (BLOCK,), (*arguments, count))


def by_rows(file: str, name: str, sized: Tensor, variant: Variant, *arguments: Tensor) -> None:
    """A launch over the rows and columns of `sized`, whose numbers are the last arguments."""
    rows, columns = sized.shape
    width = variant.width(sized.dtype)
    if columns % width:
        raise ValueError(f"expected the number of columns to be a multiple of {width}, but got {columns}")
    grid = (-(-columns // (BLOCK * width)), -(-rows // (variant.rows or variant.unroll)))
    function(file, name, sized.dtype, variant)(grid, (BLOCK,), (*arguments, rows, columns))
