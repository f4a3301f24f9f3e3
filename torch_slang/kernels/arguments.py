"""From what a user passes to a kernel to the arguments of its operator: structs taken apart, numbers to tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from torch_slang._descriptor import Descriptor, Leaf, Parameter
from torch_slang._struct_values import field_values

__all__ = ["Arguments"]

_LAUNCHES = ("_launch", "_fwd", "_bwd")
_PUBLISHED_EXTENTS = ("launchBlockSize", "launchGridSize")  # as the published design spells them


class Arguments:
    """The parameters of one operator of a kernel, in the order of the Slang source.

    ``flatten`` turns positional and keyword arguments into those of the operator. A struct is a mapping, a tuple or a
    named tuple of its fields, or its fields under their flat names. Where a launch takes gradients (``_bwd``, and
    ``_launch`` of views) or tangents (``_fwd``), a differentiable tensor is a pair ``(value, gradient)``; alone, or
    with None, its gradient is unwanted.
    """

    def __init__(self, about: Descriptor, suffix: str, signature: str) -> None:
        self.leaves = about.leaves
        self.is_launch = suffix in _LAUNCHES
        added = about.added.get(suffix.removeprefix("_")) if self.is_launch else None
        self.gradients = {} if added is None else added.gradients  # what the operator calls them, by leaf
        self._wants_all_gradients = suffix != "_launch"  # be they None
        self.parameters = [p for p in about.parameters if self._is_given(p)]
        self.extents = () if added is None else added.extents
        self.names = [*(p.name for p in self.parameters), *self.extents]
        published = zip(_PUBLISHED_EXTENTS, self.extents, strict=False)
        self._published = {name: extent for name, extent in published if name not in self.names}
        self._signature = f"{signature}({', '.join(p.name + ': ' + p.type for p in self.parameters)})"

    @property
    def are_plain(self) -> bool:
        """Tensors alone, which go to the operator as they are."""
        return not self.is_launch and all(p.leaf >= 0 and self.leaves[p.leaf].is_view for p in self.parameters)

    @property
    def defaults(self) -> dict[str, Any]:
        """Of the operator's arguments, those that may be left out."""
        values = {leaf.name: leaf.default for leaf in self.leaves if leaf.default is not None}
        return values | dict.fromkeys(self.gradients.values())

    def __str__(self) -> str:
        return self._signature

    def flatten(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Raises TypeError, naming the kernel, the parameter and the value."""
        if len(args) > len(self.names):
            raise self.error(f"expected at most {len(self.names)} arguments, but got {len(args)}")
        remaining = {self._published.get(name, name): value for name, value in kwargs.items()}
        for name, value in zip(self.names, args, strict=False):
            if name in remaining:
                raise self.error(f"got two values for {name}")
            remaining[name] = value
        flat: dict[str, Any] = {}
        for parameter in self.parameters:
            if parameter.name in remaining:
                self._put(flat, parameter, remaining.pop(parameter.name))
        flat.update(remaining)  # flat names of struct fields; the operator reports missing and unknown ones
        self._convert_numbers(flat)
        for extent in self.extents:
            if isinstance(flat.get(extent), int):
                flat[extent] = (flat[extent],)
        return flat

    def _is_given(self, parameter: Parameter) -> bool:
        """Something of this parameter is an argument; outputs are allocated, except by a launch."""
        if parameter.leaf >= 0:
            return self.is_launch or not self.leaves[parameter.leaf].is_output
        return any(self._is_given(field) for field in parameter.fields)

    def error(self, message: str) -> TypeError:
        """Of a call that does not fit."""
        return TypeError(f"{self._signature}: {message}")

    def _put(self, flat: dict[str, Any], parameter: Parameter, value: Any) -> None:
        if parameter.leaf >= 0:
            self._put_leaf(flat, self.leaves[parameter.leaf], value)
            return
        fields = [field for field in parameter.fields if self._is_given(field)]
        for field, item in zip(fields, self._field_values(parameter, fields, value), strict=True):
            self._put(flat, field, item)

    def _field_values(self, parameter: Parameter, fields: list[Parameter], value: Any) -> list[Any]:
        what = f"{parameter.name} ({parameter.type})"
        return field_values(what, [field.name for field in fields], value, self.error)

    def _put_leaf(self, flat: dict[str, Any], leaf: Leaf, value: Any) -> None:
        gradient = None
        # A list of tensors is an array's elements, where the argument may be an array.
        pair = (tuple, list) if leaf.is_view or not leaf.element_shape else tuple
        if self.is_launch and isinstance(value, pair) and (leaf.is_view or _begins_with_tensor(value)):
            if not (leaf.has_gradient and len(value) in (1, 2)):
                raise self.error(
                    f"expected {leaf.path} ({leaf.type}) to be a tensor"
                    f"{' or a pair (value, gradient)' if leaf.has_gradient else ''}, but got {len(value)} values"
                )
            value, gradient = (*value, None)[:2]
        flat[leaf.name] = value
        name = self.gradients.get(leaf.name)
        if name is not None and (gradient is not None or self._wants_all_gradients):
            flat[name] = gradient
        elif name is None and gradient is not None:
            raise self.error(
                f"{leaf.path} ({leaf.type}) is given a gradient, but this launch has none of values, only of "
                "tensor views: the kernel's _bwd computes it"
            )

    def _tensor(self, value: Any, dtype: torch.dtype, leaf: Leaf) -> torch.Tensor:
        try:
            return torch.tensor(value, dtype=dtype)
        except (TypeError, ValueError, RuntimeError):
            raise self.error(
                f"expected {leaf.name} ({leaf.type}) to be a number or a tensor, but got {value!r}"
            ) from None

    def _convert_numbers(self, flat: dict[str, Any]) -> None:
        """Numbers for differentiable values become tensors; tensors with gradients are refused for numbers."""
        generic = {  # what the tensors say of the type parameters
            leaf.type_parameter: flat[leaf.name].dtype
            for leaf in reversed(self.leaves)
            if leaf.type_parameter >= 0 and isinstance(flat.get(leaf.name), torch.Tensor)
        }
        for leaf in self.leaves:
            name = leaf.name
            value = flat.get(name)
            if value is None:
                value = leaf.default
            if value is None or leaf.is_view:
                continue
            if leaf.differentiable:
                if not isinstance(value, torch.Tensor):
                    dtype = generic.get(leaf.type_parameter, leaf.dtype)
                    flat[name] = self._tensor(value, dtype, leaf)
                if name in self.gradients:
                    flat.setdefault(self.gradients[name], None)
                continue
            if isinstance(value, torch.Tensor):
                if value.requires_grad:
                    raise self.error(f"{name} ({leaf.type}) is a constant, but got a tensor that requires grad")
                value = value.tolist()
            flat[name] = list(_numbers(value)) if leaf.element_shape else value


def _begins_with_tensor(value: Sequence[Any]) -> bool:
    return bool(value) and isinstance(value[0], torch.Tensor)


def _numbers(value: Any) -> Iterator[Any]:
    """Those of a vector, or of a matrix by rows."""
    if not isinstance(value, list | tuple):
        yield value
        return
    for item in value:
        yield from _numbers(item)
