"""The functions of kernels/functions*.slang in plain PyTorch, with arguments to call both on.

A formula is written for arguments of one outer shape: `Case.reference` broadcasts the outer shapes first, as the
operators do. What a function takes and gives is flattened, in the order of the operator's schema.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from cases import kernels

Tensor = torch.Tensor
Range = tuple[float, float]

MIXED = (
    (5, 1),
    (7,),
    (),
    (1, 7),
)  # outer shapes that broadcast to [5, 7]; of functions of one argument, the first is [5, 7]


@dataclass(frozen=True)
class Argument:
    """A tensor whose trailing dimensions are `element`. Whole numbers, if it has another dtype than the call's."""

    element: tuple[int, ...] = ()
    between: Range = (-2.0, 2.0)
    differentiable: bool = True
    dtype: torch.dtype | None = None  # None: that of the call

    def make(
        self, outer: Sequence[int], device: torch.device, dtype: torch.dtype, generator: torch.Generator
    ) -> Tensor:
        low, high = self.between
        values = torch.rand((*outer, *self.element), dtype=torch.float64, generator=generator) * (high - low) + low
        if self.dtype is None:
            return values.to(device, dtype).requires_grad_(self.differentiable)
        if self.dtype == torch.bool:
            return (values > (high + low) / 2).to(device)
        if not self.dtype.is_floating_point:
            values = values.round()
        return values.to(device, self.dtype).requires_grad_(self.differentiable and self.dtype.is_floating_point)


def vector(size: int, between: Range = (-2.0, 2.0)) -> Argument:
    return Argument((size,), between)


def matrix(rows: int, columns: int) -> Argument:
    return Argument((rows, columns))


def constant(*element: int, between: Range = (-2.0, 2.0)) -> Argument:
    return Argument(element, between, differentiable=False)


def whole(low: int, high: int, dtype: torch.dtype = torch.int32) -> Argument:
    return Argument((), (low, high), False, dtype)


FLAG = Argument((), (0, 1), False, torch.bool)
NUMBER = Argument()
POSITIVE = Argument((), (0.3, 3.0))
INSIDE = Argument((), (-0.9, 0.9))
GENERIC = (torch.float64, torch.float32)
SINGLE = (torch.float32,)


@dataclass(frozen=True)
class Case:
    name: str
    arguments: tuple[Argument, ...]
    formula: Callable[..., Any]
    dtypes: tuple[torch.dtype, ...] = GENERIC
    file: str = "functions"

    def __str__(self) -> str:
        return self.name

    @property
    def op(self) -> Any:
        return getattr(getattr(torch.ops, kernels(self.file).namespace), self.name).default

    @property
    def is_differentiable(self) -> bool:
        return any(argument.differentiable for argument in self.arguments)

    def make(
        self, outers: Sequence[Sequence[int]], dtype: torch.dtype, device: torch.device | str = "cpu", seed: int = 7
    ) -> list[Tensor]:
        """Arguments with the outer shapes of `outers`, which are repeated as needed."""
        generator = torch.Generator().manual_seed(seed)
        return [
            argument.make(outers[i % len(outers)], torch.device(device), dtype, generator)
            for i, argument in enumerate(self.arguments)
        ]

    def mixed(self, dtype: torch.dtype, device: torch.device | str = "cpu") -> list[Tensor]:
        return self.make(MIXED if len(self.arguments) > 1 else ((5, 7),), dtype, device)

    def reference(self, *values: Tensor) -> Any:
        outer = torch.broadcast_shapes(
            *(
                value.shape[: value.dim() - len(argument.element)]
                for argument, value in zip(self.arguments, values, strict=True)
            )
        )
        return self.formula(
            *(
                value.expand((*outer, *value.shape[value.dim() - len(argument.element) :]))
                for argument, value in zip(self.arguments, values, strict=True)
            )
        )


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1)


def _cross(a: Tensor, b: Tensor) -> Tensor:
    return torch.linalg.cross(a, b)


def _unit(v: Tensor) -> Tensor:
    return v / v.norm(dim=-1, keepdim=True)


def _reflect(i: Tensor, n: Tensor) -> Tensor:
    return i - 2 * _dot(i, n)[..., None] * n


def _refract(i: Tensor, n: Tensor, eta: Tensor) -> Tensor:
    cos, eta = _dot(n, i)[..., None], eta[..., None]
    k = 1 - eta * eta * (1 - cos * cos)
    bent = eta * i - (eta * cos + k.clamp(min=1e-30).sqrt()) * n
    return torch.where(k < 0, torch.zeros_like(bent), bent)


def _frac(x: Tensor) -> Tensor:
    return x - x.detach().floor()


def _times(m: Tensor, v: Tensor) -> Tensor:
    return (m @ v[..., None])[..., 0]


def _bounds(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    first = torch.minimum(x, y) + torch.maximum(y, z) * x.clamp(-1, 1) + x.lerp(y, z)
    second = x.abs() * y.clamp(0, 1) + _frac(z) + x * y + z + z * y + x
    return first + second + torch.atan2(x, y)


def _powers(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return x.exp() + x.exp2(), x.log() * x.log2() - x.log10(), x.sqrt() * (x + y * y).rsqrt(), x**y


def _intrinsic(name: str, arguments: tuple[Argument, ...], formula: Callable[..., Any], **options: Any) -> Case:
    return Case(name, arguments, formula, file="functions_intrinsics", **options)


def _unary(name: str, formula: Callable[[Tensor], Tensor], argument: Argument = NUMBER) -> Case:
    return _intrinsic(f"{name}_of", (argument,), formula)


def _binary(name: str, formula: Callable[..., Tensor], *arguments: Argument) -> Case:
    return _intrinsic(f"{name}_of", arguments or (NUMBER, NUMBER), formula)


INTRINSICS = [
    _unary("sin", torch.sin),
    _unary("cos", torch.cos),
    _unary("tan", torch.tan, Argument((), (-1.2, 1.2))),
    _unary("asin", torch.asin, INSIDE),
    _unary("acos", torch.acos, INSIDE),
    _unary("atan", torch.atan),
    _unary("sinh", torch.sinh),
    _unary("cosh", torch.cosh),
    _unary("tanh", torch.tanh),
    _unary("asinh", torch.asinh),
    _unary("acosh", torch.acosh, Argument((), (1.2, 4.0))),
    _unary("atanh", torch.atanh, INSIDE),
    _unary("exp", torch.exp),
    _unary("exp2", torch.exp2),
    _unary("log", torch.log, POSITIVE),
    _unary("log2", torch.log2, POSITIVE),
    _unary("log10", torch.log10, POSITIVE),
    _unary("sqrt", torch.sqrt, POSITIVE),
    _unary("rsqrt", torch.rsqrt, POSITIVE),
    _unary("rcp", torch.reciprocal, POSITIVE),
    _unary("abs", torch.abs),
    _unary("frac", _frac),
    _unary("saturate", lambda x: x.clamp(0, 1)),
    _binary("atan2", torch.atan2),
    _binary("pow", torch.pow, POSITIVE, NUMBER),
    _binary("min", torch.minimum),
    _binary("max", torch.maximum),
    _binary("copysign", torch.copysign),
    _binary("fmod", torch.fmod, NUMBER, constant(between=(0.5, 1.5))),
    _binary("clamp", torch.clamp, NUMBER, Argument((), (-1.5, -0.5)), Argument((), (0.5, 1.5))),
    _binary("lerp", torch.lerp, NUMBER, NUMBER, NUMBER),
    _binary("mad", lambda x, y, z: x * y + z, NUMBER, NUMBER, NUMBER),
    _binary("fma", lambda x, y, z: x * y + z, NUMBER, NUMBER, NUMBER),
    _intrinsic(
        "angles",
        (NUMBER, NUMBER),
        lambda a, b: torch.stack([torch.deg2rad(a), torch.rad2deg(b)], -1),
        dtypes=SINGLE,
    ),
    _intrinsic("circular", (vector(3, (-1.2, 1.2)),), lambda x: (x.sin(), x.cos(), x.tan(), x.atan())),
    _intrinsic("hyperbolic", (vector(2),), lambda x: (x.sinh(), x.cosh(), x.tanh(), x.asinh())),
    _intrinsic("powers", (vector(4, (0.3, 3.0)), vector(4)), _powers),
    _intrinsic("bounds", (vector(3),) * 3, _bounds),
    _intrinsic("sine_and_cosine", (vector(3),), lambda x: 2 * x.sin() + x.cos() ** 2),
    _binary("dot", _dot, vector(3), vector(3)),
    _binary("cross", _cross, vector(3), vector(3)),
    _binary("reflect", _reflect, vector(3), vector(3)),
    _binary("distance", lambda x, y: (x - y).norm(dim=-1), vector(3), vector(3)),
    _unary("length", lambda x: x.norm(dim=-1), vector(3)),
    _unary("normalize", _unit, vector(4)),
    _binary("refract", _refract, vector(3), vector(3), Argument((), (0.5, 1.5))),
    _intrinsic("matrix_times_vector", (matrix(2, 3), vector(3)), _times),
    _intrinsic("vector_times_matrix", (vector(2), matrix(2, 3)), lambda v, m: _times(m.mT, v)),
    _intrinsic("matrix_times_matrix", (matrix(2, 3), matrix(3, 4)), torch.matmul),
    _unary("transpose", lambda m: m.mT, matrix(2, 3)),
    _intrinsic(
        "determinants",
        (matrix(2, 2), matrix(3, 3), matrix(4, 4)),
        lambda a, b, c: torch.det(a) + torch.det(b) * torch.det(c),
    ),
    _intrinsic(
        "matrix_by_component",
        (matrix(2, 3), matrix(2, 3)),
        lambda a, b: a.sin() * b.exp() + torch.maximum(a, b) - a,
    ),
]


def polynomial(a: Tensor, b: Tensor, c: Tensor, x: Tensor) -> Tensor:
    return a * x * x + b * x + c


def weighed(x: Tensor, weight: Tensor) -> Tensor:
    return x * x * weight + weight


def shaded(position: Tensor, light: Tensor, gloss: Tensor) -> Tensor:
    normal, gloss = _unit(position), gloss[..., None]
    mirrored = _reflect(light, normal)
    return mirrored.sin() * (-gloss * _dot(normal, light)[..., None]).exp() + normal * gloss


def _branched(x: Tensor, y: Tensor) -> Tensor:
    otherwise = torch.where(y > 0, x.exp() * y, x.exp())
    return torch.where(x > 1, x * y, torch.where(x > 0, y + x.sin(), otherwise))


def _series(x: Tensor, terms: Tensor) -> Tensor:
    total = power = torch.ones_like(x)
    for k in range(1, 9):
        power = power * x / k
        total = total + torch.where(k <= terms, power, torch.zeros_like(x))
    return total


def _returns_early(x: Tensor, y: Tensor) -> Tensor:
    z = (x.clamp(min=0) + 1).sqrt()
    return torch.where(x < 0, y * y, torch.where(z > 1.3, z * y, z - y))


def _switched(x: Tensor, way: Tensor) -> Tensor:
    return torch.where(way == 0, x, torch.where(way == 1, x * x, torch.where(way == 2, x.sin(), -x)))


def _nested(x: Tensor, y: Tensor) -> Tensor:
    value = x.sin() ** 2 + y
    return value * (y * y + value / 2)


def _stepwise(x: Tensor) -> Tensor:
    still = x.detach()
    return x * still.floor() + (still >= 0.5) + still.sign()


def _quantized(x: Tensor, levels: Tensor) -> Tensor:
    """A value of its own, with twice the gradient of x * levels in rounding."""
    scaled = x * levels
    return ((scaled + 0.5).floor().detach() + 2 * (scaled - scaled.detach())) / levels


def _cast_ray(
    focus: Tensor, center: Tensor, exposure: Tensor, shutter: Tensor, shift: Tensor, pixel: Tensor
) -> tuple[Tensor, Tensor]:
    offset = pixel - center
    weight = exposure * shutter * (-_dot(offset, offset)).exp() + shift
    return _unit(torch.cat([offset, focus[..., None]], -1)), weight


def _focused(
    direction: Tensor, weight: Tensor, focus: Tensor, center: Tensor, amount: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    focus = focus * amount
    return direction, weight + focus * amount, focus, center


def _horner(coefficients: Tensor, x: Tensor) -> Tensor:
    return sum(coefficients[..., i] * x**i for i in range(4))  # type: ignore[return-value]


def _bezier(points: Tensor, t: Tensor) -> Tensor:
    t = t[..., None]
    a, b, c = points.unbind(-2)
    return a * (1 - t) ** 2 + 2 * b * t * (1 - t) + c * t * t


def _looked_up(knots: Tensor, scale: Tensor, x: Tensor) -> Tensor:
    return (knots[..., 0] + knots[..., 1] * x + knots[..., 2] * x * x) * scale


def _turned(v: Tensor, angle: Tensor) -> Tensor:
    s, c = angle.sin(), angle.cos()
    x, y = v.unbind(-1)
    return torch.stack([c * x - s * y, s * x + c * y], -1)


def _everything(x: Tensor, state: Tensor) -> tuple[Tensor, ...]:
    product = x * state
    return x.sin() * product, state + x * x, product, x.detach().sign().int(), x.detach() < 0


def _adjusted(x: Tensor, power: Tensor, negate: Tensor, shift: Tensor) -> Tensor:
    value = torch.ones_like(x)
    for k in range(4):
        value = torch.where(k < power, value * x, value)
    return torch.where(negate, -value, value) + shift


def _curved(x: Tensor, curve: Tensor) -> Tensor:
    return torch.where(curve == 1, x * x, torch.where(curve == 5, x.sin(), x))


def _remainder(a: Tensor, b: Tensor, positive: Tensor) -> Tensor:
    remainder = torch.fmod(a, b.long())
    return torch.where(positive & (remainder < 0), remainder + b.abs().long(), remainder)


LANGUAGE = [
    Case("polynomial", (NUMBER,) * 4, polynomial),
    Case("damped", (NUMBER, POSITIVE), lambda x, rate: (-x.abs() * rate).exp() * x.sin()),
    Case("weighed", (NUMBER, NUMBER), weighed, dtypes=SINGLE),
    Case("chosen", (NUMBER, NUMBER), lambda x, y: torch.where(x > y, x * x, y.sin() * x)),
    Case("selected", (vector(3), vector(3)), lambda x, y: torch.where(x > y, x * y, y.exp()), dtypes=SINGLE),
    Case("branched", (NUMBER, NUMBER), _branched),
    Case("series", (NUMBER, whole(0, 8)), _series),
    Case("cube_root", (POSITIVE,), lambda x: x ** (1 / 3)),
    Case("returns_early", (NUMBER, NUMBER), _returns_early),
    Case("switched", (NUMBER, whole(0, 3)), _switched),
    Case("nested", (NUMBER, NUMBER), _nested),
    Case(
        "with_constants",
        (NUMBER, constant(), constant(2)),
        lambda x, weight, offset: x * weight * x + offset[..., 0] * x + offset[..., 1],
    ),
    Case("stepwise", (NUMBER,), _stepwise),
    Case("quantized", (NUMBER, Argument((), (2.0, 5.0))), _quantized),
    Case("cast_ray", (NUMBER, vector(2), NUMBER, constant(), whole(-2, 2), vector(2)), _cast_ray),
    Case("focused", (vector(3), NUMBER, NUMBER, vector(2), NUMBER), _focused),
    Case("neuron", (vector(2), NUMBER, vector(2)), lambda w, b, x: (_dot(w, x) + b).tanh(), dtypes=SINGLE),
    Case("Weights_eval", (vector(2), NUMBER, vector(2)), lambda w, b, x: _dot(w, x) + b, dtypes=SINGLE),
    Case("horner", (vector(4), NUMBER), _horner),
    Case("monomials", (NUMBER,), lambda x: torch.stack([x, x * x, x**3], -1)),
    Case("bezier", (matrix(3, 2), NUMBER), _bezier),
    Case("looked_up", (vector(3), NUMBER, NUMBER), _looked_up),
    Case("polar", (NUMBER, NUMBER), lambda radius, angle: (radius * angle.cos(), radius * angle.sin())),
    Case("turned", (vector(2), NUMBER), _turned),
    Case("everything", (NUMBER, NUMBER), _everything),
    Case("adjusted", (NUMBER, whole(0, 4), FLAG, whole(0, 9, torch.uint8)), _adjusted),
    Case("curved", (NUMBER, whole(0, 6)), _curved),
    Case(
        "affine",
        (NUMBER, NUMBER, NUMBER, whole(-3, 3)),
        lambda x, slope, shift, times: slope * x * times + shift,
        dtypes=SINGLE,
    ),
    Case("remainder_of", (whole(-50, 50, torch.int64), whole(1, 9), FLAG), _remainder, dtypes=SINGLE),
    Case(
        "inside",
        (constant(2), constant(between=(0.5, 2.0))),
        lambda point, radius: _dot(point, point) < radius * radius,
        dtypes=SINGLE,
    ),
    Case("checkered", (constant(2),), lambda at: at.floor()[..., 0] + 2 * at.floor()[..., 1], dtypes=SINGLE),
    Case("sum_of_squares", (vector(3),), lambda v: _dot(v, v)),
    Case("running_sum", (vector(5), NUMBER), lambda values, start: values.cumsum(-1) + start[..., None]),
    Case("scaled_by_integer", (NUMBER, whole(-4, 4, torch.int64)), lambda x, count: x * count),
    Case("in_two_precisions", (NUMBER, Argument(dtype=torch.float32)), lambda x, y: x * x * y),
    Case("shaded", (vector(3), vector(3), Argument((), (0.2, 2.0))), shaded),
]

CASES = [*INTRINSICS, *LANGUAGE]
BY_NAME = {case.name: case for case in CASES}
