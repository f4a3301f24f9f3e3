"""A linear layer with bias and GELU: ours with all of it in the product's kernel, torch.compile, cuBLAS + eager."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

import torch_slang
from benchmarks.comparison import OURS
from benchmarks.measure import device
from benchmarks.products import Product, blas, compiled, measure_all, print_rows, step, wide_step
from benchmarks.repeats import QUICK, Pace, own_stream

PACE = Pace(rounds=10)
SHAPES = [(8192, 4096, 4096), (16384, 1024, 4096)]  # rows, in, out
QUICK_SHAPES = [(24, 32, 40)]


def formula(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(F.linear(x, weight, bias))


def fused(weight: torch.nn.Parameter, bias: torch.nn.Parameter) -> Callable[..., Tensor]:
    """Ours, with these parameters."""
    rows, columns = weight.shape
    layer = torch_slang.nn.Linear(columns, rows, epilogue="gelu", device=weight.device, dtype=weight.dtype)
    layer.weight, layer.bias = weight, bias
    return lambda x, *_: layer(x)


def product(shape: tuple[int, int, int], backward: bool, quick: bool) -> Product:
    rows, columns, results = shape
    random = functools.partial(torch.randn, device=device())
    x = random(rows, columns).bfloat16().requires_grad_()
    weight = torch.nn.Parameter((random(results, columns) / columns**0.5).bfloat16())
    bias = torch.nn.Parameter(random(results).bfloat16())
    leaves = [x, weight, bias]
    grad = random(rows, results).bfloat16() if backward else None

    makers: dict[str, Callable[[], Callable[..., Tensor]]] = {OURS: functools.partial(fused, weight, bias)}
    if not quick:  # compiling for the CPU takes long
        makers["torch.compile"] = functools.partial(compiled, formula)
    makers[f"{blas()} + eager"] = lambda: formula
    runs = {name: step(make, leaves, grad) for name, make in makers.items()}

    return Product(
        f"[{rows}, {columns}] -> {results}, {'forward + backward' if backward else 'forward'}",
        runs,
        functools.partial(wide_step, formula, leaves, grad),
        (6 if backward else 2) * rows * columns * results,
        torch.bfloat16,
        steady=list(runs) if min(shape) >= 4096 else [],
    )


@own_stream()
def main(quick: bool) -> None:
    pace = QUICK if quick else PACE
    products = [
        functools.partial(product, shape, backward, quick)
        for shape in (QUICK_SHAPES if quick else SHAPES)
        for backward in (False, True)
    ]
    notes = ["GELU by erf; backward: gradients of input, weight and bias; torch.compile in its default mode"]
    print_rows("linear + bias + GELU in bf16", measure_all(products, pace), pace, notes=notes)
