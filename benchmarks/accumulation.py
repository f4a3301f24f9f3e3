"""Which gradient view to choose: the backward of each where all threads read one element, gather, or have their own.

Times are of the whole backward operator: clearing and allocating memory, the kernel, and what follows it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

import torch_slang
from benchmarks.measure import device, milliseconds, print_table

SOURCE = """
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void fixed([Shape("1")] VIEW w, [Shape("N")] TensorView<float> x, [Out("N")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < x.size(0)) y.storeOnce(i, w.LOAD(0) * x[i]);
}

[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void gather(
    [Shape("M")] VIEW w, [Shape("N")] TensorView<int> index, [Shape("N")] TensorView<float> x,
    [Out("N")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < x.size(0)) y.storeOnce(i, w.LOAD(uint(index[i])) * x[i]);
}

[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void own([Shape("N")] VIEW w, [Shape("N")] TensorView<float> x, [Out("N")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < x.size(0)) y.storeOnce(i, w.LOAD(i) * x[i]);
}
"""
LOAD = ("DiffTensorViewAA<float>", "load")
FIXED = ("DiffTensorViewAA<float>", "loadFixed")
UNIFORM = ("DiffTensorViewAA<float>", "loadUniform")
ONCE = ("DiffTensorViewAA<float>", "loadUniformOnce")
RECORDED = ("DiffTensorViewASR<float, 1>", "load")


def replicated(count: int) -> tuple[str, str]:
    return f"DiffTensorViewR<float, {count}>", "load"


def backward(mode: tuple[str, str], kernel: str) -> Callable[..., torch.Tensor]:
    view, load = mode
    name = "".join(c if c.isalnum() else "_" for c in f"accumulation_{view}_{load}")
    source = SOURCE.replace("VIEW", view).replace("LOAD", load)
    module = torch_slang.load(source=source, name=name, namespace=name)
    operator: Callable[..., torch.Tensor] = getattr(module, f"{kernel}_backward").op
    return operator


def title_of(mode: tuple[str, str]) -> str:
    view, load = mode
    return f"{view.removeprefix('DiffTensorView').replace('<float>', '').replace('<float, ', ' ').rstrip('>')} {load}"


def measure(mode: tuple[str, str], kernel: str, expected: torch.Tensor, *arguments: torch.Tensor) -> float:
    operator = backward(mode, kernel)
    torch.testing.assert_close(operator(*arguments, [True]), expected, rtol=1e-3, atol=1e-3 * len(arguments[0]) ** 0.5)
    return milliseconds(functools.partial(operator, *arguments, [True]))


def one_element(quick: bool) -> None:
    modes = [LOAD, FIXED, replicated(32), replicated(1024), RECORDED]
    rows: list[list[object]] = []
    for count in (4096,) if quick else (65536, 1 << 20, 1 << 22):
        grad, x = torch.randn(2, count, device=device())
        w = torch.randn(1, device=device())
        expected = (grad * x).sum(0, keepdim=True)
        times = [measure(mode, "fixed", expected, grad, w, x) for mode in modes]
        rows.append([count, *times, milliseconds(lambda: (grad * x).sum())])  # noqa: B023, PLW0108  (called at once)
    print_table(
        f"all threads read one element, on {device()}, ms",
        ["threads", *(title_of(m) for m in modes), "eager (grad * x).sum()"],
        rows,
    )


def gathers(quick: bool) -> None:
    count = 1 << (12 if quick else 22)
    modes = [LOAD, replicated(4), replicated(32), RECORDED]
    rows: list[list[object]] = []
    for bits in (4, 8) if quick else (10, 16, 22):
        grad, x = torch.randn(2, count, device=device())
        w = torch.randn(1 << bits, device=device())
        index = torch.randint(len(w), (count,), device=device(), dtype=torch.int32)
        wide = index.long()
        expected = torch.zeros_like(w).index_add_(0, wide, grad * x)
        times = [measure(mode, "gather", expected, grad, w, index, x) for mode in modes]
        sort = backward(RECORDED, "gather")
        torch.use_deterministic_algorithms(True)
        sorted_time = milliseconds(functools.partial(sort, grad, w, index, x, [True]))
        torch.use_deterministic_algorithms(False)
        eager = milliseconds(lambda: torch.zeros_like(w).index_add_(0, wide, grad * x))  # noqa: B023
        rows.append([f"2^{bits}", *times, sorted_time, eager])
    print_table(
        f"{count} random gathers, on {device()}, ms",
        ["elements", *(title_of(m) for m in modes), "ASR 1 deterministic", "eager index_add_"],
        rows,
    )


def own_elements(quick: bool) -> None:
    modes = [LOAD, UNIFORM, ONCE, replicated(2), RECORDED]
    count = 1 << (12 if quick else 22)
    grad, x, w = torch.randn(3, count, device=device())
    times = [measure(mode, "own", grad * x, grad, w, x) for mode in modes]
    print_table(
        f"each of {count} threads has its own element, on {device()}, ms",
        [*(title_of(m) for m in modes), "eager grad * x"],
        [[*times, milliseconds(lambda: grad * x)]],
    )


def main(quick: bool) -> None:
    one_element(quick)
    gathers(quick)
    own_elements(quick)
