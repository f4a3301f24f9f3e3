"""Kernels of one element a thread beside eager PyTorch, torch.compile, Triton and CUDA written by hand.

Each operator is measured forward and backward as the registered operators do it: outputs and gradients are allocated,
and cleared where that is needed, inside what is timed, for all alike. Eager and torch.compile compute the gradient by
its formula. Adding an operator is a `Kernel`, a function that yields its tasks, and a line in `main`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import torch_slang
from benchmarks.comparison import OURS, Results, Runnable, Task, compare
from benchmarks.measure import device
from benchmarks.report import problem
from benchmarks.rivals import cuda, cuda_operators, slangtorch_sqr

KERNELS = Path(__file__).with_name("kernels")
SHARED = torch.ops.speed_benchmark  # what kernels/speed.slang registers
Others = Mapping[str, Callable[..., Results]]


@dataclass(frozen=True)
class Kernel:
    """`gradient(grad, *inputs)` gives those of all `wanted`, the places of inputs that may have one.

    `rival` is the name in cuda_operators and triton_kernels; `variants` are those of CUDA's, `reduced` names another
    rival in CUDA that does what no one-element kernel says: (column, name, variants).
    """

    name: str
    forward: Callable[..., Results]
    backward: Callable[..., Results]
    formula: Callable[..., Tensor]
    gradient: Callable[..., Sequence[Tensor]]
    wanted: Sequence[int]
    variants: Sequence[cuda.Variant] = cuda.FLAT
    reduced: tuple[str, str, Sequence[cuda.Variant]] | None = None


def _shifted(x: Tensor, a: float, b: float, c: float) -> Tensor:
    padded = torch.nn.functional.pad(x, (1, 1))
    return a * padded[:-2] + b * x + c * padded[2:]


def kernels() -> dict[str, Kernel]:
    sqr, shared = torch.ops.slang, SHARED
    return {
        "sqr": Kernel("sqr", sqr.sqr, sqr.sqr_backward, lambda x: x * x, lambda grad, x: (2 * x * grad,), (0,)),
        "stencil": Kernel(
            "stencil",
            shared.stencil,
            shared.stencil_backward,
            _shifted,
            lambda grad, _x, a, b, c: (_shifted(grad, c, b, a),),
            (0,),
            reduced=("CUDA, gathered", "stencil_backward_gathered", cuda.FLAT),
        ),
        "gather": Kernel(
            "gather",
            shared.gather,
            shared.gather_backward,
            lambda w, index, x: w.index_select(0, index) * x,
            lambda grad, w, index, x: (
                torch.zeros_like(w).index_add_(0, index, x * grad),
                w.index_select(0, index) * grad,
            ),
            (0, 2),
        ),
        "biased": Kernel(
            "biased",
            shared.biased,
            shared.biased_backward,
            lambda x, bias: (x + bias) ** 2,
            _biased_gradient,
            (0, 1),
            variants=cuda.ROWS,
            reduced=("CUDA, reduced", "biased_backward", cuda.MANY_ROWS),
        ),
        "along": Kernel(
            "along",
            shared.along,
            shared.along_backward,
            lambda x, slope, start: slope * x + start * start,
            lambda grad, x, slope, start: (grad * slope, grad * x, 2 * start * grad),
            (0, 1, 2),
        ),
    }


def _biased_gradient(grad: Tensor, x: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    grad_x = 2 * (x + bias) * grad
    return grad_x, grad_x.sum(0)


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
    unread: Sequence[int] = (),
    suffix: str = "",
    others: Others | None = None,
) -> Task:
    """`mask`: which of the wanted gradients; `unread`: places of inputs that these do not depend on.

    `suffix` is that of the rivals' names for this mask; `others`: further rivals.
    """
    x = _sized(inputs)
    grad = torch.randn_like(x)
    mask = mask or [True] * len(kernel.wanted)

    def gradient(grad: Tensor, *inputs: Any) -> list[Tensor]:
        return [g for g, kept in zip(kernel.gradient(grad, *inputs), mask, strict=True) if kept]

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
    if quick:
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


def sqr_tasks(quick: bool, on: str) -> Iterator[Task]:
    kernel = kernels()["sqr"]
    bits = 18 if quick else 27 if on == "cuda" else 24
    dtypes = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
    for dtype in dtypes if on == device() else dtypes[:1]:
        x = torch.randn(1 << bits, device=on).to(dtype)
        name = f"2^{bits} {str(dtype).removeprefix('torch.')}"
        rival = None if quick or on == "cpu" or dtype != torch.float32 else _slangtorch()
        forward, backward = ({"slangtorch": rival.forward}, {"slangtorch": rival.backward}) if rival else ({}, {})
        yield forward_task(kernel, f"forward, {name}", [x], 1, quick, forward)
        yield backward_task(kernel, f"backward, {name}", [x], 2, quick, others=backward)


def _slangtorch() -> slangtorch_sqr.Sqr | None:
    if slangtorch_sqr.missing():
        return None
    try:
        return slangtorch_sqr.Sqr(importlib.import_module("slangtorch"))
    except Exception as reason:  # it needs compilers that may not be there
        problem(f"slangtorch: {str(reason).strip()[:300]}")
        return None


def stencil_tasks(quick: bool) -> Iterator[Task]:
    kernel = kernels()["stencil"]
    bits = 18 if quick else 26 if device() == "cuda" else 22
    inputs = [torch.randn(1 << bits, device=device()), 0.25, 0.5, -0.75]
    yield forward_task(kernel, f"forward, 2^{bits} float32", inputs, 5, quick)
    yield backward_task(kernel, f"backward, 2^{bits} float32", inputs, 5, quick, unread=[0])


def gather_tasks(quick: bool) -> Iterator[Task]:
    kernel = kernels()["gather"]
    bits, table = (16, 10) if quick else (26, 20) if device() == "cuda" else (22, 16)
    x = torch.randn(1 << bits, device=device())
    w = torch.randn(1 << table, device=device())
    index = torch.randint(len(w), x.shape, device=device(), dtype=torch.int32)
    name = f"2^{bits} from 2^{table} float32"
    yield forward_task(kernel, f"forward, {name}", [w, index, x], 1, quick)
    yield backward_task(kernel, f"backward of w and x, {name}", [w, index, x], 3, quick)
    yield backward_task(
        kernel, f"backward of x, {name}", [w, index, x], 1, quick, [False, True], unread=[2], suffix="_x"
    )


def biased_tasks(quick: bool) -> Iterator[Task]:
    kernel = kernels()["biased"]
    rows = 256 if quick else 8192 if device() == "cuda" else 2048
    inputs = [torch.randn(rows, rows, device=device()), torch.randn(rows, device=device())]
    name = f"[{rows}, {rows}] float32"
    yield forward_task(kernel, f"forward, {name}", inputs, 2, quick)
    yield backward_task(kernel, f"backward of x and bias, {name}", inputs, 4, quick)
    yield backward_task(kernel, f"backward of x, {name}", inputs, 3, quick, [True, False], suffix="_x")


def along_tasks(quick: bool) -> Iterator[Task]:
    kernel = kernels()["along"]
    bits = 18 if quick else 26 if device() == "cuda" else 22
    inputs = list(torch.randn(3, 1 << bits, device=device()).unbind())
    yield forward_task(kernel, f"forward, 2^{bits} float32", inputs, 3, quick)
    yield backward_task(kernel, f"backward, 2^{bits} float32", inputs, 4, quick)


def main(quick: bool) -> None:
    torch_slang.load(KERNELS / "speed.slang", namespace="speed_benchmark")
    notes = left_out()
    compare("sqr", sqr_tasks(quick, device()), quick, notes)
    if device() == "cuda":
        compare("sqr", sqr_tasks(quick, "cpu"), quick)
    scattered = "CUDA: adds to three elements atomically, as the kernel does; gathered: each gradient has one writer"
    compare("stencil of three points", stencil_tasks(quick), quick, [*notes, scattered])
    compare("gather, y[i] = w[index[i]] * x[i]", gather_tasks(quick), quick, notes)
    reduced = "CUDA: an atomic addition for each column of the rows that a thread has in flight; reduced: of many rows"
    compare("bias along rows, y = (x + bias)^2", biased_tasks(quick), quick, [*notes, reduced])
    compare("struct of views, y = slope * x + start^2", along_tasks(quick), quick, notes)
