"""Gradients of numbers that stand beside vectors and matrices, which Slang loses.

Note [promotions] in csrc/compiler/ir/promotions.h. The table of the whole language is in test_language.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from devices import DEVICES
from long_tests import dear_file

import torch_slang

pytestmark = dear_file

Tensor = torch.Tensor
SOURCE = """import torch_slang;
[Differentiable] double3 operators(double a, double3 x)
{
    double3 y = a * x + x / a - a / x + (a + x) * (x - a);
    y += a; y -= a * x; y *= a; y /= a + x;
    return a - y;
}
[Differentiable] double3 matrices(double a, double3 x)
{
    double2x3 m = a * double2x3(x, x.yzx);
    m += a; m = m / a; m *= a;
    return mul(a, m[0]) * m[1] + a / m[0];
}
[Differentiable] double3 carried(double a, double3 x)
{
    double3 sum = x;
    double w = 1;
    [MaxIters(4)] for (int i = 0; i < 3; ++i) { w += a * x[i]; sum += w * x; }
    double3 v = sum / w;
    int k = 0;
    [MaxIters(4)] while (k < 2) { w *= a; v = w * v; ++k; }
    return x * w + v / w;
}
[Differentiable] double3 branched(double a, double3 x)
{
    double3 y = x;
    if (a > 0) y = a * y; else y = y / a;
    switch (int(x.x)) { case 1: y = a + y; break; default: y = y - a; break; }
    return a > 1 ? a * y : y / a;
}
interface IShape : IDifferentiable { [Differentiable] double3 at(double t, double3 d); }
struct Ray : IShape
{
    double3 o;
    double s;
    [Differentiable] double3 at(double t, double3 d) { return s * o + t * d; }
}
[Differentiable] double3 shape<S : IShape>(S shape, double t, double3 d) { return shape.at(t, d); }
[Differentiable] vector<T, N> scaled<T : __BuiltinFloatingPointType, let N : int>(T a, vector<T, N> x) { return a * x; }
[Differentiable] double3 called(double a, double3 x)
{
    Ray ray = { x.zxy, a };
    double3 parts[2] = { x, a * x };
    return shape(ray, a, x) + scaled(a, parts[1]);
}
[Differentiable] vector<T, 3> halved<T : __BuiltinFloatingPointType>(float a, vector<T, 3> x) { return T(a) * x; }
[Differentiable] double3 converted(float a, double3 x)
{
    double3 y = a;
    y.yz = a;
    double2x2 m = double2x2(a) * double2x2(x.x, x.y, x.z, x.x);
    return lerp(x, double3(a) * y, a) + (double3)a * m[0][0] + halved(a, x);
}
"""


def operators(a: Tensor, x: Tensor) -> Tensor:
    y = a * x + x / a - a / x + (a + x) * (x - a)
    return a - (y + a - a * x) * a / (a + x)


def matrices(a: Tensor, x: Tensor) -> Tensor:
    first, second = ((a * row + a) / a * a for row in (x, x[..., [1, 2, 0]]))
    return a * first * second + a / first


def carried(a: Tensor, x: Tensor) -> Tensor:
    total, w = x, torch.ones_like(a)
    for i in range(3):
        w = w + a * x[..., i : i + 1]
        total = total + w * x
    v = total / w
    for _ in range(2):
        w = w * a
        v = w * v
    return x * w + v / w


def branched(a: Tensor, x: Tensor) -> Tensor:
    y = torch.where(a > 0, a * x, x / a)
    y = torch.where(x[..., :1].to(torch.int32) == 1, a + y, y - a)
    return torch.where(a > 1, a * y, y / a)


def called(a: Tensor, x: Tensor) -> Tensor:
    return a * x[..., [2, 0, 1]] + a * x + a * (a * x)


def converted(a: Tensor, x: Tensor) -> Tensor:
    return x + a * (a * a - x) + a * (a * x[..., :1]) + a * x


REFERENCES = (operators, matrices, carried, branched, called)


def arguments(device: str) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(11)
    a = torch.empty(5, 1, dtype=torch.float64).uniform_(0.4, 1.6, generator=generator)
    x = torch.empty(5, 3, dtype=torch.float64).uniform_(0.5, 2.5, generator=generator)
    return a.to(device).requires_grad_(), x.to(device).requires_grad_()


def check(f: Callable[[Tensor, Tensor], Tensor], reference: Callable[[Tensor, Tensor], Tensor], device: str) -> None:
    """Values, gradients, tangents, and gradients of gradients are those of the reference, and of finite differences."""
    a, x = arguments(device)
    made, expected = f(a, x), reference(a, x)
    torch.testing.assert_close(made, expected)
    weights = torch.linspace(-1, 1, made.numel(), dtype=made.dtype, device=device).view_as(made)
    grads = [torch.autograd.grad((y * weights).sum(), (a, x), create_graph=True) for y in (made, expected)]
    torch.testing.assert_close(*grads)
    tangents = (torch.cos(a.detach()), torch.sin(x.detach()))
    torch.testing.assert_close(*(torch.func.jvp(one, (a.detach(), x.detach()), tangents)[1] for one in (f, reference)))
    seconds = [torch.autograd.grad(sum((g * g).sum() for g in pair), (a, x)) for pair in grads]
    torch.testing.assert_close(*seconds)
    assert torch.autograd.gradcheck(f, (a, x), nondet_tol=1e-12)


@pytest.fixture(scope="module")
def module() -> torch_slang.Module:
    return torch_slang.load(source=SOURCE, name="promotions", namespace="promotions")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("reference", REFERENCES, ids=lambda one: one.__name__)
def test_numbers_beside_vectors_have_gradients(
    module: torch_slang.Module, reference: Callable[[Tensor, Tensor], Tensor], device: str
) -> None:
    function = getattr(module, reference.__name__)
    check(lambda a, x: function(a[:, 0], x), reference, device)


@pytest.mark.parametrize("device", DEVICES)
def test_numbers_that_become_vectors_of_other_elements_have_gradients(module: torch_slang.Module, device: str) -> None:
    """Note [conversions]. A float beside doubles: to float's digits."""
    a, x = arguments(device)
    narrow = a[:, 0].detach().float().requires_grad_()
    wide = narrow.detach().double()[:, None].requires_grad_()
    made, expected = module.converted(narrow, x), converted(wide, x)
    torch.testing.assert_close(made, expected)
    weights = torch.linspace(-1, 1, made.numel(), dtype=made.dtype, device=device).view_as(made)
    ours = torch.autograd.grad((made * weights).sum(), (narrow, x), create_graph=True)
    theirs = torch.autograd.grad((expected * weights).sum(), (wide, x), create_graph=True)
    torch.testing.assert_close(ours[0], theirs[0][:, 0].float())
    torch.testing.assert_close(ours[1], theirs[1])
    seconds = [
        torch.autograd.grad(sum(g.square().sum() for g in pair), at)[0] for pair, at in ((ours, narrow), (theirs, wide))
    ]
    torch.testing.assert_close(seconds[0], seconds[1][:, 0].float(), rtol=1e-5, atol=1e-5)
    tangent = torch.func.jvp(
        module.converted, (narrow.detach(), x.detach()), (torch.ones_like(narrow), torch.zeros_like(x))
    )
    expected = torch.func.jvp(converted, (wide.detach(), x.detach()), (torch.ones_like(wide), torch.zeros_like(x)))
    torch.testing.assert_close(tangent[1], expected[1])


KERNEL = """import torch_slang;
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void scaled_rows(double a, [Shape("N")] DiffTensorView<double3> x, [Out("N")] DiffTensorView<double3> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= x.size(0)) return;
    y[i] = a * x[i] + x[i] / a;
}
"""


@pytest.mark.parametrize("device", DEVICES)
def test_value_parameters_of_kernels_beside_vectors_have_gradients(device: str) -> None:
    module = torch_slang.load(source=KERNEL, name="promotions_kernel", namespace="promotions_kernel")
    a, x = arguments(device)
    number = a[0, 0].detach().requires_grad_()
    for f in (module.scaled_rows, lambda a, x: a * x + x / a):
        assert torch.autograd.gradcheck(f, (number, x), nondet_tol=1e-12, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(f, (number, x), nondet_tol=1e-12)


PARTS = {
    "inner.slang": "module inner; public [Differentiable] double3 in_inner(double a, double3 x) { return a * x; }",
    "outer.slang": """import inner;
[Differentiable] double3 in_outer(double a, double3 x) { return in_inner(a, x) - a; }
""",
    "main.slang": """import torch_slang; import outer; import inner;
[Differentiable] double3 f(double a, double3 x) { return in_outer(a, x) + in_inner(a, x); }
""",
}


@pytest.mark.parametrize("device", DEVICES)
def test_imported_functions_have_gradients_of_numbers_beside_vectors(tmp_path: Path, device: str) -> None:
    for name, text in PARTS.items():
        (tmp_path / name).write_text(text)
    module = torch_slang.load(tmp_path / "main.slang", namespace=f"promoted_imports_{device}")
    check(lambda a, x: module.f(a[:, 0], x), lambda a, x: a * x - a + a * x, device)
