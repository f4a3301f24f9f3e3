"""Loops over threads on the CPU vectorise: seen in the machine code that a process of its own compiles."""

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest
from long_tests import dear_test, some_cases

# Which instructions there are, and how many, depends on the processor that code is made for.
TARGET = "-march=x86-64-v3"
IS_HERE = platform.machine() == "x86_64" and " avx2 " in Path("/proc/cpuinfo").read_text()
pytestmark = pytest.mark.skipif(not IS_HERE, reason=f"the instructions looked for are those of {TARGET}")

KERNEL = """
import torch_slang;
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel] BLOCK
void scaled<T : IReal>(
    [Shape("N")] DiffTensorView<T> x, [Shape("N")] DiffTensorView<T> w, [Out("N")] DiffTensorView<T> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= x.size(0)) return;
    y[i] = x[i] * w[i];
}
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel] BLOCK
void twisted<T : __BuiltinFloatingPointType>(
    [Shape("N")] DiffTensorView<vector<T, 3>> a, [Shape("N")] DiffTensorView<vector<T, 3>> b,
    [Out("N")] DiffTensorView<vector<T, 3>> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= a.size(0)) return;
    y[i] = cross(a[i], b[i]);
}
"""
PROGRAM = """
import torch, torch_slang
torch_slang.load(source={source!r}, namespace="cpu_loops")
x, w = (torch.rand(5000, dtype=torch.{dtype}, requires_grad=True) for _ in range(2))
y = torch.ops.cpu_loops.scaled(x, w)
torch.testing.assert_close(y, x * w)
y.sum().backward()
torch.testing.assert_close(x.grad, w.detach())
a, b = torch.rand(2, 5000, 3, dtype=torch.{dtype})
torch.testing.assert_close(torch.ops.cpu_loops.twisted(a, b), torch.linalg.cross(a, b))
"""


def machine_code(source: str, dtype: str, folder: Path) -> list[str]:
    """The disassembly of the objects that `scaled`, its backward and `twisted` leave in a new cache."""
    program = PROGRAM.format(source=source, dtype=dtype)
    environment = {**os.environ, "TORCH_SLANG_CACHE_DIR": str(folder / "cache"), "TORCH_SLANG_CXXFLAGS": TARGET}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, timeout=300)
    texts = []
    for file in (folder / "cache").rglob("*"):
        if not file.is_file() or (start := file.read_bytes().find(b"\x7fELF")) < 0:
            continue
        elf = folder / f"{len(texts)}.so"
        elf.write_bytes(file.read_bytes()[start:])
        dump = subprocess.run(["objdump", "-d", elf], check=True, capture_output=True, text=True)
        texts.append(dump.stdout)
    return texts


def products(block: str, dtype: str, folder: Path) -> list[int]:
    """How many multiplications of vectors stand in each object; those of single numbers are the compiler's affair."""
    folder.mkdir()
    texts = machine_code(KERNEL.replace("BLOCK", block), dtype, folder)
    suffix = {"float32": "s", "float64": "d"}[dtype]
    return sorted(len(re.findall(rf"\bv?(?:mul|fmadd\d+)p{suffix}\b", text)) for text in texts)


@dear_test
@some_cases(1)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_loops_vectorise_and_a_fixed_block_changes_nothing(dtype: str, tmp_path: Path) -> None:
    found = products("", dtype, tmp_path / "any")
    assert len(found) == 3  # forward and backward of `scaled`, and `twisted`
    assert min(found) > 0
    assert products("[BlockSize(256, 1, 1)]", dtype, tmp_path / "fixed") == found
