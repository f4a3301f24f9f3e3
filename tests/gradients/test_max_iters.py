"""Loops under [MaxIters]: their gradients, also inside each other, and the error where one runs longer than that."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch
from cases import nvrtc_is_here
from long_tests import some_cases, some_tests

import torch_slang

pytestmark = some_tests(3)

Tensor = torch.Tensor
MOST, INNER = 7, 3

HEAD = """
struct Pair : IDifferentiable { double a; double2 b; }
[Differentiable] double step(double v, double x) { return sin(v) * v + x; }
[Differentiable] double repeat(double v, double x, int count)
{
    [MaxIters(INNER)]
    for (int j = 0; j < count; ++j) v = step(v, x);
    return v;
}
[Differentiable] void advance(inout Pair p, double x) { p.a = sin(p.a) * p.b.y + x; p.b = p.b.yx * p.a; }
"""
# `v` is x[i] before; `run`: how often the loop does.
KERNEL = """
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void NAME([Shape("N")] DiffTensorView<double> x, [Shape("N")] TensorView<int> n, [Out("N")] DiffTensorView<double> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= y.size(0)) return;
    double v = x[i];
    int run = n[i];
    BODY
    y[i] = v;
}
"""
FUNCTION = """
[Differentiable] double NAME(double x, int run)
{
    double v = x;
    BODY
    return v;
}
"""
LIMITED = "[MaxIters(MOST)] for (int k = 0; k < run; ++k)"


def step(v: Tensor, x: Tensor) -> Tensor:
    return v.sin() * v + x


def steps(x: Tensor, run: int) -> Tensor:
    v = x
    for _ in range(run):
        v = step(v, x)
    return v


def even_steps(x: Tensor, run: int) -> Tensor:
    return steps(x, (run + 1) // 2)


def vectors(x: Tensor, run: int) -> Tensor:
    a, b = x, 2 * x
    for _ in range(run):
        a, b = a.sin() * b + x, a * b
    return a + b


def arrays(x: Tensor, run: int) -> Tensor:
    a = [x, 2 * x, 3 * x]
    for k in range(run):
        a = [a[1], a[2], a[0].sin() * a[2] + x * k]
    return a[0] + a[1] * a[2]


def structs(x: Tensor, run: int) -> Tensor:
    a, b = x, (x, 2 * x)
    for _ in range(run):
        a = a.sin() * b[1] + x
        b = (b[1] * a, b[0] * a)
    return a * b[0] + b[1]


def inside_each_other(x: Tensor, run: int) -> Tensor:
    v = x
    for k in range(run):
        for _ in range(k % (INNER + 1)):
            v = step(v, x)
    return v


def three_deep(x: Tensor, run: int) -> Tensor:
    v = x
    for k in range(run):
        for j in range(k % 3):
            for _ in range((j + k) % (INNER + 1)):
                v = step(v, x)
    return v


def after_each_other(x: Tensor, run: int) -> Tensor:
    v = w = steps(x, run)
    for _ in range(run):
        w = w.sin() * v
    return w


LOOPS: dict[str, tuple[str, Callable[[Tensor, int], Tensor]]] = {
    "plain": (f"{LIMITED} v = sin(v) * v + x_i;", steps),
    "calling": (f"{LIMITED} v = step(v, x_i);", steps),
    "waiting": ("int k = 0; [MaxIters(MOST)] while (k < run) { v = step(v, x_i); ++k; }", steps),
    "first_done": (
        "int k = 0; if (run > 0) { [MaxIters(MOST)] do { v = step(v, x_i); ++k; } while (k < run); }",
        steps,
    ),
    "left_early": ("[MaxIters(MOST)] for (int k = 0; k < 1000; ++k) { if (k >= run) break; v = step(v, x_i); }", steps),
    "skipping": (f"{LIMITED} {{ if (k % 2 == 1) continue; v = step(v, x_i); }}", even_steps),
    "of_vectors": (
        f"double2 p = double2(v, 2 * v); {LIMITED} p = double2(sin(p.x) * p.y + x_i, p.x * p.y); v = p.x + p.y;",
        vectors,
    ),
    "of_arrays": (
        "double a[3] = { v, 2 * v, 3 * v };"
        f"{LIMITED} {{ double c = sin(a[0]) * a[2] + x_i * k; a[0] = a[1]; a[1] = a[2]; a[2] = c; }}"
        "v = a[0] + a[1] * a[2];",
        arrays,
    ),
    "of_structs": (
        f"Pair p = {{ v, double2(v, 2 * v) }}; {LIMITED} advance(p, x_i); v = p.a * p.b.x + p.b.y;",
        structs,
    ),
    "inside_each_other": (
        f"{LIMITED} {{ [MaxIters(INNER)] for (int j = 0; j < k % (INNER + 1); ++j) v = step(v, x_i); }}",
        inside_each_other,
    ),
    "in_a_function": (f"{LIMITED} v = repeat(v, x_i, k % (INNER + 1));", inside_each_other),
    "three_deep": (
        f"{LIMITED} {{ [MaxIters(2)] for (int j = 0; j < k % 3; ++j) {{"
        " [MaxIters(INNER)] for (int l = 0; l < (j + k) % (INNER + 1); ++l) v = step(v, x_i); } }",
        three_deep,
    ),
    "after_each_other": (
        f"{LIMITED} v = step(v, x_i); double w = v; {LIMITED} w = sin(w) * v; v = w;",
        after_each_other,
    ),
}
FUNCTIONS = ["plain", "of_structs", "inside_each_other"]


def filled_in(text: str, **sizes: int) -> str:
    for word, value in sizes.items():
        text = text.replace(word, str(value))
    return text


@functools.cache
def loops(debug: bool | None) -> torch_slang.Module:
    text = HEAD
    for name, (body, _) in LOOPS.items():
        text += KERNEL.replace("BODY", body.replace("x_i", "x[i]")).replace("NAME", name)
    for name in FUNCTIONS:
        text += FUNCTION.replace("BODY", LOOPS[name][0].replace("x_i", "x")).replace("NAME", f"function_{name}")
    return torch_slang.load(
        source=filled_in(text, MOST=MOST, INNER=INNER),
        name="loops.slang",
        namespace=f"max_iters_{debug}".lower(),
        debug=debug,
    )


def loops_on(device: torch.device) -> torch_slang.Module:
    return loops(None if device.type == "cpu" else True)


NAMES = [*LOOPS, *(f"function_{name}" for name in FUNCTIONS)]


def assert_right(module: torch_slang.Module, name: str, runs: list[int], device: torch.device) -> None:
    x = torch.linspace(0.1, 0.4, len(runs), dtype=torch.float64, device=device, requires_grad=True)
    n = torch.tensor(runs, dtype=torch.int32, device=device)
    (gradient,) = torch.autograd.grad(getattr(module, name)(x, n).sum(), x)
    reference = LOOPS[name.removeprefix("function_")][1]
    expected = torch.stack([reference(one, run) for one, run in zip(x, runs, strict=True)])
    torch.testing.assert_close(gradient, torch.autograd.grad(expected.sum(), x)[0])


@some_cases(2)
@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_loops_up_to_their_limit(name: str, device: torch.device) -> None:
    assert_right(loops_on(device), name, [0, 1, 2, 3, MOST - 1, MOST], device)


@some_cases(4)
@pytest.mark.parametrize("name", NAMES)
def test_a_loop_that_runs_longer_than_its_limit_is_named(name: str, device: torch.device) -> None:
    module = loops_on(device)
    x = torch.full((5,), 0.1, dtype=torch.float64, device=device, requires_grad=True)
    for far in (2 * MOST, 1000):
        n = torch.tensor([1, far, 2, MOST, 0], dtype=torch.int32, device=device)
        y = getattr(module, name)(x, n)  # a forward keeps nothing
        with pytest.raises(
            RuntimeError, match=rf"::{name}_backward: the loop at loops\.slang:\d+ runs longer than its"
        ):
            torch.autograd.grad(y.sum(), x)
    assert_right(module, name, [MOST, 0], device)  # all is as before


def test_the_loop_is_the_one_that_runs_too_long(device: torch.device) -> None:
    text = filled_in(HEAD + KERNEL.replace("BODY", "v = repeat(v, x[i], run);").replace("NAME", "far"), INNER=INNER)
    line = 1 + text[: text.index("for (int j")].count("\n")
    debug = None if device.type == "cpu" else True
    module = torch_slang.load(source=text, name="far.slang", namespace=f"max_iters_far_{device.type}", debug=debug)
    x = torch.ones(3, dtype=torch.float64, device=device, requires_grad=True)
    y = module.far(x, torch.tensor([1, INNER, 9], dtype=torch.int32, device=device))
    with pytest.raises(
        RuntimeError, match=rf"the loop at far\.slang:{line} .*\(thread \(2, 0, 0\) of block \(0, 0, 0\)\)$"
    ):
        y.sum().backward()
    assert x.grad is None


def test_a_loop_that_keeps_nothing_may_run_as_long_as_it_likes(device: torch.device) -> None:
    body = "v = 0; [MaxIters(2)] for (int k = 0; k < run; ++k) v = v + x[i];"
    module = torch_slang.load(
        source=KERNEL.replace("BODY", body).replace("NAME", "total"), name="total.slang", namespace="max_iters_total"
    )
    x = torch.ones(3, dtype=torch.float64, device=device, requires_grad=True)
    module.total(x, torch.tensor([1, 2, 9], dtype=torch.int32, device=device)).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1, 2, 9]


@pytest.mark.parametrize(("outer", "inner"), [(10, 2), (2, 10), (5, 5)])
def test_loops_inside_each_other_may_have_any_limits(outer: int, inner: int, device: torch.device) -> None:
    """Slang looks for what they keep with the indices the wrong way round, which shows where the limits differ."""
    body = f"{LIMITED} {{ [MaxIters(INNER)] for (int j = 0; j < INNER; ++j) v = step(v, x[i]); }}"
    text = filled_in(HEAD + KERNEL.replace("BODY", body).replace("NAME", "both"), MOST=outer, INNER=inner)
    module = torch_slang.load(source=text, name="both.slang", namespace=f"max_iters_{outer}_{inner}")
    x = torch.linspace(0.01, 0.02, 3, dtype=torch.float64, device=device, requires_grad=True)
    runs = [1, outer - 1, outer]
    module.both(x, torch.tensor(runs, dtype=torch.int32, device=device)).sum().backward()
    expected = torch.stack([steps(one, run * inner) for one, run in zip(x, runs, strict=True)])
    torch.testing.assert_close(x.grad, torch.autograd.grad(expected.sum(), x)[0])


@pytest.mark.parametrize("debug", [None, True])
def test_loops_compile_for_a_gpu(debug: bool | None) -> None:
    if not nvrtc_is_here():
        pytest.skip("NVRTC is not installed")
    for name in ("of_structs", "three_deep", "after_each_other"):
        loops(debug)._handle.cubin(name, "backward", [], True, "sm_90")
