"""Constants that are passed as `inout`: Slang's least optimised text has no value for their tangents.

Note [unset values] in csrc/compiler/emit/unset_values.h.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from long_tests import dear_test

import torch_slang

Tensor = torch.Tensor
# `swapped` has that text emitted with the least optimisation: Note [lost copies] in csrc/compiler/emit/lost_copies.h.
SOURCE = """
[Differentiable] void bump(inout double a, inout double b, double x) { b = b + a * x; a = a + x * x; }
[Differentiable] double2 swapped(double2 s, double2 u, double x)
{
    if (x > 0) { s.y = x * s.y; } else { u.y = u.y * x; double2 t = s; s = u; u = t; }
    return s * u;
}
double plain(double x) { return 2 * x; }
[Differentiable] double mixed(double2 s, double2 u, double x)
{
    double a = 0, b = detach(x), c = no_diff plain(x), d = 3;
    bump(a, b, x);
    bump(c, d, x);
    double2 r = swapped(s, u, x);
    return a * b + c * d + r.x * r.y;
}
"""


def mixed(s: Tensor, u: Tensor, x: Tensor) -> Tensor:
    def bump(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return a + x * x, b + a * x

    (a, b), (c, d) = bump(torch.zeros_like(x), x.detach()), bump(2 * x.detach(), torch.full_like(x, 3))
    positive = torch.stack([s[:, 0], x * s[:, 1]], 1) * u
    negative = torch.stack([u[:, 0], u[:, 1] * x], 1) * s
    r = torch.where(x[:, None] > 0, positive, negative)
    return a * b + c * d + r[:, 0] * r[:, 1]


@pytest.fixture
def inputs(device: torch.device) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(1)
    s, u = (torch.randn(6, 2, generator=generator, dtype=torch.float64).to(device) for _ in range(2))
    return s, u, torch.tensor([0.7, -0.6, 1.2, -1.1, 0.3, -0.4], dtype=torch.float64, device=device)


def test_constants_passed_as_inout_have_no_tangent(inputs: tuple[Tensor, ...]) -> None:
    f = torch_slang.load(source=SOURCE, name="unset", namespace="unset").mixed
    torch.testing.assert_close(torch.func.jvp(f, inputs, inputs)[1], torch.func.jvp(mixed, inputs, inputs)[1])


@dear_test
def test_their_second_derivatives_are_right(inputs: tuple[Tensor, ...]) -> None:
    f = torch_slang.load(source=SOURCE, name="unset", namespace="unset").mixed

    def seconds(run: Callable[..., Tensor]) -> tuple[Tensor, ...]:
        leaves = [x.clone().requires_grad_() for x in inputs]
        first = torch.autograd.grad(run(*leaves).sum(), leaves, create_graph=True)
        return first + torch.autograd.grad(first[0].sum() + 2 * first[1].sum() + 3 * first[2].sum(), leaves)

    torch.testing.assert_close(seconds(f), seconds(mixed), rtol=1e-10, atol=1e-10)
