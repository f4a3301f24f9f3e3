"""Values and derivatives to second order of random expressions, beside PyTorch's of the same trees."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import torch
from expression_programs import PARAMETERS, SIZES, Expression, draw_expression, module_text
from long_tests import LONG, PROGRAM_SEED

import torch_slang

Tensor = torch.Tensor
MODULES = 32 if LONG else 1  # of 16 expressions: 512 in all
EXPRESSIONS = 16 if LONG else 6  # of a module
ROWS = 5  # of arguments


def derivatives(
    expression: Expression, points: list[Tensor], tangents: list[Tensor], weights: list[Tensor]
) -> list[Tensor]:
    """The value, its tangent, its gradients, and the gradients of their weighted sum; for rows of arguments."""
    inputs = [point.clone().requires_grad_() for point in points]
    value = expression.run(dict(zip(PARAMETERS, inputs, strict=True)))
    value = value + 0 * inputs[0]  # at least one argument is used
    gradients = torch.autograd.grad(value.sum(), inputs, create_graph=True, materialize_grads=True)
    tangent = sum((g * t).flatten(1).sum(1) if g.dim() > 1 else g * t for g, t in zip(gradients, tangents, strict=True))
    weighted = sum((g * w).sum() for g, w in zip(gradients, weights, strict=True))
    seconds = torch.autograd.grad(weighted + 0 * inputs[0].sum(), inputs, materialize_grads=True)
    return [part.detach() for part in (value, torch.as_tensor(tangent), *gradients, *seconds)]


@pytest.mark.parametrize("number", range(MODULES))
def test_random_expressions_to_second_order(quick_compiles: None, number: int, device: torch.device) -> None:
    first = PROGRAM_SEED + number * EXPRESSIONS
    compare(range(first, first + EXPRESSIONS), device)


def compare(seeds: Sequence[int], device: torch.device) -> None:
    """Of the expressions of these seeds, in one module."""
    count = len(seeds)
    expressions = [draw_expression(random.Random(seed)) for seed in seeds]
    name = f"expressions_{seeds[0]}_{count}"
    module = torch_slang.load(source=module_text(expressions), name=name, namespace=name)
    generator = torch.Generator().manual_seed(seeds[0])
    shapes = [(count, ROWS, *SIZES[type]) for type in PARAMETERS.values()]
    points, tangents, weights = (
        [2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1 for shape in shapes] for _ in range(3)
    )
    which = torch.arange(count, dtype=torch.int32, device=device)[:, None].expand(-1, ROWS)
    inputs = [point.to(device).requires_grad_() for point in points]
    directions = [tangent.to(device) for tangent in tangents]
    values, along = torch.func.jvp(
        lambda *given: module.run(which, *given), tuple(x.detach() for x in inputs), tuple(directions)
    )
    gradients = torch.autograd.grad(module.run(which, *inputs).sum(), inputs, create_graph=True)
    weighted = sum((g * w.to(device)).sum() for g, w in zip(gradients, weights, strict=True))
    seconds = torch.autograd.grad(weighted, inputs)
    what = [
        "value",
        "tangent",
        *(f"{kind} by {name}" for kind in ("gradient", "second derivative") for name in PARAMETERS),
    ]
    for n, expression in enumerate(expressions):
        expected = derivatives(expression, *([part[n] for part in given] for given in (points, tangents, weights)))
        actual = [part[n].detach().cpu() for part in (values, along, *gradients, *seconds)]
        for kind, one, other in zip(what, actual, expected, strict=True):
            # PyTorch's second derivatives of a length are NaN where it is zero: nothing to compare with.
            known = other.isfinite()
            # Slang's constants in exp2, log2, log10 and radians are floats.
            scale = 1e-7 * (1 + float(other.nan_to_num(0, 0, 0).abs().max()))
            message = f"{kind} of seed {seeds[n]}: {one} != {other}\n{expression.text}"
            torch.testing.assert_close(one[known], other[known], rtol=1e-6, atol=scale, msg=message)
