"""Matrix products of float32, with and without TF32, of float64, and of bfloat16 by what GPUs before Hopper can do.

For the last, kernels are compiled for sm_80 and run here. That is asked for by an environment variable, for all kernels
of a process: hence one of its own, `python -m benchmarks.matmul_float`, which prints a row as JSON.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks.matmul import shape_product
from benchmarks.measure import device
from benchmarks.products import ALLOWED_TF32, Row, measure, print_rows
from benchmarks.repeats import QUICK, Pace, own_stream
from benchmarks.report import RUN, problem

PACE = Pace(rounds=10)
OLDER = "compute_80"


@contextlib.contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


@own_stream()
def row_of(dtype: torch.dtype, size: int, title: str, pace: Pace, allow_tf32: bool = False) -> Row | None:
    allowed = ALLOWED_TF32 if allow_tf32 else None
    with tf32(allow_tf32):
        return measure(shape_product(dtype, (1, size, size, size), title, allowed), pace)


def older(quick: bool) -> Row | None:
    """bfloat16 compiled for sm_80, in a process whose cache of choices and kernels is its own."""
    with tempfile.TemporaryDirectory() as folder:
        changes = {"TORCH_SLANG_CUDA_ARCHITECTURE": OLDER, "TORCH_SLANG_CACHE_DIR": folder}
        finished = subprocess.run(
            [sys.executable, "-m", "benchmarks.matmul_float", *(["--quick"] if quick else [])],
            cwd=Path(__file__).parent.parent,
            env=os.environ | changes,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    if finished.returncode != 0:
        problem(f"bf16 for sm_80: {finished.stderr.strip()[-500:]}")
        return None
    found = json.loads(finished.stdout.splitlines()[-1])
    for text in found["problems"]:
        problem(text.removeprefix(": "))
    return Row(**found["row"]) if found["row"] else None


def print_older(quick: bool) -> None:
    size = 64 if quick else 4096
    row = row_of(torch.bfloat16, size, f"bf16 {size}, ours for sm_80", QUICK if quick else PACE)
    print(json.dumps({"row": dataclasses.asdict(row) if row else None, "problems": RUN.problems}))


def main(quick: bool) -> None:
    pace = QUICK if quick else PACE
    large, small = (64, 48) if quick else (4096, 2048)
    rows = [
        row_of(torch.float32, large, f"fp32 {large} without TF32", pace),
        row_of(torch.float32, large, f"fp32 {large} with TF32", pace, allow_tf32=True),
        row_of(torch.float64, small, f"fp64 {small}", pace),
    ]
    notes = []
    if device() == "cuda":
        rows.append(older(quick))
        notes.append("for sm_80: without what Hopper has, run here beside cuBLAS, which has it")
    kept = [row for row in rows if row]
    print_rows("matrix products of wide types, and for older GPUs", kept, pace, notes=notes)


if __name__ == "__main__":
    print_older("--quick" in sys.argv)
