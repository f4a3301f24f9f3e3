"""Loops that copy an aggregate and change a part of the copy.

Note [copies in loops] in csrc/compiler/ir/loop_copies.h. Expected values come from the same program with its loops
unrolled, which Slang differentiates right, and from finite differences.
"""

from __future__ import annotations

import itertools
import re

import pytest
import torch
from long_tests import some_cases

import torch_slang

Tensor = torch.Tensor

# Of each type: its name before and behind a variable's; a value of x and y; a part of it; its sum, as a number.
TYPES = {
    "vector": ("double2", "", "double2(x, y)", "[{k}]", "{v}.x * {v}.y"),
    "vector_of_3": ("double3", "", "double3(x, y, x * y)", "[{k}]", "{v}.x * {v}.y + {v}.z"),
    "matrix": ("double2x2", "", "double2x2(x, y, y, x * y)", "[{k}][1]", "determinant({v}) + {v}[0].x"),
    "row_of_a_matrix": ("double2x2", "", "double2x2(x, y, y, x * y)", "[{k}].yx", "determinant({v}) + {v}[0].x"),
    "struct": ("Pair", "", "Pair(double2(x, y), x)", ".b[{k}]", "{v}.b.x * {v}.b.y * {v}.c"),
    "number_of_a_struct": ("Pair", "", "Pair(double2(x, y), x)", ".c", "{v}.b.x * {v}.b.y * {v}.c"),
    "nested_struct": ("Outer", "", "Outer(y, Pair(double2(x, y), x))", ".p.b[{k}]", "{v}.p.b.x * {v}.p.b.y * {v}.d"),
    "generic_struct": ("Box<double2>", "", "{double2(x, y), y}", ".v[{k}]", "{v}.v.x * {v}.v.y + {v}.w"),
    "array": ("double", "[2]", "{x, y}", "[{k}]", "{v}[0] * {v}[1]"),
    "array_of_vectors": (
        "double2",
        "[2]",
        "{double2(x, y), double2(y, x)}",
        "[{k}].x",
        "{v}[0].x * {v}[1].y + {v}[1].x",
    ),
}
HEAD = """import torch_slang;
struct Pair { double2 b; double c; __init(double2 b_, double c_) { b = b_; c = c_; } };
struct Outer { double d; Pair p; __init(double d_, Pair p_) { d = d_; p = p_; } };
struct Box<T : IDifferentiable> : IDifferentiable { T v; double w; };
#define COPY(to, from) to = from
[ForceInline] [Differentiable] T same<T : IDifferentiable>(T v) { return v; }
[ForceInline] [Differentiable] void give<T : IDifferentiable>(out T to, T v) { to = v; }
"""
HELPERS = """
[Differentiable] void change(inout {type} t{size}, int k, double z) {{ t{part} = PART(z); }}
[ForceInline] [Differentiable] void change_inlined(inout {type} t{size}, int k, double z) {{ t{part} = PART(z); }}
[ForceInline] [Differentiable] double used(inout double s, {type} t{size}, int k, double z)
{{ t{part} = PART(z); s += 0.5 * z; return {sum}; }}
[ForceInline] [Differentiable] double used_generic<T : __BuiltinFloatingPointType>(vector<T, 2> t, int k, T z)
{{ t[k] = z; return __realCast<double>(t.x * t.y); }}
"""
# How v begins.
BEGINNINGS = {
    "part": "v{one} = PART(z);",
    "branch": "if (x > y) {{ v = w; }}",
    "part_of_a_branch": "if (x > y) {{ v{one} = PART(z); }}",
    "loop": "LOOP(j) {{ v{j} = v{j} * SCALE; }}",
}
# What the loop does, to t, in iteration k.
COPIES = {
    "declared": "{type} t{size} = v; t{part} = PART(z); s += {sum};",
    "assigned": "u = v; u{part} = PART(z); s += {sum_u};",
    "in_a_macro": "COPY(u, v); u{part} = PART(z); s += {sum_u};",
    "twice": (
        "{type} t{size} = v; {type} r{size} = t; t{part} = PART(z); r{part_j} = PART(z + s); s += ({sum}) * ({sum_r});"
    ),
    "by_another": "{type} w0{size} = v; {type} t{size}; {type} r{size}; r = w0; t = r; t{part} = PART(z); s += {sum};",
    "in_a_branch": "if (k != 1) {{ u = v; u{part} = PART(z); }} s += {sum_u};",
    "by_a_call": "{type} t{size} = v; change(t, k, z); s += {sum};",
    "by_an_inlined_call": "{type} t{size} = v; change_inlined(t, k, z); s += {sum};",
    "in_an_inlined_call": "s += used(s, v, k, z);",
    "in_an_inner_loop": (
        "LOOP(j) {{ {type} t{size} = v; t{part} = PART(z); t{part_j} = PART(s); s += 0.5 * ({sum}); }}"
    ),
    "and_v_changes": "{type} t{size} = v; t{part} = PART(z); v{part} = PART(0.5 * z); s += {sum} + 0.3 * ({sum_v});",
}
# How the loop says v, and what stands before.
VALUES = {
    "in_brackets": "{type} t{size} = (v);",
    "one_of_two": "{type} t{size} = v; if (z > -9) t = (v);",
    "two_assignments": "{type} t{size}; t = u = v;",
    "element": "{type} q[2]{size} = {{v, v}}; {type} t{size} = q[1];",
    "optional": "Optional<{type}{size}> o = v; {type} t{size} = o.value;",
    "bound_optional": "Optional<{type}{size}> o = v; {type} t{size} = w; if (let q = o) t = q;",
    "tuple": "{type} t{size} = makeTuple(v, z)._0;",
    "inlined_call": "{type} t{size} = same(v);",
    "given_by_an_inlined_call": "{type} t{size}; give(t, v);",
    "no_operation": "{type} t{size} = reinterpret<{type}{size}>(v);",
}
VALUES_OF_NUMBERS = {  # vectors and matrices only
    "choice": "{type} t = z > -9 ? v : v;",
    "constructor": "{type} t = {type}(v);",
    "cast": "{type} t = ({type})v;",
    "list": "{type} t = {{v}};",
    "sign": "{type} t = +v;",
    "product": "{type} t = 1 * v;",
    "added": "{type} t = {type}(0); t += v;",
}
CHANGED = "t{part} = PART(z); s += {sum};"
COPIES |= {name: f"{value} {CHANGED}" for name, value in (VALUES | VALUES_OF_NUMBERS).items()}
COPIES["in_a_generic_call"] = "s += used_generic(v, k, z);"


def is_possible(kind: str, copy: str) -> bool:
    name, size, *_ = TYPES[kind]
    if copy == "in_a_generic_call":
        return kind == "vector"
    return copy not in VALUES_OF_NUMBERS or (name.startswith("double") and not size)


CASES = [
    (kind, beginning, copy)
    for kind, beginning, copy in itertools.product(TYPES, BEGINNINGS, COPIES)
    if is_possible(kind, copy)
]


def source(kind: str, beginning: str, copy: str, loop: str) -> str:
    name, size, value, part, total = TYPES[kind]
    words = {"type": name, "size": size}
    words |= {key: part.format(k=k) for key, k in (("one", "1"), ("j", "j"), ("part", "k"), ("part_j", "(1 - k)"))}
    words |= {key: total.format(v=v) for key, v in (("sum", "t"), ("sum_u", "u"), ("sum_v", "v"), ("sum_r", "r"))}
    body = f"{BEGINNINGS[beginning]} LOOP(k) {{{{ double z = s + a[k]; {COPIES[copy]} }}}}"
    other = re.sub(r"\bx\b", "(x + z)", value)
    return f"""{HEAD}#define LOOP(i) {loop} for (int i = 0; i < 2; ++i)
#define PART(z) {"double2(z, 0.7 * z)" if part.endswith(".yx") else "(z)"}
#define SCALE a[j]
{HELPERS.format(**words)}
[TorchOp] [Differentiable] double f(double a[5])
{{
    double s = 0.1, x = a[2], y = a[3], z = a[4];
    {name} v{size} = {value}, w{size} = {other}, u{size} = {value};
    {body.format(**words)}
    return s * ({words["sum_v"]});
}}
"""


def module(kind: str, beginning: str, copy: str, loop: str, name: str) -> torch_slang.Module:
    name = f"loop_copies_{name}_{kind}_{beginning}_{copy}"
    return torch_slang.load(source=source(kind, beginning, copy, loop), name=name, namespace=name)


def inputs(device: torch.device) -> Tensor:
    generator = torch.Generator().manual_seed(5)
    a = torch.rand(6, 5, dtype=torch.float64, generator=generator)
    return (a + torch.arange(6, dtype=torch.float64)[:, None] * 0.05).to(device).requires_grad_()


@some_cases(8)
@pytest.mark.parametrize(("kind", "beginning", "copy"), CASES)
def test_derivatives(kind: str, beginning: str, copy: str, device: torch.device) -> None:
    found = module(kind, beginning, copy, "[MaxIters(2)]", "loop").f
    unrolled = module(kind, beginning, copy, "[ForceUnroll]", "unrolled").f
    a = inputs(device)
    t = torch.linspace(-1, 1, a.numel(), dtype=torch.float64, device=device).view_as(a)
    with torch.no_grad():
        differences = torch.stack(
            [(found(a + e) - found(a - e)) / 2e-6 for e in 1e-6 * torch.eye(5, device=device, dtype=a.dtype)], 1
        )
    value, expected = found(a), unrolled(a)
    torch.testing.assert_close(value, expected, rtol=1e-13, atol=1e-13)
    (grad,), (expected_grad,) = (torch.autograd.grad(one.sum(), a) for one in (value, expected))
    torch.testing.assert_close(grad, expected_grad, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(grad, differences, rtol=1e-6, atol=1e-7)
    _, tangent = torch.func.jvp(found, (a.detach(),), (t,))
    torch.testing.assert_close(tangent, (grad * t).sum(1), rtol=1e-12, atol=1e-12)


@some_cases(3)
@pytest.mark.parametrize(("kind", "beginning", "copy"), CASES)
def test_second_derivatives(kind: str, beginning: str, copy: str, device: torch.device) -> None:
    assert torch.autograd.gradgradcheck(module(kind, beginning, copy, "[MaxIters(2)]", "loop").f, inputs(device)[:2])


def test_audits_find_it_without_the_repair() -> None:
    before = torch_slang.audit.mode("first")
    try:
        text = source("struct", "part", "declared", "[MaxIters(2)]")
        leave_out = {"TORCH_SLANG_LEAVE_OUT": "copies in loops"}
        wrong = torch_slang.load(
            source=text, name="loop_copies_wrong", namespace="loop_copies_wrong", defines=leave_out
        )
        a = inputs(torch.device("cpu"))
        with pytest.raises(RuntimeError, match="the gradient of a is wrong"):
            torch.autograd.grad(wrong.f(a).sum(), a)
    finally:
        torch_slang.audit.mode(before)
