"""Slang kernels as PyTorch operators.

Importing this package registers the operators that come with it (``torch.ops.slang.sqr``); :func:`load` adds those of a
``.slang`` file of yours. Each has CPU, CUDA, Meta and Autograd kernels; its gradient is Slang's own derivative.
"""

from torch_slang import audit, cache, nn, tuning
from torch_slang._library import CompileError, LaunchError
from torch_slang._load import load
from torch_slang._module import Module
from torch_slang.functions.function import Function
from torch_slang.kernels.kernel import Kernel
from torch_slang.products.block_pattern import BlockPattern
from torch_slang.products.block_sparse import block_sparse_mm, block_sparse_sdd
from torch_slang.products.block_sparse_epilogue import BlockSparseEpilogue, block_sparse_mm_with_epilogue
from torch_slang.products.matmul import MatmulEpilogue, matmul_with_epilogue

__all__ = [
    "BlockPattern",
    "BlockSparseEpilogue",
    "CompileError",
    "Function",
    "Kernel",
    "LaunchError",
    "MatmulEpilogue",
    "Module",
    "audit",
    "block_sparse_mm",
    "block_sparse_mm_with_epilogue",
    "block_sparse_sdd",
    "cache",
    "load",
    "matmul_with_epilogue",
    "nn",
    "tuning",
]
__version__ = "0.1.0"
