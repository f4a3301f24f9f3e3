"""`python -m torch_slang check FILE` and `torch-slangc --audit FILE`: audits of a file's operators."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from long_tests import some_cases

from torch_slang._descriptor import describe
from torch_slang._load import load
from torch_slang._module import members_of
from torch_slang.checks.arguments import UnknownShapeError, draw_arguments
from torch_slang.checks.audits import check_file

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "examples").rglob("*.slang"))
# An aggregate's part that Slang's own backward leaves out, without the repair of it.
WRONG = """[Differentiable] float f(float a, float3 x) { return dot(a * x, x); }
[Differentiable] float right(float x) { return x * x; }
"""


@some_cases(3)
@pytest.mark.parametrize("path", EXAMPLES)
def test_nothing_is_wrong_in_an_example(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    status = check_file(str(ROOT / path), {}, [], "cpu")
    said, failed = capsys.readouterr()
    assert not failed
    lines = said.splitlines()
    assert status == (0 if lines else 2)
    for line in lines:
        assert any(word in line for word in ("agrees", "has no derivative", "not audited: ")), line
    if path == "examples/gaussian_image_fit/splat.slang":
        assert "splat: backward audited: agrees with the forward derivative" in lines


def checked(command: list[str], path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command, str(path)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", [["-m", "torch_slang", "check"], [str(ROOT / "scripts/torch-slangc"), "--audit"]])
def test_a_wrong_derivative_is_the_exit_status(command: list[str], tmp_path: Path) -> None:
    path = tmp_path / "numbers.slang"
    path.write_text(WRONG)
    run = checked(command, path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "right: backward audited: agrees" in run.stdout
    run = checked([*command, "-D", "TORCH_SLANG_LEAVE_OUT=promotions"], path)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "f: backward audited: WRONG: the gradient of a is wrong" in run.stdout
    assert "right: backward audited: agrees" in run.stdout


def test_a_file_without_operators_or_that_does_not_compile(tmp_path: Path) -> None:
    path = tmp_path / "nothing.slang"
    path.write_text("static const int kNothing = 1;\n")
    assert checked(["-m", "torch_slang", "check"], path).returncode == 2
    path.write_text("float f(float x) { return y; }\n")
    run = checked(["-m", "torch_slang", "check"], path)
    assert run.returncode == 2
    assert "nothing.slang" in run.stderr


# What fits a kernel's shapes: each must be accepted by the call.
SHAPES = {
    "of a struct": ('[Shape("G, 3")] P p', '[Out("G")] DiffTensorView<float> y', {"p_a": [3, 3], "p_b": [3, 3]}),
    "own ones of a struct's fields": (
        '[Shape("G")] Q q, [Shape("G, M")] TensorView<float> w', '[Out("G")] DiffTensorView<float> y',
        {"q_a": [3], "q_b": [2, 2], "w": [3, 2]},
    ),
    "arrays": ('[Shape("G")] P p[2]', '[Out("G")] DiffTensorView<float> y', {"p_1_a": [3], "p_1_b": [3]}),
    "sizes that are arguments": (
        '[Shape("cdiv(H, 2), max(W, 9) - 1")] DiffTensorView<float> x, int H, int W, int choice',
        '[Out("H")] DiffTensorView<float> y',
        {"x": [2, 8], "H": 3, "W": 2, "choice": 0},
    ),
    "defines": (
        '[Shape("N, HARMONICS % 4, N / N")] DiffTensorView<float> x', '[Out("N")] DiffTensorView<float> y',
        {"x": [3, 3, 1]},
    ),
    "of another argument": (
        '[Shape("..., N")] DiffTensorView<float> x, [Shape("x")] TensorView<float> w',
        '[Out("x")] DiffTensorView<float> y',
        {"x": [2, 3, 3], "w": [2, 3, 3]},
    ),
}  # fmt: skip
STRUCTS = """import torch_slang;
struct P { DiffTensorView<float> a; TensorView<float> b; }
struct Q { DiffTensorView<float> a; [Shape("M, 2")] TensorView<float> b; }
"""


@pytest.mark.parametrize("name", SHAPES)
def test_arguments_fit_the_shapes(name: str) -> None:
    inputs, output, expected = SHAPES[name]
    head = '[PyBindCUDA(Auto)] [Differentiable] [CudaKernel] [LaunchTotal("1")] void k('
    space = f"fitting_{list(SHAPES).index(name)}"
    defines = {"HARMONICS": "15"}
    module = load(source=f"{STRUCTS}{head}{inputs}, {output}) {{}}", namespace=space, defines=defines)
    members = members_of(module)
    about = describe(members.handle, "k")
    drawn = draw_arguments(about, "cpu")
    found = {leaf.name: list(x.shape) if leaf.is_view else x for leaf, x in zip(about.inputs, drawn, strict=True)}
    assert {key: found[key] for key in expected} == expected
    module.k.op(*drawn)


@pytest.mark.parametrize("shape", ["N / (M - M)", "abs(N)", "N, M +", "N if M else 2"])
def test_a_shape_that_cannot_be_drawn(shape: str) -> None:
    text = '[PyBindCUDA(Auto)] [CudaKernel] void k(TensorView<float> x, [Out("3")] TensorView<float> y) {}'
    about = describe(members_of(load(source=STRUCTS + text, namespace="undrawn")).handle, "k")
    (leaf, *_) = about.inputs
    object.__setattr__(leaf, "shape", shape)
    with pytest.raises(UnknownShapeError, match="x has the shape"):
        draw_arguments(about, "cpu")
