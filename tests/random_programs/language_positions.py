"""Where an operation may stand: each position makes of a case a Slang function, and the same in PyTorch.

A position's text defines `R f(int n, T0 a0, T1 a1, ...)`, where n is 0 or 1, differentiable in what is no integer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from language_cases import Case, Type

Tensor = torch.Tensor
Run = Callable[..., Tensor]  # of n and the operands


@dataclass(frozen=True)
class Position:
    name: str
    text: Callable[[Case, str], str]  # of a case and the function's name
    run: Callable[[Case], Run]
    fits: Callable[[Case], bool] = lambda case: True


def parameters(case: Case, first: int = 0, inner: Sequence[str] = ()) -> str:
    names = [operand.name for operand in case.operands]
    return ", ".join([*inner, *(f"{name} a{k}" for k, name in enumerate(names) if k >= first)])


def names(case: Case, prefix: str = "a") -> list[str]:
    return [f"{prefix}{k}" for k in range(len(case.operands))]


def spelled(case: Case, operands: Sequence[str]) -> tuple[str, str]:
    return case.spelled(operands, [t.name for t in case.operands], case.result.name, case.result.element)


def constant(type: Type, value: float) -> str:
    return f"{type.name}({type.element}({value}))"


def head(case: Case, name: str) -> str:
    return f"[Differentiable] {case.result.name} {name}({parameters(case, 0, ['int n'])})"


def function(case: Case, name: str, body: str) -> str:
    return f"{head(case, name)}\n{{\n    {body}\n}}\n"


def of_body(
    name: str, body: Callable[[Case, str, str], str], run: Callable[[Case, Tensor, Tensor], Tensor]
) -> Position:
    """`body` is made of the operation's statements and its expression, `run` of n and the operation's result."""

    def text(case: Case, function_name: str) -> str:
        return function(case, function_name, body(case, *spelled(case, names(case))))

    return Position(name, text, lambda case: lambda n, *operands: run(case, n, case.run(*operands)))


def same(case: Case, n: Tensor, value: Tensor) -> Tensor:
    return value


def scaled(value: Tensor, factor: Tensor) -> Tensor:
    return value * factor.reshape(-1, *[1] * (value.dim() - 1))


def first_statement(case: Case, statements: str, value: str) -> str:
    return f"{statements} {case.result.name} q = {value}; return q + q;"


def block(case: Case, statements: str, value: str, into: str = "q") -> str:
    return f"{{ {statements} {into} = {value}; }}"


def declared(case: Case, value: float = 0) -> str:
    return f"{case.result.name} q = {constant(case.result, value)};"


LOOP = "[MaxIters(3)] for (int k = 0; k < 3; ++k)"


def local(case: Case, name: str) -> str:
    copies = " ".join(f"{operand.name} b{k} = a{k};" for k, operand in enumerate(case.operands))
    statements, value = spelled(case, names(case, "b"))
    return function(case, name, f"{copies} {declared(case)} {block(case, statements, value)} return q;")


def between(value: str, way: str) -> Callable[[Case, str, str], str]:
    """A template of `{Q}` (declares q), `{B}` (the block that assigns it), `{S}`, `{V}` (statements, value), `{R}`."""

    def body(case: Case, statements: str, expression: str) -> str:
        words = {
            "{Q}": declared(case), "{B}": block(case, statements, expression), "{S}": statements, "{V}": expression,
            "{R}": case.result.name, "{E}": case.result.element, "{L}": LOOP,
        }  # fmt: skip
        text = value
        for word, meaning in words.items():
            text = text.replace(word, meaning)
        return text

    return body


def behind_branch(case: Case, n: Tensor, value: Tensor) -> Tensor:
    return scaled(value, 1.0 + n)


# A loop carries operand j, which stays in the range that it was drawn from.
TURNS = 3


def turn(type: Type, name: str) -> str:
    return f"{name} = {name} - {constant(type, 0.0625)} * {name} * {name};"


def turned(value: Tensor) -> Tensor:
    return value - 0.0625 * value * value


def carried(j: int, inside: bool) -> Position:
    def text(case: Case, name: str) -> str:
        operand = case.operands[j]
        places = names(case)
        places[j] = "b"
        statements, value = spelled(case, places)
        begin = f"{operand.name} b = a{j}; {case.result.name} q = {constant(case.result, 0)};"
        if inside:
            inner = f"{{ {statements} q += {value}; }}"
            return function(case, name, f"{begin} {LOOP} {{ {inner} {turn(operand, 'b')} }} return q;")
        return function(
            case, name, f"{begin} {LOOP} {{ {turn(operand, 'b')} }} {block(case, statements, value)} return q;"
        )

    def run(case: Case) -> Run:
        def values(n: Tensor, *operands: Tensor) -> Tensor:
            operands, total = list(operands), 0
            for _ in range(TURNS):
                total = total + case.run(*operands) if inside else 0
                operands[j] = turned(operands[j])
            return total if inside else case.run(*operands)

        return values

    where = "inside" if inside else "behind"
    return Position(
        f"operand {j} carried by a loop, {where} it", text, run,
        lambda case: j < len(case.operands) and case.operands[j].differentiable,
    )  # fmt: skip


def helper(case: Case, name: str) -> str:
    statements, value = spelled(case, names(case))
    given = ", ".join(names(case))
    inner = f"[Differentiable] {case.result.name} {name}_h({parameters(case)}) {{ {statements} return {value}; }}\n"
    return inner + function(case, name, f"return {name}_h({given});")


def inout_helper(case: Case, name: str) -> str:
    statements, value = spelled(case, names(case))
    given = parameters(case, 0, [f"inout {case.result.name} q"])
    inner = f"[Differentiable] void {name}_h({given}) {{ {statements} q += {value}; }}\n"
    body = f"{declared(case, 0.5)} {name}_h(q, {', '.join(names(case))}); return q;"
    return inner + function(case, name, body)


def _method(case: Case, name: str, conformance: str) -> str:
    """A struct `<name>_S` with operand 0 and a method `at` of the others."""
    statements, value = spelled(case, names(case))
    method = f"[Differentiable] {case.result.name} at({parameters(case, 1)}) {{ {statements} return {value}; }}"
    return f"struct {name}_S : {conformance} {{ {case.operands[0].name} a0; {method} }}\n"


def method(case: Case, name: str) -> str:
    body = f"{name}_S s; s.a0 = a0; return s.at({', '.join(names(case)[1:])});"
    return _method(case, name, "IDifferentiable") + function(case, name, body)


def interface(case: Case, name: str) -> str:
    wanted = (
        f"interface {name}_I : IDifferentiable {{ [Differentiable] {case.result.name} at({parameters(case, 1)}); }}\n"
    )
    inner = parameters(case, 1, ["X s"])
    call = f"s.at({', '.join(names(case)[1:])})"
    generic = f"[Differentiable] {case.result.name} {name}_g<X : {name}_I>({inner}) {{ return {call}; }}\n"
    body = f"{name}_S s; s.a0 = a0; return {name}_g({', '.join(['s', *names(case)[1:]])});"
    return wanted + _method(case, name, f"{name}_I") + generic + function(case, name, body)


def generic(case: Case, name: str) -> str:
    types = [t.generic("T") if t.differentiable else t.name for t in case.operands]
    result = case.result.generic("T")
    statements, value = case.spelled(names(case), types, result, "T")
    given = ", ".join(f"{type} a{k}" for k, type in enumerate(types))
    signature = f"[Differentiable] {result} {name}_g<T : __BuiltinFloatingPointType>({given})"
    inner = f"{signature} {{ {statements} return {value}; }}\n"
    return inner + function(case, name, f"return {name}_g<{case.result.element}>({', '.join(names(case))});")


def fits_generic(case: Case) -> bool:
    """One type of elements; and a type parameter has no swizzles."""
    elements = {t.element for t in (*case.operands, case.result)}
    return case.operation.name != "swizzle of a number" and elements == {case.result.element}


def fields(conformance: str, way: str) -> Callable[[Case, str], str]:
    def text(case: Case, name: str) -> str:
        members = " ".join(f"{operand.name} a{k};" for k, operand in enumerate(case.operands))
        struct = f"struct {name}_S{conformance} {{ {members} }};\n"
        if way == "by a list":
            begin = f"{name}_S s = {{ {', '.join(names(case))} }};"
        else:
            begin = f"{name}_S s; " + " ".join(f"s.{a} = {a};" for a in names(case))
        statements, value = spelled(case, [f"s.{a}" for a in names(case)])
        return struct + function(case, name, f"{begin} {statements} return {value};")

    return text


def elements(case: Case, name: str) -> str:
    begin = " ".join(f"{operand.name} b{k}[2] = {{ a{k}, a{k} }};" for k, operand in enumerate(case.operands))
    statements, value = spelled(case, [f"b{k}[{'n' if k % 2 else '1'}]" for k in range(len(case.operands))])
    return function(case, name, f"{begin} {statements} return {value};")


def plain(text: Callable[[Case, str], str], name: str, fits: Callable[[Case], bool] = lambda case: True) -> Position:
    """One that changes nothing."""
    return Position(name, text, lambda case: lambda n, *operands: case.run(*operands), fits)


def without_gradient(case: Case, name: str) -> str:
    statements, value = spelled(case, ["b", *names(case)[1:]])
    return function(case, name, f"{case.operands[0].name} b = detach(a0); {statements} return {value};")


def run_without_gradient(case: Case) -> Run:
    return lambda n, first, *others: case.run(first.detach(), *others)


INLINE = Position("inline", lambda case, name: "", lambda case: lambda n, *operands: case.run(*operands))
POSITIONS = [
    of_body("returned", between("{S} return {V};", ""), same),
    of_body("first statement", first_statement, lambda case, n, value: 2 * value),
    plain(local, "local"),
    of_body("in a branch", between("{Q} if (n > 0) {B} return q;", ""), lambda case, n, value: scaled(value, n)),
    of_body("in both branches", between("{Q} if (n > 0) {B} else { {B} q = -q; } return q;", ""),
            lambda case, n, value: scaled(value, 2 * n - 1)),
    of_body("behind a branch", between("{E} s = {E}(1); if (n > 0) s = {E}(2); {Q} {B} return {R}(s) * q;", ""),
            behind_branch),
    of_body("behind a return", between("if (n > 0) return {R}({E}(0)); {S} return {V};", ""),
            lambda case, n, value: scaled(value, 1.0 - n)),
    of_body("in a loop", between("{Q} {L} { {S} q += {V}; } return q;", ""), lambda case, n, value: 3 * value),
    *(carried(j, inside) for j in range(3) for inside in (False, True)),
    plain(helper, "helper"),
    Position("inout helper", inout_helper, lambda case: lambda n, *operands: 0.5 + case.run(*operands)),
    plain(method, "method", lambda case: len(case.operands) > 1),
    plain(interface, "interface", lambda case: len(case.operands) > 1),
    plain(generic, "generic", fits_generic),
    plain(fields(" : IDifferentiable", "by fields"), "struct field"),
    plain(fields("", "by fields"), "undeclared struct field"),
    plain(fields("", "by a list"), "undeclared struct by a list"),
    plain(elements, "array element"),
    Position("operand 0 detached", without_gradient, run_without_gradient, lambda case: len(case.operands) > 1
             and case.operands[0].differentiable),
]  # fmt: skip
BY_NAME = {position.name: position for position in POSITIONS}
