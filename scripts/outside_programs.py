"""Runs the kernels of two public repositories through torch_slang.slangtorch and compares them with references.

    python scripts/outside_programs.py --radiance-meshes CHECKOUT --triangle-rasterization CHECKOUT [--device cpu|cuda]
        [--only extraction,rasterization,radiance,tracers] [--against slangtorch] [--json FILE]

The checkouts are of half-potato/radiance_meshes and danielxu9393/triangle-rasterization. Their Python calls their
kernels as it is, with `slangtorch` redirected; what they compile from CUDA C++ (sums, sorting) is PyTorch's instead.
Where they have no Python without OptiX, the kernels are called as theirs calls them. It wants einops, numpy and scipy.

Each row of the table is a kernel or its backward: how many processor seconds its first launch took, which compiles it,
and NVRTC; whether all that was compared agrees with the references, most of them in float64 (scripts/outside/); and the
largest error: of numbers as a part of the reference's largest, of whole numbers how many differ. On a GPU the same runs
on the CPU too, and the largest difference of the two is told; with `--against slangtorch` so is that from slangtorch
itself, which must be installed and takes its minutes to compile.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slangtorch_evidence import mean_cpu_by_cuda

PARTS = {  # and whose checkout they run
    "extraction": "triangle_rasterization",
    "rasterization": "triangle_rasterization",
    "radiance": "radiance_meshes",
    "tracers": "radiance_meshes",
}


# --- In the process that runs one part


def compile_for_gpu(loads: Any, table: Any) -> dict[str, Any]:
    """By NVRTC, every kernel that was loaded and every backward that was launched: seconds, or what it says."""
    from outside.cases import processor_seconds

    from torch_slang.slangtorch._load import _wrapped

    modules = {id(wrapped): module for module, wrapped in _wrapped.items()}
    found: dict[str, Any] = {}
    for file, wrapped in loads.modules:
        handle = modules[id(wrapped)]._handle
        for kernel in handle.operators():
            if handle.describe(kernel)["launch"] is None:
                continue
            for backward in (False, True):
                key = f"{file}|{kernel}|{backward}"
                if key in found or (backward and (file, kernel, True) not in table.rows):
                    continue
                table.row(file, kernel, backward)
                start = processor_seconds()
                try:
                    handle.cubin(kernel, "bwd" if backward else "launch", [])
                    found[key] = processor_seconds() - start
                except RuntimeError as error:
                    found[key] = str(error).splitlines()[0]
    return found


def do_job(job: dict[str, Any]) -> None:
    import torch
    from outside import cases

    checkout = Path(job["checkout"])
    sys.path.insert(0, str(checkout))
    if job["device"] == "cpu":
        mean_cpu_by_cuda()
        torch.cuda.synchronize = lambda *_: None
    cases.redirect(job["implementation"])
    cases.stand_in_for_packages()
    table = cases.Table(torch.device(job["device"]))
    loads = cases.Loads(table, [checkout])
    if job["implementation"] == "torch_slang":
        loads.watch()
    failures: list[str] = []
    for case in importlib.import_module(f"outside.{job['part']}").CASES:
        try:
            case(table, checkout)
        except Exception:
            failures.append(f"{case.__name__}: {traceback.format_exc()}")
    gpu = compile_for_gpu(loads, table) if job["compile_for_gpu"] else {}
    rows = [
        {
            "part": job["part"],
            "file": row.file,
            "kernel": row.kernel,
            "backward": row.backward,
            "reference": row.reference,
            "seconds": row.seconds,
            "load": loads.load_seconds.get(row.file),
            "gpu": gpu.get(f"{row.file}|{row.kernel}|{row.backward}"),
            "errors": {check.name: check.error for check in row.checks},
            "disagree": [check.name for check in row.checks if not check.agrees],
            "numbers": {check.name: check.got.detach().cpu() for check in row.checks},
        }
        for row in table.rows.values()
    ]
    torch.save({"rows": rows, "failures": failures}, job["results"])


# --- In the process that starts the others


@dataclass(frozen=True)
class Run:
    implementation: str
    device: str


def start(part: str, checkout: Path, run: Run, compiling: bool, scratch: Path) -> dict[str, Any]:
    """In a process and with a cache of its own, so that every first launch compiles."""
    import torch

    results = scratch / f"{part}_{run.implementation}_{run.device}.pt"
    job = {
        "part": part,
        "checkout": str(checkout),
        "implementation": run.implementation,
        "device": run.device,
        "compile_for_gpu": compiling,
        "results": str(results),
    }
    root = Path(__file__).resolve().parents[1]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]),
        "TORCH_SLANG_CACHE_DIR": str(results.with_suffix(".cache")),
        "TORCH_SLANG_COMPILE_TIMEOUT": "1200",  # the longest take minutes on a busy machine
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, str(Path(__file__).resolve()), "--job", json.dumps(job)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if not results.exists():
        return {"rows": [], "failures": [f"{part}: {(done.stdout + done.stderr)[-3000:]}"]}
    return torch.load(results, weights_only=False)


def difference(row: dict[str, Any], other: dict[str, Any]) -> float | None:
    """The largest, of all that the two have in common."""
    from outside.cases import difference as of_tensors

    found = [
        of_tensors(numbers, other["numbers"][name]) if numbers.shape == other["numbers"][name].shape else float("inf")
        for name, numbers in row["numbers"].items()
        if name in other["numbers"]
    ]
    return max(found, default=None)


def seconds_of(value: float | str | None) -> str:
    return "-" if value is None else value if isinstance(value, str) else f"{value:.1f}"


def cells(row: dict[str, Any], others: list[dict[str, Any] | None]) -> Iterator[str]:
    yield row["file"]
    yield row["kernel"] + (", backward" if row["backward"] else "")
    yield seconds_of(row["seconds"])
    yield seconds_of(row["gpu"])
    yield "not run" if not row["errors"] else ("no: " + ", ".join(row["disagree"]) if row["disagree"] else "yes")
    yield f"{max(row['errors'].values()):.1e}" if row["errors"] else "-"
    yield row["reference"] or "-"
    for other in others:
        apart = difference(row, other) if other else None
        yield "-" if apart is None else f"{apart:.1e}"


def show(runs: list[Run], results: list[dict[str, Any]]) -> bool:
    main, *others = results
    keyed = [{(r["file"], r["kernel"], r["backward"]): r for r in one["rows"]} for one in others]
    good = not any(one["failures"] for one in results)
    for row in main["rows"]:
        key = (row["file"], row["kernel"], row["backward"])
        print("| " + " | ".join(cells(row, [one.get(key) for one in keyed])) + " |", flush=True)
        good = good and not row["disagree"] and not isinstance(row["gpu"], str)
    for run, one in zip(runs, results, strict=True):
        for failure in one["failures"]:
            print(f"FAILED ({run.implementation}, {run.device}): {failure}", flush=True)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--radiance-meshes", type=Path)
    parser.add_argument("--triangle-rasterization", type=Path)
    parser.add_argument("--device", choices=("cpu", "cuda"))
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--against", choices=("slangtorch",))
    parser.add_argument("--json", type=Path, help="the rows, for other programs")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        do_job(json.loads(options.job))
        return 0
    import torch

    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    runs = [Run("torch_slang", device)]
    runs += [Run("torch_slang", "cpu")] if device == "cuda" else []
    runs += [Run(options.against, "cuda")] if options.against else []
    titles = ["file", "kernel", f"first launch on {device}, s", "NVRTC, s", "agrees", "largest error", "reference"]
    titles += [f"from {run.implementation} on {run.device}" for run in runs[1:]]
    print("| " + " | ".join(titles) + " |\n|" + "---|" * len(titles), flush=True)
    good, rows = True, []
    with tempfile.TemporaryDirectory() as scratch:
        for part in options.only.split(","):
            checkout = getattr(options, PARTS[part])
            if checkout is None:
                continue
            results = [start(part, checkout.resolve(), run, not n, Path(scratch)) for n, run in enumerate(runs)]
            good = show(runs, results) and good
            rows += [{k: v for k, v in row.items() if k != "numbers"} for row in results[0]["rows"]]
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
