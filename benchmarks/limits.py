"""What the machine can do: bytes a second by what is done with them, operations a second by type."""

from __future__ import annotations

import statistics

import torch

from benchmarks.machine import copied, operations
from benchmarks.measure import device, print_table, samples


def main(quick: bool) -> None:
    for on in ["cuda", "cpu"] if device() == "cuda" else ["cpu"]:
        _bytes(on, quick)
    _operations(device(), quick)


def _bytes(on: str, quick: bool) -> None:
    rows: list[list[object]] = []
    for bits in (20,) if quick else (20, 24, 27) if on == "cuda" else (20, 24):
        x = torch.ones(1 << bits, device=on)
        taken = samples({"fill": lambda: x.fill_(0), "sum": lambda: x.sum()}, on)  # noqa: B023, PLW0108  (called at once)
        rates = [x.nbytes / statistics.median(taken[name]) / 1e9 for name in ("fill", "sum")]
        rows.append([f"2^{bits}", copied(2 * x.nbytes, on) / 1e9, *rates])
    print_table(
        f"bytes moved by operators of PyTorch on {on}, by the number of floats, TB/s",
        ["floats", "copy", "fill", "sum"],
        rows,
        chart=["copy", "fill", "sum"],
        unit="TB/s",
    )


def _operations(on: str, quick: bool) -> None:
    dtypes = [torch.float32, torch.float64]
    dtypes += [torch.float16, torch.bfloat16] if on == "cuda" else []
    print_table(
        f"matrix products by PyTorch on {on}, TFLOP/s",
        ["", "TFLOP/s"],
        [[str(dtype).removeprefix("torch."), operations(dtype, on, quick) / 1e9] for dtype in dtypes],
        notes=["float32 without TF32 (torch.backends.cuda.matmul.allow_tf32 is False), the limit used for operations"],
    )
