"""A linear layer with bias and GELU: ours with all of it in the product's kernel, torch.compile, cuBLAS + eager."""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from torch import Tensor

import torch_slang
from benchmarks.formulas import Function, formula_product, measure_steps
from benchmarks.measure import device
from benchmarks.products import Product, print_rows
from benchmarks.repeats import QUICK, Pace, own_stream

PACE = Pace(rounds=10)
SHAPES = [(8192, 4096, 4096), (16384, 1024, 4096)]  # rows, in, out
QUICK_SHAPES = [(24, 32, 40)]


def formula(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(F.linear(x, weight, bias))


def fused(weight: torch.nn.Parameter, bias: torch.nn.Parameter) -> Function:
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

    return formula_product(
        f"[{rows}, {columns}] -> {results}",
        functools.partial(fused, weight, bias),
        formula,
        leaves,
        grad,
        2 * rows * columns * results,
        quick=quick,
        steady=min(shape) >= 4096,
    )


@own_stream()
def main(quick: bool) -> None:
    pace = QUICK if quick else PACE
    rows = measure_steps(product, QUICK_SHAPES if quick else SHAPES, pace, quick)
    notes = ["GELU by erf; backward: gradients of input, weight and bias; torch.compile in its default mode"]
    print_rows("linear + bias + GELU in bf16", rows, pace, notes=notes)
