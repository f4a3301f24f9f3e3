"""Forward mode of plain functions, results and tangents by one loop: Note [dual calls] in dispatch/dual_call.h."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from cases import nvrtc_is_here
from long_tests import dear_test, some_cases, some_tests
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

import torch_slang
from torch_slang import Module

pytestmark = some_tests(8)

Tensor = torch.Tensor

SOURCE = """
// Alone, v * v is fused with the sum; where its tangent divides by v * v, compilers would not do so.
[Differentiable] T fused<T : __BuiltinFloatingPointType>(T u, T v) { return u / v + v * v; }

[Differentiable] vector<T, 3> shade<T : __BuiltinFloatingPointType>(vector<T, 3> a, vector<T, 3> b, T sharp)
{
    T l = dot(a, a) + T(0.25f), m = dot(b, b) + T(0.25f);
    return a * (dot(a, b) / (l * m)) + b * exp(-sharp * sharp * l) + a * b;
}

[Differentiable] vector<T, 2> turned<T : __BuiltinFloatingPointType>(
    vector<T, 3> a, inout T angle, out T length, out int n)
{
    length = dot(a, a) * angle;
    T s = a[0] * sin(angle);
    angle = angle * angle + s;
    n = 3 + int(angle > T(1.0f));
    return vector<T, 2>(s, s * a[2]);
}

[ForwardDerivative(about_fwd)]
[BackwardDerivative(about_bwd)]
float about(float x) { return x * x * 0.3f; }
DifferentialPair<float> about_fwd(DifferentialPair<float> x) { return diffPair(7.0f, 2.0f * x.p * x.d); }
void about_bwd(inout DifferentialPair<float> x, float dy) { x = diffPair(x.p, 2.0f * x.p * dy); }
[Differentiable] float of_about(float x, no_diff float y) { return about(x) + y; }
"""


def module() -> Module:
    return torch_slang.load(source=SOURCE, name="dual_calls.slang", namespace="test_dual_calls")


def fused(u: Tensor, v: Tensor) -> Tensor:
    return u / v + v * v


def shade(a: Tensor, b: Tensor, sharp: Tensor) -> Tensor:
    squares, others = (a * a).sum(-1, True) + 0.25, (b * b).sum(-1, True) + 0.25
    by_length = torch.exp(-(sharp * sharp).unsqueeze(-1) * squares)
    return a * ((a * b).sum(-1, True) / (squares * others)) + b * by_length + a * b


def turned(a: Tensor, angle: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    s = a[..., 0] * angle.sin()
    return torch.stack([s, s * a[..., 2]], -1), angle * angle + s, (a * a).sum(-1) * angle


class Seen(TorchDispatchMode):
    """The names of this test's operators that ran."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if str(func).startswith("test_dual_calls"):
            self.names.append(str(func).removesuffix(".default"))
        return func(*args, **(kwargs or {}))


def names_of(run: Callable[[], Any]) -> list[str]:
    with Seen() as seen:
        run()
    return seen.names


def in_bits(tensor: Tensor) -> Tensor:
    ints = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.contiguous().view(ints[tensor.element_size()])


def assert_the_same_numbers(result: Tensor, expected: Tensor) -> None:
    """To the bit on a CPU. A GPU's assembler may fuse a product with a sum here and not there."""
    if result.is_cuda and result.is_floating_point():
        rounding = 4 * torch.finfo(result.dtype).eps
        torch.testing.assert_close(result, expected, rtol=rounding, atol=rounding)
    else:
        assert torch.equal(in_bits(result), in_bits(expected))


SHAPES = {
    "dense": ((1003,), (1003,), (1003,)),
    "one for all": ((777,), (), ()),
    "rows": ((40, 33), (40, 1), (33,)),
    "columns": ((1, 65), (17, 1), ()),
    "none": ((0,), (0,), ()),
    "one": ((), (), ()),
}


def arguments(name: str, shapes: tuple, dtype: torch.dtype, device: torch.device) -> list[Tensor]:
    ends = {"fused": ((), ()), "shade": ((3,), (3,), ()), "turned": ((3,), ())}[name]
    return [torch.randn((*shape, *end), dtype=dtype, device=device) for shape, end in zip(shapes, ends, strict=False)]


@some_cases(9)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("shapes", SHAPES.values(), ids=list(SHAPES))
@pytest.mark.parametrize("name", ["fused", "shade", "turned"])
def test_results_are_a_plain_calls_and_tangents_are_right(
    name: str, shapes: tuple, dtype: torch.dtype, device: torch.device
) -> None:
    ours, formula = getattr(module(), name), globals()[name]
    given = arguments(name, shapes, dtype, device)
    given = [given[0].transpose(0, -1).contiguous().transpose(0, -1), *given[1:]]  # strided, where there are several
    directions = [torch.randn_like(value) for value in given]
    plain = ours(*given)
    results, tangents = torch.func.jvp(ours, tuple(given), tuple(directions))
    several = isinstance(plain, tuple)
    for result, expected in zip(results if several else [results], plain if several else [plain], strict=True):
        assert result.dtype == expected.dtype
        assert_the_same_numbers(result, expected)
    wide = torch.func.jvp(formula, tuple(x.double() for x in given), tuple(x.double() for x in directions))[1]
    tolerances = {torch.float16: 0.05, torch.float32: 2e-4, torch.float64: 1e-11}
    for tangent, expected in zip(tangents if several else [tangents], wide if several else [wide], strict=False):
        assert tangent.dtype == dtype
        scale = expected.abs().clamp(min=1)
        fits = expected.abs() < 3e4 if dtype == torch.float16 else torch.ones_like(expected, dtype=torch.bool)
        if name == "fused":  # near v = 0 there are no digits
            fits &= (given[1].abs() > 0.2).expand_as(fits)
        near = ((tangent.double() - expected).abs() / scale)[fits].le(tolerances[dtype])
        # The formula in half precision loses its digits where sums cancel.
        assert near.all() if dtype != torch.float16 else near.numel() == 0 or near.double().mean() > 0.98


def test_tangents_are_those_of_finite_differences(device: torch.device) -> None:
    """One tangent at a time, and all in a batch of the older vmap."""
    a, angle = torch.randn(5, 3, dtype=torch.float64, device=device), torch.randn(5, dtype=torch.float64, device=device)
    given = (a.requires_grad_(), angle.requires_grad_())
    forward = {"check_forward_ad": True, "check_batched_grad": True, "check_batched_forward_grad": True}
    assert torch.autograd.gradcheck(lambda *args: module().turned(*args)[:3], given, **forward)
    b, sharp = torch.randn(3, dtype=torch.float64, device=device), torch.rand(5, dtype=torch.float64, device=device)
    given = (a, b.requires_grad_(), sharp.requires_grad_())
    assert torch.autograd.gradcheck(module().shade, given, **forward)


def test_one_loop_gives_both(device: torch.device) -> None:
    source = "[Differentiable] float bent(float x, float y) { return x * x * y; }"
    bent = torch_slang.load(source=source, name="dual_bent.slang", namespace="test_dual_calls_bent").bent
    x, y, dx, dy = (torch.randn(50, device=device) for _ in range(4))

    def runs() -> int:
        return torch_slang.cache.stats()["host_runs"] + torch_slang.cache.stats()["nvrtc_runs"]

    before = runs()
    result, tangent = torch.func.jvp(bent, (x, y), (dx, dy))
    with forward_ad.dual_level():
        again = forward_ad.unpack_dual(bent(forward_ad.make_dual(x, dx), forward_ad.make_dual(y, dy)))
    assert runs() == before + 1
    for value, derivative in ((result, tangent), again):
        torch.testing.assert_close(value, x * x * y)
        torch.testing.assert_close(derivative, 2 * x * y * dx + x * x * dy)
    assert names_of(lambda: torch.func.jvp(module().fused, (x, y), (dx, dy))) == ["test_dual_calls_dual.fused"]


def test_tangents_of_some_arguments(device: torch.device) -> None:
    a, b, da = (torch.randn(9, 3, device=device) for _ in range(3))
    sharp = torch.rand(9, device=device)
    ours, formula = module().shade, shade
    for f in (lambda f, x: f(x, b, sharp), lambda f, x: f(b, x, sharp), lambda f, x: f(x, x, sharp)):
        result, tangent = torch.func.jvp(lambda x, f=f: f(ours, x), (a,), (da,))
        assert_the_same_numbers(result, f(ours, a))
        torch.testing.assert_close(tangent, torch.func.jvp(lambda x, f=f: f(formula, x), (a,), (da,))[1])
    # A number of the host beside tensors of the device.
    assert torch.func.jvp(lambda x: ours(x, b, 0.5), (a,), (da,))[1].device.type == device.type


def test_results_without_tangents_have_none(device: torch.device) -> None:
    a, angle, da = (torch.randn(*s, device=device) for s in ((9, 3), (9,), (9, 3)))
    with forward_ad.dual_level():
        results = module().turned(forward_ad.make_dual(a, da), angle)
        assert [forward_ad.unpack_dual(y).tangent is not None for y in results] == [True, True, True, False]
        assert torch.equal(results[3], module().turned(a, angle)[3])


def test_results_are_the_functions_where_its_derivative_is_written_by_hand(device: torch.device) -> None:
    x, y, dx = (torch.randn(9, device=device) for _ in range(3))
    result, tangent = torch.func.jvp(lambda x: module().of_about(x, y), (x,), (dx,))
    assert_the_same_numbers(result, module().of_about(x, y))
    torch.testing.assert_close(result, x * x * 0.3 + y)
    torch.testing.assert_close(tangent, 2 * x * dx)


@dear_test
def test_reverse_mode_of_results_and_of_tangents(device: torch.device) -> None:
    """Both are recorded, on one level and across two."""
    given = [torch.randn(*s, dtype=torch.float64, device=device) for s in ((6, 3), (1,))]
    directions = [torch.randn_like(x) for x in given]

    def loss(function: Any) -> Any:
        def of(*args: Tensor) -> Tensor:
            results, tangents = torch.func.jvp(lambda *a: function(*a)[:3], args[:2], args[2:])
            return sum((y * y).sum() for y in results) + sum((t * t * t).sum() for t in tangents)

        return of

    def on_one_level(function: Any) -> list[Tensor]:
        leaves = [x.clone().requires_grad_() for x in [*given, *directions]]
        with forward_ad.dual_level():
            results = function(*(forward_ad.make_dual(x, t) for x, t in zip(leaves[:2], leaves[2:], strict=True)))[:3]
            pairs = [forward_ad.unpack_dual(y) for y in results]
            total = sum((y * y).sum() + (t * t * t).sum() for y, t in pairs)
            return list(torch.autograd.grad(total, leaves))

    ours = torch.func.grad(loss(module().turned), argnums=(0, 1, 2, 3))(*given, *directions)
    theirs = torch.func.grad(loss(turned), argnums=(0, 1, 2, 3))(*given, *directions)
    for gradient, expected, other in zip(ours, theirs, on_one_level(module().turned), strict=True):
        torch.testing.assert_close(gradient, expected)
        torch.testing.assert_close(other, expected)
    # A captured tensor of the outer level that requires grad.
    x, v = given[1].clone(), torch.randn(6, dtype=torch.float64, device=device, requires_grad=True)
    y, t = torch.func.jvp(lambda u: module().fused(u, v), (x,), (directions[1],))
    expected = torch.func.jvp(lambda u: fused(u, v), (x,), (directions[1],))

    def gradient(y: Tensor) -> Tensor:
        return torch.autograd.grad(y.sum(), v, retain_graph=True)[0]

    for one, other in zip((y, t), expected, strict=True):
        torch.testing.assert_close(gradient(one), gradient(other))


@dear_test
def test_forward_mode_over_reverse_and_both_hessians(device: torch.device) -> None:
    a = torch.randn(4, 3, dtype=torch.float64, device=device)
    angle, da = torch.randn(4, dtype=torch.float64, device=device), torch.randn_like(a)

    def total(function: Any) -> Any:
        return lambda a: sum((y * y).sum() for y in function(a, angle)[:3])

    ours, formula = total(module().turned), total(turned)
    for of in (
        lambda f: torch.func.jvp(torch.func.grad(f), (a,), (da,)),
        lambda f: torch.func.vjp(lambda a: torch.func.jvp(f, (a,), (da,)), a)[1]((da.sum(), da.mean())),
        lambda f: torch.func.jacfwd(torch.func.jacrev(f))(a),
        lambda f: torch.func.jacrev(torch.func.jacfwd(f))(a),
    ):
        torch.testing.assert_close(of(ours), of(formula))


def test_forward_mode_of_forward_mode_is_refused(device: torch.device) -> None:
    x = torch.randn(4, device=device)
    of_one = torch.ones_like

    def inner(u: Tensor) -> Tensor:
        return torch.func.jvp(lambda u: module().fused(u, x), (u,), (of_one(u),))[1]

    with pytest.raises(RuntimeError, match="forward-mode derivatives of forward-mode derivatives"):
        torch.func.jvp(inner, (x,), (of_one(x),))


def test_under_vmap(device: torch.device) -> None:
    a, b, da = (torch.randn(5, 7, 3, device=device) for _ in range(3))
    sharp = torch.rand(7, device=device)

    def derived(function: Any) -> list[Any]:
        def jvp(a: Tensor, da: Tensor, b: Tensor) -> Any:
            return torch.func.jvp(lambda a: function(a, b, sharp), (a,), (da,))

        mapped = torch.func.vmap(lambda a: function(a, b[0], sharp))
        return [
            torch.func.vmap(jvp)(a, da, b),
            torch.func.vmap(jvp, in_dims=(0, 0, None))(a, da, b[0]),
            torch.func.vmap(jvp, in_dims=(None, 0, None), out_dims=(None, 0))(a[0], da, b[0]),
            torch.func.vmap(jvp, in_dims=(2, None, 1))(a.movedim(0, 2), da[0], b.movedim(0, 1)),
            torch.func.jvp(mapped, (a,), (da,)),
        ]

    for ours, theirs in zip(derived(module().shade), derived(shade), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_jacfwd_computes_results_once(device: torch.device) -> None:
    x, v = torch.randn(3, device=device), torch.randn(3, device=device)
    ours = torch.func.jacfwd(lambda x: module().fused(x, v))
    torch.testing.assert_close(ours(x), torch.func.jacfwd(lambda x: fused(x, v))(x))
    assert sorted(names_of(lambda: ours(x))) == ["test_dual_calls.fused", "test_dual_calls.fused_jvp"]


def test_what_is_traced_and_compiled(device: torch.device) -> None:
    u, v, du, dv = (torch.randn(6, device=device) for _ in range(4))

    def both(u: Tensor, v: Tensor, du: Tensor, dv: Tensor) -> Any:
        return torch.func.jvp(module().fused, (u, v), (du, dv))

    expected = both(u, v, du, dv)
    for mode in ("real", "fake", "symbolic"):
        graph = make_fx(both, tracing_mode=mode)(u, v, du, dv)
        ours = [str(n.target) for n in graph.graph.nodes if "test_dual_calls" in str(n.target)]
        assert ours == ["test_dual_calls_dual.fused.default"]
        torch.testing.assert_close(graph(u, v, du, dv), expected)
    compiled = torch.compile(lambda *args: torch.func.jvp(torch.ops.test_dual_calls.fused, args[:2], args[2:]))
    module().fused(u, v)  # registered
    torch.testing.assert_close(compiled(u, v, du, dv), expected)
    more = [torch.cat([x, x]) for x in (u, v, du, dv)]
    torch.testing.assert_close(compiled(*more), both(*more))


def test_the_operator_itself(device: torch.device) -> None:
    u, v, du, dv = (torch.randn(6, device=device) for _ in range(4))
    result, tangent = torch.func.jvp(module().fused, (u, v), (du, dv))
    op = torch.ops.test_dual_calls_dual.fused
    torch.testing.assert_close(op(u, v, du, dv), (tangent, result))
    torch.library.opcheck(op.default, (u, v, du, dv))
    leaves = [x.double().requires_grad_() for x in (u, v, du, dv)]
    torch.library.opcheck(op.default, tuple(leaves))
    assert torch.autograd.gradcheck(op, leaves)
    assert [y.shape for y in op(*(x.to("meta") for x in (u, v, du, dv)))] == [(6,), (6,)]


def test_messages_are_the_plain_calls(device: torch.device) -> None:
    a, b = torch.randn(3, device=device), torch.randn(4, device=device)
    messages = []
    for run in (lambda: module().fused(a, b), lambda: torch.func.jvp(module().fused, (a, b), (a, b))):
        with pytest.raises(RuntimeError, match="expected the shapes of all arguments to broadcast") as error:
            run()
        messages.append(str(error.value).split("\n")[0])
    assert messages[0] == messages[1]


def test_a_module_keeps_its_own_program(device: torch.device) -> None:
    def load(factor: int) -> Any:
        source = f"[Differentiable] float scaled(float x) {{ return {factor} * x * x; }}"
        return torch_slang.load(source=source, name="dual_reload.slang", namespace="test_dual_calls_reload").scaled

    x = torch.rand(5, device=device)
    first, second = load(2), load(3)
    for factor, function in ((2, first), (3, second), (2, first)):
        y, t = torch.func.jvp(function, (x,), (x,))
        torch.testing.assert_close(y, factor * x * x)
        torch.testing.assert_close(t, 2 * factor * x * x)
        outer = torch.func.grad(lambda x, f=function: torch.func.jvp(f, (x,), (x,))[0].sum())(x)
        torch.testing.assert_close(outer, 2 * factor * x)


@dear_test
@pytest.mark.skipif(not nvrtc_is_here(), reason="NVRTC is not installed")
def test_both_compile_for_a_gpu() -> None:
    handle = module()._handle
    for name in ("fused", "shade", "turned"):
        for scalar in ("float16", "float32", "float64"):
            for dense in (True, False):
                assert b"tsl_entry" in handle.cubin(name, "dual", [scalar], dense)
    assert "tsl_gives_values()" in handle.cuda_text("fused", "dual", ["float32"])
