"""Solves Burgers' equation, u_t + u u_x = v u_xx, by a network whose activation is a Slang function.

    python examples/pinn/fit.py [--points 2000] [--steps 400] [--device cpu]

The equation is split in two of the first order, u_t + u u_x = q_x and q = v u_x. Derivatives by place and time come by
torch.func.jvp, and the loss is differentiated through them. In the end torch.func.hessian takes u_xx of the network
itself, which puts it into the equation as it stands. Compares with the exact solution, a front that travels, and writes
solution.png into out/pinn.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

import torch_slang

module = torch_slang.load(Path(__file__).with_name("activation.slang"), namespace="pinn")
VISCOSITY, SPEED = 0.1, 0.5


def exact(at: Tensor) -> Tensor:
    """The front at [..., (place, time)]."""
    place, time = at.unbind(-1)
    return SPEED - torch.tanh((place - SPEED * time) / (2 * VISCOSITY))


class Kink(nn.Module):
    """The activation of activation.slang, with parameters for each unit."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.ones(units))
        self.swing = nn.Parameter(torch.zeros(units))
        self.rate = nn.Parameter(torch.ones(units))

    def forward(self, z: Tensor) -> Tensor:
        result: Tensor = module.kink(z, self.slope, self.swing, self.rate)
        return result


def network(units: int) -> nn.Module:
    """From [..., (place, time)] to [..., (u, q)]."""
    return nn.Sequential(nn.Linear(2, units), Kink(units), nn.Linear(units, units), Kink(units), nn.Linear(units, 2))


def residuals(field: nn.Module, at: Tensor) -> tuple[Tensor, Tensor]:
    """What both equations of the first order leave over at points [N, 2]."""
    by_place, by_time = torch.eye(2, dtype=at.dtype, device=at.device)
    result, slope = torch.func.jvp(field, (at,), (by_place.expand_as(at),))
    _, change = torch.func.jvp(field, (at,), (by_time.expand_as(at),))
    u, q = result.unbind(-1)
    return change[:, 0] + u * slope[:, 0] - slope[:, 1], q - VISCOSITY * slope[:, 0]


def strong_residual(field: nn.Module, at: Tensor) -> Tensor:
    """What Burgers' equation itself leaves over, by the gradient and the Hessian of u."""

    def u(point: Tensor) -> Tensor:
        result: Tensor = field(point)[0]
        return result

    slope, change = torch.vmap(torch.func.grad(u))(at).unbind(-1)
    return change + field(at)[:, 0] * slope - VISCOSITY * torch.vmap(torch.func.hessian(u))(at)[:, 0, 0]


def fit(field: nn.Module, inside: Tensor, border: Tensor, steps: int) -> list[float]:
    """Trains in place, with values at the border and none inside; returns the loss of each evaluation."""
    optimizer = torch.optim.LBFGS(field.parameters(), max_iter=steps, history_size=50, line_search_fn="strong_wolfe")
    losses = []

    def evaluate() -> Tensor:
        optimizer.zero_grad()
        off = field(border)[:, 0] - exact(border)
        loss = off.square().mean() + sum(r.square().mean() for r in residuals(field, inside))
        loss.backward()
        losses.append(loss.detach())
        return loss

    optimizer.step(evaluate)
    return torch.stack(losses).tolist()


def points(count: int) -> tuple[Tensor, Tensor]:
    """Places from -1 to 1 and times from 0 to 1: inside, and at the beginning and both ends."""
    inside = torch.rand(count, 2) * torch.tensor([2.0, 1.0]) - torch.tensor([1.0, 0.0])
    line = torch.linspace(0, 1, 64)
    start = torch.stack([2 * line - 1, torch.zeros(64)], -1)
    ends = [torch.stack([torch.full((64,), place), line], -1) for place in (-1.0, 1.0)]
    return inside, torch.cat([start, *ends])


def save_plots(field: nn.Module, losses: list[float], like: Tensor, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(9, 4), layout="constrained")
    fronts, curve = figure.subplots(1, 2)
    place = torch.linspace(-1, 1, 201).to(like)
    for time, color in ((0.0, "tab:blue"), (0.5, "tab:orange"), (1.0, "tab:green")):
        at = torch.stack([place, torch.full_like(place, time)], -1)
        fronts.plot(place.cpu(), exact(at).cpu(), color=color, label=f"t = {time}")
        fronts.plot(place.cpu(), field(at)[:, 0].detach().cpu(), "k:")
    fronts.set(xlabel="place", ylabel="u", title="Exact (solid) and the network (dotted)")
    fronts.legend()
    curve.semilogy(losses)
    curve.set(xlabel="evaluation", ylabel="loss")
    curve.grid(alpha=0.3)
    figure.savefig(out / "solution.png", dpi=120)


def main(arguments: list[str] | None = None) -> tuple[float, float, list[float]]:
    """Returns the root mean squares of the error and of what Burgers' equation leaves over, and the losses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--points", type=int, default=2000)
    parser.add_argument("--units", type=int, default=20)
    parser.add_argument("--steps", type=int, default=400, help="of L-BFGS")
    parser.add_argument("--out", type=Path, default=Path("out/pinn"))
    options = parser.parse_args(arguments)

    torch.manual_seed(0)
    kind: dict[str, Any] = {"device": options.device, "dtype": torch.float64}
    field = network(options.units).to(**kind)
    inside, border = (p.to(**kind) for p in points(options.points))
    losses = fit(field, inside, border, options.steps)

    unseen = points(500)[0].to(**kind)
    error = (field(unseen)[:, 0] - exact(unseen)).square().mean().sqrt().item()
    left = strong_residual(field, unseen).square().mean().sqrt().item()
    save_plots(field, losses, inside, options.out)
    print(
        f"{len(losses)} evaluations on {options.device}: loss {losses[0]:.2g} to {losses[-1]:.2g}, "
        f"error of u {error:.2g}, Burgers' equation leaves {left:.2g} (root mean squares, at points not trained on). "
        f"See {options.out}/"
    )
    return error, left, losses


if __name__ == "__main__":
    main()
