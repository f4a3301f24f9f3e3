"""Runs slangtorch's own tests and examples on torch_slang.slangtorch, from a checkout of their repository.

    python scripts/slangtorch_evidence.py CHECKOUT [--device cpu|cuda] [--only tests,brdf,...] [--iterations 30]
    python scripts/slangtorch_evidence.py CHECKOUT --only composite

The second is for a checkout of danielxu9393/triangle-rasterization, whose backward kernels take gradients in plain
launches: it runs tests/triangle_rasterization/test_composite.py as it is, on the GPU if there is one. That wants einops
and jaxtyping.

Their programs run as they are, with three changes made in memory: `slangtorch` is ours; matplotlib and cv2 are
stand-ins (nothing is shown; pictures are read by PIL if it is there, and made up else); loops are cut to --iterations,
and print their loss where they did not. On the CPU `.cuda()` and device="cuda" mean the CPU, pictures are smaller, and
what fails since it is wrong (guards that let one thread too many through, `>` for `>=`, which our checks report; a call
that newer Slang finds ambiguous) runs again with that put right.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import traceback
import types
import unittest
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

Edit = tuple[str, str]  # a regular expression and its replacement


@dataclass
class Example:
    """One program of the checkout, and what is changed in its text."""

    folder: str
    program: str
    edits: list[Edit] = field(default_factory=list)  # of the program
    cpu_edits: list[Edit] = field(default_factory=list)
    repairs: list[Edit] = field(default_factory=list)  # of the .slang files, where they turn out to be wrong
    repaired: str = "with >= in its guards"
    cpu_files: dict[str, str] = field(default_factory=dict)  # put in the place of files that only a GPU can run


PRINT_LOSS: Edit = (r"loss\.backward\(\)", r"loss.backward(); print('Loss:', loss.item())")
SMALL_PICTURE: list[Edit] = [(r"\b1024\b", "128")]
OFF_BY_ONE: list[Edit] = [(r"> (\w+)\.size\(", r">= \1.size("), (r"tIdx\.x > M\b", "tIdx.x >= M")]
AMBIGUOUS: Edit = (r"screenToWorld\(\{ (pixel - 0\.0f), (pixel \+ 1\.0f) \}\)", r"screenToWorld(AABB(\1, \2))")

# The triangle covers an eighth of the picture.
INSIDE = """
print("Inside:", (outputImage[..., 1] < 0.5).float().mean().item(), "of the picture, expected 0.125")
"""

# How well the properties match the reference under three lights, before and after.
BRDF_LOSS = """
def _loss(properties):
    total = 0.0
    for light in ((0.2, -0.2, 0.6), (0.5, 0.1, 0.8), (-0.3, 0.4, 0.7)):
        m.brdf(input=full_res_brdf, output=lighting_from_full_res_brdf,
               input_params=(*light, 0.0, 0.0, 1.0)).launchRaw(blockSize=block_size, gridSize=grid_size)
        loss = torch.zeros((original_shape[0], original_shape[1], 1)).cuda()
        m.brdf_loss(input=properties, output=loss, reference=lighting_from_full_res_brdf,
                    input_params=(*light, 0.0, 0.0, 1.0)).launchRaw(blockSize=block_size, gridSize=grid_size)
        total += loss.mean().item()
    return total
print("Loss:", _loss(half_res_brdf_before_optim))
print("Loss:", _loss(half_res_brdf))
"""

# What the example's header does with tensor cores, in plain words: rows of the product are shared out among the warp.
PLAIN_PRODUCT = """
template <int W, int C, int O, int M, int N, int K>
__device__ void wmma_inline_matmul(float* in, float* wt, float* out)
{
    __syncwarp();
    for (int i = _getLaneId(); i < W; i += 32)
        for (int j = 0; j < O; ++j) {
            float sum = 0;
            for (int k = 0; k < C; ++k) sum += in[i * C + k] * wt[j * C + k];
            out[i * O + j] = sum;
        }
    __syncwarp();
}
"""

EXAMPLES = {
    "bezier_curvefit": Example(
        "bezier2d",
        "bezier_curvefit.py",
        [(r"range\(10000\)", "range(ITERATIONS)")],
        [(r"N = 20", "N = 10")],  # unrolled by Slang: the C++ compiler takes a minute and a half for 20
        OFF_BY_ONE,
    ),
    "sdf_descent": Example("bezier2d", "sdf_descent.py", [(r"range\(1000\)", "range(ITERATIONS)")], repairs=OFF_BY_ONE),
    "soft-rasterizer": Example(
        "soft-rasterizer-example",
        "rasterizer2d.py",
        [(r"numIterations = \d+", "numIterations = ITERATIONS"), PRINT_LOSS],
        SMALL_PICTURE,
    ),
    "fwd-rasterizer": Example(
        "fwd-rasterizer-example",
        "rasterizer2d.py",
        [(r"\Z", INSIDE)],
        repairs=OFF_BY_ONE,
    ),
    "hard-rasterizer": Example(
        "hard-rasterizer-example",
        "rasterizer2d.py",
        [(r"numIterations = \d+", "numIterations = ITERATIONS"), PRINT_LOSS],
        SMALL_PICTURE,
        [*OFF_BY_ONE, AMBIGUOUS],
        "with AABB spelled out",  # Slang 2026 does not take it as it is
    ),
    "hard-rasterizer's tests": Example(
        "hard-rasterizer-example", "test.py", repairs=[*OFF_BY_ONE, AMBIGUOUS], repaired="with AABB spelled out"
    ),
    "brdf": Example(
        "brdf-appearance-optimize-example",
        "slangpy.ipynb",
        [(r"range\(10000\)", "range(ITERATIONS)"), (r"\Z", BRDF_LOSS)],
    ),
    "inline-mlp": Example(
        "inline-mlp-example",
        "mlp_image_fit.py",
        [(r"iterations = \d+", "iterations = ITERATIONS")],
        [(r"512, 512", "64, 64"), (r"\[:, :, :3\]", "[::8, ::8, :3]")],
        cpu_files={"cuda_matmul_prelude.cuh": PLAIN_PRODUCT},
    ),
}


# A kernel stores three rows where its caller has one.
ROWS: Edit = (r"zeros_like\(X\)(?=\.cuda\(\)\s+# Check that the input tensor is broadcasted)", "zeros(3, 4)")

COMPOSITE = Path("tests", "triangle_rasterization", "test_composite.py")


# --- In the process that runs one program


def redirect() -> None:
    import torch_slang.slangtorch

    sys.modules["slangtorch"] = torch_slang.slangtorch


def mean_cpu_by_cuda() -> None:
    """`.cuda()` and device="cuda" are the CPU in this process."""
    import torch

    def on_cpu(make: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if str(kwargs.get("device", "")).startswith("cuda"):
                kwargs["device"] = "cpu"
            return make(*args, **kwargs)

        return wrapped

    torch.Tensor.cuda = lambda self, *_, **__: self  # type: ignore[method-assign]
    for name in ("tensor", "zeros", "ones", "empty", "full", "rand", "randn", "randint", "arange", "linspace"):
        setattr(torch, name, on_cpu(getattr(torch, name)))


def read_picture(path: str) -> Any:
    """RGB bytes."""
    import numpy

    try:
        from PIL import Image

        return numpy.array(Image.open(path).convert("RGB"))
    except ImportError:
        print(f"(no PIL here: made-up pixels for {path})")
        y, x = numpy.mgrid[0:512, 0:512] / 512.0
        waves = [numpy.sin(9 * x + 4 * y), numpy.cos(7 * y - 3 * x), numpy.sin(20 * x * y)]
        return ((numpy.stack(waves, -1) * 0.4 + 0.5) * 255).astype(numpy.uint8)


def stand_in_for_pictures() -> None:
    import torch

    class Animation:
        """Draws nothing; `save` calls the program's function for each frame."""

        def __init__(self, _: Any, function: Callable[[int], None], frames: int, **__: Any) -> None:
            self.function, self.frames = function, frames

        def save(self, *_: Any, **__: Any) -> None:
            for i in range(self.frames):
                self.function(i)

    def resized(image: Any, _: Any, fx: float, fy: float) -> Any:
        channels_first = torch.from_numpy(image).permute(2, 0, 1)[None].double()
        scaled = torch.nn.functional.interpolate(channels_first, scale_factor=(fy, fx), mode="bilinear")
        return scaled[0].permute(1, 2, 0).contiguous().to(torch.from_numpy(image).dtype).numpy()

    plots = MagicMock()
    plots.imread = read_picture
    plots.subplots = lambda *_: (MagicMock(), (MagicMock(), MagicMock(), MagicMock()))
    animation = types.ModuleType("matplotlib.animation")
    animation.FuncAnimation = Animation  # type: ignore[attr-defined]
    animation.FFMpegWriter = MagicMock()  # type: ignore[attr-defined]
    package = MagicMock(pyplot=plots, animation=animation)
    sys.modules.update({"matplotlib": package, "matplotlib.pyplot": plots, "matplotlib.animation": animation})
    sys.modules["cv2"] = MagicMock(imread=lambda path: read_picture(path)[..., ::-1], resize=resized)


def text_of(path: Path) -> str:
    """Of a program, or of all cells of a notebook."""
    if path.suffix != ".ipynb":
        return path.read_text()
    cells = json.loads(path.read_text())["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def run_program(path: Path, edits: list[Edit]) -> None:
    text = text_of(path)
    for pattern, replacement in edits:
        text, count = re.subn(pattern, lambda match, by=replacement: match.expand(by), text)
        if count == 0:
            print(f"(nothing to change for {pattern})")
    os.chdir(path.parent)
    sys.path.insert(0, str(path.parent))
    edited = path.parent / f"_evidence_{path.stem.replace('.', '_')}.py"
    edited.write_text(text)
    runpy.run_path(str(edited), run_name="__main__")


def run_composite(path: Path) -> None:
    import pytest

    class Count:
        def __init__(self) -> None:
            self.outcomes: list[str] = []

        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.when == "call":
                self.outcomes.append(report.outcome)

    root = path.parents[2]
    os.chdir(root)
    sys.path.insert(0, str(root))
    count = Count()
    code = pytest.main(["-q", "-p", "no:cacheprovider", str(path)], plugins=[count])
    print("Tests: " + ", ".join(f"{count.outcomes.count(what)} {what}" for what in ("passed", "failed", "skipped")))
    if code:
        sys.exit(1)


def run_tests(path: Path) -> None:
    os.chdir(path.parent)
    sys.path.insert(0, str(path.parent))
    suite = unittest.defaultTestLoader.loadTestsFromName(path.stem)
    result = unittest.TextTestRunner(verbosity=2, stream=sys.stdout).run(suite)
    bad = len(result.failures) + len(result.errors)
    print(f"Tests: {result.testsRun - bad - len(result.skipped)} passed, {bad} failed, {len(result.skipped)} skipped")
    if bad:
        sys.exit(1)


# --- In the process that starts the others


@dataclass
class Outcome:
    ok: bool
    text: str

    def summary(self) -> str:
        losses = re.findall(r"Loss: ([-+.\deE]+|nan)", self.text)
        if losses:
            return f"loss {float(losses[0]):.6g} -> {float(losses[-1]):.6g} in {len(losses)} values"
        last = re.findall(r"^(?:Tests|Inside): .*$", self.text, re.MULTILINE)
        return last[-1] if last else ""

    def error(self) -> str:
        wanted = r"[\w.]*(Error|Exception)\b|.*error\[E|\w+ \(.*\.\.\. (FAIL|ERROR)$"
        lines = [line for line in self.text.splitlines() if re.match(wanted, line)]
        return "\n    ".join(lines[:8]) or "\n    ".join(self.text.splitlines()[-4:])


def start(program: Path, edits: list[Edit], device: str, **variables: str) -> Outcome:
    job = json.dumps({"program": str(program), "edits": edits, "device": device})
    root = str(Path(__file__).resolve().parents[1])
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]), **variables)
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), "--job", job],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    return Outcome(done.returncode == 0, done.stdout + done.stderr)


def do_job(job: dict[str, Any]) -> None:
    redirect()
    stand_in_for_pictures()
    import torch

    torch.manual_seed(0)
    if job["device"] == "cpu":
        mean_cpu_by_cuda()
    program = Path(job["program"])
    try:
        if program.name == COMPOSITE.name:
            run_composite(program)
        elif program.name == "test.py":
            run_tests(program)
        else:
            run_program(program, [tuple(edit) for edit in job["edits"]])
    except BaseException:
        traceback.print_exc()
        sys.exit(1)


def show(name: str, what: str, outcome: Outcome, verbose: bool) -> None:
    print(f"{name:24} {what:22} {'ran' if outcome.ok else 'failed'}: {outcome.summary()}", flush=True)
    if not outcome.ok:
        print(f"    {outcome.error()}")
    if verbose:
        print(outcome.text)


def run_example(name: str, checkout: Path, device: str, iterations: int, verbose: bool) -> bool:
    example = EXAMPLES[name]
    edits = [*example.edits, *(example.cpu_edits if device == "cpu" else [])]
    edits = [(pattern, replacement.replace("ITERATIONS", str(iterations))) for pattern, replacement in edits]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / example.folder
        shutil.copytree(checkout / "examples" / example.folder, folder)
        if device == "cpu":
            for file, text in example.cpu_files.items():
                (folder / file).write_text(text)
        outcome = start(folder / example.program, edits, device)
        show(name, "as it is" if device == "cuda" or not example.cpu_files else "plain product", outcome, verbose)
        if not outcome.ok and example.repairs:
            for file in folder.glob("*.slang"):
                text = file.read_text()
                for pattern, replacement in example.repairs:
                    text = re.sub(pattern, replacement, text)
                file.write_text(text)
            outcome = start(folder / example.program, edits, device)
            show(name, example.repaired, outcome, verbose)
    return outcome.ok


def run_own_tests(checkout: Path, device: str, verbose: bool) -> bool:
    outcome = start(checkout / "tests" / "test.py", [], device)
    show("tests/test.py", "as it is", outcome, verbose)
    if outcome.ok or device == "cuda":
        return outcome.ok
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "tests"
        shutil.copytree(checkout / "tests", folder)
        text = (folder / "test.py").read_text()
        (folder / "test.py").write_text(re.sub(*ROWS, text))
        outcome = start(folder / "test.py", [], device)
    show("tests/test.py", "with all its rows", outcome, verbose)
    return outcome.ok


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, nargs="?")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--only", default="tests," + ",".join(EXAMPLES))
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        do_job(json.loads(options.job))
        return 0
    if options.checkout is None:
        parser.error("which checkout?")
    checkout = options.checkout.resolve()
    good = True
    for name in options.only.split(","):
        if name == "tests":
            good = run_own_tests(checkout, options.device, options.verbose) and good
        elif name == "composite":
            outcome = start(checkout / COMPOSITE, [], "cuda")
            show(COMPOSITE.name, "as it is", outcome, options.verbose)
            good = good and outcome.ok
        else:
            good = run_example(name, checkout, options.device, options.iterations, options.verbose) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
