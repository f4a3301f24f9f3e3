"""Waves that are tiles of 8 x 4 threads (Note [tiled waves] in csrc/prelude/device_loop.h): only speed may tell."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from devices import needs_cuda
from test_wave_sums import check, doubled
from torch import Tensor

import torch_slang
from torch_slang import _C

SOURCE = r"""
static const uint kTile = 16;
groupshared float4 gathered[kTile * kTile];

// Each pixel sums bumps that its block reads together, as a renderer's does.
[Differentiable] float bump(no_diff float2 pixel, float4 at)
{
    float2 d = at.xy - pixel;
    return at.w * exp(-dot(d, d) * at.z);
}
[Differentiable] float4 one(DiffTensorView<float> bumps, uint k)
{
    return float4(bumps[k, 0], bumps[k, 1], bumps[k, 2], bumps[k, 3]);
}
// The whole block comes here, each thread for one bump.
void gather(DiffTensorView<float> bumps, uint first)
{
    uint thread = cudaThreadIdx().y * kTile + cudaThreadIdx().x;
    GroupMemoryBarrierWithGroupSync();
    if (first + thread < bumps.size(0)) gathered[thread] = one(bumps, first + thread);
    GroupMemoryBarrierWithGroupSync();
}

[BackwardDerivative(drawn_back)]
float drawn_sum(DiffTensorView<float> bumps, uint2 pixel, bool is_inside)
{
    uint count = bumps.size(0);
    float sum = 0;
    for (uint first = 0; first < count; first += kTile * kTile)
    {
        gather(bumps, first);
        if (!is_inside) continue;
        for (uint k = 0; k < min(kTile * kTile, count - first); ++k) sum += bump(float2(pixel), gathered[k]);
    }
    return sum;
}
void drawn_back(DiffTensorView<float> bumps, uint2 pixel, bool is_inside, float grad)
{
    uint count = bumps.size(0);
    for (uint first = 0; first < count; first += kTile * kTile)
    {
        gather(bumps, first);
        if (!is_inside) continue;
        for (uint k = 0; k < min(kTile * kTile, count - first); ++k)
        {
            float4 at = gathered[k];
            if (bump(float2(pixel), at) < 0.01) continue;
            var pair = diffPair(at);
            bwd_diff(bump)(float2(pixel), pair, grad);
            bwd_diff(one)(bumps, first + k, pair.d);
        }
    }
}

[CudaKernel] [Differentiable] [BlockSize(16, 16, 1)] [LaunchTotal("16 * cdiv(W, 16), 16 * cdiv(H, 16)")]
void drawn([Shape("N, 4")] DiffTensorView<float> bumps, [Shape("H, W")] TensorView<float> like,
           [Out("H, W")] DiffTensorView<float> image)
{
    uint2 pixel = cudaGlobalIdx().xy;
    bool is_inside = pixel.x < image.size(1) && pixel.y < image.size(0);
    float sum = drawn_sum(bumps, pixel, is_inside);
    if (is_inside) image[pixel.y, pixel.x] = sum;
}

// Without barriers, in blocks of three rows of tiles.
#define SCALED(name, attributes)                                                                          \
[CudaKernel] [Differentiable] attributes [LaunchTotal("W, H")]                                            \
void name([Shape("H, W")] DiffTensorView<float> x, [Shape("K")] DiffTensorView<float> scale,              \
          [Out("H, W")] DiffTensorView<float> y)                                                          \
{                                                                                                         \
    uint2 at = cudaGlobalIdx().xy;                                                                        \
    if (at.x >= y.size(1) || at.y >= y.size(0)) return;                                                   \
    y[at.y, at.x] = x[at.y, at.x] * scale[(at.x / 5 + at.y / 3) % scale.size(0)];                         \
}
SCALED(scaled, [BlockSize(16, 12, 1)])
SCALED(scaled_deep, [BlockSize(16, 4, 3)])
SCALED(scaled_odd, [BlockSize(10, 6, 1)])

// Reads its lane's number, so a wave must be the threads that the hardware puts together.
[CudaKernel] [Differentiable] [BlockSize(16, 4, 1)] [LaunchTotal("W, H")]
void shifted([Shape("H, W")] DiffTensorView<float> x, [Out("H, W")] DiffTensorView<float> y,
             [Out("H, W")] TensorView<int> lanes)
{
    uint2 at = cudaGlobalIdx().xy;
    if (at.x >= y.size(1) || at.y >= y.size(0)) return;
    lanes[at.y, at.x] = int(WaveGetLaneIndex());
    y[at.y, at.x] = x[at.y, at.x] * x[0, 0];
}
"""


@pytest.fixture(scope="module")
def module() -> torch_slang.Module:
    return torch_slang.load(source=SOURCE, name="tiled_waves", namespace="tiled_waves")


@pytest.fixture(params=[False, True], ids=["rows", "tiles"])
def tiled(request: pytest.FixtureRequest, device: torch.device) -> Iterator[bool]:
    if request.param and device.type == "cpu":
        pytest.skip("a CPU has no waves")
    before, sums = _C.set_tiled_waves_for_all(request.param), _C.set_wave_sums(True)
    yield request.param
    _C.set_tiled_waves_for_all(before)
    _C.set_wave_sums(sums)


def are_tiled(module: torch_slang.Module, name: str, device: torch.device) -> set[bool]:
    kernels = [k for k in module.explain(name) if k.kind == "backward" and k.device.startswith(device.type)]
    assert kernels
    return {kernel.tiled_waves for kernel in kernels}


def random(*shape: int, device: torch.device) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.rand(*shape, generator=generator).to(device)


def assert_close(ours: Tensor, reference: Tensor) -> None:
    difference = (ours.double() - reference).norm() / reference.norm()
    assert difference < 1e-5, (ours, reference)


@pytest.mark.parametrize(("height", "width"), [(1, 1), (16, 16), (35, 50)])
@pytest.mark.parametrize("count", [1, 300])
def test_a_renderer(
    module: torch_slang.Module, device: torch.device, tiled: bool, height: int, width: int, count: int
) -> None:
    size = torch.tensor([width, height, 0.2, 1], device=device)
    bumps = (random(count, 4, device=device) * size + torch.tensor([0, 0, 0.02, 0.1], device=device)).requires_grad_()
    weight = random(height, width, device=device)
    image = module.drawn(bumps, torch.empty(height, width, device=device))
    (image * weight).sum().backward()
    (reference,) = doubled(bumps)
    y, x = torch.meshgrid(torch.arange(height, device=device), torch.arange(width, device=device), indexing="ij")
    x_of, y_of, sharpness, strength = (reference[:, k, None, None] for k in range(4))
    terms = strength * torch.exp(-sharpness * ((x_of - x) ** 2 + (y_of - y) ** 2))
    assert_close(image, terms.sum(0).detach())
    (torch.where(terms < 0.01, terms.detach(), terms).sum(0) * weight).sum().backward()
    # A term that is as large as the bound to the last bit may count in one and not in the other.
    check([bumps], [reference], 1e-3)
    assert are_tiled(module, "drawn", device) >= {tiled and device.type == "cuda"}


@pytest.mark.parametrize("name", ["scaled", "scaled_deep", "scaled_odd"])
@pytest.mark.parametrize(("height", "width"), [(1, 1), (4, 16), (37, 53)])
@pytest.mark.parametrize("numbers", [1, 7])
def test_without_barriers(
    module: torch_slang.Module, device: torch.device, tiled: bool, name: str, height: int, width: int, numbers: int
) -> None:
    x, scale = (random(*s, device=device).requires_grad_() for s in ((height, width), (numbers,)))
    weight = random(height, width, device=device)
    y = getattr(module, name)(x, scale)
    (y * weight).sum().backward()
    xd, sd = doubled(x, scale)
    j, i = torch.meshgrid(torch.arange(height, device=device), torch.arange(width, device=device), indexing="ij")
    reference = xd * sd[(i // 5 + j // 3) % numbers]
    assert_close(y, reference.detach())
    (reference * weight).sum().backward()
    check([x, scale], [xd, sd], 1e-5)


def test_lanes_that_a_kernel_asks_for_are_those_of_the_hardware(
    module: torch_slang.Module, device: torch.device, tiled: bool
) -> None:
    x = random(4, 16, device=device).requires_grad_()
    y, lanes = module.shifted(x)
    y.sum().backward()
    assert lanes.flatten().tolist() == [k % 32 for k in range(64)]
    assert are_tiled(module, "shifted", device) == {False}


@needs_cuda
def test_tiles_are_measured_beside_rows(module: torch_slang.Module) -> None:
    device = torch.device("cuda")
    bumps = random(40, 4, device=device).requires_grad_()
    module.drawn(bumps, torch.empty(2000, 2000, device=device)).sum().backward()
    made = [choice for choice in torch_slang.tuning.log() if choice.op == "tiled_waves::drawn_backward"]
    assert made
    assert any("tiles=1" in attempt.value and (attempt.seconds or 0) > 0 for attempt in made[-1].tried)
