"""Plain functions by SlangPy's names: ``import torch_slang.slangpy as slangpy``.

Modules, functions, structs, maps and generators work with that import changed, on CUDA tensors and on CPU tensors. What
there is not is in docs/slangpy.md; what belongs to graphics is refused by name.
"""

from __future__ import annotations

from typing import Any

from torch_slang._library import CompileError
from torch_slang.generators import call_id, grid, rand_float, thread_id, wang_hash
from torch_slang.slangpy import core, math, types
from torch_slang.slangpy._module import Device, DeviceType, Module, SlangSession, create_torch_device
from torch_slang.slangpy._node import FunctionNode
from torch_slang.slangpy._refused import reason_for
from torch_slang.slangpy._struct import InstanceList, InstanceTensor, Struct
from torch_slang.slangpy._tensor import Tensor
from torch_slang.slangpy._values import (
    MATRICES,
    VECTORS,
    DiffPair,
    ValueRef,
    diff_pair,
    floatRef,
    intRef,
    pack,
    quatf,
)

create_device = create_torch_device
diffPair = diff_pair
SlangCompileError = CompileError
Function = FunctionNode

__all__ = [
    "Device",
    "DeviceType",
    "DiffPair",
    "Function",
    "FunctionNode",
    "InstanceList",
    "InstanceTensor",
    "Module",
    "SlangCompileError",
    "SlangSession",
    "Struct",
    "Tensor",
    "ValueRef",
    "call_id",
    "core",
    "create_device",
    "create_torch_device",
    "diff_pair",
    "floatRef",
    "grid",
    "intRef",
    "math",
    "pack",
    "quatf",
    "rand_float",
    "thread_id",
    "types",
    "wang_hash",
]


def __getattr__(name: str) -> Any:
    """Vectors and matrices (float3, float4x4), and why other names of SlangPy's are not here."""
    found = VECTORS.get(name) or MATRICES.get(name)
    if found is not None:
        return found
    reason = reason_for(name)
    raise AttributeError(reason or f"slangpy: there is no {name} here")
