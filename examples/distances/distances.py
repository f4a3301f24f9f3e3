"""All distances between two sets of points by one matrix kernel of one's own, with its gradient.

    python distances.py

The kernels of distances.slang are written with the module ``torch_slang.mma``. On a GPU this also says how long they
take beside the plain product of the same matrices and ``torch.cdist``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.benchmark import Timer

import torch_slang

# fast_math: a GPU's square root of a float takes one instruction then, and not sixteen; its error is one rounding more.
kernels = torch_slang.load(Path(__file__).with_name("distances.slang"), fast_math=True)


def wide(x: Tensor) -> torch.dtype:
    """What sums of x are computed in."""
    return torch.promote_types(x.dtype, torch.float32)


@torch.no_grad()
def squares(x: Tensor) -> Tensor:
    result: Tensor = (x * x).sum(1) if x.dtype == torch.float64 else kernels.squares(x)
    return result


def distances(a: Tensor, b: Tensor) -> Tensor:
    """``|a[i] - b[j]|`` of points [M, K] and [N, K]: [M, N], in their dtype.

    The gradient of a distance that comes out as 0 is 0. Rounding may leave a little between points that are the same.
    """
    result: Tensor = kernels.distances(a, b.mT, squares(a), squares(b))
    return result


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0], inputs[1], output)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    a, columns, result = ctx.saved_tensors
    b = columns.mT
    weights = kernels.weight(grad, result)
    grad_a, grad_b = None, None
    if ctx.needs_input_grad[0]:
        grad_a = kernels.pull(weights, b, a, weights.sum(1, dtype=wide(a)))
    if ctx.needs_input_grad[1]:
        grad_b = kernels.pull(weights.mT, a, b, weights.sum(0, dtype=wide(b))).mT
    return grad_a, grad_b, None, None


kernels.distances.register_autograd(_backward, setup_context=_keep)


def milliseconds(statement: str, **names: object) -> float:
    return Timer(statement, globals={"torch": torch, **names}).blocked_autorange().median * 1e3


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a = torch.randn(300, 20, dtype=torch.float64, device=device, requires_grad=True)
    b = torch.randn(200, 20, dtype=torch.float64, device=device, requires_grad=True)
    torch.testing.assert_close(distances(a, b), torch.cdist(a, b))
    print("gradcheck:", torch.autograd.gradcheck(distances, (a[:7, :5].detach().requires_grad_(), b[:6, :5])))
    if device == "cuda":
        a, b = (torch.randn(8192, 1024, device=device, dtype=torch.bfloat16) for _ in range(2))
        times = {
            "distances": milliseconds("distances(a, b)", distances=distances, a=a, b=b),
            "their plain product": milliseconds("a @ b.mT", a=a, b=b),
            "torch.cdist in float32": milliseconds("torch.cdist(a, b)", a=a.float(), b=b.float()),
        }
        print(", ".join(f"{name} {taken:.3f} ms" for name, taken in times.items()))


if __name__ == "__main__":
    main()
