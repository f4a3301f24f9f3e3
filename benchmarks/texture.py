"""A texture looked up bilinearly by a plain function (examples/texture) beside `grid_sample`, and its gradients.

Lookups that are near each other, as a renderer makes them, and lookups anywhere. `grid_sample` has its texture as
[1, 3, H, W] and its results as [1, 3, N, 1]; each gets and gives its own layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

import torch_slang
from benchmarks.comparison import OURS, Task, compare
from benchmarks.measure import device
from benchmarks.operator_tasks import step

SOURCE = Path(__file__).parent.parent / "examples" / "texture" / "texture.slang"
GRADIENTS: dict[str, Sequence[int]] = {
    "forward": (),
    "forward+backward of the texture": (1,),
    "forward+backward of the places": (0,),
    "forward+backward of both": (0, 1),
}


def grid_sample(places: Tensor, texture: Tensor) -> Tensor:
    """[N, 2] and [1, 3, H, W] give [1, 3, N, 1]."""
    return torch.nn.functional.grid_sample(
        texture, places[None, :, None], mode="bilinear", padding_mode="border", align_corners=False
    )


def alike(run: Callable[[], list[Tensor]], wanted: Sequence[int]) -> Callable[[], list[Tensor]]:
    """What grid_sample gives, as ours."""

    def view() -> list[Tensor]:
        result, *gradients = run()
        views = [result[0, :, :, 0].t()]
        for i, gradient in zip(wanted, gradients, strict=True):
            views.append(gradient[0].permute(1, 2, 0) if i == 1 else gradient)
        return views

    return view


def task(title: str, places: Tensor, texture: Tensor, wanted: Sequence[int]) -> Task:
    module = torch_slang.load(SOURCE)
    grad = torch.randn(len(places), 3, device=places.device)
    planes = texture.permute(2, 0, 1)[None].contiguous()
    planes_grad = grad.t()[None, :, :, None].contiguous()
    wide = [places.double(), planes.double()]
    runs = {
        OURS: step(module.lookup, (places, texture), wanted, grad),
        "grid_sample": alike(step(grid_sample, (places, planes), wanted, planes_grad), wanted),
    }
    moved = places.nbytes + texture.nbytes + grad.nbytes
    if wanted:
        moved += grad.nbytes + places.nbytes + sum((places, texture)[i].nbytes for i in wanted)
    sums = len(places) / texture[..., 0].numel() * 4
    return Task(
        title,
        runs,
        alike(step(grid_sample, wide, wanted, planes_grad.double()), wanted),
        moved,
        60 * len(places) * (1 + len(wanted)),
        texture.dtype,
        [64, *(max(16, int(16 * sums)) if i else 256 for i in wanted)],
    )


def off_lines(places: Tensor) -> Tensor:
    """Moved a little, so that none is on a line between two texels: there the gradient of a place has two values."""
    steps = 1 << 21
    return (2 * ((places.double() + 1) / 2 * steps).long().clamp(0, steps - 1) + 1).float() / steps - 1


def near(count: int) -> Tensor:
    """One after the other across the texture, turned a little."""
    side = int(count**0.5)
    x = torch.linspace(-0.9, 0.9, side, device=device())
    y, x = torch.meshgrid(x, x, indexing="ij")
    return off_lines(torch.stack([0.98 * x - 0.1 * y, 0.1 * x + 0.98 * y], -1).reshape(-1, 2))


def main(quick: bool) -> None:
    gpu = device() == "cuda"
    size, count = (32, 1024) if quick else (1024, 4096**2 // 4) if gpu else (512, 512**2)
    texture = torch.rand(size, size, 3, device=device())
    for name, places in (("near", near(count)), ("anywhere", off_lines(torch.rand(count, 2, device=device()) * 2 - 1))):
        compare(
            f"texture of {size} x {size} float3, {len(places)} lookups, {name}",
            [task(f"{title}, {name}", places, texture, wanted) for title, wanted in GRADIENTS.items()],
            quick,
        )
