"""Lanes of a GPU's wave that add to the same elements sum first: the same gradients with and without, whoever is there.

Note [meetings] in csrc/prelude/meetings.h says how. On the CPU there is nothing to sum, and the gradients are the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

import torch_slang
from torch_slang import _C

SOURCE = """
#define KERNEL [PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
#define THREAD uint i = cudaGlobalIdx().x; if (i >= y.size(0)) return;

// What each thread adds to is given: all lanes the same, some, or none.
KERNEL void gathered<T : __BuiltinFloatingPointType>(
    [Shape("M, 3")] DiffTensorView<T> x, [Shape("M")] DiffTensorView<T> s, [Shape("N")] TensorView<int> at,
    [Out("N")] DiffTensorView<T> y)
{
    THREAD
    uint k = uint(at[i]);
    y[i] = x[uint2(k, 0)] * x[uint2(k, 1)] + x[uint2(k, 2)] * s[k] * T(1 + i % 3);
}

// Lanes that are not there: an early return, a loop of several lengths with continue and break, a branch.
KERNEL void divergent([Shape("M")] DiffTensorView<float> x, [Shape("N")] TensorView<int> at,
                      [Out("N")] DiffTensorView<float> y)
{
    THREAD
    if (i % 7 == 3) { y[i] = x[0]; return; }
    float sum = 0;
    [MaxIters(6)]
    for (uint k = 0; k < i % 6; ++k)
    {
        if ((i + k) % 4 == 1) continue;
        sum += x[k % x.size(0)] * x[uint(at[i])];
        if (sum > 3.0f) break;
    }
    if (i % 2 == 0) sum *= x[uint(at[i])];
    y[i] = sum;
}

// More numbers than are summed at once, in vectors, replicas and plain views; barriers.
groupshared float shared_sums[64];
[BlockSize(64)]
KERNEL void many([Shape("M")] DiffTensorView<float3> v, [Shape("M, 9")] DiffTensorView<float> w,
                 [Shape("M")] DiffTensorViewR<float, 3> r, [Shape("N")] TensorView<int> at,
                 [Out("N")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    uint t = cudaThreadIdx().x;
    shared_sums[t] = float(t % 5);
    GroupMemoryBarrierWithGroupSync();
    if (i >= y.size(0)) return;
    uint k = uint(at[i]);
    float3 a = v[k];
    float sum = dot(a, a) * r[k];
    for (uint j = 0; j < 9; ++j) sum += w[uint2(k, j)] * w[uint2(k, (j + 1) % 9)] * a.x;
    y[i] = sum * shared_sums[63 - t];
}
"""


@pytest.fixture(scope="module")
def module() -> torch_slang.Module:
    return torch_slang.load(source=SOURCE, name="meetings", namespace="meetings")


@pytest.fixture(params=[True, False], ids=["summed", "each"])
def sums(request: pytest.FixtureRequest) -> Iterator[bool]:
    before = _C.set_sums_of_lanes(request.param)
    yield request.param
    _C.set_sums_of_lanes(before)


def indices(kind: str, n: int, m: int, device: torch.device) -> Tensor:
    """By thread, the element that it reads."""
    generator = torch.Generator().manual_seed(3)
    at = {
        "one": torch.zeros(n),
        "waves": torch.arange(n) // 32 % m,
        "runs of 5": torch.arange(n) // 5 % m,
        "random": torch.randint(m, (n,), generator=generator),
        "mostly one": torch.where(torch.arange(n) % 11 == 0, torch.arange(n) % m, 0),
    }[kind]
    return at.to(device, torch.int32)


def check(got: list[Tensor], expected: list[Tensor], tolerance: float) -> None:
    for ours, theirs in zip(got, expected, strict=True):
        difference = (ours.double() - theirs).norm() / theirs.norm().clamp_min(1e-30)
        assert difference < tolerance, (ours, theirs)


KINDS = ["one", "waves", "runs of 5", "random", "mostly one"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
def test_gathered_elements(
    module: torch_slang.Module, device: torch.device, sums: bool, kind: str, dtype: torch.dtype
) -> None:
    n, m = 1003, 40
    x = torch.randn(m, 3, device=device).to(dtype).requires_grad_()
    s = torch.randn(m, device=device).to(dtype).requires_grad_()
    at = indices(kind, n, m, device)
    module.gathered(x, s, at).backward(torch.ones(n, device=device, dtype=dtype) / 64)
    xd, sd = (t.detach().double().requires_grad_() for t in (x, s))
    k, factor = at.long(), 1 + torch.arange(n, device=device) % 3
    ((xd[k, 0] * xd[k, 1] + xd[k, 2] * sd[k] * factor) / 64).sum().backward()
    tolerance = {torch.float64: 1e-13, torch.float32: 1e-5, torch.float16: 2e-2}[dtype]
    check([x.grad, s.grad], [xd.grad, sd.grad], tolerance)


def divergent(x: Tensor, at: Tensor) -> Tensor:
    """One thread after the other."""
    results = []
    for i, k in enumerate(at.tolist()):
        if i % 7 == 3:
            results.append(x[0])
            continue
        total = x.new_zeros(())
        for j in range(i % 6):
            if (i + j) % 4 == 1:
                continue
            total = total + x[j % len(x)] * x[k]
            if total > 3:
                break
        results.append(total * x[k] if i % 2 == 0 else total)
    return torch.stack(results)


@pytest.mark.parametrize("kind", KINDS)
def test_lanes_that_are_not_there(module: torch_slang.Module, device: torch.device, sums: bool, kind: str) -> None:
    n, m = 200, 9
    x = torch.rand(m, device=device, requires_grad=True)
    at = indices(kind, n, m, device)
    module.divergent(x, at).sum().backward()
    reference = x.detach().cpu().double().requires_grad_()
    divergent(reference, at.cpu()).sum().backward()
    check([x.grad.cpu()], [reference.grad], 1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_many_numbers_of_one_element(module: torch_slang.Module, device: torch.device, sums: bool, kind: str) -> None:
    n, m = 700, 21
    v, w, r = (torch.randn(*shape, device=device, requires_grad=True) for shape in ((m, 3), (m, 9), (m,)))
    at = indices(kind, n, m, device)
    module.many(v, w, r, at).sum().backward()
    vd, wd, rd = (t.detach().double().requires_grad_() for t in (v, w, r))
    k = at.long()
    products = (wd[k] * wd[k].roll(-1, 1)).sum(1) * vd[k, 0]
    factor = (63 - torch.arange(n, device=device) % 64) % 5
    (((vd[k] * vd[k]).sum(1) * rd[k] + products) * factor).sum().backward()
    check([v.grad, w.grad, r.grad], [vd.grad, wd.grad, rd.grad], 1e-5)


def test_explain_says_so(module: torch_slang.Module, device: torch.device, sums: bool) -> None:
    x = torch.randn(4, 3, device=device, requires_grad=True)
    s = torch.randn(4, device=device, requires_grad=True)
    module.gathered(x, s, torch.zeros(100, dtype=torch.int32, device=device)).sum().backward()
    kernels = [k for k in module.explain("gathered") if k.kind == "backward" and k.device.startswith(device.type)]
    assert any(k.sums_meetings for k in kernels) or device.type == "cpu" or not sums
    if device.type == "cpu":
        assert not any(k.sums_meetings for k in kernels)


def test_own_elements_have_nothing_to_sum(device: torch.device) -> None:
    source = SOURCE + """
    KERNEL void squares([Shape("N")] DiffTensorView<float> x, [Out("N")] DiffTensorView<float> y)
    { THREAD y[i] = x[i] * x[i] * x[i]; }"""
    module = torch_slang.load(source=source, name="meetings_own", namespace="meetings_own")
    x = torch.randn(1000, device=device, requires_grad=True)
    module.squares(x).sum().backward()
    torch.testing.assert_close(x.grad, 3 * x.detach() ** 2)
    (kernel,) = (k for k in module.explain("squares") if k.kind == "backward")
    assert not kernel.sums_meetings
