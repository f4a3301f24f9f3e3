"""What runs out while a kernel is loaded, memory or threads, is an error of Python's, and the process goes on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from long_tests import dear_test, some_cases, some_tests
from slow_compilers import HOST, Project

pytestmark = some_tests(2)

USE = """
import ctypes, os, resource, sys, time, torch, torch_slang
x = torch.ones(3, requires_grad=True)
def use():
    y = torch_slang.load(sys.argv[1]).doubled(x)
    y.sum().backward()
    return y.tolist()
"""

# What runs first allocates the thread's local data: where that fails, libc ends the process.
SHORT_OF_MEMORY = """
x.sum().backward()  # of a GPU's threads, which stay
threads = len(os.listdir("/proc/self/task"))
torch_slang.load(source="[Differentiable] float squared(float x) { return x * x; }").squared(x).sum().backward()
while len(os.listdir("/proc/self/task")) > threads: time.sleep(0.1)
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

SHORT_OF_THREADS = """
shim = ctypes.CDLL(os.environ["LD_PRELOAD"])
shim.let_threads_start(int(sys.argv[2]))
try:
    use()
except RuntimeError as error:
    assert "no thread can be started" in str(error), error
print(shim.refused() > 0)
shim.let_threads_start(1000)
print(use())
"""

# Real limits on threads hold for all of a user's processes, and root has none.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
static atomic_int left = 1000, refusals;
void let_threads_start(int count) { left = count; }
int refused(void) { return refusals; }
typedef int (*Create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  if (atomic_fetch_sub(&left, 1) <= 0) return ++refusals, EAGAIN;
  return ((Create)dlsym(RTLD_NEXT, "pthread_create"))(thread, attributes, run, argument);
}
"""


# With room for a thread's stack and for little else, it is libc again that ends the process, and a thread that ends
# leaves such room: libc keeps no stacks here, and the threads of the first call have ended. Threads have tests below.
@dear_test
@some_cases(1)
@pytest.mark.parametrize("left", [0, 300_000], ids=["text", "compiler_output"])
def test_memory_that_runs_out_does_not_end_the_process(left: int, tmp_path: Path) -> None:
    no_stacks = {"GLIBC_TUNABLES": "glibc.pthread.stack_cache_size=0"}
    process = Project(tmp_path).start(USE + SHORT_OF_MEMORY, str(left), **no_stacks)
    output, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert output == "[2.0, 2.0, 2.0]\n"


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shim")
    source, library = folder / "shim.c", folder / "shim.so"
    source.write_text(SHIM)
    subprocess.run([HOST, "-x", "c", "-shared", "-fPIC", str(source), "-o", str(library), "-ldl"], check=True)
    return library


@dear_test
@some_cases(1)
@pytest.mark.parametrize("left", [0, 1, 2, 3])
@pytest.mark.parametrize("debug", ["0", "1"])
def test_threads_that_run_out_do_not_end_the_process(left: int, debug: str, shim: Path, tmp_path: Path) -> None:
    process = Project(tmp_path).start(USE + SHORT_OF_THREADS, str(left), LD_PRELOAD=str(shim), TORCH_SLANG_DEBUG=debug)
    output, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert output.splitlines()[-1] == "[2.0, 2.0, 2.0]"
    assert left or output.splitlines()[0] == "True"
