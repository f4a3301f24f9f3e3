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


def wide(value: Any) -> Any:
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return value
    return value.detach().double().requires_grad_(value.requires_grad)


assert_near = functools.partial(products.assert_near, rounding=ROUNDING)


def assert_agrees(
    function: Callable[..., Tensor],
    reference: Callable[..., Tensor],
    values: list[Any],
    grad: Callable[[Tensor], Tensor] | None = None,
) -> None:
    """Result and gradients of what requires grad; `reference` runs in float64."""
    dtype = values[0].dtype
    references = [wide(value) for value in values]
    result, expected = function(*values), reference(*references)
    assert_near(result, expected, dtype, 2)
    assert result.is_contiguous()
    leaves = [i for i, value in enumerate(values) if isinstance(value, Tensor) and value.requires_grad]
    if not leaves:
        return
    of_result = randn(*result.shape, dtype=dtype, device=result.device) if grad is None else grad(result)
    ours = torch.autograd.grad(result, [values[i] for i in leaves], of_result)
    theirs = torch.autograd.grad(expected, [references[i] for i in leaves], of_result.double())
    for one, other in zip(ours, theirs, strict=True):
        assert_near(one, other, dtype, 8)


def assert_agrees_twice(function: Callable[..., Tensor], reference: Callable[..., Tensor], values: list[Any]) -> None:
    """Gradients of a function of the gradients, by what requires grad; `reference` runs in float64."""
    dtype = values[0].dtype
    leaves = [i for i, value in enumerate(values) if isinstance(value, Tensor) and value.requires_grad]

    def seconds(function: Callable[..., Tensor], values: list[Any]) -> tuple[Tensor, ...]:
        return products.second_gradients(function(*values).square().sum(), [values[i] for i in leaves])

    for one, other in zip(seconds(function, values), seconds(reference, [wide(v) for v in values]), strict=True):
        assert_near(one, other, dtype, 32)
