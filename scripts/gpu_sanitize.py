"""Runs every kernel of the tests once on the GPU, forward and backward, for compute-sanitizer (gpu_check.sh)."""

import os
import sys
from pathlib import Path

os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"  # an allocation of its own for each tensor: overruns are seen
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import torch
from cases import CASES
from test_accumulation import CASES as GATHERED

SLANG_CRASHES = {"scaled"}  # the compiler's own bug: see tests/test_gradients.py


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
    print(f"values of {count} kernels computed")


main()
