"""A matrix kernel of a user's own, examples/distances: beside the plain product of its operands, and its formula."""

from __future__ import annotations

import runpy
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.formulas import formula_product, measure_steps, step
from benchmarks.measure import device
from benchmarks.products import Product, blas, print_rows
from benchmarks.repeats import QUICK, Pace, own_stream

EXAMPLE = Path(__file__).parent.parent / "examples" / "distances" / "distances.py"

PACE = Pace(rounds=10)
SHAPES = [(8192, 1024), (4096, 4096)]  # points, dimensions
QUICK_SHAPES = [(40, 24)]


def formula(a: Tensor, b: Tensor) -> Tensor:
    """As one would write it, of bfloat16 points in float32: eager stores each step as a whole matrix."""
    wide = torch.promote_types(a.dtype, torch.float32)
    squares = (a.to(wide) ** 2).sum(1)[:, None] + (b.to(wide) ** 2).sum(1)
    return (squares - 2 * (a @ b.mT)).clamp(min=0).sqrt().to(a.dtype)


def plain(a: Tensor, b: Tensor) -> Tensor:
    return a @ b.mT


def product(shape: tuple[int, int], backward: bool, quick: bool) -> Product:
    points, dimensions = shape
    leaves = [torch.randn(shape, device=device()).bfloat16().requires_grad_() for _ in range(2)]
    grad = torch.randn(points, points, device=device()).bfloat16() if backward else None

    return formula_product(
        f"2 x [{points}, {dimensions}]",
        lambda: runpy.run_path(str(EXAMPLE))["distances"],
        formula,
        leaves,
        grad,
        2 * points**2 * dimensions,
        quick=quick,
        # Distances are nearly alike; gradients are small differences of sums, which others round.
        allowed=4e-2 if backward else 4e-3,
        beside={"plain product": step(lambda: plain, leaves, grad)},
    )


@own_stream()
def main(quick: bool) -> None:
    pace = QUICK if quick else PACE
    rows = measure_steps(product, QUICK_SHAPES if quick else SHAPES, pace, quick)
    notes = [
        "examples/distances, squares and all; its formula by others; backward: gradients of both sets of points; "
        "torch.compile in its default mode",
        f"plain product: a @ b.mT alone, by {blas()}",
    ]
    print_rows("distances of points in bf16", rows, pace, notes=notes)
