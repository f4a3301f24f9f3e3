"""torch.use_deterministic_algorithms(True): reproducible to the bit, or an error with a way out."""

import pytest
import torch
from long_tests import some_tests

import torch_slang

pytestmark = [pytest.mark.usefixtures("deterministic"), some_tests(3)]

SOURCE = """
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void NAME(
    [Shape("M")] VIEW table, [Shape("N")] TensorView<int> index, [Shape("N")] DiffTensorViewASR<float, 1> w, ARGUMENT
    [Out("N")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < w.size(0)) y[i] = VALUE;
}
"""


def gather(name: str, view: str, value: str = "table[uint(index[i])] * w[i]", argument: str = "") -> torch_slang.Kernel:
    source = SOURCE.replace("NAME", name).replace("VIEW", view).replace("VALUE", value).replace("ARGUMENT", argument)
    return getattr(torch_slang.load(source=source, name=f"{name}.slang", namespace="deterministic"), name)


def arguments(count: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    table = torch.randn(7, generator=generator).to(device).requires_grad_()
    index = torch.randint(7, (count,), dtype=torch.int32, generator=generator).to(device)
    w = torch.randn(count, generator=generator).to(device).requires_grad_()
    return table, index, w


@pytest.mark.parametrize(
    ("name", "view", "hint"),
    [
        (
            "atomic",
            "DiffTensorView<float>",
            "the gradient of table is added up atomically.* DiffTensorViewASR<T, N>.* DiffTensorViewR",
        ),
        (
            "few",
            "DiffTensorViewR<float, 64>",
            "the gradient of table has 64 replicas for 512 threads.* DiffTensorViewASR<T, N>",
        ),
    ],
)
def test_sums_without_an_order_raise(name: str, view: str, hint: str, device: torch.device) -> None:
    kernel = gather(name, view)
    table, index, w = arguments(500, device)
    y = kernel(table, index, w)
    message = rf"^deterministic::{name}_backward does not have a deterministic implementation.*{hint}"
    with pytest.raises(RuntimeError, match=message):
        y.sum().backward(retain_graph=True)
    assert (table.grad, w.grad) == (None, None)
    torch.use_deterministic_algorithms(True, warn_only=True)
    with pytest.warns(UserWarning, match=message):
        y.sum().backward()
    assert table.grad is not None


def test_only_wanted_gradients_count(device: torch.device) -> None:
    table, index, w = arguments(500, device)
    kernel = gather("atomic", "DiffTensorView<float>")
    kernel(table.detach(), index, w).sum().backward()
    torch.testing.assert_close(w.grad, table.detach()[index.long()])


def test_one_thread_has_an_order(device: torch.device) -> None:
    module = torch_slang.load(
        source="""
        [PyBindCUDA(Auto)] [Differentiable] [CudaKernel] [BlockSize(1, 1, 1)]
        void sum_all([Shape("N")] DiffTensorView<float> x, [Out("1")] DiffTensorView<float> y)
        {
            float sum = 0;
            [MaxIters(8)] for (uint i = 0; i < x.size(0); ++i) sum += x[i] * x[0];
            y[0] = sum;
        }
        """,
        name="sum_all.slang",
        namespace="deterministic",
    )
    x = torch.ones(8, device=device, requires_grad=True)
    module.sum_all(x).sum().backward()
    assert x.grad.tolist() == [9.0] + [1.0] * 7


@pytest.mark.parametrize(
    ("name", "view"), [("recorded", "DiffTensorViewASR<float, 2>"), ("many", "DiffTensorViewR<float, 512>")]
)
def test_recorded_and_private_sums_are_reproducible(name: str, view: str, device: torch.device) -> None:
    kernel = gather(name, view)
    table, index, w = arguments(500, device)
    seed = torch.randn(500, device=device)
    runs = [torch.autograd.grad(kernel(table, index, w), (table, w), seed) for _ in range(5)]
    exact = torch.zeros(7, dtype=torch.float64, device=device)
    exact.index_add_(0, index.long(), (seed.double() * w.double()).detach())
    torch.testing.assert_close(runs[0][0].double(), exact, rtol=1e-5, atol=1e-5)
    for run in runs[1:]:
        assert all(torch.equal(a, b) for a, b in zip(run, runs[0], strict=True))


def test_a_record_that_is_too_short_raises(device: torch.device) -> None:
    kernel = gather("short_record", "DiffTensorViewASR<float, 1>", "table[uint(index[i])] * w[i] + table[0]")
    table, index, w = arguments(500, device)
    y = kernel(table, index, w)
    with pytest.raises(
        RuntimeError,
        match=r"^deterministic::short_record_backward .*: 500 additions to the gradient of table found no place "
        r"among the 1 that DiffTensorViewASR<T, N> gives each thread, and were made atomically. Use a larger N",
    ):
        y.sum().backward()


def test_sums_of_values_are_reproducible(device: torch.device) -> None:
    kernel = gather("scale", "DiffTensorViewASR<float, 1>", "table[uint(index[i])] * s", argument="float s,")
    table, index, w = arguments(50_000, device)
    s = torch.tensor(2.0, device=device, requires_grad=True)
    seed = torch.randn(50_000, device=device)
    runs = [torch.autograd.grad(kernel(table, index, w, s), s, seed)[0] for _ in range(5)]
    assert all(torch.equal(run, runs[0]) for run in runs)
    exact = seed.double() @ table.detach().double()[index.long()]
    torch.testing.assert_close(runs[0].double(), exact, rtol=1e-5, atol=1e-5)


def test_an_output_that_is_only_stored_has_an_order(device: torch.device) -> None:
    source = """
    [PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
    void doubled([Shape("N")] DiffTensorViewASR<float, 1> x, [Out("N")] DiffTensorViewASR<float, 1> y)
    {
        uint i = cudaGlobalIdx().x;
        if (i < x.size(0)) y[i] = 2 * x[i];
    }
    """
    module = torch_slang.load(source=source, name="doubled.slang", namespace="deterministic")
    x = torch.randn(100, device=device, requires_grad=True)
    module.doubled(x).sum().backward()
    assert x.grad.tolist() == [2.0] * 100
