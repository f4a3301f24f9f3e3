"""A table of what Slang's core offers to device code, and kernels made from it.

A row is an expression in `a`, `b` and `c` (numbers of one element type, T) and the same in PyTorch on float64 or int64
tensors. Vectors, matrices, half and the rest are reached through expressions, so a row needs no kinds of its own.
`generate` puts all rows of an element type into one kernel, which keeps compiling cheap.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

FLOATS = ("float", "double", "half")
INTEGERS = ("int", "int64_t", "int16_t", "uint8_t")
WIDE = ("int", "int64_t")
DTYPES = {
    "float": torch.float32,
    "double": torch.float64,
    "half": torch.float16,
    "int": torch.int32,
    "int64_t": torch.int64,
    "int16_t": torch.int16,
    "uint8_t": torch.uint8,
}
Reference = Callable[[Tensor, Tensor, Tensor], Tensor]
Range = tuple[float, float]


@dataclass(frozen=True)
class Row:
    """`slang` gives a T, or an int if `to_int`. `a`, `b` and `c` are drawn from the ranges."""

    name: str
    slang: str
    reference: Reference
    a: Range = (-4.0, 4.0)
    b: Range = (-4.0, 4.0)
    c: Range = (-4.0, 4.0)
    types: tuple[str, ...] = FLOATS
    to_int: bool = False
    ulps: float = 4.0  # of the element type, relative to the largest of |result| and `scale`
    scale: float = 0.0
    statements: str = ""  # before the expression


def _matrix(values: list[Tensor], rows: int) -> Tensor:
    return torch.stack(values, -1).unflatten(-1, (rows, -1))


def _vector(*values: Tensor) -> Tensor:
    return torch.stack(torch.broadcast_tensors(*values), -1)


def _smoothstep(low: Tensor, high: Tensor, x: Tensor) -> Tensor:
    t = ((x - low) / (high - low)).clamp(0, 1)
    return t * t * (3 - 2 * t)


def _refract(i: Tensor, n: Tensor, eta: float) -> Tensor:
    cos = (i * n).sum(-1, keepdim=True)
    k = 1 - eta * eta * (1 - cos * cos)
    return torch.where(k < 0, torch.zeros_like(i), eta * i - (eta * cos + k.clamp(min=0).sqrt()) * n)


def _unary(name: str, reference: Callable[[Tensor], Tensor], a: Range = (-4.0, 4.0), **options: object) -> Row:
    return Row(name, f"{name}(a)", lambda x, y, z: reference(x), a=a, **options)  # type: ignore[arg-type]


_POSITIVE = (0.01, 8.0)

SCALAR = [
    _unary("abs", torch.abs),
    _unary("floor", torch.floor),
    _unary("ceil", torch.ceil),
    _unary("trunc", torch.trunc),
    _unary("round", torch.round),
    _unary("frac", lambda x: x - torch.floor(x), scale=1),
    _unary("sqrt", torch.sqrt, _POSITIVE),
    _unary("rsqrt", torch.rsqrt, _POSITIVE),
    _unary("rcp", torch.reciprocal, _POSITIVE),
    _unary("exp", torch.exp),
    _unary("exp2", torch.exp2),
    _unary("log", torch.log, _POSITIVE, scale=1),
    _unary("log2", torch.log2, _POSITIVE, scale=1),
    _unary("log10", torch.log10, _POSITIVE, scale=1),
    _unary("sin", torch.sin, scale=1),
    _unary("cos", torch.cos, scale=1),
    _unary("tan", torch.tan, (-1.2, 1.2)),
    _unary("asin", torch.asin, (-1, 1)),
    _unary("acos", torch.acos, (-1, 1), scale=1),
    _unary("atan", torch.atan),
    _unary("sinh", torch.sinh),
    _unary("cosh", torch.cosh),
    _unary("tanh", torch.tanh),
    _unary("asinh", torch.asinh),
    _unary("acosh", torch.acosh, (1.1, 8), scale=1),
    _unary("atanh", torch.atanh, (-0.9, 0.9)),
    _unary("degrees", torch.rad2deg, types=("float", "half")),  # Slang's own constants are of single precision
    _unary("radians", torch.deg2rad, types=("float", "half")),
    _unary("saturate", lambda x: x.clamp(0, 1)),
    Row("sign", "sign(a)", lambda a, b, c: torch.sign(a), to_int=True),
    Row("pow", "pow(a, b)", lambda a, b, c: a**b, a=_POSITIVE, b=(-2, 2), ulps=16),
    Row("atan2", "atan2(a, b)", lambda a, b, c: torch.atan2(a, b)),
    Row("fmod", "fmod(a, b)", lambda a, b, c: torch.fmod(a, b), b=(0.5, 2), scale=2),
    Row("remainder operator", "a % b", lambda a, b, c: torch.fmod(a, b), b=(0.5, 2), scale=2),
    Row("min", "min(a, b)", lambda a, b, c: torch.minimum(a, b)),
    Row("max", "max(a, b)", lambda a, b, c: torch.maximum(a, b)),
    Row("clamp", "clamp(a, T(-1), T(2))", lambda a, b, c: a.clamp(-1, 2)),
    Row("lerp", "lerp(a, b, c)", lambda a, b, c: a + (b - a) * c, scale=40),
    Row("step", "step(a, b)", lambda a, b, c: (b >= a).double()),
    Row("smoothstep", "smoothstep(T(-2), T(3), a)", lambda a, b, c: _smoothstep(a * 0 - 2, a * 0 + 3, a), scale=4),
    Row("mad", "mad(a, b, c)", lambda a, b, c: a * b + c, scale=16),
    Row("fma", "fma(a, b, c)", lambda a, b, c: a * b + c, scale=1),
    Row("ldexp", "ldexp(a, T(3))", lambda a, b, c: a * 8),
    Row(
        "frexp",
        "m + T(e) * T(100)",
        lambda a, b, c: torch.frexp(a)[0] + 100 * torch.frexp(a)[1],
        statements="int e; T m = frexp(a, e);",
        scale=400,
    ),
    Row(
        "modf",
        "f + w * T(10)",
        lambda a, b, c: torch.frac(a) + 10 * torch.trunc(a),
        statements="T w; T f = modf(a, w);",
        scale=40,
    ),
    Row(
        "sincos",
        "s + cs * T(2)",
        lambda a, b, c: torch.sin(a) + 2 * torch.cos(a),
        statements="T s; T cs; sincos(a, s, cs);",
        scale=4,
    ),
    Row("isnan", "(isnan(a) ? 1 : 0) + (isnan(sqrt(a)) ? 2 : 0)", lambda a, b, c: 2 * (a < 0), to_int=True),
    Row(
        "isinf",
        "(isinf(a) ? 1 : 0) + (isinf(a / z) ? 2 : 0) + (isfinite(a) ? 4 : 0) + (isfinite(a / z) ? 8 : 0)",
        lambda a, b, c: 0 * a + 6,
        a=_POSITIVE,
        to_int=True,
        statements="T z = c - c;",
    ),
    Row("min with nan", "min(a, sqrt(b)) + T(10) * max(sqrt(b), a)", lambda a, b, c: 11 * a, b=(-4, -1), scale=44),
    Row("negate", "-a", lambda a, b, c: -a),
    Row("arithmetic", "(a + b) * c - a / b", lambda a, b, c: (a + b) * c - a / b, b=(0.5, 4), scale=64),
    Row(
        "comparisons",
        "(a < b ? 1 : 0) + (a <= b ? 2 : 0) + (a > b ? 4 : 0) + (a >= b ? 8 : 0) + (a == b ? 16 : 0) + (a != b ? 32 : 0)",
        lambda a, b, c: torch.where(a < b, 35, torch.where(a > b, 44, 26)),
        a=(-2, 2),
        b=(-2, 2),
        to_int=True,
    ),
    Row(
        "logic",
        "(a > T(0) && b > T(0) ? 1 : 0) + (a > T(0) || b > T(0) ? 2 : 0) + (!(a > T(0)) ? 4 : 0)",
        lambda a, b, c: ((a > 0) & (b > 0)) * 1 + ((a > 0) | (b > 0)) * 2 + (a <= 0) * 4,
        to_int=True,
    ),
    Row("to int", "int(a)", lambda a, b, c: torch.trunc(a), to_int=True),
    Row("to uint", "int(uint(a))", lambda a, b, c: torch.trunc(a), a=(0, 8), to_int=True),
    Row("to int64", "int(int64_t(a) * 3)", lambda a, b, c: torch.trunc(a) * 3, to_int=True),
    Row("to bool", "bool(floor(a)) ? 1 : 0", lambda a, b, c: torch.floor(a) != 0, to_int=True),
    Row(
        "from int",
        "T(int(a)) + T(uint(b)) + T(int64_t(c)) + T(bool(floor(a)))",
        lambda a, b, c: torch.trunc(a) + torch.trunc(b) + torch.trunc(c) + (torch.floor(a) != 0),
        b=(0, 4),
        scale=16,
    ),
    Row(
        "through half", "T(half(a)) + T(float(half(b)))", lambda a, b, c: a.half().double() + b.half().double(), scale=8
    ),
    Row(
        "constants",
        "a * table[1] + table2[2].y + T(tiny)",
        lambda a, b, c: a * 2.5 + 9 + 2.0**-20,
        statements="static const T table[3] = {T(1), T(2.5), T(-3)}; static const vector<T, 2> table2[3] = "
        "{vector<T, 2>(1, 2), vector<T, 2>(3, 4), vector<T, 2>(8, 9)}; static const half tiny = half(9.5367431640625e-07);",
        scale=16,
    ),
    Row(
        "local array",
        "v[int(floor(abs(a)))]",
        lambda a, b, c: torch.stack([b, c, a, b * c], -1).gather(-1, a.abs().floor().long().unsqueeze(-1)).squeeze(-1),
        a=(-3.9, 3.9),
        statements="T v[4] = {b, c, a, b * c};",
        scale=16,
    ),
]

_V = "V3 u = V3(a, b, c); V3 v = V3(c, a, b);"


def _uv(a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    return _vector(a, b, c), _vector(c, a, b)


VECTOR = [
    Row("dot", "dot(u, v)", lambda a, b, c: (_uv(a, b, c)[0] * _uv(a, b, c)[1]).sum(-1), statements=_V, scale=48),
    Row(
        "cross",
        "dot(cross(u, v), V3(1, 2, 3))",
        lambda a, b, c: (torch.linalg.cross(*_uv(a, b, c)) * torch.tensor([1.0, 2, 3])).sum(-1),
        statements=_V,
        scale=150,
    ),
    Row(
        "length",
        "length(u) + distance(u, v)",
        lambda a, b, c: (
            torch.linalg.norm(_uv(a, b, c)[0], dim=-1) + torch.linalg.norm(_uv(a, b, c)[0] - _uv(a, b, c)[1], dim=-1)
        ),
        statements=_V,
        scale=16,
    ),
    Row(
        "normalize",
        "normalize(u).y",
        lambda a, b, c: b / torch.linalg.norm(_uv(a, b, c)[0], dim=-1),
        a=(1, 4),
        statements=_V,
        scale=1,
    ),
    Row(
        "reflect",
        "reflect(u, v).x",
        lambda a, b, c: a - 2 * (_uv(a, b, c)[0] * _uv(a, b, c)[1]).sum(-1) * c,
        statements=_V,
        scale=400,
    ),
    Row(
        "refract",
        "refract(normalize(u), normalize(v), T(0.5)).z",
        lambda a, b, c: _refract(*(torch.nn.functional.normalize(w, dim=-1) for w in _uv(a, b, c)), 0.5)[..., 2],
        a=(1, 4),
        b=(1, 4),
        c=(1, 4),
        statements=_V,
        scale=8,
    ),
    Row(
        "vector arithmetic",
        "w.x + w.y + w.z",
        lambda a, b, c: (lambda u, v: (u * v + u - v / 2 - 3 * u).sum(-1))(*_uv(a, b, c)),
        statements=_V + "V3 w = u * v + u - v / T(2) - T(3) * u;",
        scale=100,
    ),
    Row(
        "vector modulo",
        "w.x + w.y",
        lambda a, b, c: torch.fmod(a, c) + torch.fmod(b, c),
        c=(0.5, 2),
        statements="V2 w = V2(a, b) % V2(c, c);",
        scale=4,
    ),
    Row(
        "vector comparisons",
        "(any(p) ? 1 : 0) + (all(p) ? 2 : 0) + (any(!p && (u != v)) ? 4 : 0)",
        lambda a, b, c: (lambda u, v: (u < v).any(-1) * 1 + (u < v).all(-1) * 2 + (u > v).any(-1) * 4)(*_uv(a, b, c)),
        statements=_V + "bool3 p = u < v;",
        to_int=True,
    ),
    Row(
        "vector select",
        "dot(select(u > v, u, v), V3(1, 2, 3))",
        lambda a, b, c: (torch.maximum(*_uv(a, b, c)) * torch.tensor([1.0, 2, 3])).sum(-1),
        statements=_V,
        scale=40,
    ),
    Row(
        "vector functions",
        "dot(sin(u) + max(u, v) + floor(v) + abs(u), V3(1))",
        lambda a, b, c: (lambda u, v: (u.sin() + torch.maximum(u, v) + v.floor() + u.abs()).sum(-1))(*_uv(a, b, c)),
        statements=_V,
        scale=64,
    ),
    Row(
        "swizzles",
        "w.x + T(10) * w.y + T(100) * w.z + T(1000) * w.w",
        lambda a, b, c: c + 10 * a + 100 * b + 1000 * c,
        statements="V4 w; w.xyz = V3(a, b, c).zxy; w.w = w.x;",
        a=(0, 1),
        b=(0, 1),
        c=(0, 1),
        scale=1000,
    ),
    Row(
        "component by index",
        "w[i] + T(10) * w[3 - i]",
        lambda a, b, c: (
            lambda w, i: w.gather(-1, i.unsqueeze(-1)).squeeze(-1) + 10 * w.gather(-1, 3 - i.unsqueeze(-1)).squeeze(-1)
        )(_vector(b, c, a, 0 * a + 7), a.abs().floor().long()),
        a=(-3.9, 3.9),
        statements="V4 w = V4(b, c, a, T(0)); int i = int(floor(abs(a))); w[3] = T(7);",
        scale=80,
    ),
    Row(
        "vector conversions",
        "T(i.x) + T(i.y) * T(10) + T(h.x) + V4(V2(a, b), T(1), c).w",
        lambda a, b, c: a.trunc() + 10 * b.trunc() + c.half().double() + c,
        statements="int2 i = int2(V2(a, b)); half3 h = half3(V3(c));",
        scale=64,
    ),
    Row(
        "one-component vector",
        "(o * o + o).x",
        lambda a, b, c: a * a + a,
        statements="vector<T, 1> o = vector<T, 1>(a);",
        scale=16,
    ),
    Row(
        "vector fmod and lerp",
        "dot(fmod(u, V3(3)) + lerp(u, v, V3(T(0.25))), V3(1))",
        lambda a, b, c: (lambda u, v: (torch.fmod(u, torch.tensor(3.0)) + u + (v - u) / 4).sum(-1))(*_uv(a, b, c)),
        statements=_V,
        scale=64,
    ),
]

_M = "M22 m = M22(a, b, c, a + b); M22 n = M22(c, a, T(1), b);"


def _mn(a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    return _matrix([a, b, c, a + b], 2), _matrix([c, a, a * 0 + 1, b], 2)


def _weigh(m: Tensor) -> Tensor:
    weights = torch.arange(1.0, m.shape[-1] * m.shape[-2] + 1, dtype=m.dtype).view(m.shape[-2:])
    return (m * weights).sum((-1, -2))


_WEIGH = "r[0][0] + T(2) * r[0][1] + T(3) * r[1][0] + T(4) * r[1][1]"

MATRIX = [
    Row(
        "matrix product",
        _WEIGH,
        lambda a, b, c: (lambda m, n: _weigh(m @ n))(*_mn(a, b, c)),
        statements=_M + "M22 r = mul(m, n);",
        scale=500,
    ),
    Row(
        "matrix by component",
        _WEIGH,
        lambda a, b, c: (lambda m, n: _weigh(m * n + m - 2 * n))(*_mn(a, b, c)),
        statements=_M + "M22 r = m * n + m - T(2) * n;",
        scale=500,
    ),
    Row(
        "matrix division",
        _WEIGH,
        lambda a, b, c: (lambda m, n: _weigh(m / n))(*_mn(a, b, c)),
        a=(1, 4),
        b=(1, 4),
        c=(1, 4),
        statements=_M + "M22 r = m / n;",
        scale=64,
    ),
    Row(
        "transpose",
        _WEIGH,
        lambda a, b, c: _weigh(_mn(a, b, c)[0].mT),
        statements=_M + "M22 r = transpose(m);",
        scale=64,
    ),
    Row("negated matrix", _WEIGH, lambda a, b, c: _weigh(-_mn(a, b, c)[0]), statements=_M + "M22 r = -m;", scale=64),
    Row(
        "determinant",
        "determinant(m) + determinant(M33(a, b, c, c, a, b, T(1), T(2), T(3)))",
        lambda a, b, c: (
            torch.linalg.det(_mn(a, b, c)[0])
            + torch.linalg.det(_matrix([a, b, c, c, a, b, a * 0 + 1, a * 0 + 2, a * 0 + 3], 3))
        ),
        statements=_M,
        scale=400,
    ),
    Row(
        "matrix times vector",
        "dot(mul(m, V2(b, c)), V2(1, 2)) + dot(mul(V2(b, c), m), V2(3, 4))",
        lambda a, b, c: (
            lambda m, v: (
                ((m @ v.unsqueeze(-1)).squeeze(-1) * torch.tensor([1.0, 2])).sum(-1)
                + ((v.unsqueeze(-2) @ m).squeeze(-2) * torch.tensor([3.0, 4])).sum(-1)
            )
        )(_mn(a, b, c)[0], _vector(b, c)),
        statements=_M,
        scale=400,
    ),
    Row(
        "oblong matrices",
        _WEIGH,
        lambda a, b, c: _weigh(_matrix([a, b, c, c, b, a], 2) @ _matrix([a, b, b, c, c, a], 3)),
        statements="M23 p = M23(a, b, c, c, b, a); M32 q = M32(a, b, b, c, c, a); M22 r = mul(p, q);",
        scale=700,
    ),
    Row(
        "matrix comparisons",
        "dot(select(g[0], m[0], n[0]), V2(1, 2)) + (any(g[1]) ? T(100) : T(0))",
        lambda a, b, c: (
            lambda m, n: (
                torch.where(m > n, m, n)[..., 0, 0]
                + 2 * torch.where(m > n, m, n)[..., 0, 1]
                + 100 * (m > n)[..., 1, :].any(-1)
            )
        )(*_mn(a, b, c)),
        statements=_M + "matrix<bool, 2, 2> g = m > n;",
        scale=120,
    ),
    Row(
        "matrix functions",
        _WEIGH,
        lambda a, b, c: (lambda m, n: _weigh(m.abs() + torch.maximum(m, n) + m.cos()))(*_mn(a, b, c)),
        statements=_M + "M22 r = abs(m) + max(m, n) + cos(m);",
        scale=200,
    ),
    Row(
        "matrix from rows and part",
        _WEIGH,
        lambda a, b, c: _weigh(_matrix([a, b, b, c], 2)),
        statements="M33 l = M33(V3(a, b, c), V3(b, c, a), V3(c, a, b)); M22 r = M22(l);",
        scale=40,
    ),
    Row(
        "matrix element by index",
        "m[i][1 - i] + m[1][0]",
        lambda a, b, c: torch.where(a < 0, b, 9.0) + 9,
        statements=_M + "int i = a < T(0) ? 0 : 1; m[1][0] = T(9);",
        scale=20,
    ),
    Row("matrix from one value", _WEIGH, lambda a, b, c: 10 * a, statements="M22 r = M22(a);", scale=40),
]


def _bits(x: Tensor) -> Tensor:
    return x.double().float().view(torch.int32).long()


BITS = [
    Row(
        "asuint",
        "int(asuint(a) & 0xffffu) + asint(b)",
        lambda a, b, c: (_bits(a) & 0xFFFF) + _bits(b),
        types=("float",),
        to_int=True,
        b=(1, 2),
    ),
    Row("asfloat", "asfloat(asuint(a)) + asfloat(asint(b))", lambda a, b, c: a + b, types=("float",), scale=8),
    Row(
        "float16 bits",
        "f16tof32(f32tof16(a)) + float(asfloat16(asuint16(half(b))))",
        lambda a, b, c: a.half().double() + b.half().double(),
        types=("float",),
        scale=8,
    ),
    Row(
        "asdouble",
        "asdouble(lo, hi) * 2.0L",
        lambda a, b, c: 2 * a,
        types=("double",),
        statements="uint lo; uint hi; asuint(a, lo, hi);",
    ),
    Row("reinterpret", "bit_cast<float>(bit_cast<int>(a))", lambda a, b, c: a, types=("float",)),
]


def _wrap(bits: int, x: Tensor) -> Tensor:
    """To a signed number of so many bits."""
    x = x & ((1 << bits) - 1)
    return torch.where(x >= 1 << (bits - 1), x - (1 << bits), x)


def _highest(x: Tensor) -> Tensor:
    return torch.where(x > 0, torch.floor(torch.log2(x.double().clamp(min=0.5))), -1).long()


def _lowest(x: Tensor) -> Tensor:
    return torch.where(x == 0, -1, _highest(x & -x))


def _count(x: Tensor) -> Tensor:
    return sum(((x >> i) & 1 for i in range(32)), torch.zeros_like(x))


_SMALL = (-11, 11)
_COUNT = (1, 11)

INTEGER = [
    Row(
        "integer arithmetic",
        "T((a + b) * c - a)",
        lambda a, b, c: (a + b) * c - a,
        a=(5, 8),
        b=(0, 4),
        c=(1, 9),
        types=INTEGERS,
    ),
    Row(
        "integer division",
        "T(a / b)",
        lambda a, b, c: torch.div(a, b, rounding_mode="trunc"),
        a=(-99, 99),
        b=_COUNT,
        types=("int", "int64_t", "int16_t"),
    ),
    Row(
        "integer remainder",
        "T(a % b)",
        lambda a, b, c: torch.fmod(a, b),
        a=(-99, 99),
        b=_COUNT,
        types=("int", "int64_t", "int16_t"),
    ),
    Row("shifts", "T((a << 3) + (b >> 2))", lambda a, b, c: (a << 3) + (b >> 2), a=(0, 9), b=(0, 99), types=INTEGERS),
    Row(
        "right shift of a negative number",
        "T(a >> 2)",
        lambda a, b, c: a >> 2,
        a=(-99, -1),
        types=("int", "int64_t", "int16_t"),
    ),
    Row(
        "bit operators",
        "T((a & b) | (c ^ a))",
        lambda a, b, c: (a & b) | (c ^ a),
        a=(0, 99),
        b=(0, 99),
        c=(0, 99),
        types=INTEGERS,
    ),
    Row("complement", "T(~a & T(127))", lambda a, b, c: ~a & 127, a=(0, 99), types=INTEGERS),
    Row(
        "integer min and max",
        "T(min(a, b) + max(b, c) * T(2))",
        lambda a, b, c: torch.minimum(a, b) + 2 * torch.maximum(b, c),
        a=(0, 11),
        b=(0, 11),
        c=(0, 11),
        types=INTEGERS,
    ),
    Row("integer clamp", "clamp(a, T(2), T(7))", lambda a, b, c: a.clamp(2, 7), a=(0, 11), types=INTEGERS),
    Row("integer abs", "abs(a)", lambda a, b, c: a.abs(), a=_SMALL, types=("int", "int64_t", "int16_t")),
    Row("integer sign", "sign(a)", lambda a, b, c: a.sign(), a=_SMALL, types=WIDE, to_int=True),
    Row(
        "countbits", "int(countbits(uint(a)))", lambda a, b, c: _count(a), a=(0, 2**31 - 1), types=("int",), to_int=True
    ),
    Row(
        "reversebits",
        "int(reversebits(uint(a)) >> 1)",
        lambda a, b, c: sum(((a >> i) & 1) << (30 - i) for i in range(31)),
        a=(0, 2**30),
        types=("int",),
        to_int=True,
    ),
    Row(
        "firstbithigh",
        "firstbithigh(a)",
        lambda a, b, c: _highest(torch.where(a < 0, ~a, a)),
        a=(-300, 300),
        types=("int",),
        to_int=True,
    ),
    Row(
        "firstbithigh unsigned",
        "int(firstbithigh(uint(a)))",
        lambda a, b, c: torch.where(a < 0, 31, _highest(a)),
        a=(-300, 300),
        types=("int",),
        to_int=True,
    ),
    Row("firstbitlow", "firstbitlow(a)", lambda a, b, c: _lowest(a), a=(-300, 300), types=("int",), to_int=True),
    Row(
        "unsigned division",
        "int(uint(a) / uint(b))",
        lambda a, b, c: (a & 0xFFFFFFFF) // b,
        a=(-99, 99),
        b=(3, 11),
        types=("int",),
        to_int=True,
    ),
    Row(
        "unsigned comparison",
        "uint(a) < uint(b) ? 1 : 0",
        lambda a, b, c: (a & 0xFFFFFFFF) < (b & 0xFFFFFFFF),
        a=_SMALL,
        b=_SMALL,
        types=("int",),
        to_int=True,
    ),
    Row(
        "unsigned wrap",
        "int((uint(a) * 2654435769u) >> 4)",
        lambda a, b, c: ((a * 2654435769) & 0xFFFFFFFF) >> 4,
        a=(0, 2**20),
        types=("int",),
        to_int=True,
    ),
    Row(
        "narrowing",
        "int(int8_t(a)) + int(uint8_t(a)) * 3 + int(int16_t(a)) * 5 + int(uint16_t(a)) * 7",
        lambda a, b, c: _wrap(8, a) + (a & 0xFF) * 3 + _wrap(16, a) * 5 + (a & 0xFFFF) * 7,
        a=(-100000, 100000),
        types=("int",),
        to_int=True,
    ),
    Row(
        "64-bit product",
        "T(a) * T(b) + (T(1) << 40)",
        lambda a, b, c: a * b + (1 << 40),
        a=(0, 2**31),
        b=(0, 2**20),
        types=("int64_t",),
    ),
    Row(
        "unsigned 64-bit",
        "int(uint64_t(a) >> 60)",
        lambda a, b, c: torch.where(a < 0, 15, 0),
        a=_SMALL,
        types=("int64_t",),
        to_int=True,
    ),
    Row(
        "integer vectors",
        "r.x + T(2) * r.y + T(3) * r.z",
        lambda a, b, c: (lambda u, v: (((u * v + u) & 63) * torch.tensor([1, 2, 3])).sum(-1))(
            _vector(a, b, c), _vector(c, a, b)
        ),
        a=(0, 9),
        b=(0, 9),
        c=(0, 9),
        types=WIDE,
        statements="V3 u = V3(a, b, c); V3 v = V3(c, a, b); V3 r = (u * v + u) & V3(63);",
    ),
    Row(
        "integer vector shifts",
        "r.x + r.y",
        lambda a, b, c: (a << 2) + (b << 3) - (a + b) % 7,
        a=(0, 9),
        b=(0, 9),
        types=WIDE,
        statements="V2 s = V2(2, 3); V2 r = V2(a, b) << s; r.x = r.x - (a + b) % T(7);",
    ),
    Row(
        "integer vector logic",
        "(any(p) ? 1 : 0) + (all(p) ? 2 : 0) + dot(i, i)",
        lambda a, b, c: (lambda u, v: (u >= v).any(-1) * 1 + (u >= v).all(-1) * 2 + (u * u).sum(-1))(
            _vector(a, b), _vector(b, c)
        ),
        a=(0, 9),
        b=(0, 9),
        c=(0, 9),
        types=("int",),
        to_int=True,
        statements="int2 i = int2(a, b); bool2 p = i >= int2(b, c);",
    ),
    Row(
        "integer matrices",
        "r[0][0] + 2 * r[1][1]",
        lambda a, b, c: a * c + b * a + 2 * (c * b + (a + b) * c),
        a=(0, 9),
        b=(0, 9),
        c=(0, 9),
        types=("int",),
        to_int=True,
        statements="int2x2 r = mul(int2x2(a, b, c, a + b), int2x2(c, b, a, c)); r[1][1] = c * b + (a + b) * c;",
    ),
    Row(
        "bool vectors",
        "(all(p && q) ? 1 : 0) + (any(p || q) ? 2 : 0) + (any(p) == all(q) ? 4 : 0)",
        lambda a, b, c: (
            ((a > 0) & (b > 0) & (c > 0) & (a > b)) * 1
            + ((a > 0) | (b > 0) | (c > 0) | (a > b)) * 2
            + (((a > 0) | (b > 0)) == ((c > 0) & (a > b))) * 4
        ),
        a=_SMALL,
        b=_SMALL,
        c=_SMALL,
        types=("int",),
        to_int=True,
        statements="bool2 p = bool2(a > 0, b > 0); bool2 q = bool2(c > 0, a > b);",
    ),
]

ROWS = SCALAR + VECTOR + MATRIX + BITS + INTEGER


def rows_of(element: str) -> list[Row]:
    return [row for row in ROWS if element in row.types]


def generate(element: str) -> str:
    """A kernel `evaluate(a, b, c) -> (reals, integers)` over [K, N]: row k of the table at N places."""
    cases = "\n".join(
        f"    {{ {element} a = av[uint2({k}, place)], b = bv[uint2({k}, place)], c = cv[uint2({k}, place)]; {_spell(row.statements, element)} "
        f"{'integers' if row.to_int else 'reals'}[uint2({k}, place)] = {_spell(row.slang, element)}; }}  // {row.name}"
        for k, row in enumerate(rows_of(element))
    )
    return f"""import torch_slang;
[PyBindCUDA(Auto)] [CudaKernel] [LaunchTotal("N")]
void evaluate([Shape("K, N")] TensorView<{element}> av, [Shape("K, N")] TensorView<{element}> bv, [Shape("K, N")] TensorView<{element}> cv,
              [Out("K, N")] [Fill(0)] TensorView<{element}> reals, [Out("K, N")] [Fill(0)] TensorView<int> integers)
{{
    uint place = (cudaThreadIdx() + cudaBlockIdx() * cudaBlockDim()).x;
    if (place >= av.size(1)) return;
{cases}
}}
"""


def _spell(text: str, element: str) -> str:
    """Writes out T, V2..V4 and M22..M33 for one element type."""
    words = {"T": element}
    words |= {f"V{n}": f"vector<{element}, {n}>" for n in (2, 3, 4)}
    words |= {f"M{r}{c}": f"matrix<{element}, {r}, {c}>" for r in (2, 3) for c in (2, 3)}
    out, word = "", ""
    for ch in text + " ":
        if ch.isalnum() or ch == "_":
            word += ch
        else:
            out += words.get(word, word) + ch
            word = ""
    return out.rstrip()


def arguments(element: str, count: int = 64) -> tuple[Tensor, Tensor, Tensor]:
    """Values in the rows' ranges, the ends included."""
    generator = torch.Generator().manual_seed(7)
    dtype = DTYPES[element]

    def draw(limits: Range) -> Tensor:
        low, high = limits
        values = low + (high - low) * torch.rand(count, generator=generator, dtype=torch.float64)
        values[0], values[1] = low, high
        return (values if dtype.is_floating_point else values.round()).to(dtype)

    rows = rows_of(element)
    return tuple(
        torch.stack([draw(limits) for limits in side])
        for side in ([r.a for r in rows], [r.b for r in rows], [r.c for r in rows])  # type: ignore[return-value]
    )


def expected(row: Row, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    wide = torch.float64 if a.dtype.is_floating_point else torch.int64
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return row.reference(a.to(wide), b.to(wide), c.to(wide))
    finally:
        torch.set_default_dtype(default)


def mismatch(row: Row, result: Tensor, reference: Tensor) -> str | None:
    """None, or where a row's result differs from the reference by more than its tolerance."""
    if row.to_int or not result.dtype.is_floating_point:
        bad = result.long() != reference.long()
    else:
        unit = torch.finfo(result.dtype).eps
        error = (result.double() - reference.double()).abs()
        bad = ~(error <= row.ulps * unit * reference.double().abs().clamp(min=max(row.scale, math.ldexp(1.0, -10))))
    if not bad.any():
        return None
    at = int(bad.nonzero()[0])
    return f"{row.name} ({row.slang}) at {at}: {result[at].item()} instead of {reference[at].item()}, {int(bad.sum())} wrong"
