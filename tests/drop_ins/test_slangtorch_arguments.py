"""Arguments of the drop-in for slangtorch: values, elements, structs, and what is no argument."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from slangtorch_kernels import BLOCK, ONE, module, numbers

import torch_slang.slangtorch as slangtorch


@pytest.fixture
def values() -> Any:
    return module("values")


@pytest.fixture
def derivatives() -> Any:
    return module("derivatives")


# --- Values


@pytest.mark.parametrize("kind", ["plain", "numpy", "torch"])
def test_scalars(kind: str, values: Any, device: torch.device) -> None:
    given = {"f": 1.5, "d": 1 / 3, "i": -7, "u": 4_000_000_000, "l": -(2**40), "m": 2**50, "b": True, "h": 0.5}
    make = {"plain": lambda v: v, "numpy": np.array, "torch": lambda v: torch.tensor(v, dtype=_exact(v))}[kind]
    out = torch.zeros(8, dtype=torch.float64, device=device)
    values.scalars(**{name: make(value) for name, value in given.items()}, out=out).launchRaw(BLOCK, ONE)
    assert out.tolist() == [float(value) for value in given.values()]


def _exact(value: Any) -> torch.dtype:
    return {bool: torch.bool, int: torch.int64, float: torch.float64}[type(value)]


def test_vectors(values: Any, device: torch.device) -> None:
    for a in ((1.5, 2.5, 3.5), [1.5, 2.5, 3.5], np.array([1.5, 2.5, 3.5]), torch.tensor([1.5, 2.5, 3.5])):
        out = torch.zeros(7, device=device)
        values.vectors(a=a, b=(-4, 5), c=(True, False), out=out).launchRaw(ONE, ONE)
        assert out.tolist() == [1.5, 2.5, 3.5, -4, 5, 1, 0]


def test_matrices_are_given_by_rows(values: Any, device: torch.device) -> None:
    out = torch.zeros(6, device=device)
    values.matrices(a=((1.0, 2.0, 3.0), (4.0, 5.0, 6.0)), out=out).launchRaw(ONE, ONE)
    assert out.tolist() == [1, 2, 3, 4, 5, 6]


def test_arrays(values: Any, device: torch.device) -> None:
    out = torch.zeros(10, device=device)
    values.arrays(a=[1.0, 2.0, 3.0, 4.0], b=[(5.0, 6.0, 7.0), (8.0, 9.0, 10.0)], out=out).launchRaw(ONE, ONE)
    assert out.tolist() == list(range(1, 11))


def test_structs_of_values(values: Any, device: torch.device) -> None:
    rows = ((1.0, 2.0, 3.0), (4.0, 5.0, 6.0), (7.0, 8.0, 9.0))
    for value in (
        values.Mixed(m=rows, count=10, on=True),
        {"m": rows, "count": 10, "on": True},
        (rows, 10, True),
        namedtuple("Other", "on m count")(True, rows, 10),
    ):
        out = torch.zeros(11, device=device)
        values.mixed(value=value, out=out).launchRaw(ONE, ONE)
        assert out.tolist() == [*range(1, 10), 10, 1]


ELEMENTS = {
    "int8_t": torch.int8,
    "int16_t": torch.int16,
    "int": torch.int32,
    "int64_t": torch.int64,
    "uint8_t": torch.uint8,
    "uint16_t": torch.uint16,
    "uint": torch.uint32,
    "uint64_t": torch.uint64,
    "half": torch.float16,
    "float": torch.float32,
    "double": torch.float64,
}


@pytest.mark.parametrize("element", ELEMENTS)
def test_elements(element: str, values: Any, device: torch.device) -> None:
    dtype = ELEMENTS[element]
    x = torch.arange(50).to(dtype).to(device)
    out = torch.zeros(50).to(dtype).to(device)
    getattr(values, "twice_" + element)(x=x, out=out).launchRaw(BLOCK, (2, 1, 1))
    assert out.cpu().to(torch.int64).tolist() == [2 * i + 1 for i in range(50)]


def test_a_tensor_without_dimensions_is_one_of_one_element(derivatives: Any, device: torch.device) -> None:
    x, y = torch.tensor(3.0, device=device), torch.tensor(0.0, device=device)
    gx, gy = torch.tensor(0.0, device=device), torch.tensor(1.0, device=device)
    derivatives.square(input=x, output=y).launchRaw(BLOCK, ONE)
    derivatives.square.bwd(input=(x, gx), output=(y, gy)).launchRaw(BLOCK, ONE)
    assert (y.item(), gx.item(), gy.item()) == (9, 6, 0)


def test_bools(values: Any, device: torch.device) -> None:
    x = torch.arange(9, device=device) % 3 == 0
    out = torch.zeros_like(x)
    values.negate(x=x, out=out).launchRaw(BLOCK, ONE)
    assert torch.equal(out, ~x)


@pytest.mark.parametrize("strided", [lambda t: t, lambda t: t[::2], lambda t: t.flip(0).t().contiguous().t()])
def test_elements_that_are_vectors(strided: Callable[..., Any], values: Any, device: torch.device) -> None:
    x = strided(torch.randn(10, 3, generator=torch.Generator().manual_seed(4)).to(device))
    out = torch.zeros(3, len(x), device=device).t()
    values.swap_ends(x=x, out=out).launchRaw(BLOCK, ONE)
    assert torch.equal(out, x.flip(1))


# --- Wrong arguments


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, x: m.square(input=x), r"square: missing output; it has input, output"),
        (lambda m, x: m.square(input=x, outptu=x), r"square has no argument outptu; it has input, output"),
        (lambda m, x: m.square(x, x, x), r"square: expected at most 2 arguments, but got 3"),
        (lambda m, x: m.square(x, input=x), r"square: got two values for input"),
        (lambda m, x: m.square(input=x, output=None), r"expected output .* to be a tensor, but got NoneType"),
        (lambda m, x: m.square(input=1.0, output=x), r"expected input .* to be a tensor, but got float"),
        (lambda m, x: m.square(input=(x, x, x), output=x), r"expected input .* pair \(value, gradient\), but got 3"),
        (lambda m, x: m.chain(links=(1.0,), x=x, y=x), r"links \(Chain<2, 3>\) has fields .* but got 1"),
        (lambda m, x: m.chain(links=2.0, x=x, y=x), r"expected links .* to be a mapping or a tuple"),
        (lambda m, x: m.chain(links={"lines": []}, x=x, y=x), r"links \(Chain<2, 3>\) lacks field scale"),
        (lambda m, x: m.chain(links={"line": [], "lines": [], "scale": 1}, x=x, y=x), r"has no field line"),
    ],
)
def test_wrong_arguments_are_type_errors_and_value_errors(
    call: Callable[..., Any], message: str, derivatives: Any
) -> None:
    x = torch.ones(3)
    for kind in (TypeError, ValueError):
        with pytest.raises(kind, match=message):
            call(derivatives, x)


def test_broadcast_tensors_are_refused(derivatives: Any, device: torch.device) -> None:
    x = numbers(4, device)
    with pytest.raises(RuntimeError, match=r"input has broadcast dimensions .* pass input.contiguous\(\)"):
        derivatives.square(input=torch.ones(1, device=device).expand(4), output=x)
    with pytest.raises(RuntimeError, match="grad_output has broadcast dimensions"):
        derivatives.square.bwd((x, x.clone()), (x, torch.ones(1, device=device).expand(4)))
    y = torch.zeros(1, device=device).expand(1)
    derivatives.square(input=x[:1].expand(1), output=y).launchRaw(BLOCK, ONE)  # of one element: nothing is shared


def test_missing_derivatives_are_errors(derivatives: Any) -> None:
    x = torch.ones(3)
    for derivative in ("fwd", "bwd"):
        with pytest.raises(ValueError, match=r"copy has no .* derivative"):
            getattr(derivatives.copy, derivative)(input=x, output=x)


def test_a_refused_kernel_says_why(tmp_path: Path) -> None:
    path = tmp_path / "refused.slang"
    path.write_text("[AutoPyBindCUDA] [CUDAKernel] void writes(out TensorView<float> x) {}")
    with pytest.raises(AttributeError, match=r"writes is not available: .*x"):
        slangtorch.loadModule(path).writes  # noqa: B018


def test_unknown_names_are_attribute_errors(derivatives: Any) -> None:
    with pytest.raises(AttributeError, match=r"no kernel or function named 'sqare'; this module has: .*square"):
        derivatives.sqare  # noqa: B018
