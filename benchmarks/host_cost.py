"""What a call costs the host: sqr on 32 floats, beside eager, an operator written by hand in C++, and Triton.

PyTorch's own multiplication is measured twice, as `x * x` and as `torch.ops.aten.mul`: the difference is what
`torch.ops` costs.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils import cpp_extension

import torch_slang  # noqa: F401  (registers torch.ops.slang.sqr)
from benchmarks.measure import device, host_medians, print_table
from benchmarks.report import problem

Function = Callable[[torch.Tensor], torch.Tensor]


def rivals(quick: bool) -> tuple[dict[str, Function], list[str]]:
    """The functions, and notes on those that are left out."""
    functions: dict[str, Function] = {
        "eager x * x": lambda x: x * x,
        "torch.ops.aten.mul": lambda x: torch.ops.aten.mul.Tensor(x, x),
        "torch.ops.slang.sqr": torch.ops.slang.sqr.default,
    }
    notes = []
    if quick:
        notes.append("without the C++ operator, which takes long to compile: a quick run")
    else:
        try:
            cpp_extension.load("torch_slang_rival", [str(Path(__file__).parent / "rivals" / "square.cpp")])
            functions["C++ autograd::Function"] = torch.ops.torch_slang_rival.square.default
        except Exception as reason:  # a compiler's or ninja's
            problem(f"the C++ operator does not build: {str(reason).strip()[-300:]}")
    if device() == "cuda" and importlib.util.find_spec("triton"):
        from benchmarks.rivals import triton_kernels

        functions["Triton autograd.Function"] = triton_kernels.Sqr.apply
    else:
        notes.append("without Triton: not here")
    return functions, notes


def main(quick: bool) -> None:
    x = torch.randn(32, device=device())
    leaf = x.clone().requires_grad_()
    grad = torch.ones_like(x)

    def step(function: Function) -> Callable[[], Any]:
        def run() -> None:
            leaf.grad = None
            function(leaf).backward(grad)

        return run

    functions, notes = rivals(quick)
    for function in functions.values():
        torch.testing.assert_close(function(x), x * x)
        found = torch.autograd.grad(function(leaf).sum(), leaf)[0]
        torch.testing.assert_close(found, 2 * x)
    calls = 100 if quick else 1000
    forward = host_medians({name: functools.partial(function, x) for name, function in functions.items()}, calls)
    both = host_medians({name: step(function) for name, function in functions.items()}, calls // 4)
    rows = [[name, forward[name], both[name]] for name in functions]
    eager: list[Any] = rows[0]
    rows = [[*row, row[1] / eager[1], row[2] / eager[2]] for row in rows]
    print_table(
        f"host cost on {device()}, 32 floats, us",
        ["", "forward", "forward+backward", "forward / eager", "both / eager"],
        rows,
        notes=notes,
        chart=["forward", "forward+backward"],
        unit="us",
    )
