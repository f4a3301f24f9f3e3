"""What Slang's core does with floating-point numbers, vectors and matrices: each operation, and the same in PyTorch.

`cases()` gives each with every combination of operand types that is legal.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial

import torch
from language_cases import (
    ELEMENTS,
    FEW,
    MATRICES,
    SHAPES,
    SOME,
    VECTORS,
    Case,
    Operation,
    Shape,
    Tensor,
    Type,
    beside,
    by_component,
    cases_of,
    clamped,
    dot,
    joined,
    length,
    mixed,
    pick,
    product,
    put,
    reflect,
    refract,
    replaced,
    smoothstep,
    typed,
    unit,
)


def binary_operators() -> Iterator[Case]:
    functions = {"+": torch.add, "-": torch.sub, "*": torch.mul, "/": torch.div}
    for sign, function in functions.items():
        operation = Operation(f"operator {sign}", f"({{0}} {sign} {{1}})", by_component(function))
        yield from cases_of([operation], [*typed(beside(2)), *mixed(2)])
        twice = Operation(f"operator {sign} twice", f"({{0}} {sign} {{1}} {sign} {{0}})", by_component(
            lambda a, b, f=function: f(f(a, b), a)))  # fmt: skip
        yield from cases_of([twice], typed(s for s in beside(2) if all(shape in FEW for shape in s)))
        changed = Operation(
            f"operator {sign}=", "r", by_component(function), statements=f"{{R}} r = {{0}}; r {sign}= {{1}};"
        )
        wide = [types for types in [*typed(beside(2)), *mixed(2)] if joined(*types) == types[0]]
        yield from cases_of([changed], wide)
    modulo = Operation("operator %", "({0} % {1})", by_component(torch.fmod))
    yield from cases_of([modulo], typed(beside(2)))
    by_constant = Operation(
        "operator % of a constant", "({0} % {E}(0.4375))", lambda a: torch.fmod(a, torch.tensor(0.4375))
    )
    yield from cases_of([by_constant], typed((shape,) for shape in SHAPES))
    changed = Operation("operator %=", "r", by_component(torch.fmod), statements="{R} r = {0}; r %= {1};")
    yield from cases_of([changed], (types for types in typed(beside(2)) if joined(*types) == types[0]))


def unary_operators() -> Iterator[Case]:
    one = [(shape,) for shape in SHAPES]
    yield from cases_of([Operation("operator - of one", "(-{0})", torch.neg)], typed(one))
    yield from cases_of([Operation("operator + of one", "(+{0})", lambda a: 1 * a)], typed(one))
    steps = {
        "++r": ("(++r)", lambda a: a + 1), "--r": ("(--r)", lambda a: a - 1),
        "r++": ("(r++ * r)", lambda a: a * (a + 1)),
        "r--": ("(r-- * r)", lambda a: a * (a - 1)),
    }  # fmt: skip
    for name, (text, run) in steps.items():
        yield from cases_of([Operation(name, text, run, statements="{R} r = {0};")], typed([((),), ((3,),)]))


UNARY = {
    "abs": torch.abs, "sin": torch.sin, "cos": torch.cos, "tan": torch.tan, "atan": torch.atan, "sinh": torch.sinh,
    "cosh": torch.cosh, "tanh": torch.tanh, "asinh": torch.asinh, "exp": torch.exp, "exp2": torch.exp2,
    "radians": torch.deg2rad,
    "degrees": torch.rad2deg, "saturate": lambda x: x.clamp(0, 1), "frac": lambda x: x - x.floor(),
    "rcp": torch.reciprocal, "floor": torch.floor, "ceil": torch.ceil, "round": torch.round, "trunc": torch.trunc,
    "exp10": lambda x: 10**x,
}  # fmt: skip
UNARY_UNIT = {
    "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "log": torch.log, "log2": torch.log2, "log10": torch.log10,
    "asin": torch.asin, "acos": torch.acos, "atanh": torch.atanh,
}  # fmt: skip
BINARY = {
    "min": torch.minimum, "max": torch.maximum, "fmod": torch.fmod, "atan2": torch.atan2,
    "step": lambda y, x: (x >= y).to(x.dtype), "ldexp": lambda x, y: x * torch.exp2(y),
}  # fmt: skip
# Core has these of numbers and vectors alone.
OF_ROWS = {
    "rint({0})": torch.round, "fract({0})": lambda x: x - x.floor(),
    "modf({0}, whole) + whole * {0}": lambda x: x.frac() + x.trunc() * x,
    "sinpi({0} / {E}(4))": lambda x: (x * torch.pi / 4).sin(),
    "cospi({0} / {E}(4))": lambda x: (x * torch.pi / 4).cos(),
    "tanpi({0} / {E}(16))": lambda x: (x * torch.pi / 16).tan(), "ldexp({0}, {R}({E}(2)))": lambda x: 4 * x,
    "fmin({0}, {1})": torch.fmin, "fmax({0}, {1})": torch.fmax, "fdim({0}, {1})": lambda x, y: (x - y).clamp(min=0),
    "powr({0} * {0}, {1})": lambda x, y: (x * x) ** y,
    **{f"{name}min3({{0}}, {{1}}, {{2}})": lambda x, y, z: x.min(y).min(z) for name in ("", "f")},
    **{f"{name}max3({{0}}, {{1}}, {{2}})": lambda x, y, z: x.max(y).max(z) for name in ("", "f")},
    **{f"{name}median3({{0}}, {{1}}, {{2}})": lambda *of: torch.stack(of).median(0).values for name in ("", "f")},
}  # fmt: skip
# What has no derivative is refused where a derivative would go through it.
NOT_DIFFERENTIABLE = ["nextafter(x, y)"]


def functions_of_numbers() -> Iterator[Case]:
    """Applied by component."""
    one = list(typed((shape,) for shape in SOME))
    for domain, functions in (("any", UNARY), ("unit", UNARY_UNIT), ("above", {"acosh": torch.acosh})):
        for name, run in functions.items():
            yield from cases_of([Operation(name, f"{name}({{0}})", run, domain)], one)
    for name, run in BINARY.items():
        operation = Operation(name, f"{name}({{0}}, {{1}})", by_component(run))
        yield from cases_of([operation], typed(beside(2, SOME)))
    yield from cases_of(
        [Operation("pow", "pow({0}, {1})", by_component(torch.pow), "unit"),
         Operation("pow of a constant", "pow({0}, {R}({E}(2.5))) + {1}",
                   by_component(lambda a, b: a**2.5 + b), "unit")],
        typed(beside(2, SOME)),
    )  # fmt: skip
    for name in ("min", "max", "pow", "atan2"):
        run = {"pow": torch.pow, **BINARY}[name]
        operation = Operation(name, f"{name}({{0}}, {{1}})", by_component(run), "unit")
        yield from cases_of([operation], (types for types in mixed(2) if not any(len(t.shape) == 2 for t in types)))
    for text, run in OF_ROWS.items():
        count = sum(f"{{{k}}}" in text for k in range(3))
        operation = Operation(text, text, by_component(run), statements="{R} whole;" * ("whole" in text))
        yield from cases_of([operation], typed(beside(count, [(), *VECTORS])))
    sincos = Operation(
        "sincos",
        "(sine * cosine + sine)",
        lambda a: a.sin() * a.cos() + a.sin(),
        statements="{R} sine, cosine; sincos({0}, sine, cosine);",
    )
    yield from cases_of([sincos], one)
    sign = Operation("copysign", "copysign({0}, {1})", by_component(torch.copysign))
    yield from cases_of([sign], typed(beside(2, [(), *VECTORS])))


def functions_of_three() -> Iterator[Case]:
    ternary = {
        "lerp": lambda a, b, t: a + (b - a) * t,
        "fma": lambda a, b, c: a * b + c,
        "mad": lambda a, b, c: a * b + c,
    }
    shapes = list(beside(3, [(), (2,), (3,), (2, 3)]))
    for name, run in ternary.items():
        text = f"{name}({{0}}, {{1}}, {{2}})"
        yield from cases_of([Operation(name, text, by_component(run))], typed(shapes))
    within = Operation("clamp", "clamp({0}, {1}, {2})", by_component(clamped), "unit")
    yield from cases_of([within], typed(shapes))
    step = Operation("smoothstep", "smoothstep({0}, {0} + {1}, {2})", by_component(smoothstep), "unit")
    yield from cases_of([step], typed(shapes))
    some = [types for types in mixed(3, ("float", "double", "int")) if not any(len(t.shape) == 2 for t in types)]
    for name in ("lerp", "fma"):
        yield from cases_of([Operation(name, f"{name}({{0}}, {{1}}, {{2}})", by_component(ternary[name]))], some)


def choices() -> Iterator[Case]:
    chosen = {
        "?:": ("({0} > {1} ? {0} : {1})", torch.maximum),
        "?: of products": ("({0} > {1} ? {0} * {1} : {1})", lambda a, b: torch.where(a > b, a * b, b)),
    }
    for name, (text, run) in chosen.items():
        yield from cases_of([Operation(name, text, run)], typed([((), ())]))
    select = Operation("select", "select({0} > {1}, {0}, {1})", by_component(torch.maximum))
    yield from cases_of([select], typed([*beside(2, [(), *VECTORS]), *((m, m) for m in MATRICES)]))
    by_number = Operation(
        "?: by a number",
        "({2} > {E}(0.5) ? {0} : {1})",
        by_component(lambda a, b, c: torch.where(c > 0.5, a, b)),
        "unit",
    )
    shapes = [*beside(2, [(), *VECTORS]), ((2, 3), (2, 3))]
    yield from cases_of([by_number], typed((*both, ()) for both in shapes), lambda a, b, c: joined(a, b))


def geometry() -> Iterator[Case]:
    def number(*types: Type) -> Type:
        return Type(types[0].element)

    pairs = [(shape, shape) for shape in VECTORS]
    mixed_pairs = [*pairs, *(((), shape) for shape in VECTORS), *((shape, ()) for shape in VECTORS)]
    numbers = {
        "dot({0}, {1})": torch.mul, "distance({0}, {1})": lambda a, b: (a - b).abs(), "length({0})": torch.abs,
        "normalize({0})": lambda a: a / a.abs(), "reflect({0}, {1})": lambda a, b: a - 2 * (a * b) * b,
    }  # fmt: skip
    for text, run in numbers.items():
        yield from cases_of([Operation(text, text, run)], typed([((),) * (1 + ("{1}" in text))]))
    for name in ("dot", "mul"):
        yield from cases_of([Operation(name, f"{name}({{0}}, {{1}})", dot)], typed(pairs), number)
    facing = Operation("faceforward", "faceforward({0}, {1}, {2})", lambda n, i, other: torch.where(
        dot(other, i)[:, None] < 0, n, -n))  # fmt: skip
    yield from cases_of([facing], typed((s, s, s) for s in VECTORS))
    yield from cases_of([Operation("dot", "dot({0}, {1})", by_component(dot))], typed(
        [((), (3,)), ((3,), ()), ((), (2,))]), number)  # fmt: skip
    away = by_component(lambda a, b: length(a - b))
    yield from cases_of([Operation("distance", "distance({0}, {1})", away)], typed(mixed_pairs), number)
    yield from cases_of([Operation("length", "length({0})", length)], typed((s,) for s in VECTORS), number)
    yield from cases_of([Operation("normalize", "normalize({0})", unit)], typed((s,) for s in VECTORS))
    yield from cases_of([Operation("cross", "cross({0}, {1})", by_component(torch.linalg.cross))], typed(
        [((3,), (3,)), ((), (3,)), ((3,), ())]))  # fmt: skip
    yield from cases_of([Operation("reflect", "reflect({0}, {1})", by_component(reflect))], typed(
        mixed_pairs))  # fmt: skip
    yield from cases_of(
        [Operation("refract", "refract({0}, {1}, {2})", refract, "unit")], typed((s, s, ()) for s in VECTORS)
    )


def algebra() -> Iterator[Case]:
    shapes: list[tuple[Shape, Shape]] = [((), ())]
    shapes += [pair for shape in SHAPES[1:] for pair in (((), shape), (shape, ()))]
    shapes += [pair for m in MATRICES for pair in ((m, m[1:]), (m[:1], m))]
    shapes += [(m, n) for m in MATRICES for n in MATRICES if m[1] == n[0]]

    def result(a: Type, b: Type) -> Type:
        if not (a.shape and b.shape):
            return joined(a, b)
        return Type(a.element, (*a.shape[:-1], *b.shape[1:]))

    yield from cases_of([Operation("mul", "mul({0}, {1})", product)], typed(shapes), result)
    some = [(Type(e, a), Type(f, b)) for a, b in [((), (3,)), ((3,), ()), ((2, 3), (3,)), ((3, 3), (3, 3))]
            for e in ("half", "float", "double") for f in ("half", "float", "double") if e != f]  # fmt: skip

    def wide(a: Type, b: Type) -> Type:
        return Type(joined(a, b).element, result(a, b).shape)

    yield from cases_of([Operation("mul", "mul({0}, {1})", product)], some, wide)
    yield from cases_of(
        [Operation("transpose", "transpose({0})", lambda a: a.mT)],
        typed((m,) for m in MATRICES),
        lambda a: Type(a.element, a.shape[::-1]),
    )
    square = [(m,) for m in MATRICES if m[0] == m[1]]
    yield from cases_of(
        [Operation("determinant", "determinant({0})", torch.linalg.det)], typed(square), lambda a: Type(a.element)
    )


def constructors() -> Iterator[Case]:
    for shape in SHAPES[1:]:
        name = Type("double", shape).name
        splat = Operation(f"{name} of a number", "{R}({0})", partial(_splat, shape=shape))
        for element in ("double", "float", "half"):
            yield Case(splat, (Type(element),), Type(element, shape))
    parts: list[tuple[Shape, ...]] = [
        ((), ()), ((), (), ()), ((2,), ()), ((), (2,)), ((2,), (2,)), ((3,), ()), ((), (3,)), ((2,), (), ()),
        ((), (2,), ()), ((), (), (2,)), ((), (), (), ()),
    ]  # fmt: skip
    for several in parts:
        size = sum(shape[0] if shape else 1 for shape in several)
        places = ", ".join(f"{{{k}}}" for k in range(len(several)))
        join = Operation(
            "vector of parts", f"{{R}}({places})", lambda *a: torch.cat([x.reshape(len(x), -1) for x in a], 1)
        )
        lists = Operation("vector by a list", "r", join.run, statements=f"{{R}} r = {{{{{places}}}}};")
        pairs = [(e, f) for e in ELEMENTS for f in ELEMENTS if e != f and len(several) == 2]
        for types in [*typed([several]), *(tuple(map(Type, both, several)) for both in pairs)]:
            if joined(*types).element != "int":
                yield Case(join, types, Type(joined(*types).element, (size,)))
                if all(shape == () for shape in several):
                    yield Case(lists, types, Type(joined(*types).element, (size,)))
    for rows, columns in MATRICES:
        places = ", ".join(f"{{{k}}}" for k in range(rows))
        of_rows = Operation("matrix of rows", f"{{R}}({places})", lambda *a: torch.stack(a, 1))
        for element in ("double", "float", "half"):
            yield Case(of_rows, (Type(element, (columns,)),) * rows, Type(element, (rows, columns)))
    of_numbers = Operation(
        "matrix of numbers", "{R}({0}, {1}, {2}, {3})", lambda *a: torch.stack(a, -1).unflatten(-1, (2, 2))
    )
    cut = Operation("matrix cut", "{R}({0})", lambda a: a[:, :2, :2])
    for element in ("double", "float", "half"):
        yield Case(of_numbers, (Type(element),) * 4, Type(element, (2, 2)))
        yield Case(cut, (Type(element, (3, 3)),), Type(element, (2, 2)))


def _splat(a: Tensor, shape: Shape) -> Tensor:
    return a.reshape(-1, *[1] * len(shape)).expand(-1, *shape)


def casts() -> Iterator[Case]:
    for shape in FEW:
        for source, target in itertools.product(ELEMENTS, ("half", "float", "double")):
            result = Type(target, shape)
            yield Case(Operation("cast T(x)", "{R}({0})", lambda a: 1 * a), (Type(source, shape),), result)
            yield Case(Operation("cast (T)x", "(({R}) {0})", lambda a: 1 * a), (Type(source, shape),), result)
            narrow = ELEMENTS.index(source) > ELEMENTS.index(target) and source != "int"
            if not narrow:
                implicit = Operation("implicit cast", "r", lambda a: 1 * a, statements="{R} r = {0};")
                yield Case(implicit, (Type(source, shape),), result)
    for shape in [*VECTORS, (2, 3), (3, 3)]:
        implicit = Operation("implicit promotion", "r", partial(_splat, shape=shape), statements="{R} r = {0};")
        explicit = Operation("cast (T)x of a number", "(({R}) {0})", partial(_splat, shape=shape))
        for operation, element in itertools.product((implicit, explicit), ("double", "float", "half", "int")):
            yield Case(operation, (Type(element),), Type("float" if element == "int" else element, shape))


def swizzles() -> Iterator[Case]:
    reads = {
        (2,): ["x", "yx", "xxy", "yxyx"],
        (3,): ["z", "zx", "zxy", "xxz", "zyxy"],
        (4,): ["w", "wx", "xyz", "wzyx", "rg", "bgr"],
    }
    for shape, names in reads.items():
        for name in names:
            at = ["xyzw".index(c) if c in "xyzw" else "rgba".index(c) for c in name]
            result: Shape = (len(at),) if len(at) > 1 else ()
            read = Operation(
                f"swizzle .{name}", f"{{0}}.{name}", lambda a, at=at: a[:, at] if len(at) > 1 else a[:, at[0]]
            )
            for element in ("double", "float", "half"):
                yield Case(read, (Type(element, shape),), Type(element, result))
    number = Operation("swizzle of a number", "{0}.xxx", partial(_splat, shape=(3,)))
    yield Case(number, (Type("double"),), Type("double", (3,)))
    writes: list[tuple[Shape, str, Shape]] = [
        ((2,), "y", ()), ((3,), "z", ()), ((3,), "zx", (2,)), ((3,), "yz", ()), ((4,), "wxy", (3,)),
        ((4,), "yw", (2,)), ((4,), "xyz", ()),
    ]  # fmt: skip
    signs = {"=": lambda old, new: new + 0 * old, "+=": torch.add, "-=": torch.sub, "*=": torch.mul, "/=": torch.div}
    for (whole, name, part), (sign, function) in itertools.product(writes, signs.items()):
        at = ["xyzw".index(c) for c in name]

        def run(a: Tensor, b: Tensor, at: list[int] = at, f: Callable[..., Tensor] = function) -> Tensor:
            new = f(a[:, at], b if b.dim() == 2 else b[:, None])
            return replaced(a, at, list(new.unbind(1)))

        write = Operation(f".{name} {sign}", "r", run, statements=f"{{R}} r = {{0}}; r.{name} {sign} {{1}};")
        for element, other in (
            ("double", "double"),
            ("float", "float"),
            ("half", "half"),
            ("double", "float"),
            ("float", "half"),
            ("float", "int"),
        ):
            yield Case(write, (Type(element, whole), Type(other, part)), Type(element, whole))


def indexing() -> Iterator[Case]:
    signs = {"=": lambda old, new: new, "+=": torch.add, "*=": torch.mul}
    for element in ("double", "float", "half"):
        for shape in [*VECTORS, *MATRICES]:
            whole, part, index = Type(element, shape), Type(element, shape[1:]), Type("int")
            yield Case(Operation("[1]", "{0}[1]", lambda a: a[:, 1]), (whole,), part)
            yield Case(Operation("[i]", f"{{0}}[uint({{1}}) % {shape[0]}]", pick), (whole, index), part)
            for sign, function in signs.items():
                at_one = Operation(f"[1] {sign}", "r", lambda a, b, f=function: replaced(a, [1], [f(a[:, 1], b)]),
                    statements=f"{{R}} r = {{0}}; r[1] {sign} {{1}};")  # fmt: skip
                at_any = Operation(f"[i] {sign}", "r", lambda a, b, i, f=function: put(a, i, f(pick(a, i), b)),
                    statements=f"{{R}} r = {{0}}; r[uint({{2}}) % {shape[0]}] {sign} {{1}};")  # fmt: skip
                yield Case(at_one, (whole, part), whole)
                yield Case(at_any, (whole, part, index), whole)
                if len(shape) == 2:
                    by_number = Operation(f"[1] {sign} of a number", "r",
                        lambda a, b, f=function: replaced(a, [1], [f(a[:, 1], b[:, None])]),
                        statements=f"{{R}} r = {{0}}; r[1] {sign} {{1}};")  # fmt: skip
                    yield Case(by_number, (whole, Type(element)), whole)
            if len(shape) == 2:
                yield Case(Operation("[1][0]", "{0}[1][0]", lambda a: a[:, 1, 0]), (whole,), Type(element))
                yield Case(Operation("[1].y", "{0}[1].y", lambda a: a[:, 1, 1]), (whole,), Type(element))
                yield Case(Operation("._m10", "{0}._m10", lambda a: a[:, 1, 0]), (whole,), Type(element))
                one = Operation(
                    "[1][0] *=",
                    "r",
                    lambda a, b: replaced(a, [(1, 0)], [a[:, 1, 0] * b]),
                    statements="{R} r = {0}; r[1][0] *= {1};",
                )
                yield Case(one, (whole, Type(element)), whole)


FAMILIES = (
    binary_operators, unary_operators, functions_of_numbers, functions_of_three, choices, geometry, algebra,
    constructors, casts, swizzles, indexing,
)  # fmt: skip


def cases() -> list[Case]:
    """Those that have a derivative by something."""
    every = (case for family in FAMILIES for case in family())
    return [case for case in every if any(type.differentiable for type in case.operands)]
