"""The machine and its limits: what it is, the bytes it copies and the operations it does in a millisecond."""

from __future__ import annotations

import datetime
import functools
import importlib.metadata
import platform
import statistics
import sys
from pathlib import Path

import torch

import torch_slang
from benchmarks.measure import device, samples


def description() -> dict[str, str]:
    """Date, machine and versions, as words."""
    described = {"device": torch.cuda.get_device_name() if torch.cuda.is_available() else processor()}
    if torch.cuda.is_available():
        described |= {"beside": processor(), "CUDA": str(torch.version.cuda)}
        driver = Path("/proc/driver/nvidia/version")
        if driver.exists():
            words = driver.read_text().split()
            described["driver"] = next((word for word in words if word[0].isdigit() and "." in word), "?")
    return described | {
        "threads": str(torch.get_num_threads()),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "torch_slang": torch_slang.__version__,
        "torch": torch.__version__,
        "Python": platform.python_version(),
        **{name: found for name in ("triton", "slangtorch") if (found := _version(name))},
        **({"cupy": found} if (found := _cupy_version()) else {}),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cupy_version() -> str | None:
    """Wheels of cupy have the CUDA version in their names."""
    names = ("cupy", "cupy-cuda13x", "cupy-cuda12x")
    return next((found for name in names if (found := _version(name))), None)


def processor() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


@functools.cache
def copied(size: int, on: str | None = None) -> float:
    """Bytes moved in a millisecond by a copy that reads and writes `size` bytes in all."""
    on = on or device()
    source = torch.ones(max(1, size // 8), device=on)
    target = torch.empty_like(source)
    taken = samples({"copy": lambda: target.copy_(source)}, on)["copy"]
    return 2 * source.nbytes / statistics.median(taken)


@functools.cache
def operations(dtype: torch.dtype, on: str | None = None, quick: bool = False) -> float:
    """Operations done in a millisecond by a matrix product of that type, a multiplication and an addition being two."""
    on = on or device()
    size = 256 if quick else 8192 if on == "cuda" else 1024
    a = torch.randn(size, size, device=on).to(dtype)
    taken = samples({"product": lambda: a @ a}, on, rounds=10)["product"]
    return 2 * size**3 / statistics.median(taken)
