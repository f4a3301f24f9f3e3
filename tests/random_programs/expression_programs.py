"""Random Slang expressions of scalars, vectors and matrices, each with what it computes, in PyTorch.

An expression is a tree of operators and functions of Slang's core, drawn so that it is smooth at random arguments with
probability one, and of moderate size. `Expression.text` is its Slang source, `Expression.run` computes it for rows of
arguments: scalars have the shape [rows], vectors [rows, 3], matrices [rows, 3, 3].
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

Tensor = torch.Tensor
Arguments = dict[str, Tensor]
SCALAR, VECTOR, MATRIX = "double", "double3", "double3x3"
PARAMETERS = {"x": SCALAR, "y": SCALAR, "u": VECTOR, "v": VECTOR, "m": MATRIX}
SIZES = {SCALAR: (), VECTOR: (3,), MATRIX: (3, 3)}
COMPONENTS = "xyz"


@dataclass(frozen=True)
class Expression:
    text: str
    run: Callable[[Arguments], Tensor]


@dataclass(frozen=True)
class Form:
    """A Slang function or operator: `{0}`, `{1}` in its text are its operands. Its numbers are in double precision."""

    text: str
    operands: Sequence[str]
    run: Callable[..., Tensor]

    def of(self, operands: Sequence[str]) -> str:
        return re.sub(r"\d+\.\d+", r"\g<0>lf", self.text).format(*operands)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1)


def _unit(a: Tensor) -> Tensor:
    return a / a.norm(dim=-1, keepdim=True)


def _scaled(a: Tensor, x: Tensor) -> Tensor:
    return a * x.reshape(*x.shape, *[1] * (a.dim() - x.dim()))


def _beside(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """A number and a vector or matrix, as tensors of as many dimensions."""
    most = max(a.dim(), b.dim())
    first, second = (x.reshape(*x.shape, *[1] * (most - x.dim())) for x in (a, b))
    return first, second


# What programs call: a helper with a number, a struct with a method behind an interface, a generic function.
HELPERS = """
[Differentiable] double3 pick(double a, double3 x) { return a * x + a; }
[Differentiable] double stopped(double x) { return x * x; }
interface Line : IDifferentiable { [Differentiable] double3 along(double t); }
struct Loose : Line
{
    double3 o, d;
    [Differentiable] __init(double3 o, double3 d) { this.o = o; this.d = d; }
    [Differentiable] double3 along(double t) { return o + t * d; }
};
[Differentiable] double3 shared<L : Line>(L line, double t) { return line.along(t); }
[Differentiable] vector<T, 3> scaled<T : __BuiltinFloatingPointType>(T a, vector<T, 3> x) { return a * (x * a); }
"""


# Of one scalar, which may have any value.
OF_ONE: dict[str, Callable[[Tensor], Tensor]] = {
    "sin({0})": torch.sin,
    "cos({0})": torch.cos,
    "tan(0.4 * sin({0}))": lambda x: torch.tan(0.4 * torch.sin(x)),
    "asin(0.8 * cos({0}))": lambda x: torch.asin(0.8 * torch.cos(x)),
    "acos(0.7 * sin({0}))": lambda x: torch.acos(0.7 * torch.sin(x)),
    "atan({0})": torch.atan,
    "sinh(sin({0}))": lambda x: torch.sinh(torch.sin(x)),
    "cosh(cos({0}))": lambda x: torch.cosh(torch.cos(x)),
    "tanh({0})": torch.tanh,
    "exp(sin({0}))": lambda x: torch.exp(torch.sin(x)),
    "exp2(cos({0}))": lambda x: torch.exp2(torch.cos(x)),
    "log(1.5 + sin({0}))": lambda x: torch.log(1.5 + torch.sin(x)),
    "log2(1.3 + cos({0}))": lambda x: torch.log2(1.3 + torch.cos(x)),
    "log10(1.2 + tanh({0}))": lambda x: torch.log10(1.2 + torch.tanh(x)),
    "sqrt(1.1 + sin({0}))": lambda x: torch.sqrt(1.1 + torch.sin(x)),
    "rsqrt(1.4 + cos({0}))": lambda x: torch.rsqrt(1.4 + torch.cos(x)),
    "rcp(1.6 + sin({0}))": lambda x: 1 / (1.6 + torch.sin(x)),
    "abs({0})": torch.abs,
    "saturate({0})": lambda x: x.clamp(0, 1),
    "clamp({0}, -0.4, 0.6)": lambda x: x.clamp(-0.4, 0.6),
    "(-{0})": lambda x: -x,
    "({0} > 0.1 ? {0} * {0} : sin({0}))": lambda x: torch.where(x > 0.1, x * x, torch.sin(x)),
}
S, V, M = SCALAR, VECTOR, MATRIX
FORMS: dict[str, list[Form]] = {
    SCALAR: [
        *(Form(text, (S,), run) for text, run in OF_ONE.items()),
        Form("({0} + {1})", (S, S), lambda a, b: a + b),
        Form("({0} - {1})", (S, S), lambda a, b: a - b),
        Form("({0} * {1})", (S, S), lambda a, b: a * b),
        Form("({0} / (1.3 + {1} * {1}))", (S, S), lambda a, b: a / (1.3 + b * b)),
        Form("pow(1.5 + sin({0}), cos({1}))", (S, S), lambda a, b: (1.5 + torch.sin(a)) ** torch.cos(b)),
        Form("atan2({0}, 1.2 + sin({1}))", (S, S), lambda a, b: torch.atan2(a, 1.2 + torch.sin(b))),
        Form("min({0}, {1})", (S, S), torch.minimum),
        Form("max({0}, {1})", (S, S), torch.maximum),
        Form("lerp({0}, {1}, {2})", (S, S, S), lambda a, b, t: a + (b - a) * t),
        Form("fma({0}, {1}, {2})", (S, S, S), lambda a, b, c: a * b + c),
        Form("({0} < {1} ? {2} : {0})", (S, S, S), lambda a, b, c: torch.where(a < b, c, a)),
        Form("dot({0}, {1})", (V, V), _dot),
        Form("length({0})", (V,), lambda a: a.norm(dim=-1)),
        Form("distance({0}, {1} + 3)", (V, V), lambda a, b: (a - b - 3).norm(dim=-1)),
        Form("determinant({0})", (M,), torch.linalg.det),
        *(Form(f"{{0}}.{name}", (V,), lambda a, n=n: a[..., n]) for n, name in enumerate(COMPONENTS)),
        Form("{0}[1][2]", (M,), lambda a: a[..., 1, 2]),
    ],
    VECTOR: [
        Form("({0} + {1})", (V, V), lambda a, b: a + b),
        Form("({0} - {1})", (V, V), lambda a, b: a - b),
        Form("({0} * {1})", (V, V), lambda a, b: a * b),
        *(
            Form(f"({{0}} {sign} {{1}})", operands, lambda a, b, f=function: f(*_beside(a, b)))
            for sign, function in {"+": torch.add, "-": torch.sub, "*": torch.mul}.items()
            for operands in ((S, V), (V, S))
        ),
        Form("({0} / (1.3 + {1} * {1}))", (V, S), lambda a, b: a / _scaled(torch.ones_like(a), 1.3 + b * b)),
        Form("({0} / (1.3 + {1} * {1}))", (S, V), lambda a, b: a[..., None] / (1.3 + b * b)),
        Form("pick({0}, {1})", (S, V), lambda a, b: _scaled(b, a) + a[..., None]),
        Form("lerp({0}, {1}, {2})", (V, V, S), lambda a, b, t: a + _scaled(b - a, t)),
        Form("Loose({0}, {1}).along({2})", (V, V, S), lambda a, b, t: a + _scaled(b, t)),
        Form("shared(Loose({0}, {1}), {2})", (V, V, S), lambda a, b, t: a + _scaled(b, t)),
        Form("scaled<double>({0}, {1})", (S, V), lambda a, b: _scaled(b, a * a)),
        Form("({0} * detach({1}))", (V, S), lambda a, b: _scaled(a, b.detach())),
        Form("({0} * (no_diff stopped({1})))", (V, S), lambda a, b: _scaled(a, (b * b).detach())),
        Form("cross({0}, {1})", (V, V), torch.linalg.cross),
        Form("normalize({0} + 2)", (V,), lambda a: _unit(a + 2)),
        Form(
            "reflect({0}, normalize({1} + 2))",
            (V, V),
            lambda a, b: a - 2 * _scaled(_unit(b + 2), _dot(a, _unit(b + 2))),
        ),
        Form("lerp({0}, {1}, {2})", (V, V, V), lambda a, b, t: a + (b - a) * t),
        Form("sin({0})", (V,), torch.sin),
        Form("exp(cos({0}))", (V,), lambda a: torch.exp(torch.cos(a))),
        Form("max({0}, {1})", (V, V), torch.maximum),
        Form("{0}.zxy", (V,), lambda a: a[..., [2, 0, 1]]),
        Form("double3({0}, {1}, {2})", (S, S, S), lambda a, b, c: torch.stack([a, b, c], -1)),
        Form("double3({0}.yx, {1})", (V, S), lambda a, b: torch.stack([a[..., 1], a[..., 0], b], -1)),
        Form("mul({0}, {1})", (M, V), lambda a, b: (a @ b[..., None])[..., 0]),
        Form("mul({0}, {1})", (V, M), lambda a, b: (a[..., None, :] @ b)[..., 0, :]),
        Form("{0}[2]", (M,), lambda a: a[..., 2, :]),
    ],
    MATRIX: [
        Form("mul({0}, {1})", (M, M), torch.matmul),
        Form("transpose({0})", (M,), lambda a: a.mT),
        Form("({0} * (0.5 + {1}))", (M, S), lambda a, x: _scaled(a, 0.5 + x)),
        Form("({1} * {0})", (M, S), _scaled),
        Form("({0} - {1})", (S, M), lambda a, b: torch.sub(*_beside(a, b))),
        Form("({1} / (1.5 + {0} * {0}))", (M, S), lambda a, x: x[..., None, None] / (1.5 + a * a)),
        Form("({0} + {1})", (M, M), lambda a, b: a + b),
        Form("double3x3({0}, {1}, {2})", (V, V, V), lambda a, b, c: torch.stack([a, b, c], -2)),
    ],
}


def draw_expression(rng: random.Random, type: str = SCALAR, depth: int = 4) -> Expression:
    if depth == 0 or (depth < 3 and rng.random() < 0.15):
        name = rng.choice([name for name, its in PARAMETERS.items() if its == type])
        return Expression(name, lambda arguments: arguments[name])
    form = rng.choice(FORMS[type])
    operands = [draw_expression(rng, operand, depth - 1) for operand in form.operands]
    return Expression(
        form.of([operand.text for operand in operands]),
        lambda arguments: form.run(*(operand.run(arguments) for operand in operands)),
    )


def module_text(expressions: Sequence[Expression]) -> str:
    """One function, `run(which, x, y, u, v, m)`, that calls the function of the expression of that number."""
    parameters = ", ".join(f"{type} {name}" for name, type in PARAMETERS.items())
    names = ", ".join(PARAMETERS)
    text, calls = "import torch_slang;\n" + HELPERS, ""
    for number, expression in enumerate(expressions):
        text += f"[Differentiable] double f{number}({parameters}) {{ return {expression.text}; }}\n"
        calls += f"    if (which == {number}) result = f{number}({names});\n"
    head = f"[TorchOp] [Differentiable] double run(int which, {parameters})"
    return text + f"{head}\n{{\n    double result = 0.0;\n{calls}    return result;\n}}\n"
