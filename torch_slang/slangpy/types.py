"""SlangPy's types of arguments."""

from torch_slang.generators import call_id, grid, rand_float, thread_id, wang_hash
from torch_slang.slangpy._tensor import Tensor
from torch_slang.slangpy._values import DiffPair, ValueRef, diff_pair, floatRef, intRef

diffPair = diff_pair

__all__ = [
    "DiffPair",
    "Tensor",
    "ValueRef",
    "call_id",
    "diffPair",
    "diff_pair",
    "floatRef",
    "grid",
    "intRef",
    "rand_float",
    "thread_id",
    "wang_hash",
]
