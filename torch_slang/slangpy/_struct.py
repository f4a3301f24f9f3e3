"""SlangPy's structs, and lists and tensors of instances of them."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import torch

from torch_slang._writable import obstacle_to_writing
from torch_slang.functions.leaf import FunctionLeaf, Tree
from torch_slang.slangpy._tensor import Tensor
from torch_slang.slangpy._values import Packed

if TYPE_CHECKING:
    from torch_slang.slangpy._module import Module
    from torch_slang.slangpy._node import FunctionNode

__all__ = ["InstanceList", "InstanceTensor", "Struct"]


class Struct:
    """A struct of a module. Its methods are its attributes."""

    def __init__(self, module: Module, name: str) -> None:
        self.module = module
        self.name = self.full_name = name

    def try_get_child(self, name: str) -> FunctionNode | None:
        """The method of that name, or None."""
        return self.module.find_function(f"{self.name.replace('.', '_')}_{name}")

    def layout(self) -> tuple[Tree, Sequence[FunctionLeaf]]:
        """The struct's fields, as some function has them that takes or gives it. Raises TypeError if none does."""
        found = self.module.layout_of(self.name)
        if found is None:
            raise TypeError(f"slangpy: no function names the fields of {self.name}")
        return found

    def element(self) -> tuple[torch.dtype, tuple[int, ...]]:
        """Its numbers' type and how many they are, as the element of a tensor that some function takes whole.

        Raises TypeError if none does.
        """
        found = self.module.element_of(self.name)
        if found is None:
            raise TypeError(f"slangpy: no function takes a tensor of {self.name}")
        return found

    def as_struct(self) -> Struct:
        """The struct itself, for programs that tell functions from structs."""
        return self

    def as_func(self) -> Any:
        raise ValueError(f"slangpy: {self.name} is a struct, no function")

    def __getattr__(self, name: str) -> FunctionNode:
        if name.startswith("__") and name != "__init":
            raise AttributeError(name)
        method = self.try_get_child(name)
        if method is None:
            raise AttributeError(f"slangpy: the struct {self.name} has no method {name}")
        return method

    __getitem__ = __getattr__

    def __repr__(self) -> str:
        return f"<slangpy struct {self.name}>"


class InstanceList:
    """Instances of a struct: a mapping of its fields to tensors (or numbers, which all instances share).

    Methods of the struct are called on all instances. What a ``[mutating]`` method changes is written back: into the
    field's tensor, or in place of a number in `data` itself.
    """

    def __init__(self, struct: Struct, data: Any = None) -> None:
        vars(self).update(_struct=struct, _data={} if data is None else data)

    def get_this(self) -> Any:
        """The instances' fields."""
        return self._data

    def update_this(self, value: Any) -> None:
        """Called after each call that may have changed the fields."""

    def set_data(self, data: Any) -> None:
        """Other fields from now on."""
        vars(self)["_data"] = data

    def pack(self) -> Packed:
        """The instances as they are: nothing needs packing here."""
        return Packed(self)

    def construct(self, *args: Any, **kwargs: Any) -> None:
        """Calls the struct's constructor for each instance, and writes the fields into their tensors, if any.

        Raises TypeError where the struct has no constructor, or a field's tensor does not have the call's shape.
        """
        constructor = self._struct.try_get_child("__init")
        if constructor is None:
            raise TypeError(f"slangpy: the struct {self._struct.name} has no constructor, __init(...)")
        made = constructor(*args, **kwargs, _result="tensor")
        tree, _ = self._struct.layout()
        fields = list(zip(tree.names, made, strict=True))
        for name, value in fields:
            _check_fits(self._struct.name, self._data, name, value)
        for name, value in fields:
            _write(self._data, name, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if isinstance(self._data, Mapping) and name in self._data:
            return self._data[name]
        method = self._struct.try_get_child(name)
        if method is None:
            raise AttributeError(f"slangpy: an instance of {self._struct.name} has no field or method {name}")
        return method.bind(self)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(self._data, Mapping):
            self._data[name] = value  # type: ignore[index]
        else:
            super().__setattr__(name, value)


class InstanceTensor(InstanceList):
    """Instances of a struct in one tensor, whose last dimension holds all components of all fields, in order.

    `data`: that tensor, of shape `shape` and the components; without it there is a new one. The fields are views of it.
    All must be of one type.
    """

    def __init__(self, struct: Struct, shape: Sequence[int], data: Any = None) -> None:
        tree, leaves = struct.layout()
        used = [leaves[index] for index in _leaves_of(tree)]
        dtypes = {leaf.dtype for leaf in used}
        dtype = next(iter(dtypes))
        if len(dtypes) > 1 or dtype is None:
            raise TypeError(
                f"slangpy.InstanceTensor: the fields of {struct.name} are not of one type: use InstanceList"
            )
        count = sum(prod(leaf.shape) for leaf in used)
        tensor = data.storage if isinstance(data, Tensor) else data
        if tensor is None:
            tensor = torch.empty(*shape, count, dtype=dtype)
        if tuple(tensor.shape) != (*shape, count) or tensor.dtype != dtype:
            raise ValueError(
                f"slangpy.InstanceTensor: expected data to have shape {[*shape, count]} and dtype {dtype}, but got "
                f"{list(tensor.shape)} and {tensor.dtype}"
            )
        super().__init__(struct, _views(tree, leaves, iter(_parts(tensor, used))))
        vars(self).update(shape=tuple(shape), tensor=tensor)

    def to_numpy(self) -> Any:
        """The tensor as one of NumPy's arrays."""
        return self.tensor.numpy(force=True)

    def copy_from_numpy(self, data: Any) -> None:
        """Writes the tensor."""
        self.tensor.detach().copy_(torch.as_tensor(data).reshape(self.tensor.shape))


def _field(fields: Any, name: str) -> Any:
    """The value of a field, None if there is none."""
    return fields.get(name) if isinstance(fields, Mapping) else getattr(fields, name, None)


def _check_fits(path: str, fields: Any, name: str, value: Any) -> None:
    held = _field(fields, name)
    path = f"{path}.{name}"
    if isinstance(held, torch.Tensor):
        try:
            fits = torch.broadcast_shapes(held.shape, value.shape) == held.shape
        except RuntimeError:
            fits = False
        if not fits:
            raise TypeError(
                f"slangpy: construct: expected the tensor of {path} to have the call's shape {list(value.shape)}, but "
                f"got shape {list(held.shape)}"
            )
        obstacle = obstacle_to_writing(held)
        if obstacle:
            raise RuntimeError(f"slangpy: construct: expected {path} to be a tensor to write into, but got {obstacle}")
    elif held is not None and hasattr(value, "_asdict"):
        for inner, item in value._asdict().items():
            _check_fits(path, held, inner, item)


def _write(fields: Any, name: str, value: Any) -> None:
    held = _field(fields, name)
    if isinstance(held, torch.Tensor):
        if held.requires_grad:
            _ = held.grad_fn  # brings a view up to date whose base was written: copy_ takes it for a leaf otherwise
        held.copy_(value)
    elif held is not None and hasattr(value, "_asdict"):
        for inner, item in value._asdict().items():
            _write(held, inner, item)
    elif isinstance(fields, MutableMapping):
        fields[name] = _as_mapping(value)
    else:
        setattr(fields, name, _as_mapping(value))


def _as_mapping(value: Any) -> Any:
    """A struct's named tuple, and those inside, as mappings, which can be written."""
    if not hasattr(value, "_asdict"):
        return value
    return {name: _as_mapping(item) for name, item in value._asdict().items()}


def _leaves_of(tree: Tree) -> list[int]:
    return [tree.leaf] if tree.leaf >= 0 else [leaf for field in tree.fields for leaf in _leaves_of(field)]


def _parts(tensor: torch.Tensor, leaves: Sequence[FunctionLeaf]) -> list[torch.Tensor]:
    parts = []
    first = 0
    for leaf in leaves:  # one by one: autograd lets nobody write into the views that split gives
        count = prod(leaf.shape)
        part = tensor.narrow(-1, first, count)
        parts.append(part.unflatten(-1, leaf.shape) if leaf.shape else part.squeeze(-1))
        first += count
    return parts


def _views(tree: Tree, leaves: Sequence[FunctionLeaf], parts: Any) -> Any:
    if tree.leaf >= 0:
        return next(parts)
    return {name: _views(field, leaves, parts) for name, field in zip(tree.names, tree.fields, strict=True)}
