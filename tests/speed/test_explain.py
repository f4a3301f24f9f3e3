"""Module.explain: what was made of kernels, and which statements stand in the way of more."""

import pytest
import torch
from cases import FOLDER, kernels
from long_tests import dear_test, some_tests

import torch_slang

pytestmark = some_tests(2)

SOURCE = """
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void product([Shape("N")] DiffTensorView<float> x, [Shape("N")] DiffTensorView<float> w, float s,
             [Out("N")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= x.size(0)) return;
    uint next = (i + 1) % x.size(0);
    y[i] = x[i] * w[i] * s +
           x[next];
}
"""
LINE = 9  # of the statement with x[next]


def product(device: torch.device) -> torch_slang.Module:
    module = torch_slang.load(source=SOURCE, namespace="test_explain")
    x, w, s = (torch.ones(size, device=device, requires_grad=True) for size in (100, 100, ()))
    module.product(x, w, s).sum().backward()
    return module


def the_one(module: torch_slang.Module, name: str, kind: str, device: torch.device):
    (kernel,) = (k for k in module.explain(name) if k.kind == kind and k.device.startswith(device.type))
    return kernel


def test_each_gradient_says_how_it_is_gathered_and_why(device: torch.device) -> None:
    backward = the_one(product(device), "product", "backward", device)
    found = {gradient.argument: gradient for gradient in backward.gradients}
    assert {name: gradient.kept for name, gradient in found.items()} == {
        "x": "atomics",
        "w": "registers",
        "s": "parts",
        "y": "registers",
    }
    assert found["w"].why == found["y"].why == ""
    assert found["x"].why == "threads touch elements that are not their own"


def test_statements_are_shown_of_texts_without_a_file(device: torch.device) -> None:
    backward = the_one(product(device), "product", "backward", device)
    (place,) = next(gradient.places for gradient in backward.gradients if gradient.argument == "x")
    assert place[0].startswith("source_")
    assert place[1] == LINE
    shown = str(backward)
    assert "gradient of x: atomics, since threads touch elements that are not their own\n" in shown
    assert shown.count(f":{LINE}: y[i] = x[i] * w[i] * s +") == 1


@dear_test
def test_statements_are_shown_of_files(device: torch.device) -> None:
    x, w = (torch.ones(70, dtype=torch.float64, device=device, requires_grad=True) for _ in range(2))
    module = kernels("own_elements")
    module.neighbours(x, w).sum().backward()
    backward = next(k for k in module.explain("neighbours") if k.kind == "backward" and device.type in k.device)
    gradient = next(one for one in backward.gradients if one.argument == "x")
    path = FOLDER / "own_elements.slang"
    lines = path.read_text().splitlines()
    assert gradient.places
    for file, line in gradient.places:
        assert file == str(path)
        assert f":{line}: {lines[line - 1].strip()}" in str(gradient)
        assert "x[" in lines[line - 1]


def test_the_last_launch_and_what_it_was_given(device: torch.device) -> None:
    forward = the_one(product(device), "product", "forward", device)
    assert forward.gradients == ()
    assert forward.threads >= 100
    assert forward.bytes == 3 * 100 * 4
    assert "threads" in str(forward)
    if device.type == "cuda":
        assert forward.registers > 0
        assert "virtual thread" in str(forward)


def test_arguments_in_the_way_are_named(device: torch.device) -> None:
    module = torch_slang.load(source=SOURCE, namespace="test_explain_strided")
    room = torch.ones(200, device=device)
    module.product(room[::2], torch.ones(100, device=device), 1.0)
    forward = the_one(module, "product", "forward", device)
    assert forward.strided == ("x",)
    assert "read with their strides: x" in str(forward)


def test_unwanted_gradients_have_kernels_of_their_own(device: torch.device) -> None:
    module = torch_slang.load(source=SOURCE, namespace="test_explain_mask")
    w = torch.ones(100, device=device, requires_grad=True)
    module.product(torch.ones_like(w), w, 1.0).sum().backward()
    kept = [
        {gradient.argument: gradient.kept for gradient in kernel.gradients if gradient.argument in "xw"}
        for kernel in module.explain("product")
        if kernel.kind == "backward"
    ]
    assert {"x": "unwanted", "w": "registers"} in kept


FUNCTION = """
[Differentiable] float scaled(float x, float row, float column, float every, no_diff float c)
{
    return x * row * column * every * c;
}
"""


def test_plain_functions_are_loops_over_elements(device: torch.device) -> None:
    module = torch_slang.load(source=FUNCTION, namespace="test_explain_function")
    x, row, column, every, c = (torch.ones(sizes, device=device) for sizes in [(64, 48), (48,), (64, 1), (), ()])
    for tensor in (x, row, column, every):
        tensor.requires_grad_()
    module.scaled(x, row, column, every, c).sum().backward()
    module.scaled(x, x.detach(), 2.0, 3.0, c)
    kernels = [kernel for kernel in module.explain("scaled") if device.type in kernel.device]
    assert [(kernel.kind, kernel.loop) for kernel in kernels] == [
        ("forward", "rows"),
        ("backward", "rows"),
        ("forward", "elements"),
    ]
    on_gpu = device.type == "cuda"
    assert {gradient.argument: gradient.kept for gradient in kernels[1].gradients} == {
        "x": "stored",
        "row": "parts of columns" if on_gpu else "stored, then summed",
        "column": "parts of rows" if on_gpu else "stored, then summed",
        "every": "parts",
    }
    assert all(kernel.threads == x.numel() for kernel in kernels)
    assert str(kernels[0]).startswith(f"forward on {kernels[0].device}: a loop over rows of elements")
    assert "last call: 3072 elements" in str(kernels[2])
    assert all(kernel.lanes >= 1 for kernel in kernels)
    assert all((kernel.registers > 0) == on_gpu for kernel in kernels)


@dear_test
def test_threads_that_meet(device: torch.device) -> None:
    module = kernels("own_elements")
    module.wave_parts(torch.ones(70, dtype=torch.float64, device=device))
    forward = next(k for k in module.explain("wave_parts") if k.kind == "forward" and device.type in k.device)
    assert forward.meets
    assert "since its threads meet" in str(forward)


def test_tuned_kernels_name_the_variant(device: torch.device) -> None:
    module = torch_slang.load(
        source=SOURCE.replace("x[i] * w[i]", "x[i] * SCALE / SCALE * w[i]"),
        namespace="test_explain_tuned",
        defines={"SCALE": ["1.0f", "2.0f"]},
    )
    before = torch_slang.tuning.mode("off")
    try:
        module.product(torch.ones(100, device=device), torch.ones(100, device=device), 1.0)
    finally:
        torch_slang.tuning.mode(before)
    (forward,) = (k for k in module.explain("product") if device.type in k.device)
    assert forward.values == "SCALE=1.0f"
    assert " with SCALE=1.0f on " in str(forward)


def test_nothing_is_known_before_the_first_call() -> None:
    module = torch_slang.load(source=SOURCE, namespace="test_explain_nothing")
    assert str(module.explain("product")) == "nothing is compiled yet: call the operator first"
    with pytest.raises(RuntimeError, match="nosuch"):
        module.explain("nosuch")


RUNS = """
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel] [LaunchTotal("cdiv(N, 4)")]
void runs([Shape("N")] DiffTensorView<float> x, [Out("N")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    [MaxIters(4)] for (uint j = 4 * i; j < min(4 * i + 4, x.size(0)); ++j) y[j] = x[j] * x[j];
}
"""


def test_what_the_shapes_do_not_show_is_not_claimed(device: torch.device) -> None:
    module = torch_slang.load(source=RUNS, namespace="test_explain_runs")
    module.runs(torch.ones(10, device=device, requires_grad=True)).sum().backward()
    why = {gradient.why for gradient in the_one(module, "runs", "backward", device).gradients}
    assert why == {"no dimension of it is the launch's along x: threads there may share its elements"}
