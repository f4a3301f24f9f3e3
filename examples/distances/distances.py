"""All distances between two sets of points by one matrix kernel of one's own, with its gradient.

    python distances.py

The kernels of distances.slang are written with the module ``torch_slang.mma``. On a GPU this also says how long they
take beside the plain product of the same matrices and ``torch.cdist``.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import torch_slang

kernels = torch_slang.load(Path(__file__).with_name("distances.slang"))


def sums(x: Tensor, dim: int) -> Tensor:
    """In float64 for float64, else in float32."""
    return x.sum(dim, dtype=torch.float64 if x.dtype == torch.float64 else torch.float32)


def distances(a: Tensor, b: Tensor) -> Tensor:
    """``|a[i] - b[j]|`` of points [M, K] and [N, K]: [M, N], in their dtype.

    Where two points are the same, the gradient is 0.
    """
    result: Tensor = kernels.distances(a, b.mT, sums(a.detach() ** 2, 1), sums(b.detach() ** 2, 1))
    return result


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0], inputs[1], output)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    a, columns, result = ctx.saved_tensors
    b = columns.mT
    weights = torch.where(result > 0, grad / result, 0)
    grad_a = kernels.pull(weights, b, a, sums(weights, 1)) if ctx.needs_input_grad[0] else None
    grad_b = kernels.pull(weights.mT, a, b, sums(weights, 0)) if ctx.needs_input_grad[1] else None
    return grad_a, None if grad_b is None else grad_b.mT, None, None


kernels.distances.register_autograd(_backward, setup_context=_keep)


def milliseconds(call: Callable[[], object], rounds: int = 30) -> float:
    taken = []
    for _ in range(rounds):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end))
    return statistics.median(taken)


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a = torch.randn(300, 20, dtype=torch.float64, device=device, requires_grad=True)
    b = torch.randn(200, 20, dtype=torch.float64, device=device, requires_grad=True)
    torch.testing.assert_close(distances(a, b), torch.cdist(a, b))
    print("gradcheck:", torch.autograd.gradcheck(distances, (a[:7, :5].detach().requires_grad_(), b[:6, :5])))
    if device == "cuda":
        points = [torch.randn(8192, 1024, device=device, dtype=torch.bfloat16) for _ in range(2)]
        times = {
            "distances": milliseconds(lambda: distances(*points)),
            "their plain product": milliseconds(lambda: torch.mm(points[0], points[1].mT)),
            "torch.cdist in float32": milliseconds(lambda: torch.cdist(points[0].float(), points[1].float())),
        }
        print(", ".join(f"{name} {taken:.3f} ms" for name, taken in times.items()))


if __name__ == "__main__":
    main()
