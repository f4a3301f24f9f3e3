"""What a call costs the host: sqr on 32 floats, beside eager and an operator written by hand in C++."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils import cpp_extension

import torch_slang  # noqa: F401  (registers torch.ops.slang.sqr)
from benchmarks.measure import device, host_microseconds, print_table

Function = Callable[[torch.Tensor], torch.Tensor]


def rivals(quick: bool) -> dict[str, Function]:
    functions: dict[str, Function] = {
        "eager x * x": lambda x: x * x,
        "torch.ops.slang.sqr": torch.ops.slang.sqr.default,
    }
    if not quick:
        cpp_extension.load("torch_slang_rival", [str(Path(__file__).parent / "rivals" / "square.cpp")])
        functions["C++ autograd::Function"] = torch.ops.torch_slang_rival.square.default
    return functions


def main(quick: bool) -> None:
    x = torch.randn(32, device=device())
    leaf = x.clone().requires_grad_()
    grad = torch.ones_like(x)

    def step(function: Function) -> Callable[[], Any]:
        def run() -> None:
            leaf.grad = None
            function(leaf).backward(grad)

        return run

    rows: list[list[object]] = []
    for name, function in rivals(quick).items():
        expected = torch.autograd.grad(function(leaf).sum(), leaf)[0]
        torch.testing.assert_close(expected, 2 * x)
        calls = 100 if quick else 1000
        forward = host_microseconds(lambda function=function: function(x), calls)
        both = host_microseconds(step(function), calls // 4)
        rows.append([name, forward, both])
    eager = rows[0]
    rows = [[*row, row[1] / eager[1], row[2] / eager[2]] for row in rows]  # type: ignore[operator]
    print_table(
        f"Host cost on {device()}, 32 floats, us",
        ["", "forward", "forward+backward", "forward / eager", "both / eager"],
        rows,
    )
