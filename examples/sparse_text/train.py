"""Trains a small character transformer thrice: dense, with block-sparse MLPs, and with patterns that follow training.

    python examples/sparse_text/train.py [--steps 120] [--width 128] [--layers 2] [--density 0.25] [--block 16]

The text is that of Python's language reference, which comes with Python (pydoc_data.topics). Writes loss.png, with
losses and steps a second, into out/sparse_text. For a GPU, where only large layers are worth their kernels:
--width 1024 --layers 6 --block 128 --batch 64 --context 256 --bfloat16 --rate 3e-4 --steps 300.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn import functional

from torch_slang.nn import PatternSchedule, sparsify


@dataclass
class Text:
    """Characters as numbers; the last tenth is for validation."""

    training: Tensor
    validation: Tensor
    characters: int

    @classmethod
    def read(cls, device: torch.device) -> Text:
        text = "\n".join(topics[name] for name in sorted(topics))
        known = {character: number for number, character in enumerate(sorted(set(text)))}
        numbers = torch.tensor([known[character] for character in text], device=device)
        split = len(numbers) * 9 // 10
        return cls(numbers[:split], numbers[split:], len(known))


@dataclass(frozen=True)
class Batches:
    """`batch` pieces of `context` characters each, multiplied in bfloat16 or as they are."""

    batch: int
    context: int
    bfloat16: bool

    def of(self, text: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Pieces of the text, and what follows each of their characters: [batch, context] both."""
        starts = torch.randint(len(text) - self.context - 1, (self.batch, 1), generator=generator).to(text.device)
        pieces = text[starts + torch.arange(self.context + 1, device=text.device)]
        return pieces[:, :-1], pieces[:, 1:]

    def loss(self, model: nn.Module, text: Tensor, generator: torch.Generator) -> Tensor:
        given, following = self.of(text, generator)
        with torch.autocast(text.device.type, torch.bfloat16, enabled=self.bfloat16):
            logits = model(given)
        return functional.cross_entropy(logits.float().flatten(0, 1), following.flatten())


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        mixed = self.mixed(self.before_attention(x)).unflatten(-1, (3, -1, 32)).permute(2, 0, 3, 1, 4)
        query, key, value = mixed.unbind()
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        mlp: Tensor = self.mlp(self.before_mlp(x))
        return x + mlp


class Transformer(nn.Module):
    def __init__(self, characters: int, context: int, width: int, layers: int) -> None:
        super().__init__()
        self.characters, self.places = nn.Embedding(characters, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(layers)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, characters))

    def forward(self, text: Tensor) -> Tensor:
        x = self.characters(text) + self.places.weight[: text.shape[1]]
        logits: Tensor = self.head(self.blocks(x))
        return logits


@dataclass
class Curve:
    """What one training came to."""

    losses: list[float]  # of the validation text, every tenth step
    steps_a_second: float
    weights: int


@torch.no_grad()
def validation_loss(model: nn.Module, text: Text, batches: Batches) -> float:
    generator = torch.Generator().manual_seed(1)
    return torch.stack([batches.loss(model, text.validation, generator) for _ in range(4)]).mean().item()


def train(kind: str, text: Text, arguments: argparse.Namespace) -> Curve:
    """`kind`: "dense", "sparse", or "scheduled", whose patterns change."""
    torch.manual_seed(0)
    batches = Batches(arguments.batch, arguments.context, arguments.bfloat16)
    model = Transformer(text.characters, arguments.context, arguments.width, arguments.layers)
    if kind != "dense":
        sparsify(model, {"*.mlp.*": arguments.density}, (arguments.block, arguments.block))
    model.to(arguments.device)
    optimizer = torch.optim.AdamW(model.parameters(), arguments.rate)
    # The last quarter of the steps settles.
    until = arguments.steps * 3 // 4
    schedule = PatternSchedule(model, optimizer, every=20, fraction=0.2, until=until) if kind == "scheduled" else None
    generator = torch.Generator().manual_seed(0)
    losses, seconds, warm = [], 0.0, min(21, arguments.steps // 2)  # the first steps compile, and the first change does
    for step in range(arguments.steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        batches.loss(model, text.training, generator).backward()
        optimizer.step()
        if schedule is not None:
            schedule.step()
        if arguments.device.type == "cuda":
            torch.cuda.synchronize()
        if step >= warm:
            seconds += time.perf_counter() - begin
        if step % 10 == 9 or step == arguments.steps - 1:
            losses.append(validation_loss(model, text, batches))
    weights = sum(one.numel() for one in model.blocks.parameters())
    return Curve(losses, (arguments.steps - warm) / max(seconds, 1e-9), weights)


def plot(curves: dict[str, Curve], folder: Path) -> None:
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes, speed = figure.subplots(1, 2, width_ratios=(3, 1))
    for kind, curve in curves.items():
        axes.plot([10 * (i + 1) for i in range(len(curve.losses))], curve.losses, label=kind)
    axes.set(xlabel="steps", ylabel="validation loss, nats a character")
    axes.legend()
    speed.bar(list(curves), [curve.steps_a_second for curve in curves.values()])
    speed.set(ylabel="steps a second")
    speed.tick_params(axis="x", rotation=30)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "loss.png")


def main(given: list[str] | None = None) -> dict[str, Curve]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--width", type=int, default=128, help="a multiple of 32")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--density", type=float, default=0.25)
    parser.add_argument("--block", type=int, default=16, help="16, 32, 64 or 128")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--context", type=int, default=64, help="characters")
    parser.add_argument("--bfloat16", action="store_true", help="autocast")
    parser.add_argument("--rate", type=float, default=2e-3, help="of learning")
    parser.add_argument("--device", type=torch.device, default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--output", type=Path, default=Path("out/sparse_text"))
    arguments = parser.parse_args(given)
    text = Text.read(arguments.device)
    curves = {}
    for kind in ("dense", "sparse", "scheduled"):
        curves[kind] = curve = train(kind, text, arguments)
        print(
            f"{kind:9}: loss {curve.losses[-1]:.3f} after {arguments.steps} steps, {curve.weights} weights in blocks, "
            f"{curve.steps_a_second:.1f} steps a second",
            flush=True,
        )
    plot(curves, arguments.output)
    return curves


if __name__ == "__main__":
    main()
