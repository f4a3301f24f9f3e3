"""The rivals in Triton: forward and backward of each operator, as functions from tensors to new tensors.

A program's block gives each thread of four warps 32 bytes of each tensor. Where a Triton author would write the
gradient as a gather (the stencil) or sum a block before its atomics (the bias), so do these.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

THREADS = 128
ROWS = 16  # of a block of the biased kernels


@triton.jit
def _sqr(x, y, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    value = tl.load(x + at, mask=inside)
    tl.store(y + at, value * value, mask=inside)


@triton.jit
def _sqr_backward(grad, x, grad_x, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    result = 2 * tl.load(x + at, mask=inside) * tl.load(grad + at, mask=inside)
    tl.store(grad_x + at, result, mask=inside)


@triton.jit
def _stencil(x, y, count, a, b, c, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    left = tl.load(x + at - 1, mask=inside & (at > 0), other=0.0)
    right = tl.load(x + at + 1, mask=at + 1 < count, other=0.0)
    tl.store(y + at, a * left + b * tl.load(x + at, mask=inside) + c * right, mask=inside)


@triton.jit
def _gather(w, index, x, y, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    found = tl.load(w + tl.load(index + at, mask=inside, other=0), mask=inside)
    tl.store(y + at, found * tl.load(x + at, mask=inside), mask=inside)


@triton.jit
def _gather_backward(grad, w, index, x, grad_w, grad_x, count, TABLE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    places = tl.load(index + at, mask=inside, other=0)
    grads = tl.load(grad + at, mask=inside)
    tl.store(grad_x + at, tl.load(w + places, mask=inside) * grads, mask=inside)
    if TABLE:
        tl.atomic_add(grad_w + places, tl.load(x + at, mask=inside) * grads, mask=inside, sem="relaxed")


@triton.jit
def _biased(x, bias, y, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = (row < rows) & (column < columns)
    at = row * columns + column
    value = tl.load(x + at, mask=inside) + tl.load(bias + column, mask=column < columns)
    tl.store(y + at, value * value, mask=inside)


@triton.jit
def _biased_backward(
    grad, x, bias, grad_x, grad_bias, rows, columns, BIAS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    columns_of_block = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    column = columns_of_block[None, :]
    inside = (row < rows) & (column < columns)
    at = row * columns + column
    value = tl.load(x + at, mask=inside, other=0.0) + tl.load(bias + column, mask=column < columns, other=0.0)
    result = 2 * value * tl.load(grad + at, mask=inside, other=0.0)
    tl.store(grad_x + at, result, mask=inside)
    if BIAS:
        tl.atomic_add(
            grad_bias + columns_of_block, tl.sum(result, axis=0), mask=columns_of_block < columns, sem="relaxed"
        )


@triton.jit
def _along(x, slope, start, y, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    shift = tl.load(start + at, mask=inside)
    result = tl.load(slope + at, mask=inside) * tl.load(x + at, mask=inside) + shift * shift
    tl.store(y + at, result, mask=inside)


@triton.jit
def _along_backward(grad, x, slope, start, grad_x, grad_slope, grad_start, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    grads = tl.load(grad + at, mask=inside)
    tl.store(grad_x + at, grads * tl.load(slope + at, mask=inside), mask=inside)
    tl.store(grad_slope + at, grads * tl.load(x + at, mask=inside), mask=inside)
    tl.store(grad_start + at, 2 * grads * tl.load(start + at, mask=inside), mask=inside)


def _block(x: Tensor) -> int:
    return 32 // x.element_size() * THREADS


def _blocks(x: Tensor) -> tuple[int]:
    return (triton.cdiv(x.numel(), _block(x)),)


def sqr(x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    _sqr[_blocks(x)](x, y, x.numel(), BLOCK=_block(x))
    return y


def sqr_backward(grad: Tensor, x: Tensor) -> Tensor:
    grad_x = torch.empty_like(x)
    _sqr_backward[_blocks(x)](grad, x, grad_x, x.numel(), BLOCK=_block(x))
    return grad_x


class Sqr(torch.autograd.Function):
    """For the host's cost: how a Triton kernel gets its gradient."""

    @staticmethod
    def forward(context, x: Tensor) -> Tensor:
        context.save_for_backward(x)
        return sqr(x)

    @staticmethod
    def backward(context, grad: Tensor) -> Tensor:
        return sqr_backward(grad.contiguous(), *context.saved_tensors)


def stencil(x: Tensor, a: float, b: float, c: float) -> Tensor:
    y = torch.empty_like(x)
    _stencil[_blocks(x)](x, y, x.numel(), a, b, c, BLOCK=_block(x))
    return y


def stencil_backward(grad: Tensor, _x: Tensor, a: float, b: float, c: float) -> Tensor:
    return stencil(grad, c, b, a)


def gather(w: Tensor, index: Tensor, x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    _gather[_blocks(x)](w, index, x, y, x.numel(), BLOCK=_block(x))
    return y


def gather_backward(grad: Tensor, w: Tensor, index: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    grad_w, grad_x = torch.zeros_like(w), torch.empty_like(x)
    _gather_backward[_blocks(x)](grad, w, index, x, grad_w, grad_x, x.numel(), TABLE=True, BLOCK=_block(x))
    return grad_w, grad_x


def gather_backward_x(grad: Tensor, w: Tensor, index: Tensor, x: Tensor) -> Tensor:
    grad_x = torch.empty_like(x)
    _gather_backward[_blocks(x)](grad, w, index, x, w, grad_x, x.numel(), TABLE=False, BLOCK=_block(x))
    return grad_x


def _by_rows(x: Tensor, rows: int) -> tuple[tuple[int, int], int]:
    """The grid, and the columns of a block: with one row of a block a thread has 32 bytes."""
    columns = max(64, _block(x) // rows)
    return (triton.cdiv(x.shape[1], columns), triton.cdiv(x.shape[0], rows)), columns


def biased(x: Tensor, bias: Tensor) -> Tensor:
    y = torch.empty_like(x)
    grid, columns = _by_rows(x, 4)
    _biased[grid](x, bias, y, *x.shape, ROWS=4, COLUMNS=columns)
    return y


def biased_backward(grad: Tensor, x: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    grad_x, grad_bias = torch.empty_like(x), torch.zeros_like(bias)
    grid, columns = _by_rows(x, ROWS)
    _biased_backward[grid](grad, x, bias, grad_x, grad_bias, *x.shape, BIAS=True, ROWS=ROWS, COLUMNS=columns)
    return grad_x, grad_bias


def biased_backward_x(grad: Tensor, x: Tensor, bias: Tensor) -> Tensor:
    grad_x = torch.empty_like(x)
    grid, columns = _by_rows(x, 4)
    _biased_backward[grid](grad, x, bias, grad_x, bias, *x.shape, BIAS=False, ROWS=4, COLUMNS=columns)
    return grad_x


def along(x: Tensor, slope: Tensor, start: Tensor) -> Tensor:
    y = torch.empty_like(x)
    _along[_blocks(x)](x, slope, start, y, x.numel(), BLOCK=_block(x))
    return y


def along_backward(grad: Tensor, x: Tensor, slope: Tensor, start: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    grads = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    _along_backward[_blocks(x)](grad, x, slope, start, *grads, x.numel(), BLOCK=_block(x))
    return grads


@triton.jit
def blend(a, b, c, tiles, ranges, count, y, width, least, SIZE: tl.constexpr):
    """Of launch_cost.py: as many arguments as a renderer's kernel has."""
    at = tl.arange(0, SIZE)
    whole = tl.load(tiles + at) + tl.load(ranges + at) + tl.load(count + at)
    tl.store(y + at, tl.load(a + at) * tl.load(b + at) + tl.load(c + at) * width + least * whole)
