"""Values and gradients of a function beside those of another, compiled or not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

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
