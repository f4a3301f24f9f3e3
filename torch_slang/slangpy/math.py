"""SlangPy's vectors and matrices: float3, int2, float4x4, ..."""

from __future__ import annotations

from typing import Any

from torch_slang.slangpy._refused import math_reason_for
from torch_slang.slangpy._values import MATRICES, VECTORS, quatf

__all__ = ["quatf"]


def __getattr__(name: str) -> Any:
    found = VECTORS.get(name) or MATRICES.get(name)
    if found is None:
        raise AttributeError(math_reason_for(name))
    return found
