"""Trilinear interpolation beside its formula in PyTorch and CUDA written by hand (rivals/trilinear.cu).

Forward and backward go through autograd for all but CUDA's, which are launched one after the other.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

import torch_slang  # noqa: F401  (registers torch.ops.slang.trilinear)
from benchmarks.comparison import OURS, Task, compare
from benchmarks.measure import device
from benchmarks.operator_tasks import step
from benchmarks.rivals import cuda

LAYOUTS = {"CUDA, published": "published", "CUDA, coalesced": "coalesced"}
GRADIENTS: dict[str, Sequence[int]] = {
    "forward": (),
    "forward+backward of feats": (0,),
    "forward+backward of feats and points": (0, 1),
}


def formula(feats: Tensor, points: Tensor) -> Tensor:
    u, v, w = ((points + 1) / 2).unsqueeze(-1).unbind(1)
    a, b, c, d = (1 - v) * (1 - w), v * (1 - w), (1 - v) * w, v * w
    near = a * feats[:, 0] + b * feats[:, 1] + c * feats[:, 2] + d * feats[:, 3]
    far = a * feats[:, 4] + b * feats[:, 5] + c * feats[:, 6] + d * feats[:, 7]
    return (1 - u) * near + u * far


def by_hand(layout: str, inputs: Sequence[Tensor], wanted: Sequence[int], grad: Tensor) -> list[Tensor]:
    feats, points = inputs
    rows, _, features = feats.shape
    across, down = (rows, features) if layout == "published" else (features, rows)
    block = (16, 16) if layout == "published" else (32, 8)
    grid = (-(-across // block[0]), -(-down // block[1]))

    def launch(name: str, grid: tuple[int, ...], block: Any, *arguments: Tensor) -> None:
        cuda.function("trilinear.cu", name, feats.dtype, cuda.Variant(0, 1))(grid, block, (*arguments, rows, features))

    results = [torch.empty_like(grad, memory_format=torch.contiguous_format)]
    launch(f"forward_{layout}", grid, block, feats, points, results[0])
    if wanted:
        results += [torch.empty_like(inputs[i]) for i in wanted]
    if len(wanted) == 1:
        launch(f"backward_{layout}", grid, block, grad, points, results[1])
    elif wanted:
        launch("backward_all", (-(-rows // 8),), (32, 8), grad, feats, points, *results[1:])
    return results


def task(title: str, inputs: Sequence[Tensor], wanted: Sequence[int], grad: Tensor, quick: bool) -> Task:
    feats, points = inputs
    runs: dict[str, Any] = {
        OURS: step(torch.ops.slang.trilinear, inputs, wanted, grad),
        "eager": step(formula, inputs, wanted, grad),
    }
    if not quick:
        runs["torch.compile"] = step(torch.compile(formula, dynamic=False, fullgraph=True), inputs, wanted, grad)
    if feats.is_cuda and not cuda.missing():
        layouts = {"CUDA, a warp a row": "coalesced"} if len(wanted) == 2 else LAYOUTS
        for name, layout in layouts.items():
            runs[name] = functools.partial(by_hand, layout, inputs, wanted, grad.contiguous())

    def expected() -> list[Tensor]:
        return step(formula, [tensor.double() for tensor in inputs], wanted, grad.double())()

    moved = feats.nbytes + points.nbytes + grad.nbytes
    if wanted:  # the gradients of feats do not depend on them
        moved += grad.nbytes + points.nbytes + sum(inputs[i].nbytes for i in wanted) + (1 in wanted) * feats.nbytes
    return Task(
        title,
        runs,
        expected,
        moved,
        (27, 50, 90)[len(wanted)] * grad.numel(),
        feats.dtype,
        [8, *(grad.shape[1] if i else 8 for i in wanted)],
    )


def inputs(rows: int, features: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    feats = torch.randn(rows, 8, features, device=device()).to(dtype)
    points = (torch.rand(rows, 3, device=device()) * 2 - 1).to(dtype)
    return feats, points, torch.randn(rows, features, device=device()).to(dtype)


def main(quick: bool) -> None:
    rows, features = (64, 40) if quick else (65536 if device() == "cuda" else 4096, 256)
    for dtype in (torch.float32, torch.float16):
        feats, points, grad = inputs(rows, features, dtype)
        tasks = [
            task(f"{title}, {str(dtype).removeprefix('torch.')}", (feats, points), wanted, grad, quick)
            for title, wanted in GRADIENTS.items()
        ]
        compare(f"trilinear, N = {rows}, F = {features}, {str(dtype).removeprefix('torch.')}", tasks, quick)
    feats, points, _ = inputs(64 if quick else 1024, features, torch.float32)
    ones = torch.ones((), device=device()).expand(feats.shape[0], features)  # the gradient of a sum
    compare(
        f"trilinear, the gradient run of its tutorial, N = {feats.shape[0]}, F = {features}",
        [task("forward, and backward of its sum, of feats", (feats, points), (0,), ones, quick)],
        quick,
    )
