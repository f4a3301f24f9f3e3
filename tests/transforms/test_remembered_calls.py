"""Calls that go straight from Python's arguments to the operator: the same results as by the general path."""

from __future__ import annotations

import math
import weakref
from typing import Any

import pytest
import torch

import torch_slang

SOURCE = """
[Differentiable] T affine<T : __BuiltinFloatingPointType>(T a, T b, T x) { return a * x + b; }
float scale(float a, float x) { return a * x; }
half halved(half a, half x) { return a * x; }
int shift(int a, uint8_t b) { return a + b; }
bool both(bool a, bool b) { return a && b; }
float3 turn(float3 v, float s) { return v * s; }
void two(float x, out float a, out float b) { a = x; b = 2 * x; }
"""


@pytest.fixture(scope="module")
def module() -> torch_slang.Module:
    made = torch_slang.load(source=SOURCE, name="remembered_calls", namespace="remembered_calls")
    for name in ("affine", "scale", "halved", "shift", "both", "turn", "two"):
        getattr(made, name).register()
    return made


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_numbers_take_the_tensors_type(module: torch_slang.Module, dtype: torch.dtype) -> None:
    x = torch.tensor([1.0, 2.0], dtype=dtype, requires_grad=True)
    for a in (2, 2.0, True, 1e-3):
        y = module.affine(a, b=x, x=x)
        assert y.dtype == dtype
        torch.testing.assert_close(y, a * x + x)
    module.affine(x=x, b=1, a=3).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3, 3]


def test_numbers_are_told_apart(module: torch_slang.Module) -> None:
    x = torch.ones(1)
    signs = [math.copysign(1, module.scale(a, x).item()) for a in (0.0, -0.0, 0, 0.0)]
    assert signs == [1, -1, 1, 1]
    assert math.isnan(module.scale(math.nan, x).item())
    assert module.scale(math.inf, x).item() == math.inf
    values = [module.scale(float(i), x).item() for i in range(200)] + [module.scale(i, x).item() for i in range(200)]
    assert values == [*range(200), *range(200)]


@pytest.mark.parametrize(
    ("name", "args", "error", "message"),
    [
        ("shift", (1.5, torch.ones(1, dtype=torch.uint8)), TypeError, "expected a .int. to be a tensor or an integer"),
        ("shift", (torch.ones(1, dtype=torch.int32), 256), OverflowError, r"expected b .* within the range \[0, 255\]"),
        ("shift", (torch.ones(1, dtype=torch.int32), -1), OverflowError, "expected b .* within the range"),
        ("shift", (2**40, torch.ones(1, dtype=torch.uint8)), OverflowError, "expected a .* within the range"),
        ("both", (1, torch.ones(1, dtype=torch.bool)), TypeError, "expected a .bool. to be a tensor or a bool"),
        ("scale", (10**400, torch.ones(1)), OverflowError, "expected a .* within the range of its type"),
        ("scale", (torch.ones(1),), TypeError, "missing x"),
        ("scale", (1.0, torch.ones(1), 2.0), TypeError, "expected at most 2 arguments, but got 3"),
        ("turn", (1.0, torch.ones(1)), TypeError, "expected v .* to be a tensor or a list of numbers"),
    ],
)
def test_what_does_not_fit_is_said_as_ever(
    module: torch_slang.Module, name: str, args: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        getattr(module, name)(*args)
    with pytest.raises(TypeError, match="there is no argument z"):
        module.scale(1.0, z=torch.ones(1))
    with pytest.raises(TypeError, match="got two values for a"):
        module.scale(1.0, a=torch.ones(1))


def test_wide_integers_beside_floats(module: torch_slang.Module) -> None:
    x = torch.ones(1, dtype=torch.float64)
    assert module.affine(2**53 + 1, 0, x).item() == float(2**53 + 1)
    assert module.halved(2, torch.ones(1, dtype=torch.float16)).item() == 2
    assert module.both(True, torch.ones(1, dtype=torch.bool)).item() is True


def test_a_number_beside_integers_takes_the_default_type(module: torch_slang.Module) -> None:
    assert module.affine(2, 1, torch.tensor([1, 2])).dtype == torch.float32
    mixed = module.affine(2.0, torch.tensor(1.0, dtype=torch.float64), torch.ones(2))
    assert mixed.dtype == torch.float32
    assert module.affine(2.0, torch.ones(2, dtype=torch.float64), torch.ones(2)).dtype == torch.float64


def test_several_results(module: torch_slang.Module) -> None:
    result = module.two(torch.ones(2))
    assert (result.a.tolist(), result.b.tolist()) == ([1, 1], [2, 2])


def test_arguments_are_not_kept(module: torch_slang.Module) -> None:
    x = torch.ones(4)
    kept = weakref.ref(x)
    module.scale(2.0, x)
    del x
    assert kept() is None


class Counting(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += "scale" in str(func)
        return func(*args, **(kwargs or {}))


def test_what_watches_calls_sees_them(module: torch_slang.Module) -> None:
    with Counting() as mode:
        assert module.scale(2.0, torch.ones(2)).tolist() == [2, 2]
    assert mode.calls == 1
    vmapped = torch.vmap(lambda x: module.scale(2.0, x))(torch.ones(3, 2))
    assert vmapped.tolist() == [[2, 2]] * 3
    grad = torch.func.grad(lambda x: module.affine(3.0, 1, x).sum())(torch.ones(2))
    assert grad.tolist() == [3, 3]
