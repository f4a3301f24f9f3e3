"""The values of a struct's fields, in whichever form a user gives them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

__all__ = ["field_values"]


def field_values(what: str, names: Sequence[str], value: Any, error: Callable[[str], TypeError]) -> list[Any]:
    """Those of a struct given as a mapping, a tuple or a list, a named tuple, a dataclass or an nn.Module.

    `what`, for errors: "cfg (Config)".
    """
    if type(value) is tuple and len(value) == len(names):
        return list(value)  # soon, as what follows takes longer
    if hasattr(value, "_asdict"):
        value = value._asdict()
    elif isinstance(value, torch.nn.Module):
        value = _module_fields(names, value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        unknown = [str(key) for key in value if key not in names]
        if unknown:
            raise error(f"{what} has no field {', '.join(unknown)}")
        missing = [name for name in names if name not in value]
        if missing:
            raise error(f"{what} lacks field {', '.join(missing)}")
        return [value[name] for name in names]
    if isinstance(value, tuple | list):
        if len(value) != len(names):
            raise error(f"{what} has fields {list(names)}, but got {len(value)} values")
        return list(value)
    raise error(f"expected {what} to be a mapping or a tuple, but got {type(value).__name__}")


def _module_fields(names: Sequence[str], module: torch.nn.Module) -> dict[str, Any]:
    """What a module has by these names: parameters, buffers, modules or plain attributes.

    All its parameters and buffers must be fields.
    """
    own = [name for name, _ in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False))]
    return {name: getattr(module, name) for name in (*names, *own) if hasattr(module, name)}
