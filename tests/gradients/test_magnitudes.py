"""Derivatives of quotients and functions of Slang's core for numbers of all magnitudes, beside float64."""

from collections.abc import Callable

import pytest
import torch
from cases import FOLDER
from devices import DEVICES
from long_tests import dear_file

import torch_slang

pytestmark = dear_file

Tensor = torch.Tensor
UNARY = "sqrt rsqrt rcp log log2 log10 exp exp2 tan tanh asin acos atan asinh acosh atanh".split()
BINARY = "over pow atan2 fmod".split()
NAMES = UNARY + [f"{name}.{which}" for name in BINARY for which in "ab"]
# The smallest and largest magnitudes; those whose second derivatives have no intermediate beyond the type.
RANGES = {torch.half: (-5, 4.5), torch.float: (-37.5, 37.5), torch.double: (-37.5, 37.5)}
RANGES_TWICE = {torch.half: (-1, 1), torch.float: (-9, 9), torch.double: (-37.5, 37.5)}
ULPS = 40  # pow's last, with an exponent that rounds
SHAPES = {"of_vectors": (2,), "of_matrices": (2, 2)}
SOME = ["sqrt", "tanh", "over.a", "over.b", "pow.a", "pow.b"]  # of vectors and matrices
FUNCTIONS = {
    "of_halves": torch.half,
    "of_floats": torch.float,
    "of_doubles": torch.double,
    "of_vectors": torch.float,
    "of_matrices": torch.float,
}


def names(function: str) -> list[str]:
    return SOME if function in SHAPES else NAMES


def module() -> torch_slang.Module:
    return torch_slang.load(str(FOLDER / "magnitudes.slang"), namespace="magnitudes")


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


def derivatives(name: str, arguments: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """The value, the first and the second derivative by that argument, in float64, by PyTorch."""
    function = name.partition(".")[0]
    x = {one: arguments[one].double().requires_grad_() for one in arguments if one.partition(".")[0] == function}
    y = reference(function)(*x.values())
    by = x[name]
    if name == "tanh":  # PyTorch's 1 - y * y is 0 from 20 on
        slope = by.cosh().reciprocal() ** 2
        return y.detach(), slope.detach(), (-2 * y * slope).detach()
    slope = torch.autograd.grad(y.sum(), by, create_graph=True)[0]
    if not slope.requires_grad:
        return y.detach(), slope, torch.zeros_like(slope)
    twice = torch.autograd.grad(slope.sum(), by, materialize_grads=True)[0]
    return y.detach(), slope.detach(), twice.detach()


def check(name: str, found: Tensor, wanted: Tensor, of: Tensor, dtype: torch.dtype) -> None:
    """Equal but for some units of the last place, or of a number near the smallest; both infinite; or both NaN."""
    info = torch.finfo(dtype)
    wanted = wanted.to(dtype).double().reshape(-1, *[1] * (found.dim() - 1)).expand_as(found)
    found = found.cpu().double()
    near = (found - wanted).abs() <= ULPS * info.eps * wanted.abs().clamp(min=10 * info.tiny)
    same = near | (found == wanted) | (found.isnan() & wanted.isnan())
    same = same | ((found.abs() > info.max / 2) & (wanted.abs() > info.max / 2) & (found.sign() == wanted.sign()))
    bad = ~same.reshape(len(same), -1).all(1)
    cases = list(zip(of[bad].tolist(), found[bad].tolist(), wanted[bad].tolist(), strict=True))
    assert not cases, f"{name} in {dtype}: argument, found, wanted: {cases[:5]} of {len(cases)}"


def inputs(
    function: str, device: str, ranges: dict[torch.dtype, tuple[float, float]]
) -> tuple[dict[str, Tensor], list[Tensor]]:
    """The numbers by name, and the arguments whose components they all are."""
    dtype = FUNCTIONS[function]
    shape = SHAPES.get(function, ())
    plain = [one for name, one in zip(NAMES, grid(dtype, ranges), strict=True) if name in names(function)]
    spread = [one.reshape(-1, *[1] * len(shape)).expand(-1, *shape).clone().to(device) for one in plain]
    return dict(zip(names(function), plain, strict=True)), spread


def inside(name: str, value: Tensor, of: Tensor) -> Tensor:
    """Where the function has a value; PyTorch's `rsqrt` has another sign at -0."""
    return ~value.isnan() & ~((of == 0) & (name == "rsqrt"))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_gradients_of_all_magnitudes_are_those_of_float64(function: str, device: str) -> None:
    plain, arguments = inputs(function, device, RANGES)
    dtype = FUNCTIONS[function]
    for one in arguments:
        one.requires_grad_()
    zero = torch.zeros((), dtype=dtype, device=device)
    gradients = torch.autograd.grad(getattr(module(), function)(*arguments, zero).sum(), arguments)
    for (name, of), gradient in zip(plain.items(), gradients, strict=True):
        value, slope, _ = derivatives(name, plain)
        known = inside(name, value, of)
        check(name, gradient.cpu()[known], slope[known], of[known], dtype)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", ["of_halves", "of_floats"])
def test_tangents_of_all_magnitudes_are_those_of_float64(function: str, device: str) -> None:
    plain, arguments = inputs(function, device, RANGES)
    dtype = FUNCTIONS[function]
    given = dict(zip(plain, arguments, strict=True))
    zero = torch.zeros((), dtype=dtype, device=device)
    usual = {name: torch.full_like(one, 1.5 if name == "acosh" else 0.5) for name, one in given.items()}
    tangents = {name: torch.zeros_like(one) for name, one in usual.items()}
    for name, of in plain.items():
        same = {one: x for one, x in given.items() if one.partition(".")[0] == name.partition(".")[0]}
        point = tuple((usual | same).values())
        along = tuple((tangents | {name: torch.ones_like(given[name])}).values())
        tangent = torch.func.jvp(lambda *a: getattr(module(), function)(*a, zero), point, along)[1]
        value, slope, _ = derivatives(name, plain)
        known = inside(name, value, of) & value.to(dtype).isfinite()  # a zero tangent times an infinite quotient is NaN
        check(name, tangent.cpu()[known], slope[known], of[known], dtype)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", ["of_halves", "of_floats"])
def test_second_derivatives_are_those_of_float64(function: str, device: str) -> None:
    plain, arguments = inputs(function, device, RANGES_TWICE)
    dtype = FUNCTIONS[function]
    for one in arguments:
        one.requires_grad_()
    zero = torch.zeros((), dtype=dtype, device=device)
    value = getattr(module(), function)(*arguments, zero).sum()
    gradients = torch.autograd.grad(value, arguments, create_graph=True)
    for at, (name, of) in enumerate(plain.items()):
        weights = [torch.full_like(one, float(at == i)) for i, one in enumerate(gradients)]
        twice = torch.autograd.grad(gradients, arguments, weights, retain_graph=True)[at]
        y, slope, wanted = derivatives(name, plain)
        known = y.to(dtype).isfinite() & slope.to(dtype).isfinite() & wanted.isfinite() & (of != 0)
        check(f"{name}, twice,", twice.detach().cpu()[known], wanted[known], of[known], dtype)


@pytest.mark.parametrize("device", DEVICES)
def test_lengths_of_all_magnitudes_have_gradients_of_their_own(device: str) -> None:
    scale = 10.0 ** torch.linspace(-37, 37, 75, dtype=torch.double)[:, None]
    v = scale * torch.tensor([[1.0, -2, 0.5]], dtype=torch.double)
    w = torch.tensor([0.3, 0.7, -0.2], dtype=torch.double).expand_as(v)
    x = [v.float().to(device).requires_grad_() for _ in range(3)]
    found = torch.autograd.grad(module().lengths(*x, w.float().to(device)).sum(), x)
    y = [v.float().double().requires_grad_() for _ in range(3)]
    norms = [one.norm(dim=1) for one in y]
    wanted = torch.autograd.grad((norms[0] + norms[1]).sum() + (y[2] / norms[2][:, None] * w.float().double()).sum(), y)
    for one, other in zip(found, wanted, strict=True):
        error = (one.cpu().double() - other).norm(dim=1) / other.norm(dim=1)
        fits = other.abs().amax(1) < 1e38
        assert error[fits].max() < 1e-5
    zero = torch.zeros(1, 3, device=device, requires_grad=True)
    some = torch.ones(1, 3, device=device)
    gradient = torch.autograd.grad(module().lengths(zero, some, some, some).sum(), zero)[0]
    assert gradient.tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("device", DEVICES)
def test_quotients_of_vectors_and_in_loops(device: str) -> None:
    def plain(a: Tensor, b: Tensor, c: Tensor, d: Tensor, e: Tensor) -> Tensor:
        return (a / b[:, None]).sum(1) + (d[:, None] / c).sum(1) + d / e**3

    scale = 10.0 ** torch.linspace(-12, 12, 25)
    vector = scale[:, None] * torch.tensor([1.0, -2, 3])
    x = [one.to(device).requires_grad_() for one in (vector.clone(), scale * 2, vector * 3, scale * 1.5, scale * 0.7)]
    found = torch.autograd.grad(module().quotients(*x).sum(), x)
    y = [one.detach().cpu().double().requires_grad_() for one in x]
    wanted = torch.autograd.grad(plain(*y).sum(), y)
    for one, other in zip(found, wanted, strict=True):
        known = other.abs() < 1e37
        torch.testing.assert_close(one.cpu().double()[known], other[known], rtol=1e-5, atol=1e-37)
