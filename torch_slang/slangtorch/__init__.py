"""A drop-in for the package slangtorch: ``import torch_slang.slangtorch as slangtorch``.

An existing program works with that import changed, on CUDA tensors and on CPU tensors: ``loadModule`` compiles without
nvcc and ninja, and what it returns is called as slangtorch's modules are. docs/slangtorch.md says what differs.
"""

from torch_slang.slangtorch._launchables import Function, Launchable
from torch_slang.slangtorch._load import (
    clearPersistentShaderCache,
    clearSessionShaderCache,
    clearShaderCaches,
    loadModule,
)
from torch_slang.slangtorch._types import ArgumentError, DiffTensorView

__all__ = [
    "ArgumentError",
    "DiffTensorView",
    "Function",
    "Launchable",
    "clearPersistentShaderCache",
    "clearSessionShaderCache",
    "clearShaderCaches",
    "loadModule",
]
