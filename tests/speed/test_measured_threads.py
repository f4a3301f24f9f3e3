"""Virtual threads of large launches are chosen by measurement, and what is measured shows nowhere else."""

import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest
import torch
from devices import needs_cuda

import torch_slang
from torch_slang import tuning

pytestmark = needs_cuda
CUDA = torch.device("cuda")

SOURCE = """
import torch_slang;
// %s
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void cube<T : IReal>([Shape("N")] DiffTensorView<T> x, [Out("N")] DiffTensorView<T> y)
{
    uint3 id = cudaGlobalIdx();
    if (id.x >= x.size(0)) return;
    T v = x[id.x];
    y[id.x] = v * v * v;
}
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel] [LaunchTotal("N, M")]
void scaled_rows(
    [Shape("M, N")] DiffTensorView x, [Shape("N")] DiffTensorView s, float f, [Out("M, N")] DiffTensorView y)
{
    uint3 id = cudaGlobalIdx();
    if (id.x >= x.size(1) || id.y >= x.size(0)) return;
    y[id.y, id.x] = f * s[id.x] * x[id.y, id.x];
}
"""
SIZE = 1 << 23  # more threads than any GPU of the tests runs sixteen times over


@pytest.fixture
def ns() -> Iterator[str]:
    name = f"measured_{uuid.uuid4().hex[:8]}"
    torch_slang.load(source=SOURCE % name, namespace=name)
    before = tuning.mode()
    yield name
    tuning.mode(before)


def chosen(ns: str, op: str) -> list[tuning.Choice]:
    return [choice for choice in tuning.choices() if choice.op == f"{ns}::{op}"]


def test_a_large_launch_is_measured_once_for_each_class_and_a_small_one_never(ns: str) -> None:
    op = getattr(torch.ops, ns).cube
    made = len(tuning.log())
    small = torch.randn(1000, device=CUDA)
    torch.testing.assert_close(op(small), small**3)
    assert not chosen(ns, "cube")
    for _ in range(3):
        x = torch.randn(SIZE, device=CUDA)
        torch.testing.assert_close(op(x), x**3)
    (choice,) = chosen(ns, "cube")
    assert len(tuning.log()) == made + 1
    timed = {attempt.value: attempt.seconds for attempt in choice.tried if attempt.seconds}
    assert len(timed) > 1
    assert choice.value in timed
    assert timed[choice.value] <= min(timed.values()) / 0.985
    op(x[: SIZE - 12345])  # the same class
    assert len(chosen(ns, "cube")) == 1
    op(x.half())
    assert len(chosen(ns, "cube")) == 2


def test_explain_says_that_threads_were_measured_and_shows_no_losers(ns: str) -> None:
    module = torch_slang.load(source=SOURCE % ns, namespace=ns + "b")
    getattr(torch.ops, ns + "b").cube(torch.randn(SIZE, device=CUDA))
    (kernel,) = module.explain("cube")
    assert kernel.measured
    assert "as measured" in str(kernel)


def test_gradients_are_those_of_one_call(ns: str) -> None:
    op = getattr(torch.ops, ns).scaled_rows
    x = torch.randn(SIZE // 512, 512, device=CUDA, requires_grad=True)
    s = torch.randn(512, device=CUDA, requires_grad=True)
    f = torch.tensor(1.5, device=CUDA, requires_grad=True)
    grad = torch.randn_like(x)
    got = torch.autograd.grad(op(x, s, f), (x, s, f), grad)
    assert chosen(ns, "scaled_rows")
    assert chosen(ns, "scaled_rows_backward")
    again = torch.autograd.grad(op(x, s, f), (x, s, f), grad)
    wide = [t.detach().double().requires_grad_() for t in (x, s, f)]
    want = torch.autograd.grad(wide[2] * wide[1] * wide[0], wide, grad.double())
    for a, b, w in zip(got, again, want, strict=True):
        norm = float(w.norm())
        assert float((a.double() - w).norm()) < 1e-5 * norm + 1e-3 * (w.ndim == 0) * norm
        assert float((b.double() - w).norm()) < 1e-5 * norm + 1e-3 * (w.ndim == 0) * norm


def test_a_launch_changes_its_memory_once(ns: str) -> None:
    source = """
import torch_slang;
// %s
[CudaKernel]
void bump(TensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < y.size(0)) y[i] = y[i] + 1;
}
"""
    torch_slang.load(source=source % ns, namespace=ns + "l")
    launch = getattr(torch.ops, ns + "l").bump_launch
    y = torch.zeros(SIZE, device=CUDA)
    for n in range(1, 4):
        launch(y, [256], [SIZE // 256])
        assert float(y.min()) == float(y.max()) == n
    assert any(choice.op.startswith(f"{ns}l::") for choice in tuning.choices())


def test_nothing_is_measured_when_off_or_frozen_or_captured(ns: str) -> None:
    op = getattr(torch.ops, ns).cube
    x = torch.randn(SIZE, device=CUDA)
    for mode in ("off", "frozen"):
        tuning.mode(mode)
        torch.testing.assert_close(op(x), x**3)
        assert not chosen(ns, "cube")
    tuning.mode("on")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = op(x)
    assert not chosen(ns, "cube")
    graph.replay()
    torch.testing.assert_close(y, x**3)
    op(x)
    assert len(chosen(ns, "cube")) == 1


def test_another_process_measures_nothing(ns: str) -> None:
    getattr(torch.ops, ns).cube(torch.randn(SIZE, device=CUDA))
    (choice,) = chosen(ns, "cube")
    program = f"""
import torch, torch_slang
torch_slang.load(source={SOURCE % ns!r}, namespace={ns!r})
x = torch.randn({SIZE}, device="cuda")
torch.testing.assert_close(torch.ops.{ns}.cube(x), x**3)
assert not torch_slang.tuning.log()
print([c.value for c in torch_slang.tuning.choices() if c.op == "{ns}::cube"])
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == repr([choice.value])
