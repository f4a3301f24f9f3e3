"""length, distance, dot and kin of numbers instead of vectors: derivatives of every order, inside of helpers too."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import torch_slang

Tensor = torch.Tensor
SOURCE = """
import torch_slang;
[Differentiable] T all<T : __BuiltinFloatingPointType>(T x, T y)
{
    return length(x) * distance(x, y) + normalize(x) + dot(x, y) * reflect(x, y) + refract(x, y, T(0.5));
}
[Differentiable] void add<T : __BuiltinFloatingPointType>(inout T sum, T x) { sum += length(x); }
[Differentiable] T inside<T : __BuiltinFloatingPointType>(T x, T y)
{
    T sum = y;
    add(sum, x);
    return sum * sum;
}
"""


def all_of(x: Tensor, y: Tensor) -> Tensor:
    along = x * y
    refracted = 0.5 * x - y * (0.5 * along + (1 - 0.25 * (1 - along**2)).sqrt())
    return x.abs() * (x - y).abs() + x.sign() + x * y * (x - 2 * along * y) + refracted


def inside(x: Tensor, y: Tensor) -> Tensor:
    return (y + x.abs()) ** 2


@pytest.mark.parametrize("reference", [all_of, inside])
def test_values_and_derivatives_are_pytorchs(device: torch.device, reference: Callable[..., Tensor]) -> None:
    name = f"geometry_of_numbers_{device.type}"
    module = torch_slang.load(source=SOURCE, name=name, namespace=name)
    function = module.all if reference is all_of else module.inside
    generator = torch.Generator().manual_seed(1)
    x, y = (2 * torch.rand(16, generator=generator, dtype=torch.float64) - 1 for _ in range(2))
    x, y = (tensor.to(device).requires_grad_() for tensor in (x, y))
    torch.testing.assert_close(function(x, y), reference(x, y))
    assert torch.autograd.gradcheck(function, (x, y), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(function, (x, y))
    assert function(x.detach().half(), y.detach().half()).dtype == torch.half
