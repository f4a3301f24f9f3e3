"""What a reload replaces gives its memory back: texts, compiled code, threads, and what those have kept."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from long_tests import dear_test, sampled, some_cases, some_tests

pytestmark = some_tests(2)

KERNEL = """
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel] TUNE
void of_module([Shape("N")] DiffTensorView<float> x, [Out("N")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < x.size(0)) y[i] = FACTOR * x[i];
}
"""
TEXTS = {
    "kernel": KERNEL.replace("TUNE", ""),
    "tuned": KERNEL.replace("TUNE", '[Tune("TIMES", "1, 2")]').replace("FACTOR", "TIMES * FACTOR"),
    "function": "[Differentiable] float of_module(float x) { return FACTOR * x; }",
    "epilogue": "[Differentiable] float of_module(float sum, float x) { return FACTOR * sum + x; }",
}

# Two texts take turns, so that each is compiled once.
PROGRAM = """
import ctypes, gc, sys, torch, torch_slang
kind, text = sys.argv[1:]
x, square = torch.ones(3, requires_grad=True), torch.ones(3, 3)

def use(i):
    source = text.replace("FACTOR", str(i % 2 + 1))
    if kind == "epilogue":
        y = torch_slang.matmul_with_epilogue(source)(square, square, x)
    else:
        y = torch_slang.load(source=source, name="gone").of_module(x)
    y.sum().backward()

def memory():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return [4 * int(pages) for pages in open("/proc/self/statm").read().split()[:2]]

for i in range(6):
    use(i)
before = memory()
for i in range(COUNT):
    use(i)
for grown in (now - then for now, then in zip(memory(), before)):
    print(grown / COUNT)
"""
COUNT = 20


UNLOADED = """
import sys, torch, torch_slang
from pathlib import Path
objects = Path(sys.argv[1]) / "object"
def use(factor, gradient):
    x = torch.ones(3, requires_grad=gradient)
    y = torch_slang.load(source=sys.argv[2].replace("FACTOR", factor), name="gone").of_module(x)
    if gradient:
        y.sum().backward()
use("2", True)
first = {path.name for path in objects.iterdir()}
use("3", False)
mapped = Path("/proc/self/maps").read_text()
print(len(first), sum(name in mapped for name in first))
"""


@dear_test
@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for what is mapped")
def test_the_code_of_what_was_replaced_is_unloaded(tmp_path: Path) -> None:
    environment = {**os.environ, "TORCH_SLANG_CACHE_DIR": str(tmp_path)}
    program = [sys.executable, "-c", UNLOADED, str(tmp_path), TEXTS["kernel"]]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
    compiled, mapped = map(int, done.stdout.split())
    assert compiled >= 2
    assert mapped == 0


@dear_test
@some_cases(1)
@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the memory")
@pytest.mark.parametrize(
    ("cxxflags", "kind"),  # the second is some compilers' default: a copy in each library, whatever it was made of
    sampled(
        itertools.product(["", "-static-libstdc++"], TEXTS), lambda cxxflags, kind: not cxxflags or kind == "kernel"
    ),
)
def test_a_reload_keeps_nothing_of_what_it_replaces(kind: str, cxxflags: str) -> None:
    program = PROGRAM.replace("COUNT", str(COUNT))
    environment = {**os.environ, "MALLOC_ARENA_MAX": "1"}  # a thread that comes at another time may begin one
    environment["TORCH_SLANG_CXXFLAGS"] = f"{environment.get('TORCH_SLANG_CXXFLAGS', '')} {cxxflags}".strip()
    done = subprocess.run(
        [sys.executable, "-c", program, kind, TEXTS[kind]], env=environment, capture_output=True, text=True, check=True
    )
    reserved, resident = map(float, done.stdout.split())
    assert resident < 25, "KiB that each reload keeps"
    assert reserved < 1000, "KiB of addresses that each keeps: a thread's stack has 8 MiB"
