"""Second derivatives of functions with `inout` arguments that return early, which Slang alone cannot make.

Note [single exits] in csrc/compiler/source/single_exits.h.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from long_tests import dear_test, some_cases

import torch_slang

Tensor = torch.Tensor
SOURCE = """
import torch_slang;
struct Part : IDifferentiable { double a; double2 b; };
[Differentiable] double log_of(inout double2 v, double x)
{
    v *= x;
    if (x > 0) return log(x) * v.x;
    v.y += 1;
    return 0;
}
[Differentiable] Part parts_of(inout double2 v, double x, int n)
{
    if (x > 2) return {x * v.x, double2(v.y, x)};
    Part part = {x, v};
    [MaxIters(4)] for (int k = 0; k < n; ++k)
    {
        v.x *= x;
        [MaxIters(3)] for (int l = 0; l < 3; ++l) { if (v.x * l > 1) return part; part.a += v.y * x; }
        part.b += v * x;
    }
    return part;
}
[Differentiable] void scale(inout double2 v, double x, int n)
{
    switch (n)
    {
    case 0: return;
    case 1: v = v * v.y * x; break;
    default: if (x > 0.5) return; v.x = v.y * x; break;
    }
    v.y *= v.x;
}
[Differentiable] void renew(inout double a, inout double b, double x, int n, out double o)
{
    o = a * b;
    [MaxIters(4)] for (int k = 0; k < n; ++k)
    {
        double t = a * x;
        if (t > 1) { a = t; o = o * a + b; b = 1; a = 1; return; }
        a = t + 0.5 * b;
        o *= a;
    }
}
[TorchOp] [Differentiable] double renewed(double2 u, double x, int n)
{
    double a = u.x, b = u.y, o;
    renew(a, b, x, n, o);
    return o * a * b;
}
[TorchOp] [Differentiable] double gone_on(double2 u, double x, int n)
{
    double2 v[3] = {u, u * x, u + x};
    double2 w[3] = {u.yx, u.yx * x, double2(x, 1.0)};
    [MaxIters(3)] for (int k = 0; k < 3; ++k)
    {
        if (n > 1)
        {
            double t = v[0].y;
            v[0].y = w[(n + 1) % 3][0];
            w[(n + 1) % 3][0] = t;
            if (k == 1) { w[1].x = v[n % 3][k % 2] + x - w[n % 3][0] * w[n % 3][1]; continue; }
        }
    }
    return v[n % 3].y * w[n % 3].y + v[0].x * x + w[0].y * (v[2].y - w[2].x) + w[1].x * v[1].x;
}
[TorchOp] [Differentiable] double logarithm(double2 u, double x, int n)
{
    double2 v = u;
    double r = log_of(v, x);
    return r * r + v.x * v.y;
}
[TorchOp] [Differentiable] double parts(double2 u, double x, int n)
{
    double2 v = u;
    Part part = parts_of(v, x, n);
    return part.a * part.b.x + part.b.y * v.x + v.y;
}
[TorchOp] [Differentiable] double scaled(double2 u, double x, int n)
{
    double2 v = u;
    scale(v, x, n);
    return dot(v, v) * x;
}
"""


def logarithm(u: Tensor, x: Tensor, n: int) -> Tensor:
    v = u * x
    if x > 0:
        return (torch.log(x) * v[0]) ** 2 + v[0] * v[1]
    return v[0] * (v[1] + 1)


def parts(u: Tensor, x: Tensor, n: int) -> Tensor:
    def parts_of(p: Tensor, q: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        if x > 2:
            return x * p, q, x, p
        a, b, c = x, p, q
        for _ in range(n):
            p = p * x
            for step in range(3):
                if p * step > 1:
                    return a, b, c, p
                a = a + q * x
            b, c = b + p * x, c + q * x
        return a, b, c, p

    a, b, c, p = parts_of(u[0], u[1])
    return a * b + c * p + u[1]


def scaled(u: Tensor, x: Tensor, n: int) -> Tensor:
    p, q = u[0], u[1]
    if n == 1:
        p, q = p * q * x, q * q * x
    if n > 1 and x <= 0.5:
        p = q * x
    if n == 1 or (n > 1 and x <= 0.5):
        q = q * p
    return (p * p + q * q) * x


def renewed(u: Tensor, x: Tensor, n: int) -> Tensor:
    a, b = u[0], u[1]
    o = a * b
    for _ in range(n):
        t = a * x
        if t > 1:
            return o * t + b
        a = t + 0.5 * b
        o = o * a
    return o * a * b


def gone_on(u: Tensor, x: Tensor, n: int) -> Tensor:
    v = [list(pair.unbind()) for pair in (u, u * x, u + x)]
    w = [list(pair.unbind()) for pair in (u.flip(0), u.flip(0) * x, torch.stack([x, torch.ones_like(x)]))]
    for k in range(3 if n > 1 else 0):
        v[0][1], w[(n + 1) % 3][0] = w[(n + 1) % 3][0], v[0][1]
        if k == 1:
            w[1][0] = v[n % 3][1] + x - w[n % 3][0] * w[n % 3][1]
    return v[n % 3][1] * w[n % 3][1] + v[0][0] * x + w[0][1] * (v[2][1] - w[2][0]) + w[1][0] * v[1][0]


@dear_test
@some_cases(2)
@pytest.mark.parametrize("reference", [logarithm, parts, scaled, renewed, gone_on])
def test_second_derivatives(reference: Callable[..., Tensor], device: torch.device) -> None:
    function = getattr(
        torch_slang.load(source=SOURCE, name="single_exits", namespace="single_exits"), reference.__name__
    )
    generator = torch.Generator().manual_seed(0)
    x = torch.tensor([-1.0, 0.5, 2.5, -0.3, 1.2, 0.9, 0.4, 1.9], dtype=torch.float64)
    u = torch.randn(len(x), 2, generator=generator, dtype=torch.float64)
    n = torch.tensor([0, 1, 2, 3, 4, 4, 2, 1], dtype=torch.int32)

    def rows(u: Tensor, x: Tensor) -> Tensor:
        return torch.stack([reference(*row) for row in zip(u, x, n.tolist(), strict=True)])

    def derivatives(run: Callable[[Tensor, Tensor], Tensor], at: torch.device) -> list[Tensor]:
        inputs = [u.to(at).requires_grad_(), x.to(at).requires_grad_()]
        gradients = torch.autograd.grad(run(*inputs).sum(), inputs, create_graph=True)
        total = gradients[0].sum() + (gradients[1] * torch.arange(len(x), device=at)).sum()
        _, tangents = torch.func.jvp(run, tuple(x.detach() for x in inputs), tuple(x.detach() + 1 for x in inputs))
        return [*gradients, *torch.autograd.grad(total, inputs), tangents]

    actual = derivatives(lambda u, x: function(u, x, n.to(device)), device)
    for one, other in zip(actual, derivatives(rows, torch.device("cpu")), strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=1e-10, atol=1e-10)


# `renew` again, in forms at which the rewriting once gave up without a word.
LOOP = """{ o = a * b; [MaxIters(4)] for (int k = 0; k < n; ++k) { double t = a * x;
    if (t > 1) { a = t; o = o * a + b; b = 1; a = 1; return; } a = t + 0.5 * b; o *= a; } }"""
TYPES = "inout double a, inout double b, double x, int n, out double o"


def with_first(statement: str) -> str:
    return f"[Differentiable] void NAME({TYPES}) {LOOP.replace('{', '{ ' + statement, 1)}"


FORMS = {
    "comment": with_first("// issue #12\n"),
    "typealias": with_first("typealias R = double; R z; "),
    "defer": with_first("int q = 0; defer { q = 1; } "),
    "struct": with_first("struct P { double u; int sign() { if (u > 0) return 1; return 2; } }; "),
    "switch": with_first("__target_switch { case cuda: break; default: break; } "),
    "names": with_first("double tsl_result = 0; "),
    "label": with_first("").replace("[MaxIters", "outer: [MaxIters"),
    "value": "void nothing() {} " + with_first("").replace("return;", "return nothing();"),
    "generic": f"[Differentiable] __generic<let N : int> void NAME({TYPES}) {LOOP}",
    "func": f"[Differentiable(1)] func NAME({TYPES}) {LOOP}",
    "attributes": "[ForwardDifferentiable] " + with_first(""),
    "macros": "#define D [Differentiable]\n#define LEAVE return\nD" + with_first("")[16:].replace("return", "LEAVE"),
}


def form(name: str) -> str:
    text = FORMS[name].replace("NAME", f"renew_{name}")
    call = f"renew_{name}{'<3>' if name == 'generic' else ''}(a, b, x, n, o)"
    return f"""{text}
[TorchOp] [Differentiable] double f_{name}(double2 u, double x, int n)
{{
    double a = u.x, b = u.y, o;
    {call};
    return o * a * b;
}}
"""


@some_cases(3)
@pytest.mark.parametrize("name", FORMS)
def test_functions_of_every_form_have_right_tangents(name: str, device: torch.device) -> None:
    function = getattr(torch_slang.load(source=form(name), name=f"form_{name}", namespace=f"form_{name}"), f"f_{name}")
    u, x = torch.tensor([[1.1, 0.7]], dtype=torch.float64), torch.tensor([0.8], dtype=torch.float64)
    n = torch.tensor([3], dtype=torch.int32, device=device)

    def reference(u: Tensor, x: Tensor) -> Tensor:
        return renewed(u[0], x[0], 3)[None]

    inputs = (u.to(device), x.to(device))
    _, tangents = torch.func.jvp(lambda u, x: function(u, x, n), inputs, inputs)
    _, expected = torch.func.jvp(reference, (u, x), (u, x))
    torch.testing.assert_close(tangents.cpu(), expected, rtol=1e-12, atol=1e-12)
    assert torch.autograd.gradcheck(
        lambda u, x: function(u, x, n), tuple(one.clone().requires_grad_() for one in inputs), check_forward_ad=True
    )


def test_a_function_that_cannot_be_rewritten_is_refused_in_forward_mode() -> None:
    source = form("comment").replace("// issue", "do { } catch { }\n // issue")
    module = torch_slang.load(source=source, name="kept", namespace="kept")
    inputs = (torch.ones(1, 2, dtype=torch.float64), torch.ones(1, dtype=torch.float64))
    n = torch.ones(1, dtype=torch.int32)
    match = r"`return` or `continue` in a loop of renew_comment .* as it has `do` \(.*kept:1\): write the function"
    with pytest.raises(torch_slang.CompileError, match=match):
        torch.func.jvp(lambda u, x: module.f_comment(u, x, n), inputs, inputs)
