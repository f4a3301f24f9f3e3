"""Tasks of a differentiable operator: its forward and its backward beside what stands for each by formula and by hand.

Both are measured as the registered operators do it: outputs and gradients are allocated, and cleared where that is
needed, inside what is timed, for all alike. Eager and torch.compile compute the gradient by its formula.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.comparison import OURS, Results, Runnable, Task
from benchmarks.measure import device
from benchmarks.rivals import cuda, cuda_operators, slangtorch_sqr

Others = Mapping[str, Callable[..., Results]]


@dataclass(frozen=True)
class Kernel:
    """`gradient(grad, *inputs)` gives those of all `wanted`, the places of inputs that may have one.

    `name` is that of the rivals in cuda_operators and triton_kernels; `variants` are those of CUDA's. `reduced` names
    another rival in CUDA, which does what no kernel of one element a thread says: (column, name, variants).
    """

    name: str
    forward: Callable[..., Results]
    backward: Callable[..., Results]
    formula: Callable[..., Tensor]
    gradient: Callable[..., Sequence[Tensor]]
    wanted: Sequence[int]
    variants: Sequence[cuda.Variant] = cuda.FLAT
    reduced: tuple[str, str, Sequence[cuda.Variant]] | None = None


def forward_task(
    kernel: Kernel, title: str, inputs: Sequence[Any], operations: int, quick: bool, others: Others | None = None
) -> Task:
    runs: dict[str, Any] = {
        OURS: functools.partial(kernel.forward, *inputs),
        "eager": functools.partial(kernel.formula, *inputs),
    }
    runs |= _compiled(kernel.formula, inputs, quick) | _by_hand(kernel.name, kernel.variants, inputs)
    runs |= {name: functools.partial(other, *inputs) for name, other in (others or {}).items()}
    x = _sized(inputs)
    moved = sum(value.nbytes for value in inputs if isinstance(value, Tensor)) + x.nbytes
    return Task(
        title,
        runs,
        lambda: kernel.formula(*(_wide(value) for value in inputs)),
        moved,
        operations * x.numel(),
        x.dtype,
        on=x.device.type,
    )


def backward_task(
    kernel: Kernel,
    title: str,
    inputs: Sequence[Any],
    operations: int,
    quick: bool,
    mask: Sequence[bool] | None = None,
    gradient: Callable[..., Sequence[Tensor]] | None = None,
    unread: Sequence[int] = (),
    suffix: str = "",
    others: Others | None = None,
) -> Task:
    """`mask`: which of the wanted gradients, `gradient` gives these alone, and `suffix` is that of its rivals' names.

    `unread`: places of inputs that the gradients do not depend on; `others`: further rivals.
    """
    x = _sized(inputs)
    grad = torch.randn_like(x)
    mask = mask or [True] * len(kernel.wanted)
    gradient = gradient or kernel.gradient
    places = [place for place, kept in zip(kernel.wanted, mask, strict=True) if kept]
    given = (grad, *inputs)
    runs: dict[str, Any] = {
        OURS: functools.partial(kernel.backward, *given, list(mask)),
        "eager": functools.partial(gradient, *given),
    }
    name = f"{kernel.name}_backward{suffix}"
    runs |= _compiled(gradient, given, quick) | _by_hand(name, kernel.variants, given)
    if kernel.reduced and not suffix and not cuda.missing() and x.is_cuda:
        column, other, variants = kernel.reduced
        runs[column] = _variants(other, variants, given)
    runs |= {name: functools.partial(other, *given) for name, other in (others or {}).items()}
    read = [value.nbytes for i, value in enumerate(inputs) if isinstance(value, Tensor) and i not in unread]
    return Task(
        title,
        runs,
        functools.partial(_by_autograd, kernel.formula, grad, inputs, places),
        grad.nbytes + sum(read) + sum(inputs[place].nbytes for place in places),
        operations * x.numel(),
        x.dtype,
        [x.numel() // inputs[place].numel() for place in places],
        on=x.device.type,
    )


def _by_autograd(
    formula: Callable[..., Tensor], grad: Tensor, inputs: Sequence[Any], places: Sequence[int]
) -> Sequence[Tensor]:
    wide = [_wide(value) for value in inputs]
    wanted = [wide[place].requires_grad_() for place in places]
    return torch.autograd.grad(formula(*wide), wanted, grad.double())


def _wide(value: Any) -> Any:
    return value.detach().double() if isinstance(value, Tensor) and value.is_floating_point() else value


def _sized(inputs: Sequence[Any]) -> Tensor:
    """The input that has the output's shape, here the largest."""
    return max((v for v in inputs if isinstance(v, Tensor) and v.is_floating_point()), key=lambda v: v.numel())


def _compiled(formula: Callable[..., Results], inputs: Sequence[Any], quick: bool) -> dict[str, Runnable]:
    if quick or _sized(inputs).device.type != device():  # compiling for the CPU takes long
        return {}
    return {"torch.compile": functools.partial(torch.compile(formula, dynamic=False, fullgraph=True), *inputs)}


def _by_hand(name: str, variants: Sequence[cuda.Variant], inputs: Sequence[Any]) -> dict[str, Any]:
    runs: dict[str, Any] = {}
    if not _sized(inputs).is_cuda:
        return runs
    if importlib.util.find_spec("triton"):
        from benchmarks.rivals import triton_kernels

        runs["Triton"] = functools.partial(getattr(triton_kernels, name), *inputs)
    if not cuda.missing():
        runs["CUDA"] = _variants(name, variants, inputs)
    return runs


def _variants(name: str, variants: Sequence[cuda.Variant], inputs: Sequence[Any]) -> dict[str, Runnable]:
    function = getattr(cuda_operators, name)
    return {str(variant): functools.partial(function, variant, *inputs) for variant in variants}


def left_out() -> list[str]:
    """Notes on the rivals that are not there."""
    reasons = {
        "Triton": None if importlib.util.find_spec("triton") and torch.cuda.is_available() else "not here",
        "CUDA": cuda.missing(),
        "slangtorch": slangtorch_sqr.missing(),
    }
    return [f"without {name}: {reason}" for name, reason in reasons.items() if reason]


def step(
    function: Callable[..., Tensor], inputs: Sequence[Tensor], wanted: Sequence[int], grad: Tensor
) -> Callable[[], list[Tensor]]:
    """A call, and the gradients of those inputs."""
    leaves = [tensor.detach().requires_grad_(i in wanted) for i, tensor in enumerate(inputs)]

    def run() -> list[Tensor]:
        result = function(*leaves)
        if not wanted:
            return [result]
        return [result.detach(), *torch.autograd.grad(result, [leaves[i] for i in wanted], grad)]

    return run
