"""Threads that load and store vectors together: what is compiled on any machine, and plain torch's numbers on a GPU."""

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from cases import FOLDER, Input, kernels, nvrtc_is_here
from long_tests import dear_test, some_cases
from own_cases import CASES, Case, Columns, Permutation, gradients, listed, misaligned, operator, same, seeds_for

import torch_slang
from torch_slang import _C

FIXED = {33}  # sizes that kernels spell out


@pytest.fixture
def gpu() -> Iterator[torch.device]:
    """A GPU whose threads run several of the launch, however small it is."""
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    before = _C.set_virtual_threads_for_all(True)
    yield torch.device("cuda")
    _C.set_virtual_threads_for_all(before)


def grown(case: Case, by: int) -> Case:
    """The same with so many times as many threads: whole tiles and the rest of one."""

    def larger(argument: Any) -> Any:
        if isinstance(argument, Input):
            shape = tuple(size * by if size >= 7 and size not in FIXED else size for size in argument.shape)
            return dataclasses.replace(argument, shape=shape)
        if isinstance(argument, Permutation | Columns):
            return type(argument)(argument.count * by)
        return argument

    return dataclasses.replace(case, inputs=tuple(map(larger, case.inputs)))


def backward_lanes(name: str) -> set[int]:
    module = kernels("own_elements")
    return {k.lanes for k in module.explain(name) if k.kind == "backward" and k.device.startswith("cuda")}


@pytest.mark.parametrize("name", CASES)
def test_large_launches_give_the_numbers_of_plain_torch(name: str, gpu: torch.device) -> None:
    case = grown(CASES[name], 96)
    args, expected_args = case.args(gpu), case.args(gpu)
    results, expected = listed(operator(name)(*args)), listed(case.reference(*expected_args))
    tolerance = {"rtol": 1e-6, "atol": 1e-6} if case.dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-4}
    same(results, expected, **tolerance)
    seeds = seeds_for(results)
    for layout in (
        torch.clone,
        misaligned,
        lambda t: t.mT.clone().mT if t.dim() > 1 else t.flatten()[:1].expand(t.shape),
    ):
        given = [layout(seed) for seed in seeds]
        same(gradients(results, args, given), gradients(expected, expected_args, given), **tolerance)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("size", [2048, 4096, 6144, 10_000, 10_008, 65_537])
@pytest.mark.parametrize("name", ["own", "neighbours", "own_accesses_asr"])
def test_other_types(name: str, size: int, dtype: torch.dtype, gpu: torch.device) -> None:
    generator = torch.Generator().manual_seed(3)
    args = [Input((size,)).make(gpu, dtype, generator) for _ in CASES[name].inputs]
    exact = [a.detach().double().requires_grad_() for a in args]
    results, expected = listed(operator(name)(*args)), listed(CASES[name].reference(*exact))
    seeds = seeds_for(results)
    found = gradients(results, args, seeds)
    tolerance = 32 * torch.finfo(dtype).eps
    wide = gradients(expected, exact, [s.double() for s in seeds])
    for one, other in zip([*results, *found], [*expected, *wide], strict=True):
        same([one.double()], [other], rtol=tolerance, atol=16 * tolerance)
    # For atomic additions to float16, ptxas takes memory of the thread's own, and then there are no vectors.
    if (name, dtype) != ("neighbours", torch.float16):
        assert 16 // dtype.itemsize in backward_lanes(name)


@pytest.mark.parametrize(
    ("place", "lanes"),
    [(slice(0, None), 4), (slice(4, None), 4), (slice(1, None), 1), (slice(None, None, 2), 4)],
    ids=str,
)
def test_vectors_need_aligned_addresses(place: slice, lanes: int, gpu: torch.device) -> None:
    """A strided argument is read as it is, and the others in vectors all the same."""
    module = torch_slang.load(source=PRODUCT, namespace=f"test_vectors_{place.start}_{place.step}")
    x = torch.rand(20_003, device=gpu)[place]
    w = torch.rand(len(x), device=gpu)
    assert torch.equal(module.product(x, w), x * w)
    (kernel,) = module.explain("product")
    assert kernel.lanes == lanes
    assert ("in vectors" in str(kernel)) == (lanes > 1)


def test_rows_that_begin_between_vectors(gpu: torch.device) -> None:
    for width, lanes in ((1024, 4), (1023, 1)):
        module = torch_slang.load(source=ROWS, namespace=f"test_vectors_rows_{width}")
        x, bias = (torch.rand(*shape, device=gpu, requires_grad=True) for shape in ((65, width), (width,)))
        y = module.biased(x, bias)
        same([y], [(x + bias) ** 2])
        same(
            list(torch.autograd.grad(y.sum(), (x, bias))), list(torch.autograd.grad(((x + bias) ** 2).sum(), (x, bias)))
        )
        assert {kernel.lanes for kernel in module.explain("biased")} == {lanes}


def test_a_wave_of_the_launch_has_one_fixed_element(gpu: torch.device) -> None:
    """And its neighbours, which one wave of the hardware runs as well, have others."""
    fixed = torch_slang.load(source=FIXED_ELEMENTS, namespace="test_vectors_fixed")
    for size in (4096, 10_000):
        x, w = (torch.rand(n, device=gpu, requires_grad=True) for n in (size, -(-size // 32)))
        y = fixed.scaled(x, w)
        expected = x * w.repeat_interleave(32)[:size]
        same([y], [expected])
        grad = torch.rand_like(y)
        same(list(torch.autograd.grad(y, (x, w), grad)), list(torch.autograd.grad(expected, (x, w), grad)))
        assert {kernel.lanes for kernel in fixed.explain("scaled")} == {4}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(512, 1024), (511, 1030), (37, 4099), (4100, 64), (1, 40_000), (40_000, 1)], ids=str)
def test_shared_elements(shape: tuple[int, int], dtype: torch.dtype, gpu: torch.device) -> None:
    """Of rows, of columns, of all threads, in one replica or in place; and foreign ones, which take an atomic each."""
    module = torch_slang.load(source=SHARED, namespace="test_vectors_shared")
    rows, columns = shape
    generator = torch.Generator().manual_seed(1)
    shapes = [shape, (columns,), (rows, 2), (3,), (columns,)]
    args = [Input(s).make(gpu, dtype, generator) for s in shapes]
    exact = [a.detach().double().requires_grad_() for a in args]
    y = module.mixed(*args)
    x, bias, scale, three, near = exact
    expected = x * scale[:, :1] + scale[:, 1:] * bias + x * three[1] + three[0] * three[2] + near.roll(-1)
    eps = torch.finfo(dtype).eps
    same([y.double()], [expected], rtol=16 * eps, atol=64 * eps)
    seed = torch.rand(y.shape, generator=generator, dtype=torch.float64).to(gpu, dtype) / max(shape)
    for chosen in ([0, 1, 2, 3, 4], [1], [2], [3], [4], [1, 3]):
        actual = torch.autograd.grad(y, [args[i] for i in chosen], seed, retain_graph=True)
        wanted = torch.autograd.grad(expected, [exact[i] for i in chosen], seed.double(), retain_graph=True)
        for one, other in zip(actual, wanted, strict=True):
            # Of so many rounded additions errors grow as of a random walk; halves are added up in place.
            steps = max(64, 2 * x.numel() ** 0.5) * (16 if dtype.itemsize == 2 else 1)
            bound = steps * eps * max(1.0, float(other.abs().max()))
            same([one.double()], [other], rtol=64 * eps, atol=bound)


SHARED = """
import torch_slang;
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel] [LaunchTotal("N, M")]
void mixed<T : IReal>(
    [Shape("M, N")] DiffTensorView<T> x, [Shape("N")] DiffTensorView<T> bias,
    [Shape("M, 2")] DiffTensorViewR<T, 1> scale, [Shape("3")] DiffTensorView<T> three,
    [Shape("N")] DiffTensorView<T> near, [Out("M, N")] DiffTensorView<T> y)
{
    uint3 id = cudaGlobalIdx();
    uint i = id.y, j = id.x;
    if (j >= x.size(1) || i >= x.size(0)) return;
    uint next = j + 1 < x.size(1) ? j + 1 : 0;
    y[i, j] = x[i, j] * scale[i, 0] + scale[i, 1] * bias[j] + x[i, j] * three[1] + three[0] * three[2] + near[next];
}
"""
FIXED_ELEMENTS = """
import torch_slang;
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel] [LaunchTotal("N")]
void scaled(
    [Shape("N")] DiffTensorView<float> x, [Shape("M")] DiffTensorView<float> w, [Out("N")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < x.size(0)) y[i] = x[i] * w.loadFixed(i / 32);
}
"""


def test_rows_of_a_gradient_that_begin_between_vectors(gpu: torch.device) -> None:
    """The tensor itself is strided, so that only its gradient's rows say so."""
    module = torch_slang.load(source=FIRSTS, namespace="test_vectors_firsts")
    for width, lanes in ((1024, 4), (1023, 1)):
        x = torch.rand(64, 2048, device=gpu, requires_grad=True)
        part = x[:, :width]
        y = module.firsts(part)
        same([y], [part[:, 0] ** 2])
        (grad,) = torch.autograd.grad(y.sum(), part)
        (expected,) = torch.autograd.grad((part[:, 0] ** 2).sum(), part)
        same([grad], [expected])
        assert lanes in {kernel.lanes for kernel in module.explain("firsts")}


FIRSTS = """
import torch_slang;
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel] [LaunchTotal("N, M")]
void firsts([Shape("M, N")] DiffTensorView<float> x, [Out("M")] DiffTensorView<float> y)
{
    uint3 id = cudaGlobalIdx();
    if (id.x >= x.size(1) || id.y >= x.size(0)) return;
    float v = x[id.y, id.x];
    if (id.x == 0) y[id.y] = v * v;
}
"""
PRODUCT = """
import torch_slang;
[PyBindCUDA(Auto)] [CudaKernel]
void product([Shape("N")] TensorView<float> x, [Shape("N")] TensorView<float> w, [Out("N")] TensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < x.size(0)) y[i] = x[i] * w[i];
}
"""
ROWS = """
import torch_slang;
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel] [LaunchTotal("N, M")]
void biased(
    [Shape("M, N")] DiffTensorView<float> x, [Shape("N")] DiffTensorView<float> bias,
    [Out("M, N")] DiffTensorView<float> y)
{
    uint3 id = cudaGlobalIdx();
    if (id.x >= x.size(1) || id.y >= x.size(0)) return;
    float v = x[id.y, id.x] + bias[id.x];
    y[id.y, id.x] = v * v;
}
"""


def vectors_in(ptx: str) -> tuple[int, int]:
    return len(re.findall(r"ld\.global\.nc\.v4", ptx)), len(re.findall(r"st\.global\.v4", ptx))


@dear_test
@some_cases(1)
@pytest.mark.parametrize(
    ("name", "kind", "dtype", "loads", "stores"),
    [
        ("own", "forward", "float32", 2, 1),
        ("own", "backward", "float32", 3, 2),
        ("own", "forward", "float16", 2, 1),
        ("own", "backward", "bfloat16", 3, 2),
        ("neighbours", "forward", "float32", 2, 1),
        ("any_shape", "backward", "float32", 4, 3),
        ("own_in_loop", "forward", "float32", 2, 1),
    ],
)
def test_vectors_in_compiled_code(name: str, kind: str, dtype: str, loads: int, stores: int) -> None:
    """What NVRTC makes for a GPU, on any machine: each tensor moved in vectors once, and nothing kept in memory."""
    if not nvrtc_is_here():
        pytest.skip("NVRTC is not installed")
    module = torch_slang.load(FOLDER / "own_elements.slang", namespace="test_vectors_compiled", debug=False)
    ptx = module._handle.cubin(name, kind, [dtype], True, "compute_90", 1, 8 if "16" in dtype else 4).decode()
    assert vectors_in(ptx) == (loads, stores)
    assert ".local" not in ptx
