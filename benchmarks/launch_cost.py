"""What a launch of a kernel with nine arguments costs the host: by slangtorch's names, by ours, and as an operator.

Beside slangtorch itself and Triton, where they are installed.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import torch_slang
from benchmarks.measure import device, host_medians, print_table
from benchmarks.report import problem
from torch_slang import slangtorch

SOURCE = Path(__file__).parent / "kernels" / "launch_cost.slang"
BLOCK, GRID = (32, 1, 1), (1, 1, 1)
Launch = Callable[[], Any]


def arguments() -> dict[str, Any]:
    floats = {name: torch.rand(32, device=device()) for name in "abcy"}
    ints = {name: torch.ones(32, device=device(), dtype=torch.int32) for name in ("tiles", "ranges", "count")}
    values = {**floats, **ints}
    ordered = {name: values[name] for name in ("a", "b", "c", "tiles", "ranges", "count", "y")}
    return {**ordered, "width": 3, "least": 0.5}


def with_gradients(values: dict[str, Any], gradients: dict[str, torch.Tensor]) -> dict[str, Any]:
    return {name: (value, gradients[name]) if name in gradients else value for name, value in values.items()}


def of_slangtorch(module: Any, values: dict[str, Any], gradients: dict[str, torch.Tensor]) -> dict[str, Launch]:
    """Forward, backward, and a struct of views, as programs for slangtorch launch them."""
    camera = {"pose": values["a"], "size": values["b"]}

    def forward() -> None:
        module.blend(**values).launchRaw(blockSize=BLOCK, gridSize=GRID)

    def backward() -> None:
        module.blend.bwd(**with_gradients(values, gradients)).launchRaw(blockSize=BLOCK, gridSize=GRID)

    def struct() -> None:
        module.posed(camera=camera, x=values["c"], y=values["y"], width=3).launchRaw(blockSize=BLOCK, gridSize=GRID)

    return {"forward": forward, "backward": backward, "struct of views": struct}


def of_ours(values: dict[str, Any], gradients: dict[str, torch.Tensor]) -> dict[str, Launch]:
    module = torch_slang.load(SOURCE, namespace="launch_cost")
    camera = {"pose": values["a"], "size": values["b"]}
    extents = {"block_size": BLOCK, "grid_size": GRID}
    pairs = with_gradients(values, gradients)
    return {
        "forward": functools.partial(module.blend_launch, **values, **extents),
        "backward": functools.partial(module.blend_bwd, **pairs, **extents),
        "struct of views": functools.partial(
            module.posed_launch, camera=camera, x=values["c"], y=values["y"], width=3, **extents
        ),
    }


def of_operator(values: dict[str, Any]) -> dict[str, Launch]:
    operator = torch.ops.launch_cost.blend_launch.default
    return {"forward": lambda: operator(*values.values(), BLOCK, GRID)}


def of_triton(values: dict[str, Any]) -> dict[str, Launch]:
    from benchmarks.rivals import triton_kernels

    return {"forward": lambda: triton_kernels.blend[(1,)](*values.values(), SIZE=32)}


def main(quick: bool) -> None:
    values = arguments()
    gradients = {name: torch.ones_like(values[name]) for name in "abcy"}
    subjects = {
        "torch_slang.slangtorch": of_slangtorch(slangtorch.loadModule(str(SOURCE)), values, gradients),
        "torch_slang": of_ours(values, gradients),
        "torch.ops": of_operator(values),
    }
    notes = []
    if device() == "cuda" and importlib.util.find_spec("slangtorch"):
        import slangtorch as rival

        subjects["slangtorch"] = of_slangtorch(rival.loadModule(str(SOURCE)), values, gradients)
    else:
        notes.append("without slangtorch: not here, or no GPU")
    if device() == "cuda" and importlib.util.find_spec("triton"):
        subjects["Triton"] = of_triton(values)
    else:
        notes.append("without Triton: not here, or no GPU")
    expected = values["a"] * values["b"] + 3 * values["c"] + 1.5
    for name, launches in subjects.items():
        values["y"].zero_()
        launches["forward"]()
        if not torch.allclose(values["y"], expected):
            problem(f"{name}: wrong numbers")
    kinds = ["forward", "backward", "struct of views"]
    calls = {(name, kind): call for name, launches in subjects.items() for kind, call in launches.items()}
    medians = host_medians(calls, 100 if quick else 1000)
    rows = [[name, *(medians.get((name, kind), "") for kind in kinds)] for name in subjects]
    print_table(f"a launch of nine arguments on {device()}, us", ["", *kinds], rows, notes=notes, unit="us")
