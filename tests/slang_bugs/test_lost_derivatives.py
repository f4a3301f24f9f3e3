"""Calls that are not differentiable, tuples, casts of bits, interfaces: refused where they lose a derivative."""

from __future__ import annotations

import pytest
import torch
from long_tests import some_cases

import torch_slang

HEAD = """
float g(float x) { return x * x; }
void fill(float x, out float y) { y = x * x; }
void square(inout float y) { y = y * y; }
struct Pair : IDifferentiable { float a; float b; }
interface IShape { float plain(float x); }
struct Ball : IShape { float plain(float x) { return x * x; } }
[Differentiable] void keep(inout float r, float x) { r = g(x); }
[Differentiable] float twice(Pair p) { return 2 * p.a + p.b; }
[Differentiable] float by<T : IShape>(T shape, float x) { Pair p; p.b = shape.plain(x); return p.b; }
"""
# The line of each stands in one place: that of the function.
LOST = {
    "an out parameter": "void f(float x, out float y) { y = g(x); }",
    "a field": "float f(float x) { Pair p; p.a = g(x); p.b = x; return p.a; }",
    "a field of an argument": "float f(float x) { Pair p; p.a = g(x); p.b = x; return twice(p); }",
    "an element": "float f(float x) { float a[2]; a[0] = g(x); a[1] = x; return a[0]; }",
    "an element at an index": "float f(float x, int i) { float a[2] = { x, x }; a[i % 2] = g(x); return a[0]; }",
    "a component": "float2 f(float x) { float2 v = x; v.x = g(x); return v; }",
    "an out argument": "float f(float x) { float y; fill(x, y); return y; }",
    "an inout argument": "float f(float x) { float y = x; square(y); return y; }",
    "a branch": "float f(float x) { Pair p = { x, x }; if (x > 1) p.a = g(x); else p.a = x; return p.a; }",
    "a loop": (
        "float f(float x) { float a[3] = { x, x, x };"
        " [MaxIters(2)] for (int i = 0; i < 2; i++) a[i + 1] = a[i] + g(a[i]); return a[2]; }"
    ),
    "another call that is not differentiable": "float f(float x) { float y; fill(g(x), y); return y; }",
    "a copy": "float f(float x) { Pair p = { x, x }; p.a = g(x); Pair q = p; return q.a * q.b; }",
}
KEPT = {
    "no_diff": ("float f(float x) { Pair p; p.a = no_diff g(x); p.b = x; return p.a * p.b; }", 9.0),
    "a constant": ("float f(float x) { Pair p; p.a = g(2.0f); p.b = x; return p.a * p.b; }", 4.0),
    "a parameter without derivative": (
        "float f(float x, no_diff float c) { Pair p; p.a = g(c); p.b = x; return p.a * p.b; }",
        1.0,
    ),
    "another field": ("float f(float x) { Pair p; p.a = g(x); p.b = x * x; return p.b; }", 6.0),
    "a condition": ("float f(float x) { float a[2]; a[0] = g(x); a[1] = x; return a[0] > 1 ? a[1] * a[1] : x; }", 6.0),
    "a number": ("float f(float x) { Pair p; p.a = g(x); p.b = x; return p.b * int(p.a); }", 9.0),
    "a detached value": ("float f(float x) { Pair p; p.a = g(x); p.b = x; return detach(p.a) * p.b; }", 9.0),
}

# What is put into a tuple that has an element without a derivative.
TUPLES = {
    "a number": "Tuple<float, int> t = makeTuple(x, 3); return t._0;",
    "a vector": "var t = makeTuple(float2(x, x * x), x > 0); return t._0.x * t._0.y;",
    "components": "var t = makeTuple(x, 3, x * x); var u = t._2_1; return u._0;",
    "a tuple": "var t = makeTuple(makeTuple(x, 1u), x); return t._0._0;",
    "an array's element": "Tuple<float, int> t[2]; t[0] = makeTuple(x, 1); t[1] = t[0]; return t[1]._0;",
    "a call's argument": "var t = concat(makeTuple(x), makeTuple(3)); return t._0;",
    "a loop": (
        "Tuple<float, int> t = makeTuple(x, 0);"
        " [MaxIters(3)] for (int i = 0; i < 3; ++i) t = makeTuple(t._0 * x, i); return t._0;"
    ),
}
# What is cast by its bits; a struct, an array and a matrix are.
CASTS = {
    "a struct": "Pair p = bit_cast<Pair>(float2(x * x, x)); return p.a * p.b;",
    "an array": "float v[2] = { x, x * x }; return bit_cast<float2>(v).y;",
    "a matrix, into a field": "Pair p = { x, x }; p.a = bit_cast<float2x2>(float4(x))[1][0]; return p.a;",
    "a loop": "float s = 1; [MaxIters(3)] for (int i = 0; i < 3; ++i) s *= bit_cast<Pair>(float2(s, x)).b; return s;",
}
KEPT |= {
    "a cast to bits": ("float f(float x) { return bit_cast<float>(bit_cast<uint>(x) ^ 1u) * 0 + 4 * x; }", 4.0),
    "a detached value's cast": ("float f(float x) { return bit_cast<Pair>(detach(float2(x, 1))).a * x; }", 3.0),
    "reinterpret": ("float f(float x) { Pair p = reinterpret<Pair>(float2(x * x, x)); return p.a * p.b; }", 27.0),
    "a tuple of differentiable values": (
        "float f(float x) { var t = makeTuple(x, float2(x, 1)); return t._0 * t._1.x; }",
        6.0,
    ),
    "a tuple of constants": ("float f(float x) { var t = makeTuple(detach(x), 2); return t._0 * t._1 * x; }", 6.0),
}


def load(body: str, name: str) -> torch_slang.Module:
    text = f"{HEAD}[TorchOp] [Differentiable] {body}\n"
    return torch_slang.load(source=text, name=f"{name}.slang", namespace=name)


@some_cases(4)
@pytest.mark.parametrize("where", LOST)
def test_a_derivative_that_is_lost_in_memory_is_refused(where: str) -> None:
    module = load(LOST[where], f"lost_{list(LOST).index(where)}")
    x = torch.full((2,), 3.0, requires_grad=True)
    more = [torch.zeros(2, dtype=torch.int32)] if "int i)" in LOST[where] else []
    line = 1 + len(HEAD.splitlines())
    with pytest.raises(
        RuntimeError, match=rf"\.slang\({line}\): error: the derivative of \w+ is lost in f: .*`no_diff`"
    ):
        module.f(x, *more)


@some_cases(3)
@pytest.mark.parametrize("what", TUPLES)
def test_what_is_lost_in_a_tuple_is_refused(what: str) -> None:
    index = list(TUPLES).index(what)
    text = f"\n[TorchOp] [Differentiable] float f(float x) {{ {TUPLES[what]} }}\n"
    module = torch_slang.load(source=text, name=f"tuple_{index}.slang", namespace=f"lost_in_tuple_{index}")
    with pytest.raises(
        RuntimeError, match=r"\.slang\(2\): error: a derivative is lost in a tuple in f: .* Use a struct"
    ):
        module.f(torch.ones(2, requires_grad=True))


@some_cases(2)
@pytest.mark.parametrize("what", CASTS)
def test_what_is_lost_in_a_bit_cast_is_refused(what: str) -> None:
    module = load(f"float f(float x) {{ {CASTS[what]} }}", f"lost_in_cast_{list(CASTS).index(what)}")
    line = 1 + len(HEAD.splitlines())
    with pytest.raises(
        RuntimeError, match=rf"\.slang\({line}\): error: the derivative of a bit_cast is lost in f: .* Use reinterpret"
    ):
        module.f(torch.ones(2, requires_grad=True))


def load_behind_an_interface(body: str, name: str) -> torch_slang.Module:
    """An interface that a struct has a field of stays undeclared."""
    render = "[Differentiable] float render(Scene scene, float x) { return scene.shape.at(x); }"
    text = f"""
interface IShape {{ [Differentiable] float at(float x); float plain(float x); }}
struct Line : IShape, IDifferentiable
{{
    float a;
    [Differentiable] float at(float x) {{ return a * x; }}
    float plain(float x) {{ return a * x; }}
}}
struct Scene {{ IShape shape; float weight; }}; {render if "render" in body else ""}
[TorchOp] [Differentiable] float f(float x) {{ {body} }}
"""
    return torch_slang.load(source=text, name=f"{name}.slang", namespace=name)


@pytest.mark.parametrize(
    "body",
    [
        "Line line = { x * x }; IShape shape = line; return shape.at(x);",
        "IShape shape = Line(x); return shape.at(x);",
        "Line line = { x }; Scene scene; scene.shape = line; scene.weight = 2; return render(scene, x);",
    ],
)
def test_what_is_lost_in_a_variable_of_an_interface_is_refused(body: str) -> None:
    module = load_behind_an_interface(body, f"lost_behind_interface_{len(body)}")
    with pytest.raises(
        RuntimeError, match=r"\.slang\(10\): error: a derivative is lost in a variable of an interface in f"
    ):
        module.f(torch.ones(2, requires_grad=True))


@pytest.mark.parametrize(
    "body",
    [
        "Line line = { 2 }; IShape shape = line; return shape.at(x);",
        "Line line = { detach(2 * x) }; IShape shape = line; return shape.at(x);",
        "Line line = { x }; IShape shape = line; return x * (no_diff shape.plain(2));",
    ],
)
def test_constants_behind_an_interface_are_kept(body: str, device: torch.device) -> None:
    module = load_behind_an_interface(body, f"kept_behind_interface_{len(body)}")
    x = torch.ones(2, device=device, requires_grad=True)
    module.f(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2, 2]


@pytest.mark.parametrize("where", ["keep", "by"])
def test_helpers_are_looked_at_too(where: str) -> None:
    call = "float r = 0; keep(r, x); return r;" if where == "keep" else "Ball ball; return by(ball, x);"
    module = load(f"float f(float x) {{ {call} }}", f"lost_in_{where}")
    with pytest.raises(RuntimeError, match=rf"the derivative of [\w.]+ is lost in {where}"):
        module.f(torch.ones(1))


@some_cases(2)
@pytest.mark.parametrize("what", KEPT)
def test_where_no_derivative_is_wanted_nothing_is_refused(what: str, device: torch.device) -> None:
    body, slope = KEPT[what]
    text = HEAD.split("[Differentiable] void keep", maxsplit=1)[0]  # what is refused by itself is left out
    module = torch_slang.load(
        source=f"{text}[TorchOp] [Differentiable] {body}\n",
        name=f"kept_{list(KEPT).index(what)}.slang",
        namespace=f"kept_{list(KEPT).index(what)}",
    )
    x = torch.full((2,), 3.0, device=device, requires_grad=True)
    module.f(x, *([torch.ones(2, device=device)] if "no_diff float c" in body else [])).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [slope] * 2


def test_core_functions_that_have_a_derivative_here_are_imported(device: torch.device) -> None:
    """`fmin` has none in Slang's core, and Slang does not say so where its value goes to an `inout` parameter."""
    text = """
    [Differentiable] void least(inout float3 r, float3 x) { r = fmin(x, float3(0.5)); }
    [TorchOp] [Differentiable] float3 f(float3 x) { float3 r = 0; least(r, x); return r; }
    """
    module = torch_slang.load(source=text, name="lost_least.slang", namespace="lost_least")
    x = torch.tensor([[0.1, 0.7, 0.2]], device=device, requires_grad=True)
    module.f(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[1.0, 0.0, 1.0]]
