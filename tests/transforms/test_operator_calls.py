"""Calls of torch.ops that skip its conversion of arguments: Note [operator calls] in csrc/python/operator_call.cpp."""

from __future__ import annotations

import copy
import inspect
import pickle
import sys
import threading
import weakref
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import torch_slang
from torch_slang import _C
from torch_slang._library import forget_cached_op

NAMESPACE = "operator_calls"
SOURCE = """
[TorchOp] [Differentiable] float scaled(float x, float by) { return x * by; }
[TorchOp] void both(float x, out float once, out float twice) { once = x; twice = 2 * x; }
"""


class General:
    """In the place of what torch.ops made: keeps what it was called with."""

    __name__ = "general"

    def __init__(self) -> None:
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def __call__(self, *args: Any, **kwargs: Any) -> str:
        self.calls.append((args, kwargs))
        return "general"


@pytest.fixture(scope="module")
def operators() -> Iterator[Any]:
    torch_slang.load(source=SOURCE, name="operator_calls", namespace=NAMESPACE)
    library = torch.library.Library(NAMESPACE, "FRAGMENT")
    library.define(
        "everything(Tensor a, Tensor? b, Tensor[] c, int d, int[] e, float f, float[] g, bool h, str i, *, int? j=None,"
        " float k=0.5, int[]? l=None) -> Tensor"
    )
    library.define("seen(Tensor x, Scalar s, ScalarType t) -> Tensor")
    library.define("nothing(Tensor x) -> ()")
    library.define("fails(Tensor x) -> Tensor")
    library.define("lacks_a_kernel(Tensor x) -> Tensor")
    library.impl("everything", lambda *args, **kwargs: torch.tensor(zlib.crc32(repr((args, kwargs)).encode())), "CPU")
    library.impl("seen", lambda x, s, t: (x * s).to(t), "CPU")
    library.impl("nothing", lambda x: None, "CPU")

    def fail(x: Tensor) -> Tensor:
        raise KeyError("what an operator raises")

    library.impl("fails", fail, "CPU")
    yield getattr(torch.ops, NAMESPACE)
    library._destroy()


@pytest.fixture
def x() -> Tensor:
    return torch.tensor([1.0, 2.0, 3.0])


def with_general(name: str) -> tuple[Callable[..., Any], General]:
    general = General()
    return _C.operator_call(f"{NAMESPACE}::{name}", general), general


EVERYTHING: dict[str, Any] = {
    "a": torch.ones(1),
    "b": None,
    "c": [torch.ones(1), torch.nn.Parameter(torch.ones(2))],
    "d": -(2**63),
    "e": (1, 2),
    "f": 2,
    "g": [1, 2.5],
    "h": True,
    "i": "ünïcode",
    "j": 3,
    "k": 1e300,
    "l": [],
}


class TestWithoutTorchOps:
    @pytest.mark.parametrize("positional", range(10))
    def test_every_type(self, operators: Any, positional: int) -> None:
        call, general = with_general("everything")
        names = list(EVERYTHING)
        args = [EVERYTHING[name] for name in names[:positional]]
        kwargs = {name: EVERYTHING[name] for name in reversed(names[positional:])}
        found = call(*args, **kwargs)
        assert general.calls == []
        assert found == operators.everything.default._op_dk("CPU", *args, **kwargs)

    def test_values_that_are_not_given(self, operators: Any) -> None:
        call, general = with_general("everything")
        needed = [EVERYTHING[name] for name in "abcdefghi"]
        assert call(*needed) == call(*needed, j=None, k=0.5, l=None)
        assert call(*needed, k=0.25) != call(*needed, j=7)
        assert general.calls == []

    def test_results(self, operators: Any, x: Tensor) -> None:
        assert with_general("nothing")[0](x) is None
        results = with_general("both")[0](x)
        assert isinstance(results, tuple)
        assert [result.tolist() for result in results] == [[1, 2, 3], [2, 4, 6]]
        assert operators.nothing(x) is None
        assert isinstance(operators.both(x), tuple)

    def test_gradients(self, operators: Any, x: Tensor) -> None:
        x.requires_grad_()
        call, general = with_general("scaled")
        call(x, by=torch.tensor(3.0)).sum().backward()
        assert general.calls == []
        assert x.grad is not None
        assert x.grad.tolist() == [3, 3, 3]

    def test_torch_ops_calls_it(self, operators: Any, x: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
        made = []

        def operator_call(name: str, general: Callable[..., Any]) -> Callable[..., Any]:
            made.append((name, _operator_call(name, general)))
            return made[-1][1]

        _operator_call = _C.operator_call
        monkeypatch.setattr(_C, "operator_call", operator_call)
        for namespace, name in ((NAMESPACE, "scaled"), ("slang", "sqr"), ("slang", "matmul")):
            forget_cached_op(f"{namespace}::{name}")
            packet = getattr(getattr(torch.ops, namespace), name)
            assert made == [(f"{namespace}::{name}", packet._op), (f"{namespace}::{name}", packet.default._op)]
            made.clear()
        assert operators.scaled(x, x).tolist() == operators.scaled.default(x, x).tolist() == [1, 4, 9]
        assert torch.ops.slang.sqr(x).tolist() == [1, 4, 9]

    def test_sizes_of_tensors(self, operators: Any) -> None:
        call, general = with_general("everything")
        found = call(**{**EVERYTHING, "e": torch.ones(2, 3).shape})
        assert found == call(**{**EVERYTHING, "e": [2, 3]})
        assert general.calls == []

    def test_many_threads(self, operators: Any) -> None:
        wrong = []

        def run(number: int) -> None:
            given = torch.full((5,), float(number))
            for i in range(300):
                if operators.scaled(x=given, by=torch.tensor(float(i))).tolist() != [number * i] * 5:
                    wrong.append((number, i))

        threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []


class Subclass(torch.Tensor):
    pass


class Text(str):
    pass


class TestByTorchOps:
    @pytest.mark.parametrize(
        "change",
        [
            {"a": torch.ones(1).as_subclass(Subclass)},
            {"a": None},
            {"a": 1.0},
            {"c": torch.ones(2)},
            {"c": [None]},
            {"c": [torch.ones(1).as_subclass(Subclass)]},
            {"c": (tensor for tensor in [torch.ones(1)])},
            {"d": True},
            {"d": 2**63},
            {"d": torch.tensor(1)},
            {"d": 1.0},
            {"e": 1},
            {"e": [1.0]},
            {"f": "1"},
            {"f": True},
            {"f": 1j},
            {"h": 1},
            {"h": None},
            {"i": Text("a")},
            {"i": "\ud800"},
            {"l": [2**63]},
            {"m": 1},
        ],
        ids=lambda change: next(iter(change)),
    )
    def test_what_only_it_may_judge(self, operators: Any, change: dict[str, Any]) -> None:
        call, general = with_general("everything")
        given = {**EVERYTHING, **change}
        assert call(**given) == "general"
        assert len(general.calls) == 1
        assert general.calls[0][0] == ()
        assert list(general.calls[0][1]) == list(given)
        assert all(general.calls[0][1][name] is value for name, value in given.items())

    def test_counts(self, operators: Any, x: Tensor) -> None:
        call, general = with_general("scaled")
        assert [call(), call(x), call(x, x, x), call(x, x=x), call(by=x)] == ["general"] * 5
        assert [len(args) for args, _ in general.calls] == [0, 1, 3, 1, 0]
        call, general = with_general("everything")
        assert call(*EVERYTHING.values()) == "general"  # more than may be given by position
        assert len(general.calls) == 1

    def test_types_that_only_it_reads(self, operators: Any, x: Tensor) -> None:
        call, _ = with_general("seen")
        assert call(x, 2, torch.float64) == "general"
        found = operators.seen(x, 2, torch.float64)
        assert found.dtype == torch.float64
        assert found.tolist() == [2, 4, 6]

    def test_what_watches_calls(self, operators: Any, x: Tensor) -> None:
        class Watching(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                seen.append(func)
                return func(*args, **(kwargs or {}))

        seen: list[Any] = []
        with Watching():
            assert operators.scaled(x, x).tolist() == [1, 4, 9]
            assert operators.scaled.default(x, x).tolist() == [1, 4, 9]
        assert operators.scaled.default in seen
        traced = torch.jit.trace(lambda y: operators.scaled(y, y) + 1, x)
        assert f"{NAMESPACE}::scaled" in str(traced.graph)
        assert traced(2 * x).tolist() == [5, 17, 37]

    @pytest.mark.parametrize("args", [(), (1,), (torch.ones(1),), (torch.ones(1), torch.ones(1), 3), (None, None)])
    def test_messages_are_its_own(self, operators: Any, args: tuple[Any, ...]) -> None:
        plain = torch._C._get_operation_overload(f"{NAMESPACE}::scaled", "")[0]
        with pytest.raises(RuntimeError) as expected:
            plain(*args)
        with pytest.raises(RuntimeError) as found:
            operators.scaled.default(*args)
        assert str(found.value) == str(expected.value)
        assert type(found.value) is type(expected.value)


class TestErrors:
    def test_types(self, operators: Any, x: Tensor) -> None:
        with pytest.raises(KeyError, match="what an operator raises"):
            operators.fails(x)
        with pytest.raises(NotImplementedError, match="lacks_a_kernel"):
            operators.lacks_a_kernel(x)
        with pytest.raises(RuntimeError, match="expected x to be a dense tensor on the CPU"):
            torch.ops.slang.sqr(x.to_sparse())

    def test_of_indices(self) -> None:
        source = """
        [CudaKernel] [launch_total("N", 1, 1)] [block_size(8, 1, 1)]
        void reads_outside([Shape("N")] TensorView<float> x, [Out("N")] TensorView<float> y) {
            y[0] = x[1000];
        }"""
        torch_slang.load(source=source, name="reads_outside", namespace=NAMESPACE, debug=True)
        with pytest.raises(IndexError, match="1000"):
            getattr(torch.ops, NAMESPACE).reads_outside(torch.ones(8))


class TestReloads:
    def load(self, file: Path, parameters: str, result: str) -> Any:
        file.write_text(f"[TorchOp] float changing({parameters}) {{ return {result}; }}")
        torch_slang.load(file, namespace=NAMESPACE)
        return getattr(torch.ops, NAMESPACE).changing

    def test_a_held_operator_follows(self, tmp_path: Path, x: Tensor) -> None:
        file = tmp_path / "changing.slang"
        held = self.load(file, "float x", "x + 1")
        overload = held.default
        assert held(x).tolist() == overload(x).tolist() == [2, 3, 4]
        self.load(file, "float x", "x + 2")
        assert held(x).tolist() == overload(x).tolist() == [3, 4, 5]
        changed = self.load(file, "float x, float y", "x + y")
        assert changed(x, x).tolist() == held(x, x).tolist() == overload(x, y=x).tolist() == [2, 4, 6]
        for call in (changed, held, overload):
            with pytest.raises(RuntimeError, match="missing value for argument 'y'"):
                call(x)


class TestCompilers:
    def test_script(self, operators: Any, x: Tensor) -> None:
        torch.ops.operator_calls.scaled(x, x)

        def function(x: Tensor) -> Tensor:
            return torch.ops.operator_calls.scaled(x, x) + 1

        scripted = torch.jit.script(function)
        assert f"{NAMESPACE}::scaled" in str(scripted.graph)
        assert scripted(x).tolist() == [2, 5, 10]

    def test_compile_and_export(self, operators: Any, x: Tensor) -> None:
        class Both(torch.nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                return operators.scaled(x, x) + operators.scaled.default(x, by=x)

        torch.compiler.reset()
        assert torch.compile(Both(), fullgraph=True)(x).tolist() == [2, 8, 18]
        program = torch.export.export(Both(), (x,))
        assert program.module()(x).tolist() == [2, 8, 18]
        targets = [node.target for node in program.graph.nodes]
        assert targets.count(operators.scaled.default) == 2

    def test_what_is_called_is_a_built_in_function(self, operators: Any, x: Tensor) -> None:
        function = operators.scaled.op
        plain = torch._C._jit_get_operation(f"{NAMESPACE}::scaled")[0]
        assert inspect.isroutine(function)
        assert copy.deepcopy(function) is function
        assert weakref.ref(function)() is function
        for attribute in ("__name__", "__doc__"):
            assert getattr(function, attribute) == getattr(plain, attribute)
        assert function.__module__ == f"torch._ops.{NAMESPACE}"
        seen = []
        sys.setprofile(lambda frame, event, argument: seen.append((event, getattr(argument, "__name__", ""))))
        try:
            operators.scaled(x, x)
        finally:
            sys.setprofile(None)
        assert ("c_call", function.__name__) in seen
        assert ("c_return", function.__name__) in seen

    def test_namespaces_of_another_kind_stay_as_they_are(self) -> None:
        source = "[TorchOp] float scaled(float x, float by) { return x * by; }"
        before = type(torch.ops.higher_order)
        torch_slang.load(source=source, name="higher_order", namespace="higher_order")
        assert type(torch.ops.higher_order) is before
        assert torch.ops.higher_order.while_loop is not None
        assert pickle.loads(pickle.dumps(type(torch.ops.slang))) is type(torch.ops.slang)

    def test_copies_and_names(self, operators: Any) -> None:
        assert copy.deepcopy(operators.scaled) is operators.scaled
        assert copy.deepcopy(operators.scaled.default) is operators.scaled.default
        assert operators.scaled.__module__ == f"torch._ops.{NAMESPACE}"
        assert operators.scaled.default.__module__ == f"torch._ops.{NAMESPACE}"
        assert str(operators.scaled.default) == f"{NAMESPACE}.scaled.default"
        assert torch.ops.aten.mul.__module__ == "torch._ops.aten"
