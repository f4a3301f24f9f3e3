"""Kernels that never end on the CPU are stopped, by TORCH_SLANG_LAUNCH_TIMEOUT or Ctrl-C, and the process lives on."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from long_tests import dear_test, some_cases, some_tests

import torch_slang

pytestmark = some_tests(2)

SOURCE = """
float spin(float x)
{
    while (x < 10) x = x * 0.5;
    return x;
}
[BackwardDerivative(halve_backward)]
float halve(float x) { return x * 0.5; }
void halve_backward(inout DifferentialPair<float> x, float gradient) { x = diffPair(x.p, gradient * spin(x.p)); }
[PyBindCUDA(Auto)] [CudaKernel]
void spins([Shape("N")] TensorView<float> x, [Out("N")] TensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= y.size(0)) return;
    float v = x[i];
    for (;;)
    {
        if (v > 10) break;
        v = v * 0.5;
    }
    y[i] = v;
}
[TorchEntryPoint]
public __extern_cpp int wander(int n)
{
    int s = 0;
    while (s != n) s = (s + 14) % 49;
    return s;
}
groupshared float total[32];
[PyBindCUDA(Auto)] [CudaKernel] [BlockSize(32, 1, 1)]
void meets([Shape("N")] TensorView<float> x, [Out("N")] TensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    float v = x[i];
    while (v < 10)
    {
        total[i % 32] = WaveActiveSum(v) * 0.01;
        GroupMemoryBarrierWithGroupSync();
        v = total[(i + 1) % 32];
        GroupMemoryBarrierWithGroupSync();
    }
    y[i] = v;
}
"""
# What follows may use `module`, `endless`, `good` (arguments with which nothing ends, and all does), and said(call).
PRELUDE = f"""
import os, signal, sys, threading, time, torch, torch_slang
source = '''{SOURCE}'''
module = torch_slang.load(source=source, name="spin.slang", debug=True if sys.argv[1] == "debug" else None)
endless, good = torch.ones(64), torch.full((64,), 20.0)
def said(call, *arguments):
    try:
        return str(call(*arguments).sum().item())
    except BaseException as error:
        return type(error).__name__ + ": " + str(error).split(chr(10))[0]
def interrupt_soon():
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
"""


def run(program: str, mode: str = "plain", **environment: str) -> list[str]:
    """The program's lines."""
    variables = {
        **{name: value for name, value in os.environ.items() if name != "TORCH_SLANG_DEBUG"},
        "PYTHONPATH": str(Path(torch_slang.__file__).parents[1]),
        **environment,
    }
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + program, mode],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def line_of(text: str) -> int:
    return 1 + SOURCE[: SOURCE.index(text)].count("\n")


# Patterns. Of the two blocks of `meets` either may see first that it is stopped: where good calls were slow, both run
# at once. Its line is Slang's, beside a mask.
PLACES = {
    "spin": re.escape(f" (spin.slang:{line_of('while (x < 10)')})"),
    "spins": re.escape(f" (thread (0, 0, 0) of block (0, 0, 0), spin.slang:{line_of('for (;;)')})"),
    "meets": rf" \(thread \(\d+, 0, 0\) of block \([01], 0, 0\), spin\.slang:{line_of('while (v < 10)') - 1}\)",
}


@dear_test
def test_a_launch_that_takes_too_long_is_stopped_and_later_ones_run() -> None:
    program = """
for name in ('spin', 'spins', 'meets'):
    for x in (good, endless, good): print(said(getattr(module, name), x))
"""
    lines = run(program, TORCH_SLANG_LAUNCH_TIMEOUT="2")
    for k, (name, place) in enumerate(PLACES.items()):
        before, stopped, after = lines[3 * k : 3 * k + 3]
        assert before == after == "1280.0"
        assert re.fullmatch(
            f"LaunchError: slang::{name}: the launch was stopped since it took longer than the 2 s that "
            f"TORCH_SLANG_LAUNCH_TIMEOUT allows; it was in a loop{place}",
            stopped,
        )


def test_ctrl_c_stops_a_launch_in_debug_mode_and_later_ones_run() -> None:
    program = """
for name in ('spin', 'spins', 'meets'):
    interrupt_soon()
    print(said(getattr(module, name), endless))
    print(said(getattr(module, name), good))
"""
    assert run(program, "debug") == ["KeyboardInterrupt: ", "1280.0"] * 3


def test_ctrl_c_stops_a_launch_under_a_time_limit() -> None:
    assert run("interrupt_soon(); print(said(module.spin, endless))", TORCH_SLANG_LAUNCH_TIMEOUT="200") == [
        "KeyboardInterrupt: "
    ]


def test_a_launch_of_another_thread_is_stopped_with_an_error_of_its_own() -> None:
    program = """
results = []
said(module.spin, good)  # compiled
thread = threading.Thread(target=lambda: results.append(said(module.spin, endless)), daemon=True)
thread.start()
interrupt_soon()
try:
    while not results: time.sleep(0.05)
except KeyboardInterrupt:
    print("caught")
while not results: time.sleep(0.05)
print(results[0])
"""
    caught, stopped = run(program, "debug")
    assert caught == "caught"
    message = "LaunchError: slang::spin: the launch was interrupted by Ctrl-C (SIGINT); it was in a loop"
    assert re.fullmatch(re.escape(message) + PLACES["spin"], stopped)


@dear_test
def test_backwards_are_stopped_too() -> None:
    program = """
def gradient(x):
    return torch.autograd.grad(module.halve(x.requires_grad_()).sum(), x)[0]
print(said(gradient, endless))
interrupt_soon()
print(said(gradient, endless))
print(said(gradient, good))
"""
    lines = run(program, TORCH_SLANG_LAUNCH_TIMEOUT="1")
    assert "Error: slang::halve_backward: the launch was stopped since it took longer than the 1 s" in lines[0]
    assert lines[1:] == ["KeyboardInterrupt: ", "1280.0"]


@dear_test
def test_host_functions_are_stopped_too() -> None:
    program = """
print(said(lambda: torch.tensor(module.wander(2))))
print(said(lambda: torch.tensor(module.wander(7))))
"""
    stopped, after = run(program, TORCH_SLANG_LAUNCH_TIMEOUT="2")
    assert stopped == (
        "LaunchError: slang::wander: the call was stopped since it took longer than the 2 s that "
        "TORCH_SLANG_LAUNCH_TIMEOUT allows"
    )
    assert after == "7"
    assert run("interrupt_soon()" + program, "debug") == ["KeyboardInterrupt: ", "7"]


def test_a_handler_of_the_users_own_is_called_and_stays() -> None:
    program = """
calls = []
said(module.spin, good)  # compiled
signal.signal(signal.SIGINT, lambda *_: calls.append(1))
interrupt_soon()
print(said(module.spin, endless))
print(len(calls), said(module.spin, good))
os.kill(os.getpid(), signal.SIGINT)
print(len(calls))
"""
    lines = run(program, "debug")
    assert lines[0].startswith("LaunchError: slang::spin: the launch was interrupted by Ctrl-C (SIGINT)")
    assert lines[1:] == ["1 1280.0", "2"]


def test_a_forked_process_has_a_time_limit_too() -> None:
    program = """
torch.set_num_threads(1)
said(module.spin, good)
sys.stdout.flush()
child = os.fork()
if child == 0:
    print(said(module.spin, endless), flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    (line,) = run(program, TORCH_SLANG_LAUNCH_TIMEOUT="2")
    assert line.startswith("LaunchError: slang::spin: the launch was stopped")


@some_cases(1)
@pytest.mark.parametrize("value", ["soon", "0", "-1", "1s"])
def test_a_time_limit_that_is_no_number_of_seconds_is_refused(value: str) -> None:
    program = "import torch_slang; torch_slang.load(source='float f(float x) { return x; }')"
    environment = {
        **os.environ,
        "TORCH_SLANG_LAUNCH_TIMEOUT": value,
        "PYTHONPATH": str(Path(torch_slang.__file__).parents[1]),
    }
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert "expected the environment variable TORCH_SLANG_LAUNCH_TIMEOUT to be a number of seconds" in done.stderr
