"""Wrong gradients and crashes that others reported of Slang, SlangPy and Warp, in our words (docs/derivatives.md)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from long_tests import some_cases
from torch import Tensor

import torch_slang

SOURCE = """
#define DIFF [Differentiable]
#define KERNEL [PyBindCUDA(Auto)] [Differentiable] [CudaKernel]

// slang 6154
DIFF double3 polynomial(double a, double b, double c, double3 x) { return a * x * x + b * x + c; }

// slang 12071
DIFF double weighted(double3 x)
{
    double3 numerator = 0.0;
    double denominator = 0.0;
    [MaxIters(2)] for (int i = 0; i < 2; ++i) { double w = x[i]; numerator += x * w; denominator += w * w; }
    double3 r = numerator / denominator;
    return r.x + r.y * 2.0 + r.z;
}

// slang 13000
DIFF double2 layer(double2 x, double4 w)
{
    double2 result = 0.0;
    [MaxIters(2)] for (int i = 0; i < 2; ++i)
    {
        double sum = 0.0;
        [MaxIters(3)] for (int j = 0; j < 2; ++j) sum += w[i * 2 + j] * x[j];
        result[i] = tanh(sum);
    }
    return result;
}
DIFF double2 network(double2 x, double4 v, double4 w) { return layer(layer(x, v), w); }

// slangpy 1055
DIFF double3 edges(double4 signal, double sigma)
{
    double sum = 0.0;
    double total = 0.0;
    [MaxIters(4)] for (int i = 0; i < 4; ++i)
    {
        double d = signal[i] - signal[1];
        double w = exp(-d * d / (sigma * sigma));
        sum += w * signal[i];
        total += w;
    }
    double r = sum / total;
    return double3(r, r * r, r * signal[2]);
}

// slang 10462, 12299
DIFF double4 splat_zero(double x) { if (x > 1.0) return double4(0); return double4(x) * x; }
DIFF double strides(double x, no_diff int radius)
{
    double result = 0.0;
    [MaxIters(17)] for (int i = -radius; i <= radius; i += 2) result += x * double(i + radius + 1) * x;
    return result;
}

// slang 6412, 9175
DIFF double tied(double x, double y) { return max(x, y) * 2.0 + min(x, y) * y; }
DIFF double logarithms(double x) { return log2(x) * exp2(x) + log10(x); }

// slang 8068
interface ICapped : IDifferentiable { [Differentiable] This capped(double other); }
struct Values : ICapped
{
    typealias Differential = This;
    double[2] data;
    [Differentiable] This capped(double other)
    {
        This result = this;
        [MaxIters(2)] for (int i = 0; i < 2; i++) result.data[i] = max(result.data[i], other);
        return result;
    }
}
DIFF double capped(double2 v, double other)
{
    Values values;
    values.data[0] = v.x * v.x;
    values.data[1] = v.y;
    Values result = values.capped(other);
    return result.data[0] * result.data[1];
}

// slang 10883, 9155
DIFF vector<T, 2> made<T : __BuiltinFloatingPointType>(T x, no_diff T y) { return vector<T, 2>(x * x, y); }
DIFF double2 half_constant(double x, no_diff double y) { return made<double>(x, y); }
interface IModifier { [Differentiable] double apply(double x); }
struct Copy : IModifier, IDifferentiable { [Differentiable] double apply(double x) { return x; } }
DIFF double modified<M : IModifier>(double x, M modifier) { return x * modifier.apply(x); }
DIFF double generic(double x) { Copy copy = Copy(); return modified(x, copy); }

// warp 1694, 1293, 1552
DIFF double behind_loop(double x, double s, no_diff int n)
{
    double geometry = x * x;
    double sum = 0.0;
    [MaxIters(8)] for (int k = 0; k < n; ++k) sum += s * double(k + 1) * sum + s;
    return geometry * sum + geometry;
}
DIFF double nested(double x, double q, no_diff int n)
{
    double state = q;
    [MaxIters(4)] for (int i = 0; i < n; ++i)
    {
        [MaxIters(5)] for (int j = 0; j < i + 1; ++j) state = state * cos(x) + x * double(j);
    }
    return state;
}
DIFF double largest(double4 c, double x)
{
    double best = -1e20;
    [MaxIters(4)] for (int p = 0; p < 4; ++p)
    {
        if (c[p] < 0.3) continue;
        double v = x * c[p] * double(p + 1);
        if (v > best) best = v;
    }
    return best;
}

// warp 1697, 831, 1598
DIFF double components(double x, double y)
{
    double3 v = 0.0;
    double2x2 m = 0.0;
    v[0] = v[0] + x; v[0] = v[0] + x * y; v[0] = v[0] + y; v.y = v.y + v.x * x;
    m[0][0] = m[0][0] + x; m[0][0] = m[0][0] * y + x; m[1][0] += m[0][0];
    return v.x * v.y + m[0][0] * m[1][0];
}
DIFF double3 divided(double s, double3 v) { return s / v; }
DIFF double2x2 divided_matrix(double s, double4 v) { return s / double2x2(v.x, v.y, v.z, v.w); }
struct Held : IDifferentiable { double3 v; int place; }
DIFF Held hold(double3 x) { Held h; h.v = 2.0 * x; h.place = 1; return h; }
DIFF double held(double3 x) { Held h = hold(x); return dot(h.v, h.v); }

// warp 1466, 1472
DIFF double3 signs(double3 x) { return (no_diff sign(x)) * x; }
DIFF double2 advect(double4 u, double4 v, double dt)
{
    double2 r;
    r.x = u.y + dt * (-u.y * (u.z - u.x) - v.y * (u.w - u.y) + 0.1 * (u.x - 2.0 * u.y + u.z));
    r.y = v.y + dt * (-u.y * (v.z - v.x) - v.y * (v.w - v.y) + 0.1 * (v.x - 2.0 * v.y + v.z));
    return r;
}

// slangpy 1056
DIFF double product(double x, double y) { return x * y * y; }

// slang 9267, 10090: by a vector that a loop loads, and by hand
extension DiffTensorView<double>
{
    [Differentiable] double3 row_once(uint i)
    {
        double3 result;
        uint2 at = uint2(i, 0);
        [ForceUnroll] for (int j = 0; j < 3; j++) { result[j] = this.loadOnce(at); at[1] += 1; }
        return result;
    }
}
KERNEL void exceeding([Shape("N, 3")] DiffTensorView<double> p, [Shape("N, 3")] TensorView<double> d,
                      [Out("N")] DiffTensorView<double> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= y.size(0)) return;
    double3 dims = double3(d[i, 0], d[i, 1], d[i, 2]);
    double3 over = max(abs(p.row_once(i)) - dims * 0.5, double3(0.0));
    y[i] = (over.x + over.y + over.z) / 6.0;
}

// slang 10417: rows that a loop stores
KERNEL void matrix_rows([Shape("N, 2")] DiffTensorView<double> x, [Out("N, 2")] DiffTensorView<double> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= y.size(0)) return;
    uint2 at = uint2(i, 0);
    [ForceUnroll] for (int j = 0; j < 2; j++)
    {
        double v = x.loadOnce(at);
        y.storeOnce(at, v * v);
        at[1] += 1;
    }
}

// warp 1294, 1062: elements that are stored twice, and read in between
KERNEL void overwritten([Shape("N")] DiffTensorView<double> x, [Out("N")] DiffTensorView<double> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= y.size(0)) return;
    y[i] = x[i] * 3.0;
    y[i] = y[i] + 1.0;
    y[i] = y[i] * y[i];
}

// slang 6394: what stands behind a loop that may return
KERNEL void behind_return([Shape("N")] DiffTensorView<double> x, [Out("N")] DiffTensorView<double> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= y.size(0)) return;
    [MaxIters(1)] for (int k = 0; k < 1; k++)
    {
        if (i > 100) return;
    }
    y[i] = x[i] * x[i];
}

// warp 1207, 248: parts of an element of a view
KERNEL void parts([Shape("N")] DiffTensorView<double> x, [Out("N")] DiffTensorView<double3> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= y.size(0)) return;
    double3 v;
    v.x = x[i] * 2.0;
    v.y = x[i] * 3.0;
    v.z = x[i] * x[i];
    y[i] = v;
}
"""


@pytest.fixture(scope="module")
def module() -> torch_slang.Module:
    return torch_slang.load(source=SOURCE, name="trackers.slang", namespace="test_trackers")


def matrices(v: Tensor) -> Tensor:
    return v.unflatten(-1, (2, 2))


def layer(x: Tensor, w: Tensor) -> Tensor:
    return torch.tanh((matrices(w) @ x.unsqueeze(-1)).squeeze(-1))


def weighted(x: Tensor) -> Tensor:
    w = x[..., :2]
    r = x * w.sum(-1, keepdim=True) / (w * w).sum(-1, keepdim=True)
    return r[..., 0] + 2 * r[..., 1] + r[..., 2]


def edges(signal: Tensor, sigma: Tensor) -> Tensor:
    w = torch.exp(-(((signal - signal[..., 1:2]) / sigma[..., None]) ** 2))
    r = (w * signal).sum(-1) / w.sum(-1)
    return torch.stack([r, r * r, r * signal[..., 2]], -1)


def strides(x: Tensor, radius: int) -> Tensor:
    return x * x * sum(i + radius + 1 for i in range(-radius, radius + 1, 2))


def behind_loop(x: Tensor, s: Tensor, n: int) -> Tensor:
    total = torch.zeros_like(x)
    for k in range(n):
        total = total + s * (k + 1) * total + s
    return x * x * total + x * x


def nested(x: Tensor, q: Tensor, n: int) -> Tensor:
    for i in range(n):
        for j in range(i + 1):
            q = q * torch.cos(x) + x * j
    return q


def largest(c: Tensor, x: Tensor) -> Tensor:
    v = x[..., None] * c * torch.arange(1, 5, dtype=c.dtype, device=c.device)
    return torch.where(c < 0.3, -1e20, v).amax(-1)


def components(x: Tensor, y: Tensor) -> Tensor:
    first = x + x * y + y
    m = x * y + x
    return first * first * x + m * m


def advect(u: Tensor, v: Tensor, dt: Tensor) -> Tensor:
    def one(a: Tensor) -> Tensor:
        flow = -u[..., 1] * (a[..., 2] - a[..., 0]) - v[..., 1] * (a[..., 3] - a[..., 1])
        return a[..., 1] + dt * (flow + 0.1 * (a[..., 0] - 2 * a[..., 1] + a[..., 2]))

    return torch.stack([one(u), one(v)], -1)


def exceeding(p: Tensor, d: Tensor) -> Tensor:
    return torch.clamp_min(p.abs() - d * 0.5, 0).sum(-1) / 6


# The function or kernel, its reference, and the trailing shapes of its arguments; a number stands for itself.
CASES: dict[str, tuple[Callable[..., Tensor], list[tuple[int, ...] | int]]] = {
    "polynomial": (lambda a, b, c, x: (a * x.mT * x.mT + b * x.mT + c).mT, [(), (), (), (3,)]),
    "weighted": (weighted, [(3,)]),
    "network": (lambda x, v, w: layer(layer(x, v), w), [(2,), (4,), (4,)]),
    "edges": (edges, [(4,), ()]),
    "splat_zero": (lambda x: torch.where(x > 1, 0.0, x * x)[..., None].expand(*x.shape, 4), [()]),
    "strides": (strides, [(), 3]),
    "tied": (lambda x, y: torch.maximum(x, y) * 2 + torch.minimum(x, y) * y, [(), ()]),
    "logarithms": (lambda x: torch.log2(x) * torch.exp2(x) + torch.log10(x), [()]),
    "capped": (lambda v, o: torch.maximum(v[..., 0] ** 2, o) * torch.maximum(v[..., 1], o), [(2,), ()]),
    "half_constant": (lambda x, y: torch.stack([x * x, torch.full_like(x, y)], -1), [(), 2]),
    "generic": (lambda x: x * x, [()]),
    "behind_loop": (behind_loop, [(), (), 5]),
    "nested": (nested, [(), (), 3]),
    "largest": (largest, [(4,), ()]),
    "components": (components, [(), ()]),
    "divided": (lambda s, v: s[..., None] / v, [(), (3,)]),
    "divided_matrix": (lambda s, v: s[..., None, None] / matrices(v), [(), (4,)]),
    "held": (lambda x: 4 * (x * x).sum(-1), [(3,)]),
    "signs": (lambda x: x.sign() * x, [(3,)]),
    "advect": (advect, [(4,), (4,), ()]),
    "product": (lambda x, y: x * y * y, [(), ()]),
    "exceeding": (exceeding, [(3,), (3,)]),
    "matrix_rows": (lambda x: x * x, [(2,)]),
    "overwritten": (lambda x: (3 * x + 1) ** 2, [()]),
    "behind_return": (lambda x: x * x, [()]),
    "parts": (lambda x: torch.stack([2 * x, 3 * x, x * x], -1), [()]),
}
CONSTANT = {("exceeding", 1)}  # arguments without a gradient


@some_cases(8)
@pytest.mark.parametrize("name", CASES)
def test_derivatives_are_those_of_pytorch(module: torch_slang.Module, name: str, device: torch.device) -> None:
    reference, shapes = CASES[name]
    generator = torch.Generator().manual_seed(7)
    values: list[Tensor | int] = [
        shape
        if isinstance(shape, int)
        else (torch.rand(5, *shape, generator=generator).double() * 1.6 + 0.1).to(device)
        for shape in shapes
    ]
    leaves = [n for n, v in enumerate(values) if isinstance(v, Tensor) and (name, n) not in CONSTANT]
    outcomes = []
    for function in (getattr(module, name), reference):
        given = [v.clone().requires_grad_() if n in leaves else v for n, v in enumerate(values)]
        result = function(*given)
        seeds = torch.rand(result.shape, generator=generator.manual_seed(8)).double().to(device)
        outcomes.append([result.detach(), *torch.autograd.grad(result, [given[n] for n in leaves], seeds)])
    torch.testing.assert_close(*outcomes)


def test_equal_arguments_of_max_share_the_gradient(module: torch_slang.Module) -> None:
    x, y = (torch.tensor([0.5], dtype=torch.float64, requires_grad=True) for _ in range(2))
    expected = torch.autograd.grad(torch.maximum(x, y) * 2 + torch.minimum(x, y) * y, [x, y])
    torch.testing.assert_close(torch.autograd.grad(module.tied(x, y), [x, y]), expected)


@pytest.mark.parametrize("wanted", [0, 1])
def test_one_of_two_arguments_may_want_a_gradient(module: torch_slang.Module, wanted: int) -> None:
    values = [torch.tensor([3.0], dtype=torch.float64), torch.tensor([2.0], dtype=torch.float64)]
    values[wanted].requires_grad_()
    module.product(*values).sum().backward()
    torch.testing.assert_close(values[wanted].grad, torch.tensor([[4.0, 12.0][wanted]], dtype=torch.float64))
    assert values[1 - wanted].grad is None


def test_an_argument_that_is_changed_before_the_backward_is_an_error(module: torch_slang.Module) -> None:
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    held = x * 2
    result = module.generic(held)
    held.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()
