"""Ctrl-C while a compiler runs, a parent that dies, and compilers that take too long."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from long_tests import dear_test, some_cases, some_tests
from slow_compilers import HOST, KERNEL, Project, SlowCompiler, interrupt, wait_until

pytestmark = some_tests(2)

TUNED = (
    KERNEL.replace("doubled", "tripled")
    .replace("[CudaKernel]", '[CudaKernel] [Tune("TIMES", "3, 1 + 2, 4 - 1")]')
    .replace("2 *", "(TIMES) *")
)

PREPARE = """
import os, sys, threading, torch, torch_slang
def slow(variable):
    os.environ[variable] = sys.argv[2]
def quick():
    os.environ.pop("TORCH_SLANG_COMPILER", None)
    os.environ["TORCH_SLANG_CXX"] = "THE_USUAL"
def load():
    return torch_slang.load(sys.argv[1])
def tuned():
    return torch_slang.load(source=TUNED, name="tuned")
quick()
x = torch.ones(3)
""".replace("THE_USUAL", HOST).replace("TUNED", repr(TUNED))

# What waits for a compiler: (what comes before, what is interrupted).
WAITS = {
    "load": ("slow('TORCH_SLANG_COMPILER')", "load()"),
    "first call": ("module = load(); slow('TORCH_SLANG_CXX')", "module.doubled(x)"),
    "torch.ops": ("load(); slow('TORCH_SLANG_CXX')", "torch.ops.slang.doubled(x)"),
    "types of a first call": (
        "module = torch_slang.load(source='T twice<T : IFloat>(T x) { return x + x; }'); slow('TORCH_SLANG_COMPILER')",
        "module.twice(x.double())",
    ),
    "backward compiled ahead": (
        "module = load(); module.doubled(x); slow('TORCH_SLANG_CXX'); x.requires_grad_(); y = module.doubled(x)",
        "y.sum().backward()",
    ),
    "variants of a tuned first call": ("module = tuned(); slow('TORCH_SLANG_COMPILER')", "module.tripled(x)"),
    "code of a tuned first call": ("module = tuned(); slow('TORCH_SLANG_CXX')", "module.tripled(x)"),
    "another thread's compile": (
        "module = load(); slow('TORCH_SLANG_CXX'); "
        "threading.Thread(target=lambda: module.doubled(x), daemon=True).start()",
        "module.doubled(x)",
    ),
}
INTERRUPTED = """
{before}
try:
    {interrupted}
    print("it came to an end")
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
USABLE = """
quick()
y = load().doubled(torch.ones(3, requires_grad=True))
y.sum().backward()
print(y.tolist())
"""


@pytest.fixture
def compiler(tmp_path: Path) -> SlowCompiler:
    return SlowCompiler(tmp_path)


@some_cases(1)
@pytest.mark.parametrize("wait", [wait for wait in WAITS if wait != "another thread's compile"])
def test_an_interrupt_ends_the_compiler_and_leaves_the_process_usable(
    wait: str, project: Project, compiler: SlowCompiler
) -> None:
    before, interrupted = WAITS[wait]
    program = PREPARE + INTERRUPTED.format(before=before, interrupted=interrupted)
    process = project.start(program + USABLE, str(compiler.path))
    compiler.wait_for_start()
    interrupt(process)
    output, said = process.communicate(timeout=60)
    assert output.splitlines() == ["interrupted", "[2.0, 2.0, 2.0]"], said
    assert process.returncode == 0
    assert compiler.are_gone()
    assert project.leftovers() == []


def test_an_interrupt_ends_the_wait_for_another_threads_compile(project: Project, compiler: SlowCompiler) -> None:
    before, interrupted = WAITS["another thread's compile"]
    ends = "os._exit(0)\n"  # the other thread would go on
    process = project.start(
        PREPARE + INTERRUPTED.format(before=before, interrupted=interrupted) + ends, str(compiler.path)
    )
    compiler.wait_for_start()
    interrupt(process)
    output, said = process.communicate(timeout=30)
    assert output == "interrupted\n", said
    wait_until(compiler.are_gone, "the compilers' end")


def test_a_handler_of_the_programs_own_may_raise_what_it_likes(project: Project, compiler: SlowCompiler) -> None:
    alarm = """
import signal
def ring(number, frame):
    raise TimeoutError("too late")
signal.signal(signal.SIGALRM, ring)
slow('TORCH_SLANG_COMPILER')
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    load()
except TimeoutError as error:
    print(error)
"""
    process = project.start(PREPARE + alarm, str(compiler.path))
    output, said = process.communicate(timeout=60)
    assert output == "too late\n", said
    assert compiler.are_gone()


@pytest.mark.parametrize("variable", ["TORCH_SLANG_COMPILER", "TORCH_SLANG_CXX"])
def test_a_parent_that_is_killed_takes_its_compilers_along(
    variable: str, project: Project, compiler: SlowCompiler
) -> None:
    process = project.start(
        PREPARE + f"module = load(); slow('{variable}'); other = torch_slang.load("
        "source='[TorchOp] float f(float x) { return x; }'); other.f(x)",
        str(compiler.path),
    )
    compiler.wait_for_start()
    process.kill()
    process.communicate(timeout=30)
    wait_until(compiler.are_gone, "the compilers' end", 10)


def test_folders_of_a_process_that_was_killed_go_when_another_compiles(
    project: Project, compiler: SlowCompiler
) -> None:
    process = project.start(PREPARE + "module = load(); slow('TORCH_SLANG_CXX'); module.doubled(x)", str(compiler.path))
    compiler.wait_for_start()
    process.kill()
    process.communicate(timeout=30)
    (left,) = project.temporary.iterdir()
    young = project.temporary / "torch_slang-abcdef"  # may be of a process that has not locked it yet
    theirs = project.temporary / "torch_slang-results"
    for folder in (young, theirs):
        folder.mkdir()
    for folder in (left, theirs):
        os.utime(folder, (1, 1))
    output, said = project.start(PREPARE + USABLE).communicate(timeout=60)
    assert output == "[2.0, 2.0, 2.0]\n", said
    assert sorted(project.temporary.iterdir()) == [young, theirs]


@dear_test
def test_the_folder_of_a_living_process_stays(project: Project, compiler: SlowCompiler) -> None:
    process = project.start(PREPARE + "module = load(); slow('TORCH_SLANG_CXX'); module.doubled(x)", str(compiler.path))
    try:
        compiler.wait_for_start()
        (own,) = project.temporary.iterdir()
        os.utime(own, (1, 1))
        other = "torch_slang.load(source='[TorchOp] float f(float x) { return x; }').f(x)"
        done = project.start(PREPARE + other)
        assert "Error" not in done.communicate(timeout=60)[1]
        assert list(project.temporary.iterdir()) == [own]
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=30)


def test_the_host_compiler_has_a_time_limit_too(project: Project, compiler: SlowCompiler) -> None:
    program = PREPARE + (
        "module = load(); slow('TORCH_SLANG_CXX'); os.environ['TORCH_SLANG_COMPILE_TIMEOUT'] = '1'\n"
        "try:\n    module.doubled(x)\nexcept torch_slang.CompileError as error:\n    print(error)"
    )
    output, said = project.start(program, str(compiler.path)).communicate(timeout=60)
    assert (
        f"slang::doubled: {project.source} does not compile for the CPU: {compiler.path} did not finish in 1 s"
        in output
    )
    assert "TORCH_SLANG_COMPILE_TIMEOUT" in output
    assert compiler.are_gone()
    # Two processes each: all optimisation, then less. It was not asked for a plainer processor as well.
    assert len(compiler.pids()) == 4
    assert project.leftovers() == [], said


def test_a_compile_that_takes_long_says_so_when_it_does(project: Project, compiler: SlowCompiler) -> None:
    process = project.start(PREPARE + "module = load(); slow('TORCH_SLANG_CXX'); module.doubled(x)", str(compiler.path))
    assert process.stderr is not None
    try:
        lines = iter(process.stderr.readline, "")
        line = next(line for line in lines if "doubled for CPU" in line)
        assert line == "torch_slang: compiling slang::doubled for CPU, which takes more than a second ...\n"
        assert not compiler.are_gone()
    finally:
        process.kill()
        process.communicate(timeout=30)
