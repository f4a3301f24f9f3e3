"""Memory that runs out while a kernel is loaded is an error of Python's, and the process goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from slow_compilers import Project

PROGRAM = """
import resource, sys, torch, torch_slang
x = torch.ones(3, requires_grad=True)
def use():
    y = torch_slang.load(sys.argv[1]).doubled(x)
    y.sum().backward()
    return y.tolist()
pages = int(open("/proc/self/statm").read().split()[0])
no_limit = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + int(sys.argv[2]), no_limit[1]))
try:
    use()
except (MemoryError, RuntimeError):
    pass
resource.setrlimit(resource.RLIMIT_AS, no_limit)
print(use())
"""


@pytest.mark.parametrize("left", [0, 300_000, 9_000_000])  # for the text, for a compiler's output, for threads
def test_memory_that_runs_out_does_not_end_the_process(left: int, tmp_path: Path) -> None:
    process = Project(tmp_path).start(PROGRAM, str(left))
    output, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert output == "[2.0, 2.0, 2.0]\n"
