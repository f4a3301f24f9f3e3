"""Compilers that never end, and processes that wait for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

HOST = os.environ.get("TORCH_SLANG_CXX") or os.environ.get("CXX") or "c++"

KERNEL = """
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void doubled([Shape("N")] DiffTensorView<float> x, [Out("N")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < y.size(0)) y[i] = 2 * x[i];
}
"""


def wait_until(holds: Callable[[], bool], what: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"{what} did not happen in {seconds} s"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """A zombie is not: who has to take notice of it may be gone as well."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


class SlowCompiler:
    """A driver with a helper, as C++ compilers are; both sleep, having noted who they are."""

    def __init__(self, folder: Path) -> None:
        self.noted = folder / "started"
        self.noted.touch()
        self.path = folder / "slow"
        self.path.write_text(f'#!/bin/sh\nsleep 600 &\necho "$$ $!" >> {self.noted}\nwait\n')
        self.path.chmod(0o755)

    def pids(self) -> list[int]:
        lines = self.noted.read_text().splitlines(keepends=True)
        return [int(pid) for line in lines if line.endswith("\n") for pid in line.split()]

    def wait_for_start(self, count: int = 1) -> None:
        wait_until(lambda: len(self.pids()) >= 2 * count, "the start of the compiler")

    def are_gone(self) -> bool:
        return not any(is_running(pid) for pid in self.pids())


class Project:
    """Folders of a test's own for the cache and what is temporary, and processes that use them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        self.source = folder / "doubled.slang"
        self.source.write_text(KERNEL)

    def start(self, program: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        own = {"TORCH_SLANG_CACHE_DIR": str(self.cache), "TMPDIR": str(self.temporary)}
        own["TORCH_SLANG_AUDIT"] = "off"  # what is compiled is counted
        inherited = {name: value for name, value in os.environ.items() if name != "TORCH_SLANG_LOG"}
        return subprocess.Popen(
            [sys.executable, "-c", program, str(self.source), *arguments],
            env=inherited | own | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def leftovers(self) -> list[str]:
        return [path.name for path in self.temporary.iterdir()] + [str(path) for path in self.cache.rglob("*.lock")]


def interrupt(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
