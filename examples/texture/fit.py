"""Puts a picture together from shots of parts of it, whose places are hardly known: texture.slang looks it up.

    python examples/texture/fit.py [--width 192] [--shots 24] [--noise 0.02] [--steps 300] [--device cpu]

Texture and cameras are trained together, since both have gradients: each pixel adds to four texels, and moves its
camera.
Writes shots.png, pictures.png and loss.png into out/texture.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import skimage.data
import torch
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor, nn

import torch_slang

module = torch_slang.load(Path(__file__).with_name("texture.slang"))


class Shots(nn.Module):
    """A texture [H, W, 3] and cameras that look at it. The first camera is where it is said to be."""

    def __init__(self, texture: Tensor, center: Tensor, axis: Tensor) -> None:
        super().__init__()
        self.texture = nn.Parameter(texture)
        self.center = nn.Parameter(center[1:].clone())
        self.axis = nn.Parameter(axis[1:].clone())
        self.register_buffer("first", torch.cat([center[:1], axis[:1]]))

    @property
    def camera(self) -> dict[str, Tensor]:
        """One of each for all pixels of a shot: [shots, 1, 1, 2] broadcasts with [height, width, 2]."""
        return {
            "center": torch.cat([self.first[:1], self.center])[:, None, None],
            "axis": torch.cat([self.first[1:], self.axis])[:, None, None],
        }

    def forward(self, pixel: Tensor) -> Tensor:
        """Pixels at [h, w, 2] of every shot: [shots, h, w, 3]."""
        result: Tensor = module.look(pixel=pixel, camera=self.camera, texture=self.texture)
        return result


def photograph(width: int, device: torch.device) -> Tensor:
    picture = Image.fromarray(skimage.data.astronaut())
    picture = picture.resize((width, width), Image.Resampling.LANCZOS)
    return (torch.from_numpy(np.array(picture)).float() / 255).to(device)


def pixels(side: int, device: torch.device) -> Tensor:
    """The pixels' middles, from -1 to 1 across a shot: [side, side, 2]."""
    middles = (torch.arange(side, device=device) + 0.5) * 2 / side - 1
    return torch.stack(torch.meshgrid(middles, middles, indexing="xy"), -1)


def true_cameras(shots: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """They cover the picture, each turned and at a distance of its own."""
    generator = torch.Generator().manual_seed(1)
    columns = math.ceil(math.sqrt(shots))
    number = torch.arange(shots)
    center = torch.stack([number % columns, number // columns], -1) * 2 / max(1, columns - 1) - 1
    center = 0.55 * center + 0.1 * (torch.rand(shots, 2, generator=generator) - 0.5)
    angle = (torch.rand(shots, generator=generator) - 0.5) * 1.2
    size = 0.4 + 0.1 * torch.rand(shots, generator=generator)
    axis = size[:, None] * torch.stack([angle.cos(), angle.sin()], -1)
    return center.to(device), axis.to(device)


def fit(found: Shots, pixel: Tensor, target: Tensor, steps: int) -> list[float]:
    """Trains in place; returns the loss of each step. The cameras wait until there is a picture to look at."""
    optimizer = torch.optim.Adam(
        [{"params": [found.texture], "lr": 0.05}, {"params": [found.center, found.axis], "lr": 1e-3}]
    )
    losses = []
    for step in range(steps):
        cameras_move = step >= steps // 6
        found.center.requires_grad_(cameras_move)
        found.axis.requires_grad_(cameras_move)
        for group in optimizer.param_groups:
            group["lr"] *= 0.99 if step > steps // 2 else 1
        optimizer.zero_grad()
        loss = (found(pixel) - target).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


def shown(picture: Tensor) -> np.ndarray[Any, Any]:
    return picture.detach().clamp(0, 1).cpu().numpy()


def save_shots(target: Tensor, path: Path) -> None:
    figure = Figure(figsize=(8, 3.2))
    for axis, shot in zip(figure.subplots(2, 6).flat, target, strict=False):
        axis.imshow(shown(shot))
    for axis in figure.axes:
        axis.axis("off")
    figure.savefig(path, dpi=100, bbox_inches="tight")


def save_pictures(pictures: dict[str, Tensor], path: Path) -> None:
    figure = Figure(figsize=(3.2 * len(pictures), 3.4))
    for axis, (title, picture) in zip(figure.subplots(1, len(pictures)), pictures.items(), strict=True):
        axis.imshow(shown(picture))
        axis.set_title(title)
        axis.axis("off")
    figure.savefig(path, dpi=100, bbox_inches="tight")


def save_losses(losses: list[float], noise: float, path: Path) -> None:
    figure = Figure(figsize=(5, 4))
    axes = figure.subplots()
    axes.semilogy(losses)
    axes.axhline(noise**2, color="gray", linestyle=":", label="the noise")
    axes.set(xlabel="step", ylabel="mean squared error", title="Texture and cameras, fitted to the shots")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120, bbox_inches="tight")


def main(arguments: list[str] | None = None) -> tuple[Shots, Shots, list[float], list[float]]:
    """Returns what was found, the truth, the losses, and the cameras' errors in texels, at first and at last."""
    gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if gpu else "cpu")
    parser.add_argument("--width", type=int, default=512 if gpu else 192, help="of the picture, in texels")
    parser.add_argument("--shots", type=int, default=24)
    parser.add_argument("--noise", type=float, default=0.02, help="standard deviation of a pixel")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--out", type=Path, default=Path("out/texture"))
    options = parser.parse_args(arguments)

    torch.manual_seed(0)
    device = torch.device(options.device)
    picture = photograph(options.width, device)
    pixel = pixels(options.width // 2, device)
    truth = Shots(picture, *true_cameras(options.shots, device)).requires_grad_(False)
    target = truth(pixel)
    target = target + options.noise * torch.randn_like(target)

    center, axis = (value + 0.012 * torch.randn_like(value) for value in true_cameras(options.shots, device))
    center[0], axis[0] = truth.first
    found = Shots(torch.full_like(picture, 0.5), center, axis)

    def off() -> float:
        error = torch.cat([found.center - truth.center, found.axis - truth.axis], -1)
        return error.detach().square().mean().sqrt().item() * options.width / 2

    before = off()
    start = time.perf_counter()
    losses = fit(found, pixel, target, options.steps)
    seconds = time.perf_counter() - start

    blurred = Shots(torch.full_like(picture, 0.5), center, axis)
    blurred.center.requires_grad_(False)
    fit(blurred, pixel, target, options.steps // 6)
    options.out.mkdir(parents=True, exist_ok=True)
    save_shots(target, options.out / "shots.png")
    pictures = {
        "cameras as they were said to be": blurred.texture,
        "cameras trained too": found.texture,
        "the picture": picture,
    }
    save_pictures(pictures, options.out / "pictures.png")
    save_losses(losses, options.noise, options.out / "loss.png")
    print(
        f"{options.shots} shots of {pixel.shape[0]}x{pixel.shape[1]} pixels, {options.steps} steps on {device} in "
        f"{seconds:.1f} s: mean squared error {losses[0]:.2g} to {losses[-1]:.2g} (the noise: {options.noise**2:.2g}), "
        f"cameras off by {before:.2f} to {off():.2f} texels. See {options.out}/"
    )
    return found, truth, losses, [before, off()]


if __name__ == "__main__":
    main()
