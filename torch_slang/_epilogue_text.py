"""The Slang text of a product with an epilogue: the kernel of ops/matmul.slang with a function of each sum before the store.

Run as a program it writes the built-in epilogues of ``torch_slang.nn.Linear``, when the package is built. So it imports
nothing of torch, nor of this package.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
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

    @property
    def precisions(self) -> tuple[str, ...]:
        return tuple(_PRECISIONS) if self.type_parameter is not None else (self.sum_type,)


def epilogue_text(epilogue: Epilogue, product: str) -> str:
    """What to append to the function's source. `product`: the text of ops/matmul.slang."""
    return "\n".join(
        [
            *(_function(epilogue, precision) for precision in epilogue.precisions),
            _struct(epilogue),
            _kernel(epilogue, product, "_product", with_sum=False),
            _kernel(epilogue, product, "_product_and_sum", with_sum=True),
        ]
    )


def product_macros(product: str) -> str:
    """The macros of the kernel that :func:`epilogue_text` takes over: before its first use."""
    defines = re.findall(r"^#define (\w+).*$", product, re.MULTILINE)
    lines = [line for line in product.splitlines() if line.startswith("#define ")]
    return "\n".join(["import torch_slang.mma;", *(f"#undef {name}" for name in defines), *lines, ""])


def _function(epilogue: Epilogue, precision: str) -> str:
    """The function for one precision: an operator, whose backward gives the gradients."""

    def concrete(slang_type: str) -> str:
        return precision if slang_type == epilogue.type_parameter else slang_type

    parameters = [f"{concrete(epilogue.sum_type)} {epilogue.sum_name}"]
    for p in epilogue.parameters:
        no_diff = "no_diff " if p.is_number and not p.differentiable else ""
        parameters.append(f"{no_diff}{concrete(p.type)} {p.name}")
    names = ", ".join([epilogue.sum_name, *(p.name for p in epilogue.parameters)])
    generic = f"<{precision}>" if epilogue.type_parameter is not None else ""
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


def _struct(epilogue: Epilogue) -> str:
    """What a kernel applies: the function, with views of its further arguments."""
    generics = ", ".join(f"{name} : mma.IElement" for name in ["T", *_own_types(epilogue)])
    fields = "".join(f"    TensorView<{_element(epilogue, p)}> x_{p.name};\n" for p in epilogue.parameters)

    def call(precision: str) -> str:
        arguments = [f"__realCast<{precision}>(sum)"]
        for p in epilogue.parameters:
            concrete = precision if p.type == epilogue.type_parameter else p.type
            load = f"x_{p.name}[at]"
            arguments.append(f"__realCast<{concrete}>({load}.widen())" if p.is_number else load)
        return f"__realCast<T.Sum>({epilogue.name}{_PRECISIONS[precision]}({', '.join(arguments)}))"

    body = f"        return {call(epilogue.precisions[0])};\n"
    if len(epilogue.precisions) > 1:
        body = f"        if (sizeof(T.Sum) == 8) return {call('double')};\n" + body
    return (
        f"struct {epilogue.name}_epilogue<{generics}> : mma.IEpilogue<T.Sum>\n{{\n{fields}"
        f"    [ForceInline] T.Sum apply(T.Sum sum, uint3 at)\n    {{\n{body}    }}\n}}\n"
    )


def _kernel(epilogue: Epilogue, product: str, suffix: str, *, with_sum: bool) -> str:
    text = "\n".join(line for line in product.splitlines() if not re.match(r"#define|import|//", line)).strip()
    own = _own_types(epilogue)
    views = "".join(
        f'    [Shape("B, M, N")] [In] TensorView<{_element(epilogue, p)}> x_{p.name},\n' for p in epilogue.parameters
    )
    fields = ", ".join(f"x_{p.name}" for p in epilogue.parameters)
    applied = (
        f"    {epilogue.name}_epilogue<{', '.join(['T', *own])}> epilogue = {{ {fields} }};\n"
        "    sum.apply(epilogue, c, at);\n"
    )
    changes = {
        "matrix_product<T : mma.IElement>": f"{epilogue.name}{suffix}<"
        + ", ".join(f"{name} : mma.IElement" for name in ["T", *own])
        + ">",
        '    [Out("B, M, N")] TensorView<T> c)': f'{views}    [Out("B, M, N")] TensorView<T> c'
        + (',\n    [Out("B, M, N")] TensorView<T> sums)' if with_sum else ")"),
        "    sum.store(c, at);\n": ("    sum.store(sums, at);\n" if with_sum else "")
        + applied
        + "    sum.store(c, at);\n",
    }
    for before, after in changes.items():
        if text.count(before) != 1:
            raise RuntimeError(f"torch_slang: the kernel of matmul.slang has no {before!r} to put an epilogue into")
        text = text.replace(before, after)
    return text + "\n"


def _linear_epilogues(source: str) -> list[Epilogue]:
    """Those of ops/linear.slang: each function ``T name<T : ...>(T sum, T bias)`` or ``(T sum)`` under [Differentiable]."""
    found = re.findall(r"^\[Differentiable\][^\n]*\nT (linear_\w+)<T : \w+>\(T sum(, T bias)?\)", source, re.MULTILINE)
    return [
        Epilogue(name, name, "T", "sum", "T", (Parameter("bias", "T", True, True),) if bias else ())
        for name, bias in found
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes a Slang module with the kernels of its epilogues.")
    parser.add_argument("source", type=Path, help="functions named linear_...")
    parser.add_argument("product", type=Path, help="ops/matmul.slang")
    parser.add_argument("output", type=Path)
    arguments = parser.parse_args()
    source, product = arguments.source.read_text(), arguments.product.read_text()
    texts = [epilogue_text(epilogue, product) for epilogue in _linear_epilogues(source)]
    arguments.output.write_text("\n".join([source, product_macros(product), *texts]))


if __name__ == "__main__":
    main()
