"""What torch.compile runs while it traces, instead of tracing it. Imported in traces alone: it needs Dynamo."""

from __future__ import annotations

import torch

from torch_slang.functions.instance import read
from torch_slang.functions.registry import function_of

__all__ = ["register", "register_generating", "register_instance"]


@torch.compiler.assume_constant_result
def register(number: str) -> bool:
    """Makes the operators of a plain function exist, so that the trace finds them."""
    return function_of(number).register() is not None


@torch.compiler.assume_constant_result
def register_generating(number: str, places: str) -> bool:
    """As :func:`register`, the operators that make arguments themselves: those at `places`, "0,2"."""
    return function_of(number).register_generating(tuple(map(int, places.split(",")))) is not None


@torch.compiler.assume_constant_result
def register_instance(number: str, types: str, sizes: str) -> bool:
    """As :func:`register`, the instance of a generic function with these arguments."""
    return function_of(number).instance(read(types, sizes)).register() is not None
