"""``python -m benchmarks [--quick] [name...]``: all benchmarks, or those named. Values are checked before timing."""

from __future__ import annotations

import argparse
import platform

import torch

import torch_slang
from benchmarks import accumulation, bandwidth, cold_load, functions, host_cost

ALL = {
    "cold_load": cold_load.main,
    "host_cost": host_cost.main,
    "bandwidth": bandwidth.main,
    "accumulation": accumulation.main,
    "functions": functions.main,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*ALL, []], help="which (default: all)")
    parser.add_argument("--quick", action="store_true", help="small sizes: checks the harness, not the speed")
    arguments = parser.parse_args()
    machine = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{platform.processor()} CPU"
    versions = f"torch_slang {torch_slang.__version__}, torch {torch.__version__}"
    print(f"{versions}, {machine}, {torch.get_num_threads()} threads")
    for name in arguments.names or ALL:
        ALL[name](arguments.quick)


main()
