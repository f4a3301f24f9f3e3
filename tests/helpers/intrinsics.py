"""Kernels made from the table of intrinsics: all rows of an element type in one kernel, which keeps compiling cheap."""

from __future__ import annotations

import re

import torch
from intrinsics_table import ROWS, Range, Row
from torch import Tensor

DTYPES = {
    "float": torch.float32,
    "double": torch.float64,
    "half": torch.float16,
    "int": torch.int32,
    "int64_t": torch.int64,
    "int16_t": torch.int16,
    "uint8_t": torch.uint8,
}
_SMALLEST = 2.0**-10  # results below are compared as if they were of this size


def rows_of(element: str) -> list[Row]:
    return [row for row in ROWS if element in row.types]


def generate(element: str) -> str:
    """A kernel `evaluate(a, b, c) -> (reals, integers)` over [K, N]: row k of the table at N places."""
    cases = "\n".join(_case(k, row, element) for k, row in enumerate(rows_of(element)))
    inputs = ", ".join(f'[Shape("K, N")] TensorView<{element}> {name}' for name in ("av", "bv", "cv"))
    return f"""import torch_slang;
[PyBindCUDA(Auto)] [CudaKernel] [LaunchTotal("N")]
void evaluate({inputs},
              [Out("K, N")] [Fill(0)] TensorView<{element}> reals, [Out("K, N")] [Fill(0)] TensorView<int> integers)
{{
    uint place = (cudaThreadIdx() + cudaBlockIdx() * cudaBlockDim()).x;
    if (place >= av.size(1)) return;
{cases}
}}
"""


def _case(k: int, row: Row, element: str) -> str:
    at = f"uint2({k}, place)"
    load = f"T a = av[{at}], b = bv[{at}], c = cv[{at}];"
    result = f"{'integers' if row.to_int else 'reals'}[{at}] = {row.slang};"
    return "    { " + spelled(f"{load} {row.statements} {result}", element) + " }  // " + row.name


def spelled(text: str, element: str) -> str:
    """Writes out T, V2..V4 and M22..M33 for one element type."""
    text = re.sub(r"\bV([234])\b", r"vector<T, \1>", text)
    text = re.sub(r"\bM([23])([23])\b", r"matrix<T, \1, \2>", text)
    return re.sub(r"\bT\b", element, text)


def arguments(element: str, count: int = 64) -> list[Tensor]:
    """a, b and c: values in the rows' ranges, the ends included."""
    generator = torch.Generator().manual_seed(7)
    dtype = DTYPES[element]

    def draw(limits: Range) -> Tensor:
        low, high = limits
        values = low + (high - low) * torch.rand(count, generator=generator, dtype=torch.float64)
        values[0], values[1] = low, high
        return (values if dtype.is_floating_point else values.round()).to(dtype)

    rows = rows_of(element)
    ranges = ([row.a for row in rows], [row.b for row in rows], [row.c for row in rows])
    return [torch.stack([draw(limits) for limits in side]) for side in ranges]


def expected(row: Row, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    wide = torch.float64 if a.dtype.is_floating_point else torch.int64
    return row.reference(a.to(wide), b.to(wide), c.to(wide))


def mismatch(row: Row, result: Tensor, reference: Tensor) -> str | None:
    """None, or where a row's result differs from the reference by more than its tolerance."""
    if row.to_int or not result.dtype.is_floating_point:
        bad = result.long() != reference.long()
    else:
        size = reference.double().abs().clamp(min=max(row.scale, _SMALLEST))
        error = (result.double() - reference.double()).abs()
        bad = ~(error <= row.ulps * torch.finfo(result.dtype).eps * size)  # NaN is bad
    if not bad.any():
        return None
    at = int(bad.nonzero()[0])
    values = f"{result[at].item()} instead of {reference[at].item()}"
    return f"{row.name} ({row.slang}) at {at}: {values}, {int(bad.sum())} wrong"
