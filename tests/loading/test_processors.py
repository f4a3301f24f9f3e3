"""Kernels of halves on every kind of processor, and what happens where a compiler gets code for this one wrong."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from long_tests import dear_file, dear_test, sampled, some_cases, some_tests

pytestmark = [
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the targets are x86's"),
    some_tests(1),
    dear_file,
]

COMPILER = os.environ.get("TORCH_SLANG_CXX") or os.environ.get("CXX") or "c++"
TARGETS = ["sapphirerapids", "znver4", "x86-64-v4", "x86-64-v3", "x86-64-v2"]

# Compiles for the processor that it is asked for, and hands out an object for any, since that one may not be here.
FOREIGN = f'#!/bin/sh\n{COMPILER} "$@" && exec {COMPILER} "$@" -march=x86-64 -O1\n'

HALVES = """
import torch
from function_references import BY_NAME
from test_functions import assert_agrees

for name, dtype in (("bounds", torch.float16), ("damped", torch.bfloat16)):
    assert_agrees(BY_NAME[name], BY_NAME[name].make([(9, 5)], dtype, torch.device("cpu")))
for dtype in (torch.float16, torch.bfloat16):
    x = torch.linspace(-2, 2, 7, dtype=dtype, requires_grad=True)
    torch.ops.slang.sqr(x).sum().backward()
    assert torch.equal(x.grad, 2 * x)
"""


def run(folder: Path, program: str, compiler: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """A process of its own, whose cache and compiler are in `folder`."""
    own = {"TORCH_SLANG_CACHE_DIR": str(folder / "cache"), "TORCH_SLANG_AUDIT": "off"}  # what is compiled is counted
    environment = {**os.environ, **own, **environment}
    folders = [str(Path(__file__).parents[1] / name) for name in ("helpers", "functions")]
    environment["PYTHONPATH"] = os.pathsep.join([*folders, environment.get("PYTHONPATH", "")])
    environment.pop("TORCH_SLANG_LOG", None)
    if compiler:
        script = folder / "compiler"
        if not script.exists():
            script.write_text(compiler)
            script.chmod(0o755)
        environment["TORCH_SLANG_CXX"] = str(script)
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("processors")


# The newest, which has instructions for halves, and the oldest, which has none.
@dear_test
@some_cases(1)
@pytest.mark.parametrize("target", sampled(TARGETS, lambda target: target in (TARGETS[0], TARGETS[-1])))
def test_halves_compile_for_every_processor(target: str, folder: Path) -> None:
    asked = [COMPILER, f"-march={target}", "-E", "-x", "c++", os.devnull]
    if subprocess.run(asked, capture_output=True, check=False).returncode != 0:
        pytest.skip(f"{COMPILER} does not know {target}")
    done = run(folder, HALVES, FOREIGN, TORCH_SLANG_CXXFLAGS=f"-march={target}")
    assert done.returncode == 0, done.stderr
    assert "refuses" not in done.stderr


# --- A compiler that is wrong about this processor

KERNEL = """
float ones(float x) { HOW }
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void doubled([Shape("N")] DiffTensorView<float> x, [Out("N")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < y.size(0)) y[i] = x[i] + x[i] * no_diff(ones(1));
}
"""
PROGRAM = """
import json, torch, torch_slang
module = torch_slang.load(source={source!r}, name="doubled.slang")
x = torch.ones(3, requires_grad=True)
error = ""
try:
    y = module.doubled(x)
    y.sum().backward()
    assert y.tolist() == x.grad.tolist() == [2, 2, 2]
except torch_slang.CompileError as wrong:
    error = str(wrong)
print(json.dumps(torch_slang.cache.stats() | {{"error": error}}))
"""
PLAIN = "return x;"
# Its assembler knows nothing of what it makes for REFUSED.
CONFUSED = f"""#!/bin/sh
case "$*" in *fsyntax-only*) exec {COMPILER} "$@";; esac
for word in "$@"; do case "$word" in -march=*) target="$word";; esac; done
case "$target" in REFUSED) echo "k.s:1182: Error: unsupported masking for \\`vmovsh'" >&2; exit 1;; esac
exec {COMPILER} "$@"
"""


def outcome(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def warnings_of(done: subprocess.CompletedProcess[str]) -> list[str]:
    return re.findall(r"^torch_slang: .* refuses .*$", done.stderr, re.MULTILINE)


@dear_test
@some_cases(1)
@pytest.mark.parametrize("refused", ["-march=native", "-march=native|-march=x86-64-v3"])
def test_what_is_refused_for_this_processor_is_compiled_for_a_plainer_one(refused: str, tmp_path: Path) -> None:
    program, compiler = PROGRAM.format(source=KERNEL.replace("HOW", PLAIN)), CONFUSED.replace("REFUSED", refused)
    first = run(tmp_path, program, compiler)
    assert outcome(first)["error"] == ""
    (warning,) = warnings_of(first)  # of two kernels
    assert re.search(r"are compiled with -march=x86-64(-v3)?, and may be slower", warning)
    second = run(tmp_path, program, compiler)
    assert outcome(second)["host_runs"] == 0
    assert warnings_of(second) == []


@some_cases(1)
@pytest.mark.parametrize(
    ("how", "message", "tries_plainer"),
    [
        # Not well formed, which is seen by looking once more.
        ('__intrinsic_asm "no_such_function($0)";', "no_such_function", False),
        # Well formed; then no target has the instruction.
        (r'__intrinsic_asm "({ asm(\"no_such_instruction\"); $0; })";', "no_such_instruction", True),
    ],
)
def test_a_mistake_of_the_users_is_no_matter_of_the_processor(
    how: str, message: str, tries_plainer: bool, tmp_path: Path
) -> None:
    log = tmp_path / "runs"
    compiler = f'#!/bin/sh\necho "$*" >> {log}\nexec {COMPILER} "$@"\n'
    # The user's C++ need not be of the forms that Slang writes.
    done = run(tmp_path, PROGRAM.format(source=KERNEL.replace("HOW", how)), compiler, TORCH_SLANG_CHECK_TEXTS="0")
    answer = outcome(done)
    assert message in answer["error"]
    assert answer["error"].count("doubled.slang does not compile for the CPU") == 1
    assert warnings_of(done) == []
    plainer = [one for one in log.read_text().splitlines() if "-march=x86-64" in one and "-fsyntax-only" not in one]
    assert bool(plainer) == tries_plainer


def test_what_a_compiler_cannot_do_is_found_out_once(tmp_path: Path) -> None:
    """Here: anything about halves, unless it is kept from one extension of the processor."""
    compiler = f"""#!/bin/sh
case "$*" in *-mno-avx512fp16*) exec {COMPILER} "$@";; esac
for word in "$@"; do case "$word" in *.cpp) grep -q "larger\\|kernel_of_halves" "$word" && exit 1;; esac; done
exec {COMPILER} "$@"
"""
    halves = KERNEL.replace("HOW", PLAIN).replace("float", "half")
    program = PROGRAM.format(source=halves).replace("doubled", "kernel_of_halves")
    program = program.replace("torch.ones(3,", "torch.ones(3, dtype=torch.half,")
    first = run(tmp_path, program, compiler)
    assert (outcome(first)["host_runs"], warnings_of(first)) == (
        4,
        [],
    )  # without and with it, then forward and backward
    assert outcome(run(tmp_path, program.replace("kernel_of", "other_kernel_of"), compiler))["host_runs"] == 2
    floats = run(tmp_path, PROGRAM.format(source=KERNEL.replace("HOW", PLAIN)), compiler)
    assert outcome(floats)["host_runs"] == 2
