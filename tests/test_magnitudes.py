"""Derivatives of quotients and of functions of Slang's core, for numbers of all magnitudes, beside PyTorch's in float64."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from devices import DEVICES

import torch_slang

Tensor = torch.Tensor
UNARY = "sqrt rsqrt rcp log log2 log10 exp exp2 tan tanh asin acos atan asinh acosh atanh".split()
BINARY = "over pow atan2 fmod".split()
NAMES = UNARY + [f"{name}.{which}" for name in BINARY for which in "ab"]
# The smallest and largest magnitudes; those whose second derivatives have no intermediate beyond the type.
RANGES = {torch.half: (-5, 4.5), torch.float: (-37.5, 37.5), torch.double: (-37.5, 37.5)}
RANGES_TWICE = {torch.half: (-2, 2), torch.float: (-9, 9), torch.double: (-37.5, 37.5)}
ULPS = 40  # pow's last, with an exponent that rounds
SHAPES = {"of_vectors": (2,), "of_matrices": (2, 2)}
FUNCTIONS = {
    "of_halves": torch.half,
    "of_floats": torch.float,
    "of_doubles": torch.double,
    "of_vectors": torch.float,
    "of_matrices": torch.float,
}


def module() -> torch_slang.Module:
    return torch_slang.load(str(Path(__file__).parent / "kernels" / "magnitudes.slang"))


def reference(name: str) -> Callable[..., Tensor]:
    own = {"rcp": torch.reciprocal, "over": torch.div}
    return own[name] if name in own else getattr(torch, name)


def numbers(dtype: torch.dtype, ranges: dict[torch.dtype, tuple[float, float]]) -> Tensor:
    """Of all magnitudes, near one, and one and zero: both signs of each."""
    low, high = ranges[dtype]
    bits = 10 if dtype == torch.half else 23
    near = 2.0 ** -torch.arange(1, bits, dtype=torch.double)
    some = [
        10.0 ** torch.linspace(low, high, 40, dtype=torch.double),
        1 - near,
        1 + near,
        torch.tensor([0, 1, 2, 3, 7, 20]),
    ]
    positive = torch.cat([one.double() for one in some])
    return torch.cat([positive, -positive]).to(dtype)


def grid(dtype: torch.dtype, ranges: dict[torch.dtype, tuple[float, float]]) -> list[Tensor]:
    """An argument for each name. Exponents whose whole part is exact beside one, so that a negative base is one."""
    low, high = ranges[dtype]
    few = 10.0 ** torch.linspace(low, high, 14, dtype=torch.double)
    few = torch.cat([few, torch.tensor([0.0, 0.5, 1, 2, 3])])
    few = torch.cat([few, -few]).to(dtype)
    a, b = few.repeat_interleave(len(few)), few.repeat(len(few))
    x = torch.full_like(a, 1.5)
    x[: len(numbers(dtype, ranges))] = numbers(dtype, ranges)
    exponents = b.clamp(-300, 300)
    return [x] * len(UNARY) + [a, b, a, exponents, a, b, a, b]


def derivatives(name: str, arguments: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """The value, the first and the second derivative by that argument, in float64, by PyTorch."""
    at = NAMES.index(name)
    first = at if at < len(UNARY) else at - (at - len(UNARY)) % 2
    count = 1 if at < len(UNARY) else 2
    x = [one.double().requires_grad_() for one in arguments[first : first + count]]
    y = reference(name.split(".", maxsplit=1)[0])(*x)
    by = x[at - first]
    if name == "tanh":  # PyTorch's 1 - y * y is 0 from 20 on
        slope = by.cosh().reciprocal() ** 2
        return y.detach(), slope.detach(), (-2 * y * slope).detach()
    slope = torch.autograd.grad(y.sum(), by, create_graph=True)[0]
    twice = torch.autograd.grad(slope.sum(), by)[0] if slope.requires_grad else torch.zeros_like(slope)
    return y.detach(), slope.detach(), twice.detach()


def check(name: str, found: Tensor, wanted: Tensor, of: Tensor, dtype: torch.dtype) -> None:
    """Equal but for a few units of the last place, of the smallest normal number at least; both infinite; or both NaN."""
    info = torch.finfo(dtype)
    wanted = wanted.to(dtype).double().reshape(-1, *[1] * (found.dim() - 1)).expand_as(found)
    found = found.cpu().double()
    near = (found - wanted).abs() <= ULPS * info.eps * wanted.abs().clamp(min=info.tiny)
    same = near | (found == wanted) | (found.isnan() & wanted.isnan())
    same = same | ((found.abs() > info.max / 2) & (wanted.abs() > info.max / 2) & (found.sign() == wanted.sign()))
    bad = ~same.reshape(len(same), -1).all(1)
    cases = list(zip(of[bad].tolist(), found[bad].tolist(), wanted[bad].tolist(), strict=True))
    assert not cases, f"{name} in {dtype}: argument, found, wanted: {cases[:5]} of {len(cases)}"


def inputs(
    function: str, device: str, ranges: dict[torch.dtype, tuple[float, float]]
) -> tuple[list[Tensor], list[Tensor]]:
    """The numbers, and the arguments whose components they all are."""
    dtype = FUNCTIONS[function]
    shape = SHAPES.get(function, ())
    plain = grid(dtype, ranges)
    spread = [one.reshape(-1, *[1] * len(shape)).expand(-1, *shape).clone().to(device) for one in plain]
    return plain, spread


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_gradients_of_all_magnitudes_are_those_of_float64(function: str, device: str) -> None:
    plain, arguments = inputs(function, device, RANGES)
    for one in arguments:
        one.requires_grad_()
    zero = torch.zeros((), dtype=plain[0].dtype, device=device)
    gradients = torch.autograd.grad(getattr(module(), function)(*arguments, zero).sum(), arguments)
    for name, gradient in zip(NAMES, gradients, strict=True):
        value, slope, _ = derivatives(name, plain)
        inside = ~value.isnan() & ~((plain[NAMES.index(name)] == 0) & (name == "rsqrt"))
        check(name, gradient.cpu()[inside], slope[inside], plain[NAMES.index(name)][inside], plain[0].dtype)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", ["of_halves", "of_floats"])
def test_tangents_of_all_magnitudes_are_those_of_float64(function: str, device: str) -> None:
    plain, arguments = inputs(function, device, RANGES)
    zero = torch.zeros((), dtype=plain[0].dtype, device=device)
    usual = [torch.full_like(one, 1.5 if name == "acosh" else 0.5) for name, one in zip(NAMES, arguments, strict=True)]
    for at, name in enumerate(NAMES):
        point, tangents = list(usual), [torch.zeros_like(one) for one in usual]
        tangents[at].fill_(1)
        point[at] = arguments[at]
        if at >= len(UNARY):
            other = at + 1 - 2 * ((at - len(UNARY)) % 2)
            point[other] = arguments[other]
        call = lambda *a: getattr(module(), function)(*a, zero)  # noqa: E731
        tangent = torch.func.jvp(call, tuple(point), tuple(tangents))[1]
        value, slope, _ = derivatives(name, plain)
        inside = ~value.isnan() & ~((plain[at] == 0) & (name == "rsqrt"))
        check(name, tangent.cpu()[inside], slope[inside], plain[at][inside], plain[0].dtype)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", ["of_halves", "of_floats"])
def test_second_derivatives_are_those_of_float64(function: str, device: str) -> None:
    plain, arguments = inputs(function, device, RANGES_TWICE)
    for one in arguments:
        one.requires_grad_()
    zero = torch.zeros((), dtype=plain[0].dtype, device=device)
    value = getattr(module(), function)(*arguments, zero).sum()
    gradients = torch.autograd.grad(value, arguments, create_graph=True)
    for at, name in enumerate(NAMES):
        weights = [torch.full_like(one, float(at == i)) for i, one in enumerate(gradients)]
        twice = torch.autograd.grad(gradients, arguments, weights, retain_graph=True)[at]
        y, slope, wanted = derivatives(name, plain)
        known = (
            y.to(plain[0].dtype).isfinite() & slope.to(plain[0].dtype).isfinite() & wanted.isfinite() & (plain[at] != 0)
        )
        check(f"{name}, twice,", twice.detach().cpu()[known], wanted[known], plain[at][known], plain[0].dtype)
