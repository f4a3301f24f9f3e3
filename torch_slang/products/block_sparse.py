"""``torch_slang.block_sparse_mm`` and ``block_sparse_sdd``: products of matrices of which one has only some blocks."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_slang.products.block_pattern import BlockPattern

__all__ = ["block_sparse_mm", "block_sparse_sdd", "expect_pattern"]


def block_sparse_mm(
    x: Tensor, values: Tensor, pattern: BlockPattern, transpose: bool = False, *, left: bool = False
) -> Tensor:
    """The product of `x` and a block-sparse matrix S ``[out, in]``, dense: ``x @ S``.

    Time and memory are those of the blocks that are there. The result is summed in float32 (float64 for float64) and
    rounded once; no blocks, or no rows, give zeros.

    Args:
        x: ``[..., out]``; with `transpose` ``[..., in]``. Any strides: ``x.mT`` is not copied. float16, bfloat16,
            float32 (as TF32 where ``torch.backends.cuda.matmul.allow_tf32`` says so) or float64, on the CPU or a GPU.
        values: ``[n, r, c]``, the blocks of S in the pattern's order; or ``[B, n, r, c]`` beside x ``[B, ..., out]``.
            What the blocks have outside the shape must be finite, and has no effect.
        pattern: which blocks there are, on the device of x.
        transpose: ``x @ S.mT``, as ``torch.nn.functional.linear`` multiplies with a weight.
        left: ``S @ x`` (``S.mT @ x``) of x ``[..., in, N]`` (``[..., out, N]``).

    There are derivatives of any order by x and values, forward mode, vmap and autocast. The operator is
    ``torch.ops.slang.block_sparse_mm(x, values, pattern.tensors(), pattern.shape, transpose)``.

    Raises:
        RuntimeError: shapes, dtypes or devices do not fit.
        TypeError: `pattern` is no :class:`BlockPattern`.
    """
    expect_pattern("torch_slang.block_sparse_mm", pattern, values)
    if left:
        if x.dim() < 2:
            raise RuntimeError(
                f"torch_slang.block_sparse_mm: expected x to have at least 2 dimensions with left=True, but got shape "
                f"{list(x.shape)}"
            )
        return block_sparse_mm(x.mT, values, pattern, not transpose).mT
    result: Tensor = torch.ops.slang.block_sparse_mm(x, values, pattern.tensors(), pattern.shape, transpose)
    return result


def block_sparse_sdd(a: Tensor, b: Tensor, pattern: BlockPattern) -> Tensor:
    """The blocks of ``a @ b`` that the pattern has: ``[n, r, c]``. What they have outside its shape is zero.

    Args:
        a, b: ``[out, K]`` and ``[K, in]``, or batches ``[B, out, K]`` and ``[B, K, in]``, which give ``[B, n, r, c]``.
            Any strides; dtypes as :func:`block_sparse_mm` takes them.
        pattern: which blocks there are, on the device of a and b.

    There are derivatives of any order, forward mode, vmap and autocast. The operator is
    ``torch.ops.slang.block_sparse_sdd(a, b, pattern.tensors(), pattern.shape, pattern.block_shape)``.

    Raises:
        RuntimeError: shapes, dtypes or devices do not fit.
        TypeError: `pattern` is no :class:`BlockPattern`.
    """
    expect_pattern("torch_slang.block_sparse_sdd", pattern)
    result: Tensor = torch.ops.slang.block_sparse_sdd(a, b, pattern.tensors(), pattern.shape, pattern.block_shape)
    return result


def expect_pattern(who: str, pattern: object, values: object = None) -> None:
    """Raises where `values` are not of the pattern's blocks: operators know tensors alone, and believe these."""
    if not isinstance(pattern, BlockPattern):
        raise TypeError(f"{who}: expected pattern to be a BlockPattern, but got {type(pattern).__name__}")
    if isinstance(values, Tensor) and values.dim() >= 2 and tuple(values.shape[-2:]) != pattern.block_shape:
        raise RuntimeError(
            f"{who}: expected values to have the pattern's blocks {list(pattern.block_shape)}, but got shape "
            f"{list(values.shape)}"
        )
