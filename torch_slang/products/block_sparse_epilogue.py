"""``torch_slang.block_sparse_mm_with_epilogue``: a block-sparse product with a Slang function of each element."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from torch_slang.products.block_pattern import BlockPattern
from torch_slang.products.block_sparse import expect_pattern
from torch_slang.products.epilogue import EpilogueOperator, EpilogueSource
from torch_slang.products.epilogue_text import BLOCK_SPARSE
from torch_slang.products.matmul import MatmulEpilogue

__all__ = ["BlockSparseEpilogue", "block_sparse_mm_with_epilogue"]

_WHO = "torch_slang.block_sparse_mm_with_epilogue"


def block_sparse_mm_with_epilogue(
    source_or_path: str | os.PathLike[str] | MatmulEpilogue,
    *,
    name: str | None = None,
    namespace: str = "slang",
    defines: Mapping[str, Any] | None = None,
    include_dirs: Iterable[str | os.PathLike[str]] | None = None,
    fast_math: bool = False,
    debug: bool | None = None,
) -> BlockSparseEpilogue:
    """A block-sparse product with a Slang function of each element fused into it.

    ::

        op = torch_slang.block_sparse_mm_with_epilogue('''
            [Differentiable]
            T shade<T : __BuiltinFloatingPointType>(T sum, T bias, no_diff T scale)
            {
                return max(sum + bias, T(0)) * scale;
            }
        ''')
        y = op(x, values, pattern, bias, 0.5, transpose=True)     # shade(x @ S.mT, bias, 0.5)

    The function and its arguments are those of :func:`torch_slang.matmul_with_epilogue`, whose result may stand in
    place of the text: then the other arguments are its. The function's first parameter is an element of
    ``torch_slang.block_sparse_mm(x, values, pattern, transpose)``; arguments broadcast against that. It is applied to
    every element: where there are no blocks, to zero. There are gradients for x, values, and each argument whose
    parameter is differentiable.

    The operator is ``torch.ops.slang.block_sparse_mm_with_epilogue(op.name, x, values, pattern.tensors(),
    pattern.shape, transpose, arguments)``.

    Raises:
        CompileError: the text does not compile; Slang's diagnostics are in the message.
        TypeError: the function cannot be an epilogue; the message says why.
    """
    if isinstance(source_or_path, MatmulEpilogue):
        return BlockSparseEpilogue(_WHO, BLOCK_SPARSE, source_or_path._source)
    source = EpilogueSource(
        _WHO,
        source_or_path,
        name=name,
        namespace=namespace,
        defines=defines,
        include_dirs=include_dirs,
        fast_math=fast_math,
        debug=debug,
    )
    return BlockSparseEpilogue(_WHO, BLOCK_SPARSE, source)


class BlockSparseEpilogue(EpilogueOperator):
    """What :func:`block_sparse_mm_with_epilogue` returns: ``op(x, values, pattern, *arguments, transpose=False)``.

    x, values, pattern and transpose are those of :func:`torch_slang.block_sparse_mm`. Arguments are tensors or numbers,
    by position or by name; a number has no gradient. `name` is what ``torch.ops.slang.block_sparse_mm_with_epilogue``
    takes as its first argument.
    """

    _operands = ("x", "values", "pattern")
    _flags = ("transpose",)

    def __call__(
        self, x: Tensor, values: Tensor, pattern: BlockPattern, /, *args: Any, transpose: bool = False, **kwargs: Any
    ) -> Tensor:
        expect_pattern(_WHO, pattern, values)
        arguments = self._tensors(x, args, kwargs)
        operator = torch.ops.slang.block_sparse_mm_with_epilogue
        return self._call(operator, x, values, pattern.tensors(), pattern.shape, transpose, arguments)

    @property
    def __signature__(self) -> inspect.Signature:
        before = super().__signature__
        transpose = inspect.Parameter("transpose", inspect.Parameter.KEYWORD_ONLY, default=False)
        return before.replace(parameters=[*before.parameters.values(), transpose])

    def __repr__(self) -> str:
        return f"<torch_slang block-sparse product with epilogue {self}>"
