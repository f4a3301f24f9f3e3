"""Elements' parts that a loop assigns: Slang's backward forgets which, so the element is changed in a copy."""

from __future__ import annotations

import pytest
import torch

import torch_slang

SOURCE = """import torch_slang;
struct Pair : IDifferentiable { double a; double c[3]; }
[Differentiable] double NAME(double x, no_diff int i)
{
    Pair v[2];
    for (int e = 0; e < 2; ++e) { v[e].a = x; v[e].c[0] = x * e; v[e].c[1] = x; v[e].c[2] = x * x; }
    [MaxIters(2)] for (int k = 0; k < i % 3; ++k)
    {
        BODY
        v[1] = v[k % 2];
    }
    return v[1].c[0] * v[i % 2].c[0] + v[0].a;
}
"""
BODIES = {
    "component": "v[0].c[0] = sin(v[1].a) * x;",
    "part": "double q[3] = v[0].c; q[0] = sin(v[1].a) * x; v[0].c = q;",
    "copied": "Pair p = v[0]; p.c[0] = sin(v[1].a) * x; v[0] = p;",
}


def load(name: str) -> torch_slang.Module:
    source = SOURCE.replace("NAME", name).replace("BODY", BODIES[name])
    return torch_slang.load(source=source, name=name, namespace=f"lost_{name}")


def reference(x: torch.Tensor, i: int) -> torch.Tensor:
    first, second = 0 * x, x  # v[0].c[0], v[1].c[0]
    for k in range(min(i % 3, 2)):
        first = torch.sin(x) * x
        second = first if k == 0 else second
    return second * (first, second)[i % 2] + x


@pytest.mark.parametrize("name", BODIES)
def test_the_gradient_is_that_of_the_part(name: str, device: torch.device) -> None:
    f = getattr(load(name), name)
    i = torch.arange(6, dtype=torch.int32)
    x = torch.linspace(0.3, 1.7, 6, dtype=torch.float64, requires_grad=True)
    expected = torch.stack([reference(x[n], n) for n in range(6)])
    given = x.detach().to(device).requires_grad_()
    result = f(given, i.to(device))
    torch.testing.assert_close(result.detach().cpu(), expected.detach())
    gradient = torch.autograd.grad(result.sum(), given)[0]
    torch.testing.assert_close(gradient.cpu(), torch.autograd.grad(expected.sum(), x)[0])
    assert torch.autograd.gradcheck(lambda x: f(x, i.to(device)), given)
