"""Launches of more blocks along y or z than a GPU's grid has: they run in one row, which no kernel sees."""

import pytest
import torch
from long_tests import some_tests

import torch_slang

pytestmark = some_tests(2)

Tensor = torch.Tensor
SOURCE = """
import torch_slang;
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel] [LaunchTotal("N, M")] [BlockSize(32, 1, 1)]
void rows<T : IReal>(
    [Shape("M, N")] DiffTensorView<T> x, [Shape("N")] DiffTensorView<T> s, T f, [Out("M, N")] DiffTensorView<T> y)
{
    uint3 id = cudaGlobalIdx();
    if (id.x >= x.size(1) || id.y >= x.size(0)) return;
    T v = x[id.y, id.x];
    y[id.y, id.x] = f * s[id.x] * v * v;
}
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel] [LaunchTotal("N, M, K")] [BlockSize(2, 2, 1)]
void boxes<T : IReal>(
    [Shape("K, M, N")] DiffTensorView<T> x, [Shape("K")] DiffTensorView<T> s, [Out("K, M, N")] DiffTensorView<T> y)
{
    uint3 id = cudaGlobalIdx();
    if (id.x >= x.size(2) || id.y >= x.size(1) || id.z >= x.size(0)) return;
    y[id.z, id.y, id.x] = s[id.z] * x[id.z, id.y, id.x];
}
[CudaKernel] [LaunchTotal("32, M")] [BlockSize(32, 1, 1)]
void wave_sums(
    [Shape("M, 32")] TensorView<float> x, [Out("M")] TensorView<float> y, [Out("M, 2")] TensorView<int> where)
{
    uint3 id = cudaGlobalIdx();
    float sum = WaveActiveSum(x[id.y, id.x]);
    if (WaveIsFirstLane())
    {
        y[id.y] = sum;
        where[id.y, 0] = int(cudaBlockIdx().y);
        where[id.y, 1] = int(cudaBlockIdx().x);
    }
}
"""
LARGE = 65536 + 77  # blocks


@pytest.fixture(scope="module", autouse=True)
def operators() -> None:
    torch_slang.load(source=SOURCE, namespace="large_grids")


def check(op: object, reference: object, inputs: tuple[Tensor, ...]) -> None:
    """Results and gradients beside those of PyTorch's own operators, all in float64."""
    leaves = [tensor.detach().double().requires_grad_() for tensor in inputs]
    results, wanted = op(*leaves), reference(*leaves)  # type: ignore[operator]
    torch.testing.assert_close(results, wanted)
    seed = torch.rand_like(wanted)
    found, right = torch.autograd.grad(results, leaves, seed), torch.autograd.grad(wanted, leaves, seed)
    for one, other in zip(found, right, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9 * float(other.abs().max()))


@pytest.mark.parametrize("columns", [1, 33])
def test_many_blocks_along_y(columns: int, device: torch.device) -> None:
    inputs = (
        torch.rand(LARGE, columns, device=device),
        torch.rand(columns, device=device),
        torch.rand((), device=device),
    )
    check(torch.ops.large_grids.rows, lambda x, s, f: f * s * x * x, inputs)


@pytest.mark.parametrize("shape", [(LARGE, 3, 5), (3, 2 * LARGE, 1)], ids=str)
def test_many_blocks_along_z_or_y(shape: tuple[int, ...], device: torch.device) -> None:
    inputs = torch.rand(shape, device=device), torch.rand(shape[0], device=device)
    check(torch.ops.large_grids.boxes, lambda x, s: s[:, None, None] * x, inputs)


def test_more_rows_than_virtual_threads_and_words_leave(device: torch.device) -> None:
    rows = 16 * LARGE if device.type == "cuda" else LARGE  # a GPU's threads run several rows, or repeat
    x = torch.randint(3, (rows, 256), device=device).float().requires_grad_()  # so that sums are exact
    s = torch.rand(256, device=device, requires_grad=True)
    f = torch.tensor(0.5, device=device)
    y = torch.ops.large_grids.rows(x, s, f)
    torch.testing.assert_close(y, f * s * x * x)
    found = torch.autograd.grad(y, (x, s), torch.ones_like(y))
    torch.testing.assert_close(found[0], 2 * f * s.expand_as(x) * x)
    torch.testing.assert_close(found[1], (f * x * x).sum(0), rtol=0, atol=0)


def test_threads_that_meet_see_their_own_blocks(device: torch.device) -> None:
    x = torch.rand(LARGE, 32, device=device)
    sums, where = torch.ops.large_grids.wave_sums(x)
    torch.testing.assert_close(sums, x.sum(1))
    assert torch.equal(where[:, 0], torch.arange(LARGE, device=device, dtype=torch.int32))
    assert not where[:, 1].any()


def test_trilinear_of_many_rows(device: torch.device) -> None:
    rows = 600_000 if device.type == "cuda" else 1000
    feats = torch.rand(rows, 8, 3, device=device, requires_grad=True)
    points = (torch.rand(rows, 3, device=device) * 2 - 1).requires_grad_()
    y = torch.ops.slang.trilinear(feats, points)
    some = torch.tensor([0, 1, rows // 2, rows - 2, rows - 1], device=device)
    found = torch.autograd.grad(y, (feats, points), torch.ones_like(y))
    few = [t.detach()[some].requires_grad_() for t in (feats, points)]
    z = torch.ops.slang.trilinear(*few)
    torch.testing.assert_close(y[some], z)
    for one, other in zip(found, torch.autograd.grad(z, few, torch.ones_like(z)), strict=True):
        torch.testing.assert_close(one[some], other)
    torch.testing.assert_close(found[0].sum((1, 2)), torch.full((rows,), 3.0, device=device))


@pytest.mark.parametrize(("blocks", "counts"), [((1 << 22) - 1, [0, 1]), ((1 << 22) + 1, [1, 2])])
def test_indices_along_x_that_wrap_around(blocks: int, counts: list[int]) -> None:
    """On the CPU a kernel is compiled on its own for 2^32 threads: number 2^32 - 1 runs, and number 5 once more."""
    module = torch_slang.load(
        source="""
[CudaKernel] void wrapping(TensorView<int> y)
{
    uint i = cudaBlockIdx().x * cudaBlockDim().x + cudaThreadIdx().x;
    if (i == 0xffffffffu) y[0] = y[0] + 1;
    if (i == 5u) y[1] = y[1] + 1;
}
""",
        namespace="large_grids_wrapping",
    )
    y = torch.zeros(2, dtype=torch.int32)
    module.wrapping_launch(y, block_size=[1024], grid_size=[blocks])
    assert y.tolist() == counts
