"""Indices of views that have 64 bits, as PyTorch's index tensors do, count whole."""

from __future__ import annotations

import pytest
import torch
from devices import DEVICES

import torch_slang

KERNELS = """import torch_slang;
#define KERNEL(NAME, ...)                                                                                        \\
    [PyBindCUDA(Auto)] [CudaKernel]                                                                              \\
    void NAME([Shape("N, M")] TensorView<float> x, [Shape("N")] TensorView<int64_t> q,                           \\
              [Out("N")] [Fill(0)] TensorView<float> y)                                                          \\
    {                                                                                                            \\
        uint i = cudaGlobalIdx().x;                                                                              \\
        if (i >= q.size(0)) return;                                                                              \\
        int64_t p = q[i];                                                                                        \\
        __VA_ARGS__                                                                                                  \\
    }
KERNEL(loaded, y[i] = x[q[i], 0u];)
KERNEL(loaded_later, y[i] = x.load(i, uint64_t(p)) + x[i, p];)
KERNEL(stored, y[q[i]] = 1 + i;)
KERNEL(stored_twice, y[p] = 1; y[p] = 2 + y[p];)
KERNEL(added, float old; y.InterlockedAdd(p, 1.0, old);)
KERNEL(inside_a_loop, for (int64_t k = 0; k < q.size(0); ++k) y[i] += x[i, k + (p - p % 4096)];)
// What is converted for another end keeps its low bits.
KERNEL(hashed, uint h = uint(p * 4294967311LL); y[i] = float((h >> 3) ^ (h & 7u)) + x[i, h % x.size(1)];)

[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void gathered([Shape("M")] DiffTensorView<float> x, [Shape("N")] TensorView<int64_t> q,
    [Out("N")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= q.size(0)) return;
    y[i] = 3 * x[q[i]] * x.loadUniform(q[i]);
}
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void scaled([Shape("M")] DiffTensorView<float> x, [Shape("N")] TensorView<int64_t> q,
    [Out("N")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= q.size(0)) return;
    y[i] = 3 * x[q[i]];
}
"""
NAMES = ["loaded", "loaded_later", "stored", "stored_twice", "added", "inside_a_loop"]
WIDE = [2**32 + 2, -1, -(2**32), 2**63 - 1, 2**40]


@pytest.fixture(scope="module", params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def kernels(device: str) -> torch_slang.Module:
    return torch_slang.load(
        source=KERNELS,
        name="wide_indices.slang",
        namespace=f"wide_indices_{device}",
        debug=True if device == "cuda" else None,
    )


@pytest.mark.parametrize("index", WIDE)
@pytest.mark.parametrize("name", NAMES)
def test_an_index_that_does_not_fit_32_bits_is_reported(
    kernels: torch_slang.Module, device: str, name: str, index: int
) -> None:
    x, q = torch.ones(3, 3, device=device), torch.tensor([1, index, 0], device=device)
    if name == "inside_a_loop":
        index -= index % 4096 if index > 0 else -((-index) % 4096)
    if index == 0:
        return
    with pytest.raises(
        IndexError, match=rf"wide_indices_{device}::{name}: index {index} is outside every view.*wide_indices.slang"
    ):
        getattr(kernels, name)(x, q)


@pytest.mark.parametrize("index", WIDE)
@pytest.mark.parametrize("name", ["gathered", "scaled"])
def test_the_backward_reports_it_too(kernels: torch_slang.Module, device: str, name: str, index: int) -> None:
    x = torch.ones(3, device=device, requires_grad=True)
    q = torch.tensor([1, 0, 2], device=device)
    y = getattr(kernels, name)(x, q)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == ([6.0] * 3 if name == "gathered" else [3.0] * 3)
    y = getattr(kernels, name)(x, q)
    q[0] = index  # behind autograd's back, as no version is asked for
    with pytest.raises((IndexError, RuntimeError), match=r"is outside every view|modified by an inplace operation"):
        y.sum().backward()
    with pytest.raises(IndexError, match=f"index {index} is outside every view"):
        getattr(kernels, name)(x, q)


def test_indices_that_fit_reach_what_they_name(kernels: torch_slang.Module, device: str) -> None:
    x, q = torch.arange(9.0, device=device).view(3, 3), torch.tensor([2, 0, 1], device=device)
    assert kernels.loaded(x, q).tolist() == [6, 0, 3]
    assert kernels.loaded_later(x, q).tolist() == [4, 6, 14]
    assert kernels.stored(x, q).tolist() == [2, 3, 1]
    assert kernels.stored_twice(x, q).tolist() == [3, 3, 3]
    assert kernels.added(x, q).tolist() == [1, 1, 1]
    assert kernels.inside_a_loop(x, q).tolist() == [3, 12, 21]


def test_other_conversions_keep_the_low_bits(kernels: torch_slang.Module, device: str) -> None:
    x, q = torch.zeros(3, 3, device=device), torch.tensor([5, 2**33 + 77, 123456789], device=device)
    low = [(p * 4294967311) % 2**32 for p in q.tolist()]
    assert kernels.hashed(x, q).tolist() == torch.tensor([(h >> 3) ^ (h & 7) for h in low]).float().tolist()
