"""Generic functions with their arguments: what types of parameters say of them, and how instances are described."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from torch_slang._descriptor import Descriptor, Parameter

__all__ = [
    "GenericArguments",
    "bound",
    "check_type",
    "read",
    "short_name",
    "usual_name",
    "written",
]

# Types and sizes, in the order of the function's parameters; empty and None for those that follow from the tensors.
GenericArguments = tuple[tuple[str, ...], tuple[int | None, ...]]

# Other names of Slang's own for its types.
_TYPE_ALIASES = {
    "float16_t": "half",
    "float32_t": "float",
    "float64_t": "double",
    "int32_t": "int",
    "uint32_t": "uint",
}


def usual_name(slang_type: str) -> str:
    """`float` of `float32_t`."""
    return _TYPE_ALIASES.get(slang_type, slang_type)


def short_name(slang_type: str) -> str:
    """`float3` of `vector<float,3>`, `float2x3` of `matrix<float,2,3>`."""
    name = re.sub(r"^vector<(\w+),(\d)>$", r"\1\2", slang_type)
    return re.sub(r"^matrix<(\w+),(\d),(\d)>$", r"\1\2x\3", name)


def _words(slang_type: str) -> list[str]:
    """What a type consists of, where `float3` is `vector<float,3>`."""
    name = re.sub(r"\b((?:float|half|double|u?int|bool)(?:\d+_t)?)([1-4])\b", r"vector<\1,\2>", slang_type)
    name = re.sub(r"\b((?:float|half|double|u?int|bool)(?:\d+_t)?)([2-4])x([2-4])\b", r"matrix<\1,\2,\3>", name)
    return [usual_name(word) for word in re.findall(r"\w+|[^\s\w]", name)]


def check_type(
    what: str, slang_type: str, given: str, generics: Sequence[str], error: Callable[[str], TypeError]
) -> dict[str, str]:
    """What a type that a map gives says of the generic names in that of a parameter. Raises TypeError if it is not."""
    wanted, words = _words(slang_type), _words(given)
    if len(wanted) == 1 and wanted[0] in generics and len(words) > 1:
        raise error(
            f"expected {what} to be the type of a number, as a generic one is here, but got {given!r}: declare it "
            "as a vector<T, N>, a matrix or an array"
        )
    pairs = list(zip(wanted, words, strict=False))
    if len(wanted) != len(words) or any(word != want and want not in generics for want, word in pairs):
        raise error(f"expected the type of {what} as Slang has it, but got {given!r}")
    return {want: word for want, word in pairs if want in generics}


def written(generics: GenericArguments) -> tuple[str, str]:
    """Generic arguments as texts, which traces take for constants."""
    types, sizes = generics
    return ",".join(types), ",".join("" if size is None else str(size) for size in sizes)


def read(types: str, sizes: str) -> GenericArguments:
    """What :func:`written` wrote."""
    numbers = tuple(int(size) if size else None for size in sizes.split(",")) if sizes else ()
    return tuple(types.split(",")) if types else (), numbers


def bound(about: Descriptor, generics: GenericArguments | None) -> Descriptor:
    """A function's description, where generic arguments that are known stand in types in place of their names."""
    if generics is None:
        return about
    names = ([parameter.name for parameter in about.type_parameters], about.size_parameters)
    values = {
        name: str(value)
        for few, given in zip(names, generics, strict=True)
        for name, value in zip(few, given, strict=False)
        if value
    }

    def in_place(slang_type: str) -> str:
        return re.sub(r"\w+", lambda word: values.get(word[0], word[0]), slang_type)

    def with_types(parameter: Parameter) -> Parameter:
        return replace(parameter, type=in_place(parameter.type), fields=tuple(map(with_types, parameter.fields)))

    return replace(
        about,
        leaves=tuple(replace(leaf, type=in_place(leaf.type)) for leaf in about.leaves),
        parameters=tuple(map(with_types, about.parameters)),
        results=tuple(map(with_types, about.results)),
        bound=values,
    )
