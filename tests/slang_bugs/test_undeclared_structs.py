"""Structs that are not declared IDifferentiable carry derivatives as if they were.

Note [undeclared structs] in csrc/compiler/source/undeclared_structs.h.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from long_tests import dear_file, some_cases
from torch.autograd import forward_ad

import torch_slang

pytestmark = dear_file

Tensor = torch.Tensor
SOURCE = """
import torch_slang;
import undeclared_part;
struct Pair { double a; double b; }
struct Mixed
{
    int n; double a; bool on; no_diff double fixed; double3 v;
    double total(int k) { return a * k; }
}
struct Made
{
    double a, b;
    __init(double x, double y) { this.a = x * y; this.b = y; }
    [Differentiable] double product() { return a * b; }
}
struct Number<T : __BuiltinFloatingPointType> { T a; T b; [Differentiable] T product() { return a * b; } }
struct Any<T> { T a; T b; }
struct Fixed<let N : int> { double v[N]; }
struct Outer : IDifferentiable { Pair pairs[2]; double w; }
namespace inner
{
    struct Point { double x; double2 y; struct Deep { double z; }; Deep deep; };
}
interface IShape { [Differentiable] double at(double x); }
struct Line : IShape { double slope; [Differentiable] double at(double x) { return slope * x * x; } }
struct Flat : IShape { int height; [Differentiable] double at(double x) { return height * x; } }
[Differentiable] double height<S : IShape>(S shape, double x) { return shape.at(x) * x; }
[Differentiable] double product(Pair p) { return p.a * p.b; }
[Differentiable] Pair swapped(Pair p) { return { p.b, p.a * p.a }; }

void hit_bwd(Pair p, inout DifferentialPair<double> t, double grad) { t = diffPair(t.p, grad * p.a); }
DifferentialPair<double> hit_fwd(Pair p, DifferentialPair<double> t) { return diffPair(p.a * t.p, p.a * t.d); }
[BackwardDerivative(hit_bwd)] [ForwardDerivative(hit_fwd)] double hit(Pair p, double t) { return p.a * t; }

[Differentiable] double listed(double x, double y) { Pair p = { x, y }; return p.a * p.b * x; }
[Differentiable] double called(double x, double y) { Pair p = Pair(x * y, y); return p.a * p.b; }
[Differentiable] double passed(double x, double y) { return product(swapped({ x, y })) + product(Pair(y, x)); }
[Differentiable] double in_array(double x, double y)
{
    Pair p[3] = { { x, y }, { y, x }, { x, x } };
    double s = 1;
    for (int i = 0; i < 3; i++) s *= p[i].a + p[i].b * p[i].b;
    return s;
}
[Differentiable] double mixed(double x, double y)
{
    Mixed m = { 3, x, true, 2.0, double3(x, y, x * y) };
    m.a *= y;
    Mixed other = m;
    if (other.on) other.v = m.v * m.a;
    return other.v.x * other.v.y * other.n + other.v.z * m.fixed;
}
[Differentiable] double made(double x, double y) { Made m = Made(x, y); return m.product() * m.b; }
[Differentiable] double generic(double x, double y)
{
    Number<double> n = { x, y };
    Any<double> any = { y, x * y };
    Fixed<3> f = { { x, y, x } };
    return n.product() * any.a * any.b + f.v[0] * f.v[1] * f.v[2];
}
[Differentiable] double nested(double x, double y)
{
    Outer o = { { { x, y }, Pair(y, x) }, y };
    inner::Point p = { x, double2(y, x), { y } };
    return o.pairs[0].a * o.pairs[1].a * o.w + p.x * p.y.x * p.deep.z;
}
[Differentiable] double shapes(double x, double y)
{
    Line line = { x };
    Flat flat = { 3 };
    return height(line, y) + height(flat, x) + line.at(y);
}
[Differentiable] double imported(double x, double y)
{
    Imported p = { x, y, 1 };
    Included q = { y, x };
    return p.a * p.b * q.a * q.b;
}
struct Albedo
{
    double a;
    double of(double x) { return a * x * x; }
    [ForwardDerivativeOf(of)] [TreatAsDifferentiable]
    DifferentialPair<double> of_forward(DifferentialPair<double> x) { return diffPair(a * x.p * x.p, 5 * a * x.d); }
    [BackwardDerivativeOf(of)] [TreatAsDifferentiable]
    void of_backward(inout DifferentialPair<double> x, double d) { x = diffPair(x.p, 5 * a * d); }
    [Differentiable] double of(double x, double y) { return a * x * y; }
}
[Differentiable] double by_method(double x, double y) { Albedo s = { x }; return s.of(y) * y + s.of(y, y) * 3; }
[Differentiable] double by_hand(double x, double y) { Pair p = { x, y }; return hit(p, y) * p.b; }
[Differentiable] double of_argument(Pair p, double y) { return p.a * p.b * y; }

[CudaKernel] [Differentiable]
void looped(DiffTensorView<double> x, DiffTensorView<double> y, Pair scale, [Out("x")] DiffTensorView<double> z)
{
    uint i = cudaThreadIdx().x + cudaBlockIdx().x * cudaBlockDim().x;
    if (i >= x.size(0)) return;
    Pair p = { x[i], y[i] };
    [MaxIters(3)] for (int k = 0; k < 3; k++)
    {
        if (p.a > 0.5) p = swapped(p); else p.a *= p.b;
    }
    z[i] = p.a * p.b * scale.a + scale.b * p.a;
}
"""
PART = 'module undeclared_part;\n#include "undeclared_part.h"\n'
PART += "public struct Imported { public double a; public double b; public int n; }\n"
INCLUDED = "public struct Included\n{\n    public double a, b;\n}\n"


def product(a: Tensor, b: Tensor) -> Tensor:
    return a * b


def in_array(x: Tensor, y: Tensor) -> Tensor:
    return (x + y * y) * (y + x * x) * (x + x * x)


def of_hand(a: Tensor, y: Tensor) -> Tensor:
    return 5 * a * (y - y.detach()) + a * y.detach() * y.detach()


REFERENCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "listed": lambda x, y: x * y * x,
    "called": lambda x, y: x * y * y,
    "passed": lambda x, y: y * x * x + y * x,
    "in_array": in_array,
    "mixed": lambda x, y: x * (x * y) * y * (x * y) * 3 + x * y * (x * y) * 2,
    "made": lambda x, y: x * y * y * y,
    "generic": lambda x, y: x * y * y * (x * y) + x * y * x,
    "nested": lambda x, y: x * y * y + x * y * y,
    "shapes": lambda x, y: x * y * y * y + 3 * x * x + x * y * y,
    "imported": lambda x, y: x * y * y * x,
    "by_hand": lambda x, y: x.detach() * y * y,
    # 5 a is the derivative that is written by hand, a a constant there.
    "by_method": lambda x, y: of_hand(x.detach(), y) * y + x * y * y * 3,
}


@pytest.fixture(scope="session")  # the module's identity: a worker may leave this file and come back
def module(tmp_path_factory: pytest.TempPathFactory) -> torch_slang.Module:
    folder: Path = tmp_path_factory.mktemp("undeclared")
    (folder / "undeclared_part.slang").write_text(PART)
    (folder / "undeclared_part.h").write_text(INCLUDED)
    path = folder / "undeclared.slang"
    path.write_text(SOURCE)
    return torch_slang.load(path, namespace="undeclared")


def inputs(device: torch.device) -> tuple[Tensor, Tensor]:
    values = torch.tensor([[0.7, 1.3, -0.4], [1.1, -0.6, 0.9]], dtype=torch.float64, device=device)
    return values[0].clone().requires_grad_(), values[1].clone().requires_grad_()


@some_cases(4)
@pytest.mark.parametrize("name", REFERENCES)
def test_derivatives_are_those_of_a_declared_struct(
    module: torch_slang.Module, device: torch.device, name: str
) -> None:
    x, y = inputs(device)
    function, reference = getattr(module, name), REFERENCES[name]
    result, expected = function(x, y), reference(x, y)
    torch.testing.assert_close(result, expected)
    ours = torch.autograd.grad(result.sum(), (x, y), create_graph=True, allow_unused=True, materialize_grads=True)
    theirs = torch.autograd.grad(expected.sum(), (x, y), create_graph=True, allow_unused=True, materialize_grads=True)
    torch.testing.assert_close(ours, theirs)
    tangents = (torch.tensor([1.0, 0.5, -2.0]).to(x), torch.tensor([0.3, 1.0, 0.7]).to(y))
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(p.detach(), t) for p, t in zip((x, y), tangents, strict=True)]
        tangent = forward_ad.unpack_dual(function(*duals)).tangent
    wanted = sum(g * t for g, t in zip(theirs, tangents, strict=True))
    torch.testing.assert_close(tangent, wanted.detach() if isinstance(wanted, Tensor) else None)
    if name not in {"by_hand", "by_method"}:  # whose derivative is not differentiated again
        second = [
            torch.autograd.grad(sum((g * t).sum() for g, t in zip(gradients, tangents, strict=True)), (x, y))
            for gradients in (ours, theirs)
        ]
        torch.testing.assert_close(*second)


def test_a_struct_argument_of_a_function_has_gradients(module: torch_slang.Module, device: torch.device) -> None:
    x, y = inputs(device)
    result = module.of_argument({"a": x, "b": y}, y)
    torch.testing.assert_close(torch.autograd.grad(result.sum(), (x, y)), (y * y, 2 * x * y))


def looped(x: Tensor, y: Tensor) -> Tensor:
    def one(a: Tensor, b: Tensor) -> Tensor:
        for _ in range(3):
            a, b = (b, a * a) if a > 0.5 else (a * b, b)
        return a * b * 2 + 3 * a

    return torch.stack([one(a, b) for a, b in zip(x, y, strict=True)])


def test_a_kernel_keeps_its_struct_parameter_as_a_constant(module: torch_slang.Module, device: torch.device) -> None:
    x, y = inputs(device)
    result, expected = module.looped(x, y, {"a": 2.0, "b": 3.0}), looped(x, y)
    torch.testing.assert_close(result, expected)
    ours, theirs = (torch.autograd.grad(r.sum(), (x, y), create_graph=True) for r in (result, expected))
    torch.testing.assert_close(ours, theirs)
    second = [torch.autograd.grad((g[0] + 2 * g[1]).sum(), (x, y)) for g in (ours, theirs)]
    torch.testing.assert_close(*second)


REFUSED = """
struct Kept { double a; double b; double sum() { return a + b; } }
struct Other { double a; double b; }
double plain(double x) { return x; }
Kept kept_of(double x) { return { plain(x), x }; }
[Differentiable] double lost(double x) { Kept k = kept_of(x); return k.a * x; }
[Differentiable] double lost_too(double x) { Kept k = { x, x }; return k.a * x; }
[Differentiable] double local(double x) { struct Local { double a; double b; }; Local l = { x, x }; return l.a * l.b; }
[Differentiable] double other(double x) { Other o = { x, x }; return o.a * o.b; }
namespace apart { [Differentiable] double lost(double x) { Other o = { x, x * x }; return o.a * o.b; } }
"""


@pytest.fixture(scope="module")
def refused() -> torch_slang.Module:
    return torch_slang.load(source=REFUSED, name="undeclared_refused", namespace="undeclared_refused")


@pytest.mark.parametrize("name", ["lost", "lost_too", "local"])
def test_a_struct_that_cannot_be_declared_refuses_derivatives(refused: torch_slang.Module, name: str) -> None:
    x = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
    result = getattr(refused, name)(x)
    assert result.item() == 4
    struct = "Local" if name == "local" else "Kept"
    with pytest.raises(
        RuntimeError, match=rf"backward of {name} .*the struct {struct} .*is not IDifferentiable.*declare it"
    ):
        result.backward()


def test_a_refused_struct_names_the_line_that_does_not_compile(refused: torch_slang.Module) -> None:
    x = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"(?s)call to non-backward-differentiable function `kept_of`"):
        refused.lost(x).backward()


RETURNED = """
struct Camera { double3 eye; double scale; [Differentiable] double3 far() { return eye * scale; } }
struct Hit { double t; int id; }
namespace scene
{
    Camera camera_of(TensorView<double> where, double3 eye) { return { eye + where[0u], where[1u] }; }
    struct Sphere { double r; Hit hit(double x) { Hit h = { x * x * r, 3 }; return h; } }
    T twice<T : __BuiltinFloatingPointType>(T x) { return x + x; }
}
Hit both(double x) { Hit h = moved({ x, 1 }); return h; }
Hit moved(Hit h) { return { h.t * h.t, h.id + 1 }; }
[Differentiable] double3 seen(Camera camera, double3 x) { return camera.far() * x + camera.eye; }
[Differentiable] double sphere(double x) { scene.Sphere s = { x }; Hit h = s.hit(x); return h.t * h.id; }
[Differentiable] double chained(double x) { Hit h = both(x); return h.t * h.id; }
[Differentiable] double constant(double x) { Hit h = no_diff both(x); return h.t * x; }
[PyBindCUDA(Auto)] [CudaKernel] [Differentiable]
void project([Shape("N, 3")] DiffTensorView<double> x, [Shape("2")] TensorView<double> where,
    [Out("N, 3")] DiffTensorView<double> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= x.size(0)) return;
    double3 at = double3(x[i, 0], x[i, 1], x[i, 2]);
    let camera = scene.camera_of(where, double3(where[0u]));
    let own = scene.camera_of(where, at);
    let r = seen(camera, at) + seen(own, at);
    y[i, 0] = r.x; y[i, 1] = r.y; y[i, 2] = r.z;
}
"""


def test_functions_that_return_a_struct_carry_its_derivative(device: torch.device) -> None:
    module = torch_slang.load(source=RETURNED, name="undeclared_returned", namespace="undeclared_returned")
    x = torch.tensor([0.5, -1.5], dtype=torch.float64, device=device, requires_grad=True)
    references = {"sphere": 3 * x**3, "chained": 2 * x * x, "constant": (x * x).detach() * x}
    for name, expected in references.items():
        result = getattr(module, name)(x)
        torch.testing.assert_close(result, expected)
        torch.testing.assert_close(*(torch.autograd.grad(r.sum(), x)[0] for r in (result, expected)))
    points = torch.randn(5, 3, dtype=torch.float64, device=device, requires_grad=True)
    where = torch.tensor([0.3, 0.7], dtype=torch.float64, device=device)
    eyes = torch.full((3,), 0.6, dtype=torch.float64, device=device), points + 0.3
    expected = sum(eye * 0.7 * points + eye for eye in eyes)
    result = module.project(points, where)
    torch.testing.assert_close(result, expected)
    weights = torch.randn_like(points)
    torch.testing.assert_close(*(torch.autograd.grad(r, points, weights)[0] for r in (result, expected)))
    assert torch.autograd.gradcheck(lambda x: module.project(x, where), points)


def test_other_structs_of_the_file_carry_derivatives(refused: torch_slang.Module) -> None:
    x = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
    refused.other(x).backward()
    assert x.grad is not None
    assert x.grad.item() == 4


def test_a_function_of_the_same_name_elsewhere_is_not_refused(refused: torch_slang.Module) -> None:
    x = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
    refused.apart_lost(x).backward()
    assert x.grad is not None
    assert x.grad.item() == 12


MACROS = """
#define RECORD struct
#define CONSTANT no_diff
#define UNTOUCHED [TreatAsDifferentiable]
#define GIVES out
#define STILL(v) detach(v)
RECORD Pair { double a; double b; CONSTANT double fixed; }
UNTOUCHED double treated(double x) { return x * x; }
[Differentiable] void halves(double x, GIVES double r) { r = x * x; }
[Differentiable] double records(double x, double y) { Pair p = { x, y, x }; return p.a * p.b * p.fixed; }
[Differentiable] double constants(double x, double y)
{
    double r = x;
    CONSTANT halves(x, r);
    return treated(x) * y + r * y + STILL(y) * x;
}
"""


def test_what_macros_hide_has_its_derivative() -> None:
    module = torch_slang.load(source=MACROS, name="undeclared_macros", namespace="undeclared_macros")
    x, y = (torch.tensor([v], dtype=torch.float64, requires_grad=True) for v in (2.0, 3.0))
    module.records(x, y).backward()
    assert (x.grad.item(), y.grad.item()) == (6, 4)  # type: ignore[union-attr]
    x.grad = y.grad = None
    module.constants(x, y).backward()
    assert (x.grad.item(), y.grad.item()) == (3, 8)  # type: ignore[union-attr]
