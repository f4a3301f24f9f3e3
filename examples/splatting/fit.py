"""Learns a scene from photographs of it, as 3-D Gaussians that a renderer in Slang draws.

    python examples/splatting/fit.py [--full] [--size 96] [--views 24] [--steps 600] [--device cpu]

Writes views.png (held-out views: truth beside render) and curve.png into out/splatting.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from pathlib import Path

import torch
from gaussians import Gaussians
from matplotlib.figure import Figure
from PIL import Image
from renderer import Camera
from scene import BACKGROUND, cameras, photograph, points
from torch import Tensor
from tqdm import tqdm

SMALL = {"size": 96, "views": 24, "held_out": 4, "steps": 600, "start": 1000, "most": 2500, "degree": 1}
FULL = {"size": 512, "views": 96, "held_out": 8, "steps": 7000, "start": 20_000, "most": 200_000, "degree": 3}


def psnr(image: Tensor, target: Tensor) -> float:
    return -10 * math.log10((image.clamp(0, 1) - target).square().mean().item())


def beginning(views: list[Camera], size: int, count: int, degree: int, steps: int) -> Gaussians:
    """Gaussians at points on the surfaces that the views show, moved by noise, in the colours seen there."""
    found = [points(camera, size, size) for camera in views]
    places, colors = (torch.cat(tensors) for tensors in zip(*found, strict=True))
    chosen = torch.randint(len(places), (count,), device=places.device)
    spacing = 1.2 / math.sqrt(count)  # somewhat less than between points on the surfaces
    places = places[chosen] + 0.02 * torch.randn(count, 3, device=places.device)
    return Gaussians(places, colors[chosen], degree, spacing, steps)


def fit(gaussians: Gaussians, views: list[Camera], truth: list[Tensor], steps: int, most: int) -> list[float]:
    """Trains in place; returns the loss after each step. Densifies ten times in the first half."""
    schedule = torch.optim.lr_scheduler.ExponentialLR(gaussians.optimizer, 0.05 ** (1 / steps))
    height, width, _ = truth[0].shape
    every = max(1, steps // 20)
    losses = []
    order = random.Random(0)
    progress = tqdm(range(1, steps + 1), unit="step")
    for step in progress:
        view = order.randrange(len(views))
        image, splats = gaussians(views[view], width, height, BACKGROUND)
        splats.numbers.retain_grad()
        loss = (image - truth[view]).abs().mean()
        gaussians.optimizer.zero_grad()
        loss.backward()
        gaussians.note_pulls(splats)
        gaussians.optimizer.step()
        schedule.step()
        losses.append(loss.detach())
        if step % every == 0:
            if step <= steps // 2:
                gaussians.densify(most, 0.2)
            quality = psnr(image.detach(), truth[view])
            progress.set_postfix_str(f"{len(gaussians)} Gaussians, PSNR {quality:.2f} dB")
    return torch.stack(losses).tolist()


def save_views(pairs: list[tuple[Tensor, Tensor]], path: Path) -> None:
    rows = [torch.cat(images, 1) for images in zip(*pairs, strict=True)]
    picture = torch.cat(rows).clamp(0, 1)
    Image.fromarray((picture * 255).round().byte().cpu().numpy()).save(path)


def save_curve(losses: list[float], path: Path) -> None:
    figure = Figure(figsize=(6, 4))
    axes = figure.subplots()
    axes.semilogy(losses)
    axes.set(xlabel="step", ylabel="mean absolute error", title="A scene learned from photographs")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120, bbox_inches="tight")


def main(given: list[str] | None = None) -> tuple[Gaussians, list[float], list[float]]:
    """Returns the Gaussians, the losses, and the PSNR of each held-out view."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--full", action="store_true", help=f"sizes for a GPU: {FULL}")
    for name, value in SMALL.items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, help=f"default: {value}, full {FULL[name]}")
    parser.add_argument("--out", type=Path, default=Path("out/splatting"))
    options = parser.parse_args(given)
    sizes = FULL if options.full else SMALL
    sizes = {name: value if getattr(options, name) is None else getattr(options, name) for name, value in sizes.items()}

    torch.manual_seed(0)
    device = torch.device(options.device)
    size, held_out = sizes["size"], sizes["held_out"]
    every = cameras(sizes["views"] + held_out, size, size, device)
    truth = [photograph(camera, size, size) for camera in every]
    views, unseen = every[held_out:], every[:held_out]
    gaussians = beginning(views, size, sizes["start"], sizes["degree"], sizes["steps"])

    start = time.perf_counter()
    losses = fit(gaussians, views, truth[held_out:], sizes["steps"], sizes["most"])
    seconds = time.perf_counter() - start
    with torch.no_grad():
        pairs = [(t, gaussians(camera, size, size, BACKGROUND)[0]) for t, camera in zip(truth, unseen, strict=False)]
    qualities = [psnr(image, target) for target, image in pairs]
    options.out.mkdir(parents=True, exist_ok=True)
    save_views(pairs, options.out / "views.png")
    save_curve(losses, options.out / "curve.png")
    print(
        f"{len(gaussians)} Gaussians, {len(views)} views of {size}x{size} pixels, {len(losses)} steps on {device} in "
        f"{seconds:.1f} s: PSNR of {held_out} held-out views {sum(qualities) / held_out:.2f} dB. See {options.out}/"
    )
    return gaussians, losses, qualities


if __name__ == "__main__":
    main()
