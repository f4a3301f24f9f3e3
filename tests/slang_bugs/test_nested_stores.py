"""Stores to an element inside an element: where Slang's backward loses an index, a copy of the outer one is changed."""

from __future__ import annotations

import pytest
import torch

import torch_slang

HEAD = """import torch_slang;
struct Pair : IDifferentiable { double a; double2 b; double c[3]; }
[Differentiable] void scale(inout double a, double x) { a = a * x * a; }
[Differentiable] void exchange(inout double a, inout double b, double x) { double t = a; a = b * x; b = t; }
[Differentiable] void fill(inout Pair p[2], double x, int i, int j)
{
    p[i % 2].c[j % 3] = x * p[1].a;
    p[j % 2] = p[(i + 1) % 2];
}
"""
FUNCTION = """
[Differentiable] double NAME_of(double m[2][2], Pair p[2], double3 v[2], double2x2 a, double x, double y, int i, int j)
{
    BODY
    return m[0][0] * m[i % 2][j % 2] + m[1][1] * y + p[0].a * p[i % 2].b[j % 2] + p[1].c[2] * p[j % 2].c[i % 3]
        + p[0].b.x + v[0].x * v[i % 2][j % 3] + v[1].y * v[1].z * x + a[0][0] * a[i % 2][j % 2];
}
[Differentiable] double NAME(double x, double y, int i, int j)
{
    double m[2][2] = {{x, y}, {x * y, x}};
    Pair p[2] = {{x, double2(y, x), {x, y, x}}, {y, double2(x, x), {x * x, y, y}}};
    double3 v[2] = {double3(x, y, x), double3(y, y, x)};
    double2x2 a = double2x2(x, y, y, x * y);
    double result = 0.0;
    if (i < 6) result = NAME_of(m, p, v, a, x, y, i, j);
    return result;
}
"""
BODIES = {
    "array": "m[i % 2][j % 2] = y * x; m[j % 2] = m[(i + 1) % 2];",
    "matrix": "a[j % 2][i % 2] *= x; a[i % 2] = a[(j + 1) % 2];",
    "part_of_a_struct": "p[i % 2].b[i % 2] = x * y; p[j % 2] = p[(i + 1) % 2];",
    "field": "p[i % 2].a *= x; p[0].c[j % 3] = p[1].a; p[j % 2] = p[(i + 1) % 2];",
    "component": "v[i % 2].y = x * v[1].x; v[j % 2][i % 3] *= y; v[j % 2] = v[(i + 1) % 2];",
    "several_components": "v[i % 2].zx = double2(x * y, v[1].x); v[j % 2] = v[(i + 1) % 2];",
    "in_a_branch": "if (x > y) { m[i % 2][j % 2] = x * x; m[j % 2] = m[(i + 1) % 2]; } else m[i % 2][0] *= y;",
    "in_a_loop": """[MaxIters(2)] for (int k = 0; k < i % 3; ++k) {
        p[0].c[0] = sin(p[1].a) * x; p[j % 2].c[k] = y * p[0].c[0]; p[1] = p[k % 2];
    }""",
    "argument_that_a_call_changes": "scale(m[i % 2][j % 2], y); m[j % 2] = m[(i + 1) % 2];",
    "inout_parameter": "fill(p, x * y, i, j); fill(p, y, j, i);",
}


@pytest.fixture(scope="module")
def module() -> torch_slang.Module:
    functions = "".join(FUNCTION.replace("NAME", name).replace("BODY", body) for name, body in BODIES.items())
    return torch_slang.load(source=HEAD + functions, name="nested_stores", namespace="nested_stores")


def arguments(device: torch.device) -> list[torch.Tensor]:
    grid = torch.cartesian_prod(torch.arange(6), torch.arange(3)).int().to(device)
    x = torch.linspace(0.3, 1.7, 18, dtype=torch.float64, device=device, requires_grad=True)
    y = (1.21 - x.detach().sin() ** 2).requires_grad_()
    return [x, y, *grid.unbind(1)]


@pytest.mark.parametrize("name", BODIES)
def test_gradients_are_those_of_differences(module: torch_slang.Module, name: str, device: torch.device) -> None:
    x, y, i, j = arguments(device)
    assert torch.autograd.gradcheck(lambda x, y: getattr(module, name)(x, y, i, j), (x, y))


def test_two_places_that_one_call_changes_are_right_or_refused(device: torch.device) -> None:
    """Each would be copied with the element around it, and may lie in the same one."""
    body = "exchange(m[i % 2][0], m[j % 2][1], x); m[j % 2][j % 2] *= x;"
    source = HEAD + FUNCTION.replace("NAME", "f").replace("BODY", body)
    f = torch_slang.load(source=source, name="two_places", namespace="nested_stores_two").f
    x, y, i, j = arguments(device)
    try:
        f(x, y, i, j).sum().backward()
    except RuntimeError as error:
        assert "copy the outer element to a variable" in str(error)  # noqa: PT017
        return
    assert torch.autograd.gradcheck(lambda x, y: f(x, y, i, j), (x, y))
