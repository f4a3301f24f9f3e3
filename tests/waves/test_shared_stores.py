"""Backwards of kernels that store to group-shared arrays: csrc/compiler/emit/shared_stores.h."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import torch_slang

SOURCE = """
import torch_slang;
#define KERNEL [PyBindCUDA(Auto)] [CudaKernel] [Differentiable]
groupshared float table[64];
groupshared float2 pairs[64];

[BlockSize(64)] KERNEL void reversed([Shape("N")] DiffTensorView<float> x, [Out("N")] DiffTensorView<float> y)
{
    uint t = cudaThreadIdx().x;
    uint i = cudaGlobalIdx().x;
    table[t] = float(t % 5);
    GroupMemoryBarrierWithGroupSync();
    if (i < x.size(0)) y[i] = x[i] * table[63 - t];
}

// Each thread's values are others': twice, with a barrier before the second store.
[BlockSize(64)] KERNEL void summed([Shape("N")] DiffTensorView<float> x, [Shape("N")] TensorView<float> w,
                   [Out("N")] DiffTensorView<float> y)
{
    uint t = cudaThreadIdx().x;
    uint i = cudaGlobalIdx().x;
    float sum = 0;
    for (uint k = 0; k < 2; ++k)
    {
        table[t] = i < w.size(0) ? w[i] + k : 0.0f;
        GroupMemoryBarrierWithGroupSync();
        sum += table[(t + 1 + k) % 64];
        GroupMemoryBarrierWithGroupSync();
    }
    if (i < x.size(0)) y[i] = x[i] * x[i] * sum;
}

[BlockSize(64)] KERNEL void of_parts([Shape("N")] DiffTensorView<float> x, [Out("N")] DiffTensorView<float> y)
{
    uint t = cudaThreadIdx().x;
    uint i = cudaGlobalIdx().x;
    pairs[t].x = 1;
    pairs[t].y = t;
    GroupMemoryBarrierWithGroupSync();
    if (i < x.size(0)) y[i] = x[i] * pairs[63 - t].y;
}

void put(uint t) { pairs[t].x = 1; pairs[t].y = t; }
[BlockSize(64)] KERNEL void in_a_function([Shape("N")] DiffTensorView<float> x, [Out("N")] DiffTensorView<float> y)
{
    uint t = cudaThreadIdx().x;
    uint i = cudaGlobalIdx().x;
    no_diff put(t);
    GroupMemoryBarrierWithGroupSync();
    if (i < x.size(0)) y[i] = x[i] * pairs[63 - t].y;
}
"""


@pytest.fixture(scope="module")
def module() -> torch_slang.Module:
    return torch_slang.load(source=SOURCE, name="shared_stores.slang", namespace="test_shared_stores")


def check(y: Tensor, x: Tensor, slope: Tensor) -> None:
    grad = torch.linspace(1, 2, x.numel(), device=x.device)
    torch.testing.assert_close(torch.autograd.grad(y, x, grad)[0], grad * slope)


@pytest.mark.parametrize("n", [1, 64, 1000, 100_003])
@pytest.mark.parametrize("name", ["reversed", "in_a_function"])
def test_others_read_what_was_stored(module: torch_slang.Module, name: str, n: int, device: torch.device) -> None:
    x = torch.randn(n, device=device, requires_grad=True)
    opposite = 63 - torch.arange(n, device=device) % 64
    factor = opposite % 5 if name == "reversed" else opposite
    y = getattr(module, name)(x)
    torch.testing.assert_close(y, x * factor)
    check(y, x, factor.float())


@pytest.mark.parametrize("n", [64, 1000, 100_003])
def test_in_turns(module: torch_slang.Module, n: int, device: torch.device) -> None:
    x = torch.randn(n, device=device, requires_grad=True)
    w = torch.rand(n, device=device)
    blocks = torch.zeros((n + 63) // 64 * 64, device=device)
    total = torch.zeros_like(blocks)
    for k in range(2):
        blocks[:n] = w + k
        total += blocks.reshape(-1, 64).roll(-1 - k, 1).flatten()
    y = module.summed(x, w)
    torch.testing.assert_close(y, x * x * total[:n])
    check(y, x, 2 * x.detach() * total[:n])


def test_copies_of_the_whole_are_refused(module: torch_slang.Module, device: torch.device) -> None:
    x = torch.randn(70, device=device, requires_grad=True)
    y = module.of_parts(x)
    torch.testing.assert_close(y, x * (63 - torch.arange(70, device=device) % 64))
    with pytest.raises(RuntimeError, match=r"group-shared array as a whole.*function of its own"):
        y.sum().backward()
