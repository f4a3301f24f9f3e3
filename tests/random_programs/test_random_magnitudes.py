"""Slopes of random formulas of tiny and huge numbers: Slang's are as near to 60 digits as PyTorch's in float32."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest
import torch
from long_tests import LONG, PROGRAM_SEED
from magnitude_programs import LARGEST, NAMES, SPECIAL, draw_formula, exact_slopes, magnitude, module_text

import torch_slang

Tensor = torch.Tensor
MODULES = 64 if LONG else 1
FORMULAS = 16  # of a module
ROWS = 24  # of arguments
NEAR = 1e-2  # sums that cancel lose digits in either; what is looked for are zeros, infinities and NaN
SMALLEST = 1e-37  # what float holds with all its digits


def arguments(rng: random.Random) -> list[list[float]]:
    rows = [[magnitude(rng) for _ in NAMES] for _ in range(ROWS - 8)]
    rows += [[rng.uniform(-2, 2) for _ in NAMES] for _ in range(4)]
    return rows + [[rng.choice(SPECIAL), magnitude(rng)] for _ in range(4)]


def error(value: float, exact: float) -> float:
    if not math.isfinite(value):
        return math.inf
    return abs(value - exact) / max(abs(exact), SMALLEST)


def is_right(ours: float, theirs: float, exact: float) -> bool:
    if not math.isfinite(theirs):
        return True  # there is nothing to be as good as
    if math.isnan(exact):
        return error(ours, theirs) <= NEAR or abs(ours - theirs) < SMALLEST
    if abs(exact) > LARGEST:
        return ours == math.copysign(math.inf, exact) or error(ours, exact) <= NEAR
    if error(theirs, exact) > NEAR:
        return True
    return error(ours, exact) <= NEAR or abs(ours - exact) < SMALLEST


def slopes(call: Callable[..., Tensor], given: list[Tensor]) -> tuple[list[Tensor], Tensor]:
    """The gradients, and the tangents along the first argument: NaN where the value is infinite.

    The tangent of a constant is 0 in Slang, where PyTorch has none, and an infinity times 0 is NaN.
    """
    leaves = [tensor.detach().requires_grad_() for tensor in given]
    gradients = torch.autograd.grad(call(*leaves).sum(), leaves, materialize_grads=True)
    value, tangent = torch.func.jvp(call, tuple(given), (torch.ones_like(given[0]), torch.zeros_like(given[1])))
    tangent = tangent.where(value.isfinite(), math.nan)
    return [gradient.detach().cpu() for gradient in gradients], tangent.detach().cpu()


@pytest.mark.parametrize("number", range(MODULES))
def test_slopes_of_random_formulas(quick_compiles: None, number: int, device: torch.device) -> None:
    first = PROGRAM_SEED + number * FORMULAS
    compare(range(first, first + FORMULAS), device)


def compare(seeds: Sequence[int], device: torch.device) -> None:
    """Of the formulas of these seeds, in one module."""
    rngs = [random.Random(seed) for seed in seeds]
    formulas = [draw_formula(rng) for rng in rngs]
    name = f"magnitudes_{seeds[0]}_{len(seeds)}"
    module = torch_slang.load(source=module_text(formulas), name=f"{name}.slang", namespace=name)
    points = torch.tensor([arguments(rng) for rng in rngs], dtype=torch.float32)  # [formulas, rows, arguments]
    which = torch.arange(len(seeds), dtype=torch.int32, device=device)[:, None].expand(-1, ROWS)
    given = [points[..., k].contiguous() for k in range(len(NAMES))]
    ours, along = slopes(lambda x, y: module.run(which, x, y), [tensor.to(device) for tensor in given])
    problems = []
    for k, formula in enumerate(formulas):
        theirs, theirs_along = slopes(
            lambda x, y, f=formula: f.run([x, y]) + 0 * x * 0, [tensor[k] for tensor in given]
        )
        for row in range(ROWS):
            numbers = points[k, row].tolist()
            exact = exact_slopes(formula, numbers, NEAR / 4)
            if exact is None:
                continue
            for a, name in enumerate(NAMES):
                found = {f"by {name}": (float(ours[a][k, row]), float(theirs[a][row]))}
                if a == 0:
                    found["along x"] = (float(along[k, row]), float(theirs_along[row]))
                for what, (value, other) in found.items():
                    if not is_right(value, other, exact[a]):
                        problems.append(
                            f"{what} of seed {seeds[k]}, {formula.text}, at {numbers}: {value}, PyTorch {other}, "
                            f"to 60 digits {exact[a]}"
                        )
    assert not problems, "\n".join(problems[:40])
