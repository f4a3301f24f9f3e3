"""Gradients of structs come back as the named tuples that were passed, of functions and of kernels."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

import torch_slang

SOURCE = """
import torch_slang;
struct Lens : IDifferentiable { double focus; double2 center; }
struct Camera : IDifferentiable { Lens lens; double exposure; no_diff double scale; }
[Differentiable] double shade(Camera cam, double x)
{
    return cam.scale * (cam.exposure * x * cam.lens.focus + cam.lens.center.x * cam.lens.center.y * x * x);
}
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void shades(Camera cam, [Shape("N")] DiffTensorView<double> x, [Out("N")] DiffTensorView<double> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < x.size(0)) y[i] = shade(cam, x[i]);
}
"""


class Lens(NamedTuple):
    focus: Tensor
    center: Tensor


class Camera(NamedTuple):
    lens: Lens
    exposure: Tensor
    scale: float


def reference(cam: Camera, x: Tensor) -> Tensor:
    return cam.scale * (cam.exposure * x * cam.lens.focus + cam.lens.center.prod() * x * x)


@pytest.mark.parametrize("name", ["shade", "shades"])
def test_a_named_tuple_comes_back_as_one(name: str, device: torch.device) -> None:
    module = torch_slang.load(source=SOURCE, name="struct_gradients", namespace="struct_gradients")
    function = getattr(module, name)
    numbers = torch.tensor([2.0, 3.0, 5.0, 0.5], dtype=torch.float64, device=device)
    lens, exposure = Lens(numbers[0], numbers[1:3]), numbers[3]
    x = torch.rand(1000, dtype=torch.float64, device=device)

    def loss_of(f: object) -> object:
        return lambda lens, exposure: f(Camera(lens, exposure, 0.25), x).square().sum()  # type: ignore[operator]

    got = torch.func.grad(loss_of(function), argnums=(0, 1))(lens, exposure)  # type: ignore[arg-type]
    wanted = torch.func.grad(loss_of(reference), argnums=(0, 1))(lens, exposure)  # type: ignore[arg-type]
    assert isinstance(got[0], Lens)
    torch.testing.assert_close(got, wanted)
