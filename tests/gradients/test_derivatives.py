"""Derivatives beyond the first: forward mode, double backward, and both in both orders, against plain torch."""

from typing import Any

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from derivative_cases import REFUSED, THIRTY, Derived, assert_right_or_refused, of_differentiable_ones
from long_tests import dear_test, some_cases, some_tests
from torch.utils._python_dispatch import TorchDispatchMode

import torch_slang

pytestmark = some_tests(5)

Tensor = torch.Tensor
UNORDERED = {"nondet_tol": 1e-10}


@dear_test
@some_cases(2)
@pytest.mark.parametrize("derivative", ["jvp", "double_backward", "jvp_of_vjp", "vjp_of_jvp"])
@pytest.mark.parametrize("case", THIRTY, ids=str)
def test_derivatives_are_those_of_plain_torch(case: Derived, derivative: str, device: torch.device) -> None:
    assert_right_or_refused(case, derivative, device, REFUSED.get(str(case)))


@dear_test
@some_cases(1)
@pytest.mark.parametrize("case", [c for c in THIRTY if str(c) not in REFUSED], ids=str)
def test_finite_differences_agree(case: Derived, device: torch.device) -> None:
    function, inputs = of_differentiable_ones(case, case.op, device)
    leaves = tuple(t.clone().requires_grad_() for t in inputs)
    assert torch.autograd.gradcheck(function, leaves, check_forward_ad=True, **UNORDERED)
    assert torch.autograd.gradgradcheck(function, leaves, **UNORDERED)


FUNCTIONS = """
[Differentiable] T wavy<T : __BuiltinFloatingPointType>(T x, T scale) { return sin(x * scale) * x; }
[Differentiable] float3 twisted(float3 a, float3 b) { return cross(a, b) * max(a, b); }
float rough(float x) { return floor(x); }
"""


def functions() -> torch_slang.Module:
    return torch_slang.load(source=FUNCTIONS, name="derivative_functions.slang", namespace="test_derivatives")


def test_broadcast_arguments_have_second_derivatives(device: torch.device) -> None:
    wavy = functions().wavy
    x = torch.randn(3, 1, dtype=torch.float64, device=device, requires_grad=True)
    scale = torch.randn(4, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradgradcheck(wavy, (x, scale))
    assert torch.autograd.gradgradcheck(wavy, (x, scale.detach()))  # frozen
    assert torch.autograd.gradcheck(wavy, (x, scale), check_forward_ad=True)


SEVERAL = """
[Differentiable] vector<T, 2> turned<T : __BuiltinFloatingPointType>(vector<T, 3> a, T angle, out T length)
{
    length = dot(a, a) * angle;
    T s = a[0] * sin(angle);
    return vector<T, 2>(s, s * a[2]);
}
"""


@some_cases(4)
@pytest.mark.parametrize("shapes", [((7,), (7,)), ((5, 1), (7,)), ((3, 40), (3, 1)), ((9,), ()), ((0,), ()), ((), ())])
@pytest.mark.parametrize("frozen", [None, 0, 1])
def test_what_a_double_backward_gives_at_once(shapes: tuple, frozen: int | None, device: torch.device) -> None:
    """Note [double backward in one loop]: several results, of another number of components than the arguments."""
    module = torch_slang.load(source=SEVERAL, name="derivative_several.slang", namespace="test_derivatives_at_once")

    def in_torch(a: Tensor, angle: Tensor) -> tuple[Tensor, Tensor]:
        s = a[..., 0] * angle.sin()
        return torch.stack([s, s * a[..., -1]], -1), (a * a).sum(-1) * angle

    a = torch.randn(*shapes[0], 3, dtype=torch.float64, device=device, requires_grad=frozen != 0)
    angle = torch.randn(shapes[1], dtype=torch.float64, device=device, requires_grad=frozen != 1)
    inputs = [t for t in (a, angle) if t.requires_grad]

    def second(function: Any) -> list[Tensor]:
        results = function(a, angle)
        with torch.random.fork_rng():
            torch.manual_seed(5)
            given = [torch.rand(y.shape, dtype=y.dtype).to(device).requires_grad_() for y in results]
        gradients = torch.autograd.grad(results, inputs, given, create_graph=True)
        directions = [torch.full_like(g, 0.5 + i).expand_as(g) for i, g in enumerate(gradients)]
        return list(torch.autograd.grad(gradients, [*inputs, *given], directions, materialize_grads=True))

    for ours, theirs in zip(second(module.turned), second(in_torch), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_double_backward_of_a_function_compiles_one_loop(device: torch.device) -> None:
    source = "[Differentiable] float bent(float x, float y) { return x * x * y; }"
    module = torch_slang.load(source=source, name="derivative_bent.slang", namespace="test_derivatives_one_loop")
    x, y, g = (torch.randn(50, device=device, requires_grad=True) for _ in range(3))

    def runs() -> int:
        return torch_slang.cache.stats()["host_runs"] + torch_slang.cache.stats()["nvrtc_runs"]

    gradients = torch.autograd.grad(module.bent(x, y), (x, y), g, create_graph=True)
    before = runs()
    second = torch.autograd.grad(gradients[0].sum() + 2 * gradients[1].sum(), (x, y, g))
    assert runs() == before + 1
    for ours, theirs in zip(second, ((2 * y + 4 * x) * g, 2 * x * g, 2 * x * y + 2 * x * x), strict=True):
        torch.testing.assert_close(ours, theirs)
    # One of the two alone is a loop of its own.
    gradients = torch.autograd.grad(module.bent(x, y), (x, y), g, create_graph=True)
    torch.testing.assert_close(torch.autograd.grad(gradients[0].sum(), g)[0], 2 * x * y)
    assert runs() == before + 2


def test_modes_see_both_operators_of_a_double_backward(device: torch.device) -> None:
    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    names: list[str] = []
    wavy = functions().wavy
    x, scale, g = (torch.randn(6, device=device, requires_grad=True) for _ in range(3))
    (first,) = torch.autograd.grad(wavy(x, scale), x, g, create_graph=True)
    plain = torch.autograd.grad(first.sum(), (x, g), retain_graph=True)
    with Seen():
        seen = torch.autograd.grad(first.sum(), (x, g))
    assert {"wavy_jvp.default", "wavy_jvp_backward.default"} <= set(names)
    torch.testing.assert_close(seen, plain)


def test_hessians_in_both_nestings(device: torch.device) -> None:
    wavy = functions().wavy
    x = torch.randn(5, dtype=torch.float64, device=device)

    def energy(x: Tensor) -> Tensor:
        return wavy(x, x.roll(1)).sum()

    def in_torch(x: Tensor) -> Tensor:
        return ((x * x.roll(1)).sin() * x).sum()

    expected = torch.func.hessian(in_torch)(x)
    torch.testing.assert_close(torch.func.jacfwd(torch.func.jacrev(energy))(x), expected)
    torch.testing.assert_close(torch.func.jacrev(torch.func.jacfwd(energy))(x), expected)
    torch.testing.assert_close(torch.autograd.functional.hessian(energy, x), expected)


def test_tangents_of_some_arguments(device: torch.device) -> None:
    wavy = functions().wavy
    x, scale = (torch.randn(4, dtype=torch.float64, device=device) for _ in range(2))
    with forward_ad.dual_level():
        result = wavy(forward_ad.make_dual(x, torch.ones_like(x)), scale)
        tangent = forward_ad.unpack_dual(result).tangent
        assert forward_ad.unpack_dual(wavy(x, scale)).tangent is None
    torch.testing.assert_close(tangent, (x * scale).cos() * scale * x + (x * scale).sin())


def test_the_third_derivative_is_an_error(device: torch.device) -> None:
    x = torch.randn(3, dtype=torch.float64, device=device, requires_grad=True)
    (first,) = torch.autograd.grad(functions().wavy(x, 2.0).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="third order"):
        second.sum().backward()


def test_forward_mode_twice_is_an_error(device: torch.device) -> None:
    x = torch.randn(3, dtype=torch.float64, device=device)
    with pytest.raises(RuntimeError, match="forward-mode derivatives of forward-mode derivatives"):
        torch.func.jacfwd(torch.func.jacfwd(lambda x: functions().wavy(x, 2.0).sum()))(x)


def test_functions_without_a_derivative_have_no_tangents(device: torch.device) -> None:
    x = torch.randn(3, device=device)
    with forward_ad.dual_level(), pytest.raises(RuntimeError, match=r"has a tangent, but it has no derivative"):
        forward_ad.unpack_dual(functions().rough(forward_ad.make_dual(x, x))).tangent.sum()


@dear_test
def test_the_operator_of_tangents_is_an_operator(device: torch.device) -> None:
    op = torch.ops.slang.sqr_jvp
    assert str(op.default._schema) == "slang::sqr_jvp(Tensor x, Tensor tangent_x) -> Tensor"
    x, t = (torch.randn(3, 4, dtype=torch.float64, device=device) for _ in range(2))
    torch.testing.assert_close(op(x, t), 2 * x * t)
    meta = op(x.to("meta"), t.to("meta"))
    assert meta.shape == x.shape
    with pytest.raises(RuntimeError, match="tangent_x"):
        op(x, t[:2])
    with pytest.raises(RuntimeError, match="tangent_x"):
        op(x, t.float())
    torch.library.opcheck(op.default, (x.clone().requires_grad_(), t.clone().requires_grad_()))


OWN = """
import torch_slang;
[ForwardDerivative(cube_fwd)] [BackwardDerivative(cube_bwd)]
float cube(float x) { return x * x * x; }
MARK DifferentialPair<float> cube_fwd(DifferentialPair<float> x)
{ return diffPair(x.p * x.p * x.p, 3 * x.p * x.p * x.d); }
void cube_bwd(inout DifferentialPair<float> x, float d) { x = diffPair(x.p, 3 * x.p * x.p * d); }
[Differentiable] float own(float x) { return cube(x) * x; }
"""


@dear_test
def test_derivatives_of_ones_own_forward_derivative(device: torch.device) -> None:
    x = torch.tensor([0.5, 2.0], device=device, requires_grad=True)
    own = torch_slang.load(source=OWN.replace("MARK", "[Differentiable]"), name="own", namespace="test_own_forward").own
    (first,) = torch.autograd.grad(own(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(second, 12 * x.detach() ** 2)
    own = torch_slang.load(source=OWN.replace("MARK", ""), name="own", namespace="test_own_forward").own
    (first,) = torch.autograd.grad(own(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"own:3: a \[ForwardDerivative\] function that is not"):
        first.sum().backward()


BEFORE_A_BRANCH = """
import torch_slang;
[Differentiable] double of_vector(double x, int i)
{
    double3 v = double3(x, x * x, x * x * x);
    if (i < 3) return v[i] * x;
    return x;
}
[Differentiable] double of_array(double x, int i)
{
    double v[3] = {x, x * x, x * x * x};
    if (i == 4) return x * x;
    if (i < 3) return v[i] * x;
    return x / (6 / (i - 4));
}
"""


def before_a_branch() -> torch_slang.Module:
    return torch_slang.load(source=BEFORE_A_BRANCH, name="before_a_branch", namespace="test_before_a_branch")


@pytest.mark.parametrize("name", ["of_vector", "of_array"])
def test_elements_that_slang_takes_before_the_branch_that_asks_for_them(name: str, device: torch.device) -> None:
    x = torch.full((5,), 1.5, dtype=torch.float64, device=device, requires_grad=True)
    index = torch.tensor([0, 1, 2, 5, 10_000_000], dtype=torch.int32, device=device)
    function = getattr(before_a_branch(), name)
    if name == "of_array":
        index[4] = 4
    (first,) = torch.autograd.grad(function(x, index).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    expected = [2, 6 * 1.5, 12 * 1.5**2, 0, 2 if name == "of_array" else 0]
    torch.testing.assert_close(second.cpu(), torch.tensor(expected, dtype=torch.float64))


def test_second_derivatives_compile_for_a_gpu() -> None:
    module = before_a_branch()
    handle = module._handle
    for name in ("of_vector", "of_array"):
        getattr(module, name).register()
        assert handle.cubin(f"{name}_jvp", "backward", [], True, "sm_90").startswith(b"\x7fELF")
    assert handle.cuda_text("of_array_jvp", "backward", []).count("#define TSL_SPECULATES 1") == 1
    assert "TSL_SPECULATES 1" not in handle.cuda_text("of_array", "backward", [])
