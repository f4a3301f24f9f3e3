"""Gradients of `while` loops that are left by `break` or `return`, which Slang has wrong.

Note [while loops] in csrc/compiler/source/while_loops.h.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from long_tests import some_cases

import torch_slang

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


REFERENCES: list[Callable[[Tensor, Tensor, int], Tensor]] = [
    *(left_by_break, left_by_return, gone_on, of_a_value, gone_on, nested, do)
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
