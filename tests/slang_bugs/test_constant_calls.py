"""Calls that are constants of the derivative: `no_diff f(x)`, [TreatAsDifferentiable] functions, `detach`.

Note [constant calls] in csrc/compiler/source/constant_calls.h.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from long_tests import some_cases
from torch.autograd import forward_ad

import torch_slang

Tensor = torch.Tensor
SOURCE = """
import torch_slang;
interface IFilter { [Differentiable] double of(double x); }
struct Table : IFilter
{
    double scale;
    [TreatAsDifferentiable] double of(double x) { return scale * x * x; }
    [TreatAsDifferentiable] static double two(double x) { return 2 * x; }
}
struct Made
{
    double a; double b = 3;
    [TreatAsDifferentiable] __init(double x) { a = x * x; this.b = b * x; }
}
[TreatAsDifferentiable] Made operator+(Made s, Made t) { Made r = s; r.a = s.a * t.a; return r; }
[TreatAsDifferentiable] __prefix Made operator-(Made s) { Made r = s; r.b = s.a * s.b; return r; }
void spread(double x, out double3 r) { r = double3(x * x, x, 1); }
[TreatAsDifferentiable]
double treated(double x)   // two lines
{
    return no_diff twice(x) + 1;
}
double twice(double x) { return 2 * x; }
[TreatAsDifferentiable] T treated_of<T : __BuiltinFloatingPointType>(T x) { return x * x; }
[TreatAsDifferentiable] void changed(double x, inout double t, out double3 r) { t = x * t; r = double3(x, t, 1); }
[TreatAsDifferentiable] int sign_of(double x) { return x > 0 ? 1 : -1; }
[Differentiable] double square(double x) { return x * x; }
double cube(double x) { return x * x * x; }
[Differentiable] void halves(double x, out double r, inout double s) { r = x * x; s = s + x; }
void thirds(double x, out double r, inout double s) { r = x * x; s = s + x; }
void scaled(double x, in out double t) { t = t * x; }
[TreatAsDifferentiable] void treated_in_out(double x, in out double t) { t = t * x; }
bool meets(double x, out double t) { t = x * x; return t > 0.1; }
[Differentiable] double filtered<F : IFilter>(F f, double x) { return f.of(x) * x; }
[Differentiable] void renewed(double x, inout double t) { t = detach(x * t); }

[Differentiable] double times(double x, double y) { return treated(x) * x * y; }
[Differentiable] double branched(double x, double y) { if (treated(x) > 1.5) return x * y; return y * y; }
[Differentiable] double generic(double x, double y) { return treated_of(x) * y + Table.two(x) * x; }
[Differentiable] double outs(double x, double y)
{
    double t = y;
    double3 r;
    changed(x, t, r);
    return t * x + r.x * r.y * y + sign_of(x) * x;
}
[Differentiable] double method(double x, double y) { Table table = { x }; return filtered(table, y) * x; }
[Differentiable] double plain(double x, double y)
{
    return no_diff square(x) * y + no_diff cube(x) * x + no_diff exp(y) * x * (no_diff square(y));
}
[Differentiable] double statements(double x, double y)
{
    double r = x, s = y, c, d;
    if (x > 0) no_diff halves(x, r, s); else no_diff thirds(x, r, s);
    no_diff sincos(x, c, d);
    return r * s * x + c * d * y;
}
[Differentiable] double in_outs(double x, double y)
{
    double r = y, s = y;
    no_diff scaled(x, r);
    treated_in_out(x, s);
    return r * x * y + s * x;
}
[Differentiable] double conditions(double x, double y)
{
    double t = y;
    if (no_diff meets(x, t)) return t * x;
    return t * y;
}
[Differentiable] double looped(double x, double y)
{
    double s = x;
    [MaxIters(4)] for (int i = 0; i < 3; i++) { s = s * y + no_diff square(s); if (no_diff cube(s) > 20) break; }
    return s;
}
[Differentiable] double constructed(double x, double y) { Made m = Made(x); return m.a * y + m.b * x * y; }
[Differentiable] double operated(double x, double y)
{
    Made s = Made(x), t = Made(y);
    s.a *= y;
    Made sum = s + t, less = -s;
    return sum.a * x * y + less.b * x * x;
}
[Differentiable] double vectors(double x, double y)
{
    double3 r, t[2];
    no_diff spread(x, r);
    [MaxIters(2)] for (int i = 0; i < 2; i++) t[i] = r * y;
    [MaxIters(2)] for (int i = 0; i < 2; i++) t[i] = no_diff exp(t[i]);
    return (r.x + r.y + t[1].x) * x * x * y;
}
[Differentiable] double detached(double x, double y) { double t = y; renewed(x, t); return t * x * y; }

[CudaKernel] [Differentiable]
void kernel(DiffTensorView<double> x, DiffTensorView<double> y, [Out("x")] DiffTensorView<double> z)
{
    uint i = cudaThreadIdx().x + cudaBlockIdx().x * cudaBlockDim().x;
    if (i >= x.size(0)) return;
    double r = no_diff x[i];
    z[i] = r * y[i] + treated(x[i]) * x[i] + no_diff square(y[i]) * x[i];
}
"""

SOURCE += """
[CudaKernel] [Differentiable]
void elements(DiffTensorView<double> x, DiffTensorView<double> y, [Out("x")] DiffTensorView<double> z)
{
    uint i = cudaThreadIdx().x + cudaBlockIdx().x * cudaBlockDim().x;
    if (i >= x.size(0)) return;
    double r = y[i];
    z[i] = x[i];
    no_diff halves(x[i], z[i], r);
    z[i] = z[i] * x[i] * y[i] + r * x[i];
}
"""


def still(x: Tensor) -> Tensor:
    return x.detach()


def looped(x: Tensor, y: Tensor) -> Tensor:
    def one(s: Tensor, y: Tensor) -> Tensor:
        for _ in range(3):
            s = s * y + still(s * s)
            if s**3 > 20:
                break
        return s

    return torch.stack([one(a, b) for a, b in zip(x, y, strict=True)])


def outs(x: Tensor, y: Tensor) -> Tensor:
    t = still(x * y)
    return t * x + still(x * t) * y + torch.sign(x) * x


REFERENCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "times": lambda x, y: still(2 * x + 1) * x * y,
    "branched": lambda x, y: torch.where(2 * x + 1 > 1.5, x * y, y * y),
    "generic": lambda x, y: still(x * x) * y + still(2 * x) * x,
    "outs": outs,
    "method": lambda x, y: still(x * y * y) * y * x,
    "plain": lambda x, y: still(x * x) * y + still(x**3) * x + still(y.exp()) * x * still(y * y),
    "statements": lambda x, y: still(x * x) * still(y + x) * x + still(x.sin() * x.cos()) * y,
    "in_outs": lambda x, y: still(x * y) * x * y + still(x * y) * x,
    "conditions": lambda x, y: torch.where(x * x > 0.1, still(x * x) * x, still(x * x) * y),
    "looped": looped,
    "constructed": lambda x, y: still(x * x) * y + still(3 * x) * x * y,
    "operated": lambda x, y: still(x * x * y * y * y) * x * y + still(x * x * y * 3 * x) * x * x,
    "vectors": lambda x, y: still(x * x + x + (x * x * y).exp()) * x * x * y,
    "elements": lambda x, y: still(x * x) * x * y + still(y + x) * x,
    "detached": lambda x, y: still(x * y) * x * y,
    "kernel": lambda x, y: still(x) * y + still(2 * x + 1) * x + still(y * y) * x,
}


@pytest.fixture(scope="module")
def module() -> torch_slang.Module:
    return torch_slang.load(source=SOURCE, name="constant_calls", namespace="constant_calls")


def test_what_was_treated_is_no_function_of_its_own(module: torch_slang.Module) -> None:
    assert not [name for name in dir(module) if "tsl_" in name]


@some_cases(2)
@pytest.mark.parametrize("name", REFERENCES)
def test_no_derivative_goes_through(module: torch_slang.Module, device: torch.device, name: str) -> None:
    values = torch.tensor([[0.7, 1.3, -0.2], [1.1, -0.6, 0.9]], dtype=torch.float64, device=device)
    x, y = (v.clone().requires_grad_() for v in values)
    function, reference = getattr(module, name), REFERENCES[name]
    result, expected = function(x, y), reference(x, y)
    torch.testing.assert_close(result, expected)
    ours, theirs = (torch.autograd.grad(r.sum(), (x, y), create_graph=True) for r in (result, expected))
    torch.testing.assert_close(ours, theirs)
    tangents = (torch.tensor([1.0, 0.5, -2.0]).to(x), torch.tensor([0.3, 1.0, 0.7]).to(y))
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(p.detach(), t) for p, t in zip((x, y), tangents, strict=True)]
        tangent = forward_ad.unpack_dual(function(*duals)).tangent
    torch.testing.assert_close(tangent, (theirs[0] * tangents[0] + theirs[1] * tangents[1]).detach())
    second = []
    for gradients in (ours, theirs):
        along = (gradients[0] * tangents[0] + gradients[1] * tangents[1]).sum()
        if along.requires_grad:
            second.append(torch.autograd.grad(along, (x, y), allow_unused=True, materialize_grads=True))
        else:
            second.append((torch.zeros_like(x), torch.zeros_like(y)))
    torch.testing.assert_close(*second)


# --- Of functions that have no derivative, in functions that take aggregates

OF_AGGREGATES = """
struct Table
{
    double scale;
    double of(double x) { return scale * x * x; }
    static double two(double x) { return 2 * x; }
};
double still(double x) { return 2 * x; }
double product(double x, double y, int i) { return i > 1 ? x * y : x; }
T cube<T : __BuiltinFloatingPointType>(T x) { return x * x * x; }
double2 both(double2 v) { return v * v.yx; }
void spread(double x, out double r, inout double s) { r = x * x; s = s * x; }

[TorchOp] [Differentiable] double called(double n[4], int i) { return n[i % 2] * no_diff still(n[1]) * n[0]; }
[TorchOp] [Differentiable] double arguments(double n[4], int i)
{
    return n[0] * n[0] * no_diff product(n[i], n[0] * n[3], i);
}
[TorchOp] [Differentiable] double of_method(double n[4], int i)
{
    Table table = { n[2] };
    return n[0] * n[1] * no_diff table.of(n[i]) + n[1] * n[1] * no_diff Table.two(n[3]);
}
[TorchOp] [Differentiable] double of_generic(double n[4], int i) { return n[0] * n[0] * no_diff cube<double>(n[i]); }
[TorchOp] [Differentiable] double of_vector(double4 n, int i) { return n[0] * n[i] * (no_diff both(n.yz)).x; }
[TorchOp] [Differentiable] double of_changed(double n[4], int i)
{
    double r, s = n[1];
    no_diff spread(n[2], r, s);
    return r * s * n[0] * n[2];
}
[TorchOp] [Differentiable] double of_flow(double n[4], int i)
{
    double v[2] = { n[2], n[3] };
    double r = n[0];
    [MaxIters(3)] for (int k = 0; k < 3; k++)
    {
        if (k == i) v[k % 2] = no_diff still(v[i % 2]); else r = r * v[k % 2] + no_diff cube(r);
    }
    return r * v[i % 2] * n[1];
}
"""


def of_flow(n: list[Tensor], i: int) -> Tensor:
    v, r = n[2:], n[0]
    for k in range(3):
        if k == i:
            v[k % 2] = still(2 * v[i % 2])
        else:
            r = r * v[k % 2] + still(r**3)
    return r * v[i % 2] * n[1]


OF_ROWS: dict[str, Callable[[list[Tensor], int], Tensor]] = {
    "called": lambda n, i: n[i % 2] * still(2 * n[1]) * n[0],
    "arguments": lambda n, i: n[0] ** 2 * still(n[i] * n[0] * n[3] if i > 1 else n[i]),
    "of_method": lambda n, i: n[0] * n[1] * still(n[2] * n[i] ** 2) + n[1] ** 2 * still(2 * n[3]),
    "of_generic": lambda n, i: n[0] ** 2 * still(n[i] ** 3),
    "of_vector": lambda n, i: n[0] * n[i] * still(n[1] * n[2]),
    "of_changed": lambda n, i: still(n[2] ** 2) * still(n[1] * n[2]) * n[0] * n[2],
    "of_flow": of_flow,
}


@pytest.fixture(scope="module")
def of_aggregates() -> torch_slang.Module:
    text = "import torch_slang;\n" + OF_AGGREGATES
    return torch_slang.load(source=text, name="constants_of_aggregates", namespace="constants_of_aggregates")


@some_cases(2)
@pytest.mark.parametrize("name", OF_ROWS)
def test_constants_among_aggregates_have_second_derivatives(
    of_aggregates: torch_slang.Module, device: torch.device, name: str
) -> None:
    generator = torch.Generator().manual_seed(0)
    rows = (2 * torch.rand((3, 4), generator=generator, dtype=torch.float64) - 1).to(device).requires_grad_()
    weights = torch.rand((3, 4), generator=generator, dtype=torch.float64).to(device)
    integers = torch.arange(3, dtype=torch.int32, device=device)
    result = getattr(of_aggregates, name)(rows, integers)
    expected = torch.stack([OF_ROWS[name](list(row.unbind()), i) for i, row in enumerate(rows)])
    torch.testing.assert_close(result, expected)
    gradients = [torch.autograd.grad(one.sum(), rows, create_graph=True)[0] for one in (result, expected)]
    torch.testing.assert_close(*gradients)
    torch.testing.assert_close(*(torch.autograd.grad((g * weights).sum(), rows)[0] for g in gradients))
