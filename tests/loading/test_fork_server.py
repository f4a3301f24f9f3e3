"""Compilers are forks of one that has loaded the core module (csrc/common/fork_server.h), and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from long_tests import some_tests
from slow_compilers import HOST, Project, is_running, wait_until

import torch_slang

pytestmark = some_tests(3)

LOADS = """
import os, sys, time, torch, torch_slang
from pathlib import Path

def load(name):
    path = Path(sys.argv[1]).with_name(name + ".slang")
    path.write_text(Path(sys.argv[1]).read_text().replace("doubled", name))
    x = torch.ones(3, requires_grad=True)
    y = getattr(torch_slang.load(path), name)(x)
    y.sum().backward()
    assert y.tolist() == x.grad.tolist() == [2.0, 2.0, 2.0]

def servers():
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"--forks" in status.with_name("cmdline").read_bytes():
                found.append(status.parent.name)
        except OSError:
            pass
    return found
"""


def output(project: Project, program: str, **environment: str) -> str:
    process = project.start(LOADS + program, **environment)
    said, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return said.strip()


def test_all_modules_are_compiled_by_forks_of_one_server(project: Project) -> None:
    program = """
paths = [Path(sys.argv[1]).with_name(name + ".slang") for name in ("first", "second", "third")]
seen = set()
for path in paths:
    path.write_text(Path(sys.argv[1]).read_text().replace("doubled", path.stem))
    torch_slang.load(path)
    while len(servers()) > 1:  # a fork has the server's command line
        time.sleep(0.01)
    seen.update(servers())
print(*seen)
"""
    [pid] = output(project, program).split()
    assert not is_running(int(pid))


def test_another_compiler_is_started_for_each_module(project: Project) -> None:
    real, runs = Path(torch_slang.__file__).parent / "bin" / "torch-slangc", project.folder / "runs"
    script = project.folder / "compiler"
    script.write_text(f'#!/bin/sh\necho run >> {runs}\nexec {real} "$@"\n')
    script.chmod(0o755)
    program = 'load("first")\nload("second")\nprint(servers())'
    assert output(project, program, TORCH_SLANG_COMPILER=str(script)) == "[]"
    assert runs.read_text() == "run\nrun\n"


def test_a_killed_process_takes_its_server_with_it(project: Project) -> None:
    ready = project.folder / "ready"
    program = """
load("first")
Path(sys.argv[2]).write_text(servers()[0] + ".")
time.sleep(600)
"""
    process = project.start(LOADS + program, str(ready))
    wait_until(lambda: ready.exists() and ready.read_text().endswith("."), "the first module")
    pid = ready.read_text().rstrip(".")
    assert is_running(int(pid))
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: not is_running(int(pid)), "the end of the server")


def test_a_fork_of_the_process_has_a_server_of_its_own(project: Project) -> None:
    program = """
load("first")
child = os.fork()
if child == 0:
    torch_slang.load(sys.argv[1])  # no backward: PyTorch's threads are the parent's
    assert servers()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
load("third")
print(len(servers()))
"""
    assert output(project, program) == "1"


def test_a_server_that_was_killed_is_followed_by_another(project: Project) -> None:
    program = """
load("first")
for one in servers():
    os.kill(int(one), 9)
load("second")
load("third")
print(len(servers()))
"""
    assert output(project, program) == "1"


# Tools that follow processes, as compute-sanitizer does, tell another program of each fork, and it knows only some.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
pid_t INTERCEPTED(void) {
  if (strcmp(program_invocation_short_name, "torch-slangc") == 0) {
    close(open(getenv("FORKS"), O_CREAT | O_WRONLY, 0600));
  }
  return ((pid_t (*)(void))dlsym(RTLD_NEXT, "fork"))();
}
"""


@pytest.mark.parametrize(("intercepted", "servers"), [("fork", "0"), ("another", "1")])
def test_nothing_forks_where_forks_are_intercepted(project: Project, intercepted: str, servers: str) -> None:
    source, library, forks = (project.folder / name for name in ("shim.c", "shim.so", "forks"))
    source.write_text(SHIM)
    options = ["-shared", "-fPIC", f"-DINTERCEPTED={intercepted}", "-x", "c", str(source), "-o", str(library), "-ldl"]
    subprocess.run([HOST, *options], check=True)
    program = 'load("first")\nload("second")\nprint(len(servers()))'
    assert output(project, program, LD_PRELOAD=str(library), FORKS=str(forks)) == servers
    assert not forks.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="who is not root has no rights to give up")
def test_a_process_that_gives_up_its_rights_ends_as_usual(project: Project) -> None:
    """The server may then not be killed any more."""
    program = """
load("first")
server = servers()
os.setresuid(65534, 65534, 65534)
print(*server)
"""
    [pid] = output(project, program).split()
    wait_until(lambda: not is_running(int(pid)), "the end of the server")
