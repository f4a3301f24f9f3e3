"""The renderer of examples/splatting: frames of many Gaussians, forward and backward, and where the time goes.

Beside it gsplat, if it is installed, and for the drawing alone CUDA by hand (rivals/splatting.cu). Results are compared
with ours in float64, whose values test_splatting.py compares with plain PyTorch. Pixels where a splat's opacity
is at the least that is drawn may have it or not, so it is the norm of the difference that is judged.
"""

from __future__ import annotations

import functools
import importlib.util
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.measure import device, print_table, samples
from benchmarks.report import problem
from benchmarks.rivals import cuda

EXAMPLE = Path(__file__).parent.parent / "examples" / "splatting"
BACKGROUND = [0.1, 0.2, 0.3]
ALLOWED = 5e-3  # of the norm of a result
Call = Callable[[], Sequence[Tensor]]


@functools.cache
def renderer() -> Any:
    spec = importlib.util.spec_from_file_location("splatting_renderer", EXAMPLE / "renderer.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def scene(count: int, width: int, height: int, pixels: float) -> tuple[tuple[Tensor, ...], Any]:
    """Gaussians all over the image at distances of 2 to 10, whose standard deviations are some `pixels`."""
    generator = torch.Generator().manual_seed(0)
    focal = 0.9 * width
    depth = 2 + 8 * torch.rand(count, generator=generator)
    at = torch.rand(count, 2, generator=generator) * torch.tensor([width, height]) - torch.tensor([width, height]) / 2
    means = torch.cat([at / focal * depth[:, None], depth[:, None]], 1)
    sizes = pixels * (0.5 * torch.randn(count, 3, generator=generator)).exp() * depth[:, None] / focal
    quaternions, logits = torch.randn(count, 4, generator=generator), torch.randn(count, generator=generator)
    harmonics = 0.3 * torch.randn(count, 16, 3, generator=generator)
    gaussians = (means, quaternions, sizes.log(), logits, harmonics)
    camera = (torch.eye(3), torch.zeros(3), torch.tensor([focal, focal]), torch.tensor([width / 2, height / 2]))
    on = device()
    return (
        tuple(tensor.to(on).requires_grad_() for tensor in gaussians),
        renderer().Camera(*(tensor.to(on) for tensor in camera)),
    )


def frame(gaussians: Sequence[Tensor], camera: Any, width: int, height: int, grad: Tensor | None) -> list[Tensor]:
    """An image, and its gradients if there is one of it."""
    with torch.set_grad_enabled(grad is not None):
        image, _ = renderer().render(tuple(gaussians), camera, width, height, BACKGROUND)
    return [image] if grad is None else [image, *torch.autograd.grad(image, list(gaussians), grad)]


@functools.cache
def gsplat_camera(camera: Any) -> tuple[Tensor, Tensor]:
    """The matrices [1, 4, 4] and [1, 3, 3] of a camera that gsplat takes."""
    view, lens = (torch.eye(n, device=camera.turn.device) for n in (4, 3))
    view[:3, :3], view[:3, 3] = camera.turn, camera.shift
    lens[0, 0], lens[1, 1] = camera.focal
    lens[:2, 2] = camera.center
    return view[None], lens[None]


def gsplat_frame(
    gaussians: Sequence[Tensor], camera: Any, width: int, height: int, grad: Tensor | None
) -> list[Tensor]:
    from gsplat import rasterization

    means, quaternions, log_scales, logits, harmonics = gaussians
    background = torch.tensor([BACKGROUND], device=means.device)
    with torch.set_grad_enabled(grad is not None):
        images, _, _ = rasterization(
            means, quaternions, log_scales.exp(), logits.sigmoid(), harmonics, *gsplat_camera(camera), width, height,
            sh_degree=3, packed=False, backgrounds=background,
        )  # fmt: skip
    return [images[0]] if grad is None else [images[0], *torch.autograd.grad(images[0], list(gaussians), grad)]


def difference(results: Sequence[Tensor], right: Sequence[Tensor]) -> float:
    """The largest error of a result, as a part of its norm."""
    pairs = zip(results, right, strict=True)
    return max(float((result.detach().double() - one.detach()).norm() / one.detach().norm()) for result, one in pairs)


def timed(title: str, calls: Mapping[str, Call], right: Sequence[Tensor]) -> dict[str, float]:
    """Milliseconds of each call whose results are right."""
    good: dict[str, Call] = {}
    for name, call in calls.items():
        try:
            wrong = difference(call(), right)
        except Exception as reason:  # a rival's compiler may raise anything
            problem(f"{title}: {name}: {type(reason).__name__}: {str(reason).strip()[:300]}")
            continue
        if wrong <= ALLOWED:
            good[name] = call
        else:
            problem(f"{title}: {name}: wrong by {wrong:.3g} of the norm of a result, of which {ALLOWED} is allowed")
    return {name: statistics.median(taken) for name, taken in samples(good, device()).items()} if good else {}


def doubles(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [tensor.detach().double().requires_grad_(tensor.requires_grad) for tensor in tensors]


def frames(title: str, count: int, width: int, height: int, pixels: float) -> list[list[object]]:
    gaussians, camera = scene(count, width, height, pixels)
    grad = torch.randn(height, width, 3, device=device(), generator=torch.Generator(device()).manual_seed(1))
    rivals = {"torch_slang": frame}
    if importlib.util.find_spec("gsplat"):
        rivals["gsplat"] = gsplat_frame
    rows = []
    for what, by in (("forward", None), ("forward + backward", grad)):
        wide = renderer().Camera(*doubles(camera))
        right = frame(doubles(gaussians), wide, width, height, None if by is None else by.double())
        calls = {n: functools.partial(run, gaussians, camera, width, height, by) for n, run in rivals.items()}
        times = timed(f"{title}, {what}", calls, right)
        rows.append([f"{title}, {what}", times.get("torch_slang"), times.get("gsplat")])
    return rows


def cuda_draw(splats: Tensor, lists: tuple[Tensor, Tensor], width: int, height: int) -> tuple[Tensor, Tensor]:
    background = torch.tensor(BACKGROUND, device=splats.device)
    image = torch.empty(height, width, 4, device=splats.device)
    counts = torch.empty(height, width, dtype=torch.int32, device=splats.device)
    grid = (-(-width // 16), -(-height // 16))
    kernel = cuda.function("splatting.cu", "forward", torch.float32, cuda.Variant(0, 1))
    kernel(grid, (16, 16), (splats, *lists, background, image, counts, width, height))
    return image, counts


def cuda_gradient(
    grad: Tensor, splats: Tensor, lists: tuple[Tensor, Tensor], image: Tensor, counts: Tensor
) -> list[Tensor]:
    height, width = counts.shape
    background = torch.tensor(BACKGROUND, device=splats.device)
    result = torch.zeros_like(splats)
    grid = (-(-width // 16), -(-height // 16))
    kernel = cuda.function("splatting.cu", "backward", torch.float32, cuda.Variant(0, 1))
    kernel(grid, (16, 16), (grad, splats, *lists, background, image, counts, result, width, height))
    return [result]


def parts(title: str, count: int, width: int, height: int, pixels: float) -> list[list[object]]:
    """Each kernel of ours by itself, and CUDA's for drawing."""
    gaussians, camera = scene(count, width, height, pixels)
    ours = renderer()
    projected = ours.project(*gaussians, camera, width, height)
    lists = ours.tile_lists(projected, width, height)
    splats = projected.numbers.detach().requires_grad_()
    image = ours.draw(splats, lists, width, height, BACKGROUND)
    grad_image, grad_splats = torch.randn_like(image), torch.randn_like(splats)
    wide = splats.detach().double().requires_grad_()
    wide_image = ours.draw(wide, lists, width, height, BACKGROUND)
    right = torch.autograd.grad(wide_image, wide, grad_image.double())

    def drawn() -> list[Tensor]:
        with torch.no_grad():
            return [ours.draw(splats, lists, width, height, BACKGROUND)]

    draws: dict[str, Call] = {"torch_slang": drawn}
    pulls: dict[str, Call] = {"torch_slang": lambda: torch.autograd.grad(image, splats, grad_image, retain_graph=True)}
    if cuda.missing() is None:
        kept = cuda_draw(splats, lists, width, height)
        draws["CUDA"] = lambda: [cuda_draw(splats, lists, width, height)[0]]
        pulls["CUDA"] = lambda: cuda_gradient(grad_image, splats, lists, *kept)

    def project() -> list[Tensor]:
        with torch.no_grad():
            return [ours.project(*gaussians, camera, width, height).numbers]

    alone: dict[str, Call] = {
        "project": project,
        "lists": lambda: list(ours.tile_lists(projected, width, height)),
        "back": lambda: torch.autograd.grad(projected.numbers, gaussians, grad_splats, retain_graph=True),
    }
    taken = {name: statistics.median(times) for name, times in samples(alone, device()).items()}
    drawing, pulling = timed(f"{title}, drawing", draws, [wide_image]), timed(f"{title}, gradient", pulls, right)
    return [
        [f"{title}: projection", taken["project"], None],
        [f"{title}: lists of {len(lists[0])} places", taken["lists"], None],
        [f"{title}: drawing", drawing.get("torch_slang"), drawing.get("CUDA")],
        [f"{title}: gradient of drawing", pulling.get("torch_slang"), pulling.get("CUDA")],
        [f"{title}: gradient of projection", taken["back"], None],
    ]


def main(quick: bool) -> None:
    gpu = device() == "cuda"
    width, height = (50, 40) if quick else (1920, 1080) if gpu else (320, 180)
    sizes = {300: 2.0} if quick else {100_000: 6.0, 1_000_000: 3.0} if gpu else {10_000: 4.0}
    whole, by_part = [], []
    for count, pixels in sizes.items():
        whole += frames(f"{count}", count, width, height, pixels)
        by_part += parts(f"{count}", count, width, height, pixels)
    where = f"{width} x {height}, on {device()}, ms"
    missing = [] if importlib.util.find_spec("gsplat") else ["gsplat is not installed"]
    print_table(f"Frames of Gaussians, {where}", ["Gaussians", "torch_slang", "gsplat"], whole, notes=missing)
    reason = cuda.missing()
    missing = [f"no CUDA by hand: {reason}"] if reason else []
    print_table(f"Parts of a frame, {where}", ["Gaussians: part", "torch_slang", "CUDA"], by_part, notes=missing)
