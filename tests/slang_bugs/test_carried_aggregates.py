"""Several aggregates that a loop or a branch carries, wholes and elements of which are assigned; to second derivatives.

Note [lost copies] in csrc/compiler/emit/lost_copies.h. In the forward derivative's backward only the branch in which a
loop goes on leaves values behind.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from long_tests import some_cases

import torch_slang

Tensor = torch.Tensor
Values = dict[str, list[Tensor]]  # the two numbers of each variable

HEAD = """import torch_slang;
struct Pair : IDifferentiable { double a; double b; }
[Differentiable] double2 scaled(double2 v, double z) { return z * v; }
[Differentiable] Pair scaled(Pair v, double z) { return { z * v.a, z * v.b }; }
[Differentiable] double[2] scaled(double v[2], double z) { double r[2] = {z * v[0], z * v[1]}; return r; }
"""

# Of each type: a declaration with its two numbers, and the two.
TYPES = {
    "vector": ("double2 {0} = double2({1}, {2});", "{0}.x", "{0}[(i + 1) % 2]"),
    "array": ("double {0}[2] = {{{1}, {2}}};", "{0}[0]", "{0}[(i + 1) % 2]"),
    "struct": ("Pair {0} = {{{1}, {2}}};", "{0}.a", "{0}.b"),
}
STATEMENTS: dict[str, tuple[str, Callable[[Values, Tensor], list[Tensor]]]] = {  # the variable, and its new value
    "v = scaled(v, z);": ("v", lambda s, z: [z * s["v"][0], z * s["v"][1]]),
    "first(w) = z;": ("w", lambda s, z: [z, s["w"][1]]),
    "second(w) *= z;": ("w", lambda s, z: [s["w"][0], s["w"][1] * z]),
    "u = w;": ("u", lambda s, z: s["w"]),
    "v = u;": ("v", lambda s, z: s["u"]),
    "second(u) = first(v) * z;": ("u", lambda s, z: [s["u"][0], s["v"][0] * z]),
}
PLACES = {  # i is 0 in one row, where a branch is not taken
    "loop": "[MaxIters(2)] for (int k = 0; k < 2; ++k) {{ {0} }}",
    "branch": "if (i > 0) {{ {0} }}",
    "branch_of_a_loop": "[MaxIters(2)] for (int k = 0; k < 2; ++k) {{ if (k < i) {{ {0} }} }}",
}
PASSES = {"loop": (2, 2), "branch": (0, 1), "branch_of_a_loop": (0, 2)}  # of the statements, in the row with i = 0, 2
CASES = list(itertools.product(TYPES, PLACES, itertools.permutations(STATEMENTS, 2)))


def text_of(kind: str, place: str, statements: tuple[str, ...]) -> str:
    declared, first, second = TYPES[kind]
    text = PLACES[place].format(" ".join(statements))
    for name in "uvw":
        text = text.replace(f"first({name})", first.format(name)).replace(f"second({name})", second.format(name))
    variables = " ".join(declared.format(name, f"a[{2 * n}]", f"a[{2 * n + 1}]") for n, name in enumerate("uvw"))
    read = " + ".join(f"{first.format(a)} * {second.format(b)}" for a, b in ("vw", "wu", "uv", "ww"))
    head = "[TorchOp] [Differentiable] double run(double a[7], int i)"
    return f"{HEAD}{head}\n{{\n    {variables}\n    double z = a[6];\n    {text}\n    return {read};\n}}\n"


def expected(statements: tuple[str, ...], passes: int, a: Tensor) -> Tensor:
    values = {name: [a[2 * n], a[2 * n + 1]] for n, name in enumerate("uvw")}
    for statement in statements * passes:
        variable, new = STATEMENTS[statement]
        values[variable] = new(values, a[6])
    u, v, w = values["u"], values["v"], values["w"]
    return v[0] * w[1] + w[0] * u[1] + u[0] * v[1] + w[0] * w[1]


@some_cases(4)
@pytest.mark.parametrize(
    ("kind", "place", "statements"), CASES, ids=lambda part: part if isinstance(part, str) else " ".join(part)
)
def test_aggregates_that_are_carried(
    quick_compiles: None, kind: str, place: str, statements: tuple[str, ...], device: torch.device
) -> None:
    name = f"carried_aggregates_{CASES.index((kind, place, statements))}"
    module = torch_slang.load(source=text_of(kind, place, statements), name=name, namespace=name)
    generator = torch.Generator().manual_seed(1)
    numbers, tangents, weights = 2 * torch.rand(3, 2, 7, generator=generator, dtype=torch.float64) - 1
    i = torch.tensor([0, 2], dtype=torch.int32, device=device)

    def derivatives(function: Callable[[Tensor], Tensor], on: torch.device) -> list[Tensor]:
        x = numbers.to(on).requires_grad_()
        value, tangent = torch.func.jvp(function, (x.detach(),), (tangents.to(on),))
        (gradient,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad((gradient * weights.to(on)).sum(), x)
        return [found.detach().cpu() for found in (value, tangent, gradient, second)]

    def reference(x: Tensor) -> Tensor:
        return torch.stack([expected(statements, n, row) for n, row in zip(PASSES[place], x, strict=True)])

    found = derivatives(lambda x: module.run(x, i), device)
    for one, other in zip(found, derivatives(reference, torch.device("cpu")), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11)
