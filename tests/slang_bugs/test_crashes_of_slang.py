"""What ends Slang's compiler is an error that says what may be the cause, and what to write instead."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

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
    [SWITCH, RETURN],
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


# Ends in a second derivative as Slang does, but for the second form of it that is tried, which is refused.
COMPILER = """#!{python}
import json, os, signal, subprocess, sys
request = sys.stdin.read()
is_second = "tangents_backward" in request
if is_second and "TORCH_SLANG_INLINE_EARLY" not in request:
    os.kill(os.getpid(), signal.SIGSEGV)
command = [{compiler!r}, *sys.argv[1:]]
answer = subprocess.run(command, input=request, stdout=subprocess.PIPE, text=True, check=True).stdout
if is_second:
    program = json.loads(answer)
    program["texts"][0].update(error="f is refused: it would be wrong; write it otherwise (f.slang:2)", refused=True)
    answer = json.dumps(program)
print(answer, end="")
"""


def test_a_refusal_stands_in_front_of_the_crash_of_another_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "torch-slangc"
    compiler = str(Path(torch_slang.__file__).parent / "bin/torch-slangc")
    script.write_text(COMPILER.format(python=sys.executable, compiler=compiler))
    script.chmod(0o755)
    monkeypatch.setenv("TORCH_SLANG_COMPILER", str(script))
    monkeypatch.setenv("TORCH_SLANG_CACHE_DIR", str(tmp_path / "cache"))
    f = load("[Differentiable] double f(double x) { return x * x * x; }").f
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError) as caught:
        gradient.sum().backward()
    message = str(caught.value)
    refusal, crash = message.index("write it otherwise (f.slang:2)"), message.index("was ended by signal 11")
    assert refusal < message.index("The form that was tried first:") < crash


# --- Derivatives that Slang does not take: the text, what to write in place of a part of it, and what the message says

INNER = (
    """[Differentiable] double cube(double x) { return x * x * x; }
[Differentiable] double f(double x)
{
    DifferentialPair<double> p = diffPair(x, 0.0);
    bwd_diff(cube)(p, 1.0);
    return p.d * x;
}""",
    {"p = diffPair(x, 0.0)": "p = fwd_diff(cube)(diffPair(x, 1.0))", "bwd_diff(cube)(p, 1.0);": ""},
    r":6: `bwd_diff` inside of a function that is differentiated itself; take `fwd_diff`",
)
JACOBIAN = (
    """[Differentiable] void project(double2 p, out double y) { y = p.x / p.y; }
[Differentiable] double f(double x)
{
    DifferentialPair<double> y;
    fwd_diff(project)(diffPair(double2(x, x * x), double2(1, 0)), y);
    return y.d * y.d;
}""",
    {
        "void project(double2 p, out double y) { y =": "double project(double2 p) { return",
        "double2(1, 0)), y);": "double2(1, 0)));",
        "fwd_diff(project)": "y = fwd_diff(project)",
    },
    r":6: `fwd_diff` of a function with an `out` argument",
)
METHOD = (
    """struct Ball { double r; double distance(double x) { return 0; }
    [Differentiable] double power(double x) { return x * x * r; } }
[Differentiable] double power_of(no_diff Ball ball, double x) { return ball.power(x); }
double slope(Ball ball, double x)
{
    DifferentialPair<double> p = diffPair(x, 0.0);
    bwd_diff(ball.power)(p, 1.0);
    return p.d;
}
[Differentiable] double f(double x) { Ball ball; ball.r = 2; return x * no_diff slope(ball, x); }""",
    {"bwd_diff(ball.power)(p": "bwd_diff(power_of)(ball, p"},
    r":8: a derivative of an object's method; write a \[Differentiable\] function that calls it",
)
DERIVED = (
    """interface IBase : IDifferentiable { [Differentiable] double at(double x); }
interface IMore : IBase { double more(); }
struct Scale : IMore
{
    double a;
    [Differentiable] double at(double x) { return a * x; }
    double more() { return 1; }
}
[Differentiable] double square_of<S : IMore>(S s, double x) { return s.at(x) * s.at(x); }
[Differentiable] double f(double x) { Scale scale = { x }; IMore s = scale; return s.at(x) * s.at(x); }""",
    {"IMore s = scale; return s.at(x) * s.at(x);": "return square_of(scale, x);"},
    r":11: a variable of an interface that has another one as its base; make the function generic",
)
RETURNED = (
    """interface IBase : IDifferentiable { [Differentiable] double at(double x); }
struct One : IBase { double a; [Differentiable] double at(double x) { return a * x; } }
struct Two : IBase { double a; [Differentiable] double at(double x) { return a * x * x; } }
[Differentiable] IBase chosen(double a) { if (a > 1) { One one = { a }; return one; } Two two = { a }; return two; }
[Differentiable] double f(double x) { IBase s = chosen(x); return s.at(x); }""",
    {
        "IBase s = chosen(x); return s.at(x);": "if (x > 1) { One one = { x }; return one.at(x); }"
        " Two two = { x }; return two.at(x);"
    },
    r":6: a function that returns an interface",
)
CONSTANT = (
    """interface IShape { [Differentiable] double at(double x); }
struct Line
{
    double a;
    [Differentiable] [NoDiffThis] double at(double x) { return a * x * x; }
}
extension Line : IShape {}
[Differentiable] double height(no_diff IShape shape, double x) { return shape.at(x); }
[Differentiable] double f(double x) { IShape shape = no_diff(Line(2.0)); return height(shape, x); }""",
    {"    double a;": "    no_diff double a;"},
    r":9: a `no_diff` parameter of an interface; make the function generic",
)


@some_cases(2)
@pytest.mark.parametrize("case", [INNER, JACOBIAN, METHOD, DERIVED, RETURNED, CONSTANT])
def test_derivatives_that_slang_does_not_take(case: tuple[str, dict[str, str], str]) -> None:
    text, remedy, message = case
    x = torch.tensor([0.5, 1.5], dtype=torch.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"known to crash it:\n\S*crash\d+" + message):
        load("import torch_slang;\n" + text).f(x).sum().backward()
    for old, new in remedy.items():
        text = text.replace(old, new)
    module = load("import torch_slang;\n" + text)
    if case is METHOD:
        module.f(x).sum().backward()
        assert x.grad is not None
        torch.testing.assert_close(x.grad, 4 * x.detach())
    else:
        assert torch.autograd.gradcheck(module.f, (x,))


def test_lines_of_functions_that_are_not_called_are_left_out() -> None:
    other = (
        FUNCTION.format(statements=RETURN[0]).replace("import torch_slang;", "").replace("double f(", "double other(")
    )
    text = FUNCTION.format(statements=SWITCH[0]) + other
    with pytest.raises(RuntimeError, match="a case into which the one before it falls") as caught:
        backward(text)
    assert "out of two loops" not in str(caught.value)


# --- Second derivatives that did not come through

TWICE = """import torch_slang;
struct Dual : IDifferentiable { double a; double b; }
[Differentiable] Dual operator*(Dual x, Dual y) { Dual r = { x.a * y.a, x.a * y.b + x.b * y.a }; return r; }
[Differentiable] double by_operator(double x) { Dual u = { x, 1 }; Dual v = u * u * u; return v.b * x; }
struct Facts { int count; double scale; }
[Differentiable] void facts(double x, no_diff out Facts f) { f.count = 2; f.scale = 3; }
[Differentiable] double by_facts(double x) { Facts f; facts(x, f); return x * x * x * f.scale; }
[Differentiable] double by_print(double x) { double y = x * x; if (x > 100) printf("%f\\n", y); return y * x; }
"""


def test_operators_of_structs_facts_and_prints_have_second_derivatives() -> None:
    module = load(TWICE)
    x = torch.tensor([0.5, -1.5], dtype=torch.float64, requires_grad=True)
    for op in (module.by_operator, module.by_facts, module.by_print):
        torch.testing.assert_close(op(x), 3 * x**3 if op is not module.by_print else x**3)
        assert torch.autograd.gradcheck(op, (x,), check_forward_ad=True)
        assert torch.autograd.gradgradcheck(op, (x,))
