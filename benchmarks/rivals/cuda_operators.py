"""The operators that the rivals in CUDA make: forward and backward, as functions from tensors to new tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.rivals.cuda import Variant, by_rows, flat


def sqr(variant: Variant, x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    flat("sqr.cu", "forward", x, variant, x, y)
    return y


def sqr_backward(variant: Variant, grad: Tensor, x: Tensor) -> Tensor:
    grad_x = torch.empty_like(x)
    flat("sqr.cu", "backward", x, variant, grad, x, grad_x)
    return grad_x


def stencil(variant: Variant, x: Tensor, a: float, b: float, c: float) -> Tensor:
    y = torch.empty_like(x)
    flat("stencil.cu", "forward", x, variant, x, a, b, c, y)
    return y


def stencil_backward(variant: Variant, grad: Tensor, x: Tensor, a: float, b: float, c: float) -> Tensor:
    grad_x = torch.zeros_like(x)
    flat("stencil.cu", "backward_scattered", x, variant, grad, a, b, c, grad_x)
    return grad_x


def stencil_backward_gathered(variant: Variant, grad: Tensor, _x: Tensor, a: float, b: float, c: float) -> Tensor:
    return stencil(variant, grad, c, b, a)


def gather(variant: Variant, w: Tensor, index: Tensor, x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    flat("gather.cu", "forward", x, variant, w, index, x, y)
    return y


def gather_backward(variant: Variant, grad: Tensor, w: Tensor, index: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    grad_w, grad_x = torch.zeros_like(w), torch.empty_like(x)
    flat("gather.cu", "backward", x, variant, grad, w, index, x, grad_w, grad_x)
    return grad_w, grad_x


def gather_backward_x(variant: Variant, grad: Tensor, w: Tensor, index: Tensor, x: Tensor) -> Tensor:
    grad_x = torch.empty_like(x)
    flat("gather.cu", "backward_x", x, variant, grad, w, index, grad_x)
    return grad_x


def biased(variant: Variant, x: Tensor, bias: Tensor) -> Tensor:
    y = torch.empty_like(x)
    by_rows("biased.cu", "forward", x, variant, x, bias, y)
    return y


def biased_backward(variant: Variant, grad: Tensor, x: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    grad_x, grad_bias = torch.empty_like(x), torch.zeros_like(bias)
    by_rows("biased.cu", "backward", x, variant, grad, x, bias, grad_x, grad_bias)
    return grad_x, grad_bias


def biased_backward_x(variant: Variant, grad: Tensor, x: Tensor, bias: Tensor) -> Tensor:
    grad_x = torch.empty_like(x)
    by_rows("biased.cu", "backward_x", x, variant, grad, x, bias, grad_x)
    return grad_x


def along(variant: Variant, x: Tensor, slope: Tensor, start: Tensor) -> Tensor:
    y = torch.empty_like(x)
    flat("along.cu", "forward", x, variant, x, slope, start, y)
    return y


def along_backward(
    variant: Variant, grad: Tensor, x: Tensor, slope: Tensor, start: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    grads = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    flat("along.cu", "backward", x, variant, grad, x, slope, start, *grads)
    return grads
