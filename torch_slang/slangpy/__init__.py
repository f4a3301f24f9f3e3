"""Plain functions by SlangPy's names: ``import torch_slang.slangpy as slangpy``.

Modules, functions, maps and generators work with that import changed, on CUDA tensors and on CPU tensors. What there is
not yet, and what there will not be, is in docs/slangpy.md.
"""

from torch_slang._function import Function
from torch_slang.generators import call_id, grid, rand_float, thread_id, wang_hash
from torch_slang.slangpy._module import Device, Module, create_torch_device

__all__ = [
    "Device",
    "Function",
    "Module",
    "call_id",
    "create_torch_device",
    "grid",
    "rand_float",
    "thread_id",
    "wang_hash",
]
