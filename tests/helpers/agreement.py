"""Values and gradients of a function beside those of another, compiled or not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch._dynamo.testing import CompileCounterWithBackend

Tensor = torch.Tensor


def value_and_gradients(function: Callable[..., Tensor], *inputs: Tensor) -> list[Tensor]:
    leaves = [t.detach().clone().requires_grad_() for t in inputs]
    result = function(*leaves)
    return [result.detach(), *torch.autograd.grad(result.sum(), leaves)]


def check_one_graph_serves(
    all_inputs: Iterable[Sequence[Tensor]],
    function: Callable[..., Tensor],
    reference: Callable[..., Tensor],
    backend: str,
) -> CompileCounterWithBackend:
    """Compiled for any sizes, once, `function` is `reference`, with its gradients."""
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(function, backend=counter, fullgraph=True, dynamic=True)
    for inputs in all_inputs:
        torch.testing.assert_close(value_and_gradients(compiled, *inputs), value_and_gradients(reference, *inputs))
    assert counter.frame_count == 1
    return counter


def check_against(op: Callable[..., Any], args: Sequence[Any], reference: Callable[..., Any]) -> None:
    """Results and gradients are those of `reference`: the first of what `torch_slang.testing.check` looks at."""
    outcomes = []
    for function in (op, reference):
        values = [v.detach().clone().requires_grad_(v.requires_grad) if isinstance(v, Tensor) else v for v in args]
        returned = function(*values)
        results = [returned] if isinstance(returned, Tensor) else list(returned)
        generator = torch.Generator().manual_seed(0)
        seeds = [torch.randn(r.shape, generator=generator, dtype=torch.float64).to(r.device) for r in results]
        pairs = [(r, seed.to(r.dtype)) for r, seed in zip(results, seeds, strict=True) if r.requires_grad]
        wanted = [v for v in values if isinstance(v, Tensor) and v.requires_grad]
        torch.autograd.backward(*map(list, zip(*pairs, strict=True)))
        outcomes.append([*(r.detach() for r in results), *(v.grad for v in wanted)])
    for actual, expected in zip(*outcomes, strict=True):
        torch.testing.assert_close(actual, expected)
