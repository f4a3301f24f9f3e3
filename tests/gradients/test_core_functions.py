"""Remainders, and functions of Slang's core that have no derivative there: theirs are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from long_tests import dear_file, some_cases

import torch_slang

pytestmark = dear_file

Tensor = torch.Tensor
SOURCE = """import torch_slang;
[Differentiable] T rest<T : __BuiltinFloatingPointType>(T a, T b) { T r = a; r %= b; return r * (a / b); }
[Differentiable] vector<T, N> rests<T : __BuiltinFloatingPointType, let N : int>(vector<T, N> a, T b)
{
    return a % b * a / b;
}
[Differentiable] T real<T : IReal>(T a, T b) { return a % b * (a / b); }
struct Clock<T : __BuiltinFloatingPointType> : IDifferentiable
{
    T hour;
    [Differentiable] T at(T day) { return hour % day; }
}
[Differentiable] double of_numbers(double a, double b)
{
    Clock<double> clock = { a };
    double s = a;
    [MaxIters(3)] for (int i = 0; i < 3; ++i) { if (s > a) s %= b; else s = s + a * b; }
    return rest(a, b) + real(a, b) * clock.at(b) + a % 1.25 * (3.5 % b) + s * s;
}
[Differentiable] double3 of_vectors(double3 a, double b)
{
    double3 r = a % b + b % a;
    r %= a * b;
    r += rests(a, b);
    r %= b;
    return r * (a % a.zxy);
}
[Differentiable] double2x3 of_matrices(double2x3 a, double b)
{
    double2x3 r = a % b;
    r %= a * a;
    return r * (b % a);
}
[Differentiable] half of_halves(half a, half b) { return a % b * a; }

[AutoPyBindCUDA] [CudaKernel] [Differentiable]
void of_views([Shape("N")] DiffTensorView<double> a, [Shape("N")] DiffTensorView<double> b,
              [Out("N")] DiffTensorView<double> c)
{
    uint i = cudaThreadIdx().x + cudaBlockIdx().x * cudaBlockDim().x;
    if (i < a.size(0)) c[i] = a[i] % b[i] * floor(a[i] * 3) + frac(b[i]);
}
// What Slang crashes on in second derivatives, unless it is inlined before they are made.
[Differentiable] void add_fraction(inout double q, double a) { q += fract(a) * a; }
[Differentiable] void give_least(double a, double b, out double r) { r = fmin(a, b) * a * b; }
[TorchOp] [Differentiable] double changed_in_place(double a, double b)
{
    double q = b, r;
    add_fraction(q, a);
    give_least(q, a, r);
    return q * q * r;
}
[Differentiable] double of_two(double a, double b)
{
    double q = 0;
    [MaxIters(3)] for (int k = 0; k < 3; ++k) q += dot(a, b) * reflect(a, b) + powr(b * b + 1, a);
    return q;
}
[TorchOp] [Differentiable] void of_arrays(double x[2], out double y[1]) { y[0] = of_two(x[0], x[1]); }
[Differentiable] double steps(double x)
{
    return x * (floor(x) + ceil(x) + round(x) + trunc(x)) + step(0.5lf, x) * x * x;
}
[Differentiable] double parts(double x) { double whole; double part = modf(x, whole); return part * part + whole * x; }
[Differentiable] double3 scaled(double3 x) { return ldexp(x, int3(2, -1, 0)) + ldexp(x.y, 3) + ldexp(x, x); }
[Differentiable] double middle(double a, double b)
{
    return median3(a, b, a * b) * max3(a, b, 0.5lf) - min3(a * a, b, a);
}
[Differentiable] double turned(double3 n, double3 i) { return dot(faceforward(n, i, n * i), i * n) + mul(n, i); }
[Differentiable] double of_parts(double s[6])
{
    double3 a = double3(s[0], s[1], s[2]), b = double3(s[3], s[4], s[5]);
    double2x3 m = double2x3(s[0], s[1], s[2], s[3], s[4], s[5]), sines, cosines;
    sincos(m, sines, cosines);
    double3 r = fmax(a, b) * round(a * 3) + median3(a, b, a * b) * fract(b);
    return dot(r, a * b) + dot(sines[0] * cosines[1], a) + dot(trunc(2 * m)[1], b * b);
}
struct Pair : IDifferentiable { double a; double b; [ForwardDifferentiable] __init(double x) { a = x; b = x * x; } }
[ForwardDifferentiable] double constructed(double x) { Pair p = Pair(x); return p.a * p.b; }
"""
fmod = torch.fmod


def of_numbers(a: Tensor, b: Tensor) -> Tensor:
    s = a
    for _ in range(3):
        s = torch.where(s > a, fmod(s, b), s + a * b)
    rest = fmod(a, b) * a / b
    return rest + rest * fmod(a, b) + fmod(a, torch.full_like(a, 1.25)) * fmod(torch.full_like(b, 3.5), b) + s * s


def of_vectors(a: Tensor, b: Tensor) -> Tensor:
    b = b[:, None].expand_as(a)
    r = fmod(a, b) + fmod(b, a)
    r = fmod(r, a * b) + fmod(a, b) * a / b
    return fmod(r, b) * fmod(a, a[:, [2, 0, 1]])


def of_matrices(a: Tensor, b: Tensor) -> Tensor:
    b = b[:, None, None].expand_as(a)
    return fmod(fmod(a, b), a * a) * fmod(b, a)


def parts(x: Tensor) -> Tensor:
    return x.frac() ** 2 + x.trunc() * x


def changed_in_place(a: Tensor, b: Tensor) -> Tensor:
    q = b + (a - a.floor()) * a
    return q**3 * q.min(a) * a


def of_arrays(x: Tensor) -> Tensor:
    a, b = x[:, :1], x[:, 1:]
    return 3 * (a * b * (a - 2 * a * b * b) + (b * b + 1) ** a)


def steps(x: Tensor) -> Tensor:
    return x * (x.floor() + x.ceil() + x.round() + x.trunc()) + (x >= 0.5) * x * x


def middle(a: Tensor, b: Tensor) -> Tensor:
    middle = torch.stack([a, b, a * b]).median(0).values
    return middle * a.max(b).clamp(min=0.5) - (a * a).min(b).min(a)


def scaled(x: Tensor) -> Tensor:
    return x * torch.tensor([4, 0.5, 1]) + 8 * x[:, 1:2] + x * torch.exp2(x)


def turned(n: Tensor, i: Tensor) -> Tensor:
    facing = torch.where((n * i * i).sum(1, keepdim=True) < 0, n, -n)
    return (facing * i * n).sum(1) + (n * i).sum(1)


def of_parts(s: Tensor) -> Tensor:
    a, b = s[:, :3], s[:, 3:]
    r = a.max(b) * (a * 3).round() + torch.stack([a, b, a * b]).median(0).values * (b - b.floor())
    return (r * a * b + a.sin() * b.cos() * a + (2 * b).trunc() * b * b).sum(1)


CASES: dict[str, tuple[Callable[..., Tensor], list[tuple[int, ...]]]] = {
    "of_numbers": (of_numbers, [(), ()]),
    "of_vectors": (of_vectors, [(3,), ()]),
    "of_matrices": (of_matrices, [(2, 3), ()]),
    "of_views": (lambda a, b: fmod(a, b) * (a * 3).floor() + b - b.floor(), [(), ()]),
    "changed_in_place": (changed_in_place, [(), ()]),
    "of_arrays": (of_arrays, [(2,)]),
    "steps": (steps, [()]),
    "parts": (parts, [()]),
    "scaled": (scaled, [(3,)]),
    "middle": (middle, [(), ()]),
    "turned": (turned, [(3,), (3,)]),
    "of_parts": (of_parts, [(6,)]),
}


@pytest.fixture(scope="module")
def module() -> torch_slang.Module:
    return torch_slang.load(source=SOURCE, name="core_functions.slang", namespace="core_functions")


@some_cases(4)
@pytest.mark.parametrize("name", CASES)
def test_derivatives_are_those_of_pytorch(module: torch_slang.Module, name: str, device: torch.device) -> None:
    reference, shapes = CASES[name]
    generator = torch.Generator().manual_seed(5)
    plain = [torch.randn(6, *shape, dtype=torch.double, generator=generator) for shape in shapes]
    x, y = ([one.detach().to(to).requires_grad_() for one in plain] for to in (device, "cpu"))
    along = [torch.randn_like(one) for one in plain]
    found, wanted = getattr(module, name)(*x), reference(*y)
    torch.testing.assert_close(found.cpu(), wanted)
    found, wanted = (
        torch.autograd.grad(value.sin().sum(), by, create_graph=True) for value, by in ((found, x), (wanted, y))
    )
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.cpu(), other)
    found, wanted = (
        torch.autograd.grad(
            sum((g * t.to(g.device)).sum() for g, t in zip(gradients, along, strict=True)), by, materialize_grads=True
        )
        for gradients, by in ((found, x), (wanted, y))
    )
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.cpu(), other)
    given = tuple(one.to(device) for one in plain)
    _, tangent = torch.func.jvp(getattr(module, name), given, tuple(one.to(device) for one in along))
    _, wanted_tangent = torch.func.jvp(reference, tuple(plain), tuple(along))
    torch.testing.assert_close(tangent.cpu(), wanted_tangent)


def test_a_clamped_value_has_the_derivative_of_the_bound_that_it_is(device: torch.device) -> None:
    """PyTorch's, and the lower bound's where both bounds are the same."""
    module = torch_slang.load(
        source="""
        [Differentiable] T number<T : __BuiltinFloatingPointType>(T x, T low, T high) { return clamp(x, low, high); }
        [Differentiable] double3 vector(double3 x, double3 low, double3 high) { return clamp(x, low, high); }""",
        namespace="clamped",
    )
    values = torch.tensor([-1.0, 0.0, 0.5, 1.0, 2.0], dtype=torch.double)
    x, low, high = (one.flatten().to(device).requires_grad_() for one in torch.meshgrid([values] * 3, indexing="ij"))
    expected = torch.stack(torch.autograd.grad(torch.clamp(x, low, high).sum(), (x, low, high)))
    expected[1] = torch.where((low == high) & (x < low), 1, expected[1])

    def gradients(function: Callable[..., Tensor], *xs: Tensor, create_graph: bool) -> Tensor:
        result = function(*xs)
        return torch.stack(torch.autograd.grad(result.sum(), xs, create_graph=create_graph))

    for create_graph in (False, True):  # texts of order 1 and 2
        assert torch.equal(gradients(module.number, x, low, high, create_graph=create_graph), expected)
        wide = [one.detach()[:, None].expand(-1, 3).clone().requires_grad_() for one in (x, low, high)]
        found = gradients(module.vector, *wide, create_graph=create_graph)
        assert torch.equal(found, expected[:, :, None].expand(-1, -1, 3))
    for k in range(3):
        along = tuple(torch.full_like(one, i == k) for i, one in enumerate((x, low, high)))
        _, tangent = torch.func.jvp(module.number, (x.detach(), low.detach(), high.detach()), along)
        assert torch.equal(tangent, expected[k])


def test_remainders_of_halves_and_of_constant_divisors(module: torch_slang.Module, device: torch.device) -> None:
    a = torch.tensor([300.0, -7, 0.5], dtype=torch.half, device=device, requires_grad=True)
    b = torch.tensor([0.002, 2, 3], dtype=torch.half, device=device)
    value, tangent = torch.func.jvp(lambda a: module.of_halves(a, b), (a.detach(),), (torch.ones_like(a),))
    assert torch.isfinite(tangent).all()
    torch.testing.assert_close(value, fmod(a, b) * a)


def test_a_constructor_may_be_forward_differentiable(module: torch_slang.Module, device: torch.device) -> None:
    x = torch.tensor([0.5, 2.0], dtype=torch.double, device=device)
    assert module.constructed(x).tolist() == [0.125, 8.0]  # it is loaded at its first use
    torch.testing.assert_close(torch.ops.core_functions.constructed_jvp(x, torch.ones_like(x)), 3 * x * x)


def test_files_that_are_imported_have_them_too(tmp_path: Path) -> None:
    (tmp_path / "floors.slang").write_text("[Differentiable] public double low(double x) { return floor(x) * x; }\n")
    (tmp_path / "main.slang").write_text("import floors;\n[Differentiable] double f(double x) { return low(x * 2); }\n")
    x = torch.tensor([0.7, -1.3], dtype=torch.double, requires_grad=True)
    torch_slang.load(str(tmp_path / "main.slang"), namespace="floors").f(x).sum().backward()
    torch.testing.assert_close(x.grad, 2 * (2 * x.detach()).floor())
