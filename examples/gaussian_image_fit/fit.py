"""Fits a photograph with 2-D Gaussians: splat.slang draws them, its own derivative trains them.

    python examples/gaussian_image_fit/fit.py [--size 192] [--gaussians 600] [--steps 300] [--device cpu]

Writes target.png, result.png and curve.png into out/gaussian_image_fit.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np
import skimage.data
import torch
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor, nn
from tqdm import tqdm

import torch_slang

TILE = 16  # kTile of splat.slang
REACH = 3.0  # kReach

module = torch_slang.load(Path(__file__).with_name("splat.slang"))


class Gaussians(nn.Module):
    """An image of `count` Gaussians, placed where `target` has detail and coloured like it."""

    def __init__(self, target: Tensor, count: int) -> None:
        super().__init__()
        height, width, _ = target.shape
        self.size = (height, width)
        density = detail(target)
        pixels = torch.multinomial(density, count, replacement=count > density.numel())
        spacing = 1 / (density[pixels] * count).sqrt()  # to the next Gaussian, in pixels
        self.position = nn.Parameter(torch.stack([pixels % width, pixels // width], -1) + 0.5)
        self.log_sigma = nn.Parameter((0.45 * spacing).clamp(0.9, height / 8).log()[:, None].repeat(1, 2))
        self.angle = nn.Parameter(torch.zeros(count, device=target.device))
        self.opacity = nn.Parameter(torch.zeros(count, device=target.device))
        self.color = nn.Parameter(target.reshape(-1, 3)[pixels])

    def forward(self) -> Tensor:
        gaussians = {
            "position": self.position,
            "sharpness": torch.exp(-self.log_sigma),
            "axis": torch.stack([self.angle.cos(), self.angle.sin()], -1),
            "opacity": self.opacity.sigmoid(),
            "color": self.color,
        }
        return module.splat(gaussians, self.tiles(), *self.size)

    @torch.no_grad()
    def tiles(self) -> Tensor:
        """For each tile of the image: how many Gaussians' bounding boxes meet it, then which."""
        rows, columns = (math.ceil(length / TILE) for length in self.size)
        sigma, cos, sin = self.log_sigma.exp(), self.angle.cos(), self.angle.sin()
        across, down = torch.stack([cos, sin], -1), torch.stack([sin, cos], -1)
        extent = REACH * torch.stack([(sigma * across).norm(dim=-1), (sigma * down).norm(dim=-1)], -1)
        low, high = (self.position - extent) / TILE, (self.position + extent) / TILE
        row = torch.arange(rows, device=sigma.device)[:, None]
        column = torch.arange(columns, device=sigma.device)[:, None]
        meets_row = (low[:, 1] < row + 1) & (high[:, 1] > row)
        meets_column = (low[:, 0] < column + 1) & (high[:, 0] > column)
        meets = (meets_row[:, None] & meets_column[None]).flatten(0, 1)

        count = meets.sum(1)
        tile, gaussian = meets.nonzero(as_tuple=True)
        place = torch.arange(len(tile), device=tile.device) - (count.cumsum(0) - count)[tile]
        tiles = torch.zeros(rows * columns, 1 + int(count.max()), dtype=torch.int32, device=tile.device)
        tiles[:, 0] = count
        tiles[tile, 1 + place] = gaussian.int()
        return tiles.view(rows, columns, -1)

    def parameter_groups(self, rate: float) -> list[dict[str, object]]:
        rates = {"position": 0.3, "log_sigma": 0.03, "angle": 0.05, "opacity": 0.05, "color": 0.02}
        return [{"params": [getattr(self, name)], "lr": rate * value} for name, value in rates.items()]


def detail(image: Tensor) -> Tensor:
    """How much goes on around each pixel, as probabilities."""
    gray = image.mean(-1)
    change = torch.zeros_like(gray)
    change[:, :-1] += gray.diff(dim=1).abs()
    change[:-1] += gray.diff(dim=0).abs()
    density = (change + 0.3 * change.mean()).flatten()
    return density / density.sum()


def psnr(image: Tensor, target: Tensor) -> float:
    return -10 * math.log10((image.clamp(0, 1) - target).square().mean().item())


def photograph(size: int, device: torch.device) -> Tensor:
    picture = Image.fromarray(skimage.data.astronaut()).resize((size, size), Image.Resampling.LANCZOS)
    return torch.from_numpy(np.array(picture)).to(device).float() / 255


def fit(gaussians: Gaussians, target: Tensor, steps: int) -> list[float]:
    """Trains in place; returns the loss after each step."""
    optimizer = torch.optim.Adam(gaussians.parameter_groups(1.0), betas=(0.9, 0.99), eps=1e-15)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    losses = []
    progress = tqdm(range(steps), unit="step")
    for step in progress:
        image = gaussians()
        loss = (image - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.detach())
        if step % 10 == 0:
            progress.set_postfix_str(f"PSNR {psnr(image.detach(), target):.2f} dB")
    return torch.stack(losses).tolist()


def save_image(image: Tensor, path: Path) -> None:
    Image.fromarray((image.detach().clamp(0, 1) * 255).round().byte().cpu().numpy()).save(path)


def save_curve(losses: list[float], path: Path) -> None:
    figure = Figure(figsize=(6, 4))
    axes = figure.subplots()
    axes.semilogy(losses)
    axes.set(xlabel="step", ylabel="mean squared error", title="Fit of a photograph by Gaussians")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120, bbox_inches="tight")


def main() -> None:
    gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if gpu else "cpu")
    parser.add_argument("--size", type=int, default=512 if gpu else 192, help="pixels along each side")
    parser.add_argument("--gaussians", type=int, default=8000 if gpu else 600)
    parser.add_argument("--steps", type=int, default=1000 if gpu else 300)
    parser.add_argument("--out", type=Path, default=Path("out/gaussian_image_fit"))
    arguments = parser.parse_args()

    torch.manual_seed(0)
    target = photograph(arguments.size, torch.device(arguments.device))
    gaussians = Gaussians(target, arguments.gaussians)
    start = time.perf_counter()
    losses = fit(gaussians, target, arguments.steps)
    seconds = time.perf_counter() - start

    result = gaussians()
    arguments.out.mkdir(parents=True, exist_ok=True)
    save_image(target, arguments.out / "target.png")
    save_image(result, arguments.out / "result.png")
    save_curve(losses, arguments.out / "curve.png")
    print(
        f"{arguments.gaussians} Gaussians, {arguments.size}x{arguments.size} pixels, {arguments.steps} steps on "
        f"{arguments.device} in {seconds:.1f} s: PSNR {psnr(result, target):.2f} dB. See {arguments.out}/"
    )


if __name__ == "__main__":
    main()
