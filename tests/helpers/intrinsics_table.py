"""The table of what Slang's core offers to device code: each row an expression and its value in PyTorch.

A row is an expression in `a`, `b` and `c`, numbers of one element type T, and the same on float64 or int64 tensors.
Vectors,
matrices, half and the rest are reached through such expressions, so a row needs no kinds of its own. V3 is a vector of
three T, M23 a matrix of two rows and three columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

FLOATS = ("float", "double", "half")
SIGNED = ("int", "int64_t", "int16_t")
INTEGERS = (*SIGNED, "uint8_t")
WIDE = ("int", "int64_t")
Reference = Callable[[Tensor, Tensor, Tensor], Tensor]
Range = tuple[float, float]


@dataclass(frozen=True)
class Row:
    """`slang`, after `statements`, gives a T, or an int if `to_int`. `a`, `b` and `c` are drawn from the ranges."""

    name: str
    slang: str
    reference: Reference
    a: Range = (-4.0, 4.0)
    b: Range = (-4.0, 4.0)
    c: Range = (-4.0, 4.0)
    types: tuple[str, ...] = FLOATS
    to_int: bool = False
    ulps: float = 4.0  # of T, relative to the largest of |result| and `scale`
    scale: float = 0.0
    statements: str = ""


def _unary(name: str, function: Callable[[Tensor], Tensor], a: Range = (-4.0, 4.0), **options: object) -> Row:
    return Row(name, f"{name}(a)", lambda x, y, z: function(x), a=a, **options)  # type: ignore[arg-type]


def _vector(*values: Tensor) -> Tensor:
    return torch.stack(torch.broadcast_tensors(*values), -1)


def _matrix(rows: int, *values: Tensor) -> Tensor:
    return _vector(*values).unflatten(-1, (rows, -1))


def _like(x: Tensor, *values: float) -> Tensor:
    return torch.tensor(values, dtype=x.dtype)


def _times(m: Tensor, v: Tensor) -> Tensor:
    return (m @ v.unsqueeze(-1)).squeeze(-1)


def _pick(v: Tensor, index: Tensor) -> Tensor:
    return v.gather(-1, index.long().unsqueeze(-1)).squeeze(-1)


def _smoothstep(low: float, high: float, x: Tensor) -> Tensor:
    t = ((x - low) / (high - low)).clamp(0, 1)
    return t * t * (3 - 2 * t)


def _refract(i: Tensor, n: Tensor, eta: float) -> Tensor:
    cos = (i * n).sum(-1, keepdim=True)
    k = 1 - eta * eta * (1 - cos * cos)
    return torch.where(k < 0, torch.zeros_like(i), eta * i - (eta * cos + k.clamp(min=0).sqrt()) * n)


def _unit(v: Tensor) -> Tensor:
    return torch.nn.functional.normalize(v, dim=-1)


def _bits(x: Tensor) -> Tensor:
    return x.float().view(torch.int32).long()


def _wrap(bits: int, x: Tensor) -> Tensor:
    x = x & ((1 << bits) - 1)
    return torch.where(x >= 1 << (bits - 1), x - (1 << bits), x)


def _highest_bit(x: Tensor) -> Tensor:
    return torch.where(x > 0, torch.floor(torch.log2(x.double().clamp(min=0.5))), -1).long()


def _compare(a: Tensor, b: Tensor) -> Tensor:
    return (a < b) * 1 + (a <= b) * 2 + (a > b) * 4 + (a >= b) * 8 + (a == b) * 16 + (a != b) * 32


# fmt: off
_POSITIVE = (0.01, 8.0)
_COMPARE = (
    "(a < b ? 1 : 0) + (a <= b ? 2 : 0) + (a > b ? 4 : 0) + (a >= b ? 8 : 0) + (a == b ? 16 : 0) + (a != b ? 32 : 0)"
)

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
    _unary("sign", torch.sign, to_int=True),
    Row("pow", "pow(a, b)", lambda a, b, c: a**b, a=_POSITIVE, b=(-2, 2), ulps=16),
    Row("atan2", "atan2(a, b)", lambda a, b, c: torch.atan2(a, b)),
    Row("fmod", "fmod(a, b)", lambda a, b, c: torch.fmod(a, b), b=(0.5, 2), scale=2),
    Row("remainder operator", "a % b", lambda a, b, c: torch.fmod(a, b), b=(0.5, 2), scale=2),
    Row("min", "min(a, b)", lambda a, b, c: torch.minimum(a, b)),
    Row("max", "max(a, b)", lambda a, b, c: torch.maximum(a, b)),
    Row("clamp", "clamp(a, T(-1), T(2))", lambda a, b, c: a.clamp(-1, 2)),
    Row("lerp", "lerp(a, b, c)", lambda a, b, c: a + (b - a) * c, scale=40),
    Row("step", "step(a, b)", lambda a, b, c: (b >= a) * 1.0),
    Row("smoothstep", "smoothstep(T(-2), T(3), a)", lambda a, b, c: _smoothstep(-2, 3, a), scale=4),
    Row("mad", "mad(a, b, c)", lambda a, b, c: a * b + c, scale=16),
    Row("fma", "fma(a, b, c)", lambda a, b, c: a * b + c, scale=1),
    Row("ldexp", "ldexp(a, T(3))", lambda a, b, c: a * 8),
    Row("frexp", "m + T(e) * T(100)", lambda a, b, c: torch.frexp(a)[0] + 100 * torch.frexp(a)[1], scale=400,
        statements="int e; T m = frexp(a, e);"),
    Row("modf", "f + w * T(10)", lambda a, b, c: torch.frac(a) + 10 * torch.trunc(a), scale=40,
        statements="T w; T f = modf(a, w);"),
    Row("sincos", "s + cs * T(2)", lambda a, b, c: torch.sin(a) + 2 * torch.cos(a), scale=4,
        statements="T s; T cs; sincos(a, s, cs);"),
    Row("isnan", "(isnan(a) ? 1 : 0) + (isnan(sqrt(a)) ? 2 : 0)", lambda a, b, c: 2 * (a < 0), to_int=True),
    Row("isinf", "(isinf(a) ? 1 : 0) + (isinf(a / z) ? 2 : 0) + (isinf(-a / z) ? 4 : 0)", lambda a, b, c: 0 * a + 6,
        a=_POSITIVE, to_int=True, statements="T z = b < T(9) ? T(0) : T(1);"),
    Row("isfinite", "(isfinite(a) ? 1 : 0) + (isfinite(a / z) ? 2 : 0) + (isfinite(sqrt(-a)) ? 4 : 0)",
        lambda a, b, c: 0 * a + 1, a=_POSITIVE, to_int=True, statements="T z = b < T(9) ? T(0) : T(1);"),
    Row("min and max with nan", "min(a, n) + T(10) * max(n, a)", lambda a, b, c: 11 * a, b=(-4, -1), scale=44,
        statements="T n = sqrt(b);"),
    Row("negation", "-a", lambda a, b, c: -a),
    Row("arithmetic", "(a + b) * c - a / b", lambda a, b, c: (a + b) * c - a / b, b=(0.5, 4), scale=64),
    Row("comparisons", _COMPARE, lambda a, b, c: _compare(a, b), to_int=True),
    Row("comparisons of equals", _COMPARE, lambda a, b, c: _compare(a, b), b=(-4, -4), to_int=True),
    Row("logic", "(a > z && b > z ? 1 : 0) + (a > z || b > z ? 2 : 0) + (!(a > z) ? 4 : 0)",
        lambda a, b, c: ((a > 0) & (b > 0)) * 1 + ((a > 0) | (b > 0)) * 2 + (a <= 0) * 4, to_int=True,
        statements="T z = T(0);"),
    Row("to int", "int(a)", lambda a, b, c: torch.trunc(a), to_int=True),
    Row("to uint", "int(uint(a))", lambda a, b, c: torch.trunc(a), a=(0, 8), to_int=True),
    Row("to int64", "int(int64_t(a) * 3)", lambda a, b, c: torch.trunc(a) * 3, to_int=True),
    Row("to bool", "bool(floor(a)) ? 1 : 0", lambda a, b, c: torch.floor(a) != 0, to_int=True),
    Row("from integers", "T(int(a)) + T(uint(b)) + T(int64_t(c)) + T(bool(floor(a)))", scale=16, b=(0, 4),
        reference=lambda a, b, c: a.trunc() + b.trunc() + c.trunc() + (a.floor() != 0)),
    Row("through half", "T(half(a)) + T(float(half(b)))", lambda a, b, c: a.half().double() + b.half().double(),
        scale=8),
    Row("constant tables", "a * numbers[1] + pairs[2].y + T(tiny)", lambda a, b, c: a * 2.5 + 9 + 2.0**-20, scale=16,
        statements="static const T numbers[3] = {T(1), T(2.5), T(-3)}; "
                   "static const half tiny = half(9.5367431640625e-07);"
                   "static const V2 pairs[3] = {V2(1, 2), V2(3, 4), V2(8, 9)};"),
    Row("constants by index", "numbers[i] * pairs[2 - i].x", scale=40, a=(0, 2.9),
        reference=lambda a, b, c: _pick(_vector(0 * a + 1, 0 * a + 2.5, 0 * a - 3), a.floor())
        * _pick(_vector(0 * a + 8, 0 * a + 3, 0 * a + 1), a.floor()),
        statements="static const T numbers[3] = {T(1), T(2.5), T(-3)}; int i = int(a);"
                   "static const V2 pairs[3] = {V2(1, 2), V2(3, 4), V2(8, 9)};"),
    Row("local array", "v[int(abs(a))]", lambda a, b, c: _pick(_vector(b, c, a, b * c), a.abs().floor()), a=(-3.9, 3.9),
        scale=16, statements="T v[4] = {b, c, a, b * c};"),
]


def _uv(function: Callable[[Tensor, Tensor], Tensor]) -> Reference:
    return lambda a, b, c: function(_vector(a, b, c), _vector(c, a, b))


_UV = "V3 u = V3(a, b, c); V3 v = V3(c, a, b);"

VECTOR = [
    Row("dot", "dot(u, v)", _uv(lambda u, v: (u * v).sum(-1)), statements=_UV, scale=48),
    Row("cross", "dot(cross(u, v), V3(1, 2, 3))", _uv(lambda u, v: (torch.linalg.cross(u, v) * _like(u, 1, 2,
        3)).sum(-1)),
        statements=_UV, scale=150),
    Row("length", "length(u) + distance(u, v)", _uv(lambda u, v: u.norm(dim=-1) + (u - v).norm(dim=-1)),
        statements=_UV, scale=16),
    Row("normalize", "normalize(u).y", _uv(lambda u, v: _unit(u)[..., 1]), a=(1, 4), statements=_UV, scale=1),
    Row("reflect", "reflect(u, v).x", _uv(lambda u, v: (u - 2 * (u * v).sum(-1, keepdim=True) * v)[..., 0]),
        statements=_UV,
        scale=400),
    Row("refract", "refract(normalize(u), normalize(v), T(0.5)).z", _uv(lambda u, v: _refract(_unit(u), _unit(v),
        0.5)[..., 2]),
        a=(1, 4), b=(1, 4), c=(1, 4), statements=_UV, scale=8),
    Row("vector arithmetic", "w.x + w.y + w.z", _uv(lambda u, v: (u * v + u - v / 2 - 3 * u).sum(-1)), scale=100,
        statements=_UV + "V3 w = u * v + u - v / T(2) - T(3) * u;"),
    Row("vector modulo", "w.x + w.y", lambda a, b, c: torch.fmod(a, c) + torch.fmod(b, c), c=(0.5, 2), scale=4,
        statements="V2 w = V2(a, b) % V2(c, c);"),
    Row("vector comparisons", "(any(p) ? 1 : 0) + (all(p) ? 2 : 0) + (any(!p && (u != v)) ? 4 : 0)", to_int=True,
        reference=_uv(lambda u, v: (u < v).any(-1) * 1 + (u < v).all(-1) * 2 + (u > v).any(-1) * 4),
        statements=_UV + "bool3 p = u < v;"),
    Row("vector select", "dot(select(u > v, u, v), V3(1, 2, 3))", _uv(lambda u, v: (u.maximum(v) * _like(u, 1, 2,
        3)).sum(-1)),
        statements=_UV, scale=40),
    Row("vector functions", "dot(sin(u) + max(u, v) + floor(v) + abs(u), V3(1))",
        _uv(lambda u, v: (u.sin() + u.maximum(v) + v.floor() + u.abs()).sum(-1)), statements=_UV, scale=64),
    Row("vector fmod and lerp", "dot(fmod(u, V3(3)) + lerp(u, v, V3(T(0.25))), V3(1))",
        _uv(lambda u, v: (torch.fmod(u, _like(u, 3)) + u + (v - u) / 4).sum(-1)), statements=_UV, scale=64),
    Row("swizzles", "w.x + T(10) * w.y + T(100) * w.z + T(1000) * w.w", lambda a, b, c: c + 10 * a + 100 * b + 1000 * c,
        a=(0, 1), b=(0, 1), c=(0, 1), scale=1000, statements="V4 w; w.xyz = V3(a, b, c).zxy; w.w = w.x;"),
    Row("component by index", "w[i] + T(10) * w[3 - i]", a=(-3.9, 3.9), scale=80,
        reference=lambda a, b, c: _pick(_vector(b, c, a, 0 * a + 7), a.abs().floor())
        + 10 * _pick(_vector(0 * a + 7, a, c, b), a.abs().floor()),
        statements="V4 w = V4(b, c, a, T(0)); int i = int(floor(abs(a))); w[3] = T(7);"),
    Row("vector conversions", "T(i.x) + T(i.y) * T(10) + T(h.x) + V4(V2(a, b), T(1), c).w", scale=64,
        reference=lambda a, b, c: a.trunc() + 10 * b.trunc() + c.half().double() + c,
        statements="int2 i = int2(V2(a, b)); half3 h = half3(V3(c));"),
    Row("one-component vector", "(o * o + o).x", lambda a, b, c: a * a + a,
        statements="vector<T, 1> o = vector<T, 1>(a);", scale=16),
]


def _mn(function: Callable[[Tensor, Tensor], Tensor]) -> Reference:
    return lambda a, b, c: function(_matrix(2, a, b, c, a + b), _matrix(2, c, a, 0 * a + 1, b))


def _weigh(m: Tensor) -> Tensor:
    return (m * _like(m, 1, 2, 3, 4).view(2, 2)).sum((-1, -2))


_MN = "M22 m = M22(a, b, c, a + b); M22 n = M22(c, a, T(1), b);"
_WEIGH = "r[0][0] + T(2) * r[0][1] + T(3) * r[1][0] + T(4) * r[1][1]"

MATRIX = [
    Row("matrix product", _WEIGH, _mn(lambda m, n: _weigh(m @ n)), statements=_MN + "M22 r = mul(m, n);", scale=500),
    Row("matrix by component", _WEIGH, _mn(lambda m, n: _weigh(m * n + m - 2 * n)), scale=500,
        statements=_MN + "M22 r = m * n + m - T(2) * n;"),
    Row("matrix division", _WEIGH, _mn(lambda m, n: _weigh(m / n)), a=(1, 4), b=(1, 4), c=(1, 4), scale=64,
        statements=_MN + "M22 r = m / n;"),
    Row("transpose", _WEIGH, _mn(lambda m, n: _weigh(m.mT)), statements=_MN + "M22 r = transpose(m);", scale=64),
    Row("negated matrix", _WEIGH, _mn(lambda m, n: _weigh(-m)), statements=_MN + "M22 r = -m;", scale=64),
    Row("determinant", "determinant(m)", _mn(lambda m, n: m[..., 0, 0] * m[..., 1, 1] - m[..., 0, 1] * m[..., 1, 0]),
        statements=_MN, scale=100),
    Row("determinant of three rows", "determinant(M33(a, b, c, c, a, b, T(1), T(2), T(3)))", scale=200,
        reference=_uv(lambda u, v: (torch.linalg.cross(u, v) * _like(u, 1, 2, 3)).sum(-1))),
    Row("matrix times vector", "dot(mul(m, V2(b, c)), V2(1, 2))", scale=200, statements=_MN,
        reference=lambda a, b, c: (_times(_matrix(2, a, b, c, a + b), _vector(b, c)) * _like(a, 1, 2)).sum(-1)),
    Row("vector times matrix", "dot(mul(V2(b, c), m), V2(3, 4))", scale=400, statements=_MN,
        reference=lambda a, b, c: (_times(_matrix(2, a, b, c, a + b).mT, _vector(b, c)) * _like(a, 3, 4)).sum(-1)),
    Row("oblong matrices", _WEIGH, lambda a, b, c: _weigh(_matrix(2, a, b, c, c, b, a) @ _matrix(3, a, b, b, c, c,
        a)), scale=700,
        statements="M23 p = M23(a, b, c, c, b, a); M32 q = M32(a, b, b, c, c, a); M22 r = mul(p, q);"),
    Row("matrix comparisons", "dot(select(g[0], m[0], n[0]), V2(1, 2)) + (any(g[1]) ? T(100) : T(0))", scale=120,
        reference=_mn(lambda m, n: (m.maximum(n)[..., 0, :] * _like(m, 1, 2)).sum(-1) + 100 * (m > n)[..., 1,
        :].any(-1)),
        statements=_MN + "matrix<bool, 2, 2> g = m > n;"),
    Row("matrix functions", _WEIGH, _mn(lambda m, n: _weigh(m.abs() + m.maximum(n) + m.cos())), scale=200,
        statements=_MN + "M22 r = abs(m) + max(m, n) + cos(m);"),
    Row("matrix from rows, cut", _WEIGH, lambda a, b, c: _weigh(_matrix(2, a, b, b, c)), scale=40,
        statements="M33 l = M33(V3(a, b, c), V3(b, c, a), V3(c, a, b)); M22 r = M22(l);"),
    Row("matrix element by index", "m[i][1 - i] + m[1][0]", lambda a, b, c: torch.where(a < 0, b, 9.0) + 9, scale=20,
        statements=_MN + "int i = a < T(0) ? 0 : 1; m[1][0] = T(9);"),
    Row("matrix from one value", _WEIGH, lambda a, b, c: 10 * a, statements="M22 r = M22(a);", scale=40),
]

BITS = [
    Row("asuint and asint", "int(asuint(a) & 0xffffu) + asint(b)", lambda a, b, c: (_bits(a) & 0xFFFF) + _bits(b),
        b=(1, 2),
        types=("float",), to_int=True),
    Row("asfloat", "asfloat(asuint(a)) + asfloat(asint(b))", lambda a, b, c: a + b, types=("float",), scale=8),
    Row("float16 bits", "f16tof32(f32tof16(a)) + float(asfloat16(asuint16(half(b))))", types=("float",), scale=8,
        reference=lambda a, b, c: a.half().double() + b.half().double()),
    Row("asdouble", "asdouble(lo, hi) * 2.0L", lambda a, b, c: 2 * a, types=("double",),
        statements="uint lo; uint hi; asuint(a, lo, hi);"),
    Row("bit_cast", "bit_cast<float>(bit_cast<int>(a))", lambda a, b, c: a, types=("float",)),
]

_INT = ("int",)
_SMALL = (-11, 11)
_NEAR_ZERO = (-300, 300)
_HUNDRED = (-99, 99)
_DIGIT = (0, 9)

INTEGER = [
    Row("integer arithmetic", "T((a + b) * c - a)", lambda a, b, c: (a + b) * c - a, a=(5, 8), b=(0, 4), c=(1, 9),
        types=INTEGERS),
    Row("integer division", "T(a / b)", lambda a, b, c: a.div(b, rounding_mode="trunc"), a=_HUNDRED, b=(1, 11),
        types=SIGNED),
    Row("integer remainder", "T(a % b)", lambda a, b, c: a.fmod(b), a=_HUNDRED, b=(1, 11), types=SIGNED),
    Row("shifts", "T((a << 3) + (b >> 2))", lambda a, b, c: (a << 3) + (b >> 2), a=_DIGIT, b=(0, 99), types=INTEGERS),
    Row("right shift of a negative number", "T(a >> 2)", lambda a, b, c: a >> 2, a=(-99, -1), types=SIGNED),
    Row("bit operators", "T((a & b) | (c ^ a))", lambda a, b, c: (a & b) | (c ^ a), a=(0, 99), b=(0, 99), c=(0, 99),
        types=INTEGERS),
    Row("complement", "T(~a & T(127))", lambda a, b, c: ~a & 127, a=(0, 99), types=INTEGERS),
    Row("integer min and max", "T(min(a, b) + max(b, c) * T(2))", lambda a, b, c: a.minimum(b) + 2 * b.maximum(c),
        a=_DIGIT, b=_DIGIT, c=_DIGIT, types=INTEGERS),
    Row("integer clamp", "clamp(a, T(2), T(7))", lambda a, b, c: a.clamp(2, 7), a=_DIGIT, types=INTEGERS),
    Row("integer abs", "abs(a)", lambda a, b, c: a.abs(), a=_SMALL, types=SIGNED),
    Row("integer sign", "sign(a)", lambda a, b, c: a.sign(), a=_SMALL, types=WIDE, to_int=True),
    Row("countbits", "int(countbits(uint(a)))", lambda a, b, c: sum((a >> i) & 1 for i in range(32)), a=(0,
        2**31 - 1), types=_INT,
        to_int=True),
    Row("reversebits", "int(reversebits(uint(a)) >> 1)", lambda a, b,
        c: sum(((a >> i) & 1) << (30 - i) for i in range(31)),
        a=(0, 2**30), types=_INT, to_int=True),
    Row("firstbithigh", "firstbithigh(a)", lambda a, b, c: _highest_bit(torch.where(a < 0, ~a, a)), a=_NEAR_ZERO,
        types=_INT,
        to_int=True),
    Row("firstbithigh unsigned", "int(firstbithigh(uint(a)))", lambda a, b, c: torch.where(a < 0, 31, _highest_bit(a)),
        a=_NEAR_ZERO, types=_INT, to_int=True),
    Row("firstbitlow", "firstbitlow(a)", lambda a, b, c: _highest_bit(a & -a), a=_NEAR_ZERO, types=_INT, to_int=True),
    Row("firstbit of zero", "firstbitlow(a - a) + 3 * firstbithigh(a & 0)", lambda a, b, c: 0 * a - 4, types=_INT,
        to_int=True),
    Row("unsigned division", "int(uint(a) / uint(b))", lambda a, b, c: (a & 0xFFFFFFFF) // b, a=_HUNDRED, b=(3, 11),
        types=_INT,
        to_int=True),
    Row("unsigned comparison", "uint(a) < uint(b) ? 1 : 0", lambda a, b, c: (a & 0xFFFFFFFF) < (b & 0xFFFFFFFF),
        a=_SMALL, b=_SMALL, types=_INT, to_int=True),
    Row("unsigned wrap", "int((uint(a) * 2654435769u) >> 4)", lambda a, b, c: ((a * 2654435769) & 0xFFFFFFFF) >> 4,
        a=(0, 2**20),
        types=_INT, to_int=True),
    Row("narrowing", "int(int8_t(a)) + int(uint8_t(a)) * 3 + int(int16_t(a)) * 5 + int(uint16_t(a)) * 7", types=_INT,
        to_int=True,
        a=(-100000, 100000), reference=lambda a, b, c: _wrap(8, a) + (a & 0xFF) * 3 + _wrap(16,
        a) * 5 + (a & 0xFFFF) * 7),
    Row("64-bit product", "T(a) * T(b) + (T(1) << 40)", lambda a, b, c: a * b + (1 << 40), a=(0, 2**31), b=(0, 2**20),
        types=("int64_t",)),
    Row("unsigned 64-bit", "int(uint64_t(a) >> 60)", lambda a, b, c: torch.where(a < 0, 15, 0), a=_SMALL,
        types=("int64_t",),
        to_int=True),
    Row("integer vectors", "r.x + T(2) * r.y + T(3) * r.z", _uv(lambda u, v: (((u * v + u) & 63) * _like(u, 1, 2,
        3)).sum(-1)),
        a=_DIGIT, b=_DIGIT, c=_DIGIT, types=WIDE, statements=_UV + "V3 r = (u * v + u) & V3(63);"),
    Row("integer vector shifts", "r.x + r.y", lambda a, b, c: (a << 2) + (b << 3) - (a + b) % 7, a=_DIGIT, b=_DIGIT,
        types=WIDE,
        statements="V2 s = V2(2, 3); V2 r = V2(a, b) << s; r.x = r.x - (a + b) % T(7);"),
    Row("integer vector logic", "(any(p) ? 1 : 0) + (all(p) ? 2 : 0) + dot(i, i)", a=_DIGIT, b=_DIGIT, c=_DIGIT,
        types=_INT,
        reference=lambda a, b, c: ((a >= b) | (b >= c)) * 1 + ((a >= b) & (b >= c)) * 2 + a * a + b * b, to_int=True,
        statements="int2 i = int2(a, b); bool2 p = i >= int2(b, c);"),
    Row("integer matrices", "r[0][0] + 2 * r[1][1]", lambda a, b, c: a * c + b * a + 2 * (c * b + (a + b) * c),
        a=_DIGIT, b=_DIGIT,
        c=_DIGIT, types=_INT, to_int=True, statements="int2x2 r = mul(int2x2(a, b, c, a + b), int2x2(c, b, a, c));"),
    Row("bool vectors", "(all(p && q) ? 1 : 0) + (any(p || q) ? 2 : 0) + (any(p) == all(q) ? 4 : 0)", types=_INT,
        to_int=True,
        a=_SMALL, b=_SMALL, c=_SMALL, statements="bool2 p = bool2(a > 0, b > 0); bool2 q = bool2(c > 0, a > b);",
        reference=lambda a, b, c: ((a > 0) & (b > 0) & (c > 0) & (a > b)) * 1
        + ((a > 0) | (b > 0) | (c > 0) | (a > b)) * 2
        + (((a > 0) | (b > 0)) == ((c > 0) & (a > b))) * 4),
]
# fmt: on

ROWS = SCALAR + VECTOR + MATRIX + BITS + INTEGER
