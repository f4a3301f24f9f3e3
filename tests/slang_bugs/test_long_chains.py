"""Functions in which many calls follow on each other. Note [long chains] in csrc/compiler/ir/long_chains.h: each call
doubled the time of Slang's compiler, so that these would take it longer than a test may.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cases import nvrtc_is_here
from long_tests import dear_file, some_cases
from slang_bugs import LEAVE_OUT

import torch_slang

pytestmark = dear_file

Tensor = torch.Tensor
STEPS = 25
SHORT = 6  # of which Slang makes derivatives as they are too, in a second
STEP = "v = sin(v) * w; v = exp(-v * v);"
HEAD = """import torch_slang;
struct Pair : IDifferentiable { double a; double b;
    [Differentiable] double along(double w) { double v = a; CHAIN return v; }
}
struct State : IDifferentiable { Pair pair; double2 more; }
[Differentiable] State next(State s, double w)
{
    State t = s;
    double v = s.pair.a; STEP
    t.pair.a = v; v = s.pair.b; STEP
    t.pair.b = v * s.more.x; t.more.x = cos(s.more.x);
    return t;
}
[Differentiable] double helper(double x, double w) { double v = x; CHAIN return v; }
[Differentiable] double step(double x, double w) { double v = x; STEP return v; }
[Differentiable] void change(inout double v, double w) { CHAIN }
[Differentiable] T generic<T : __BuiltinFloatingPointType>(T x, T w) { T v = x; CHAIN return v; }
"""
BODIES = {
    "numbers": "double v = x; CHAIN return v;",
    "vectors": "double3 v = double3(x, x * x, w); CHAIN return v.x + v.y * v.z;",
    "matrices": "double2x2 v = double2x2(x, w, x * w, x * x); CHAIN return v[0][0] + v[0][1] * v[1][0] * v[1][1];",
    "quotients": "double v = x; REPEAT(v = w / (v + x); v = (v % w) / x;) return v;",
    "of_generics": "return generic(x, w);",
    "in_a_helper": "return helper(x, w) * helper(w, x);",
    "of_helpers": "double v = x; REPEAT(v = step(step(v, w), w);) return v;",
    "in_an_argument": "double v = x; change(v, w); return v;",
    "in_a_loop": "double v = x; [MaxIters(3)] for (int i = 0; i < 3; ++i) { CHAIN } return v;",
    "in_a_loop_unrolled": "double v = x; [ForceUnroll] for (int i = 0; i < 2; ++i) { HALF } return v;",
    "by_a_loop_unrolled": "double v = x; [ForceUnroll] for (int i = 0; i < STEPS; ++i) { STEP } return v;",
    "by_loops_unrolled": """Pair p = {x, w};
        [ForceUnroll] for (int i = 0; i < STEPS; ++i)
        { [ForceUnroll] for (int j = 0; j < 2; ++j) { if (j == 0) p.a = sin(p.a) * w; else p.a = exp(-p.a * p.a); } }
        return p.a;""",
    "behind_a_branch": "double v = x; if (x > 0.6) { CHAIN } else { v = v * w; CHAIN } return v;",
    "in_branches": "double v = x; REPEAT(if (v > 0.4) { STEP } else { v = v * w; STEP }) return v;",
    "in_a_method": "Pair p = {x, w}; return p.along(w * x);",
    "in_a_field": "Pair p = {x, w}; REPEAT(p.a = sin(p.a) * p.b; p.a = exp(-p.a * p.a);) return p.a;",
    "in_an_element": "double v[2] = {x, w}; REPEAT(v[0] = sin(v[0]) * v[1]; v[0] = exp(-v[0] * v[0]);) return v[0];",
    "of_structs": """State s; s.pair = {x, w}; s.more = double2(1.25, x);
        REPEAT(s = next(next(s, w), w);) return s.pair.a * s.pair.b + s.more.x * s.more.y;""",
}


def source_of(steps: int) -> str:
    functions = ""
    for name, body in BODIES.items():
        before, _, rest = body.partition("REPEAT(")
        step, _, behind = rest.rpartition(") return")
        whole = before + step * steps + " return" + behind if rest else body
        functions += f"[Differentiable] double {name}(double x, double w) {{ {whole} }}\n"
    chains = (HEAD + functions).replace("CHAIN", STEP * steps).replace("HALF", STEP * (steps // 2))
    return chains.replace("STEPS", str(steps)).replace("STEP", STEP)


def chain(v: Tensor, w: Tensor, steps: int) -> Tensor:
    for _ in range(steps):
        v = torch.exp(-((torch.sin(v) * w) ** 2))
    return v


def quotients(x: Tensor, w: Tensor, steps: int) -> Tensor:
    v = x
    for _ in range(steps):
        v = torch.fmod(w / (v + x), w) / x
    return v


def branches(x: Tensor, w: Tensor, steps: int) -> Tensor:
    v = x
    for _ in range(steps):
        v = chain(torch.where(v > 0.4, v, v * w), w, 1)
    return v


def structs(x: Tensor, w: Tensor, steps: int) -> Tensor:
    a, b, more = x, w, torch.full_like(x, 1.25)
    for _ in range(2 * steps):
        a, b, more = chain(a, w, 1), chain(b, w, 1) * more, more.cos()
    return a * b + more * x


REFERENCES: dict[str, Callable[[Tensor, Tensor, int], Tensor]] = {
    "vectors": lambda x, w, n: chain(x, w, n) + chain(x * x, w, n) * chain(w, w, n),
    "matrices": lambda x, w, n: chain(x, w, n) + chain(w, w, n) * chain(x * w, w, n) * chain(x * x, w, n),
    "quotients": quotients,
    "in_a_helper": lambda x, w, n: chain(x, w, n) * chain(w, x, n),
    "of_helpers": lambda x, w, n: chain(x, w, 2 * n),
    "in_a_loop": lambda x, w, n: chain(x, w, 3 * n),
    "in_a_loop_unrolled": lambda x, w, n: chain(x, w, 2 * (n // 2)),
    "behind_a_branch": lambda x, w, n: torch.where(x > 0.6, chain(x, w, n), chain(x * w, w, n)),
    "in_branches": branches,
    "in_a_method": lambda x, w, n: chain(x, w * x, n),
    "of_structs": structs,
}


@functools.cache
def module(steps: int, left_out: str = "") -> torch_slang.Module:
    defines = {LEAVE_OUT: left_out} if left_out else {}
    namespace = f"long_chains_{steps}{'_whole' if left_out else ''}"
    return torch_slang.load(source=source_of(steps), namespace=namespace, defines=defines)


def inputs(device: torch.device) -> tuple[Tensor, Tensor]:
    x = torch.linspace(0.3, 1.2, steps=5, dtype=torch.float64, device=device)
    return x.requires_grad_(), torch.linspace(1.4, 1.6, steps=5, dtype=torch.float64, device=device).requires_grad_()


def gradients(y: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(y.sum(), (x, w))


def tangent(f: Callable[[Tensor, Tensor], Tensor], x: Tensor, w: Tensor) -> Tensor:
    directions = (torch.ones_like(x), torch.full_like(w, -0.5))
    found: Tensor = torch.func.jvp(f, (x.detach(), w.detach()), directions)[1]
    return found


@some_cases(3)
@pytest.mark.parametrize("name", BODIES)
def test_derivatives_of_many_calls_in_a_row_are_right(name: str, device: torch.device) -> None:
    ours = getattr(module(STEPS), name)
    reference = REFERENCES.get(name, chain)
    x, w = inputs(device)
    value, expected = ours(x, w), reference(x, w, STEPS)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradients(value, x, w), gradients(expected, x, w), rtol=1e-9, atol=1e-14)
    right = tangent(lambda x, w: reference(x, w, STEPS), x, w)
    torch.testing.assert_close(tangent(ours, x, w), right, rtol=1e-9, atol=1e-14)


@some_cases(2)
@pytest.mark.parametrize("name", BODIES)
def test_chains_that_are_broken_give_what_whole_ones_do(name: str, device: torch.device) -> None:
    x, w = inputs(device)
    broken, whole = (getattr(module(SHORT, left_out), name) for left_out in ("", "long chains"))
    value, other = broken(x, w), whole(x, w)
    assert torch.equal(value, other)
    assert all(map(torch.equal, gradients(value, x, w), gradients(other, x, w)))
    assert torch.equal(tangent(broken, x, w), tangent(whole, x, w))


def texts_of(source: Path, *options: str) -> Any:
    compiler = os.environ.get("TORCH_SLANG_COMPILER", Path(torch_slang.__file__).parent / "bin" / "torch-slangc")
    run = subprocess.run([str(compiler), str(source), *options], capture_output=True, text=True, check=True)
    return json.loads(run.stdout)["texts"]


@pytest.mark.parametrize(("calls", "is_left"), [(10, True), (12, False)])
def test_short_chains_are_left_as_they_are(calls: int, is_left: bool, tmp_path: Path) -> None:
    source = tmp_path / "chain.slang"
    chain = "v = exp(-v); " * calls
    source.write_text(f"[TorchOp] [Differentiable] float f(float x) {{ float v = x; {chain} return v; }}")
    whole = texts_of(source, "-D", f"{LEAVE_OUT}=long chains")
    assert (texts_of(source) == whole) == is_left


# Which loads and stores on the way.
LOADS = 12
KERNEL = """import torch_slang;
[CudaKernel] [Differentiable] [AutoPyBindCUDA]
void along<T : __BuiltinFloatingPointType>(
    [Shape("N")] DiffTensorView<T> x, [Shape("M")] DiffTensorView<T> w, [Out("N, M")] DiffTensorView<T> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= x.size(0)) return;
    T v = x[i];
    STEPS
}
"""


@functools.cache
def kernel(steps: int) -> torch_slang.Module:
    step = "v = w[K] / (v + T(1)); v = exp(-v * v); y[i, K] = v;"
    source = KERNEL.replace("STEPS", "".join(step.replace("K", str(k)) for k in range(steps)))
    return torch_slang.load(source=source, namespace=f"long_chains_kernel_{steps}")


@some_cases(1)
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-4), (torch.float16, 0.05)], ids=str
)
def test_kernels_with_many_calls_in_a_row_are_right(dtype: torch.dtype, tolerance: float, device: torch.device) -> None:
    x = torch.linspace(0.3, 1.2, steps=5, dtype=dtype, device=device).requires_grad_()
    w = torch.linspace(1.0, 1.2, steps=LOADS, dtype=dtype, device=device).requires_grad_()
    leaves = [one.detach().double().requires_grad_() for one in (x, w)]
    rows, v = [], leaves[0]
    for factor in leaves[1]:
        v = torch.exp(-((factor / (v + 1)) ** 2))
        rows.append(v)
    value, expected = kernel(LOADS).along(x, w), torch.stack(rows, 1)
    torch.testing.assert_close(value.double(), expected, rtol=tolerance, atol=tolerance)
    found, right = gradients(value, x, w), gradients(expected, *leaves)
    for one, other in zip(found, right, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=tolerance, atol=tolerance * float(other.abs().max()))
    direction = (torch.ones_like(x), torch.zeros_like(w))
    along = torch.func.jvp(kernel(LOADS).along, (x.detach(), w.detach()), direction)[1].double()
    torch.testing.assert_close(along.sum(), right[0].sum(), rtol=4 * tolerance, atol=tolerance)


@pytest.mark.skipif(not nvrtc_is_here(), reason="NVRTC is not installed")
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_what_is_kept_is_in_registers_of_a_gpu(dtype: str) -> None:
    code = kernel(SHORT)._handle.cubin("along", "backward", [dtype], True, "compute_90").decode(errors="replace")
    assert "__local_depot" not in code
