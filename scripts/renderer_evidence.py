"""Runs a published Gaussian-splat renderer on torch_slang.slangtorch, from a checkout of its repository.

    python scripts/renderer_evidence.py CHECKOUT [--gaussians 100000 1000000] [--size 1080 1920] [--device cpu|cuda]

The program (google/slang-gaussian-rasterization: four kernels, group-shared tiles, its own backward loop that calls
bwd_diff) runs as it is, with `slangtorch` redirected; its CUDA extension that sorts is replaced by torch.sort. Beside
it, the same on slangtorch itself where that is installed. It prints the seconds from the program's import to its first
image and its first gradients (set TORCH_SLANG_CACHE_DIR to a new folder for an empty cache), how far the two images and
the gradients of all five inputs are from each other, and the times of forward, and of forward + backward, in turns.

The program allocates on "cuda" alone: with --device cpu that word is replaced as its files are read.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import math
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measure import samples, synchronize  # noqa: E402
from torch_slang import _C  # noqa: E402

PACKAGE = "slang_gaussian_rasterization"
INPUTS = ("places", "rotations", "scales", "opacities", "harmonics")
TOLERANCE = 1e-4  # of the largest element: both sum thousands of float32 numbers in an order of their own


class SortByTorch:
    """In place of the program's CUDA extension. Keys hold a tile above a depth, both positive."""

    @staticmethod
    def sort_by_keys(keys: Tensor, values: Tensor, _bits: int) -> tuple[Tensor, Tensor]:
        keys, order = torch.sort(keys)
        return keys, values[order]


class _OnTheCpu(SourceFileLoader):
    def get_data(self, path: str) -> bytes:
        return super().get_data(path).replace(b'"cuda"', b'"cpu"')

    def set_data(self, path: str, data: bytes, *, _mode: int = 0o666) -> None:
        """No compiled file is left beside the program."""

    def path_stats(self, _path: str) -> Any:
        raise OSError("the compiled file that may lie there is of the text as it was")


class _Finder:
    """Finds the program in its checkout, for one import of it."""

    def __init__(self, checkout: Path, device: str) -> None:
        self.checkout, self.device = checkout, device

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        if name.partition(".")[0] != PACKAGE:
            return None
        place = self.checkout / name.replace(".", "/")
        is_package = place.is_dir()
        file = place / "__init__.py" if is_package else place.with_suffix(".py")
        loader = (_OnTheCpu if self.device == "cpu" else SourceFileLoader)(name, str(file))
        folders = [str(place)] if is_package else None
        return importlib.util.spec_from_file_location(name, file, loader=loader, submodule_search_locations=folders)


@contextmanager
def importing(checkout: Path, device: str, slangtorch: ModuleType) -> Iterator[None]:
    """Inside, the program is imported anew, on that `slangtorch`."""
    sort = ModuleType(f"{PACKAGE}.internal.sort_by_keys")
    sort.sort_by_keys_cub = SortByTorch  # type: ignore[attr-defined]
    before = dict(sys.modules)
    finder = _Finder(checkout, device)
    sys.modules.update({"slangtorch": slangtorch, sort.__name__: sort})
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [*sys.modules]:
            if name.partition(".")[0] in (PACKAGE, "slangtorch"):
                sys.modules.pop(name)
        sys.modules.update({name: module for name, module in before.items() if name not in sys.modules})


class Scene:
    """Gaussians in a ball in front of a camera, the same for all that render it."""

    def __init__(self, gaussians: int, height: int, width: int, extent: float, device: str) -> None:
        generator = torch.Generator().manual_seed(gaussians)
        normal = torch.randn(gaussians, 3, generator=generator)
        radius = 3 * torch.rand(gaussians, 1, generator=generator) ** (1 / 3)
        size = extent / gaussians ** (1 / 3)  # the ball is filled alike, however many there are
        drawn = (
            normal / normal.norm(dim=1, keepdim=True) * radius,
            torch.nn.functional.normalize(torch.randn(gaussians, 4, generator=generator)),
            size * torch.exp(0.5 * torch.randn(gaussians, 3, generator=generator)),
            torch.rand(gaussians, 1, generator=generator),
            0.3 * torch.randn(gaussians, 16, 3, generator=generator),
        )
        self.inputs = [tensor.to(device).requires_grad_() for tensor in drawn]
        self.height, self.width = height, width
        self.fov_y, distance, near, far = 0.8, 6.0, 0.01, 100.0
        self.fov_x = 2 * math.atan(math.tan(self.fov_y / 2) * width / height)
        view = torch.eye(4)
        view[2, 3] = distance
        projection = torch.zeros(4, 4)
        projection[0, 0], projection[1, 1] = 1 / math.tan(self.fov_x / 2), 1 / math.tan(self.fov_y / 2)
        projection[2, 2], projection[2, 3], projection[3, 2] = far / (far - near), -far * near / (far - near), 1
        self.view, self.projection = view.to(device), projection.to(device)
        self.camera = torch.tensor([0.0, 0.0, -distance], device=device)
        self.grad = torch.randn(3, height, width, generator=generator).to(device)


class Renderer:
    """The program on one slangtorch."""

    def __init__(self, checkout: Path, device: str, slangtorch: ModuleType) -> None:
        with importing(checkout, device, slangtorch):
            program = importlib.import_module(f"{PACKAGE}.internal.alphablend_tiled_slang")
        self.render = program.render_alpha_blend_tiles_slang_raw

    def image(self, scene: Scene) -> Tensor:
        places, rotations, scales, opacities, harmonics = scene.inputs
        camera = (scene.view, scene.projection, scene.camera, scene.fov_y, scene.fov_x)
        rendered = self.render(places, rotations, scales, opacities, harmonics, 3, *camera, scene.height, scene.width)
        return rendered["render"]

    def forward(self, scene: Scene) -> Tensor:
        with torch.no_grad():
            return self.image(scene)

    def step(self, scene: Scene) -> list[Tensor]:
        image = self.image(scene)
        return [image.detach(), *torch.autograd.grad(image, scene.inputs, scene.grad)]


def import_what_gradients_need() -> None:
    """PyTorch imports sympy for the first gradient that is given, which takes 2 to 3 s whoever renders."""
    x = torch.zeros(1, requires_grad=True)
    torch.autograd.grad(2 * x, x, torch.ones(1))


def first_frame(name: str, checkout: Path, device: str, slangtorch: ModuleType, scene: Scene) -> Renderer:
    synchronize()
    begin = time.perf_counter()
    renderer = Renderer(checkout, device, slangtorch)
    loaded = time.perf_counter() - begin
    renderer.forward(scene)
    synchronize()
    image = time.perf_counter() - begin
    renderer.step(scene)
    synchronize()
    gradients = time.perf_counter() - begin
    print(f"{name}: loaded after {loaded:.1f} s, first image {image:.1f}, first gradients {gradients:.1f}", flush=True)
    return renderer


def differences(results: Sequence[Tensor], others: Sequence[Tensor]) -> list[float]:
    return [float((one - other).abs().max() / other.abs().max()) for one, other in zip(results, others, strict=True)]


def print_kernels(name: str, renderer: Renderer, scene: Scene) -> None:
    with torch.profiler.profile() as profile:
        for _ in range(10):
            renderer.step(scene)
    kernels = [event for event in profile.key_averages() if event.self_device_time_total]
    kernels.sort(key=lambda event: -event.self_device_time_total)
    for event in kernels[:12]:
        print(f"    {name:24} {event.self_device_time_total / 1e4:8.3f} ms a step  {event.key[:80]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--gaussians", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--size", type=int, nargs=2, default=(1080, 1920), metavar=("HEIGHT", "WIDTH"))
    parser.add_argument("--extent", type=float, default=1.0, help="of the Gaussians: more of them cover a pixel")
    parser.add_argument("--sums", choices=("always", "never"), help="lanes sum first, whatever is faster")
    parser.add_argument("--profile", action="store_true", help="also the time of each kernel")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    device = arguments.device
    if arguments.sums:
        _C.set_wave_sums(arguments.sums == "always")
    import_what_gradients_need()
    scenes = [Scene(gaussians, *arguments.size, arguments.extent, device) for gaussians in arguments.gaussians]
    modules = {"torch_slang.slangtorch": importlib.import_module("torch_slang.slangtorch")}
    if device == "cuda" and importlib.util.find_spec("slangtorch") is not None:
        modules["slangtorch"] = importlib.import_module("slangtorch")
    renderers = {
        name: first_frame(name, arguments.checkout, device, module, scenes[0]) for name, module in modules.items()
    }
    wrong = False
    for scene, gaussians in zip(scenes, arguments.gaussians, strict=True):
        print(f"{gaussians} Gaussians, {scene.width} x {scene.height}, on {device}")
        results = [renderer.step(scene) for renderer in renderers.values()]
        wrong |= not all(bool(tensor.isfinite().all()) and bool(tensor.any()) for tensor in results[0])
        if len(results) > 1:
            found = differences(*results)
            wrong |= max(found) > TOLERANCE
            named = zip(("image", *INPUTS), found, strict=True)
            print("  largest differences, by the largest element:", ", ".join(f"{name} {d:.1e}" for name, d in named))
        for title in ("forward", "step"):
            calls = {name: partial(getattr(renderer, title), scene) for name, renderer in renderers.items()}
            times = {name: statistics.median(taken) for name, taken in samples(calls, device, rounds=30).items()}
            shown = "forward" if title == "forward" else "forward + backward"
            print(f"  {shown:20}", ", ".join(f"{name} {taken:.3f} ms" for name, taken in times.items()), flush=True)
        if arguments.profile:
            for name, renderer in renderers.items():
                print_kernels(name, renderer, scene)
    sys.exit(wrong)


main()
