"""Aggregates that begin in a loop, in any form, and are changed in parts there.

Note [copies in loops] in csrc/compiler/ir/loop_copies.h. Expected values are finite differences.
"""

from __future__ import annotations

import pytest
import torch
from long_tests import some_cases

import torch_slang

HEAD = """import torch_slang;
struct P : IDifferentiable { double2 b; double c; }
struct Q : IDifferentiable { P n; double2 v; }
struct IIR { double2 b; double c; }
struct M : IDifferentiable { double2 v; double c;
    [Differentiable] [mutating] double walk(M o, double r)
    {
        double s = 0;
        o.v.x = r;
        [MaxIters(2)] for (int i = 0; i < 2; ++i) { this = o; v[i] = r; s += v.x * v.y * c; r *= 0.7; }
        return s;
    }
    [mutating] [Differentiable] void set(double x) { v = double2(x, x * x); c = x; }
}
struct Op { [ForceInline] [Differentiable] void operator()(inout double2 t, int k, double z) { t[k] = z; } }
[ForceInline] [Differentiable] void change(in out double2 t, int k, double z) { t[k] = z; }
[ForceInline] [Differentiable] void change_last(double z, inout double2 t, int k) { t[k] = z; }
[ForceInline] [Differentiable] T same<T : IDifferentiable, U>(T v) { return v; }
[ForceInline] [Differentiable] double in_brackets(double2 p, int k, double r) { (p)[k] = r; return p.x * p.y; }
[ForceInline] [Differentiable] void fill(out double2 o, double x, double y) { o.x = x; o.y = y * x; }
[Differentiable] void give(out double2 o, double x, double y) { o = double2(x, y * x); }
#define AT(t, k) t[k]
"""
# What is done in iteration k, to t, with r, which the loop changes, and x, y, z, v and w, which it does not.
FORMS = {
    "var": "var t : double2 = v; t[k] = r;",
    "swizzle": "double2 t; t.xy = v; t[k] = r;",
    "swizzle_of_a_field": "P q; q.c = 1; q.b.xy = v; q.b[k] = r; double2 t = q.b;",
    "row": "double2x2 m = {v, w}; double2 t; t.xy = m[0]; t[k] = r;",
    "brackets": "double2 t = v; (t)[k] = r;",
    "brackets_before": "double2 t; (t) = v; t[k] = r;",
    "macro": "double2 t = v; AT(t, k) = r;",
    "hidden_name": "double2 t; { double t = 1; s += .1 * t; } t = v; t[k] = r;",
    "name_of_an_interface": "IIR i = {v, z}; i.b[1] = x; IIR u = i; u.b[k] = r; double2 t = u.b;",
    "compared_before": "int II = 1; bool q = II < 2 && y > v.x; double2 t = v; t[k] = r;",
    "this": "M n = {v, z}, m = {w, x}; s += n.walk(m, r); double2 t = n.v;",
    "in_out": "double2 t = v; change(t, k, r);",
    "type_arguments": "double2 t = v; change_last(same<double, int>(r), t, k);",
    "call_operator": "Op op; double2 t = v; op(t, k, r);",
    "parameter_in_brackets": "s += in_brackets(v, k, r); double2 t = v;",
    "two_choices": "double2 t = x < y ? v : w, q = z > (1.0) ? v : w; t[k] = r; q[k] = s; s += q.x * q.y;",
    "constant": "double2 t = double2(0.5); t[k] = r;",
    "constants": "double q[3] = {1, 2, 0.5}; q[k] = r; double2 t = double2(q[1] * q[0], q[2]);",
    "before_the_change": "double2 t = v; double2 p = v; v[k] = r; s += p.x * p.y;",
    "inner_loop": "double2 t = v; LOOP(j) { double2 u = w; u[j] = r; t[1 - j] = u.x; s += u.x * u.y * 0.3; }",
    "parts": "double2 t; t.x = x; t.y = y; t[k] = r;",
    "parts_of_a_struct": "P q; q.b.x = x; q.b.y = y; q.c = z; q.b[k] = r; double2 t = q.b * q.c;",
    "parts_of_parts": (
        "Q q; q.n.b.x = x; q.n.b.y = y; q.n.c = z; q.v = w; q.n.b[k] = r; double2 t = q.v * q.n.b + q.n.c;"
    ),
    "fields": "P q; q.b = w; q.c = z; q.b[k] = r; double2 t = q.b * q.c;",
    "elements": "double q[2]; q[0] = x; q[1] = y; q[k] = r; double2 t = double2(q[0], q[1]);",
    "elements_of_elements": (
        "double q[2][2]; q[0][0] = x; q[0][1] = y; q[1][0] = z; q[1][1] = 1; q[k][1] = r;"
        "double2 t = double2(q[0][0] * q[0][1], q[1][1] + q[1][0]);"
    ),
    "vectors": "double2 q[2]; q[0] = v; q[1] = w; q[k].x = r; double2 t = q[0] * q[1];",
    "parts_of_vectors": (
        "double2 q[2]; q[0].x = x; q[0].y = y; q[1].x = z; q[1].y = x; q[k].x = r; double2 t = q[0] * q[1];"
    ),
    "structs": ("P q[2]; q[0] = {v, x}; q[1] = {w, y}; q[k].b.x = r; double2 t = q[0].b * q[1].b * q[0].c * q[1].c;"),
    "rows": "double2x2 q; q[0] = w; q[1] = v; q[k].x = r; double2 t = q[0] * q[1];",
    "components": "double2x2 q; q._m00_m01 = w; q._m10_m11 = v; q[k].x = r; double2 t = q[0] * q[1];",
    "vectors_of_vectors": "double4 q; q.xy = v; q.zw = w; q[k] = r; double2 t = q.xy * q.zw;",
    "matrix": "double2x2 q = {v, w}; q[1][k] = r; double2 t = q[1] * q[0];",
    "unrolled_loop": (
        "double q[2]; [ForceUnroll] for (int j = 0; j < 2; ++j) q[j] = x * j + y; q[k] = r;"
        "double2 t = double2(q[0], q[1]);"
    ),
    "loop": "double q[2]; LOOP(j) q[j] = x * j + y; q[k] = r; double2 t = double2(q[0], q[1]);",
    "branches": "double2 t; if (x > 0.4) { t.x = x; t.y = y; } else { t = v; } t[k] = r;",
    "changed_in_a_branch": "double2 t; t.x = x; t.y = y; if (k == 1) t[k] = r;",
    "switch": "double2 t; switch (k) { case 0: t.x = x; t.y = y; break; default: t = v; break; } t[k] = r;",
    "call": "double2 t; give(t, x, y); t[k] = r;",
    "inlined_call": "double2 t; fill(t, x, y); t[k] = r;",
    "method": "M q; q.set(x); q.v[k] = r; double2 t = q.v * q.c;",
    "carried": "double2 t; t.x = x; t.y = y; t[k] = r; v += t * 0.1;",
}
LOOP = "LOOP(k) {{ double r = s + a[k]; {form} s += t.x * t.y; }} s *= v.x * v.y;"
POSITIONS = {
    "first": "{begin} {loop}",
    "in_a_branch": "if (x > -5) {{ {begin} {loop} }}",
    "behind_a_return": "if (x < -5) return 0; {begin} {loop}",
    "in_a_loop": "LOOP(i) {{ if (x > i * 0.3) {{ {begin} {loop} }} }}",
}
BEGIN = "double2 v = double2(x, y), w = double2(y, z + x); v[1] = z;"
MATRICES_OF_VECTORS = ("matrix", "row")  # second derivatives of arrays of these end Slang's compiler
CASES = [(form, position) for form in FORMS for position in POSITIONS]


def function(form: str, position: str) -> torch_slang.Function:
    body = POSITIONS[position].format(begin=BEGIN, loop=LOOP.format(form=FORMS[form]))
    name = f"begun_{form}_{position}"
    source = f"""{HEAD}#define LOOP(i) [MaxIters(2)] for (int i = 0; i < 2; ++i)
[TorchOp] [Differentiable] double f(double a[5])
{{ double s = 0.1, x = a[2], y = a[3], z = a[4]; {body} return s; }}
"""
    return torch_slang.load(source=source, name=name, namespace=name).f


def inputs(device: torch.device) -> torch.Tensor:
    values = [[0.3, 0.7, 0.5, 0.9, 0.4], [0.1, 0.2, 0.8, 0.3, 0.6]]
    return torch.tensor(values, dtype=torch.float64, device=device, requires_grad=True)


@some_cases(8)
@pytest.mark.parametrize(("form", "position"), CASES)
def test_derivatives(form: str, position: str, device: torch.device) -> None:
    f, a = function(form, position), inputs(device)
    with torch.no_grad():
        steps = 1e-6 * torch.eye(5, dtype=a.dtype, device=device)
        differences = torch.stack([(f(a + step) - f(a - step)) / 2e-6 for step in steps], 1)
    (grad,) = torch.autograd.grad(f(a).sum(), a)
    torch.testing.assert_close(grad, differences, rtol=1e-6, atol=1e-7)
    t = torch.linspace(-1, 1, a.numel(), dtype=a.dtype, device=device).view_as(a)
    _, tangent = torch.func.jvp(f, (a.detach(),), (t,))
    torch.testing.assert_close(tangent, (grad * t).sum(1), rtol=1e-12, atol=1e-12)


@some_cases(3)
@pytest.mark.parametrize(("form", "position"), [case for case in CASES if case[0] not in MATRICES_OF_VECTORS])
def test_second_derivatives(form: str, position: str, device: torch.device) -> None:
    assert torch.autograd.gradgradcheck(function(form, position), inputs(device))
