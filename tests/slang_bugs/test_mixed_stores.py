"""Arrays with stores to whole elements and to parts of elements, by constant indices.

Note [mixed stores] in csrc/compiler/ir/mixed_stores.h.
"""

from __future__ import annotations

import itertools

import pytest
import torch
from long_tests import some_cases

import torch_slang

Tensor = torch.Tensor

HEAD = """import torch_slang;
struct Pair : IDifferentiable { double a; double2 b; double c[2]; }
[Differentiable] void scale(inout double a, double x) { a = a * x * a; }
[Differentiable] void renew(inout Pair p, double x) { p.a *= x; p.c[0] = x * p.b.x; }
[Differentiable] void fill(inout Pair v[2], double x, double z) { v[1].b.y = x * z; v[0] = v[1]; }
[ForceInline] [Differentiable] void fill_inline(inout Pair v[2], double x, double z) { v[1].c[1] *= x; v[0] = v[1]; }
[Differentiable] T mixed<T : __BuiltinFloatingPointType>(T x, T z, int i)
{
    vector<T, 2> v[2] = {vector<T, 2>(x, z), vector<T, 2>(z, x)};
    v[1].x = x * z;
    v[0] = vector<T, 2>(x, x * z);
    return v[i % 2].x * v[(i + 1) % 2].y;
}
"""

# For each kind of array four texts: its declaration, the returned expression, a store to a part of an element, and a
# store to a whole element.
STRUCT = (
    "Pair v[2] = {{x, double2(z, x), {x, z}}, {z, double2(x, x), {z, x * z}}};",
    "v[i % 2].a * v[i % 2].b.y * v[j % 2].c[i % 2] + v[0].b.x * v[1].c[0]",
)
KINDS = {
    "struct": (*STRUCT, "v[{k}].a = x * z;", "Pair t{k} = v[{l}]; t{k}.a *= x; v[{k}] = t{k};"),
    "vector_in_a_struct": (*STRUCT, "v[{k}].b.y *= z;", "v[{k}] = v[{l}];"),
    "array_in_a_struct": (*STRUCT, "v[{k}].c[1] = x * z;", "v[{k}] = v[{l}];"),
    "call_with_a_part": (*STRUCT, "scale(v[{k}].a, z);", "v[{k}] = v[{l}];"),
    "call_with_an_element": (*STRUCT, "v[{k}].b.x = x * z;", "renew(v[{k}], x);"),
    "vector": (
        "double3 v[2] = {double3(x, z, x), double3(z, z, x)};",
        "v[i % 2].y * v[j % 2][i % 3] + v[0].x * v[1].z",
        "v[{k}].x = x * z;",
        "v[{k}] = double3(x * z, v[{l}].y, x);",
    ),
    "components": (
        "double3 v[2] = {double3(x, z, x), double3(z, z, x)};",
        "v[i % 2].y * v[j % 2][i % 3] + v[0].x * v[1].z",
        "v[{k}].zx = double2(x * z, z);",
        "v[{k}] = v[{l}] * x;",
    ),
    "array": (
        "double v[2][2] = {{x, z}, {x * z, x}};",
        "v[i % 2][j % 2] * v[1][0] + v[0][1] * z",
        "v[{k}][1] = x * z;",
        "double t{k}[2] = {{x, x * x}}; v[{k}] = t{k};",
    ),
    "matrix": (
        "double2x2 v[2] = {double2x2(x, z, z, x), double2x2(z, x, x, x * z)};",
        "v[i % 2][j % 2][0] * v[1][0][1] + v[0][1][1] * z",
        "v[{k}][1][0] = x * z;",
        "v[{k}] = v[{l}] * x;",
    ),
}


def bodies_of_kinds() -> dict[str, str]:
    found = {}
    for (kind, (declared, read, part, whole)), part_first, k in itertools.product(KINDS.items(), (True, False), (0, 1)):
        stores = [part.format(k=k, l=1 - k), whole.format(k=1 - k, l=k)]
        text = " ".join(stores if part_first else reversed(stores))
        found[f"{kind}_{k}_{'part' if part_first else 'whole'}_first"] = f"{declared} {text} return {read};"
    return found


BODIES = bodies_of_kinds() | {
    "both_indices": f"{STRUCT[0]} v[0].a = x * z; v[1].b.x *= x; v[0] = v[1]; v[1] = v[0]; return {STRUCT[1]};",
    "in_a_branch": f"""{STRUCT[0]}
        if (x > z) {{ v[1].a = x * z; v[0] = v[1]; }} else v[0].c[1] *= x; return {STRUCT[1]};""",
    "in_a_loop": f"""{STRUCT[0]}
        [MaxIters(2)] for (int k = 0; k < 2; ++k) {{ v[1].a *= z; v[0] = v[1]; }} return {STRUCT[1]};""",
    "by_an_unrolled_index": f"""{STRUCT[0]}
        [ForceUnroll] for (int k = 0; k < 2; ++k) {{ v[k].a *= z; v[1 - k] = v[k]; }} return {STRUCT[1]};""",
    "in_an_inout_parameter": f"{STRUCT[0]} fill(v, x, z); return {STRUCT[1]};",
    "in_an_inlined_function": f"{STRUCT[0]} fill_inline(v, x, z); return {STRUCT[1]};",
    "in_a_generic_function": "return mixed(x, z, i) * x;",
    "of_three": """double v[3][2] = {{x, z}, {x * z, x}, {z, z}};
        v[1][1] = x * z; double t[2] = {x, x * x}; v[0] = t; v[2] = t;
        return v[i % 3][0] * v[j % 3][1];""",
    "an_array_in_an_array": """double v[2][2][2] = {{{x, z}, {x * z, x}}, {{z, z}, {x, x}}};
        v[0][0][1] = x * z; double t[2] = {x, x * x}; v[0][1] = t; v[1] = v[0];
        return v[i % 2][j % 2][0] * v[j % 2][1][1];""",
}


@pytest.fixture(scope="module")
def module() -> torch_slang.Module:
    functions = "".join(
        f"[TorchOp] [Differentiable] double {name}(double x, double z, int i, int j)\n{{\n{body}\n}}\n"
        for name, body in BODIES.items()
    )
    return torch_slang.load(source=HEAD + functions, name="mixed_stores", namespace="mixed_stores")


@some_cases(4)
@pytest.mark.parametrize("name", BODIES)
def test_derivatives_are_those_of_differences(module: torch_slang.Module, name: str, device: torch.device) -> None:
    i, j = torch.cartesian_prod(torch.arange(6), torch.arange(2)).int().to(device).unbind(1)
    x = torch.linspace(0.3, 1.7, 12, dtype=torch.float64, device=device, requires_grad=True)
    z = (1.21 - x.detach().sin() ** 2).requires_grad_()

    def f(x: Tensor, z: Tensor) -> Tensor:
        return getattr(module, name)(x, z, i, j)

    assert torch.autograd.gradcheck(f, (x, z), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, (x, z))
