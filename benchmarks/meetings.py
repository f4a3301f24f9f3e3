"""Additions of a wave's lanes that meet at one element: summed first, each made apart, and as a call does by itself.

Backwards of gathers from few and many elements, in sorted and random order, by a kernel and by a plain function that
sees the tensor whole, and of a kernel as renderers of Gaussians have it: all pixels of a tile read ten numbers of one.
Each time is that of one whole backward. Without a setting, a kernel sums or does not, as a measurement at its first
call decides, and a function's loop always sums.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

import torch_slang
from benchmarks.measure import device, print_table, samples
from torch_slang import _C

SOURCE = """
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void gather([Shape("M")] DiffTensorView<float> w, [Shape("N")] TensorView<int> index, [Shape("N")] TensorView<float> x,
            [Out("N")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < x.size(0)) y.storeOnce(i, w[uint(index[i])] * x[i]);
}

[Differentiable]
float picked(DiffTensorView<float> w, no_diff int index, no_diff float x) { return w[uint(index)] * x; }
[Differentiable]
float3 picked3(DiffTensorView<float3> w, no_diff int index, no_diff float x) { return w[uint(index)] * x; }

// Of a tile of 16 x 16 pixels, whose Gaussian is its number's; those who see little of it leave it out.
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void splat([Shape("M, 2")] DiffTensorView<float> at, [Shape("M, 3")] DiffTensorView<float> conic,
           [Shape("M, 3")] DiffTensorView<float> color, [Shape("M")] DiffTensorView<float> opacity,
           [Shape("M")] DiffTensorView<float> depth, [Shape("T")] TensorView<int> index,
           [Shape("N")] TensorView<float> x, [Shape("1")] TensorView<float> least,
           [Out("N")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= x.size(0)) return;
    uint g = uint(index[i / 256]), pixel = i % 256;
    float2 d = float2(at[uint2(g, 0)], at[uint2(g, 1)]) - float2(float(pixel % 16), float(pixel / 16));
    float3 q = float3(conic[uint2(g, 0)], conic[uint2(g, 1)], conic[uint2(g, 2)]);
    float power = 0.5f * (q.x * d.x * d.x + q.z * d.y * d.y) + q.y * d.x * d.y;
    float alpha = opacity[g] * exp(-power);
    if (alpha < least[0]) { y.storeOnce(i, 0.0f); return; }
    float3 c = float3(color[uint2(g, 0)], color[uint2(g, 1)], color[uint2(g, 2)]);
    y.storeOnce(i, alpha * (c.x + c.y + c.z + depth[g]) * x[i]);
}

// Additions that a user writes: one of each thread, and ten to one element.
[CudaKernel]
void scatter(TensorView<float> x, TensorView<int> index, TensorView<float> sums)
{
    uint i = cudaGlobalIdx().x;
    float before;
    if (i < x.size(0)) sums.InterlockedAdd(uint(index[i]), x[i], before);
}
[CudaKernel]
void scatter10(TensorView<float> x, TensorView<int> index, TensorView<float> sums)
{
    uint i = cudaGlobalIdx().x;
    if (i >= x.size(0)) return;
    uint k = uint(index[i]);
    float a = x[i], before;
    [ForceUnroll] for (uint j = 0; j < 10; ++j) sums.InterlockedAdd(uint2(k, j), a * float(j + 1), before);
}
"""
WAYS = {"apart": False, "summed": True, "as measured": None}


def module() -> torch_slang.Module:
    return torch_slang.load(source=SOURCE, name="meetings_speed", namespace="meetings_speed")


@contextmanager
def wave_sums(value: bool | None) -> Iterator[None]:
    before = _C.set_wave_sums(value)
    try:
        yield
    finally:
        _C.set_wave_sums(before)


def ways(call: Callable[[], Sequence[Tensor] | Tensor], expected: Sequence[Tensor], terms: float) -> list[float]:
    """Milliseconds of the call in each way, after a look at what it gives."""

    def run(value: bool | None) -> Sequence[Tensor] | Tensor:
        with wave_sums(value):
            return call()

    for value in WAYS.values():
        results = run(value)
        for result, right in zip([results] if isinstance(results, Tensor) else results, expected, strict=True):
            error, norm = (result.double() - right).norm(), right.norm()
            assert error <= 1e-5 * max(terms, 1.0) ** 0.5 * norm, (error, norm)
    times = samples({name: functools.partial(run, value) for name, value in WAYS.items()}, device())
    return [statistics.median(taken) for taken in times.values()]


def gathers(quick: bool, what: str, numbers: int = 1) -> None:
    count = 1 << (12 if quick else 22)
    operator = getattr(module(), what)
    element = (numbers,) if numbers > 1 else ()
    rows: list[list[object]] = []
    for bits in (0, 4) if quick else range(0, 23, 2):
        for order in ("sorted", "random"):
            grad, x = torch.randn(count, *element, device=device()), torch.randn(count, device=device())
            w = torch.randn(1 << bits, *element, device=device(), requires_grad=True)
            index = torch.randint(len(w), (count,), device=device(), dtype=torch.int32)
            if order == "sorted":
                index = index.sort().values
            right = torch.zeros(w.shape, device=device(), dtype=torch.float64)
            right.index_add_(0, index.long(), grad.double() * x.double().reshape(-1, *(1 for _ in element)))
            call = functools.partial(torch.autograd.grad, operator(w, index, x), w, grad, retain_graph=True)
            rows.append([f"2^{bits} {order}", *ways(call, [right], count / len(w))])
    print_table(f"{count} gathers by {what}, on {device()}, ms", ["elements", *WAYS], rows)


def scatters(quick: bool, what: str, numbers: int) -> None:
    count = 1 << (12 if quick else 22)
    kernel = getattr(module(), what)
    x = torch.rand(count, device=device())
    rows: list[list[object]] = []
    for bits in (0, 4) if quick else range(0, 23, 2):
        for order in ("sorted", "random"):
            index = torch.randint(1 << bits, (count,), device=device(), dtype=torch.int32)
            if order == "sorted":
                index = index.sort().values
            sums = torch.zeros(1 << bits, *((numbers,) if numbers > 1 else ()), device=device())

            def call(index: Tensor = index, sums: Tensor = sums) -> Tensor:
                sums.zero_()
                kernel(x, index, sums, launchBlockSize=(256, 1, 1), launchGridSize=(count // 256, 1, 1))
                return sums

            once = torch.zeros(len(sums), device=device(), dtype=torch.float64).index_add_(0, index.long(), x.double())
            right = torch.outer(once, torch.arange(1.0, 11.0, device=device()).double()) if numbers > 1 else once
            rows.append([f"2^{bits} {order}", *ways(call, [right], count / len(sums))])
    print_table(
        f"{count} threads whose {numbers} additions are written in {what}, on {device()}, ms", ["elements", *WAYS], rows
    )


def splats(quick: bool) -> None:
    tiles, many = (4, 2) if quick else (1 << 14, 1 << 12)
    operator = module().splat_backward.op
    grad, x = torch.rand(2, tiles * 256, device=device())
    at, conic = 16 * torch.rand(many, 2, device=device()), 0.02 + 0.05 * torch.rand(many, 3, device=device())
    color, opacity, depth = (torch.rand(*shape, device=device()) for shape in ((many, 3), (many,), (many,)))
    index = torch.randint(many, (tiles,), device=device(), dtype=torch.int32)
    inputs = [at, conic, color, opacity, depth]
    rows: list[list[object]] = []
    for title, least in (("all pixels", 0.0), ("those above 0.2", 0.2), ("those above 0.6", 0.6)):
        doubles = [tensor.double().requires_grad_() for tensor in inputs]
        reference(doubles, index, x, least).backward(grad.double())
        right = [tensor.grad for tensor in doubles if tensor.grad is not None]
        limit = torch.tensor([least], device=device())
        call = functools.partial(operator, grad, *inputs, index, x, limit, [True] * len(inputs))
        rows.append([title, *ways(call, right, 256 * tiles / many)])
    print_table(
        f"{tiles} tiles whose pixels add ten numbers to one of {many} Gaussians, on {device()}, ms",
        ["who adds", *WAYS],
        rows,
    )


def reference(inputs: list[Tensor], index: Tensor, x: Tensor, least: float) -> Tensor:
    at, conic, color, opacity, depth = (tensor[index.long()].unsqueeze(1) for tensor in inputs)
    pixel = torch.arange(256, device=x.device)
    dx, dy = at[..., 0] - pixel % 16, at[..., 1] - pixel // 16
    power = 0.5 * (conic[..., 0] * dx * dx + conic[..., 2] * dy * dy) + conic[..., 1] * dx * dy
    alpha = opacity * torch.exp(-power)
    seen = torch.where(alpha.float() < least, 0.0, alpha * (color.sum(-1) + depth))
    return (seen * x.double().reshape(seen.shape)).flatten()


def main(quick: bool) -> None:
    gathers(quick, "gather")
    gathers(quick, "picked")
    gathers(quick, "picked3", 3)
    scatters(quick, "scatter", 1)
    scatters(quick, "scatter10", 10)
    splats(quick)
