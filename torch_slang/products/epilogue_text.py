"""The Slang text of a product with an epilogue: a struct that applies the function (mma.IPairedEpilogue in
slang/mma.slang), and ops/matmul.slang or ops/block_sparse.slang behind definitions of their macros.

Run as a program it writes the built-in epilogues of ``torch_slang.nn.Linear``, when the package is built. So it imports
nothing of torch, nor of this package.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

__all__ = ["BLOCK_SPARSE", "MATMUL", "Epilogue", "EpilogueParameter", "Product", "epilogue_text"]

# The function's operators, by the type that it computes in.
_PRECISIONS = {"float": "_in_float", "double": "_in_double"}


@dataclass(frozen=True)
class EpilogueParameter:
    """One behind the sum. `type`: as Slang writes it, the function's type parameter by its name."""

    name: str
    type: str
    is_number: bool  # floating-point
    differentiable: bool


@dataclass(frozen=True)
class Epilogue:
    """A function ``y = f(sum, parameters...)`` of one element."""

    name: str  # of the generated operators: "shade"
    qualified_name: str  # "tools.shade"
    type_parameter: str | None  # its name: the function computes in float or in double, as the operands want it
    sum_name: str
    sum_type: str
    parameters: tuple[EpilogueParameter, ...]
    is_overloaded: bool = False  # for float and double, not generic

    @property
    def precisions(self) -> tuple[str, ...]:
        return tuple(_PRECISIONS) if self.type_parameter is not None else (self.sum_type,)


@dataclass(frozen=True)
class Product:
    """A file of kernels that take an epilogue by the macros which it defines at its top."""

    file: str
    suffix: str  # of the operators' names: "shade" + suffix + "_in_float"
    ending: str  # of the kernels' names: "shade" + suffix + ending


MATMUL = Product("matmul.slang", suffix="", ending="_product")
BLOCK_SPARSE = Product("block_sparse.slang", suffix="_block_sparse", ending="_mm")


def epilogue_text(epilogue: Epilogue, product: Product, folder: Path) -> str:
    """The text to append to the function's source. `folder`: that of ops/*.slang."""
    kernels = (folder / product.file).read_text()
    text = [
        "import torch_slang.mma;",
        *(_function(epilogue, precision) for precision in epilogue.precisions),
        _struct(epilogue),
    ]
    for stores_sums in (False, True):
        text += [_macros(epilogue, product, stores_sums), kernels]
    return "\n".join(text)


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


def _own_type(epilogue: Epilogue, parameter: EpilogueParameter) -> str | None:
    """The kernel's type parameter for a constant, whose tensor need not have the operands' type."""
    if not parameter.is_number or parameter.differentiable:
        return None
    return f"S{epilogue.parameters.index(parameter)}"


def _own_types(epilogue: Epilogue) -> list[str]:
    return [own for own in (_own_type(epilogue, p) for p in epilogue.parameters) if own is not None]


def _element(epilogue: Epilogue, parameter: EpilogueParameter, operands: str = "T") -> str:
    """The type of the parameter's tensor, where the operands have the type `operands`."""
    if not parameter.is_number:
        return parameter.type
    return _own_type(epilogue, parameter) or operands


def _struct(epilogue: Epilogue) -> str:
    """`<name>_epilogue`: the function's arguments, and how it is applied to one sum or to a pair of neighbours."""
    numbers = [p for p in epilogue.parameters if p.is_number]
    types = ", ".join(["T : mma.IElement", *(f"{own} : mma.IElement" for own in _own_types(epilogue))])
    fields = "".join(f"    TensorView<{_element(epilogue, p)}> x_{p.name};\n" for p in epilogue.parameters)
    taken = "".join(f", {_element(epilogue, p)} x_{p.name}" for p in epilogue.parameters)
    one = "".join(f", x_{p.name}[at]" for p in epilogue.parameters)
    pairs = [f"mma.has_pairs(x_{p.name}, columns)" for p in numbers]
    # Arguments of other types are not read by pairs: then branches around few elements are better than none.
    has_pairs = " && ".join(pairs) or str(not epilogue.parameters).lower()
    loads = "".join(
        f"        {_element(epilogue, p)} of_{p.name}[2];\n"
        f"        mma.load_pair(x_{p.name}, row, further, of_{p.name});\n"
        for p in numbers
    )

    def paired(place: str, which: int) -> str:
        return "".join(
            f", of_{p.name}[{which}]" if p.is_number else f", x_{p.name}[{place}]" for p in epilogue.parameters
        )

    return f"""struct {epilogue.name}_epilogue<{types}> : mma.IPairedEpilogue<T.Sum>
{{
    static const bool CHANGES = true;
{fields}
    [ForceInline] static T.Sum function_of(T.Sum value{taken})
    {{
        {_application(epilogue)}
    }}
    [ForceInline] T.Sum apply(T.Sum value, uint3 at)
    {{
        return function_of(value{one});
    }}
    [ForceInline] bool has_pairs(uint columns)
    {{
        return {has_pairs};
    }}
    [ForceInline] void apply_pair(
        inout T.Sum value, inout T.Sum next_value, uint3 at, uint3 next, uint3 row, uint further)
    {{
{loads}        value = function_of(value{paired("at", 0)});
        next_value = function_of(next_value{paired("next", 1)});
    }}
}};
"""


def _application(epilogue: Epilogue) -> str:
    """The statement that returns the function's result, computed in the precision of the sums if it is generic."""

    def result(precision: str) -> str:
        arguments = [f"__realCast<{precision}>(value)"]
        for p in epilogue.parameters:
            concrete = precision if p.type == epilogue.type_parameter else p.type
            arguments.append(f"__realCast<{concrete}>(x_{p.name}.widen())" if p.is_number else f"x_{p.name}")
        return f"return __realCast<T.Sum>({epilogue.name}{_PRECISIONS[precision]}({', '.join(arguments)}));"

    first = result(epilogue.precisions[0])
    return first if len(epilogue.precisions) == 1 else f"if (sizeof(T.Sum) == 8) {result('double')} else {first}"


def _macros(epilogue: Epilogue, product: Product, stores_sums: bool) -> str:
    """Definitions of the product's macros. Those of the user that have the same names end here."""
    kernel = f"{epilogue.name}{product.ending}{'_and_sum' if stores_sums else ''}"
    own = [f"{name} : mma.IElement" for name in _own_types(epilogue)]
    views = "".join(
        f'[Shape("B, M, N")] [In] TensorView<{_element(epilogue, p, "ELEMENT")}> x_{p.name}, '
        for p in epilogue.parameters
    )
    out = '[Out("B, M, N")] TensorView<ELEMENT>'
    macros = {
        "PRODUCT": kernel,
        "PRODUCT_WIDE": f"{kernel}_wide",
        "PRODUCT_TF32": f"{kernel}_tf32",
        "MULTIPLY": f"{kernel}_multiply",
        "TWO_TURNS": "",
        "OWN_TYPES": f"<{', '.join(own)}>" if own else "",
        "MORE_TYPES": "".join(f", {one}" for one in own),
        "ARGUMENTS(ELEMENT)": views,
        "RESULTS(ELEMENT)": f"{out} c, {out} sums" if stores_sums else f"{out} c",
        "EPILOGUE(ELEMENT)": f"{epilogue.name}_epilogue<{', '.join(['ELEMENT', *_own_types(epilogue)])}>",
        "VIEWS": ", ".join(f"x_{p.name}" for p in epilogue.parameters),
        "STORES_SUMS": str(stores_sums).lower(),
        "SUMS": "sums" if stores_sums else "c",
    }
    lines = []
    for name, text in macros.items():
        bare = name.removesuffix("(ELEMENT)")
        lines.append(f"#ifdef {bare}\n#undef {bare}\n#endif\n#define {name} {text}\n")
    return "".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes the Slang module of one epilogue of torch_slang.nn.Linear.")
    parser.add_argument("source", type=Path, help="ops/epilogues/linear.slang: functions of float and of double")
    parser.add_argument("product", type=Path, help="ops/matmul.slang or ops/block_sparse.slang")
    parser.add_argument("name", help="linear_gelu, or with a bias linear_gelu_bias")
    parser.add_argument("output", type=Path)
    arguments = parser.parse_args()
    name, file = arguments.name, arguments.product
    (product,) = (one for one in (MATMUL, BLOCK_SPARSE) if one.file == file.name)
    bias = EpilogueParameter("bias", "T", is_number=True, differentiable=True)
    parameters = (bias,) if name.endswith("_bias") else ()
    epilogue = Epilogue(name + product.suffix, name, "T", "sum", "T", parameters, is_overloaded=True)
    arguments.output.write_text(f"{arguments.source.read_text()}\n{epilogue_text(epilogue, product, file.parent)}")


if __name__ == "__main__":
    main()
