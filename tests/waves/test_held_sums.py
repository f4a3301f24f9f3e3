"""Gradients of a few numbers that all threads add to: sums are held by lanes, rows of threads and blocks.

Note [held sums] in csrc/prelude/held_sums.h says how.
"""

from __future__ import annotations

import pytest
import torch
from long_tests import dear_file, some_cases, some_tests
from test_wave_sums import check, doubled, random
from torch import Tensor

import torch_slang
from torch_slang import _C

pytestmark = [some_tests(10), dear_file]

SOURCE = """
import torch_slang;
#define KERNEL [PyBindCUDA(Auto)] [Differentiable] [CudaKernel]

// Every thread adds to all of p, in each iteration of a loop, and to one number of q.
#define FITTED(NAME, ATTRIBUTES)                                                                              \\
    KERNEL ATTRIBUTES void NAME<T : IReal>([Shape("N")] DiffTensorView<T> x, [Shape("P")] DiffTensorView<T> p, \\
                                           [Shape("Q")] DiffTensorView<T> q, int passes,                      \\
                                           [Out("N")] DiffTensorView<T> y)                                    \\
    {                                                                                                         \\
        uint i = cudaGlobalIdx().x + cudaGlobalIdx().y * 8;                                                   \\
        if (i >= y.size(0)) return;                                                                           \\
        T value = x[i], sum = q[i / 40 % uint(q.size(0))];                                                    \\
        [MaxIters(40)]                                                                                        \\
        for (int k = 0; k < passes * int(p.size(0)); ++k) sum = sum + p[uint(k) % uint(p.size(0))] * value;   \\
        y[i] = sum;                                                                                           \\
    }
FITTED(fitted, )
FITTED(fitted_in_rows, [BlockSize(8, 5, 1)] [LaunchTotal("8, cdiv(N, 8)")])

// Vectors, and structs of floats.
struct Lens : IDifferentiable { float3 at; float focal; }
KERNEL void seen([Shape("N")] DiffTensorView<float3> x, [Shape("1")] DiffTensorView<Lens> lens,
                 [Shape("1")] DiffTensorView<float3> light, [Out("N")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= y.size(0)) return;
    Lens l = lens[0];
    y[i] = dot(x[i] - l.at, light[0]) * l.focal;
}

// The gradient of `kept`, which later threads' values add to, is read while sums of it may be held.
KERNEL void stored_and_read([Shape("N")] DiffTensorView<float> x, [Shape("1")] DiffTensorView<float> p,
                            [Out("N")] DiffTensorView<float> kept, [Out("N")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= y.size(0)) return;
    kept[i] = x[i] * p[0];
    y[i] = kept[i] * kept[i] + kept[i] * p[0];
}

// A derivative that a user writes reads the gradient's value so far. One thread runs it, so that value is known.
float first_of(DiffTensorView<float> p) { return p[0]; }
void first_back(DiffTensorView<float> p, float grad)
{
    float before;
    p.diff.diff.InterlockedAdd(0, grad, before);
    p.diff.diff.InterlockedAdd(0, before + grad, before);
}
[BackwardDerivative(first_back)] float first(DiffTensorView<float> p) { return first_of(p); }
[Differentiable] float again(DiffTensorView<float> p) { return p[0]; }
KERNEL void counted([Shape("1")] DiffTensorView<float> p, [Out("1")] DiffTensorView<float> y)
{
    if (cudaGlobalIdx().x == 0) y[0] = first(p) + again(p);
}

// Leaves no group-shared memory for sums of blocks.
groupshared float all_of_it[12 * 1024];
void fill(uint t)
{
    for (uint k = t; k < 12 * 1024; k += 64) all_of_it[k] = float(k % 3);
    GroupMemoryBarrierWithGroupSync();
}
float taken(uint i) { return all_of_it[(i * 97) % (12 * 1024)]; }
[BlockSize(64)]
KERNEL void crowded([Shape("N")] DiffTensorView<float> x, [Shape("1")] DiffTensorView<float> p,
                    [Out("N")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x, t = cudaThreadIdx().x;
    fill(t);
    if (i >= y.size(0)) return;
    y[i] = x[i] * p[0] * no_diff taken(i);
}

// Of more elements than a word has numbers for.
KERNEL void picked([Shape("M")] DiffTensorView<float> w, [Shape("N")] TensorView<int64_t> at,
                   [Out("N")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < y.size(0)) y[i] = w[uint(at[i])];
}
"""


@pytest.fixture(scope="module")
def module() -> torch_slang.Module:
    return torch_slang.load(source=SOURCE, name="held_sums", namespace="held_sums")


@some_cases(16)
@pytest.mark.parametrize("virtual_threads", [True, False])
@pytest.mark.parametrize("n", [1, 31, 640, 1003])
@pytest.mark.parametrize("numbers", [(1, 1), (4, 3), (16, 16), (17, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["fitted", "fitted_in_rows"])
def test_numbers_that_all_threads_add_to(
    module: torch_slang.Module,
    device: torch.device,
    sums: bool,
    name: str,
    dtype: torch.dtype,
    numbers: tuple[int, int],
    n: int,
    virtual_threads: bool,
) -> None:
    x = random(n, device=device, dtype=dtype)
    p, q = (random(count, device=device, dtype=dtype) for count in numbers)
    weight = (torch.arange(n, device=device) % 7 - 2).to(dtype) / (64 * n)
    before = _C.set_virtual_threads_for_all(virtual_threads)
    (getattr(module, name)(x, p, q, 2) * weight).sum().backward()
    _C.set_virtual_threads_for_all(before)
    xd, pd, qd = reference = doubled(x, p, q)
    at = torch.arange(n, device=device) // 40 % len(q)
    ((qd[at] + 2 * xd * pd.sum()) * weight).sum().backward()
    # Each of 640 additions to a half rounds, in an order that no run has twice: 0.039 was seen.
    check([x, p, q], reference, {torch.float32: 1e-5, torch.float64: 1e-13, torch.float16: 8e-2}[dtype])


@pytest.mark.parametrize("n", [1, 40, 5000])
def test_vectors_and_structs(module: torch_slang.Module, device: torch.device, sums: bool, n: int) -> None:
    tensors = [random(n, 3, device=device), random(1, 4, device=device), random(1, 3, device=device)]
    weight = torch.arange(n, device=device) % 5 - 1
    (module.seen(*tensors) * weight).sum().backward()
    x, lens, light = reference = doubled(*tensors)
    (((x - lens[:, :3]) * light).sum(1) * lens[0, 3] * weight).sum().backward()
    check(tensors, reference, 1e-4)


@pytest.mark.parametrize("n", [1, 9, 16, 300])
def test_a_gradient_that_is_read_has_its_sums(
    module: torch_slang.Module, device: torch.device, sums: bool, n: int
) -> None:
    x, p = random(n, device=device), random(1, device=device)
    kept, y = module.stored_and_read(x, p)
    (kept * 3 + y).sum().backward()
    xd, pd = reference = doubled(x, p)
    k = xd * pd
    (k * 3 + k * k + k * pd).sum().backward()
    check([x, p], reference, 1e-5)


def test_what_was_added_is_there_for_who_reads_it(module: torch_slang.Module, device: torch.device, sums: bool) -> None:
    p = torch.ones(1, device=device, requires_grad=True)
    module.counted(p).backward()
    assert p.grad is not None
    # The backward adds 1 for again(p) first, then 1, and then twice what there was: 1 + 1 + (1 + 1).
    assert p.grad.item() == 4


def test_kernels_without_room_in_shared_memory(module: torch_slang.Module, device: torch.device, sums: bool) -> None:
    x, p = random(300, device=device), random(1, device=device)
    module.crowded(x, p).sum().backward()
    xd, pd = reference = doubled(x, p)
    (xd * pd * (torch.arange(300, device=device) * 97 % (12 * 1024) % 3)).sum().backward()
    check([x, p], reference, 1e-5)


def test_elements_without_a_number(module: torch_slang.Module, device: torch.device, sums: bool) -> None:
    if device.type == "cpu":
        pytest.skip("the CPU gives elements no numbers")
    many = 1 << 29  # six views leave 29 bits
    w = torch.zeros(many + 64, device=device, requires_grad=True)
    at = torch.arange(64, device=device).repeat_interleave(4)
    at[2::4] += many
    module.picked(w, at).sum().backward()
    assert isinstance(w.grad, Tensor)
    assert w.grad[:64].eq(3).all()
    assert w.grad[many:].eq(1).all()
    assert w.grad.sum(dtype=torch.float64) == 256
