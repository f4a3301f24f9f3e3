"""What the run-time tells of a kernel or plain function: its arguments and results, operators and type parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch_slang import _C

__all__ = ["Added", "Descriptor", "Leaf", "Parameter", "TypeParameter", "describe"]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A tensor or a value of an operator."""

    name: str  # "cfg_gain"
    path: str  # "cfg.gain"
    type: str  # as Slang has it
    is_view: bool
    is_output: bool
    is_whole: bool  # of a plain function, which sees the tensor as it is
    is_written: bool  # a whole one that the function stores to
    differentiable: bool
    no_gradient: str  # not empty: why a tensor that requires grad is refused
    has_gradient: bool
    element_shape: tuple[int, ...]  # of one element; negative where the tensors decide
    type_parameter: int  # negative: none
    dtype: torch.dtype
    shape: str | None
    default: Any

    @classmethod
    def of(cls, told: dict[str, Any]) -> Leaf:
        shape, dtype = tuple(told.pop("element_shape")), getattr(torch, told.pop("dtype"))
        return cls(element_shape=shape, dtype=dtype, **told)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter or a result as declared: a leaf, or a struct (or an array) of fields."""

    name: str
    type: str
    leaf: int  # negative: a struct
    fields: tuple[Parameter, ...]

    @classmethod
    def of(cls, told: dict[str, Any]) -> Parameter:
        return cls(told["name"], told["type"], told["leaf"], tuple(map(cls.of, told["fields"])))


@dataclass(frozen=True, slots=True)
class TypeParameter:
    name: str
    allowed: tuple[torch.dtype, ...]


@dataclass(frozen=True, slots=True)
class Added:
    """What one of a kernel's operators has beside the kernel's own arguments."""

    gradients: dict[str, str]  # the names of gradients (or tangents), by leaf
    extents: tuple[str, ...]  # block_size and grid_size
    packed: list[tuple[str, list[str]]] | None  # lists in place of more than 64 arguments
    names: list[str]  # of the operator's arguments, where there are lists


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A kernel or plain function."""

    name: str
    qualified_name: str
    file: str
    line: int
    leaves: tuple[Leaf, ...]
    parameters: tuple[Parameter, ...]
    results: tuple[Parameter, ...]
    order: tuple[str, ...]  # of a plain function: its parameters as Slang has them
    operators: Mapping[str, str | None]  # by kind: "forward", "backward", "launch", "fwd", "bwd", "out"
    added: Mapping[str, Added]  # by kind
    type_parameters: tuple[TypeParameter, ...]
    size_parameters: tuple[str, ...]
    constants: Mapping[str, int]  # the module's integer defines, which shapes may name
    has_backward: bool
    bound: Mapping[str, str]  # generic arguments that are known, by name

    @property
    def inputs(self) -> list[Leaf]:
        """The leaves that are no outputs, in the order of the forward operator's schema."""
        return [leaf for leaf in self.leaves if not leaf.is_output]


_KINDS = ("forward", "backward", "launch", "fwd", "bwd", "out")


def describe(handle: _C.Module, name: str) -> Descriptor:
    """The descriptor of a module's kernel or function. Raises RuntimeError where there is none."""
    told = handle.describe(name)
    return Descriptor(
        name=told["name"],
        qualified_name=told["qualified_name"],
        file=told["file"],
        line=told["line"],
        leaves=tuple(map(Leaf.of, told["leaves"])),
        parameters=_parameters(told["parameters"]),
        results=_parameters(told["results"]),
        order=tuple(told["order"]),
        operators={kind: told.get(kind) for kind in _KINDS},
        added={kind: _added(one) for kind, one in told["added"].items()},
        type_parameters=tuple(
            TypeParameter(name, tuple(getattr(torch, one) for one in allowed))
            for name, allowed in told["type_parameters"]
        ),
        size_parameters=tuple(told["size_parameters"]),
        constants=told["constants"],
        has_backward=told["has_backward"],
        bound={},
    )


def _parameters(told: Iterable[dict[str, Any]]) -> tuple[Parameter, ...]:
    return tuple(map(Parameter.of, told))


def _added(told: dict[str, Any]) -> Added:
    return Added(told["gradients"], tuple(told["extents"]), told.get("packed"), told.get("names", []))
