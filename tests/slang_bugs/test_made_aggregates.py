"""Aggregates that functions make of numbers and change in a branch. Slang writes them part by part: lost_copies.h."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from long_tests import dear_file

import torch_slang

pytestmark = dear_file

Tensor = torch.Tensor

SOURCE = """
import torch_slang;
struct Two : IDifferentiable { double a[2]; double b; };

[Differentiable] double of_arrays(double a, double b, double c, double d, double x, int i)
{
    double v[2] = {a, b};
    double w[2] = {c, d};
    if (x > 0)
    {
        w[1] = sin(w[1]) * (w[i % 2] * x);
        v[i % 2] += v[0] * v[1];
    }
    return w[i % 2] * v[1];
}
[Differentiable] double of_arguments(double v[2], double w[2], double x, int i)
{
    if (x > 0)
    {
        w[1] = sin(w[1]) * (w[i % 2] * x);
        v[i % 2] += v[0] * v[1];
    }
    return w[i % 2] * v[1];
}
[Differentiable] double of_helper(double a, double b, double c, double d, double x, int i)
{
    double v[2] = {a, b};
    double w[2] = {c, d};
    return of_arguments(v, w, x, i);
}
[Differentiable] double of_structs(double a, double b, double c, double d, double x, int i)
{
    Two v = {{a, b}, c};
    Two w = {{c, d}, a};
    if (x > 0)
    {
        w.a[1] = sin(w.a[1]) * (w.a[i % 2] * x);
        v.a[i % 2] += v.a[0] * v.a[1];
        w.b = v.b * x;
    }
    return w.a[i % 2] * v.a[1] + w.b * v.b;
}
"""


def of_arrays(v: list[Tensor], w: list[Tensor], x: Tensor, i: int) -> Tensor:
    if x > 0:
        w[1] = torch.sin(w[1]) * (w[i % 2] * x)
        v[i % 2] = v[i % 2] + v[0] * v[1]
    return w[i % 2] * v[1]


def of_structs(v: list[Tensor], w: list[Tensor], x: Tensor, i: int) -> Tensor:
    b, other_b = w[0], v[0]  # c and a, which stay as they are
    if x > 0:
        other_b = b * x
    return of_arrays(v, w, x, i) + other_b * b


def derivatives(function: Callable[[Tensor], Tensor], point: Tensor, direction: Tensor) -> list[Tensor]:
    """The value, its gradient, its tangent, and the gradient's derivative along the direction."""
    x = point.clone().requires_grad_()
    value = function(x)
    (gradient,) = torch.autograd.grad(value, x, create_graph=True)
    (second,) = torch.autograd.grad((gradient * direction).sum(), x)
    _, tangent = torch.func.jvp(function, (point,), (direction,))
    return [one.detach().cpu() for one in (value, gradient, tangent, second)]


@pytest.mark.parametrize(
    ("name", "reference"), [("of_arrays", of_arrays), ("of_helper", of_arrays), ("of_structs", of_structs)]
)
def test_all_derivatives_of_aggregates_made_of_numbers(name: str, reference: Callable, device: torch.device) -> None:
    function = getattr(torch_slang.load(source=SOURCE, name="made", namespace="made_aggregates"), name)
    direction = torch.tensor([0.5, -0.2, 0.9, 0.1, 0.3], dtype=torch.float64)
    for i, x in [(0, 0.7), (1, 0.7), (0, -0.7), (1, -0.7)]:
        point = torch.tensor([0.3, 1.1, -0.4, 0.8, x], dtype=torch.float64)
        actual = derivatives(lambda p, i=i: function(*p.unbind(), i), point.to(device), direction.to(device))
        expected = derivatives(
            lambda p, i=i: reference(list(p[:2].unbind()), list(p[2:4].unbind()), p[4], i), point, direction
        )
        for one, other in zip(actual, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
