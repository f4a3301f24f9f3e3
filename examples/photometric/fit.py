"""Calibrates a camera from a known picture and several shots of it: photometric.slang is the camera.

    python examples/photometric/fit.py [--width 300] [--shots 4] [--noise 0.01] [--steps 100] [--device cpu]

Each shot has an exposure and a white balance of its own; vignetting, crosstalk and the response curve are the camera's.
Writes shots.png, response.png and loss.png into out/photometric.
"""

from __future__ import annotations

import argparse
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

module = torch_slang.load(Path(__file__).with_name("photometric.slang"))


class Photometry(nn.Module):
    """A camera and its shots. The first shot is the measure of the others' exposure and white balance."""

    def __init__(self, shots: int) -> None:
        super().__init__()
        start = {
            "exposure": torch.zeros(shots - 1),
            "white": torch.zeros(shots - 1, 2),
            "center": torch.zeros(2),
            "falloff": torch.zeros(2),
            "red": torch.zeros(2),
            "green": torch.zeros(2),
            "blue": torch.zeros(2),
            "gamma": torch.full((3,), 2.0),
            "contrast": torch.zeros(()),
        }
        self.values = nn.ParameterDict(start)

    @property
    def shot(self) -> dict[str, Tensor]:
        """One of each for all pixels of a shot: [shots, 1, 1] broadcasts with [height, width]."""
        exposure, white = self.values["exposure"], self.values["white"]
        return {
            "exposure": torch.cat([exposure.new_zeros(1), exposure]).view(-1, 1, 1),
            "white": torch.cat([white.new_zeros(1, 2), white]).view(-1, 1, 1, 2),
        }

    @property
    def camera(self) -> dict[str, dict[str, Tensor]]:
        structs = {
            "vignette": ("center", "falloff"),
            "crosstalk": ("red", "green", "blue"),
            "response": ("gamma", "contrast"),
        }
        return {struct: {field: self.values[field] for field in fields} for struct, fields in structs.items()}

    def forward(self, light: Tensor, place: Tensor) -> Tensor:
        """Light [H, W, 3] at places [H, W, 2] gives pixels [shots, H, W, 3]."""
        result: Tensor = module.develop(light=light, place=place, shot=self.shot, camera=self.camera)
        return result

    @torch.no_grad()
    def restore(self, pixels: Tensor, place: Tensor) -> Tensor:
        result: Tensor = module.restore(pixel=pixels, place=place, shot=self.shot, camera=self.camera)
        return result


def true_photometry(shots: int) -> Photometry:
    """The camera to be found."""
    generator = torch.Generator().manual_seed(4)
    truth = Photometry(shots).requires_grad_(False)
    values = {
        "exposure": torch.linspace(0.8, -1.5, shots - 1),
        "white": torch.rand(shots - 1, 2, generator=generator) - 0.5,
        "center": torch.tensor([0.06, -0.04]),
        "falloff": torch.tensor([-0.5, 0.1]),
        "red": torch.tensor([0.15, 0.03]),
        "green": torch.tensor([0.08, 0.06]),
        "blue": torch.tensor([0.01, 0.12]),
        "gamma": torch.tensor([2.3, 2.2, 2.05]),
        "contrast": torch.tensor(0.45),
    }
    for name, value in values.items():
        truth.values[name].copy_(value)
    return truth


def photograph(width: int) -> Tensor:
    """A photograph's light: its values without the usual gamma of 2.2."""
    picture = Image.fromarray(skimage.data.coffee())
    picture = picture.resize((width, width * picture.height // picture.width), Image.Resampling.LANCZOS)
    return (torch.from_numpy(np.array(picture)).float() / 255) ** 2.2


def places(height: int, width: int) -> Tensor:
    """Of the pixels' middles, in half diagonals from the middle of the picture."""
    diagonal = (height**2 + width**2) ** 0.5 / 2
    y = (torch.arange(height) + 0.5 - height / 2) / diagonal
    x = (torch.arange(width) + 0.5 - width / 2) / diagonal
    return torch.stack(torch.meshgrid(x, y, indexing="xy"), -1)


def fit(photometry: Photometry, light: Tensor, place: Tensor, pixels: Tensor, steps: int) -> list[float]:
    """Trains in place; returns the loss of each evaluation."""
    optimizer = torch.optim.LBFGS(
        photometry.parameters(), max_iter=steps, history_size=20, line_search_fn="strong_wolfe"
    )
    losses = []

    def evaluate() -> Tensor:
        optimizer.zero_grad()
        loss = (photometry(light, place) - pixels).square().mean()
        loss.backward()
        losses.append(loss.detach())
        return loss

    optimizer.step(evaluate)
    return torch.stack(losses).tolist()


def print_comparison(found: Photometry, truth: Photometry) -> None:
    print(f"{'':10} {'found':40} true")
    for name, value in found.values.items():
        pair = [
            " ".join(f"{number:6.3f}" for number in v.detach().flatten().tolist()) for v in (value, truth.values[name])
        ]
        print(f"{name:10} {pair[0]:40} {pair[1]}")


def displayed(light: Tensor) -> np.ndarray[Any, Any]:
    return (light.detach().clamp(0, 1) ** (1 / 2.2)).cpu().numpy()


def save_shots(light: Tensor, pixels: Tensor, restored: Tensor, path: Path) -> None:
    """The picture; the shots of it, and what they are once restored."""
    figure = Figure(figsize=(3 * (len(pixels) + 1), 4.4))
    axes = figure.subplots(2, len(pixels) + 1)
    shown = [(axes[0, 0], light, "the picture")]
    for i in range(len(pixels)):
        axes[0, i + 1].imshow(pixels[i].cpu().numpy())
        axes[0, i + 1].set_title(f"shot {i + 1}")
        shown.append((axes[1, i + 1], restored[i], f"shot {i + 1}, restored"))
    for axis, image, title in shown:
        axis.imshow(displayed(image))
        axis.set_title(title)
    for axis in axes.flat:
        axis.axis("off")
    figure.savefig(path, dpi=100, bbox_inches="tight")


def save_responses(found: Photometry, truth: Photometry, path: Path) -> None:
    """Each channel's curve: one call gives all three."""
    light = torch.linspace(0, 1, 257, device=found.values["gamma"].device)
    figure = Figure(figsize=(5, 4))
    axes = figure.subplots()
    for photometry, style in ((truth, "-"), (found, "--"), (Photometry(1).to(light.device), ":")):
        with torch.no_grad():
            curves = module.respond(light[:, None], photometry.values["gamma"], photometry.values["contrast"])
        for channel, color in enumerate(("tab:red", "tab:green", "tab:blue")):
            axes.plot(light.cpu(), curves[:, channel].cpu(), style, color=color)
    axes.set(xlabel="light", ylabel="value", title="Response: true (solid), found (dashed), at first (dotted)")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120, bbox_inches="tight")


def save_losses(losses: list[float], noise: float, path: Path) -> None:
    figure = Figure(figsize=(5, 4))
    axes = figure.subplots()
    axes.semilogy(losses)
    axes.axhline(noise**2, color="gray", linestyle=":", label="the noise")
    axes.set(xlabel="evaluation", ylabel="mean squared error", title="Fit of a camera to its shots")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120, bbox_inches="tight")


def main(arguments: list[str] | None = None) -> tuple[Photometry, Photometry, list[float]]:
    """Returns what was found, the truth, and the losses."""
    gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if gpu else "cpu")
    parser.add_argument("--width", type=int, default=600 if gpu else 300, help="of the picture, in pixels")
    parser.add_argument("--shots", type=int, default=4)
    parser.add_argument("--noise", type=float, default=0.01, help="standard deviation of a pixel")
    parser.add_argument("--steps", type=int, default=100, help="of L-BFGS")
    parser.add_argument("--out", type=Path, default=Path("out/photometric"))
    options = parser.parse_args(arguments)

    torch.manual_seed(0)
    device = torch.device(options.device)
    light = photograph(options.width).to(device)
    place = places(*light.shape[:2]).to(device)
    truth = true_photometry(options.shots).to(device)
    with torch.no_grad():
        exact = truth(light, place)
        pixels = (exact + options.noise * torch.randn_like(exact)).clamp(0, 1)

    found = Photometry(options.shots).to(device)
    start = time.perf_counter()
    losses = fit(found, light, place, pixels, options.steps)
    seconds = time.perf_counter() - start

    print_comparison(found, truth)
    options.out.mkdir(parents=True, exist_ok=True)
    save_shots(light, pixels, found.restore(pixels, place), options.out / "shots.png")
    save_responses(found, truth, options.out / "response.png")
    save_losses(losses, options.noise, options.out / "loss.png")
    print(
        f"{options.shots} shots of {light.shape[1]}x{light.shape[0]} pixels, {len(losses)} evaluations on {device} in "
        f"{seconds:.1f} s: mean squared error {losses[0]:.2g} to {losses[-1]:.2g} (the noise: {options.noise**2:.2g}). "
        f"See {options.out}/"
    )
    return found, truth, losses


if __name__ == "__main__":
    main()
