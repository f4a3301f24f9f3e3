"""sqr on many numbers: bytes moved a second beside a copy and eager. Forward moves 2 numbers an element, backward 3."""

from __future__ import annotations

import torch

import torch_slang  # noqa: F401  (registers torch.ops.slang.sqr)
from benchmarks.measure import device, milliseconds, print_table


def main(quick: bool) -> None:
    count = 1 << (18 if quick else 27 if device() == "cuda" else 24)
    rows: list[list[object]] = []
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        x, grad = torch.randn(2, count, device=device()).to(dtype)
        torch.testing.assert_close(torch.ops.slang.sqr(x), x * x)
        gradient = torch.ops.slang.sqr_backward(grad, x, [True])
        torch.testing.assert_close(gradient, 2 * x * grad)
        del gradient
        y = torch.empty_like(x)
        size = x.element_size() * count / 1e9

        def rate(numbers: int, call: object, size: float = size) -> float:
            return numbers * size / milliseconds(call)  # type: ignore[arg-type]  # GB a ms = TB/s

        rows.append(
            [
                str(dtype).removeprefix("torch."),
                rate(2, lambda: y.copy_(x)),  # noqa: B023  (called at once)
                rate(2, lambda: x * x),  # noqa: B023
                rate(2, lambda: torch.ops.slang.sqr(x)),  # noqa: B023
                rate(3, lambda: torch.ops.slang.sqr_backward(grad, x, [True])),  # noqa: B023
            ]
        )
    print_table(f"sqr of {count} numbers on {device()}, TB/s", ["", "copy", "eager x * x", "forward", "backward"], rows)
