"""Random Slang functions of vectors, matrices, arrays and structs, each with what it computes, in scalars of PyTorch.

A program has a few variables of one or two types. Their elements are read and assigned by literals, and by indices that
are known at run time only, in branches, loops and calls. `Program.text` is its Slang source. `Program.run` walks the
same statements one by one over Python lists of 0-dimensional tensors, so that PyTorch's autograd gives the gradients.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from devices import OUT_OF_MEMORY

Tensor = torch.Tensor
Value = Any  # a scalar, or a list of the values of a type's parts
State = dict[str, Value]
COMPONENTS = "xyzw"
INTEGERS = ("i", "j")  # parameters of each program, from 0 to 5
SCALARS = ("x", "z")


@dataclass(frozen=True)
class Type:
    """A scalar has no parts; others are made of them, by order."""

    name: str
    kind: str
    parts: tuple[Type, ...] = ()

    @cached_property
    def size(self) -> int:
        return sum(part.size for part in self.parts) if self.parts else 1

    def declare(self, variable: str) -> str:
        if self.kind != "array":
            return f"{self.name} {variable}"
        return self.parts[0].declare(f"{variable}[{len(self.parts)}]")

    def value(self, scalars: list[Tensor]) -> Value:
        """Takes the scalars that it holds from the front of the list."""
        return [part.value(scalars) for part in self.parts] if self.parts else scalars.pop(0)


SCALAR = Type("double", "scalar")


def vector(size: int) -> Type:
    return Type(f"double{size}", "vector", (SCALAR,) * size)


def matrix(rows: int, columns: int) -> Type:
    return Type(f"double{rows}x{columns}", "matrix", (vector(columns),) * rows)


def array(part: Type, size: int) -> Type:
    return Type("", "array", (part,) * size)


STRUCTS = """
struct Pair : IDifferentiable { double a; double2 b; double c[3]; };
struct Nest : IDifferentiable { Pair a; double2x2 b; double c; };
struct Bare { double2 a; double b; };
int pick(int i, int n) { return (3 * i + 1) % n; }
double still(double x) { return x; }
"""
PAIR = Type("Pair", "struct", (SCALAR, vector(2), array(SCALAR, 3)))
NEST = Type("Nest", "struct", (PAIR, matrix(2, 2), SCALAR))
BARE = Type("Bare", "struct", (vector(2), SCALAR))  # which is not declared as differentiable
TYPES = [
    vector(2),
    vector(3),
    vector(4),
    array(SCALAR, 2),
    array(SCALAR, 4),
    matrix(2, 2),
    matrix(2, 3),
    PAIR,
    NEST,
    BARE,
]
TYPES += [array(vector(2), 3), array(PAIR, 2), array(array(SCALAR, 2), 2)]


class Returned(Exception):
    def __init__(self, value: Tensor) -> None:
        self.value = value


class Left(Exception):
    """By `break`."""


class WentOn(Exception):
    """By `continue`."""


@dataclass
class Expression:
    text: str
    run: Callable[[State], Any]


@dataclass
class Place:
    """An element of a variable: reads, writes, and the text of it."""

    type: Type
    text: str
    steps: list[Callable[[State], Any]]  # the variable's name, then the number of a part, each time

    def _whole(self, state: State) -> tuple[Any, Any]:
        at, key = state, self.steps[0](state)
        for step in self.steps[1:]:
            at, key = at[key], step(state)
        return at, key

    def read(self, state: State) -> Value:
        at, key = self._whole(state)
        return _copied(at[key])

    def write(self, state: State, value: Value) -> None:
        at, key = self._whole(state)
        at[key] = value


def _copied(value: Value) -> Value:
    return [_copied(part) for part in value] if isinstance(value, list) else value


@dataclass
class Statement:
    lines: list[str]
    run: Callable[[State], None]


@dataclass
class Helper:
    """`double name(inout T a, inout T b, double x, double z, int i, int j)`; `run` changes a state with these names."""

    name: str
    type: Type
    run: Callable[[State], Tensor]


@dataclass
class Maker:
    """`T name(T a, double x, double z, int i, int j)`, or a method of T; `run` changes a state with these names."""

    name: str
    type: Type
    is_method: bool
    run: Callable[[State], Value]

    def call(self, argument: str, others: str) -> str:
        return f"{argument}.{self.name}({others})" if self.is_method else f"{self.name}({argument}, {others})"


@dataclass
class Scope:
    """What may be named where a statement stands."""

    variables: dict[str, Type]
    integers: list[str] = field(default_factory=lambda: list(INTEGERS))
    helpers: list[Helper] = field(default_factory=list)
    makers: list[Maker] = field(default_factory=list)
    depth: int = 0
    may_return: bool = True
    loop: str | None = None  # the word that begins the innermost one


class Drawing:
    """Draws the statements of one function."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._names = 0

    def new_name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def chance(self, probability: float) -> bool:
        return self._rng.random() < probability

    # Expressions.

    def index(self, scope: Scope, count: int) -> Expression:
        """A number from 0 to count - 1, as the program knows it only when it runs."""
        name, other = self._rng.choice(scope.integers), self._rng.choice(scope.integers)
        add = self._rng.randint(0, 3)
        return self._rng.choice(
            [
                Expression(f"{name} % {count}", lambda s: s[name] % count),
                Expression(f"{name} % {count}", lambda s: s[name] % count),
                Expression(f"({name} + {add}) % {count}", lambda s: (s[name] + add) % count),
                Expression(f"({name} + {other}) % {count}", lambda s: (s[name] + s[other]) % count),
                Expression(f"uint({name}) % {count}u", lambda s: s[name] % count),
                Expression(f"pick({name}, {count})", lambda s: (3 * s[name] + 1) % count),
            ]
        )

    def place(self, scope: Scope, stop: Callable[[Type], bool], variables: Sequence[str] | None = None) -> Place:
        """A way from a variable down to a part that `stop` accepts, or to a scalar."""
        name = self._rng.choice(variables or list(scope.variables))
        place = Place(scope.variables[name], name, [lambda s, name=name: name])
        while place.type.parts and not stop(place.type):
            place = self._part(scope, place)
        return place

    def _part(self, scope: Scope, place: Place) -> Place:
        count = len(place.type.parts)
        number = self._rng.randrange(count)
        part, text, step = place.type.parts[number], "", lambda s, number=number: number
        if place.type.kind == "struct":
            text = f".{'abc'[number]}"
        elif place.type.kind == "vector" and self.chance(0.5):
            text = f".{COMPONENTS[number]}"
        elif self.chance(0.5):
            index = self.index(scope, count)
            text, step = f"[{index.text}]", index.run
        else:
            text = f"[{number}{self._rng.choice(['', 'u'])}]"
        return Place(part, place.text + text, [*place.steps, step])

    def scalar(self, scope: Scope, depth: int = 0) -> Expression:
        kind = self._rng.randrange(10 if depth < 3 else 5)
        if kind < 4:
            place = self.place(scope, lambda t: False)
            return Expression(place.text, place.read)
        if kind == 4:
            name = self._rng.choice(SCALARS)
            return Expression(name, lambda s: s[name])
        a, b = self.scalar(scope, depth + 1), self.scalar(scope, depth + 1)
        if kind < 7:
            return Expression(
                f"{a.text} * {b.text}" if depth == 3 else f"({a.text} * {b.text})", lambda s: a.run(s) * b.run(s)
            )
        if kind == 7:
            return Expression(f"(0.5 * ({a.text} + {b.text}))", lambda s: 0.5 * (a.run(s) + b.run(s)))
        if kind == 8:
            return Expression(f"({a.text} - {b.text})", lambda s: a.run(s) - b.run(s))
        return Expression(f"sin({a.text})", lambda s: torch.sin(a.run(s)))

    def condition(self, scope: Scope) -> Expression:
        if self.chance(0.4):
            name, number = self._rng.choice(scope.integers), self._rng.randrange(3)
            return Expression(f"{name} % 3 == {number}", lambda s: s[name] % 3 == number)
        a, border = self.scalar(scope, 2), round(self._rng.uniform(-0.5, 0.5), 2)
        return Expression(f"{a.text} > {border}", lambda s: bool(a.run(s) > border))

    # Statements.

    def block(self, scope: Scope, count: int) -> Statement:
        inner = replace(scope, variables=dict(scope.variables), integers=list(scope.integers), depth=scope.depth + 1)
        statements = [self.statement(inner) for _ in range(count)]

        def run(state: State) -> None:
            for statement in statements:
                statement.run(state)

        return Statement([line for statement in statements for line in statement.lines], run)

    def statement(self, scope: Scope) -> Statement:
        kinds = (
            [self.assign] * 5
            + [self.update] * 2
            + [self.copy_whole] * 3
            + [self.swap] * 2
            + [self.reset]
            + [self.scale] * 2
            + [self.detach]
            + [self.local] * 2
            + [self.begin] * 2
        )
        if scope.depth < 4:
            kinds += [self.branch] * 3 + [self.loop] * 2 + [self.choose]
        if scope.makers:
            kinds += [self.make] * 2
        if scope.helpers:
            kinds += [self.call] * 2
        if scope.may_return:
            kinds += [self.give_up]
        if scope.loop:
            kinds += [self.leave, self.leave]
        return self._rng.choice(kinds)(scope)

    def assign(self, scope: Scope) -> Statement:
        place, value = self.place(scope, lambda t: False), self.scalar(scope)
        return Statement([f"{place.text} = {value.text};"], lambda s: place.write(s, value.run(s)))

    def reset(self, scope: Scope) -> Statement:
        place, value = self.place(scope, lambda t: False), self._rng.randint(-1, 2) / 2
        return Statement(
            [f"{place.text} = {value};"], lambda s: place.write(s, torch.tensor(value, dtype=torch.float64))
        )

    def update(self, scope: Scope) -> Statement:
        place, value = self.place(scope, lambda t: False), self.scalar(scope, 2)
        if self.chance(0.5):
            return Statement([f"{place.text} += {value.text};"], lambda s: place.write(s, place.read(s) + value.run(s)))
        return Statement([f"{place.text} *= {value.text};"], lambda s: place.write(s, place.read(s) * value.run(s)))

    def scale(self, scope: Scope) -> Statement:
        """A vector or matrix and a number: by an operator on either side, or by a compound assignment."""
        target = self.place(scope, lambda t: t.kind in ("vector", "matrix") and self.chance(0.7))
        if target.type.kind not in ("vector", "matrix"):
            return self.update(scope)
        value, sign = self.scalar(scope, 2), self._rng.choice("+-*")
        change = {"+": lambda a, x: a + x, "-": lambda a, x: a - x, "*": lambda a, x: a * x}[sign]
        number_first = self.chance(0.5)

        def changed(part: Value, x: Tensor) -> Value:
            if isinstance(part, list):
                return [changed(inner, x) for inner in part]
            return change(x, part) if number_first else change(part, x)

        text = (
            f"{target.text} = {value.text} {sign} {target.text};"
            if number_first
            else f"{target.text} {sign}= {value.text};"
        )
        return Statement([text], lambda s: target.write(s, changed(target.read(s), value.run(s))))

    def detach(self, scope: Scope) -> Statement:
        """A constant of the derivative."""
        place, value = self.place(scope, lambda t: False), self.scalar(scope, 2)
        word = self._rng.choice(["detach({})", "no_diff still({})"])
        return Statement(
            [f"{place.text} = {word.format(value.text)};"], lambda s: place.write(s, value.run(s).detach())
        )

    def _alike(self, scope: Scope) -> tuple[Place, Place]:
        """Two places of one type, which is no scalar where there is a choice."""
        target = self.place(scope, lambda t: self.chance(0.5))
        for _ in range(20):
            source = self.place(scope, lambda t: t == target.type)
            if source.type == target.type:
                return target, source
        return target, target

    def copy_whole(self, scope: Scope) -> Statement:
        target, source = self._alike(scope)
        return Statement([f"{target.text} = {source.text};"], lambda s: target.write(s, source.read(s)))

    def local(self, scope: Scope) -> Statement:
        """A new variable, a copy of another or of a part, for the rest of the block."""
        source, name = self.place(scope, lambda t: self.chance(0.7)), self.new_name("u")
        if not source.type.parts:
            return self.copy_whole(scope)
        scope.variables[name] = source.type

        def run(state: State) -> None:
            state[name] = source.read(state)

        return Statement([f"{source.type.declare(name)} = {source.text};"], run)

    def begin(self, scope: Scope) -> Statement:
        """A new variable without a value, whose parts are assigned one by one, for the rest of the block."""
        type, name = self.place(scope, lambda t: self.chance(0.7)).type, self.new_name("b")
        if not type.parts:
            return self.assign(scope)
        given = self._given_by_parts(scope, Place(type, name, [lambda s: name]))
        self._rng.shuffle(given)
        scope.variables[name] = type

        def run(state: State) -> None:
            state[name] = type.value([torch.zeros((), dtype=torch.float64)] * type.size)
            for part, value in given:
                part.write(state, value.run(state))

        return Statement(
            [f"{type.declare(name)};", *(f"{part.text} = {value.text};" for part, value in given)],
            run,
        )

    def _given_by_parts(self, scope: Scope, place: Place) -> list[tuple[Place, Expression]]:
        """The parts of a place, each named by a literal, and what each is given."""
        given = []
        for number, type in enumerate(place.type.parts):
            text = {"struct": f".{'abc'[number % 3]}", "vector": f".{COMPONENTS[number % 4]}"}
            step = lambda s, number=number: number  # noqa: E731
            part = Place(type, place.text + text.get(place.type.kind, f"[{number}]"), [*place.steps, step])
            source = self.place(scope, lambda t, type=type: t == type)
            if not type.parts:
                given.append((part, self.scalar(scope, 2)))
            elif source.type == type and self.chance(0.5):
                given.append((part, Expression(source.text, source.read)))
            else:
                given += self._given_by_parts(scope, part)
        return given

    def make(self, scope: Scope) -> Statement:
        """A call that gives an aggregate."""
        maker = self._rng.choice(scope.makers)
        source, target = (self.place(scope, lambda t: t == maker.type) for _ in range(2))
        if source.type != maker.type or target.type != maker.type:
            return self.copy_whole(scope)
        x, z = self.scalar(scope, 2), self.scalar(scope, 2)
        i, j = self._rng.choice(scope.integers), self._rng.choice(scope.integers)

        def run(state: State) -> None:
            inner = {"a": source.read(state), "x": x.run(state), "z": z.run(state), "i": state[i], "j": state[j]}
            target.write(state, maker.run(inner))

        call = maker.call(source.text, f"{x.text}, {z.text}, {i}, {j}")
        return Statement([f"{target.text} = {call};"], run)

    def swap(self, scope: Scope) -> Statement:
        target, source = self._alike(scope)
        name = self.new_name("t")

        def run(state: State) -> None:
            kept = target.read(state)
            target.write(state, source.read(state))
            source.write(state, kept)

        lines = [
            f"{target.type.declare(name)} = {target.text};",
            f"{target.text} = {source.text};",
            f"{source.text} = {name};",
        ]
        return Statement(lines, run)

    def branch(self, scope: Scope) -> Statement:
        condition = self.condition(scope)
        then = self.block(scope, self._rng.randint(1, 3))
        otherwise = self.block(scope, self._rng.randint(1, 3)) if self.chance(0.6) else None

        def run(state: State) -> None:
            if condition.run(state):
                then.run(state)
            elif otherwise is not None:
                otherwise.run(state)

        lines = [f"if ({condition.text})", "{", *then.lines, "}"]
        return Statement(lines + (["else", "{", *otherwise.lines, "}"] if otherwise is not None else []), run)

    def choose(self, scope: Scope) -> Statement:
        """A `switch`; what stands in it has no `break` or `continue` of a loop."""
        name, count = self._rng.choice(scope.integers), self._rng.randint(2, 3)
        inner = replace(scope, loop=None)
        blocks = [self.block(inner, self._rng.randint(1, 2)) for _ in range(count)]
        lines = [f"switch ({name} % 3)", "{"]
        for number, block in enumerate(blocks):
            label = "default" if number == count - 1 else f"case {number}"
            lines += [f"{label}:", "{", *block.lines, "}", "break;"]

        def run(state: State) -> None:
            blocks[min(state[name] % 3, count - 1)].run(state)

        return Statement([*lines, "}"], run)

    def loop(self, scope: Scope) -> Statement:
        name, most = self.new_name("k"), self._rng.randint(1, 3)
        word = self._rng.choice(["for", "for", "for", "while", "while", "do"])
        inner = replace(scope, integers=[*scope.integers, name], depth=scope.depth + 1, loop=word)
        body = self.block(inner, self._rng.randint(1, 3))
        counter = self._rng.choice(INTEGERS) if word != "do" and self.chance(0.4) else None

        def run(state: State) -> None:
            for number in range(most if counter is None else state[counter] % (most + 1)):
                state[name] = number
                try:
                    body.run(state)
                except Left:
                    return
                except WentOn:
                    pass

        count = str(most) if counter is None else f"{counter} % {most + 1}"
        if word == "for":
            head = f"[MaxIters({most})] for (int {name} = 0; {name} < {count}; ++{name})"
            return Statement([head, "{", *body.lines, "}"], run)
        # The counter is changed first, so that a `continue` does not pass it by.
        lines = [f"int {name} = -1;", f"[MaxIters({most})] while ({name} + 1 < {count})"]
        if word == "do":
            lines[1] = f"[MaxIters({most})] do"
        lines += ["{", f"++{name};", *body.lines, "}"]
        return Statement(lines + ([f"while ({name} + 1 < {count});"] if word == "do" else []), run)

    def leave(self, scope: Scope) -> Statement:
        """`break` or `continue` on a condition, behind an assignment."""
        condition, change = self.condition(scope), self.assign(scope)
        word = self._rng.choice(["break", "continue"])

        def run(state: State) -> None:
            if condition.run(state):
                change.run(state)
                raise Left if word == "break" else WentOn

        return Statement([f"if ({condition.text})", "{", *change.lines, f"{word};", "}"], run)

    def call(self, scope: Scope) -> Statement:
        helper = self._rng.choice(scope.helpers)
        fitting = [name for name, type in scope.variables.items() if type == helper.type]
        if len(fitting) < 2:
            return self.assign(scope)
        first, second = self._rng.sample(fitting, 2)
        target, x, z = self.place(scope, lambda t: False), self.scalar(scope, 2), self.scalar(scope, 2)
        i, j = self._rng.choice(scope.integers), self._rng.choice(scope.integers)

        def run(state: State) -> None:
            inner = {
                "a": state[first],
                "b": state[second],
                "x": x.run(state),
                "z": z.run(state),
                "i": state[i],
                "j": state[j],
            }
            result = helper.run(inner)
            state[first], state[second] = inner["a"], inner["b"]
            target.write(state, result)

        name = self.new_name("r")
        arguments = f"{first}, {second}, {x.text}, {z.text}, {i}, {j}"
        return Statement([f"double {name} = {helper.name}({arguments});", f"{target.text} = {name};"], run)

    def give_up(self, scope: Scope) -> Statement:
        condition, value = self.condition(scope), self.scalar(scope)

        def run(state: State) -> None:
            if condition.run(state):
                raise Returned(value.run(state))

        return Statement([f"if ({condition.text}) return {value.text};"], run)

    def result(self, scope: Scope) -> Expression:
        """Something of each variable."""
        terms = []
        for name in scope.variables:
            for _ in range(2):
                a, b = self.place(scope, lambda t: False, [name]), self.scalar(scope, 2)
                terms.append(Expression(f"{a.text} * {b.text}", lambda s, a=a, b=b: a.read(s) * b.run(s)))
        return Expression(" + ".join(term.text for term in terms), lambda s: sum(term.run(s) for term in terms))


def _function(drawing: Drawing, scope: Scope, count: int) -> tuple[list[str], Callable[[State], Tensor]]:
    body = drawing.block(scope, count)
    result = drawing.result(scope)

    def run(state: State) -> Tensor:
        try:
            body.run(state)
            return result.run(state)
        except Returned as returned:
            return returned.value

    return [*body.lines, f"return {result.text};"], run


PARAMETERS = "double x, double z, int i, int j"


def _braced(head: str, lines: Sequence[str]) -> str:
    text, depth = head + "\n{\n", 1
    for line in lines:
        depth -= line == "}"
        text += "    " * depth + line + "\n"
        depth += line == "{"
    return text + "}\n"


@dataclass
class Program:
    name: str
    types: list[Type]  # of the aggregates that it takes
    makes_them: bool  # of numbers that it takes in their place
    text: str
    statements: Callable[[State], Tensor]

    @property
    def scalars(self) -> int:
        """How many numbers it takes: those of its aggregates, then x and z."""
        return sum(type.size for type in self.types) + len(SCALARS)

    def run(self, numbers: Tensor, integers: Sequence[int]) -> Tensor:
        """Of one row of numbers."""
        scalars = list(numbers.unbind())
        state: State = {f"v{n}": type.value(scalars) for n, type in enumerate(self.types)}
        state |= dict(zip(SCALARS, scalars, strict=True)) | dict(zip(INTEGERS, integers, strict=True))
        return self.statements(state)


def is_refused(error: RuntimeError) -> bool:
    """Whether a program has no derivative, or ends Slang's compiler, or has a frame that the GPU has no memory for."""
    return any(
        words in str(error) for words in (" is refused: ", "Slang compilation aborted", "was ended by", OUT_OF_MEMORY)
    )


def is_moderate(*results: Tensor) -> bool:
    """Whether rounding errors stayed small: loops of products may let numbers grow without bound."""
    return all(bool((result.abs() < 1e6).all()) for result in results)


def of_body(body: Statement) -> Callable[[State], Value]:
    """What a function with this body makes of its argument."""

    def run(state: State) -> Value:
        body.run(state)
        return state["a"]

    return run


def draw_program(seed: int, name: str) -> Program:
    rng = random.Random(seed)
    drawing = Drawing(rng)
    type = rng.choice(TYPES)
    types = [type] * rng.randint(2, 3) + ([rng.choice(TYPES)] if rng.random() < 0.3 else [])
    helpers: list[Helper] = []
    makers: list[Maker] = []
    texts = ""
    for n in range(rng.randint(0, 2)):
        attributes = "[ForceInline] [Differentiable]" if rng.random() < 0.3 else "[Differentiable]"
        if type.kind != "array" and rng.random() < 0.4:
            scope = Scope({"a": type}, helpers=list(helpers), makers=list(makers), depth=1, may_return=False)
            body = drawing.block(scope, rng.randint(1, 2))
            maker = Maker(f"{name}_{n}", type, type.kind == "struct" and rng.random() < 0.5, of_body(body))
            texts += _maker_text(maker, attributes, body.lines)
            makers.append(maker)
        else:
            scope = Scope({"a": type, "b": type}, helpers=list(helpers), makers=list(makers), depth=1)
            lines, run = _function(drawing, scope, rng.randint(1, 3))
            changed = f"inout {type.declare('a')}, inout {type.declare('b')}"
            head = f"{attributes} double {name}_{n}({changed}, {PARAMETERS})"
            helpers.append(Helper(f"{name}_{n}", type, run))
            texts += _braced(head, lines)
    variables = {f"v{n}": type for n, type in enumerate(types)}
    lines, run = _function(drawing, Scope(variables, helpers=helpers, makers=makers), rng.randint(2, 5))
    makes_them = rng.random() < 0.5
    if makes_them:
        count = sum(type.size for type in types)
        aggregates = ", ".join(f"double n{n}" for n in range(count))
        lines = made_of(types, [f"n{n}" for n in range(count)]) + lines
    else:
        aggregates = ", ".join(type.declare(f"v{n}") for n, type in enumerate(types))
    texts += _braced(f"[Differentiable] double {name}({aggregates}, {PARAMETERS})", lines)
    return Program(name, types, makes_them, texts, run)


def _maker_text(maker: Maker, attributes: str, lines: Sequence[str]) -> str:
    type = maker.type
    if not maker.is_method:
        head = f"{attributes} {type.name} {maker.name}({type.declare('a')}, {PARAMETERS})"
        return _braced(head, [*lines, "return a;"])
    head = f"{attributes} {type.name} {maker.name}({PARAMETERS})"
    return f"extension {type.name}\n{{\n{_braced(head, [f'{type.name} a = this;', *lines, 'return a;'])}}}\n"


def made_of(types: Sequence[Type], numbers: Sequence[str]) -> list[str]:
    """Declarations of v0, v1, ... with these numbers in them."""
    lines, first = [], 0
    for n, type in enumerate(types):
        lines.append(f"{type.declare(f'v{n}')} = {gather_texts(type, numbers, first)};")
        first += type.size
    return lines


def gather_texts(type: Type, numbers: Sequence[str], first: int) -> str:
    """An initializer of the type from numbers[first], numbers[first + 1], ..."""
    if not type.parts:
        return numbers[first]
    parts = []
    for part in type.parts:
        parts.append(gather_texts(part, numbers, first))
        first += part.size
    return "{" + ", ".join(parts) + "}"


def module_text(programs: Sequence[Program]) -> str:
    """One function, `run(which, numbers, i, j)`, that calls the program of that number: one text to compile for all."""
    most = max(program.scalars for program in programs)
    lines = ["double result = 0.0;"]
    for number, program in enumerate(programs):
        lines += [f"if (which == {number})", "{"]
        *numbers, x, z = [f"numbers[{n}]" for n in range(program.scalars)]
        given = numbers
        if not program.makes_them:
            lines += made_of(program.types, numbers)
            given = [f"v{n}" for n in range(len(program.types))]
        lines += [f"result = {program.name}({', '.join([*given, x, z])}, i, j);", "}"]
    text = "import torch_slang;\n" + STRUCTS + "".join(program.text for program in programs)
    head = f"[TorchOp] [Differentiable] double run(int which, double numbers[{most}], int i, int j)"
    return text + _braced(head, [*lines, "return result;"])
