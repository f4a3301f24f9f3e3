"""A module's plain functions: their names, first use, reloads, and calls under PyTorch's compilers."""

from __future__ import annotations

import inspect
import io
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from function_calls import with_grad
from long_tests import dear_test, some_tests

import torch_slang
from torch_slang import testing

pytestmark = some_tests(7)

Tensor = torch.Tensor


# --- Names and signatures


def test_a_module_has_its_functions(calls: Any) -> None:
    assert "polynomial" in calls.functions()
    assert "refused" not in calls.functions()
    assert calls.kernels() == ()
    assert "polynomial" in dir(calls)
    assert calls.polynomial is calls.polynomial
    assert isinstance(calls.polynomial, torch_slang.Function)
    assert calls.polynomial.__name__ == "polynomial"
    assert repr(calls.polynomial) == (
        "<torch_slang function test_function_calls::polynomial(a: float, b: float, c: float, x: float) -> float>"
    )
    assert repr(calls.scaled) == "<torch_slang function test_function_calls::scaled<T>(x: T, factor: T) -> T>"
    assert repr(calls.polar).endswith("polar(radius: float, angle: float) -> (x: float, y: float)>")
    assert "polynomial" in repr(calls)


def test_signatures(calls: Any) -> None:
    assert str(inspect.signature(calls.adjusted)) == "(x: 'float', slope: 'float' = 2.0, times: 'int' = 3)"


def test_funcinfo(calls: Any) -> None:
    info = calls.funcinfo("polynomial")
    assert info.arguments == ("a", "b", "c", "x")
    assert info.types == ("float",) * 4
    assert (info.forward_derivative, info.backward_derivative) == (None, "polynomial_backward")
    assert calls.funcinfo("rounded").backward_derivative is None


def test_refused_functions_say_why(calls: Any) -> None:
    with pytest.raises(AttributeError, match=r"refused is not available: .*memory.*RWStructuredBuffer"):
        calls.refused  # noqa: B018
    with pytest.raises(AttributeError, match=r"no kernel or function named 'nobody'; this module has: .*polynomial"):
        calls.nobody  # noqa: B018


# --- Registration


def test_functions_are_registered_at_first_use_or_at_load() -> None:
    source = """
    import torch_slang;
    [TorchOp] [Differentiable] float early(float x) { return x; }
    [Differentiable] float late(float x) { return x; }
    [Differentiable] float later(float x) { return x; }
    """
    module = torch_slang.load(source=source, name="registration", namespace="registration")
    ops = torch.ops.registration
    assert ops.early(torch.ones(2)).tolist() == [1, 1]
    for name in ("late", "later"):
        repr(getattr(module, name))
        assert not hasattr(ops, name)
    module.late(1)
    assert ops.late(torch.ones(2)).tolist() == [1, 1]
    assert module.later.op is ops.later.default
    assert hasattr(ops, "later_backward")
    assert hasattr(ops, "later_out")


def test_a_name_belongs_to_one_module(x: Tensor) -> None:
    text = "float contested(float x) {{ return {} * x; }}"
    first = torch_slang.load(source=text.format(2), name="contested_first", namespace="contested")
    second = torch_slang.load(source=text.format(3), name="contested_second", namespace="contested")  # not used yet
    assert first.contested(x).tolist() == (2 * x).tolist()
    with pytest.raises(RuntimeError, match="contested::contested is already defined by another module"):
        second.contested(x)
    assert first.contested(x).tolist() == (2 * x).tolist()


def test_threads_may_use_a_function_first(x: Tensor) -> None:
    names = [f"threaded{i}" for i in range(8)]
    source = "".join(f"[Differentiable] float {name}(float x) {{ return {i} * x; }}" for i, name in enumerate(names))
    module = torch_slang.load(source=source, name="threaded", namespace="threaded")
    start = threading.Barrier(4)

    def work() -> list[float]:
        start.wait()
        values = []
        for name in names:
            y = x.clone().requires_grad_()
            result = getattr(module, name)(y)
            result.sum().backward()
            assert y.grad is not None
            values.append((result[1].item(), y.grad[0].item()))
        return values

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work) for _ in range(4)]:
            assert done.result() == [(2.0 * i, float(i)) for i in range(8)]


# --- Reloads


def factor(number: int, parameters: str = "", extra: str = "") -> str:
    return f"[Differentiable] float factor(float x{parameters}) {{ return {number} * x; }} {extra}"


def load(text: str, name: str) -> torch_slang.Module:
    return torch_slang.load(source=text, name=name, namespace=name)


def test_callables_of_a_module_keep_their_program(x: Tensor) -> None:
    first = load(factor(1), "kept")
    assert first.factor(x).tolist() == [1, 2, 3, 4]
    second = load(factor(3), "kept")
    for module, number in ((first, 1), (second, 3), (first, 1)):
        y = x.clone().requires_grad_()
        assert module.factor(y).tolist() == (number * x).tolist()
        assert torch.autograd.grad(module.factor(y).sum(), y)[0].tolist() == [number] * 4
        assert module.factor(x, _result=torch.empty(4)).tolist() == (number * x).tolist()
        module.factor.bwds(y, _result=with_grad(torch.empty(4)))
        assert y.grad is not None
        assert y.grad.tolist() == [number] * 4
    assert torch.ops.kept.factor(x).tolist() == (3 * x).tolist()


def test_an_old_callable_used_first_leaves_the_name_to_the_new_one(x: Tensor) -> None:
    first = load(factor(1), "old_first")
    second = load(factor(3), "old_first")
    assert first.factor(x).tolist() == x.tolist()
    assert torch.ops.old_first.factor(x).tolist() == (3 * x).tolist()
    assert second.factor(x).tolist() == (3 * x).tolist()
    assert first.factor(x).tolist() == x.tolist()


def test_a_reload_may_change_the_arguments(x: Tensor) -> None:
    first = load(factor(1), "changed_arguments")
    first.factor(x)
    second = load(factor(2, ", float y"), "changed_arguments")
    assert second.factor(x, 1).tolist() == (2 * x).tolist()
    assert torch.ops.changed_arguments.factor(x, x).tolist() == (2 * x).tolist()
    with pytest.raises(RuntimeError, match="factor was reloaded with other arguments: use the module that the reload"):
        first.factor(x)
    third = load(factor(3), "changed_arguments")
    assert [m.factor(x).tolist() for m in (third, first)] == [(3 * x).tolist(), x.tolist()]


def test_a_reload_may_add_and_remove_functions(x: Tensor) -> None:
    other = "float other(float x) { return -x; }"
    first = load(factor(1), "added")
    second = load(factor(1, extra=other), "added")
    assert second.functions() == ("factor", "other")
    assert second.other(x).tolist() == (-x).tolist()
    third = load(factor(1), "added")
    assert third.functions() == ("factor",)
    assert second.other(x).tolist() == (-x).tolist()
    fourth = load(factor(1, extra=other.replace("-x", "-2 * x")), "added")
    assert fourth.other(x).tolist() == (-2 * x).tolist()
    assert second.other(x).tolist() == (-x).tolist()
    assert first.factor(x).tolist() == x.tolist()


# --- torch.compile, export, TorchScript


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def graphs() -> int:
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])


@pytest.mark.usefixtures("fresh_compiler")
def test_first_use_in_a_trace(x: Tensor) -> None:
    source = """
    [Differentiable] float first(float x, float y) { return x * y; }
    struct Pair : IDifferentiable { float a; float2 b; }
    [Differentiable] Pair second(Pair p, float by) { p.a *= by; return p; }
    """
    module = torch_slang.load(source=source, name="traced", namespace="traced")

    @torch.compile(fullgraph=True, backend="aot_eager")
    def function(x: Tensor) -> Any:
        return module.first(x, y=3) + 1, module.second({"a": x, "b": (1, 2)}, by=2.0)

    x = x.clone().requires_grad_()
    product, pair = function(x)
    assert product.tolist() == [4, 7, 10, 13]
    assert pair._fields == ("a", "b")
    assert pair.a.tolist() == [2, 4, 6, 8]
    assert pair.b.tolist() == [[1, 2]] * 4
    product.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3, 3, 3, 3]
    assert module.first(x, 2).tolist() == [2, 4, 6, 8]  # and outside


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("numbers", [(0.5, 1.5, 2.5, 3.5), (5, 6, 7, 8)], ids=["floats", "integers"])
def test_numbers_do_not_compile_again_for_each_value(calls: Any, x: Tensor, numbers: tuple[float, ...]) -> None:
    @torch.compile(fullgraph=True, backend="aot_eager")
    def function(x: Tensor, number: float) -> Tensor:
        return calls.polynomial(2, number, -1, x)

    before = graphs()
    for number in numbers:
        torch.testing.assert_close(function(x, number), 2 * x * x + number * x - 1)
    assert graphs() - before <= 2


@pytest.mark.usefixtures("fresh_compiler")
def test_compiled_integers_are_checked(calls: Any) -> None:
    @torch.compile(fullgraph=True, backend="aot_eager")
    def function(v: Tensor, by: int) -> Tensor:
        return calls.shifted(v, by)

    v = torch.zeros(4, dtype=torch.int32)
    for by in (1, 2, -3):
        assert function(v, by).tolist() == [by] * 4
    with pytest.raises(Exception, match=r"overflow|OverflowError|within the range"):
        function(v, 2**31)


@pytest.mark.usefixtures("fresh_compiler")
def test_compiled_calls_of_every_kind(calls: Any, x: Tensor) -> None:
    def function(x: Tensor) -> Any:
        calls.polynomial(1, 2, 3, x, _result=(out := torch.zeros_like(x)))
        results = calls.stepped(x, state=2)
        return out, results.result, results.seen.center, calls.dotted((1, 2, 3), x[:3]), calls.scaled(x, 0.5)

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    for one, other in zip(compiled(x), function(x), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.usefixtures("fresh_compiler")
def test_inductor_and_dynamic_shapes(calls: Any) -> None:
    @torch.compile(fullgraph=True, dynamic=True)
    def function(x: Tensor, y: Tensor) -> Tensor:
        return calls.polynomial(2, y, -1, x * 2).relu()

    before = graphs()
    for rows, columns in ((3, 4), (5, 6), (7, 2)):
        x, y = torch.randn(rows, columns), torch.randn(rows, 1)
        torch.testing.assert_close(function(x, y), (8 * x * x + 2 * y * x - 1).relu())
    assert graphs() - before == 1


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("strict", [False, True])
def test_export(calls: Any, x: Tensor, strict: bool) -> None:
    class Polynomial(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return calls.polynomial(2, b=8.0, c=-1, x=x)

    exported = torch.export.export(Polynomial(), (x,), strict=strict)
    assert exported.module()(x).tolist() == [9, 23, 41, 63]


def test_fake_tensors_and_transforms(calls: Any, x: Tensor) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    def function(x: Tensor) -> Tensor:
        return calls.polynomial(2, 77.5, -1, x)

    with FakeTensorMode() as mode:
        assert function(mode.from_tensor(x)).shape == (4,)
        assert calls.polynomial(2, 78.5, -1, 1).shape == ()
    for tracing in ("real", "fake", "symbolic"):
        torch.testing.assert_close(make_fx(function, tracing_mode=tracing)(x)(x), function(x))
    torch.testing.assert_close(torch.func.grad(lambda x: function(x).sum())(x), 4 * x + 77.5)
    assert calls.polynomial(2, 78.5, -1, x)[0].item() == 79.5


def test_torchscript_calls_the_operator(calls: Any, x: Tensor) -> None:
    calls.once(1)

    def function(x: Tensor) -> Tensor:
        return torch.ops.test_function_calls.once(x) + torch.ops.test_function_calls.at_load(x)

    scripted = torch.jit.script(function)
    saved = io.BytesIO()
    torch.jit.save(scripted, saved)
    saved.seek(0)
    x = x.clone().requires_grad_()
    result = torch.jit.load(saved)(x)
    assert result.tolist() == [2, 12, 36, 80]
    assert torch.autograd.grad(result.sum(), x)[0].tolist() == [5, 16, 33, 56]


# --- torch_slang.testing


@dear_test
def test_check_takes_functions(calls: Any) -> None:
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    factor = torch.randn(5, dtype=torch.float64, requires_grad=True)
    testing.check(calls.scaled, (x, factor), reference=lambda x, factor: x * factor, order=1)
    testing.check(calls.scaled, (x,), {"factor": 0.5}, reference=lambda x, factor: x * factor, order=1)
    camera = {
        "lens": (torch.rand(4, 1) + 1, torch.randn(2)),
        "exposure": torch.randn(3, requires_grad=True),
        "shift": 1,
    }
    at = torch.randn(4, 3, 2, requires_grad=True)

    def exposed(focus: Tensor, center: Tensor, exposure: Tensor, shift: Tensor, at: Tensor) -> Tensor:
        return exposure * ((at - center) * at).sum(-1) / focus + shift

    testing.check(calls.exposed, (camera, at), reference=exposed, gradcheck_dtype=None, rtol=1e-4, atol=1e-5, order=1)
    with pytest.raises(AssertionError, match="differs from the reference"):
        testing.check(calls.scaled, (x, factor), reference=lambda x, factor: x + factor, order=1)
