"""Random formulas of numbers of all magnitudes: in Slang, in PyTorch, and to 60 digits with their slopes.

Constants are from 1e-30 to 1e30, arguments too, with zeros of both signs, infinities and NaN.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath
import torch

Tensor = torch.Tensor


@dataclass(frozen=True)
class Exact:
    """A value to 60 digits, its slopes by the arguments, and the largest slope by what is computed on the way to it."""

    value: mpmath.mpf
    slopes: tuple[mpmath.mpf, ...]
    steepest: mpmath.mpf


NAMES = ("x", "y")
LARGEST = 3e38  # that a float holds
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan]
Rounding = Callable[[mpmath.mpf], mpmath.mpf]


@dataclass(frozen=True)
class Formula:
    text: str
    run: Callable[[Sequence[Tensor]], Tensor]
    exact: Callable[[Sequence[Exact], Rounding], Exact]


@dataclass(frozen=True)
class Rule:
    """An operator or a function: its value, and its slopes by each operand."""

    text: str
    run: Callable[..., Tensor]
    value: Callable[..., mpmath.mpf]
    slopes: Callable[..., Sequence[mpmath.mpf]]


RULES = [
    Rule("({0} + {1})", torch.add, lambda a, b: a + b, lambda a, b: (1, 1)),
    Rule("({0} - {1})", torch.sub, lambda a, b: a - b, lambda a, b: (1, -1)),
    Rule("({0} * {1})", torch.mul, lambda a, b: a * b, lambda a, b: (b, a)),
    Rule("({0} / {1})", torch.div, lambda a, b: a / b, lambda a, b: (1 / b, -a / b / b)),
    Rule("({0} / {1})", torch.div, lambda a, b: a / b, lambda a, b: (1 / b, -a / b / b)),
    Rule("atan2({0}, {1})", torch.atan2, mpmath.atan2, lambda a, b: (b / (a * a + b * b), -a / (a * a + b * b))),
    Rule("sqrt(abs({0}))", lambda a: a.abs().sqrt(), lambda a: mpmath.sqrt(abs(a)),
         lambda a: (mpmath.sign(a) / (2 * mpmath.sqrt(abs(a))),)),
    Rule("log(abs({0}))", lambda a: a.abs().log(), lambda a: mpmath.log(abs(a)), lambda a: (1 / a,)),
    Rule("exp({0})", torch.exp, mpmath.exp, lambda a: (mpmath.exp(a),)),
    Rule("tanh({0})", torch.tanh, mpmath.tanh, lambda a: (mpmath.sech(a) ** 2,)),
    Rule("rcp({0})", torch.reciprocal, lambda a: 1 / a, lambda a: (-1 / a / a,)),
    Rule("pow(abs({0}), 1.5f)", lambda a: a.abs() ** 1.5, lambda a: abs(a) ** mpmath.mpf(1.5),
         lambda a: (mpmath.mpf(1.5) * mpmath.sqrt(abs(a)) * mpmath.sign(a),)),
]  # fmt: skip


def magnitude(rng: random.Random) -> float:
    value = rng.uniform(1, 10) * 10.0 ** rng.randint(-30, 29) * rng.choice([1, -1])
    return float(torch.tensor(value, dtype=torch.float32))


def _constant(number: float, like: Tensor) -> Tensor:
    """With a tangent of 0, where Slang's constants have one; a tensor of its own would have none."""
    return torch.where(torch.ones_like(like, dtype=torch.bool), torch.full_like(like, number), like)


def draw_formula(rng: random.Random) -> Formula:
    """Each argument stands in it once at most: where slopes are summed, what cancels has no right digits."""
    return _draw(rng, rng.randint(1, 3), list(range(len(NAMES))))


def _draw(rng: random.Random, depth: int, unused: list[int]) -> Formula:
    if depth == 0:
        if not unused or rng.random() < 0.3:
            number = magnitude(rng) if rng.random() < 0.6 else float(rng.randint(1, 3))
            constant = Exact(mpmath.mpf(number), (mpmath.mpf(0),) * len(NAMES), mpmath.mpf(0))
            return Formula(f"float({number!r})", lambda given: _constant(number, given[1]), lambda *_: constant)
        k = unused.pop(rng.randrange(len(unused)))
        return Formula(NAMES[k], lambda given: given[k], lambda given, _: given[k])
    rule = rng.choice(RULES)
    operands = [_draw(rng, depth - 1, unused) for _ in range(2 if "{1}" in rule.text else 1)]

    def exact(given: Sequence[Exact], rounding: Rounding) -> Exact:
        inner = [operand.exact(given, rounding) for operand in operands]
        values = [one.value for one in inner]
        slopes = _or_nan(rule.slopes, values, [mpmath.nan] * len(values))
        if any(abs(slope) > LARGEST for slope in slopes):
            raise OverflowError
        along = tuple(
            mpmath.fsum(s * one.slopes[k] for s, one in zip(slopes, inner, strict=True) if one.slopes[k] != 0)
            for k in range(len(NAMES))
        )
        steepest = max(mpmath.mpf(1), *(abs(s) * one.steepest for s, one in zip(slopes, inner, strict=True)))
        return Exact(rounding(_or_nan(rule.value, values, mpmath.nan)), along, steepest)

    return Formula(
        rule.text.format(*(operand.text for operand in operands)),
        lambda given: rule.run(*(operand.run(given) for operand in operands)),
        exact,
    )


def _or_nan(function: Callable[..., Any], values: Sequence[mpmath.mpf], otherwise: Any) -> Any:
    try:
        return function(*values)
    except (ZeroDivisionError, ValueError):
        return otherwise


def _to_float(value: mpmath.mpf) -> mpmath.mpf:
    return mpmath.mpf(float(torch.tensor(float(value), dtype=torch.float32)))


def exact_slopes(formula: Formula, arguments: Sequence[float], near: float) -> list[float] | None:
    """Rounded to doubles; NaN where there is none.

    None where floats cannot be right: a slope on the way is out of their reach, or the slopes are others by more than
    the part `near` where each value on the way is rounded to a float. The operands of a formula form a tree, so what
    the backward hands to one is the product of the slopes above it.
    """
    with mpmath.workdps(60):
        zero, one = mpmath.mpf(0), mpmath.mpf(1)
        given = [Exact(mpmath.mpf(a), (one, zero) if k == 0 else (zero, one), zero) for k, a in enumerate(arguments)]
        try:
            found, rounded = formula.exact(given, lambda value: value), formula.exact(given, _to_float)
        except (OverflowError, MemoryError):
            return None
        differences = [abs(a - b) > near * abs(a) for a, b in zip(found.slopes, rounded.slopes, strict=True)]
        if found.steepest > LARGEST or any(differences):
            return None
        return [float(slope) for slope in found.slopes]


def module_text(formulas: Sequence[Formula]) -> str:
    text, calls = "import torch_slang;\n", ""
    for k, formula in enumerate(formulas):
        text += f"[Differentiable] float f{k}(float x, float y) {{ return {formula.text}; }}\n"
        calls += f"    if (which == {k}) result = f{k}(x, y);\n"
    head = "[TorchOp] [Differentiable] float run(int which, float x, float y)"
    return text + f"{head}\n{{\n    float result = 0.0f;\n{calls}    return result;\n}}\n"
