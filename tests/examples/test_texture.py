"""examples/texture: the lookup has grid_sample's values and gradients, and the training finds the cameras."""

from pathlib import Path

import pytest
import torch
from example_programs import load_program
from long_tests import dear_test

import torch_slang

EXAMPLE = Path(__file__).parents[2] / "examples" / "texture"


@pytest.mark.parametrize("size", [(7, 5), (1, 4)])
def test_lookup_is_grid_sample(device: torch.device, size: tuple[int, int]) -> None:
    module = torch_slang.load(EXAMPLE / "texture.slang", namespace="texture_example")
    torch.manual_seed(0)
    texture = torch.rand(*size, 3, dtype=torch.float64, device=device, requires_grad=True)
    place = (
        torch.rand(11, 13, 2, dtype=torch.float64, device=device) * 2.6 - 1.3
    ).requires_grad_()  # beyond the edges, too
    grad = torch.rand(11, 13, 3, dtype=torch.float64, device=device)
    ours = module.lookup(place, texture)
    sampled = torch.nn.functional.grid_sample(
        texture.permute(2, 0, 1)[None], place[None], padding_mode="border", align_corners=False
    )
    theirs = sampled[0].permute(1, 2, 0)
    torch.testing.assert_close(ours, theirs)
    for one, other in zip(
        torch.autograd.grad(ours, [place, texture], grad),
        torch.autograd.grad(theirs, [place, texture], grad),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


@dear_test
def test_cameras_are_found(tmp_path: Path, device: torch.device) -> None:
    example = load_program("texture/fit.py", "matplotlib", "skimage", "PIL")

    noise = 0.02
    arguments = f"--width 64 --shots 9 --steps 240 --noise {noise} --device {device} --out {tmp_path}"
    _, _, losses, off = example.main(arguments.split())
    assert losses[-1] < 2 * noise**2 < 0.02 * losses[0]
    assert off[1] < 0.5 * off[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["loss.png", "pictures.png", "shots.png"]
