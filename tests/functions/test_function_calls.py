"""Arguments of plain functions as Python calls them: of every kind, by position or name; their results."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from enum import IntEnum
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from function_calls import AT, CENTER, POLYNOMIAL, Camera, Lens, leaf, scalar

import torch_slang

Tensor = torch.Tensor


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
