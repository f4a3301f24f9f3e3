"""Prints how long the derivatives of some operators take to compile: the first order beside the second.

    .venv/bin/python scripts/derivative_compile_times.py [--device cuda] [--repeat 3] [--write]

Seconds from an empty cache, each operator in a process of its own: Slang's compiler and the device's together. The
least of the repeats counts. --write puts the table into docs/derivatives.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import torch_slang

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/helpers"))

from derivative_cases import Derived, backward, double_backward, jvp, of_differentiable_ones
from marked_tables import write_table

ROOT = Path(__file__).parents[1]
PHASES = ("the operator and its backward", "then jvp", "then double backward")
# File, operator, shapes of its arguments.
OPERATORS: dict[str, tuple[str, tuple[tuple[int, ...], ...]]] = {
    "cube": ("examples/cube.slang", ((5,),)),
    "sqr": ("ops/sqr.slang", ((5,),)),
    "trilinear": ("ops/trilinear.slang", ((3, 8, 2), (3, 3))),
    "kink": ("examples/pinn/activation.slang", ((5,),) * 4),
    "inside": ("examples/forces/energy.slang", ((5, 2, 3, 3), (), (), (), (), ())),
}


def measure(name: str, device: torch.device) -> list[float]:
    """Seconds of each phase, in this process."""
    file, shapes = OPERATORS[name]
    torch.ones(1, device=device)  # starts CUDA

    def arguments(device: torch.device | str) -> list[Any]:
        return [torch.rand(shape, device=device).requires_grad_() for shape in shapes]

    start = time.perf_counter()
    module = torch_slang.load(ROOT / file, namespace="compile_times")
    case = Derived(name, lambda: getattr(module, name), arguments, None)
    function, inputs = of_differentiable_ones(case, case.op, device)
    taken = []
    for derivative in (backward, jvp, double_backward):
        derivative(function, inputs)
        taken.append(time.perf_counter() - start)
        start = time.perf_counter()
    return taken


def measured_apart(name: str, device: str) -> list[float]:
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"TORCH_SLANG_CACHE_DIR": cache, "TORCH_SLANG_LOG": "off"}
        command = [sys.executable, __file__, "--device", device, "--measure", name]
        return [float(n) for n in subprocess.check_output(command, env=environment, text=True).split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--measure", choices=OPERATORS, help=argparse.SUPPRESS)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    if arguments.measure:
        print(*measure(arguments.measure, torch.device(arguments.device)))
        return
    lines = ["| | " + " | ".join(PHASES) + " |", "|---" * (len(PHASES) + 1) + "|"]
    for name, (file, _) in OPERATORS.items():
        runs = [measured_apart(name, arguments.device) for _ in range(arguments.repeat)]
        least = (f"{min(times):.2f}" for times in zip(*runs, strict=True))
        lines.append(f"| `{name}` of {file} | " + " | ".join(least) + " |")
        print(lines[-1], flush=True)
    if arguments.write:
        write_table(f"derivative_compile_times.py {arguments.device}", lines)


if __name__ == "__main__":
    main()
