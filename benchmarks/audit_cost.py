"""What audits of derivatives cost (docs/audit.md): a start, a training loop beside them, memory, one kernel."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks.cold_load import KERNELS, OURS
from benchmarks.measure import print_table

EXAMPLES = Path(__file__).parent.parent / "examples"
MODES = ("off", "background")

# A small model with operators of ours: milliseconds of a step while audits run, and of as many steps behind them.
# The loop asks for nothing of them and leaves no processor idle, so they may not end in its ten seconds.
TRAINING = """
import json, resource, statistics, sys, time, torch, torch_slang
device, count = sys.argv[1], int(sys.argv[2])
source = ""
for k in range(count):
    source += f"[Differentiable] float bent{k}(float x, float y) {{ return x * tanh({k + 1} * y) + sin(x); }}"
module = torch_slang.load(source=source)
weights = [torch.randn(128, 128, device=device, requires_grad=True) for _ in range(count)]
x = torch.randn(256, 128, device=device)
optimizer = torch.optim.SGD(weights, lr=1e-6)
def step():
    begin = time.perf_counter()
    y = x
    for k, weight in enumerate(weights):
        y = getattr(module, f"bent{k}")(y @ weight, y)
    optimizer.zero_grad()
    y.mean().backward()
    optimizer.step()
    if device == "cuda": torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - begin)
step()
began = time.perf_counter()
while time.perf_counter() < began + 2.5: step()  # audits begin two seconds behind the first backward
beside = []
while time.perf_counter() < began + 12.5: beside.append(step())
torch_slang.audit.wait()
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
behind = [step() for _ in beside]
print(json.dumps([statistics.fmean(beside), statistics.fmean(behind), memory]))
"""

CHECK = """
import contextlib, io, json, sys, torch_slang
from torch_slang.checks.audits import check_file
module = torch_slang.load(sys.argv[1], namespace="torch_slang_check")  # that is checked
with contextlib.redirect_stdout(io.StringIO()) as said:
    check_file(sys.argv[1], {}, [], sys.argv[2])
audits = [[f.name.split("::")[1], f.order, f.outcome, f.seconds] for f in torch_slang.audit.report()]
print(json.dumps([audits, said.getvalue().splitlines()]))
"""


def result_of(script: str, mode: str, *arguments: object) -> Any:
    """Of a process with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        variables = {"TORCH_SLANG_CACHE_DIR": folder, "TORCH_SLANG_AUDIT": mode, "CUDA_CACHE_DISABLE": "1"}
        command = [sys.executable, "-c", script, *map(str, arguments)]
        run = subprocess.run(command, env=os.environ | variables, check=True, capture_output=True, text=True)
    return json.loads(run.stdout.splitlines()[-1])


def paired(script: str, rounds: int, *arguments: object) -> dict[str, list[list[float]]]:
    """By mode, of processes in turn: what each tells."""
    results: dict[str, list[list[float]]] = {mode: [] for mode in MODES}
    for round_ in range(rounds):
        for mode in MODES[:: 1 if round_ % 2 == 0 else -1]:
            results[mode].append(result_of(script, mode, *arguments))
    return results


def medians(runs: list[list[float]], count: int) -> list[float]:
    return [statistics.median(run[i] for run in runs) for i in range(count)]


def main(quick: bool) -> None:
    rounds = 1 if quick else 7
    starts: list[list[object]] = []
    loops: list[list[object]] = []
    kernels: list[list[object]] = []
    for device in ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]:
        for mode, runs in paired(OURS, rounds, device, KERNELS / "cube.slang").items():
            starts.append([f"{device}, {mode}", *(1e3 * seconds for seconds in medians(runs, 2))])
        for mode, runs in paired(TRAINING, 1 if quick else 3, device, 1 if quick else 8).items():
            loops.append([f"{device}, {mode}", *medians(runs, 3)])
    notes: list[str] = []
    for file in [EXAMPLES / "cube.slang"] if quick else sorted(EXAMPLES.rglob("*.slang")):
        audits, said = result_of(CHECK, "first", file, "cpu")
        kernels += [[f"{file.stem}.{name}", order, outcome, seconds] for name, order, outcome, seconds in audits]
        notes += [f"{file.stem}.{line}" for line in said if " not audited: " in line]
    print_table("Cold load and first gradient, ms", ["", "load", "ready"], starts)
    print_table(
        "A training loop of 8 operators",
        ["", "ms a step beside audits", "ms a step behind them", "most memory, MiB"],
        loops,
    )
    print_table("Audits of the examples' kernels", ["", "order", "outcome", "seconds"], kernels, notes=notes)
