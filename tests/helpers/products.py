"""Products of torch to compare with, and what runs on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import torch_slang  # noqa: F401

Tensor = torch.Tensor
# Of the largest element. Halves add up in float and round once; gradients of what is broadcast round once more in sums.
ROUNDING = {torch.float64: 1e-13, torch.float32: 1e-5, torch.float16: 2**-10, torch.bfloat16: 2**-7}

# Operands of all the ranks that torch.matmul takes.
SHAPES = [
    ((4,), (4,)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
    ((3, 4), (4, 5)),
    ((4,), (2, 4, 5)),
    ((2, 3, 4), (4,)),
    ((2, 3, 4), (4, 5)),
    ((3, 4), (2, 4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((1, 3, 4), (2, 4, 5)),
    ((6, 2, 3, 4), (4, 5)),
    ((3, 4), (6, 2, 4, 5)),
    ((6, 2, 3, 4), (1, 4, 5)),
    ((6, 1, 3, 4), (2, 4, 5)),
    ((1, 1, 3, 4), (1, 4, 5)),
]


def randn(*shape: int, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu") -> Tensor:
    generator = torch.Generator().manual_seed(sum(n * 10**i for i, n in enumerate(shape)))
    return torch.randn(shape, dtype=torch.float64, generator=generator).to(device, dtype)


def second_gradients(loss: Tensor, inputs: list[Tensor]) -> tuple[Tensor, ...]:
    """The gradients of the sum of squares of the loss's gradients."""
    firsts = torch.autograd.grad(loss, inputs, create_graph=True)
    return torch.autograd.grad(sum(first.square().sum() for first in firsts), inputs)


def dot_in_torch(
    a: Tensor,
    b: Tensor,
    transpose_a: bool = False,
    transpose_b: bool = False,
    alpha: float = 1,
    beta: float = 0,
    c: Tensor | None = None,
) -> Tensor:
    product = alpha * torch.matmul(a.mT if transpose_a else a, b.mT if transpose_b else b)
    return product + beta * c if beta else product


def wide(value: Any) -> Any:
    """A floating tensor in float64, and anything else as it is."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return value
    return value.detach().double().requires_grad_(value.requires_grad)


def wanted(values: list[Any]) -> list[int]:
    """The places of the tensors that require grad."""
    return [i for i, value in enumerate(values) if isinstance(value, Tensor) and value.requires_grad]


def assert_near(
    actual: Tensor,
    expected: Tensor,
    dtype: torch.dtype,
    roundings: float = 1,
    rounding: Mapping[torch.dtype, float] = ROUNDING,
) -> None:
    assert actual.dtype == dtype
    assert actual.shape == expected.shape
    if actual.numel():
        error = (actual.detach().double() - expected.detach()).abs().max().item()
        assert error <= roundings * rounding[dtype] * max(1.0, expected.detach().abs().max().item())


def assert_agrees(
    function: Callable[..., Tensor], reference: Callable[..., Tensor], tensors: list[Tensor], grad_of: Callable = randn
) -> None:
    """Result and gradients; `reference` runs in float64."""
    dtype, device, leaves = tensors[0].dtype, tensors[0].device, wanted(tensors)
    references = [wide(t) for t in tensors]
    result, expected = function(*tensors), reference(*references)
    assert_near(result, expected, dtype, 3)
    assert result.is_contiguous()
    assert result.requires_grad == expected.requires_grad
    if not result.requires_grad:
        return
    grad = grad_of(*result.shape, dtype=dtype, device=device)
    ours = torch.autograd.grad(result, [tensors[i] for i in leaves], grad, allow_unused=True)
    theirs = torch.autograd.grad(expected, [references[i] for i in leaves], grad.double(), allow_unused=True)
    for one, other in zip(ours, theirs, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert_near(one, other, dtype, 8)


def assert_gradients_agree(
    values: list[Any],
    result: Tensor,
    references: list[Any],
    expected: Tensor,
    grad: Callable[[Tensor], Tensor],
    near: Callable[[Tensor, Tensor], None],
) -> None:
    """Those of `result` by what requires grad among `values`, and of `expected` by the same among `references`."""
    leaves = wanted(values)
    if not leaves:
        return
    of_result = grad(result.detach())
    ours = torch.autograd.grad(result, [values[i] for i in leaves], of_result)
    theirs = torch.autograd.grad(expected, [references[i] for i in leaves], of_result.double())
    for one, other in zip(ours, theirs, strict=True):
        near(one, other)


class Recorded(TorchDispatchMode):
    """The operators that run, with the shapes of their tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, list[list[int]]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append((str(func), [list(a.shape) for a in args if isinstance(a, Tensor)]))
        return func(*args, **(kwargs or {}))

    def products(self) -> list[list[list[int]]]:
        return [shapes for name, shapes in self.calls if name == "slang.mm.default"]

    def copies(self) -> list[str]:
        return [name for name, _ in self.calls if "clone" in name or "copy" in name]
