"""Calls of derivatives, and what audits found of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import torch_slang
from torch_slang.audit import Finding

Tensor = torch.Tensor
KERNEL = "[PyBindCUDA(Auto)] [Differentiable] [CudaKernel] void"
RESULT = '[Out("N")] DiffTensorView<float> y'


def gradients(operator: Callable[..., Tensor], *args: Any, order: int = 1) -> None:
    """Calls the backward, and the double backward."""
    given = [x for x in args if isinstance(x, Tensor) and x.requires_grad]
    results = operator(*args)
    result = results if isinstance(results, Tensor) else results[-1]
    found = torch.autograd.grad(result.sum(), given, create_graph=order > 1)
    if order > 1:
        torch.autograd.grad(sum(g.sum() for g in found), given)


def found_of(name: str) -> dict[int, Finding]:
    """By order."""
    return {one.order: one for one in torch_slang.audit.report() if one.name == name}


def leaf(*sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(len(sizes))
    return torch.randn(sizes, generator=generator, dtype=dtype).requires_grad_()
