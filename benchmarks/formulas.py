"""Differentiable functions with a matrix product in them, beside their formula by torch.compile and by eager."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from benchmarks.comparison import OURS
from benchmarks.products import Product, Row, blas, measure_all
from benchmarks.repeats import Pace

Function = Callable[..., Tensor]
Shape = TypeVar("Shape")


def formula_product(
    title: str,
    ours: Callable[[], Function],
    formula: Function,
    leaves: Sequence[Tensor],
    grad: Tensor | None,
    operations: int,
    *,
    quick: bool,
    steady: bool = False,
    **more: Any,
) -> Product:
    """A row. `ours` makes what is measured. `grad` is the result's: with it gradients of all `leaves` are computed too.

    `operations`: of the product, which is computed once, with gradients three times. `more` goes to `Product`.
    """
    makers: dict[str, Callable[[], Function]] = {OURS: ours}
    if not quick:  # compiling for the CPU takes long
        makers["torch.compile"] = functools.partial(_compiled, formula)
    makers[f"{blas()} + eager"] = lambda: formula
    return Product(
        f"{title}, {'forward' if grad is None else 'forward + backward'}",
        {name: step(make, leaves, grad) for name, make in makers.items()},
        functools.partial(_expected, formula, leaves, grad),
        operations * (1 if grad is None else 3),
        leaves[0].dtype,
        steady=list(makers) if steady else [],
        **more,
    )


def step(make: Callable[[], Function], leaves: Sequence[Tensor], grad: Tensor | None) -> Callable[[], list[Tensor]]:
    """What is timed of a function: itself, or itself and the gradients of its arguments.

    `make` gives the function. The first run calls it: what it raises counts against this rival alone.
    """
    made = functools.cache(make)

    def run() -> list[Tensor]:
        if grad is None:
            with torch.no_grad():
                return [made()(*leaves)]
        result = made()(*leaves)
        return [result, *torch.autograd.grad(result, leaves, grad)]

    return run


def measure_steps(
    product: Callable[[Shape, bool, bool], Product], shapes: Sequence[Shape], pace: Pace, quick: bool
) -> list[Row]:
    """Of each shape forward, and forward + backward: `product(shape, backward, quick)`."""
    return measure_all(
        [functools.partial(product, shape, backward, quick) for shape in shapes for backward in (False, True)], pace
    )


def _expected(formula: Function, leaves: Sequence[Tensor], grad: Tensor | None) -> list[Tensor]:
    """In float64."""
    wide = [leaf.detach().double().requires_grad_() for leaf in leaves]
    results = step(lambda: formula, wide, None if grad is None else grad.double())()
    return [one.detach() for one in results]


def _compiled(formula: Function) -> Function:
    torch.compiler.reset()  # another shape is not a recompilation
    made: Function = torch.compile(formula, dynamic=False, fullgraph=True)
    return made
