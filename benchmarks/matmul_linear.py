"""A linear layer with bias and GELU: ours with all of it in the product's kernel, torch.compile, cuBLAS + eager."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import torch_slang
from benchmarks.comparison import OURS
from benchmarks.measure import device
from benchmarks.products import Product, blas, measure_all, print_rows
from benchmarks.repeats import QUICK, Pace, own_stream

Layer = Callable[[Tensor], Tensor]

PACE = Pace(rounds=10, seconds=20.0)
SHAPES = [(8192, 4096, 4096), (16384, 1024, 4096)]  # rows, in, out
QUICK_SHAPES = [(24, 32, 40)]


def formula(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(F.linear(x, weight, bias))


def step(layer: Callable[[], Layer], leaves: Sequence[Tensor], grad: Tensor | None) -> Callable[[], list[Tensor]]:
    """What is timed: the layer alone, or with the gradients of its input and its parameters.

    `layer` is made by the first call, whose errors are those of this rival.
    """
    made = functools.cache(layer)

    def run() -> list[Tensor]:
        if grad is None:
            with torch.no_grad():
                return [made()(leaves[0])]
        result = made()(leaves[0])
        return [result, *torch.autograd.grad(result, leaves, grad)]

    return run


def fused(weight: Tensor, bias: Tensor) -> Layer:
    """Ours, with these parameters."""
    rows, columns = weight.shape
    linear: Any = getattr(torch_slang.nn, "Linear")  # noqa: B009  (mypy, while it is not there)
    layer = linear(columns, rows, bias=True, epilogue="gelu", device=weight.device, dtype=weight.dtype)
    layer.weight, layer.bias = weight, bias
    made: Layer = layer
    return made


def bound(function: Callable[..., Tensor], weight: Tensor, bias: Tensor) -> Layer:
    return lambda x: function(x, weight, bias)


def compiled(weight: Tensor, bias: Tensor) -> Layer:
    torch.compiler.reset()  # another shape is not a recompilation
    return bound(torch.compile(formula, dynamic=False, fullgraph=True), weight, bias)


def product(shape: tuple[int, int, int], backward: bool, quick: bool) -> Product:
    rows, columns, results = shape
    random = functools.partial(torch.randn, device=device())
    x = random(rows, columns).bfloat16().requires_grad_()
    weight = torch.nn.Parameter((random(results, columns) / columns**0.5).bfloat16())
    bias = torch.nn.Parameter(random(results).bfloat16())
    leaves = [x, weight, bias]
    grad = random(rows, results).bfloat16() if backward else None

    makers: dict[str, Callable[..., Layer]] = {}
    if hasattr(torch_slang.nn, "Linear"):
        makers[OURS] = fused
    if not quick:  # compiling for the CPU takes long
        makers["torch.compile"] = compiled
    makers[f"{blas()} + eager"] = functools.partial(bound, formula)
    runs = {name: step(functools.partial(make, weight, bias), leaves, grad) for name, make in makers.items()}

    def expected() -> list[Tensor]:
        wide = [leaf.detach().double().requires_grad_() for leaf in leaves]
        result = step(lambda: bound(formula, *wide[1:]), wide, None if grad is None else grad.double())()
        return [one.detach() for one in result]

    return Product(
        f"[{rows}, {columns}] -> {results}, {'forward + backward' if backward else 'forward'}",
        runs,
        expected,
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
    if not hasattr(torch_slang.nn, "Linear"):
        notes.append("torch_slang is left out: there is no torch_slang.nn.Linear")
    print_rows("linear + bias + GELU in bf16", measure_all(products, pace), pace, notes=notes)
