"""Epilogues of block-sparse products, and the same by torch's own operators on the dense matrix, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import products
import torch

from torch_slang import BlockPattern

Tensor = torch.Tensor
ROUNDING = {torch.float64: 1e-13, torch.float32: 1e-5, torch.float16: 2**-9, torch.bfloat16: 2**-6}

# Every kind of argument: with a gradient, a constant, an integer, a default. Of a sum of zero it is not zero.
SHADE = """
[Differentiable]
T tint<T : __BuiltinFloatingPointType>(T sum, T bias, no_diff T scale, T residual, int times = 2)
{
    return tanh(sum + bias) * scale * T(times) + residual * (sum + T(1));
}
"""
SQUARE = "[Differentiable] float squared(float sum, float bias) { return sum * sum + bias; }"


def drawn(shape: tuple[int, int], block: tuple[int, int], device: torch.device, density: float = 0.4) -> BlockPattern:
    return BlockPattern.random(shape, block, density, torch.Generator().manual_seed(3), device=device)


def randn(*shape: int, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu") -> Tensor:
    return torch.randn(shape, dtype=torch.float64).to(device, dtype)


def shade_in_torch(total: Tensor, bias: Tensor, scale: Any, residual: Tensor, times: Any = 2) -> Tensor:
    return torch.tanh(total + bias) * scale * times + residual * (total + 1)


def square_in_torch(total: Tensor, bias: Tensor) -> Tensor:
    return total * total + bias


def product_in_torch(x: Tensor, values: Tensor, pattern: BlockPattern, transpose: bool) -> Tensor:
    dense = pattern.to_dense(values)
    if values.dim() == 4:  # a matrix for each of the first dimension
        dense = dense.view(-1, *[1] * (x.dim() - 3), *dense.shape[-2:])
    return x @ (dense.mT if transpose else dense)


def assert_agrees(
    op: Callable[..., Tensor],
    in_torch: Callable[..., Tensor],
    pattern: BlockPattern,
    values: list[Any],
    transpose: bool = False,
    grad: Callable[[Tensor], Tensor] = torch.randn_like,
) -> None:
    """Result and gradients of what requires grad. `values`: x, the blocks and the arguments."""
    x, blocks, *arguments = values
    references = [products.wide(value) for value in values]
    result = op(x, blocks, pattern, *arguments, transpose=transpose)
    expected = in_torch(product_in_torch(references[0], references[1], pattern, transpose), *references[2:])
    products.assert_near(result, expected, x.dtype, 4, ROUNDING)
    assert result.is_contiguous()
    products.assert_gradients_agree(
        values,
        result,
        references,
        expected,
        grad,
        lambda one, other: products.assert_near(one, other, x.dtype, 12, ROUNDING),
    )


def assert_agrees_twice(
    op: Callable[..., Tensor],
    in_torch: Callable[..., Tensor],
    pattern: BlockPattern,
    values: list[Any],
    transpose: bool = False,
) -> None:
    """Gradients of a function of the gradients, by what requires grad; torch's run in float64."""
    dtype = values[0].dtype
    leaves = products.wanted(values)

    def seconds(result: Tensor, values: list[Any]) -> tuple[Tensor, ...]:
        return products.second_gradients(result.square().mean(), [values[i] for i in leaves])

    x, blocks, *arguments = values
    wider = [products.wide(value) for value in values]
    expected = in_torch(product_in_torch(wider[0], wider[1], pattern, transpose), *wider[2:])
    ours = seconds(op(x, blocks, pattern, *arguments, transpose=transpose), values)
    for one, other in zip(ours, seconds(expected, wider), strict=True):
        products.assert_near(one, other, dtype, 32, ROUNDING)


def operands(
    pattern: BlockPattern,
    dtype: torch.dtype = torch.float64,
    transpose: bool = False,
    leading: tuple[int, ...] = (5,),
) -> list[Any]:
    """Of shade, with a gradient wherever there may be one. What is added up is small enough for float16."""
    out, into = pattern.shape if not transpose else pattern.shape[::-1]
    device = pattern.device
    return [
        randn(*leading, out, dtype=dtype, device=device).requires_grad_(),
        (randn(pattern.count, *pattern.block_shape, dtype=dtype, device=device) / 8).requires_grad_(),
        randn(into, dtype=dtype, device=device).requires_grad_(),
        0.1,
        randn(*leading, into, dtype=dtype, device=device).requires_grad_(),
    ]
