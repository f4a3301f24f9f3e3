"""examples/forces: energies, forces and second derivatives are plain PyTorch's, and forces alone teach the energy."""

from pathlib import Path

import pytest
import torch
from example_programs import load_program
from long_tests import long_test


@long_test  # `make demo` runs it longer
def test_forces_teach_the_energy(tmp_path: Path, device: torch.device) -> None:
    example = load_program("forces/fit.py", "matplotlib")

    arguments = f"--samples 16 --molecules 3 --no-times --device {device} --out {tmp_path}"
    found, losses, apart = example.main(arguments.split())
    assert len(apart) == 3
    assert max(apart.values()) < 1e-6
    assert losses[-1] < 1e-6 * losses[0]
    for name in ("length", "angle", "charge", "depth", "steepness", "stiffness"):
        assert found.logs[name].exp().item() == pytest.approx(example.TRUE[name], rel=0.02), name
    assert sorted(path.name for path in tmp_path.iterdir()) == ["forces.png", "loss.png"]
