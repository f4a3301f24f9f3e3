"""What torch.compile runs while it traces, instead of tracing it. Imported in traces alone: it needs Dynamo."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch_slang._function import Function

__all__ = ["register"]


@torch.compiler.assume_constant_result
def register(function: Function) -> bool:
    """Makes the operators of a plain function exist, so that the trace finds them."""
    return function.register() is not None
