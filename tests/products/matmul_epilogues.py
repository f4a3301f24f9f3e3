"""Products with an epilogue beside torch's own operators in float64."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import products
import torch
import torch.nn.functional as F

Tensor = torch.Tensor
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}
ROUNDING = {torch.float64: 1e-13, torch.float32: 1e-5, torch.float16: 2**-9, torch.bfloat16: 2**-6}


def randn(*shape: int, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu") -> Tensor:
    generator = torch.Generator().manual_seed(sum(n * 10**i for i, n in enumerate(shape)) + len(shape))
    return torch.randn(shape, dtype=torch.float64, generator=generator).to(device, dtype)


assert_near = functools.partial(products.assert_near, rounding=ROUNDING)


def assert_agrees(
    function: Callable[..., Tensor],
    reference: Callable[..., Tensor],
    values: list[Any],
    grad: Callable[[Tensor], Tensor] | None = None,
) -> None:
    """Result and gradients of what requires grad; `reference` runs in float64."""
    dtype = values[0].dtype
    references = [products.wide(value) for value in values]
    result, expected = function(*values), reference(*references)
    assert_near(result, expected, dtype, 2)
    assert result.is_contiguous()
    products.assert_gradients_agree(
        values,
        result,
        references,
        expected,
        grad or (lambda result: randn(*result.shape, dtype=dtype, device=result.device)),
        lambda one, other: assert_near(one, other, dtype, 8),
    )


def assert_agrees_twice(function: Callable[..., Tensor], reference: Callable[..., Tensor], values: list[Any]) -> None:
    """Gradients of a function of the gradients, by what requires grad; `reference` runs in float64."""
    dtype = values[0].dtype
    leaves = products.wanted(values)

    def seconds(function: Callable[..., Tensor], values: list[Any]) -> tuple[Tensor, ...]:
        return products.second_gradients(function(*values).square().sum(), [values[i] for i in leaves])

    for one, other in zip(
        seconds(function, values), seconds(reference, [products.wide(v) for v in values]), strict=True
    ):
        assert_near(one, other, dtype, 32)
