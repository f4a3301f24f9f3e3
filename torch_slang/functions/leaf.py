"""The tensors of a plain function's operator, and the parameters and results that they make up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from torch_slang._descriptor import Leaf, Parameter
from torch_slang._struct_values import field_values

__all__ = ["FunctionLeaf", "Tree"]


@dataclass(frozen=True, slots=True)
class FunctionLeaf:
    """One tensor of an operator."""

    name: str
    what: str  # for messages: "camera.exposure (float)"
    type: str
    dtype: torch.dtype | None  # None: a type parameter's
    type_parameter: int
    shape: tuple[int, ...]  # of one element; negative where the tensors decide
    differentiable: bool
    no_gradient: str  # not empty: why a tensor that requires grad is refused
    is_output: bool
    is_whole: bool  # the function sees the tensor as it is, which does not broadcast
    is_written: bool  # a whole tensor that the function stores to
    is_array: bool
    default: Any

    @classmethod
    def of(cls, about: Leaf) -> FunctionLeaf:
        default = about.default
        return cls(
            name=about.name,
            what=f"{about.path} ({about.type})",
            type=about.type,
            dtype=about.dtype if about.type_parameter < 0 else None,
            type_parameter=about.type_parameter,
            shape=about.element_shape,
            differentiable=about.differentiable,
            no_gradient=about.no_gradient,
            is_output=about.is_output,
            is_whole=about.is_whole,
            is_written=about.is_written,
            is_array=about.type.endswith("]"),
            default=bool(default) if default is not None and about.dtype == torch.bool else default,
        )


@dataclass(frozen=True, slots=True)
class Tree:
    """A parameter or a result: a leaf, or a struct (or an array) of such."""

    what: str  # for messages: "camera.lens (Lens)"
    name: str  # "camera.lens"
    type: str
    leaf: int  # negative: a struct
    names: tuple[str, ...]
    fields: tuple[Tree, ...]

    @classmethod
    def of(cls, about: Parameter, path: str) -> Tree:
        return cls(
            what=f"{path} ({about.type})",
            name=path,
            type=about.type,
            leaf=about.leaf,
            names=tuple(field.name for field in about.fields),
            fields=tuple(cls.of(field, f"{path}.{field.name}") for field in about.fields),
        )

    def take_apart(self, value: Any, leaves: list[Any], error: Callable[[str], TypeError]) -> None:
        """Appends what a user gave for each leaf."""
        if self.leaf >= 0:
            leaves.append(value)
            return
        if isinstance(value, torch.Tensor):
            raise error(f"expected {self.what} to be a mapping or a tuple of its fields, but got a tensor")
        if isinstance(value, Mapping) and "_type" in value and "_type" not in self.names:
            if value["_type"] != self.type:
                raise error(f"expected {self.what} to be of that type, but its _type is {value['_type']!r}")
            value = {name: item for name, item in value.items() if name != "_type"}
        for field, item in zip(self.fields, field_values(self.what, self.names, value, error), strict=True):
            field.take_apart(item, leaves, error)
