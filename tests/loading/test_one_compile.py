"""One compile for one text: whoever asks for what another thread or process compiles waits for that."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from long_tests import dear_test, some_cases, some_tests
from slow_compilers import HOST, Project, SlowCompiler, interrupt, wait_until

import torch_slang

pytestmark = some_tests(2)

SLANG = Path(torch_slang.__file__).parent / "bin" / "torch-slangc"

# Threads that load the same file and call its kernel, once all processes are there and at the same time.
CROWD = """
import json, os, sys, threading, time, torch, torch_slang
results, threads = [], []
def call():
    try:
        x = torch.ones(3, requires_grad=True)
        y = torch_slang.load(sys.argv[1]).doubled(x)
        y.sum().backward()
        results.append(y.tolist() + x.grad.tolist())
    except torch_slang.CompileError as error:
        results.append(str(error))
open(os.path.join(os.environ["READY"], str(os.getpid())), "w").close()
while len(os.listdir(os.environ["READY"])) < int(sys.argv[3]):
    time.sleep(0.01)
for _ in range(int(sys.argv[2])):
    threads.append(threading.Thread(target=call))
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps({"results": results} | torch_slang.cache.stats()))
"""


class Compilers:
    """The usual ones, behind scripts that note each run and take some time."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "runs"
        self.log.touch()
        self.environment = {}
        for variable, program in (("TORCH_SLANG_COMPILER", SLANG), ("TORCH_SLANG_CXX", HOST)):
            script = folder / variable.lower()
            script.write_text(f'#!/bin/sh\necho {variable} >> {self.log}\nsleep 0.3\nexec {program} "$@"\n')
            script.chmod(0o755)
            self.environment[variable] = str(script)

    def runs(self) -> tuple[int, int]:
        lines = self.log.read_text().split()
        return lines.count("TORCH_SLANG_COMPILER"), lines.count("TORCH_SLANG_CXX")


@pytest.fixture
def compilers(tmp_path: Path) -> Compilers:
    return Compilers(tmp_path)


def crowd(project: Project, compilers: Compilers, processes: int, threads: int) -> list[dict[str, Any]]:
    ready = project.folder / "ready"
    ready.mkdir()
    environment = {**compilers.environment, "READY": str(ready), "OMP_NUM_THREADS": "1"}
    started = [project.start(CROWD, str(threads), str(processes), **environment) for _ in range(processes)]
    answers = []
    for process in started:
        output, said = process.communicate(timeout=300)
        assert process.returncode == 0, said
        answers.append(json.loads(output))
    return answers


RIGHT = [2.0, 2.0, 2.0, 2.0, 2.0, 2.0]


@some_cases(1)
@pytest.mark.parametrize(("processes", "threads"), [(1, 12), (4, 2)])
def test_threads_and_processes_that_ask_for_the_same_text_run_one_compile(
    processes: int, threads: int, project: Project, compilers: Compilers
) -> None:
    answers = crowd(project, compilers, processes, threads)
    assert [answer["results"] for answer in answers] == [[RIGHT] * threads] * processes
    assert compilers.runs() == (1, 2)  # one Program; forward and backward
    assert sum(answer["slang_runs"] for answer in answers) == 1
    assert project.leftovers() == []


@dear_test
def test_a_text_that_does_not_compile_is_an_error_for_all_at_once(project: Project, compilers: Compilers) -> None:
    project.source.write_text("[TorchOp] float wrong(float x) { return nothing; }")
    (answer,) = crowd(project, compilers, 1, 6)
    assert all("nothing" in result for result in answer["results"])
    assert project.leftovers() == []


@dear_test
@some_cases(1)
@pytest.mark.parametrize("cache", ["a file/cache", "others may write"])
def test_without_a_usable_cache_nobody_waits(cache: str, project: Project, compilers: Compilers) -> None:
    (project.folder / "a file").touch()
    project.cache = project.folder / cache
    if cache == "others may write":
        project.cache.mkdir()
        project.cache.chmod(0o777)
    (answer,) = crowd(project, compilers, 1, 3)
    assert answer["results"] == [RIGHT] * 3


FORKED = """
import os, signal, sys, threading, time, torch, torch_slang
x, call = torch.ones(3), torch_slang.load(sys.argv[1]).doubled
thread = threading.Thread(target=call, args=(x,))
thread.start()
while "TORCH_SLANG_CXX" not in open(sys.argv[2]).read():
    time.sleep(0.01)
child = os.fork()
if child == 0:
    signal.alarm(60)
    os._exit(call(x).tolist() != [2.0, 2.0, 2.0])
print(os.waitpid(child, 0)[1])
thread.join()
"""


def test_a_fork_does_not_wait_for_a_thread_of_its_parent(project: Project, compilers: Compilers) -> None:
    process = project.start(FORKED, str(compilers.log), **compilers.environment)
    output, said = process.communicate(timeout=120)
    assert output == "0\n", said


ALONE = """
import os, sys, torch, torch_slang
print(torch_slang.load(sys.argv[1]).doubled(torch.ones(3)).tolist(), flush=True)
"""


def waiting(project: Project, compiler: SlowCompiler) -> tuple[subprocess.Popen[str], subprocess.Popen[str]]:
    """A process whose compiler never ends, and one with the usual compiler, which waits for it."""
    slang = {"TORCH_SLANG_COMPILER": str(project.folder / "slang")}
    script = Path(slang["TORCH_SLANG_COMPILER"])  # the same program for both: it is part of the key
    script.write_text(f'#!/bin/sh\ntest "$SLOW" && exec {compiler.path}\nexec {SLANG} "$@"\n')
    script.chmod(0o755)
    owner = project.start(ALONE, SLOW="1", **slang)
    compiler.wait_for_start()
    other = project.start(ALONE, TORCH_SLANG_LOG="warning", **slang)
    assert other.stderr is not None
    lines = iter(other.stderr.readline, "")
    line = next(line for line in lines if "waiting" in line)
    assert line == f"torch_slang: waiting for {project.source}, which another thread or process is compiling ...\n"
    return owner, other


def test_if_the_owner_is_killed_another_takes_over(project: Project, tmp_path: Path) -> None:
    owner, other = waiting(project, SlowCompiler(tmp_path))
    owner.kill()
    owner.communicate(timeout=30)
    output, said = other.communicate(timeout=60)
    assert output == "[2.0, 2.0, 2.0]\n", said
    assert list(project.cache.rglob("*.lock")) == []


@dear_test
def test_if_the_owner_is_interrupted_others_go_on(project: Project, tmp_path: Path) -> None:
    owner, other = waiting(project, SlowCompiler(tmp_path))
    interrupt(owner)
    assert "KeyboardInterrupt" in owner.communicate(timeout=30)[1]
    output, said = other.communicate(timeout=60)
    assert output == "[2.0, 2.0, 2.0]\n", said


@dear_test
def test_who_waits_can_be_interrupted(project: Project, tmp_path: Path) -> None:
    compiler = SlowCompiler(tmp_path)
    owner, other = waiting(project, compiler)
    try:
        interrupt(other)
        assert "KeyboardInterrupt" in other.communicate(timeout=30)[1]
        assert not compiler.are_gone()  # it is the other's
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.communicate(timeout=30)
    wait_until(compiler.are_gone, "the compilers' end")


@dear_test
def test_an_owner_that_hangs_is_not_waited_for_for_ever(project: Project, tmp_path: Path) -> None:
    owner, other = waiting(project, SlowCompiler(tmp_path))
    other.kill()
    other.communicate(timeout=30)
    owner.send_signal(signal.SIGSTOP)
    slang = str(project.folder / "slang")
    # Of a time limit of two seconds four are waited; the owner's own compiler would be stopped after that as well.
    impatient = project.start(ALONE, TORCH_SLANG_COMPILER=slang, TORCH_SLANG_COMPILE_TIMEOUT="2")
    output, said = impatient.communicate(timeout=60)
    os.kill(owner.pid, signal.SIGKILL)
    owner.communicate(timeout=30)
    assert output == "[2.0, 2.0, 2.0]\n", said
