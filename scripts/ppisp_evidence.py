"""Runs SlangPy's ppisp benchmark program on torch_slang.slangpy, from a checkout of their repository.

    python scripts/ppisp_evidence.py CHECKOUT [--device cpu|cuda] [--pixels 1000003] [--random]

The program is a camera's image processing, a plain function that takes four tensors of parameters whole. It runs as it
is, with `slangpy` redirected; beside it its version for slangtorch, on ours and on slangtorch itself where that is
installed, and its PyTorch model, eager and in torch.compile. The result and the gradients of all five inputs are
compared with the PyTorch model's in float64; then forward, and forward + backward, are timed in turns.

All pixels are of one camera and one frame, which is all that the PyTorch model knows. --random gives each pixel a
camera and a frame of its own, as SlangPy's benchmark does. Its program sums gradients over a warp as if they were of
one element, which they are not then: only times are told.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.measure import samples  # noqa: E402

FOLDER = Path("slangpy", "benchmarks", "ppisp")
CAMERAS, FRAMES, CAMERA, FRAME = 6, 200, 2, 5
PARAMETERS = ("exposure_params", "vignetting_params", "color_params", "crf_params")
TOLERANCE = 1e-4, 10  # of the largest element, as their sums are in float32; and times the error of the eager model


def redirected(name: str) -> dict[str, ModuleType]:
    """`slangpy` or `slangtorch` as ours, with what is imported from it."""
    ours = importlib.import_module(f"torch_slang.{name}")
    return {
        key.removeprefix("torch_slang."): value for key, value in sys.modules.items() if key.startswith(ours.__name__)
    }


@contextmanager
def importing(modules: dict[str, ModuleType]) -> Iterator[None]:
    before = dict(sys.modules)
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in modules:
            sys.modules.pop(name)
            if name in before:
                sys.modules[name] = before[name]


def program(checkout: Path, name: str, called: str | None = None) -> ModuleType:
    """One of their files, as a module of its own."""
    spec = importlib.util.spec_from_file_location(called or name, checkout / FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fill(model: nn.Module) -> nn.Module:
    """Parameters that make each stage do something, the same for all models."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name in PARAMETERS:
            parameter = getattr(model, name)
            change = 0.1 * torch.randn(parameter.shape, generator=generator)
            if name == "vignetting_params":
                change[..., 2:] = -change[..., 2:].abs()  # falloffs below 1, where they are not clamped
            parameter += change.to(parameter)
    return model


class Run:
    """A model with its inputs."""

    def __init__(self, model: nn.Module, call: Callable[..., Tensor], rgb: Tensor, grad: Tensor) -> None:
        self.model, self.call, self.grad = model, call, grad
        self.rgb = rgb.clone().requires_grad_()

    def forward(self) -> Tensor:
        with torch.no_grad():
            return self.call(self.rgb)

    def step(self) -> list[Tensor]:
        result = self.call(self.rgb)
        inputs = [self.rgb, *(getattr(self.model, name) for name in PARAMETERS)]
        return [result.detach(), *torch.autograd.grad(result, inputs, self.grad)]


def runs_of(checkout: Path, arguments: argparse.Namespace, data: dict[str, Tensor]) -> dict[str, Run]:
    device = arguments.device
    sizes = (CAMERAS, FRAMES, 1920, 1080, device)
    rgb, places, grad = data["rgb"], data["places"], data["grad"]

    def ours(model: nn.Module) -> Run:
        fill(model)
        return Run(model, lambda rgb: model(rgb, places, data["cameras"], data["frames"]), rgb, grad)

    runs = {}
    with importing(redirected("slangpy")):
        runs["torch_slang.slangpy"] = ours(program(checkout, "ppisp_slangpy").PPISPSlangPy(*sizes))
        runs["torch_slang.slangpy"].forward()
    with importing(redirected("slangtorch")):
        runs["torch_slang.slangtorch"] = ours(program(checkout, "ppisp_slangtorch").PPISPSlangtorch(*sizes))
        runs["torch_slang.slangtorch"].step()
    if importlib.util.find_spec("slangtorch") is not None:
        runs["slangtorch"] = ours(program(checkout, "ppisp_slangtorch", "ppisp_itself").PPISPSlangtorch(*sizes))
        runs["slangtorch"].step()
    if not arguments.random:
        reference = program(checkout, "ppisp_pytorch")
        model = fill(reference.PPISPPyTorch(*sizes))
        apply: Any = torch.compile(model)
        runs["torch.compile"] = Run(model, lambda rgb: apply(rgb, places, CAMERA, FRAME), rgb, grad)
        runs["eager"] = Run(model, lambda rgb: model(rgb, places, CAMERA, FRAME), rgb, grad)
    return runs


def expected(checkout: Path, data: dict[str, Tensor], device: str) -> list[Tensor]:
    """The PyTorch model's, in float64."""
    reference = program(checkout, "ppisp_pytorch", "ppisp_wide")
    model = fill(reference.PPISPPyTorch(CAMERAS, FRAMES, 1920, 1080, device)).double()
    reference._COLOR_PINV_BLOCK_DIAG = reference._COLOR_PINV_BLOCK_DIAG.double()
    torch.set_default_dtype(torch.float64)  # the constants that it makes as it goes
    try:
        places = data["places"].double()
        run = Run(model, lambda rgb: model(rgb, places, CAMERA, FRAME), data["rgb"].double(), data["grad"].double())
        return run.step()
    finally:
        torch.set_default_dtype(torch.float32)


def errors(results: list[Tensor], right: list[Tensor]) -> list[float]:
    return [
        float((one.double() - other).abs().max() / other.abs().max()) for one, other in zip(results, right, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--pixels", type=int, default=1_000_003)
    parser.add_argument("--random", action="store_true")
    arguments = parser.parse_args()
    pixels, device = arguments.pixels, torch.device(arguments.device)
    torch.manual_seed(1)
    data = {
        "rgb": torch.rand(pixels, 3, device=device),
        "places": torch.rand(pixels, 2, device=device) * torch.tensor([1920.0, 1080.0], device=device),
        "grad": torch.randn(pixels, 3, device=device),
        "cameras": torch.full((pixels,), CAMERA, device=device, dtype=torch.int16),
        "frames": torch.full((pixels,), FRAME, device=device, dtype=torch.int32),
    }
    if arguments.random:
        data["cameras"].random_(0, CAMERAS)
        data["frames"].random_(0, FRAMES)
    runs = runs_of(arguments.checkout, arguments, data)
    wrong = False
    if not arguments.random:
        right = expected(arguments.checkout, data, arguments.device)
        print("largest errors, by the largest element:", ", ".join(("result", "rgb", *PARAMETERS)))
        allowed = [TOLERANCE[0] + TOLERANCE[1] * one for one in errors(runs["eager"].step(), right)]
        for name, run in runs.items():
            found = errors(run.step(), right)
            wrong |= not all(one < most for one, most in zip(found, allowed, strict=True))
            print(f"  {name:24}", *(f"{one:.1e}" for one in found))
    print(f"{pixels} pixels on {device}, ms:")
    for title in ("forward", "forward + backward"):
        calls = {name: run.forward if title == "forward" else run.step for name, run in runs.items()}
        times = {name: statistics.median(taken) for name, taken in samples(calls, device.type, rounds=40).items()}
        print(f"  {title:20}", ", ".join(f"{name} {time:.3f}" for name, time in times.items()))
    sys.exit(wrong)


main()
