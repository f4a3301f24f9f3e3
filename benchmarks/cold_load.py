"""From a one-kernel file to a forward and a backward that ran: nothing cached, and everything cached.

Each number is a process of its own, with torch imported and the device ready before the clock starts.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from benchmarks.measure import print_table

KERNELS = Path(__file__).with_name("kernels")

OURS = """
import json, sys, time, torch
device = sys.argv[1]
x = torch.randn(1000, device=device, requires_grad=True)
(x * x).backward(torch.ones_like(x))  # torch imports what it needs for that
import torch_slang
begin = time.perf_counter()
module = torch_slang.load(sys.argv[2])
loaded = time.perf_counter()
y = module.cube(x)
y.backward(torch.ones_like(y))
if device == "cuda": torch.cuda.synchronize()
print(json.dumps([loaded - begin, time.perf_counter() - begin, torch_slang.cache.stats()]))
"""

SLANGTORCH = """
import json, sys, time, torch
x = torch.randn(1000, device="cuda")
(x * x).sum()
import slangtorch
begin = time.perf_counter()
module = slangtorch.loadModule(sys.argv[2])
loaded = time.perf_counter()
y, gx, gy = torch.empty_like(x), torch.zeros_like(x), torch.ones_like(x)
module.cube(x=x, y=y).launchRaw(blockSize=(256, 1, 1), gridSize=(4, 1, 1))
module.cube.bwd(x=(x, gx), y=(y, gy)).launchRaw(blockSize=(256, 1, 1), gridSize=(4, 1, 1))
torch.cuda.synchronize()
print(json.dumps([loaded - begin, time.perf_counter() - begin, {}]))
"""


def run(script: str, device: str, file: Path, cache: str) -> tuple[float, float, dict[str, int]]:
    environment = os.environ | {"TORCH_SLANG_CACHE_DIR": cache, "CUDA_CACHE_DISABLE": "1"}
    output = subprocess.run(
        [sys.executable, "-c", script, device, str(file)], env=environment, check=True, capture_output=True, text=True
    ).stdout
    load, total, stats = json.loads(output.splitlines()[-1])
    return load, total, stats


def cold_and_cached(script: str, device: str, file: Path, rounds: int) -> list[object]:
    """Milliseconds: the best of `rounds` cold runs (the first reads the compiler from the disk), and of cached ones."""
    with tempfile.TemporaryDirectory() as folder:
        cold = [run(script, device, file, f"{folder}/{i}")[:2] for i in range(rounds)]
        cached = [run(script, device, file, f"{folder}/0")[:2] for _ in range(rounds)]
    best_cold, best_cached = min(cold, key=lambda t: t[1]), min(cached, key=lambda t: t[1])
    return [1e3 * t for t in (*best_cold, *best_cached)]


def main(quick: bool) -> None:
    rounds = 1 if quick else 2
    rows: list[list[object]] = []
    for device in ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]:
        rows.append([f"torch_slang {device}", *cold_and_cached(OURS, device, KERNELS / "cube.slang", rounds)])
    if torch.cuda.is_available() and importlib.util.find_spec("slangtorch"):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "cube.slang"  # slangtorch caches beside the file
            copy.write_text((KERNELS / "cube_slangtorch.slang").read_text())
            cold = run(SLANGTORCH, "cuda", copy, folder)
            cached = run(SLANGTORCH, "cuda", copy, folder)
        rows.append(["slangtorch cuda", *[1e3 * t for t in (*cold[:2], *cached[:2])]])
    print_table(
        "Load of a one-kernel file, ms (ready: forward and backward have run)",
        ["", "cold load", "cold ready", "cached load", "cached ready"],
        rows,
    )
