"""examples/pinn: its derivatives are plain PyTorch's, and the training finds the exact solution."""

from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from example_programs import load_program


@pytest.fixture(scope="module")
def example() -> ModuleType:
    return load_program("pinn/fit.py", "matplotlib")


def test_residuals_and_their_gradients_are_torchs(
    example: ModuleType, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    field = example.network(5).to(device, torch.float64)
    for parameter in field.parameters():
        parameter.detach().add_(0.3 * torch.randn_like(parameter))
    at = example.points(9)[0].to(device, torch.float64)

    def results() -> list[torch.Tensor]:
        both = example.residuals(field, at)
        gradients = torch.autograd.grad(sum(r.square().mean() for r in both), list(field.parameters())[:-1])
        return [*both, *gradients, example.strong_residual(field, at)]

    ours = results()
    in_torch = SimpleNamespace(kink=lambda z, slope, swing, rate: torch.tanh(slope * z) + swing * torch.sin(rate * z))
    monkeypatch.setattr(example, "module", in_torch)
    for one, other in zip(ours, results(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_the_front_is_found(example: ModuleType, tmp_path: Path, device: torch.device) -> None:
    arguments = f"--points 300 --units 12 --steps 120 --device {device} --out {tmp_path}"
    error, left, losses = example.main(arguments.split())
    assert error < 0.02
    assert left < 0.2
    assert losses[-1] < 1e-3 * losses[0]
    assert [path.name for path in tmp_path.iterdir()] == ["solution.png"]
