"""Random programs with wave operations under divergence: as Slang, and run by an interpreter.

The interpreter has the 32 lanes of a wave in lockstep, as the language reference has them: a statement splits the lanes
that reach it, those that come to its end are together again, and the lanes of a call are so behind the call. Values
are kept between 0 and 1023, so nothing overflows; loops end after four turns.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

WAVE = 32
Lanes = np.ndarray  # of one number for each lane, or of booleans: which lanes


class Frame:
    """A call: its variables, and the lanes that have jumped, by the loops and switches around."""

    def __init__(self, values: dict[str, Lanes]) -> None:
        self.values = values
        self.result = np.zeros(WAVE, dtype=np.int64)
        self.breaks: list[Lanes] = []
        self.continues: list[Lanes] = []
        self.stored: dict[int, Lanes] = {}

    def assign(self, name: str, value: Lanes, lanes: Lanes) -> None:
        self.values[name] = np.where(lanes, value, self.values[name])


class Node:
    def text(self) -> str:
        raise NotImplementedError

    def value(self, frame: Frame, lanes: Lanes) -> Lanes:
        raise NotImplementedError

    def run(self, frame: Frame, lanes: Lanes) -> Lanes:
        """The lanes that come to its end."""
        raise NotImplementedError


# --- expressions


@dataclass
class Name(Node):
    name: str

    def text(self) -> str:
        return self.name

    def value(self, frame: Frame, lanes: Lanes) -> Lanes:
        return frame.values[self.name]


@dataclass
class Operation(Node):
    """`pattern` is the same in Slang and, but for what Python calls otherwise, in numpy."""

    pattern: str
    parts: list[Node]

    def text(self) -> str:
        return "(" + self.pattern.format(*(part.text() for part in self.parts)) + ")"

    def value(self, frame: Frame, lanes: Lanes) -> Lanes:
        names = "abc"[: len(self.parts)]
        values = dict(zip(names, (part.value(frame, lanes) for part in self.parts), strict=True))
        value = eval(self.pattern.format(*names), {}, values)
        return np.broadcast_to(np.asarray(value), WAVE)


@dataclass
class Chosen(Node):
    """`c ? a : b`, or a condition with && or ||: the operands are evaluated by those lanes that want them."""

    pattern: str
    condition: Node
    parts: list[Node]

    def text(self) -> str:
        return "(" + self.pattern.format(self.condition.text(), *(part.text() for part in self.parts)) + ")"

    def value(self, frame: Frame, lanes: Lanes) -> Lanes:
        condition = self.condition.value(frame, lanes)
        first = self.parts[0].value(frame, lanes & (condition if "||" not in self.pattern else ~condition))
        if "&&" in self.pattern:
            return condition & first
        if "||" in self.pattern:
            return condition | first
        return np.where(condition, first, self.parts[1].value(frame, lanes & ~condition))


def of_lanes(function: Callable[[Lanes], int]) -> Callable[[Lanes, Lanes], Lanes]:
    return lambda value, lanes: np.full(WAVE, function(value[lanes]) if lanes.any() else 0)


def before(value: Lanes, lanes: Lanes) -> Lanes:
    """The sum over the lanes in front of each."""
    kept = np.where(lanes, value, 0)
    return np.cumsum(kept) - kept


BITS = 1 << np.arange(WAVE, dtype=np.int64)
OF_NUMBERS = {
    "WaveActiveSum({})": of_lanes(np.sum),
    "WaveActiveMax({})": of_lanes(np.max),
    "WaveActiveMin({})": of_lanes(np.min),
    "WaveActiveBitXor({})": of_lanes(np.bitwise_xor.reduce),
    "WaveReadLaneFirst({})": of_lanes(lambda values: values[0]),
    "WavePrefixSum({})": before,
}
OF_CONDITIONS = {
    "int(WaveActiveCountBits({}))": of_lanes(np.sum),
    "int(WavePrefixCountBits({}))": lambda value, lanes: before(value.astype(np.int64), lanes),
    "int(WaveActiveBallot({}).x & 1023)": lambda value, lanes: np.full(WAVE, BITS[lanes & value].sum()),
    "int(WaveActiveAnyTrue({}))": of_lanes(np.any),
    "int(WaveActiveAllTrue({}))": of_lanes(np.all),
    "int(WaveGetActiveMask() >> uint({}) & 1023)": lambda value, lanes: BITS[lanes].sum() >> value.astype(np.int64),
}
WAVE_OPERATIONS = {**OF_NUMBERS, **OF_CONDITIONS}


@dataclass
class WaveOperation(Node):
    pattern: str
    part: Node

    def text(self) -> str:
        return "(" + self.pattern.format(self.part.text()) + " & 1023)"

    def value(self, frame: Frame, lanes: Lanes) -> Lanes:
        return WAVE_OPERATIONS[self.pattern](self.part.value(frame, lanes), lanes).astype(np.int64) & 1023


@dataclass
class Call(Node):
    function: Function
    parts: list[Node]
    changed: str  # the variable that is handed over as `inout`

    def text(self) -> str:
        return f"{self.function.name}({', '.join(part.text() for part in self.parts)}, {self.changed})"

    def value(self, frame: Frame, lanes: Lanes) -> Lanes:
        values = [part.value(frame, lanes) for part in self.parts]
        result, changed = self.function.call(values, frame.values[self.changed], lanes)
        frame.assign(self.changed, changed, lanes)
        return result


# --- statements


@dataclass
class Assign(Node):
    name: str
    source: Node

    def text(self) -> str:
        return f"{self.name} = {self.source.text()};\n"

    def run(self, frame: Frame, lanes: Lanes) -> Lanes:
        frame.assign(self.name, self.source.value(frame, lanes), lanes)
        return lanes


@dataclass
class Block(Node):
    statements: list[Node]

    def text(self) -> str:
        return "{\n" + "".join(statement.text() for statement in self.statements) + "}\n"

    def run(self, frame: Frame, lanes: Lanes) -> Lanes:
        for statement in self.statements:
            if lanes.any():
                lanes = statement.run(frame, lanes)
        return lanes


@dataclass
class If(Node):
    condition: Node
    then: Node
    otherwise: Node | None

    def text(self) -> str:
        text = f"if ({self.condition.text()}) {self.then.text()}"
        return text if self.otherwise is None else text + "else " + self.otherwise.text()

    def run(self, frame: Frame, lanes: Lanes) -> Lanes:
        condition = self.condition.value(frame, lanes)
        after = self.then.run(frame, lanes & condition)
        rest = lanes & ~condition
        return after | (rest if self.otherwise is None else self.otherwise.run(frame, rest))


@dataclass
class For(Node):
    counter: str
    turns: Node
    step: Node
    body: Node
    attribute: str = ""

    def text(self) -> str:
        head = f"int {self.counter} = 0; {self.counter} < {self.turns.text()}; {self.counter} += {self.step.text()}"
        return f"{self.attribute}for ({head}) {self.body.text()}"

    def run(self, frame: Frame, lanes: Lanes) -> Lanes:
        frame.values[self.counter] = np.zeros(WAVE, dtype=np.int64)
        frame.breaks.append(np.zeros(WAVE, dtype=bool))
        after = np.zeros(WAVE, dtype=bool)
        while lanes.any():
            goes_on = lanes & (frame.values[self.counter] < self.turns.value(frame, lanes))
            after |= lanes & ~goes_on
            frame.continues.append(np.zeros(WAVE, dtype=bool))
            lanes = self.body.run(frame, goes_on) | frame.continues.pop()
            if lanes.any():
                frame.assign(self.counter, frame.values[self.counter] + self.step.value(frame, lanes), lanes)
        return after | frame.breaks.pop()


@dataclass
class DoWhile(Node):
    counter: str
    condition: Node
    body: Block

    def text(self) -> str:
        body = "{\n" + f"++{self.counter};\n" + "".join(s.text() for s in self.body.statements) + "}"
        return f"int {self.counter} = 0;\ndo {body} while ({self.counter} < 4 && {self.condition.text()});\n"

    def run(self, frame: Frame, lanes: Lanes) -> Lanes:
        frame.values[self.counter] = np.zeros(WAVE, dtype=np.int64)
        frame.breaks.append(np.zeros(WAVE, dtype=bool))
        after = np.zeros(WAVE, dtype=bool)
        while lanes.any():
            frame.assign(self.counter, frame.values[self.counter] + 1, lanes)
            frame.continues.append(np.zeros(WAVE, dtype=bool))
            lanes = self.body.run(frame, lanes) | frame.continues.pop()
            few = lanes & (frame.values[self.counter] < 4)
            goes_on = few & self.condition.value(frame, few) if few.any() else few
            after |= lanes & ~goes_on
            lanes = goes_on
        return after | frame.breaks.pop()


@dataclass
class Switch(Node):
    """A case without `ends` falls into the next one."""

    selector: Node
    cases: list[tuple[list[int | None], Block, bool]]

    def text(self) -> str:
        text = f"switch ({self.selector.text()}) {{\n"
        for labels, block, ends in self.cases:
            text += "".join("default:\n" if label is None else f"case {label}:\n" for label in labels)
            text += "".join(statement.text() for statement in block.statements) + ("break;\n" if ends else "")
        return text + "}\n"

    def run(self, frame: Frame, lanes: Lanes) -> Lanes:
        selector = self.selector.value(frame, lanes)
        known = [label for labels, _, _ in self.cases for label in labels if label is not None]
        frame.breaks.append(np.zeros(WAVE, dtype=bool))
        rest, here = lanes.copy(), np.zeros(WAVE, dtype=bool)
        for labels, block, ends in self.cases:
            named = np.isin(selector, [label for label in labels if label is not None])
            takes = lanes & (named | ~np.isin(selector, known)) if None in labels else lanes & named
            rest &= ~takes
            here = block.run(frame, here | takes)
            if ends:
                frame.breaks[-1] |= here
                here = np.zeros(WAVE, dtype=bool)
        return rest | here | frame.breaks.pop()


@dataclass
class Jump(Node):
    word: str

    def text(self) -> str:
        return self.word + ";\n"

    def run(self, frame: Frame, lanes: Lanes) -> Lanes:
        if self.word != "return":
            jumped = frame.breaks if self.word == "break" else frame.continues
            jumped[-1] = jumped[-1] | lanes
        return np.zeros(WAVE, dtype=bool)


@dataclass
class Return(Node):
    source: Node

    def text(self) -> str:
        return f"return {self.source.text()};\n"

    def run(self, frame: Frame, lanes: Lanes) -> Lanes:
        frame.result = np.where(lanes, self.source.value(frame, lanes), frame.result)
        return np.zeros(WAVE, dtype=bool)


@dataclass
class Store(Node):
    """Of a kernel: into a row of its output."""

    row: int
    source: Node

    def text(self) -> str:
        return f"y[uint2({self.row}, i)] = {self.source.text()};\n"

    def run(self, frame: Frame, lanes: Lanes) -> Lanes:
        stored = frame.stored.get(self.row, np.zeros(WAVE, dtype=np.int64))
        frame.stored[self.row] = np.where(lanes, self.source.value(frame, lanes), stored)
        return lanes


@dataclass
class Barrier(Node):
    def text(self) -> str:
        return "GroupMemoryBarrierWithGroupSync();\n"

    def run(self, frame: Frame, lanes: Lanes) -> Lanes:
        return lanes


# --- functions and kernels

LOCALS = ("a", "b", "c")


@dataclass
class Function:
    name: str
    body: Block
    attribute: str = ""

    def text(self) -> str:
        rest = "".join(statement.text() for statement in self.body.statements)
        return f"{self.attribute}int {self.name}(int a, int b, inout int c)\n{{\n{rest}}}\n"

    def call(self, values: list[Lanes], changed: Lanes, lanes: Lanes) -> tuple[Lanes, Lanes]:
        frame = Frame(dict(zip(LOCALS, [*values, changed], strict=True)))
        self.body.run(frame, lanes)
        return frame.result, frame.values["c"]


@dataclass
class Kernel:
    name: str
    body: Block
    rows: int
    functions: list[Function] = field(default_factory=list)

    def text(self) -> str:
        rest = "".join(statement.text() for statement in self.body.statements)
        return (
            "".join(function.text() for function in self.functions)
            + '[PyBindCUDA(Auto)] [CudaKernel] [BlockSize(64, 1, 1)] [LaunchTotal("N")]\n'
            + f'void {self.name}([Shape("N")] TensorView<int> x, [Out("{self.rows}, N")] [Fill(0)] TensorView<int> y)\n'
            + "{\nuint i = cudaThreadIdx().x + cudaBlockIdx().x * cudaBlockDim().x;\nif (i >= x.size(0)) return;\n"
            + f"int a = x[i], b = int(cudaThreadIdx().x) & 31, c = 1;\n{rest}}}\n"
        )

    def run(self, x: Lanes) -> Lanes:
        """What it stores for `x`; blocks are of two whole waves, and the last wave may be shorter."""
        y = np.zeros((self.rows, len(x)), dtype=np.int64)
        for first in range(0, len(x), WAVE):
            count = min(WAVE, len(x) - first)
            a = np.zeros(WAVE, dtype=np.int64)
            a[:count] = x[first : first + count]
            lanes = np.arange(WAVE) < count
            frame = Frame({"a": a, "b": np.arange(WAVE), "c": np.ones(WAVE, dtype=np.int64)})
            self.body.run(frame, lanes)
            for row, values in frame.stored.items():
                y[row, first : first + count] = values[:count]
        return y


# --- the random ones


class Writer:
    """Draws functions and kernels. Functions may call those that were drawn before."""

    jumps = 0.22  # how often a list of statements ends with one
    steps = 0.2  # how often the step of a loop has a wave operation

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.functions: list[Function] = []
        self.counters = 0
        self.calls_left = 0

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def name(self) -> Node:
        return Name(self.random.choice(LOCALS))

    def plain(self) -> Node:
        patterns = [
            "{} + {} & 1023",
            "{} * 3 + {} & 1023",
            "{} ^ {}",
            "{} & {}",
            f"{{}} + {self.random.randrange(9)} & 1023",
        ]
        pattern = self.random.choice(patterns)
        return Operation(pattern, [self.name() for _ in range(pattern.count("{}"))])

    def plain_condition(self) -> Node:
        pattern = self.random.choice(
            ["{} > {}", "({} & 1) != 0", "({} & 3) == 2", "({} & {} & 7) < 3", "({} >> 2 & 1) == 0"]
        )
        return Operation(pattern, [self.name() for _ in range(pattern.count("{}"))])

    def condition(self) -> Node:
        if self.chance(0.12):
            return Chosen(self.random.choice(["{} && {}", "{} || {}"]), self.plain_condition(), [self.wave_condition()])
        return self.wave_condition() if self.chance(0.15) else self.plain_condition()

    def wave_condition(self) -> Node:
        return Operation("({} & 3) < 2", [self.wave()])

    def wave(self) -> Node:
        if self.chance(0.5):
            return WaveOperation(self.random.choice(list(OF_NUMBERS)), self.plain())
        return WaveOperation(self.random.choice(list(OF_CONDITIONS)), self.plain_condition())

    def number(self) -> Node:
        draw = self.random.random()
        if draw < 0.45:
            return self.wave()
        if draw < 0.65 and self.functions and self.calls_left > 0:
            self.calls_left -= 1
            function = self.random.choice(self.functions[-4:])
            return Call(function, [self.plain(), self.plain()], self.random.choice(LOCALS))
        if draw < 0.72:
            return Chosen(
                "{} ? {} : {}", self.plain_condition(), [self.wave(), self.wave() if self.chance(0.5) else self.plain()]
            )
        return self.plain()

    def statements(self, depth: int, loops: int, breakable: bool, leave: Callable[[], Node]) -> Block:
        found: list[Node] = []
        for _ in range(self.random.randint(1, 3 if depth == 3 else 2)):
            found.append(self.statement(depth, loops, breakable, leave))
        if depth < 3 and self.chance(self.jumps):
            jumps: list[Callable[[], Node]] = [leave]
            if breakable:
                jumps.append(lambda: Jump("break"))
            if loops:
                jumps.append(lambda: Jump("continue"))
            found.append(self.random.choice(jumps)())
        return Block(found)

    def statement(self, depth: int, loops: int, breakable: bool, leave: Callable[[], Node]) -> Node:
        draw = self.random.random()
        if depth == 0 or draw < 0.4:
            return Assign(self.random.choice(LOCALS), self.number())
        if draw < 0.66:
            otherwise = self.statements(depth - 1, loops, breakable, leave) if self.chance(0.5) else None
            return If(self.condition(), self.statements(depth - 1, loops, breakable, leave), otherwise)
        if draw < 0.84 and loops < 2:
            return self.loop(depth, loops, leave)
        return self.switch(depth, loops, leave)

    def loop(self, depth: int, loops: int, leave: Callable[[], Node]) -> Node:
        self.counters += 1
        counter = f"k{self.counters}"
        body = self.statements(depth - 1, loops + 1, True, leave)
        if self.chance(0.3):
            return DoWhile(counter, self.condition(), body)
        turns = Operation("{} & 3", [self.name()]) if self.chance(0.8) else Operation("3", [])
        step = Operation("1 + ({} & 1)", [self.wave()]) if self.chance(self.steps) else Operation("1", [])
        # The bound is a variable of its own in front of the loop, so that it stays what it was.
        bound = f"n{counter[1:]}"
        return Block([Declare(bound, turns), For(counter, Name(bound), step, body)])

    def switch(self, depth: int, loops: int, leave: Callable[[], Node]) -> Node:
        values: list[int | None] = list(range(self.random.randint(2, 6)))
        if self.chance(0.7):
            values.append(None)
        self.random.shuffle(values)
        cases = []
        while values:
            labels = [values.pop() for _ in range(min(len(values), self.random.randint(1, 3)))]
            block = self.statements(depth - 1, loops, True, leave)
            falls = bool(values) and self.chance(0.2)
            jumps = isinstance(block.statements[-1], Jump | Return)
            cases.append((labels, block, not falls and not jumps))
        return Switch(Operation("{} & 7", [self.name()]), cases)

    def function(self, name: str) -> Function:
        self.calls_left = 2
        body = self.statements(3, 0, False, lambda: Return(self.number()))
        if not isinstance(body.statements[-1], Return):
            body.statements.append(Return(self.plain() if self.chance(0.5) else self.wave()))
        attribute = "[ForceInline] " if self.chance(0.2) else ""
        self.functions.append(Function(name, body, attribute))
        return self.functions[-1]

    def kernel(self, name: str, programs: int) -> Kernel:
        """Of `programs` functions, each of which it calls, in random control flow of its own."""
        first = len(self.functions)
        for k in range(programs):
            self.function(f"{name}_f{k}")
        body: list[Node] = []
        for row, function in enumerate(self.functions[first:]):
            call = Call(function, [self.plain(), self.plain()], self.random.choice(LOCALS))
            body.append(Assign(self.random.choice(LOCALS), call))
            body.append(Store(row, Operation("{} + 1024 * ({} & 15) + 16384 * ({} & 15)", [Name(n) for n in LOCALS])))
            self.calls_left = 1
            if self.chance(0.3):
                body.append(self.statement(2, 0, False, lambda: Jump("return")))
            if self.chance(0.2):
                body.append(Barrier())
            # Fresh numbers for the next program.
            body.append(Assign("a", Operation("{} + {} & 1023", [Name("x_of_lane"), Name("b")])))
        body.insert(0, Declare("x_of_lane", Name("a")))
        return Kernel(name, Block(body), programs, self.functions[first:])


class LoopWriter(Writer):
    """Functions of one loop, with branches inside branches: lanes leave them by jumps, and meet behind the turn."""

    jumps = 0.4
    steps = 0.7

    def function(self, name: str) -> Function:
        self.calls_left = 0
        loop = self.loop(4, 0, lambda: Return(self.number()))
        body = Block([loop, Assign(self.random.choice(LOCALS), self.wave()), Return(self.wave())])
        self.functions.append(Function(name, body))
        return self.functions[-1]

    def statement(self, depth: int, loops: int, breakable: bool, leave: Callable[[], Node]) -> Node:
        draw = self.random.random()
        if depth == 0 or draw < 0.35:
            return Assign(self.random.choice(LOCALS), self.number())
        if draw < 0.85:
            otherwise = self.statements(depth - 1, loops, breakable, leave) if self.chance(0.4) else None
            return If(self.condition(), self.statements(depth - 1, loops, breakable, leave), otherwise)
        return self.switch(depth, loops, leave)


@dataclass
class Declare(Node):
    name: str
    source: Node

    def text(self) -> str:
        return f"int {self.name} = {self.source.text()};\n"

    def run(self, frame: Frame, lanes: Lanes) -> Lanes:
        frame.values[self.name] = self.source.value(frame, lanes)
        return lanes
