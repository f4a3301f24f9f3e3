"""Runs every kernel of the tests once on the GPU, forward and backward, for compute-sanitizer (gpu_check.sh)."""

import os
import sys
from pathlib import Path

os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"  # an allocation of its own for each tensor: overruns are seen
sys.path.extend(str(Path(__file__).resolve().parents[1] / "tests" / name) for name in ("helpers", "gradients", "waves"))

import test_held_sums
import test_tiled_waves
import torch
from cases import CASES
from test_accumulation import CASES as GATHERED

import torch_slang
from torch_slang import _C

SLANG_CRASHES = {"scaled"}  # the compiler's own bug: see tests/gradients/test_gradients.py


def main() -> None:
    count = 0
    for case in [*CASES, *GATHERED.values()]:
        if case.kernel in SLANG_CRASHES:
            continue
        results = case.op(*case.args("cuda"))
        for result in results if isinstance(results, tuple) else (results,):
            if result.requires_grad:
                result.backward(torch.ones_like(result), retain_graph=True)
        torch.cuda.synchronize()
        count += 1
    count += sums_of_blocks()
    print(f"values of {count} kernels computed")


def sums_of_blocks() -> int:
    """Kernels whose blocks add up in group-shared memory, in waves along x and in tiles."""
    _C.set_wave_sums(True)
    x, numbers, other = (torch.rand(n, device="cuda", requires_grad=True) for n in (1003, 4, 3))
    held = torch_slang.load(source=test_held_sums.SOURCE, name="held_sums", namespace="held_sums")
    for name in ("fitted", "fitted_in_rows"):
        getattr(held, name)(x, numbers, other, 2).sum().backward()
    tiled = torch_slang.load(source=test_tiled_waves.SOURCE, name="tiled_waves", namespace="tiled_waves")
    for tiles in (False, True):
        _C.set_tiled_waves_for_all(tiles)
        bumps = torch.rand(300, 4, device="cuda", requires_grad=True)
        tiled.drawn(bumps, torch.empty(35, 50, device="cuda")).sum().backward()
    torch.cuda.synchronize()
    return 4


main()
