"""Results of ``inout`` and ``out`` parameters, written into the given arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any

import torch

from torch_slang._struct_values import field_values
from torch_slang._writable import obstacle_to_writing
from torch_slang.functions.arguments import FunctionArguments
from torch_slang.functions.leaf import Tree
from torch_slang.functions.map import DimensionMap
from torch_slang.functions.vector_components import component_names
from torch_slang.slangpy._tensor import Tensor
from torch_slang.slangpy._values import ValueRef

__all__ = ["Writer", "kept_for_backward"]


class Writer:
    """Writes results into the given arguments: all are checked before the first is written."""

    def __init__(self, arguments: FunctionArguments, dimensions: DimensionMap | None) -> None:
        self._arguments = arguments
        self._dimensions = dimensions
        self._writes: list[Callable[[], Any]] = []

    def add(self, name: str, target: Any, value: Any) -> None:
        """Takes note of what will be written. Raises TypeError or RuntimeError where it cannot be."""
        if isinstance(target, ValueRef):
            if isinstance(value, torch.Tensor) and value.dim() > 0:
                raise self._error(f"{name} is one number, but the call has shape {list(value.shape)}")
            self._writes.append(lambda: setattr(target, "value", value.tolist()))
            return
        if isinstance(target, Tensor):
            target = target.storage
        if isinstance(target, torch.Tensor):
            self._add_tensor(name, target, value)
            return
        for field, item in self._fields(name, target, value):
            held = target[field] if isinstance(target, Mapping) else getattr(target, field)
            if isinstance(held, (bool, int, float, tuple, list)):
                if not _is_same(torch.as_tensor(held), item):
                    self._add_replacement(name, target, field, item)
            else:
                self.add(f"{name}.{field}", held, item)

    def write(self) -> None:
        for one in self._writes:
            one()

    def _fields(self, name: str, target: Any, value: Any) -> Iterable[tuple[str, Any]]:
        if isinstance(target, Mapping) and isinstance(value, torch.Tensor) and value.dim() > 0:  # a vector's components
            return zip(component_names(value.shape[-1]), value.unbind(-1), strict=True)
        if not hasattr(value, "_fields"):
            raise self._error(f"{name} is written, so it must be a tensor, but got a {type(target).__name__}")
        return zip(value._fields, value, strict=True)

    def _add_replacement(self, name: str, target: Any, field: str, value: Any) -> None:
        is_frozen = dataclasses.is_dataclass(target) and vars(type(target))["__dataclass_params__"].frozen
        if (
            isinstance(target, tuple)
            or is_frozen
            or (isinstance(target, Mapping) and not isinstance(target, MutableMapping))
        ):
            raise self._error(
                f"{name}.{field} is written, so {name} must be one whose fields can be set, or hold a tensor there, "
                f"but got a {type(target).__name__}"
            )
        self._writes.append(lambda: _replace(target, field, value))

    def _add_tensor(self, name: str, target: torch.Tensor, value: Any) -> None:
        if not isinstance(value, torch.Tensor):
            raise self._error(f"{name} is written, so it must be a struct's fields, but got a tensor")
        if self._dimensions is not None:
            target = self._dimensions.place_written(name, target, value)
        if target.shape != value.shape:
            if not _is_same(target, value):
                rule = f"it must have the call's shape {list(value.shape)}, not {list(target.shape)}"
                raise self._error(f"{name} is written, so {rule}")
            return
        if _category(value.dtype) > _category(target.dtype):
            raise self._error(f"{name} is written, so it must hold {value.dtype}, but got {target.dtype}")
        obstacle = obstacle_to_writing(target)
        if obstacle:
            raise RuntimeError(
                f"{self._arguments}: {name} is written, so it must be one to write into, but got {obstacle}"
            )
        self._writes.append(lambda: target.copy_(value))

    def _error(self, message: str) -> TypeError:
        return self._arguments.error(message)


def kept_for_backward(arguments: FunctionArguments, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """`given`, with copies of the written arguments where autograd records: its backward reads the former values."""
    if not arguments.written or not torch.is_grad_enabled():
        return given
    trees = {name: tree for name, tree in zip(arguments.names, arguments.trees, strict=True) if name in given}
    leaves: list[Any] = []
    for name, tree in trees.items():
        tree.take_apart(given[name], leaves, arguments.error)
    values = [item for leaf in leaves for item in (leaf.values() if isinstance(leaf, Mapping) else (leaf,))]
    if not any(isinstance(value, torch.Tensor) and value.requires_grad for value in values):
        return given
    return {
        name: _copied(trees[name], value, arguments) if name in arguments.written else value
        for name, value in given.items()
    }


def _copied(tree: Tree, value: Any, arguments: FunctionArguments) -> Any:
    """The same with tensors of its own."""
    if tree.leaf >= 0:
        return value.clone() if isinstance(value, torch.Tensor) else value
    if isinstance(value, Mapping) and "_type" not in tree.names:
        value = {name: item for name, item in value.items() if name != "_type"}
    fields = zip(tree.fields, field_values(tree.what, tree.names, value, arguments.error), strict=True)
    return tuple(_copied(field, item, arguments) for field, item in fields)


def _category(dtype: torch.dtype) -> int:
    """Numbers of a higher one do not fit one below: `torch.can_cast`, which does not trace."""
    return 2 if dtype.is_floating_point else int(dtype != torch.bool)


def _replace(target: Any, field: str, value: Any) -> None:
    if isinstance(target, MutableMapping):
        target[field] = value
    else:
        setattr(target, field, value)


def _is_same(held: torch.Tensor, value: Any) -> bool:
    """Whether a value that all elements share came back as it was."""
    if not isinstance(value, torch.Tensor) or held.dim() > value.dim():
        return False
    same = (value == held) | (value.isnan() & held.isnan())
    return bool(same.all())
