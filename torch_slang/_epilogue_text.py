"""The Slang text of a product with an epilogue: ops/matmul.slang with a function of each sum before it is stored.

Run as a program it writes the built-in epilogues of ``torch_slang.nn.Linear``, when the package is built. So it imports
nothing of torch, nor of this package.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Epilogue", "Parameter", "epilogue_text"]

# What a number of type `T` is in the function that computes in ..., and what suffix that one's name has.
_PRECISIONS = {"float": "_in_float", "double": "_in_double"}


@dataclass(frozen=True)
class Parameter:
    """One behind the sum. `type`: as Slang writes it, the function's type parameter by its name."""

    name: str
    type: str
    is_number: bool  # floating-point
    differentiable: bool


@dataclass(frozen=True)
class Epilogue:
    """A function ``y = f(sum, parameters...)`` of one element."""

    name: str  # of what is generated: "shade"
    qualified_name: str  # "tools.shade"
    type_parameter: str | None  # its name: the function computes in float or in double, as the operands want it
    sum_name: str
    sum_type: str
    parameters: tuple[Parameter, ...]
    is_overloaded: bool = False  # for float and double, not generic

    @property
    def precisions(self) -> tuple[str, ...]:
        return tuple(_PRECISIONS) if self.type_parameter is not None else (self.sum_type,)


def epilogue_text(epilogue: Epilogue, product: str) -> str:
    """What to append to the function's source. `product`: the text of ops/matmul.slang."""
    return "\n".join(
        [
            "import torch_slang.mma;",
            *(_function(epilogue, precision) for precision in epilogue.precisions),  # its names may be those of macros
            _macros(product),
            _kernels(epilogue, product, "_product"),
            _kernels(epilogue, product, "_product_and_sum"),
        ]
    )


def _macros(product: str) -> str:
    names = re.findall(r"^#define (\w+).*$", product, re.MULTILINE)
    lines = [line for line in product.splitlines() if line.startswith("#define ")]
    return "\n".join([*(f"#ifdef {name}\n#undef {name}\n#endif" for name in names), *lines, ""])


def _function(epilogue: Epilogue, precision: str) -> str:
    """The function for one precision: an operator, whose backward gives the gradients."""

    def concrete(slang_type: str) -> str:
        return precision if slang_type == epilogue.type_parameter else slang_type

    parameters = [f"{concrete(epilogue.sum_type)} {epilogue.sum_name}"]
    for p in epilogue.parameters:
        no_diff = "no_diff " if p.is_number and not p.differentiable else ""
        parameters.append(f"{no_diff}{concrete(p.type)} {p.name}")
    names = ", ".join([epilogue.sum_name, *(p.name for p in epilogue.parameters)])
    generic = f"<{precision}>" if epilogue.type_parameter is not None and not epilogue.is_overloaded else ""
    return (
        f"[TorchOp] [Differentiable]\n"
        f"{precision} {epilogue.name}{_PRECISIONS[precision]}({', '.join(parameters)})\n"
        f"{{\n    return {epilogue.qualified_name}{generic}({names});\n}}\n"
    )


def _own_type(epilogue: Epilogue, parameter: Parameter) -> str | None:
    """The kernel's type parameter for a constant, whose tensor need not have the operands' type."""
    if not parameter.is_number or parameter.differentiable:
        return None
    return f"S{epilogue.parameters.index(parameter)}"


def _element(epilogue: Epilogue, parameter: Parameter) -> str:
    if not parameter.is_number:
        return parameter.type
    return _own_type(epilogue, parameter) or "T"


def _own_types(epilogue: Epilogue) -> list[str]:
    return [own for own in (_own_type(epilogue, p) for p in epilogue.parameters) if own is not None]


def _application(epilogue: Epilogue) -> str:
    """The statements that make each sum what the function makes of it."""
    one_by_one = _result(epilogue, 0, lambda p: f"x_{p.name}[sum.place(x_{p.name}, at, i)]")
    if not epilogue.parameters:
        applied = _loop("0", "sum.COUNT", 1, one_by_one)
    else:
        # By fours, with branches between them: a GPU's compiler would load more ahead than it has registers for.
        by_fours = _loop("first", "first + 4", 1, one_by_one)
        applied = (
            "[unroll] for (int first = 0; first < sum.COUNT; first += 4)\n{\n"
            f"if (sum.reaches_into(c, at, first, first + 4))\n{{\n{by_fours}}}\n}}\n"
        )
    numbers = [p for p in epilogue.parameters if p.is_number]
    if numbers:
        pairs = [(_element(epilogue, p), f"of_{p.name}", f"x_{p.name}") for p in numbers]
        loads = "".join(f"{type_} {of}[2];\nsum.load_pair({x}, at, i, {of});\n" for type_, of, x in pairs)
        by_pairs = (
            loads
            + _result(epilogue, 0, lambda p: f"of_{p.name}[0]")
            + _result(epilogue, 1, lambda p: f"of_{p.name}[1]")
        )
        has_pairs = " && ".join(f"sum.has_pairs(x_{p.name}, at)" for p in numbers)
        applied = f"if ({has_pairs})\n{{\n{_loop('0', 'sum.COUNT', 2, by_pairs)}}}\nelse\n{{\n{applied}}}\n"
    return f"if (sum.reaches_into(c, at))\n{{\n{applied}}}\n"


def _loop(first: str, end: str, step: int, statements: str) -> str:
    return f"[unroll] for (int i = {first}; i < {end}; i += {step})\n{{\n{statements}}}\n"


def _result(epilogue: Epilogue, further: int, number: Callable[[Parameter], str]) -> str:
    """The statement for element i + `further`. `number`: a floating-point argument's own there."""
    value = f"sum.value[i + {further}]"

    def call(precision: str) -> str:
        arguments = [f"__realCast<{precision}>({value})"]
        for p in epilogue.parameters:
            concrete = precision if p.type == epilogue.type_parameter else p.type
            integer = f"x_{p.name}[sum.place(x_{p.name}, at, i + {further})]"
            arguments.append(f"__realCast<{concrete}>({number(p)}.widen())" if p.is_number else integer)
        return f"{value} = __realCast<T.Sum>({epilogue.name}{_PRECISIONS[precision]}({', '.join(arguments)}));\n"

    statement = call(epilogue.precisions[0])
    return statement if len(epilogue.precisions) == 1 else f"if (sizeof(T.Sum) == 8) {call('double')}else {statement}"


def _kernels(epilogue: Epilogue, product: str, kind: str) -> str:
    """The kernels of ops/matmul.slang, and the function that they call, with the epilogue. `kind`: "_product", or
    "_product_and_sum", which stores the sum too."""
    text = re.sub(r"^(#define|import|//).*\n", "", product, flags=re.MULTILINE).strip()
    own = _own_types(epilogue)
    further = "".join(f", {name} : mma.IElement" for name in own)
    names = [f"x_{p.name}" for p in epilogue.parameters]
    views = "".join(f"TensorView<{_element(epilogue, p)}> x_{p.name}, " for p in epilogue.parameters)
    shaped = re.sub("TensorView", '[Shape("B, M, N")] [In] TensorView', views)
    with_sum = kind == "_product_and_sum"
    passed = ", ".join(["a", "b", *names, "c", *(["sums"] if with_sum else [])])

    def in_type(text: str, element: str) -> str:
        return text.replace("TensorView<T>", f"TensorView<{element}>")

    def sums(element: str, attribute: str = "") -> str:
        return f", {attribute}TensorView<{element}> sums" if with_sum else ""

    out = '[Out("B, M, N")] '
    changes = [
        # the function: multiply<T, PRECISION>(a, b, c)
        (r"void multiply<([^>]*)>", rf"void {epilogue.name}{kind}_multiply<\1{further}>"),
        (r"TensorView<T> b, TensorView<T> c\)", f"TensorView<T> b, {views}TensorView<T> c{sums('T')})"),
        (
            r"    sum\.store\(c, at\);",
            ("    sum.store(sums, at);\n" if with_sum else "") + f"{_application(epilogue)}    sum.store(c, at);",
        ),
        # the kernels
        (r"void matrix_product(\w*)<([^>]*)>", rf"void {epilogue.name}{kind}\1<\2{further}>"),
        (
            r"void matrix_product(\w*)\(",
            rf"void {epilogue.name}{kind}\1{'<' + further.removeprefix(', ') + '>' if own else ''}(",
        ),
        (r"\[Out\([^)]*\)\] TensorView<T> c\)", f"{shaped}{out}TensorView<T> c{sums('T', out)})"),
        (
            r"\[Out\([^)]*\)\] TensorView<float> c\)",
            f"{in_type(shaped, 'float')}{out}TensorView<float> c{sums('float', out)})",
        ),
        (
            r"multiply<([^>:]*)>\(a, b, c\);",
            rf"{epilogue.name}{kind}_multiply<\1{''.join(f', {name}' for name in own)}>({passed});",
        ),
    ]
    for pattern, replacement in changes:
        text, count = re.subn(pattern, replacement, text)
        if count == 0:
            raise RuntimeError(f"torch_slang: matmul.slang has no {pattern!r} to put an epilogue into")
    return text + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes the Slang module of one epilogue of torch_slang.nn.Linear.")
    parser.add_argument("source", type=Path, help="ops/epilogues/linear.slang: functions of float and of double")
    parser.add_argument("product", type=Path, help="ops/matmul.slang")
    parser.add_argument("name", help="linear_gelu, or with a bias linear_gelu_bias")
    parser.add_argument("output", type=Path)
    arguments = parser.parse_args()
    name, product = arguments.name, arguments.product.read_text()
    bias = Parameter("bias", "T", is_number=True, differentiable=True)
    epilogue = Epilogue(name, name, "T", "sum", "T", (bias,) if name.endswith("_bias") else (), is_overloaded=True)
    arguments.output.write_text(f"{arguments.source.read_text()}\n{epilogue_text(epilogue, product)}")


if __name__ == "__main__":
    main()
