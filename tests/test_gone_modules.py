"""What a reload replaces gives its memory back: texts, compiled code, threads, and what those have kept."""

from __future__ import annotations

import subprocess
import sys

import pytest

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


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the memory")
@pytest.mark.parametrize("kind", TEXTS)
def test_a_reload_keeps_nothing_of_what_it_replaces(kind: str) -> None:
    program = PROGRAM.replace("COUNT", str(COUNT))
    done = subprocess.run(
        [sys.executable, "-c", program, kind, TEXTS[kind]], capture_output=True, text=True, check=True
    )
    reserved, resident = map(float, done.stdout.split())
    assert resident < 25, "KiB that each reload keeps"
    assert reserved < 1000, "KiB of addresses that each keeps: a thread's stack has 8 MiB"
