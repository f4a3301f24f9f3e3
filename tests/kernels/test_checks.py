"""Debug mode: what a kernel does wrong is an error that says where, and nothing else is lost."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from long_tests import some_cases, some_tests

import torch_slang

pytestmark = some_tests(3)

Tensor = torch.Tensor

# The published example, whose guard lets one thread too many through.
PUBLISHED = """
[PyBindCUDA(Auto)]
[PyBindCUDABwdDiff(Auto)]
[Differentiable]
[CudaKernel]
void careless([Shape("N")] DiffTensorViewAA<float> input, [Out("N")] DiffTensorViewAA<float> output)
{
    uint3 globalIdx = cudaGlobalIdx();
    if (globalIdx.x > input.shape[0])
        return;
    output[globalIdx.x] = input[globalIdx.x] * input[globalIdx.x];
}
"""
LINE = 1 + PUBLISHED[: PUBLISHED.index("output[globalIdx")].count("\n")
HEAD = '[PyBindCUDA(Auto)] [Differentiable] [CudaKernel] void NAME([Shape("N, M")] DiffTensorView<float> x,'
TABLE = HEAD + ' [Shape("N")] TensorView<int> index, [Out("N")] DiffTensorView<float> y)\n{\n'
GUARD = "    uint i = cudaGlobalIdx().x;\n    if (i >= y.size(0)) return;\n"


def load(name: str, source: str, debug: bool | None = True) -> torch_slang.Module:
    return torch_slang.load(
        source=source.replace("NAME", name),
        name=f"{name}.slang",
        namespace=f"checks_{name}_{debug}".lower(),
        debug=debug,
    )


def test_the_published_square_is_caught(device: torch.device) -> None:
    """On the CPU indices are always checked; on a GPU in debug mode."""
    module = load("careless", PUBLISHED, debug=None if device.type == "cpu" else True)
    x = torch.randn(5, device=device)[:4]
    place = rf"\(thread \(4, 0, 0\) of block \(0, 0, 0\), careless\.slang:{LINE}\)$"
    outside = r"\[4\]: index 4 is outside dimension 0, which has 4 elements "
    with pytest.raises(IndexError, match=rf"^checks_careless_\w+::careless: (in|out)put{outside}{place}"):
        module.careless(x)
    with pytest.raises(IndexError, match=rf"^checks_careless_\w+::careless_launch: (in|out)put{outside}{place}"):
        module.careless_launch(x, torch.zeros(4, device=device), block_size=[8], grid_size=[1])
    assert torch.ones(3, device=device).sum().item() == 3  # the device is as well as before


def test_a_fault_in_a_backward_points_at_the_users_statement(device: torch.device) -> None:
    module = load("careless", PUBLISHED)
    x = torch.randn(5, device=device)[:4]
    with pytest.raises(
        IndexError, match=rf"careless_backward: .*(in|out)put\[4\]: index 4 .*careless\.slang:{LINE}\)$"
    ):
        torch.ops.checks_careless_true.careless_backward(torch.ones(4, device=device), x, [True])
    assert module.funcinfo("careless").arguments == ("input", "output")


def test_checks_can_be_left_out() -> None:
    module = load("careless", PUBLISHED, debug=False)
    room = torch.arange(6.0)
    assert module.careless(room[:4])[:4].tolist() == [0, 1, 4, 9]


def test_checks_cost_nothing_on_a_gpu_unless_asked_for() -> None:
    pytest.importorskip("nvidia.cu13", reason="NVRTC is not installed")
    images = [
        load("careless", PUBLISHED, debug)._handle.cubin("careless", "backward", []) for debug in (None, False, True)
    ]
    assert images[0] == images[1] != images[2]


@pytest.mark.parametrize(
    ("name", "body", "message"),
    [
        (
            "flat",
            "    y[i] = x[i];\n",
            r"x\[0\]: 1 index for a view of 2 dimensions \(thread \(0, 0, 0\) of block \(0, 0, 0\), flat\.slang:5\)",
        ),
        ("deep", "    y[i] = x[i, 0, 0];\n", r"x\[0, 0, 0\]: 3 indices for a view of 2 dimensions"),
        ("beyond", "    y[i] = x[i, 7];\n", r"x\[\d, 7\]: index 7 is outside dimension 1, which has 2 elements"),
        ("astray", "    y[uint(index[i]) + 9] = x[i, 0];\n", r"y\[\d+\]: index \d+ is outside dimension 0"),
    ],
)
def test_indices_that_do_not_fit_a_view(name: str, body: str, message: str, device: torch.device) -> None:
    module = load(name, TABLE + GUARD + body + "}\n")
    index = torch.tensor([0, 1, 1, 0], dtype=torch.int32, device=device)
    with pytest.raises(IndexError, match=rf"^checks_{name}_true::{name}: {message}"):
        getattr(module, name)(torch.ones(4, 2, device=device), index)


@some_cases(2)
@pytest.mark.parametrize(
    ("name", "body", "message"),
    [
        (
            "unfixed",
            "    y[i] = x.loadFixed(uint2(index[i], 0));\n",
            r"x\[\d, 0\]: loadFixed promises that all threads name",
        ),
        ("shared", "    y[i] = x.loadUniform(uint2(index[i], 0));\n", r"x\[\d, 0\]: this element was promised to one"),
        ("again", "    y[i] = x.loadOnce(uint2(i, 0)) + x.loadOnce(uint2(i, 0));\n", r"x\[\d, 0\]: this element was"),
        ("once", "    y[i] = x.loadUniformOnce(uint2(index[i], 0));\n", r"x\[\d, 0\]: this element was promised"),
        ("kept", "    y.storeOnce(0, x[i, 0]);\n", r"y\[0\]: this element was promised to one thread alone"),
    ],
)
def test_broken_promises_are_found_in_the_backward(name: str, body: str, message: str, device: torch.device) -> None:
    module = load(name, TABLE + GUARD + body + "}\n")
    x = torch.ones(4, 2, device=device, requires_grad=True)
    index = torch.tensor([0, 1, 1, 0], dtype=torch.int32, device=device)
    y = getattr(module, name)(x, index)
    with pytest.raises(
        RuntimeError, match=rf"^checks_{name}_true::{name}_backward: gradient of {message}.*{name}\.slang:5\)"
    ):
        y.sum().backward()
    assert x.grad is None


@some_cases(1)
@pytest.mark.parametrize(
    ("name", "body", "expected"),
    [
        ("fixed_kept", "    y[i] = x.loadFixed(uint2(1, 1)) * float(i);\n", [[0, 0], [0, 6], [0, 0], [0, 0]]),
        ("twice_mine", "    y[i] = x.loadUniform(uint2(i, 0)) * x.loadUniform(uint2(i, 0));\n", [[2, 0]] * 4),
        ("read_back", "    y.storeOnce(i, x[i, 1] * 2);\n    y[i] = y.loadOnce(i) * 3;\n", [[0, 6]] * 4),
    ],
)
def test_promises_that_are_kept_pass(name: str, body: str, expected: list, device: torch.device) -> None:
    module = load(name, TABLE + GUARD + body + "}\n")
    x = torch.ones(4, 2, device=device, requires_grad=True)
    y = getattr(module, name)(x, torch.zeros(4, dtype=torch.int32, device=device))
    y.sum().backward()
    assert x.grad.tolist() == expected


RECORDS = """
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void records(
    [Shape("M")] DiffTensorViewASR<float, 1> x, [Shape("N")] TensorView<float> w, [Out("N")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < w.size(0)) y[i] = x[0] * w[i] + x[1];
}
"""


def test_additions_beyond_the_record_are_counted(device: torch.device, capfd: pytest.CaptureFixture[str]) -> None:
    module = load("records", RECORDS)
    x = torch.ones(2, device=device, requires_grad=True)
    module.records(x, torch.arange(5.0, device=device)).sum().backward()
    assert x.grad.tolist() == [10.0, 5.0]
    said = capfd.readouterr().err
    assert "records_backward: 5 additions to the gradient of x found no place among the 1" in said


PROGRAM = f"""
import torch, torch_slang
module = torch_slang.load(source='''{PUBLISHED}''', name="careless.slang")
try:
    print(torch.ops.slang.careless(torch.arange(6.0)[:4])[:4].tolist())
except IndexError as error:
    print("caught", error)
"""


@some_cases(1)
@pytest.mark.parametrize(
    ("value", "outcome"), [("1", "caught slang::careless"), ("0", "[0.0, 1.0, 4.0, 9.0]"), ("", "caught")]
)
def test_the_environment_decides_where_load_does_not(value: str, outcome: str) -> None:
    environment = {**os.environ, "TORCH_SLANG_DEBUG": value, "PYTHONPATH": str(Path(torch_slang.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(outcome)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_capture_is_not_waited_for() -> None:
    module = load("records", RECORDS)
    x, w = torch.ones(2, device="cuda"), torch.arange(5.0, device="cuda")
    module.records(x, w)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = module.records(x, w)
    graph.replay()
    assert y.tolist() == [1, 2, 3, 4, 5]
