"""Learns the energy of water molecules from forces alone: energy.slang is the energy, its gradient the forces.

    python examples/forces/fit.py [--samples 64] [--molecules 4] [--steps 60] [--device cpu] [--no-times]

The loss is of forces, so its gradient by the parameters is a second derivative of the energy. The same model in plain
PyTorch stands beside: it must agree in float64, and is timed, eager and compiled. Writes forces.png and loss.png into
out/forces.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.utils.benchmark import Timer

import torch_slang

in_slang = torch_slang.load(Path(__file__).with_name("energy.slang"), namespace="forces")
TRUE = {  # in kcal/mol, angstrom, radians, elementary charges
    "depth": 101.9, "steepness": 2.35, "length": 0.9419, "stiffness": 87.9, "angle": 1.86,
    "attraction": 0.155, "size": 3.165, "charge": 0.41,
}  # fmt: skip
COULOMB = 332.06  # kcal/mol, for two elementary charges one angstrom apart


class InTorch:
    """The kernels of energy.slang by torch's operators."""

    @staticmethod
    def inside(  # noqa: PLR0917  (as the kernel has them)
        places: Tensor, depth: Tensor, steepness: Tensor, length: Tensor, stiffness: Tensor, angle: Tensor
    ) -> Tensor:
        oxygen, first, second = places.unbind(-2)
        u, v = first - oxygen, second - oxygen
        lengths = torch.stack((u.square().sum(-1), v.square().sum(-1))).sqrt()
        missing = 1 - torch.exp(steepness * (length - lengths))
        off = (u * v).sum(-1) / (lengths[0] * lengths[1]) - angle.cos()
        return depth * missing.square().sum(0) + 0.5 * stiffness * off.square()

    @staticmethod
    def between(  # noqa: PLR0917
        places: Tensor, pairs: Tensor, attraction: Tensor, size: Tensor, charge: Tensor, coulomb: float
    ) -> Tensor:
        atoms = places.flatten(1, 2)
        inverse = 1 / (atoms[:, pairs[:, 0]] - atoms[:, pairs[:, 1]]).square().sum(-1)
        sixth = (size * size * inverse) ** 3
        oxygens = pairs % 3 == 0
        signs = torch.where(oxygens, -2, 1).prod(1)
        lennard_jones = 4 * attraction * oxygens.all(1) * (sixth * sixth - sixth)
        return lennard_jones + coulomb * charge.square() * signs * inverse.sqrt()


class Water(nn.Module):
    """The energy of so many molecules, by kernels or by torch. Parameters are logarithms, so above zero."""

    pairs: Tensor

    def __init__(self, molecules: int, functions: Any = in_slang) -> None:
        super().__init__()
        self.functions = functions
        self.logs = nn.ParameterDict({name: torch.tensor(value).log() for name, value in TRUE.items()})
        pairs = torch.combinations(torch.arange(3 * molecules))
        self.register_buffer("pairs", pairs[pairs[:, 0] // 3 != pairs[:, 1] // 3].int())

    def forward(self, places: Tensor) -> Tensor:
        """Places [samples, molecules, 3 atoms, 3] give energies [samples]."""
        values = torch.stack([self.logs[name] for name in TRUE]).exp().unbind()
        depth, steepness, length, stiffness, angle, attraction, size, charge = values
        inside = self.functions.inside(places, depth, steepness, length, stiffness, angle)
        between = self.functions.between(places, self.pairs, attraction, size, charge, COULOMB)
        total: Tensor = inside.sum(1) + between.sum(1)
        return total


def forces(water: Water, places: Tensor) -> Tensor:
    """Minus the gradient of the energy, itself differentiable by the parameters."""
    places = places.detach().requires_grad_()
    return -torch.autograd.grad(water(places).sum(), places, create_graph=True)[0]


def places_of(samples: int, molecules: int) -> Tensor:
    """Molecules on a grid of 3 angstrom, turned and shaken: [samples, molecules, 3 atoms, 3]."""
    side = next(n for n in range(1, molecules + 1) if n**3 >= molecules)
    middles = 3.0 * torch.cartesian_prod(*[torch.arange(side)] * 3).view(-1, 3)[:molecules]
    molecule = torch.tensor([[0, 0, 0], [0.94, 0, 0], [-0.27, 0.90, 0]])
    turns, _ = torch.linalg.qr(torch.randn(samples, molecules, 3, 3))
    return middles[:, None] + molecule @ turns + 0.05 * torch.randn(samples, molecules, 3, 3)


def start(water: Water) -> Water:
    """Parameters up to a tenth off."""
    with torch.no_grad():
        for i, log in enumerate(water.logs.values()):
            log.add_(0.1 if i % 2 else -0.1)
    return water


def loss_of(water: Water, places: Tensor, measured: Tensor) -> Tensor:
    return (forces(water, places) - measured).square().mean()


def fit(water: Water, places: Tensor, measured: Tensor, steps: int) -> list[float]:
    """Trains in place; returns the loss of each evaluation."""
    optimizer = torch.optim.LBFGS(water.parameters(), max_iter=steps, history_size=20, line_search_fn="strong_wolfe")
    losses = []

    def evaluate() -> Tensor:
        optimizer.zero_grad()
        loss = loss_of(water, places, measured)
        loss.backward()
        losses.append(loss.detach())
        return loss

    optimizer.step(evaluate)
    return torch.stack(losses).tolist()


def differences(ours: Water, theirs: Water, places: Tensor, measured: Tensor) -> dict[str, float]:
    """The largest relative differences, number by number, of two models with the same parameters."""
    kinds: dict[str, list[Tensor]] = {"energies": [], "forces": [], "gradients of parameters": []}
    for water in (ours, theirs):
        gradients = torch.autograd.grad(loss_of(water, places, measured), list(water.parameters()))
        for kind, result in zip(kinds, (water(places), forces(water, places), torch.stack(gradients)), strict=True):
            kinds[kind].append(result.detach())
    return {kind: float(((a - b) / b).abs().max()) for kind, (a, b) in kinds.items()}


def compiled_loss(water: Water) -> Callable[[Tensor, Tensor], Tensor]:
    """loss_of with torch.func.grad, which torch.compile traces; a second call of autograd it does not."""

    @torch.compile(fullgraph=True)
    def loss(places: Tensor, measured: Tensor) -> Tensor:
        result = -torch.func.grad(lambda places: water(places).sum())(places)
        return (result - measured).square().mean()

    return loss


def times(ours: Water, theirs: Water, places: Tensor, measured: Tensor) -> dict[str, float]:
    """Milliseconds of the loss and its gradient by the parameters."""
    ways: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "torch_slang": lambda *data: loss_of(ours, *data),
        "torch_slang in torch.compile": compiled_loss(ours),
        "eager": lambda *data: loss_of(theirs, *data),
        "torch.func.grad in torch.compile": compiled_loss(theirs),
    }
    taken = {}
    for name, way in ways.items():
        timer = Timer("way(places, measured).backward()", globals={"way": way, "places": places, "measured": measured})
        timer.timeit(3)  # compiles
        taken[name] = timer.blocked_autorange(min_run_time=0.5).median * 1e3
    return taken


def save_plots(pairs: dict[str, Tensor], measured: Tensor, losses: list[float], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(9, 4), layout="constrained")
    for axis, (title, found) in zip(figure.subplots(1, 2), pairs.items(), strict=True):
        axis.plot(measured.flatten().cpu(), found.detach().flatten().cpu(), ".", markersize=2)
        axis.axline((0, 0), slope=1, color="gray", linewidth=0.5)
        axis.set(title=title, xlabel="true force, kcal/mol/Å", ylabel="force of the model")
    figure.savefig(out / "forces.png", dpi=120, bbox_inches="tight")
    figure = Figure(figsize=(5, 4))
    axes = figure.subplots()
    axes.semilogy(losses)
    axes.set(xlabel="evaluation", ylabel="mean squared error of forces", title="An energy learned from forces")
    axes.grid(alpha=0.3)
    figure.savefig(out / "loss.png", dpi=120, bbox_inches="tight")


def main(arguments: list[str] | None = None) -> tuple[Water, list[float], dict[str, float]]:
    """Returns the model, the losses, and the differences from plain PyTorch."""
    gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if gpu else "cpu")
    parser.add_argument("--samples", type=int, default=4096 if gpu else 64)
    parser.add_argument("--molecules", type=int, default=4)
    parser.add_argument("--steps", type=int, default=60, help="of L-BFGS")
    parser.add_argument("--times", action=argparse.BooleanOptionalAction, default=True, help="time it beside PyTorch")
    parser.add_argument("--out", type=Path, default=Path("out/forces"))
    options = parser.parse_args(arguments)

    torch.manual_seed(0)
    kind: dict[str, Any] = {"device": options.device, "dtype": torch.float64}
    places = places_of(options.samples, options.molecules).to(**kind)
    truth, ours, theirs = (Water(options.molecules, f).to(**kind) for f in (InTorch, in_slang, InTorch))
    measured = forces(truth, places).detach()
    start(ours)
    start(theirs)
    apart = differences(ours, theirs, places, measured)
    print("beside plain PyTorch:", ", ".join(f"{kind} {number:.1e}" for kind, number in apart.items()))

    at_first = forces(ours, places)
    losses = fit(ours, places, measured, options.steps)
    for name, log in ours.logs.items():
        print(f"{name:10} {log.exp().item():9.4f}, true {TRUE[name]:9.4f}")
    save_plots({"at first": at_first, "trained": forces(ours, places)}, measured, losses, options.out)
    print(
        f"{options.samples} samples of {options.molecules} molecules on {options.device}, {len(losses)} evaluations: "
        f"mean squared error {losses[0]:.2g} to {losses[-1]:.2g}. See {options.out}/"
    )
    if options.times:
        taken = times(ours.float(), theirs.float(), places.float(), measured.float())
        print("loss and gradient, float32:", ", ".join(f"{name} {ms:.2f} ms" for name, ms in taken.items()))
    return ours, losses, apart


if __name__ == "__main__":
    main()
