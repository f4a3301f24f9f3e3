"""examples/photometric finds the camera that made the shots, on a small picture."""

from pathlib import Path

import torch
from example_programs import load_program
from long_tests import dear_test


@dear_test
def test_camera_is_recovered(tmp_path: Path, device: torch.device) -> None:
    example = load_program("photometric/fit.py", "matplotlib", "skimage", "PIL")

    noise = 0.005
    arguments = f"--width 60 --shots 3 --steps 120 --noise {noise} --device {device} --out {tmp_path}"
    found, truth, losses = example.main(arguments.split())
    for name, value in found.values.items():  # the noise decides: of nine draws of it the worst is 0.051 off
        torch.testing.assert_close(
            value, truth.values[name], rtol=0, atol=0.08, msg=lambda text, name=name: f"{name}: {text}"
        )
    assert losses[-1] < 1.1 * noise**2 < 0.05 * losses[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["loss.png", "response.png", "shots.png"]
