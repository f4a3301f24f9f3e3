"""examples/splatting: the renderer has the values and gradients of plain PyTorch, and training finds the scene."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import splatting_reference as reference
import torch
from cases import nvrtc_is_here
from example_programs import EXAMPLES, load_program
from long_tests import dear_file, dear_test, long_test, some_cases, some_tests
from torch import Tensor

pytestmark = [some_tests(2), dear_file]

Parameters = tuple[Tensor, ...]
BACKGROUND = [0.2, 0.5, 0.9]


@pytest.fixture(scope="module")
def renderer() -> ModuleType:
    return load_program("splatting/renderer.py")


def gaussians(seed: int, count: int, device: torch.device, logit: float = 0.5) -> Parameters:
    """Some before the camera, some behind it, of many sizes."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    tensors = (
        normal(count, 3),
        normal(count, 4),
        normal(count, 3) * 0.6 - 1.6,
        normal(count) + logit,
        normal(count, 16, 3) * 0.5,
    )
    return tuple(tensor.to(device).requires_grad_() for tensor in tensors)


def camera_of(
    renderer: ModuleType, width: int, height: int, device: torch.device, away: float = 1.5
) -> tuple[Tensor, ...]:
    """Turned a little, with its middle beside the image's."""
    turn = torch.linalg.qr(
        torch.eye(3, dtype=torch.float64) + torch.tensor([[0, 0.1, 0.2], [-0.1, 0, 0.1], [-0.2, -0.1, 0.0]])
    )[0]
    turn = turn * torch.diagonal(turn).sign()
    tensors = (
        turn,
        torch.tensor([0.1, -0.05, away]),
        torch.tensor([0.9 * width, 1.1 * height]),
        torch.tensor([0.45 * width, 0.55 * height]),
    )
    return renderer.Camera(*(tensor.double().to(device).requires_grad_() for tensor in tensors))


# Sizes that are no multiples of the tile's 16, less than one, and exactly two; more Gaussians than a block loads.
@dear_test
@some_cases(1)
@pytest.mark.parametrize(
    ("seed", "width", "height", "count", "logit"),
    [(0, 37, 21, 60, 0.5), (1, 5, 3, 20, 0.5), (2, 32, 16, 700, -1.0), (3, 19, 50, 40, 4.0)],
)
def test_values_and_gradients_are_plain_pytorch(
    renderer: ModuleType,
    device: torch.device,
    seed: int,
    width: int,
    height: int,
    count: int,
    logit: float,
) -> None:
    parameters = gaussians(seed, count, device, logit)
    camera = camera_of(renderer, width, height, device)
    splats = renderer.project(*parameters, camera, width, height)
    image = renderer.draw(splats.numbers, renderer.tile_lists(splats, width, height), width, height, BACKGROUND)
    expected = torch.cat(
        [part.reshape(height, width, -1) for part in reference.render(parameters, camera, width, height, BACKGROUND)],
        -1,
    )
    torch.testing.assert_close(image, expected, rtol=1e-9, atol=1e-10)
    assert 0 < expected[..., 3].min() < 0.9
    inputs = [*parameters, *camera]
    grad = torch.randn(expected.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(device)
    ours, theirs = (torch.autograd.grad(result, inputs, grad) for result in (image, expected))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-8)
        assert other.abs().max() > 1e-3


@dear_test
def test_gradcheck_of_a_tiny_scene(renderer: ModuleType, device: torch.device) -> None:
    parameters = gaussians(4, 3, device)
    camera = camera_of(renderer, 7, 5, device, away=3.0)

    def image(*tensors: Tensor) -> Tensor:
        result: Tensor = renderer.render(tensors[:5], renderer.Camera(*tensors[5:]), 7, 5, BACKGROUND)[0]
        return result

    assert torch.autograd.gradcheck(image, (*parameters, *camera), fast_mode=True)


@dear_test
def test_what_is_not_drawn_has_no_gradient(renderer: ModuleType, device: torch.device) -> None:
    """Behind the camera, at its very place, too faint, beside the image; and nothing at all."""
    means = torch.tensor([[0.0, 0, -1], [0, 0, 0], [0, 0, 2], [90, 0, 2], [0, 0, 3]], dtype=torch.float64)
    logits = torch.tensor([2.0, 2, -900, 2, 2], dtype=torch.float64)
    rest = (torch.arange(1.0, 5).expand(5, 4), torch.tensor([-2.0, -1.5, -2.5]).expand(5, 3), torch.ones(5, 16, 3))
    quaternions, log_scales, harmonics = (tensor.double() for tensor in rest)
    tensors = (means, quaternions, log_scales, logits, harmonics)
    parameters = tuple(tensor.to(device).requires_grad_() for tensor in tensors)
    straight = (torch.eye(3), torch.zeros(3), torch.tensor([20.0, 20.0]), torch.tensor([10.0, 9.0]))
    camera = renderer.Camera(*(tensor.double().to(device) for tensor in straight))
    image, splats = renderer.render(parameters, camera, 20, 18, BACKGROUND)
    assert (splats.rectangles[:4, 2:] == splats.rectangles[:4, :2]).all()
    gradients = torch.autograd.grad(image.square().sum(), parameters)
    assert all((gradient[:4] == 0).all() for gradient in gradients)
    assert all((gradient[4] != 0).any() for gradient in gradients)
    empty = tuple(tensor[:0].detach().requires_grad_() for tensor in parameters)
    image, _ = renderer.render(empty, camera, 20, 18, BACKGROUND)
    torch.testing.assert_close(image, torch.tensor(BACKGROUND, device=device).double().expand(18, 20, 3))
    assert all(len(gradient) == 0 for gradient in torch.autograd.grad(image.sum(), empty, allow_unused=True))


def test_harmonics_of_another_number_are_refused(renderer: ModuleType, device: torch.device) -> None:
    means, quaternions, log_scales, logits, harmonics = gaussians(0, 2, device)
    camera = camera_of(renderer, 8, 8, device)
    with pytest.raises(ValueError, match=r"harmonics to have shape \[G, 1 or 4 or 9 or 16, 3\], but got \[2, 3, 3\]"):
        renderer.project(means, quaternions, log_scales, logits, harmonics[:, :3], camera, 8, 8)


@dear_test
def test_kernels_compile_for_a_gpu(renderer: ModuleType) -> None:
    if not nvrtc_is_here():
        pytest.skip("NVRTC is not installed")
    kernels = [(renderer._projection(1), "project", "backward"), (renderer._raster, "draw", "forward")]
    for module, name, kind in [*kernels, (renderer._raster, "drawn", "backward")]:
        types = ["float32" for _ in module._handle.describe(name)["type_parameters"]]
        sums = {"wave_sums": True} if name == "drawn" else {}
        image = module._handle.cubin(name, kind, types, True, "sm_90", **sums)
        assert image.startswith(b"\x7fELF"), (name, kind)


@long_test  # `make demo` runs it longer
def test_training_finds_the_scene(tmp_path: Path, device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES / "splatting")
    example = load_program("splatting/fit.py", "matplotlib", "PIL", "tqdm")
    arguments = (
        f"--size 48 --views 12 --held-out 2 --steps 150 --start 300 --most 600 --device {device} --out {tmp_path}"
    )
    found, losses, qualities = example.main(arguments.split())
    assert 300 < len(found) <= 600
    for group in found.optimizer.param_groups:  # the number of Gaussians has changed in all of it
        (parameter,) = group["params"]
        assert parameter is getattr(found, group["name"])
        assert found.optimizer.state[parameter]["exp_avg"].shape == parameter.shape
    assert sum(losses[-10:]) < 0.4 * sum(losses[:10])
    assert sum(qualities) > 21.5 * len(qualities)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["curve.png", "views.png"]
