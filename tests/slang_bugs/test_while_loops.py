"""Gradients of loops that are left by `break` or `return`, or gone on with, which Slang has wrong or ends on.

Note [while loops] in csrc/compiler/source/while_loops.h.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from long_tests import dear_file, some_cases

import torch_slang

pytestmark = dear_file

Tensor = torch.Tensor
STATEMENTS = {
    "break": "int k = 0; [MaxIters(4)] while (k < n) { if (k == 2) { a = a * y; break; } a = a * x; ++k; }",
    "return": "int k = 0; [MaxIters(4)] while (k < n) { if (a > 2) return a * y; a = a * x + y; ++k; }",
    "continue": "int k = 0; [MaxIters(4)] while (k < n) { ++k; if (k == 2) continue; a = a * x + y; }",
    "of a value": "int k = 0; [MaxIters(6)] while (a < 4 && k < n) { if (k == 3) { a *= y; break; } a = a + x; ++k; }",
    "endless": "int k = 0; [MaxIters(5)] while (true) { if (k == n) break; ++k; if (k == 2) continue; a = x * a + y; }",
    "nested": """int k = 0;
    [MaxIters(4)] while (k < n)
    {
        double b = y;
        int j = 0;
        [MaxIters(3)] while (j < 2) { if (b > 2) { b = b * x; break; } b = b * a; ++j; }
        a = a + b * x;
        ++k;
    }""",
    "do": "int k = 0; [MaxIters(5)] do { ++k; if (k == 3) { a = a * y; break; } a = a * x + y; } while (k < n);",
    "do with continue": """int k = 0;
    [MaxIters(5)] do { ++k; if (k == 2) { continue; } a = a * x + y; }
    while (k  // a comment
           < n);""",
    "do once": "do { if (n > 1) { a = a * y; continue; } a = a * x + y; } while (false);",
    "do in do": """int k = 0;
    if (n >= 0) [MaxIters(5)] do
    {
        int j = 0;
        ++k;
        [MaxIters(1)] do { ++j; if (k == 2) continue; a = a * x + y; } while (j < 1);
        if (k > 7) continue;
        a = a;
    } while (k < n);
    else a = y;""",
}
SOURCE = "import torch_slang;\n" + "".join(
    f"[Differentiable] double f{number}(double x, double y, int n) {{ double a = x; {text} return a; }}\n"
    for number, text in enumerate(STATEMENTS.values())
)


def left_by_break(x: Tensor, y: Tensor, n: int) -> Tensor:
    a = x
    for k in range(n):
        if k == 2:
            return a * y
        a = a * x
    return a


def left_by_return(x: Tensor, y: Tensor, n: int) -> Tensor:
    a = x
    for _ in range(n):
        if a > 2:
            return a * y
        a = a * x + y
    return a


def gone_on(x: Tensor, y: Tensor, n: int) -> Tensor:
    a = x
    for k in range(n):
        a = a if k == 1 else a * x + y
    return a


def of_a_value(x: Tensor, y: Tensor, n: int) -> Tensor:
    a, k = x, 0
    while a < 4 and k < n:
        if k == 3:
            return a * y
        a, k = a + x, k + 1
    return a


def nested(x: Tensor, y: Tensor, n: int) -> Tensor:
    a = x
    for _ in range(n):
        b = y
        for _ in range(2):
            if b > 2:
                b = b * x
                break
            b = b * a
        a = a + b * x
    return a


def do(x: Tensor, y: Tensor, n: int) -> Tensor:
    a = x
    for k in range(max(n, 1)):
        if k == 2:
            return a * y
        a = a * x + y
    return a


def gone_on_in_do(x: Tensor, y: Tensor, n: int) -> Tensor:
    return gone_on(x, y, max(n, 1))


def do_once(x: Tensor, y: Tensor, n: int) -> Tensor:
    return x * y if n > 1 else x * x + y


REFERENCES: list[Callable[[Tensor, Tensor, int], Tensor]] = [
    *(left_by_break, left_by_return, gone_on, of_a_value, gone_on, nested, do, gone_on_in_do, do_once, gone_on_in_do)
]
ROWS = [(x, y, n) for x in (0.7, 1.3) for y in (-0.6, 2.1) for n in (0, 1, 2, 4)]


@some_cases(3)
@pytest.mark.parametrize("number", range(len(STATEMENTS)), ids=STATEMENTS)
def test_gradients_of_loops_that_are_left(number: int, device: torch.device) -> None:
    function = getattr(torch_slang.load(source=SOURCE, name="while_loops", namespace="while_loops"), f"f{number}")
    xs, ys = (torch.tensor([row[i] for row in ROWS], dtype=torch.float64) for i in range(2))
    ns = torch.tensor([row[2] for row in ROWS], dtype=torch.int32)

    def rows(x: Tensor, y: Tensor) -> Tensor:
        return torch.stack([REFERENCES[number](*row) for row in zip(x, y, ns.tolist(), strict=True)])

    def derivatives(run: Callable[[Tensor, Tensor], Tensor], at: torch.device) -> list[Tensor]:
        inputs = [xs.to(at).requires_grad_(), ys.to(at).requires_grad_()]
        values = run(*inputs)
        gradients = torch.autograd.grad(values.sum(), inputs, create_graph=True)
        seconds = torch.autograd.grad((gradients[0] + 2 * gradients[1]).sum(), inputs)
        _, tangents = torch.func.jvp(run, tuple(x.detach() for x in inputs), tuple(x.detach() for x in inputs))
        return [values, *gradients, *seconds, tangents]

    actual = derivatives(lambda x, y: function(x, y, ns.to(device)), device)
    for one, other in zip(actual, derivatives(rows, torch.device("cpu")), strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=1e-12, atol=1e-12)


# Each of these is `left_by_break`. What macros and conditions bring along is rewritten too: Note [hidden control flow]
# in csrc/compiler/source/hidden_flow.h.
MACROS = """
#define LOOP while
#define UNTIL(c) while (!(c))
#define DIFF [Differentiable]
#define BAIL(c, v) do { if (c) return v; } while (false)
#define TWICE_NEGATED(x) \\
  do { x = -x; x = -x; } \\
  while (false)
"""
HELPERS = """
int count(int n) { int k = 0; do k++; while (k < n); return k; }
bool below(double a, double b) { return a < b; }
"""
BODY = "{ if (k == 2) { a = a * y; break; } a = a * x; ++k; }"
HIDDEN = {
    "bare do elsewhere": f"[MaxIters(4)] while (k < n) {BODY}",
    "no_diff": f"[MaxIters(4)] while (no_diff below(double(k), double(n))) {BODY}",
    "macro": f"[MaxIters(4)] LOOP (k < n) {BODY}",
    "end of do": f"[MaxIters(4)] do {BODY.replace('a = a * x;', 'if (n == 0) break; a = a * x;')} UNTIL(k >= n);",
    "statements": "TWICE_NEGATED(a); [MaxIters(4)] while (k < n) { BAIL(k == 2, a * y); a = a * x; ++k; }",
    "condition": """[MaxIters(4)] while (k < n) {
#if 1
    if (k == 2) return a * y;
#else
    {
#endif
    a = a * x; ++k; }""",
}


def hidden_source(names: list[str], start: str) -> str:
    functions = (
        f"{start} double f{number}(double x, double y, int n) {{ double a = x; int k = 0; {HIDDEN[name]} return a; }}\n"
        for number, name in enumerate(names)
    )
    return HELPERS + "".join(functions)


@some_cases(2)
@pytest.mark.parametrize("name", HIDDEN)
def test_gradients_of_loops_that_are_hidden(name: str, device: torch.device, tmp_path: Path) -> None:
    by_macro = name not in ("bare do elsewhere", "no_diff")
    names = [one for one in HIDDEN if (one in ("bare do elsewhere", "no_diff")) != by_macro]
    path = tmp_path / "hidden.slang"
    path.write_text("import torch_slang;\n" + hidden_source(names, "DIFF" if by_macro else "[Differentiable]"))
    if by_macro:
        (tmp_path / "macros.h").write_text("#pragma once\n" + MACROS)
        path.write_text(f'#include "macros.h"\n{path.read_text()}')
    function = getattr(torch_slang.load(path, namespace=f"hidden_{abs(hash(str(path)))}"), f"f{names.index(name)}")
    for n in (1, 4):
        x = torch.tensor([0.7, 1.3], dtype=torch.float64, device=device, requires_grad=True)
        y = torch.tensor([-0.6, 2.1], dtype=torch.float64, device=device, requires_grad=True)
        counts = torch.full((2,), n, dtype=torch.int32, device=device)
        actual = torch.autograd.grad(function(x, y, counts).sum(), [x, y])
        expected = torch.autograd.grad(left_by_break(x, y, n).sum() + 0 * y.sum(), [x, y])
        torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)
        torch.autograd.gradcheck(lambda x, y, counts=counts: function(x, y, counts), (x, y))
        _, tangent = torch.func.jvp(
            lambda x, y, counts=counts: function(x, y, counts), (x.detach(), y.detach()), (x.detach(), y.detach())
        )
        torch.testing.assert_close(tangent, expected[0] * x.detach() + expected[1] * y.detach(), rtol=1e-12, atol=1e-12)


def test_an_error_behind_macros_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "wrong.slang"
    path.write_text(
        "#define LOOP while\n\n[Differentiable] float f(float x)\n{\n    LOOP (false) { }\n    return x + nothing;\n}\n"
    )
    with pytest.raises(torch_slang.CompileError, match=r"wrong\.slang:6:"):
        torch_slang.load(path)
