"""load() returns once the module is described; its texts are made meanwhile, and the first call waits for them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cases import FOLDER
from long_tests import dear_file, dear_test, some_tests
from slow_compilers import Project

import torch_slang

pytestmark = [some_tests(2), dear_file]

# torch-slangc, which goes on behind the description once there is a file, and may then end as it is told to.
GATED = """#!{python}
import os, subprocess, sys, time
real = subprocess.run([{real!r}, *sys.argv[1:]], stdin=sys.stdin, stdout=subprocess.PIPE)
description, line, texts = real.stdout.partition(b"\\n")
sys.stdout.buffer.write(description + line)
sys.stdout.flush()
while line and not os.path.exists({gate!r}):
    time.sleep(0.01)
ending = os.environ.get("ENDING", "")
if line and ending == "signal":
    os.kill(os.getpid(), 9)
if line and ending == "status":
    print("the texts cannot be had", file=sys.stderr)
    sys.exit(1)
sys.stdout.buffer.write(texts)
sys.exit(real.returncode)
"""
BEGINS = """
import os, sys, torch, torch_slang
x = torch.ones(3)
def open_gate():
    open({gate!r}, "w").close()
def runs():
    return torch_slang.cache.stats()["slang_runs"]
module = torch_slang.load(sys.argv[1])
assert "doubled" in str(torch.ops.slang.doubled.default._schema)
"""


def outcome(project: Project, program: str, ending: str = "") -> str:
    real, gate = Path(torch_slang.__file__).parent / "bin" / "torch-slangc", str(project.folder / "gate")
    gated = project.folder / "gated"
    if not gated.exists():  # what another compiler made is not used
        gated.write_text(GATED.format(python=sys.executable, real=str(real), gate=gate))
        gated.chmod(0o755)
    process = project.start(BEGINS.format(gate=gate) + program, TORCH_SLANG_COMPILER=str(gated), ENDING=ending)
    try:
        output, said = process.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert process.returncode == 0, said
    return output.strip()


def test_a_load_returns_before_the_texts_are_made(project: Project) -> None:
    program = "open_gate(); print(module.doubled(x).tolist(), runs())"
    assert outcome(project, program) == "[2.0, 2.0, 2.0] 1"


def test_loading_the_same_again_waits_for_the_texts(project: Project) -> None:
    program = "open_gate(); print(torch_slang.load(sys.argv[1]) is module, runs())"
    assert outcome(project, program) == "True 1"


@dear_test
@pytest.mark.parametrize("ending", ["signal", "status"])
def test_texts_of_a_compiler_that_ends_are_asked_for_again(ending: str, project: Project) -> None:
    program = "open_gate(); print(module.doubled(x).tolist())"
    assert outcome(project, program, ending) == "[2.0, 2.0, 2.0]"


def test_a_fork_has_its_texts_made_itself(project: Project) -> None:
    program = """
child = os.fork()
if child == 0:
    os._exit(module.doubled(x).tolist() != [2.0, 2.0, 2.0])
print(os.waitpid(child, 0)[1])
open_gate()
"""
    assert outcome(project, program) == "0"


MORE = """
[AutoPyBindCUDA] [CUDAKernel]
void moved(TensorView<float> x, TensorView<float> y)
{
    uint3 at = cudaThreadIdx() + cudaBlockIdx() * cudaBlockDim();
    if (at.x < x.size(0)) y[at.x] = 2.0 * offset_from_header(x[at.x]);
}
"""


def test_headers_of_texts_that_were_asked_for_again_are_watched(project: Project) -> None:
    header = project.folder / "slangtorch_prelude.cuh"
    shutil.copy(FOLDER / header.name, header)
    kernels = (FOLDER / "slangtorch_prelude.slang").read_text() + MORE
    project.source.write_text(project.source.read_text() + kernels)
    program = """
open_gate()
y = torch.zeros(3)
module.moved_launch(x=x, y=y, block_size=(32, 1, 1), grid_size=(1, 1, 1))
print(y.tolist())
"""
    assert outcome(project, program, "signal") == "[6.0, 6.0, 6.0]"
    header.write_text(header.read_text().replace("2.0f", "3.0f"))
    assert outcome(project, program, "signal") == "[8.0, 8.0, 8.0]"


@pytest.mark.parametrize(("source", "more"), [("pointwise.slang", ""), ("slangtorch_prelude.slang", MORE)])
def test_texts_do_not_depend_on_how_many_processes_made_them(source: str, more: str, tmp_path: Path) -> None:
    """By one process on one processor, by several else. The second source has a header beside it."""
    shutil.copy(FOLDER / "slangtorch_prelude.cuh", tmp_path)
    path = tmp_path / source
    path.write_text((FOLDER / source).read_text() + more)
    compile_it = [str(Path(torch_slang.__file__).parent / "bin" / "torch-slangc"), str(path)]
    processors = os.sched_getaffinity(0)
    if len(processors) == 1:
        pytest.skip("one processor")
    alone = {min(processors)}
    by_one = subprocess.run(
        compile_it, capture_output=True, check=True, preexec_fn=lambda: os.sched_setaffinity(0, alone)
    )
    program = json.loads(by_one.stdout)
    assert len(program["texts"]) > 1
    assert any(file["path"].endswith(".cuh") for file in program["files"]) == bool(more)
    assert subprocess.run(compile_it, capture_output=True, check=True).stdout == by_one.stdout
