"""The Slang text of a product with an epilogue: ops/matmul.slang or ops/block_sparse.slang with a function of each sum
before it is stored.

Run as a program it writes the built-in epilogues of ``torch_slang.nn.Linear``, when the package is built. So it imports
nothing of torch, nor of this package.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["BLOCK_SPARSE", "MATMUL", "Epilogue", "Parameter", "Product", "epilogue_text"]

# Top-level functions of a product's text, as those files write them.
_FUNCTION = re.compile(
    r"^(?P<attributes>(?:\[[^\n]*\]\n)*)"
    r"(?P<returns>[\w.<>]+) (?P<name>\w+)(?:<(?P<generics>[^>]*)>)?\((?P<parameters>[^{}]*)\)\n"
    r"\{\n(?P<body>.*?)^\}$",
    re.MULTILINE | re.DOTALL,
)
_RESULT = re.compile(r"(?P<out>\[Out\((?P<shape>[^)]*)\)\] )?TensorView<(?P<element>\w+)> c$")
_STORE = re.compile(r"^ *sum\.store\w*\(c, at(?P<columns>, .+)?\);\n", re.MULTILINE)

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


@dataclass(frozen=True)
class Product:
    """A file of kernels that epilogues are put into.

    Kernels whose names begin with `kernels` are made anew, and what they call. In these functions the result is the
    last parameter, `c`, and its elements are `sum` until ``sum.store...(c, at...)``; `at` is where the tile is.
    """

    file: str
    kernels: str
    suffix: str  # of what is generated: "shade" + suffix + "_in_float"
    ending: str  # of kernels: "shade" + suffix + ending
    tiles: Mapping[str, str] = field(
        default_factory=dict
    )  # by kernel: those that are tried beside the first and before its others

    def text(self, folder: Path) -> str:
        return (folder / self.file).read_text()


# Two turns: an epilogue is applied while others multiply.
MATMUL = Product("matmul.slang", "matrix_product", suffix="", ending="_product", tiles={"matrix_product": "101282561"})
BLOCK_SPARSE = Product("block_sparse.slang", "block_sparse_product", suffix="_block_sparse", ending="_mm")


def epilogue_text(epilogue: Epilogue, product: Product, folder: Path) -> str:
    """What to append to the function's source. `folder`: that of ops/*.slang."""
    text = product.text(folder)
    return "\n".join(
        [
            "import torch_slang.mma;",
            *(_function(epilogue, precision) for precision in epilogue.precisions),  # its names may be those of macros
            _macros(text),
            _kernels(epilogue, product, text, with_sum=False),
            _kernels(epilogue, product, text, with_sum=True),
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


def _application(epilogue: Epilogue, columns: str) -> str:
    """The statements that make each sum what the function makes of it. `columns`: how many of the tile's are stored, as
    a further argument, or nothing where it is all."""
    one_by_one = _result(epilogue, 0, lambda p: f"x_{p.name}[sum.place(x_{p.name}, at, i)]")
    # By fours, with branches between them: a GPU's compiler would load more ahead than it has registers for.
    four = _loop("first", "first + 4", 1, one_by_one)
    by_fours = (
        "[unroll] for (int first = 0; first < sum.COUNT; first += 4)\n{\n"
        f"if (sum.reaches_into(c, at, first, first + 4{columns}))\n{{\n{four}}}\n}}\n"
    )
    numbers = [p for p in epilogue.parameters if p.is_number]
    conditions = [f"sum.has_pairs(x_{p.name}, at)" for p in numbers]
    if columns:
        conditions.append(f"sum.is_whole({columns.removeprefix(', ')})")
    if epilogue.parameters and not numbers:
        applied = by_fours
    else:
        at_once = _pairs(epilogue, numbers) if numbers else _loop("0", "sum.COUNT", 1, one_by_one)
        applied = (
            f"if ({' && '.join(conditions)})\n{{\n{at_once}}}\nelse\n{{\n{by_fours}}}\n" if conditions else at_once
        )
    return f"if (sum.reaches_into(c, at))\n{{\n{applied}}}\n"


def _pairs(epilogue: Epilogue, numbers: list[Parameter]) -> str:
    loads = "".join(
        f"{_element(epilogue, p)} of_{p.name}[2];\nsum.load_pair(x_{p.name}, at, i, of_{p.name});\n" for p in numbers
    )
    first = _result(epilogue, 0, lambda p: f"of_{p.name}[0]")
    second = _result(epilogue, 1, lambda p: f"of_{p.name}[1]")
    return _loop("0", "sum.COUNT", 2, loads + first + second)


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


def _kernels(epilogue: Epilogue, product: Product, text: str, with_sum: bool) -> str:
    """The product's kernels and the functions that they call, with the epilogue. `with_sum`: storing the sum too."""
    functions = {match["name"]: match for match in _FUNCTION.finditer(text)}
    pending = [name for name in functions if name.startswith(product.kernels)]
    wanted: list[str] = []
    while pending:
        wanted.append(name := pending.pop())
        pending += [other for other in _called(functions[name], functions) if other not in {*wanted, *pending}]
    prefix = f"{epilogue.name}{product.ending}{'_and_sum' if with_sum else ''}"
    names = {
        name: prefix + (name.removeprefix(product.kernels) if name.startswith(product.kernels) else f"_{name}")
        for name in wanted
    }
    made = (
        _attributes(product, match) + _with_epilogue(epilogue, match, names, with_sum)
        for name, match in functions.items()
        if name in names
    )
    return "\n\n".join(made) + "\n"


def _attributes(product: Product, function: re.Match[str]) -> str:
    """The function's own, and the product's further tiles."""
    attributes, further = function["attributes"], product.tiles.get(function["name"])
    if further is None:
        return attributes
    tuned, count = re.subn(r'(\[Tune\("TILE", "\d+, )', rf"\g<1>{further}, ", attributes)
    if count != 1:
        raise RuntimeError(f"torch_slang: expected {function['name']} to have a [Tune] list of its TILEs")
    return tuned


def _called(function: re.Match[str], functions: Iterable[str]) -> list[str]:
    return [name for name in functions if re.search(rf"(?<![.\w]){name}\b", function["body"])]


def _with_epilogue(epilogue: Epilogue, function: re.Match[str], names: dict[str, str], with_sum: bool) -> str:
    """One of the product's functions, under its name among `names`, as are those that it calls; without attributes."""
    generics, parameters, body = function["generics"] or "", function["parameters"], function["body"]
    for name, new in names.items():
        body = re.sub(rf"(?<![.\w]){name}\b", new, body)
    result = _RESULT.search(parameters)
    if result is not None:
        further = (f"{name} : mma.IElement" for name in _own_types(epilogue))
        generics = ", ".join([*([generics] if generics else []), *further])
        views = [_view(epilogue, p, result) for p in epilogue.parameters]
        out = [result[0], *([result[0].removesuffix("c") + "sums"] if with_sum else [])]
        parameters = parameters[: result.start()] + ", ".join([*views, *out])
        body = _stores_and_calls(epilogue, function["name"], body, "|".join(names.values()), with_sum)
    typed = f"<{generics}>" if generics else ""
    return f"{function['returns']} {names[function['name']]}{typed}({parameters})\n{{\n{body}}}"


def _stores_and_calls(epilogue: Epilogue, name: str, body: str, called: str, with_sum: bool) -> str:
    """A body whose stores of the result have the epilogue in front of them, and whose calls pass the arguments on."""
    calls = re.compile(rf"\b({called})<([^>]*)>\(([^;]*)\bc\);")
    left = calls.sub("", _STORE.sub("", body))
    if left == body or re.search(rf"\bstore\w*\(c\b|\bc\[|\b({called})\b[^;]*\bc\b", left):
        raise RuntimeError(
            f"torch_slang: expected {name} to give c its elements by sum.store...(c, at...); or f<...>(..., c); alone, "
            "each on lines of its own, to put an epilogue there"
        )
    passed = ", ".join([*(f"x_{p.name}" for p in epilogue.parameters), "c", *(["sums"] if with_sum else [])])
    own = "".join(f", {one}" for one in _own_types(epilogue))

    def with_function(store: re.Match[str]) -> str:
        first = store[0].replace("(c,", "(sums,") if with_sum else ""
        return first + _application(epilogue, store["columns"] or "") + store[0]

    body = calls.sub(lambda call: f"{call[1]}<{call[2]}{own}>({call[3]}{passed});", body)
    return _STORE.sub(with_function, body)


def _view(epilogue: Epilogue, parameter: Parameter, result: re.Match[str]) -> str:
    """The parameter for an argument, which has the shape and, unless it is a constant, the type of the result."""
    element = _element(epilogue, parameter)
    attributes = f"[Shape({result['shape']})] [In] " if result["out"] else ""
    return f"{attributes}TensorView<{result['element'] if element == 'T' else element}> x_{parameter.name}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes the Slang module of one epilogue of torch_slang.nn.Linear.")
    parser.add_argument("source", type=Path, help="ops/epilogues/linear.slang: functions of float and of double")
    parser.add_argument("product", type=Path, help="ops/matmul.slang or ops/block_sparse.slang")
    parser.add_argument("name", help="linear_gelu, or with a bias linear_gelu_bias")
    parser.add_argument("output", type=Path)
    arguments = parser.parse_args()
    name, file = arguments.name, arguments.product
    (product,) = (one for one in (MATMUL, BLOCK_SPARSE) if one.file == file.name)
    bias = Parameter("bias", "T", is_number=True, differentiable=True)
    parameters = (bias,) if name.endswith("_bias") else ()
    epilogue = Epilogue(name + product.suffix, name, "T", "sum", "T", parameters, is_overloaded=True)
    arguments.output.write_text(f"{arguments.source.read_text()}\n{epilogue_text(epilogue, product, file.parent)}")


if __name__ == "__main__":
    main()
