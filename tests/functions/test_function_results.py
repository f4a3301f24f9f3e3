"""Plain functions into given results (`_result=`), and their gradients into `.grad` (`bwds`)."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from function_calls import CENTER, POLYNOMIAL, Camera, Lens, leaf, scalar, with_grad

Tensor = torch.Tensor


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
    with pytest.raises(RuntimeError, match=r"polynomial: expected _result to be .* but got a leaf that requires grad"):
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
