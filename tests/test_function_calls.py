"""Plain functions as Python calls them: arguments of every kind, results, `_result=`, `bwds`, first use, reloads."""

from __future__ import annotations

import collections
import copy
import inspect
import io
import math
import pickle
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import IntEnum
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from cases import kernels

import torch_slang
from torch_slang import testing

Tensor = torch.Tensor
POLYNOMIAL = r"test_function_calls::polynomial\(a: float, b: float, c: float, x: float\) -> float: "


@pytest.fixture(scope="module")
def calls() -> torch_slang.Module:
    return kernels("function_calls")


@pytest.fixture
def x() -> Tensor:
    return torch.tensor([1.0, 2.0, 3.0, 4.0])


def leaf(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float32, requires_grad=True)


def scalar(value: float) -> Tensor:
    return torch.tensor(float(value), requires_grad=True)


# --- The tutorial's example


def test_the_published_example() -> None:
    source = "[Differentiable] float polynomial(float a, float b, float c, float x) { return a * x * x + b * x + c; }"
    module = torch_slang.load(source=source, name="published", namespace="published")
    x = leaf(1, 2, 3, 4)
    result = module.polynomial(a=2, b=8, c=-1, x=x)
    assert result.tolist() == [9, 23, 41, 63]
    result.backward(torch.ones_like(result))
    assert x.grad is not None
    assert x.grad.tolist() == [12, 16, 20, 24]

    x.grad = None
    result = module.polynomial(a=2, b=8, c=-1, x=x, _result="tensor")
    result.grad = torch.ones_like(result)
    module.polynomial.bwds(a=2, b=8, c=-1, x=x, _result=result)
    assert x.grad.tolist() == [12, 16, 20, 24]
    returned = module.polynomial.return_type(torch.Tensor)(a=2, b=8, c=-1, x=x)
    assert returned.tolist() == [9, 23, 41, 63]


# --- Arguments


@pytest.mark.parametrize(
    "call",
    [
        lambda f, x: f(2, 8, -1, x),
        lambda f, x: f(2, 8, x=x, c=-1),
        lambda f, x: f(x=x, c=-1, b=8.0, a=2),
        lambda f, x: f(torch.tensor(2.0), 8, torch.tensor([-1.0]), x),
        lambda f, x: f(torch.tensor(2), torch.tensor(8, dtype=torch.int16), -1, torch.nn.Parameter(x)),
        lambda f, x: f(np.float32(2), np.int64(8), Fraction(-1), x),
        lambda f, x: f(2, 8, -1, x.int()),
        lambda f, x: f(2, 8, -1, x.to(torch.bfloat16)),
    ],
)
def test_arguments_go_by_position_or_by_name(calls: Any, x: Tensor, call: Callable[..., Tensor]) -> None:
    result = call(calls.polynomial, x)
    assert result.dtype == torch.float32
    assert result.tolist() == [9, 23, 41, 63]


def test_arguments_broadcast(calls: Any, x: Tensor) -> None:
    b = torch.tensor([[8.0], [0.0]])
    assert calls.polynomial(2, b, -1, x).tolist() == [[9, 23, 41, 63], [1, 7, 17, 31]]


def test_numbers_alone_give_no_dimensions(calls: Any) -> None:
    result = calls.polynomial(2, 8, -1, 3)
    assert (result.shape, result.item(), result.device.type) == ((), 41, "cpu")


def test_defaults(calls: Any, x: Tensor) -> None:
    assert calls.adjusted(x).tolist() == (x * 6).tolist()
    assert calls.adjusted(x, times=1).tolist() == (x * 2).tolist()
    assert calls.adjusted(x, 0.5, 1).tolist() == (x * 0.5).tolist()


def test_numbers_mix_with_tensors_on_a_device(calls: Any, x: Tensor, device: torch.device) -> None:
    result = calls.polynomial(2, torch.tensor(8.0), c=-1, x=x.to(device))
    assert (result.device.type, result.tolist()) == (device.type, [9, 23, 41, 63])


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {"a": 2, "x": 1}, "missing b, c$"),
        ((1, 2, 3), {}, "missing x$"),
        ((1, 2, 3, 4, 5), {}, "expected at most 4 arguments, but got 5$"),
        ((1, 2, 3), {"x": 4, "y": 5}, "there is no argument y$"),
        ((1, 2, 3, 4), {"a": 5}, "got two values for a$"),
        ((1, 2, 3), {"a": 5}, "got two values for a$"),
        ((1, "2", 3, 4), {}, r"expected b \(float\) to be a tensor or a number, but got a str$"),
        ((1, None, 3, 4), {}, r"expected b \(float\) to be a tensor or a number, but got a NoneType$"),
        ((1, [2.0], 3, 4), {}, r"expected b \(float\) to be a tensor or a number, but got a list$"),
        ((1, 2j, 3, 4), {}, r"expected b \(float\) to be a tensor or a number, but got a complex$"),
        ((1, np.ones(2), 3, 4), {}, r"expected b \(float\) to be a tensor or a number, but got a ndarray$"),
    ],
)
def test_arguments_that_do_not_fit(calls: Any, args: tuple[Any, ...], kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match="^" + POLYNOMIAL + message):
        calls.polynomial(*args, **kwargs)


def test_an_argument_with_a_default_is_not_given_twice(calls: Any, x: Tensor) -> None:
    with pytest.raises(TypeError, match=r"adjusted\(.*slope: float = 2.0, times: int = 3\) -> float: got two values"):
        calls.adjusted(x, x=x)


# --- Numbers


INTEGERS = {f"{kind}{bits}": getattr(torch, f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64)}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_arrive_and_overflow(calls: Any, name: str) -> None:
    function, info = getattr(calls, f"plain_{name}"), torch.iinfo(INTEGERS[name])
    for value in (info.min, info.max, 7, True):
        result = function(value)
        assert (result.dtype, result.item()) == (INTEGERS[name], value)
    for value in (info.min - 1, info.max + 1, 10**30):
        message = rf"expected x \(\w+\) to be within the range \[{info.min}, {info.max}\] of its type, but got {value}$"
        with pytest.raises(OverflowError, match=rf"^test_function_calls::plain_{name}\(x: \w+\) -> \w+: {message}"):
            function(value)
    for other in (1.0, 2.5):
        with pytest.raises(TypeError, match=rf"expected x \(\w+\) to be a tensor or an integer, but got {other}$"):
            function(other)


def test_bools_are_bools(calls: Any) -> None:
    assert calls.plain_bool(True).item() is True
    assert calls.plain_bool(False).item() is False
    with pytest.raises(TypeError, match=r"expected x \(bool\) to be a tensor or a bool, but got 1$"):
        calls.plain_bool(1)


def test_enumerations_are_integers(calls: Any) -> None:
    class Curve(IntEnum):
        linear = 0
        cubed = 5

    assert calls.curved(3, 1).item() == 9
    assert calls.curved(3, Curve.cubed).item() == 27


@pytest.mark.parametrize("name", ["plain_double", "plain_half"])
@pytest.mark.parametrize("value", [0.0, -0.0, 0.1, math.inf, -math.inf, 2, True, False, 0])
def test_numbers_keep_their_values(calls: Any, name: str, value: float) -> None:
    function = getattr(calls, name)
    like = torch.ones(1, dtype=torch.float64 if name == "plain_double" else torch.float16)
    for _ in range(2):  # the second comes from the cache
        expected = torch.tensor(value, dtype=like.dtype)
        result = function(value)
        assert torch.equal(result, expected)
        assert torch.signbit(result) == torch.signbit(expected)


def test_nan_arrives(calls: Any) -> None:
    assert calls.plain_double(math.nan).isnan()
    assert calls.plain_double(-math.nan).isnan()


def test_too_large_an_integer_for_a_float(calls: Any) -> None:
    with pytest.raises(
        OverflowError, match=r"plain_double\(.*expected x \(double\) to be within the range of its type"
    ):
        calls.plain_double(10**400)


def test_a_number_is_told_from_its_equals(calls: Any) -> None:
    x = torch.ones(1, dtype=torch.int32)
    assert calls.shifted(torch.zeros(4, dtype=torch.int32), 1).tolist() == [1, 1, 1, 1]
    assert calls.shifted(torch.zeros(4, dtype=torch.int32), True).tolist() == [1, 1, 1, 1]
    with pytest.raises(TypeError, match=r"expected by \(int\) to be a tensor or an integer, but got 1.0"):
        calls.shifted(x.expand(4), 1.0)
    minus, plus = (calls.polynomial(0.0, 0.0, zero, torch.tensor([-0.0])) for zero in (-0.0, 0.0))
    assert not torch.signbit(plus).item()
    assert torch.equal(torch.signbit(minus), torch.signbit(0.0 * torch.tensor([-0.0]) * -0.0 + 0.0 * -0.0 + -0.0)[0:1])


def test_shared_numbers_outlive_modes(calls: Any, x: Tensor) -> None:
    """A number first met in inference mode or in a transform serves later graphs."""
    with torch.inference_mode():
        calls.polynomial(1234.5, 8, -1, x)
    torch.func.grad(lambda x: calls.polynomial(1235.5, 8, -1, x).sum())(x)
    y = x.clone().requires_grad_()
    for value in (1234.5, 1235.5):
        (grad,) = torch.autograd.grad(calls.polynomial(value, 8, -1, y).sum(), y)
        torch.testing.assert_close(grad, 2 * value * x + 8)


def test_numbers_fill_the_cache_without_end(calls: Any, x: Tensor) -> None:
    for number in range(10000):
        assert calls.polynomial(0, 0, number, x)[0].item() == number


# --- Type parameters: numbers weigh least


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("number", [2, 0.5, True])
def test_numbers_do_not_widen(calls: Any, dtype: torch.dtype, number: float) -> None:
    for value in (torch.ones(3, dtype=dtype), torch.ones((), dtype=dtype)):
        result = calls.scaled(value, number)
        assert result.dtype == dtype
        assert torch.equal(result, value * number)


@pytest.mark.parametrize("number", [2, 0.5])
def test_integer_tensors_beside_numbers_have_the_default_dtype(calls: Any, number: float) -> None:
    x = torch.tensor([1, 2, 3])
    result = calls.scaled(x, number)
    assert (result.dtype, result.tolist()) == (torch.float32, (x * float(number)).tolist())


def test_no_tensor_gives_the_default_dtype(calls: Any) -> None:
    assert calls.scaled(2, 3).dtype == torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert calls.scaled(2, 0.1).dtype == torch.float64
        assert calls.scaled(2, 0.1).item() == 0.2
        assert calls.scaled(torch.tensor([1, 2]), 0.1).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_tensors_without_dimensions_weigh_less(calls: Any) -> None:
    half, wide = torch.ones(2, dtype=torch.float16), torch.tensor(0.5, dtype=torch.float64)
    assert calls.scaled(half, wide).dtype == (half * wide).dtype == torch.float16
    assert calls.scaled(torch.tensor([1, 2]), wide).dtype == torch.float64


# --- Vectors, matrices, arrays


def test_lists_of_numbers_are_vectors_matrices_and_arrays(calls: Any) -> None:
    v = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert calls.dotted(v, (1, 0.5, 2)).tolist() == [8, 18.5]
    assert calls.dotted([1, 2, 3], (1, 1, 1)).item() == 6
    assert calls.rotated([[0, -1], [1, 0]], torch.tensor([1.0, 2.0])).tolist() == [-2, 1]
    assert calls.horner((1, 2, 3), torch.tensor([2.0])).tolist() == [17]
    assert calls.shifted((1, 2, 3, True), 1).tolist() == [2, 3, 4, 2]
    assert [calls.summed(range_of).item() for range_of in ([1.0, 2.0], [1, 2, 3])] == [3, 6]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: m.dotted([1, 2], [1, 2, 3]), TypeError, r"expected a \(.*\) to have shape \[3\], but got \[1, 2\]$"),
        (
            lambda m: m.dotted(2.0, [1, 2, 3]),
            TypeError,
            r"expected a \(.*\) to be a tensor or a list of numbers, of sh",
        ),
        (lambda m: m.dotted([1, "2", 3], [1, 2, 3]), TypeError, r"of shape \[3\], but got a str$"),
        (lambda m: m.dotted([1, [2], 3], [1, 2, 3]), TypeError, r"of shape \[3\], but got a list$"),
        (lambda m: m.dotted(list(torch.ones(3)), (1, 2, 3)), TypeError, "a Tensor; torch.stack makes one tensor of"),
        (lambda m: m.rotated([1, 2, 3, 4], [1, 2]), TypeError, r"expected m \(.*\) to have shape \[2, 2\], but got"),
        (lambda m: m.rotated([1, 2], [1, 2]), TypeError, r"of shape \[2, 2\], but got 1$"),
        (lambda m: m.shifted([1, 2.5, 3, 4], 1), TypeError, r"expected v \(.*\) .* of shape \[4\], but got 2.5$"),
        (lambda m: m.shifted([1, 2, 3, 2**31], 1), OverflowError, r"v \(.*\) .*, 2147483647\] of its type, but got"),
        (lambda m: m.summed(1.0), TypeError, r"of shape \[\*\], but got 1.0$"),
    ],
)
def test_lists_that_do_not_fit(calls: Any, call: Callable[..., Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(calls)


# --- Structs


Lens = collections.namedtuple("Lens", ["focus", "center"])
Camera = collections.namedtuple("Camera", ["lens", "exposure", "shift"])
CENTER, AT = torch.tensor([0.5, -1.0]), torch.tensor([[1.0, 2.0], [3.0, 4.0]])
EXPOSED = [3 * (0.5 * 1 + 3 * 2) / 2 + 1, 3 * (2.5 * 3 + 5 * 4) / 2 + 1]


@pytest.mark.parametrize(
    "camera",
    [
        {"lens": {"focus": 2, "center": CENTER}, "exposure": torch.tensor(3.0), "shift": 1},
        {"shift": 1, "exposure": 3, "lens": ([2.0, (0.5, -1)])},
        Camera(Lens(torch.tensor([2.0]), [0.5, -1]), 3.0, torch.tensor(1, dtype=torch.uint8)),
        ((2, CENTER), 3, 1),
    ],
    ids=["mapping", "mixed", "named tuple", "tuple"],
)
def test_structs_are_mappings_or_tuples(calls: Any, camera: Any) -> None:
    assert calls.exposed(camera, AT).tolist() == EXPOSED
    assert calls.exposed(at=AT, camera=camera).tolist() == EXPOSED


@pytest.mark.parametrize(
    ("camera", "message"),
    [
        ({"lens": (1, CENTER), "exposure": 1}, r"camera \(Camera\) lacks field shift$"),
        ({"lens": (1, CENTER), "exposure": 1, "shift": 0, "tint": 1}, r"camera \(Camera\) has no field tint$"),
        (((1, CENTER), 1), r"camera \(Camera\) has fields \['lens', 'exposure', 'shift'\], but got 2 values$"),
        (({"focus": 1}, 1, 0), r"camera.lens \(Lens\) lacks field center$"),
        ((Lens(1, "off"), 1, 0), r"expected camera.lens.center \(.*\) to be a tensor or a list .*, but got a str$"),
        (((1, CENTER), 1, 0.5), r"expected camera.shift \(int\) to be a tensor or an integer, but got 0.5$"),
        (3.0, r"expected camera \(Camera\) to be a mapping or a tuple, but got float$"),
        (AT, r"expected camera \(Camera\) to be a mapping or a tuple of its fields, but got a tensor$"),
    ],
)
def test_structs_that_do_not_fit(calls: Any, camera: Any, message: str) -> None:
    with pytest.raises(
        TypeError, match=r"^test_function_calls::exposed\(camera: Camera, at: .*\) -> float: " + message
    ):
        calls.exposed(camera, AT)


def test_struct_results_are_named_tuples(calls: Any) -> None:
    focus, exposure = leaf(1, 2), scalar(3)
    zoomed = calls.zoomed({"lens": (focus, CENTER), "exposure": exposure, "shift": 7}, 2)
    assert (type(zoomed).__name__, zoomed._fields) == ("Camera", ("lens", "exposure", "shift"))
    assert (type(zoomed.lens).__name__, zoomed.lens._fields) == ("Lens", ("focus", "center"))
    assert zoomed.lens.focus.tolist() == [2, 4]
    assert zoomed.lens.center.tolist() == [[0.5, -1.0], [0.5, -1.0]]
    assert (zoomed.exposure.tolist(), zoomed.shift.tolist()) == ([5, 5], [7, 7])
    (zoomed.lens.focus.sum() + zoomed.exposure.sum()).backward()
    assert focus.grad is not None
    assert exposure.grad is not None
    assert (focus.grad.tolist(), exposure.grad.item()) == ([2, 2], 2)
    again = calls.zoomed(zoomed, 1)  # results are arguments
    assert type(again) is type(zoomed)


def test_struct_results_are_copied_and_pickled(calls: Any) -> None:
    zoomed = calls.zoomed(((1, CENTER), 3, 7), 2)
    for other in (pickle.loads(pickle.dumps(zoomed)), copy.deepcopy(zoomed)):
        assert type(other) is type(zoomed)
        assert type(other.lens) is type(zoomed.lens)
        assert torch.equal(other.lens.center, zoomed.lens.center)


def test_several_results_have_names(calls: Any) -> None:
    x, state = leaf(1, -2), leaf(3, 4)
    results = calls.stepped(x, state)
    assert results._fields == ("result", "state", "seen", "side")
    assert results.result.tolist() == [3, -6]
    assert results.state.tolist() == [4, 8]
    assert results.seen.focus.tolist() == [3, -8]
    assert results.seen.center.tolist() == [[1, 3], [-2, 4]]
    assert results.side.dtype == torch.int32
    assert results.side.tolist() == [1, -1]
    assert not results.side.requires_grad
    total = sum(r.sum() for r in (results.result, results.state, results.seen.focus))
    gradients = torch.autograd.grad(total, (x, state))
    assert [g.tolist() for g in gradients] == [[3 + 2 + 3, 3 - 4 + 4], [1 + 1, 1 - 2]]
    px, py = calls.polar(2.0, torch.tensor([0.0, math.pi / 2]))
    torch.testing.assert_close(torch.stack([px, py]), torch.tensor([[2.0, 0.0], [0.0, 2.0]]))


def test_one_inout_parameter_is_one_result(calls: Any, x: Tensor) -> None:
    assert calls.doubled(x).tolist() == [2, 4, 6, 8]
    assert x.tolist() == [1, 2, 3, 4]


# --- _result=


@pytest.mark.parametrize("kind", [None, "tensor", torch.Tensor])
def test_results_are_tensors_by_any_name(calls: Any, x: Tensor, kind: Any) -> None:
    result = calls.polynomial(2, 8, -1, x, _result=kind)
    assert type(result) is torch.Tensor
    assert result.tolist() == [9, 23, 41, 63]


@pytest.mark.parametrize("kind", [float, "tensors"])
def test_results_of_other_types_are_refused(calls: Any, x: Tensor, kind: Any) -> None:
    message = POLYNOMIAL + r"results are tensors or arrays: torch.Tensor, 'tensor', 'numpy', or tensors to write into, "
    message += re.escape(f"but the result was to be {kind!r}") + "$"
    with pytest.raises(TypeError, match=message):
        calls.polynomial(2, 8, -1, x, _result=kind)
    with pytest.raises(TypeError, match=message):
        calls.polynomial.return_type(kind)


def test_return_type_keeps_the_rest(calls: Any, x: Tensor) -> None:
    x = x.clone().requires_grad_()
    function = calls.polynomial.return_type("tensor").return_type(torch.Tensor)
    result = function(2, 8, -1, x)
    result.grad = torch.ones_like(result)
    function.bwds(2, 8, -1, x, _result=result)
    assert x.grad is not None
    assert x.grad.tolist() == [12, 16, 20, 24]


def test_a_given_result_is_written_into(calls: Any, x: Tensor, device: torch.device) -> None:
    room = torch.full((4, 3), math.nan, device=device)
    for out in (room[:, 0], torch.full((4,), math.nan, device=device)):
        version = out._version
        assert calls.polynomial(2, 8, -1, x.to(device), _result=out) is out
        assert out.tolist() == [9, 23, 41, 63]
        assert out._version > version
        assert not out.requires_grad
    assert room[:, 1:].isnan().all()


def test_a_given_result_without_grad_mode(calls: Any, x: Tensor) -> None:
    out = torch.empty(4)
    with torch.no_grad():
        calls.polynomial(2, 8, -1, x.clone().requires_grad_(), _result=out)
    assert (out.tolist(), out.requires_grad) == ([9, 23, 41, 63], False)


def test_a_given_result_has_a_gradient(calls: Any, x: Tensor) -> None:
    x = x.clone().requires_grad_()
    out = torch.empty(4)
    assert calls.polynomial(2, 8, -1, x, _result=out) is out
    out.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [12, 16, 20, 24]


def test_a_given_result_that_autograd_forbids(calls: Any, x: Tensor) -> None:
    out = torch.empty(4, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        calls.polynomial(2, 8, -1, x, _result=out)
    y = x.clone().requires_grad_()
    squared = y * y  # keeps y, which the result then overwrites
    kept = y * 1
    squared = kept * kept
    calls.polynomial(2, 8, -1, x, _result=kept)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        squared.sum().backward()


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize(
    ("out", "message"),
    [
        (
            torch.empty(3),
            r"^test_function_calls::polynomial\w*: expected result to have the result's shape \[4\], but got \[3\]",
        ),
        (torch.empty(1, 4), r"expected result to have the result's shape \[4\], but got \[1, 4\]"),
        (torch.empty(4, dtype=torch.float64), r"expected result to have .*dtype .*float32.*, but got .*float64"),
        (torch.empty(4, dtype=torch.int32), r"expected result to have .*dtype .*float32.*, but got .*int32"),
        (torch.empty(4, device="meta"), r"device"),
    ],
    ids=["shape", "rank", "wider", "integers", "device"],
)
def test_a_given_result_that_does_not_fit(
    calls: Any, x: Tensor, out: Tensor, message: str, requires_grad: bool
) -> None:
    with pytest.raises(RuntimeError, match=message):
        calls.polynomial(2, 8, -1, x.clone().requires_grad_(requires_grad), _result=out)


def test_given_results_of_structs(calls: Any) -> None:
    camera = ((1, CENTER), 3, 7)
    lens, exposure, shift = Lens(torch.empty(()), torch.empty(2)), torch.empty(()), torch.empty((), dtype=torch.int32)
    for out in (
        Camera(lens, exposure, shift),
        {"lens": {"focus": lens.focus, "center": lens.center}, "exposure": exposure, "shift": shift},
        (tuple(lens), exposure, shift),
    ):
        for tensor in (*lens, exposure, shift):
            tensor.zero_()
        zoomed = calls.zoomed(camera, 2, _result=out)
        assert zoomed.lens.center is lens.center
        assert zoomed.shift is shift
        assert [t.tolist() for t in (*lens, exposure, shift)] == [2, [0.5, -1], 5, 7]
    with pytest.raises(TypeError, match=r"_result \(Camera\) lacks field shift$"):
        calls.zoomed(camera, 2, _result={"lens": lens, "exposure": exposure})
    with pytest.raises(
        TypeError, match=r"expected _result \(Camera\) to be a mapping or a tuple of its fields, but got a"
    ):
        calls.zoomed(camera, 2, _result=torch.empty(()))
    with pytest.raises(
        TypeError, match=r"expected result.exposure \(float\) of _result to be a tensor, but got a float$"
    ):
        calls.zoomed(camera, 2, _result=(lens, 0.5, shift))


def test_given_results_of_several(calls: Any) -> None:
    x, y = torch.empty(2), torch.empty(2)
    results = calls.polar(torch.ones(2), 0, _result={"y": y, "x": x})
    assert results.x is x
    assert results.y is y
    assert (x.tolist(), y.tolist()) == ([1, 1], [0, 0])


# --- bwds


def with_grad(result: Tensor, grad: Tensor | None = None) -> Tensor:
    result.grad = torch.ones_like(result) if grad is None else grad
    return result


def test_bwds_is_backward_of_every_argument(calls: Any, x: Tensor, device: torch.device) -> None:
    values = [2.0, 8.0, -1.0]
    grad = torch.tensor([1.0, -1.0, 0.5, 2.0], device=device)
    expected = [scalar(v) for v in values] + [x.to(device).requires_grad_()]
    calls.polynomial(*expected).backward(grad)
    given = [scalar(v) for v in values] + [x.to(device).clone().requires_grad_()]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = with_grad(calls.polynomial(*given), grad)
        assert calls.polynomial.bwds(*given, _result=result) is None
    for one, other in zip(given, expected, strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert one.grad.device == one.device
        torch.testing.assert_close(one.grad, other.grad)


def test_bwds_accumulates_as_backward_does(calls: Any, x: Tensor) -> None:
    x = x.clone().requires_grad_()
    x.grad = torch.ones(4)
    held = x.grad
    seen = []
    x.register_hook(lambda grad: seen.append(grad.tolist()))
    for count in (1, 2):
        calls.polynomial.bwds(2, 8, -1, x=x, _result=with_grad(torch.empty(4)))
        assert x.grad.tolist() == [1 + count * g for g in (12, 16, 20, 24)]
    assert x.grad is held
    assert seen == [[12, 16, 20, 24]] * 2
    assert not x.grad.requires_grad


def test_bwds_sets_the_grad_of_what_is_no_leaf(calls: Any, x: Tensor) -> None:
    base = x.clone().requires_grad_()
    y = base * 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            calls.polynomial.bwds(2, 8, -1, y, _result=with_grad(torch.empty(4)))
        assert y.grad is not None
        assert y.grad.tolist() == [24, 32, 40, 48]
    assert base.grad is None


def test_bwds_of_one_tensor_given_twice(calls: Any, x: Tensor) -> None:
    x = x.clone().requires_grad_()
    calls.polynomial.bwds(0, x, 0, x, _result=with_grad(torch.empty(4)))
    assert x.grad is not None
    assert x.grad.tolist() == [2, 4, 6, 8]


def test_bwds_leaves_frozen_arguments_alone(calls: Any, x: Tensor) -> None:
    a, b = scalar(2), torch.tensor(8.0)
    calls.polynomial.bwds(a, b, -1, x, _result=with_grad(torch.empty(4)))
    assert b.grad is None
    assert x.grad is None
    assert a.grad is not None
    assert a.grad.item() == 30


def test_bwds_of_half_precision(calls: Any) -> None:
    x, factor = torch.ones(3, dtype=torch.float16, requires_grad=True), scalar(0.5)
    calls.scaled.bwds(x, factor, _result=with_grad(torch.empty(3, dtype=torch.float16)))
    assert x.grad is not None
    assert factor.grad is not None
    assert (x.grad.dtype, x.grad.tolist()) == (torch.float16, [0.5] * 3)
    assert (factor.grad.dtype, factor.grad.item()) == (torch.float32, 3)


def test_bwds_of_structs_and_several_results(calls: Any) -> None:
    focus, by = leaf(1, 2), scalar(2)
    zoomed = calls.zoomed(((focus, CENTER), 3, 7), by)
    for tensor in (*zoomed.lens, zoomed.exposure):
        with_grad(tensor)
    calls.zoomed.bwds(((focus, CENTER), 3, 7), by, _result=zoomed)
    assert focus.grad is not None
    assert by.grad is not None
    assert (focus.grad.tolist(), by.grad.item()) == ([2, 2], 1 + 2 + 2)
    x = leaf(1, -2)
    out = calls.stepped(x, 3)
    out.result.grad = torch.ones(2)
    with pytest.raises(RuntimeError, match=r"stepped\(.*: bwds reads state_out.grad of _result, which is None"):
        calls.stepped.bwds(x, 3, _result=out)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda m, x: m.polynomial.bwds(2, 8, -1, x, _result=m.polynomial(2, 8, -1, x)),
            RuntimeError,
            POLYNOMIAL + r"bwds reads result.grad of _result, which is None: set it first$",
        ),
        (
            lambda m, x: m.polynomial.bwds(2, 8, -1, x.detach(), _result=with_grad(torch.ones(4))),
            RuntimeError,
            POLYNOMIAL + "no differentiable argument of bwds requires grad$",
        ),
        (
            lambda m, x: m.polynomial.bwds(2, 8, -1, x, _result=with_grad(torch.ones(3))),
            RuntimeError,
            r"expected grad_result to have the result's shape \[4\], but got \[3\]",
        ),
        (lambda m, x: m.polynomial.bwds(2, 8, -1, x), TypeError, "_result"),
        (
            lambda m, x: m.polynomial.bwds(2, 8, -1, x, _result="tensor"),
            TypeError,
            r"expected result \(float\) of _result to be a tensor, but got a str$",
        ),
        (lambda m, x: m.polynomial.bwds(2, 8, _result=x), TypeError, POLYNOMIAL + "missing c, x$"),
        (
            lambda m, x: m.rounded.bwds(x, _result=with_grad(torch.ones(4))),
            RuntimeError,
            r"rounded\(x: float\) -> float has no gradient: mark it \[Differentiable\]$",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_bwds_that_do_not_fit(
    calls: Any, x: Tensor, call: Callable[..., Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call(calls, x.clone().requires_grad_())


def test_a_function_without_gradient_says_so(calls: Any, x: Tensor) -> None:
    result = calls.rounded(x.clone().requires_grad_())
    with pytest.raises(RuntimeError):
        result.sum().backward()


# --- What a module offers


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


@pytest.mark.filterwarnings("ignore:.*torch.jit.*")
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
