"""What ends Slang's compiler is an error that says what may be the cause, and what to write instead."""

from __future__ import annotations

import itertools

import pytest
import torch
from long_tests import some_cases

import torch_slang

FUNCTION = """import torch_slang;
[Differentiable] double f(double x, int i)
{{
    double r = x;
    {statements}
    return r;
}}
"""
# What ends the compiler, what to write, and what the message says of the first.
SWITCH = (
    "switch (i) { case 0: r = r * x;\n case 1: { r = r + x; break; } case 2: r = r * 3; break; default: r = 0; }",
    "switch (i) { case 0: r = r * x + x; break; case 1: r = r + x; break; case 2: r = r * 3; break; default: r = 0; }",
    ":6: a case into which the one before it falls",
)
REMAINDER = ("r = x * 3;\n r = r % 1.25;", "r = x * 3; r = fmod(r, 1.25lf);", ":6: `x % y` of floats with derivatives")
RETURN = (
    """double a[2] = {x, x * x};
    [MaxIters(3)] for (int k = 0; k < 3; ++k) {
        if (a[k % 2] > 0.3) a[i % 2] = a[1];
        [MaxIters(3)] for (int l = 0; l < 3; ++l) {
            if (k % 3 == 0) return a[0] * x;
        }
    }""",
    """double a[2] = {x, x * x};
    bool done = false;
    [MaxIters(3)] for (int k = 0; k < 3; ++k) {
        if (a[k % 2] > 0.3) a[i % 2] = a[1];
        [MaxIters(3)] for (int l = 0; l < 3; ++l) {
            if (k % 3 == 0) { r = a[0] * x; done = true; break; }
        }
        if (done) break;
    }""",
    ":9: a `return` out of two loops",
)
_numbers = itertools.count()


def load(source: str) -> torch_slang.Module:
    name = f"crash{next(_numbers)}"
    return torch_slang.load(source=source, name=name, namespace=name)


def backward(source: str) -> None:
    x = torch.tensor([0.5, 1.5], dtype=torch.float64, requires_grad=True)
    load(source).f(x, torch.tensor([0, 1], dtype=torch.int32)).sum().backward()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()


@some_cases(2)
@pytest.mark.parametrize(
    ("crashing", "working", "message"),
    [SWITCH, REMAINDER, RETURN],
)
def test_the_cause_and_the_remedy_are_named(crashing: str, working: str, message: str) -> None:
    with pytest.raises(
        RuntimeError, match=r"Constructs in this source that are known to crash it:\n\S*crash\d+" + message
    ):
        backward(FUNCTION.format(statements=crashing))
    backward(FUNCTION.format(statements=working))


def test_what_a_shell_says_stands_in_a_line_of_its_own() -> None:
    with pytest.raises(RuntimeError) as caught:
        backward(FUNCTION.format(statements=SWITCH[0]))
    assert "`break`\n" in f"{caught.value}\n"


def test_properties_with_derivatives_are_named() -> None:
    text = """import torch_slang;
struct Pair : IDifferentiable
{
    double a;
    double b;
    property double product { [Differentiable] get { return a * b; } }
}
[Differentiable] double f(double x) { Pair p; p.a = x; p.b = x * x; return p.product; }
"""
    with pytest.raises(torch_slang.CompileError, match=r":6: a `property` with derivatives; make it a function"):
        load(text)
