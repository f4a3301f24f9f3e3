"""Vectors that are given by their components: ``{"x": 1.0, "y": heights, "z": 0.0}``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from torch_slang._numbers import SLANG_TYPES, kind_of, number_of, widens
from torch_slang._struct_values import field_values
from torch_slang.functions.instance import check_type
from torch_slang.generators import Generator

if TYPE_CHECKING:
    from torch_slang.functions.leaf import FunctionLeaf

__all__ = ["component_gradients", "component_names", "vector_of"]

_Error = Callable[[str], TypeError]


def component_names(count: int) -> Sequence[str]:
    """Those of a vector of so many components."""
    return "xyzw"[:count]


def vector_of(leaf: FunctionLeaf, given: Mapping[str, Any], generics: Sequence[str], error: _Error) -> Any:
    """A tensor whose last dimension has the components, which broadcast; a list if all are numbers of no certain type.

    Raises TypeError where the argument is no vector, or a component is missing, unknown or of a type that does not fit.
    """
    components = {name: value for name, value in given.items() if name != "_type"}
    if len(leaf.shape) != 1 or leaf.is_array:
        raise error(f"expected {leaf.what} to be a tensor or numbers, since it has no fields, but got a mapping")
    words = check_type(leaf.what, leaf.type, str(given["_type"]), generics, error).values() if "_type" in given else ()
    counts = [int(word) for word in words if word.isdigit()]
    dtypes = [dtype for dtype, name in SLANG_TYPES.items() if name in words]
    count = leaf.shape[0] if leaf.shape[0] >= 0 else (*counts, len(components))[0]
    names = component_names(count)
    items = field_values(leaf.what, names, components, error)
    tensors = [item for item in items if isinstance(item, torch.Tensor)]
    for name, item in zip(names, items, strict=True):
        if isinstance(item, Generator):
            raise error(
                f"expected component {name} of {leaf.what} to be a tensor or a number, but got a generator: one "
                "generator may stand for the whole vector"
            )
    if not tensors and not dtypes:
        return items
    dtype = leaf.dtype or (dtypes[0] if dtypes else _common_type(items, tensors))
    device = next((tensor.device for tensor in tensors if tensor.dim() > 0), torch.device("cpu"))
    parts = [
        _part(f"component {name} of {leaf.what}", item, dtype, device, error)
        for name, item in zip(names, items, strict=True)
    ]
    try:
        return torch.stack(torch.broadcast_tensors(*parts), -1)
    except RuntimeError:
        shown = ", ".join(f"{name}: {list(part.shape)}" for name, part in zip(names, parts, strict=True))
        raise error(f"the components of {leaf.what} do not broadcast, or are on several devices: {shown}") from None


def component_gradients(
    given: Mapping[str, Any], gradient: torch.Tensor
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The components that require grad, with their gradients."""
    for name, part in zip(component_names(gradient.shape[-1]), gradient.unbind(-1), strict=True):
        component = given[name]
        if isinstance(component, torch.Tensor) and component.requires_grad:
            yield component, part.sum_to_size(component.shape).to(component.device, component.dtype)


def _common_type(items: Sequence[Any], tensors: Sequence[torch.Tensor]) -> torch.dtype:
    dtype = tensors[0].dtype
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return torch.get_default_dtype() if not dtype.is_floating_point and 2 in map(kind_of, items) else dtype


def _part(what: str, item: Any, dtype: torch.dtype, device: torch.device, error: _Error) -> torch.Tensor:
    if isinstance(item, torch.Tensor):
        if not widens(item.dtype, dtype):
            raise error(f"expected {what} to have dtype {dtype}, or one that widens to it, but got {item.dtype}")
        return item.to(device if item.dim() == 0 else item.device, dtype)
    try:
        number = number_of(item, dtype)
    except OverflowError:
        raise error(f"expected {what} to be within the range of its type, but got {item!r}") from None
    if number is None:
        shown = repr(item) if kind_of(item) >= 0 else f"a {type(item).__name__}"
        raise error(f"expected {what} to be a tensor or a number of {dtype}, but got {shown}")
    return torch.tensor(number, dtype=dtype, device=device)
