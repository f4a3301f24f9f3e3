"""Arguments as slangtorch spells them: named tuples for structs, pairs for tensors with gradients."""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from torch_slang._descriptor import Leaf, Parameter


class ArgumentError(TypeError, ValueError):
    """An argument that the kernel does not take; slangtorch raises now one, now the other."""


class DiffTensorView(NamedTuple):
    """A tensor with its gradient, or with its tangent."""

    value: torch.Tensor
    grad: torch.Tensor | None = None


def struct_types(parameters: Iterable[Parameter]) -> dict[str, type]:
    """A named tuple for each struct among the parameters and inside them, by its simple name.

    Absent are structs whose fields Python cannot name, and names that stand for several structs: those are given as
    mappings.
    """
    fields_by_name: dict[str, set[tuple[str, ...]]] = {}
    for parameter in _structs(parameters):
        names = tuple(field.name for field in parameter.fields)
        fields_by_name.setdefault(_simple_name(parameter.type), set()).add(names)
    types: dict[str, type] = {}
    for name, variants in fields_by_name.items():
        if len(variants) == 1:
            try:
                types[name] = namedtuple(name, next(iter(variants)))
            except ValueError:  # a field that begins with an underscore, or is a keyword
                continue
    return types


def plain_argument(parameter: Parameter, leaves: Sequence[Leaf], value: Any) -> Any:
    """The same argument without what only slangtorch knows.

    That is a gradient inside a tuple of its own, ``(value, (grad,))``, as its raw modules want it, and numbers of numpy
    or of torch. A value that does not fit the parameter stays as it is: the kernel's own check reports it.
    """
    if parameter.leaf >= 0:
        return _plain_view(value) if leaves[parameter.leaf].is_view else _plain_numbers(value)
    fields = parameter.fields
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        known = {field.name: field for field in fields}
        return {key: plain_argument(known[key], leaves, item) if key in known else item for key, item in value.items()}
    if isinstance(value, tuple | list) and len(value) == len(fields):
        return [plain_argument(field, leaves, item) for field, item in zip(fields, value, strict=True)]
    return value


def bare_memory(kernel: str, name: str, tensor: torch.Tensor) -> torch.Tensor:
    """A tensor as slangtorch sees it: its memory.

    Programs wrap launches in an autograd.Function: a launch leaves no trace, neither in the graph nor in the version of
    a tensor, which the graph may have kept. A tensor without dimensions is one of one element, read by ``x[0]``.
    Broadcast tensors are refused: writing to one would be a race.
    """
    if 0 in tensor.stride() and tensor.numel() > 0 and _is_broadcast(tensor):
        raise RuntimeError(
            f"{kernel}: {name} has broadcast dimensions (shape {list(tensor.shape)}, strides {list(tensor.stride())}), "
            f"which a kernel cannot write to: pass {name}.contiguous()"
        )
    return tensor.data if tensor.dim() > 0 else tensor.data.view(1)


def beside(value: torch.Tensor, gradient: torch.Tensor, element: int) -> torch.Tensor:
    """The part of a gradient, or of a tangent, that a kernel reaches by the value's indices.

    In slangtorch each has sizes of its own: a gradient may be longer than its value, and one of the two may have
    dimensions of size 1 behind the other's. A gradient that lacks an element stays as it is: the operator reports it.
    `element`: how many dimensions, the last, are an element's.
    """
    rank = value.dim() - element
    part = gradient
    while part.dim() - element > rank and part.shape[part.dim() - element - 1] == 1:
        part = part.squeeze(part.dim() - element - 1)
    while part.dim() >= element and part.dim() - element < rank and value.shape[part.dim() - element] == 1:
        part = part.unsqueeze(part.dim() - element)
    pairs = list(zip(part.shape, value.shape, strict=False))
    covers = part.dim() == value.dim() and all(own >= size for own, size in pairs)
    if not covers or part.shape[rank:] != value.shape[rank:]:
        return gradient
    return part[tuple(slice(size) for size in value.shape)]


def _is_broadcast(tensor: torch.Tensor) -> bool:
    return any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True))


def no_tensor(kernel: str, path: str, slang_type: str, value: Any) -> ArgumentError:
    """The error where a tensor is wanted."""
    return ArgumentError(f"{kernel}: expected {path} ({slang_type}) to be a tensor, but got {type(value).__name__}")


def _structs(parameters: Iterable[Parameter]) -> Iterator[Parameter]:
    for parameter in parameters:
        if parameter.leaf < 0 and not parameter.type.endswith("]"):
            yield parameter
        yield from _structs(parameter.fields)


def _simple_name(slang_type: str) -> str:
    """``Linear`` of ``nets.Linear<16>``."""
    return re.split(r"[.:]", slang_type.split("<", maxsplit=1)[0])[-1]


def _plain_view(value: Any) -> Any:
    if isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[1], tuple) and len(value[1]) == 1:
        return (value[0], value[1][0])
    return value


def _plain_numbers(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain_numbers(item) for item in value]
    if hasattr(value, "tolist") and not (isinstance(value, torch.Tensor) and value.requires_grad):
        return value.tolist()
    return value
