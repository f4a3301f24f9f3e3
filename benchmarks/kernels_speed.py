"""Kernels of one element a thread beside eager PyTorch, torch.compile, Triton and CUDA written by hand.

Adding an operator: a `Kernel`, a function that compares its tasks, and that function's name in benchmarks/__init__.py.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import torch_slang
from benchmarks.comparison import Task, compare
from benchmarks.measure import device
from benchmarks.operator_tasks import Kernel, backward_task, forward_task, left_out
from benchmarks.report import problem
from benchmarks.rivals import cuda, slangtorch_sqr

FILE = Path(__file__).with_name("kernels") / "speed.slang"


def shared() -> Any:
    """The operators of kernels/speed.slang."""
    torch_slang.load(FILE, namespace="speed_benchmark")
    return torch.ops.speed_benchmark


def size(bits: int, quick: bool) -> tuple[int, str]:
    """How many elements, and that in words. A quick run has a remainder that fills no tile."""
    return (100_003, "100003") if quick else (1 << bits, f"2^{bits}")


def sqr(quick: bool) -> None:
    compare("sqr", sqr_tasks(quick, device()), quick, left_out())
    if device() == "cuda":
        compare("sqr", sqr_tasks(quick, "cpu"), quick)


def sqr_tasks(quick: bool, on: str) -> Iterator[Task]:
    operators = torch.ops.slang
    kernel = Kernel(
        "sqr", operators.sqr, operators.sqr_backward, lambda x: x * x, lambda grad, x: (2 * x * grad,), (0,)
    )
    count, words = size(27 if on == "cuda" else 24, quick)
    dtypes = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
    for dtype in dtypes if on == device() else dtypes[:1]:
        x = torch.randn(count, device=on).to(dtype)
        name = f"{words} {str(dtype).removeprefix('torch.')}"
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


def stencil(quick: bool) -> None:
    scattered = "CUDA: adds to three elements atomically, as the kernel does; gathered: each gradient has one writer"
    compare("stencil of three points", stencil_tasks(quick), quick, [*left_out(), scattered])


def stencil_tasks(quick: bool) -> Iterator[Task]:
    kernel = Kernel(
        "stencil",
        shared().stencil,
        shared().stencil_backward,
        _shifted,
        lambda grad, _x, a, b, c: (_shifted(grad, c, b, a),),
        (0,),
        reduced=("CUDA, gathered", "stencil_backward_gathered", cuda.FLAT),
    )
    count, words = size(26 if device() == "cuda" else 22, quick)
    inputs = [torch.randn(count, device=device()), 0.25, 0.5, -0.75]
    yield forward_task(kernel, f"forward, {words} float32", inputs, 5, quick)
    yield backward_task(kernel, f"backward, {words} float32", inputs, 5, quick, unread=[0])


def _shifted(x: Tensor, a: float, b: float, c: float) -> Tensor:
    padded = torch.nn.functional.pad(x, (1, 1))
    return a * padded[:-2] + b * x + c * padded[2:]


def gather(quick: bool) -> None:
    compare("gather, y[i] = w[index[i]] * x[i]", gather_tasks(quick), quick, left_out())


def gather_tasks(quick: bool) -> Iterator[Task]:
    kernel = Kernel(
        "gather",
        shared().gather,
        shared().gather_backward,
        lambda w, index, x: w.index_select(0, index) * x,
        _gather_gradient,
        (0, 2),
    )
    count, words = size(26 if device() == "cuda" else 22, quick)
    table = 10 if quick else 20 if device() == "cuda" else 16
    x, w = torch.randn(count, device=device()), torch.randn(1 << table, device=device())
    index = torch.randint(len(w), x.shape, device=device(), dtype=torch.int32)
    inputs = [w, index, x]
    name = f"{words} from 2^{table} float32"
    yield forward_task(kernel, f"forward, {name}", inputs, 1, quick)
    yield backward_task(kernel, f"backward of w and x, {name}", inputs, 3, quick)
    yield backward_task(
        kernel,
        f"backward of x, {name}",
        inputs,
        1,
        quick,
        [False, True],
        lambda grad, w, index, _x: (w.index_select(0, index) * grad,),
        unread=[2],
        suffix="_x",
    )


def _gather_gradient(grad: Tensor, w: Tensor, index: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.zeros_like(w).index_add_(0, index, x * grad), w.index_select(0, index) * grad


def biased(quick: bool) -> None:
    reduced = "CUDA: an atomic addition for each column of the rows that a thread has in flight; reduced: of many rows"
    compare("bias along rows, y = (x + bias)^2", biased_tasks(quick), quick, [*left_out(), reduced])


def biased_tasks(quick: bool) -> Iterator[Task]:
    kernel = Kernel(
        "biased",
        shared().biased,
        shared().biased_backward,
        lambda x, bias: (x + bias) * (x + bias),
        _biased_gradient,
        (0, 1),
        variants=cuda.ROWS,
        reduced=("CUDA, reduced", "biased_backward", cuda.MANY_ROWS),
    )
    rows, columns = (251, 260) if quick else (8192, 8192) if device() == "cuda" else (2048, 2048)
    inputs = [torch.randn(rows, columns, device=device()), torch.randn(columns, device=device())]
    name = f"[{rows}, {columns}] float32"
    yield forward_task(kernel, f"forward, {name}", inputs, 2, quick)
    yield backward_task(kernel, f"backward of x and bias, {name}", inputs, 4, quick)
    yield backward_task(
        kernel,
        f"backward of x, {name}",
        inputs,
        3,
        quick,
        [True, False],
        lambda grad, x, bias: (2 * (x + bias) * grad,),
        suffix="_x",
    )


def _biased_gradient(grad: Tensor, x: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    grad_x = 2 * (x + bias) * grad
    return grad_x, grad_x.sum(0)


def along(quick: bool) -> None:
    compare("struct of views, y = slope * x + start^2", along_tasks(quick), quick, left_out())


def along_tasks(quick: bool) -> Iterator[Task]:
    kernel = Kernel(
        "along",
        shared().along,
        shared().along_backward,
        lambda x, slope, start: slope * x + start * start,
        lambda grad, x, slope, start: (grad * slope, grad * x, 2 * start * grad),
        (0, 1, 2),
    )
    count, words = size(26 if device() == "cuda" else 22, quick)
    inputs = [torch.randn(count, device=device()) for _ in range(3)]
    yield forward_task(kernel, f"forward, {words} float32", inputs, 3, quick)
    yield backward_task(kernel, f"backward, {words} float32", inputs, 4, quick)
