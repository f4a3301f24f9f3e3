"""Second derivatives of functions that take aggregates and call functions.

Note [known pairs] in csrc/compiler/wrap/known_pairs.h.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from long_tests import some_cases

import torch_slang

Tensor = torch.Tensor
SOURCE = """import torch_slang;
struct Pair { double a; double b; [Differentiable] double product(double x) { return a * b * x; } };
[Differentiable] double square(double x) { return x * x; }
[Differentiable] double pick(double v[2], int i) { return v[i % 2] * v[(i + 1) % 2] * v[0]; }
[Differentiable] double pick_early(double v[2], int i)
{
    [MaxIters(3)] for (int k = 0; k < 3; k++) { if (k == i % 3) return square(v[k % 2]) * v[1]; }
    return 0;
}
[Differentiable] double3 turned(double3 v) { return v.yzx * v.x; }
[Differentiable] double mixed(Pair p) { return square(p.a) * p.b; }
[Differentiable] T third<T : __BuiltinFloatingPointType>(T x) { return x * x * x; }
[Differentiable] double2x2 grown(double2x2 m, double x) { double2x2 r = m; r[0][1] = m[1][0] * x * m[0][0]; return r; }

[TorchOp] [Differentiable] double of_an_element(double n[4], int i) { return square(n[0]) * n[1]; }
[TorchOp] [Differentiable] double of_an_array(double n[4], int i)
{
    double v[2] = { n[1], n[3] };
    return pick(v, i) * n[0];
}
[TorchOp] [Differentiable] double of_a_return(double n[4], int i)
{
    double v[2] = { n[1], n[3] };
    return pick_early(v, i) * n[0];
}
[TorchOp] [Differentiable] double of_a_vector(double n[4], int i)
{
    double3 r = turned(double3(n[0], n[1], n[2]));
    return r[i % 3] * n[3];
}
[TorchOp] [Differentiable] double of_a_struct(double n[4], int i) { Pair p = { n[1], n[2] }; return mixed(p) * n[0]; }
[TorchOp] [Differentiable] double of_a_method(double n[4], int i)
{
    Pair p = { n[1], n[2] };
    return p.product(n[0]) * n[1];
}
[TorchOp] [Differentiable] double of_a_generic(double n[4], int i) { return third(n[i % 4]) * n[0]; }
[TorchOp] [Differentiable] double of_a_matrix(double n[4], int i)
{
    double2x2 m = double2x2(n[0], n[1], n[2], n[3]);
    double2x2 r = grown(m, n[1]);
    return r[0][1] * r[1][i % 2];
}
[TorchOp] [Differentiable] double of_a_loop(double n[4], int i)
{
    double r = n[3];
    [MaxIters(3)] for (int k = 0; k < 3; k++) { if (k != i) r = square(r) * n[k] + third(n[k + 1]); }
    return r;
}
"""


def of_a_return(n: Tensor, i: int) -> Tensor:
    v = (n[1], n[3])
    return v[i % 3 % 2] ** 2 * v[1] * n[0]


def of_a_loop(n: Tensor, i: int) -> Tensor:
    r = n[3]
    for k in range(3):
        if k != i:
            r = r * r * n[k] + n[k + 1] ** 3
    return r


# Of one row of four numbers.
REFERENCES: dict[str, Callable[[Tensor, int], Tensor]] = {
    "of_an_element": lambda n, i: n[0] ** 2 * n[1],
    "of_an_array": lambda n, i: n[1] * n[3] * n[1] * n[0],
    "of_a_return": of_a_return,
    "of_a_vector": lambda n, i: n[(i + 1) % 3] * n[0] * n[3],
    "of_a_struct": lambda n, i: n[1] ** 2 * n[2] * n[0],
    "of_a_method": lambda n, i: n[1] ** 2 * n[2] * n[0],
    "of_a_generic": lambda n, i: n[i % 4] ** 3 * n[0],
    "of_a_matrix": lambda n, i: n[2] * n[1] * n[0] * n[2 + i % 2],
    "of_a_loop": of_a_loop,
}


@pytest.fixture(scope="module")
def module() -> torch_slang.Module:
    return torch_slang.load(source=SOURCE, name="known_pairs", namespace="known_pairs")


@some_cases(3)
@pytest.mark.parametrize("name", REFERENCES)
def test_calls_have_second_derivatives(module: torch_slang.Module, device: torch.device, name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    rows = (2 * torch.rand((3, 4), generator=generator, dtype=torch.float64) - 1).to(device).requires_grad_()
    weights = torch.rand((3, 4), generator=generator, dtype=torch.float64).to(device)
    integers = torch.arange(3, dtype=torch.int32, device=device)

    def ours(rows: Tensor) -> Tensor:
        return getattr(module, name)(rows, integers)

    def theirs(rows: Tensor) -> Tensor:
        return torch.stack([REFERENCES[name](row, i) for i, row in enumerate(rows)])

    torch.testing.assert_close(ours(rows), theirs(rows))
    gradients = [torch.autograd.grad(f(rows).sum(), rows, create_graph=True)[0] for f in (ours, theirs)]
    torch.testing.assert_close(*gradients)
    torch.testing.assert_close(*(torch.autograd.grad((g * weights).sum(), rows)[0] for g in gradients))
    assert torch.autograd.gradcheck(ours, (rows,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(ours, (rows,))
