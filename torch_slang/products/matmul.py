"""``torch_slang.matmul_with_epilogue``: a matrix product with a Slang function of each element in its kernel."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from torch_slang.products.epilogue import EpilogueOperator, EpilogueSource
from torch_slang.products.epilogue_text import MATMUL

__all__ = ["MatmulEpilogue", "matmul_with_epilogue"]

_WHO = "torch_slang.matmul_with_epilogue"


def matmul_with_epilogue(
    source_or_path: str | os.PathLike[str],
    *,
    name: str | None = None,
    namespace: str = "slang",
    defines: Mapping[str, Any] | None = None,
    include_dirs: Iterable[str | os.PathLike[str]] | None = None,
    fast_math: bool = False,
    debug: bool | None = None,
) -> MatmulEpilogue:
    """A matrix product with a Slang function of each element fused into it.

    ::

        op = torch_slang.matmul_with_epilogue('''
            [Differentiable]
            T shade<T : __BuiltinFloatingPointType>(T sum, T bias, no_diff T scale, T residual)
            {
                return max(sum + bias, T(0)) * scale + residual;
            }
        ''')
        y = op(a, b, bias, 0.5, residual)      # shade(matmul(a, b), bias, 0.5, residual)

    The function's first parameter is an element of ``torch.matmul(a, b)``; each further one is an argument of ``op``,
    which broadcasts against that product ``[..., M, N]``: a bias ``[N]``, a scale of rows ``[M, 1]``, a residual
    ``[..., M, N]``, a 0-dimensional tensor. There are gradients for a, b, and each argument whose parameter is
    differentiable.

    Args:
        source_or_path: Slang text, or the path of a ``.slang`` file: what ends in ``.slang`` is one.
        name: of the function, if the text has several that are ``[Differentiable]``.
        namespace: of the epilogue's operators. Another text with a function of the same name replaces them, as a reload
            does; a name that another module has needs a namespace of its own.
        defines, include_dirs, fast_math, debug: as in :func:`torch_slang.load`.

    A generic function computes in double for float64 operands and in float for others, a function of ``float`` in
    float, so float64 is refused. Sums are float (double for float64), and values computed from them are rounded once,
    when it is stored. Tensors whose parameters are ``no_diff`` may have the type that the function computes in.

    The operator is ``torch.ops.slang.matmul_with_epilogue(op.name, a, b, arguments)``.

    Raises:
        CompileError: the text does not compile; Slang's diagnostics are in the message.
        TypeError: the function cannot be an epilogue; the message says why.
    """
    return MatmulEpilogue(
        _WHO,
        MATMUL,
        EpilogueSource(
            _WHO,
            source_or_path,
            name=name,
            namespace=namespace,
            defines=defines,
            include_dirs=include_dirs,
            fast_math=fast_math,
            debug=debug,
        ),
    )


class MatmulEpilogue(EpilogueOperator):
    """What :func:`matmul_with_epilogue` returns: ``op(a, b, *arguments)``, arguments by position or by name.

    Arguments are tensors or numbers; a number has no gradient. `name` is what
    ``torch.ops.slang.matmul_with_epilogue`` takes as its first argument.
    """

    _operands = ("a", "b")

    def __call__(self, a: Tensor, b: Tensor, /, *args: Any, **kwargs: Any) -> Tensor:
        return self._call(torch.ops.slang.matmul_with_epilogue, a, b, self._tensors(a, args, kwargs))

    def __repr__(self) -> str:
        return f"<torch_slang matmul with epilogue {self}>"
