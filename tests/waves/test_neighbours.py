"""Additions to neighbouring numbers, in any order and at any address (Note [neighbours] in prelude/neighbours.h)."""

from __future__ import annotations

import pytest
import torch
from long_tests import some_cases
from test_wave_sums import random
from torch import Tensor

import torch_slang
from torch_slang import slangtorch

pytestmark = pytest.mark.usefixtures("sums")

# Each kernel adds up the numbers of a row that ORDER names, with weights of their own.
ORDERS = {
    "ascending": (0, 1, 2, 3, 4, 5, 6),
    "descending": (6, 5, 4, 3, 2, 1, 0),
    "mixed": (3, 2, 5, 0, 1, 6, 4),
    "twice": (2, 2, 3, 3, 2, 0, 1),
    "apart": (0, 2, 4, 6, 1, 3, 5),
    "one": (4,),
    "two": (5, 4),
}
KERNEL = """
[CudaKernel] [Differentiable] [LaunchTotal("I")]
void {name}([Shape("N, 7")] DiffTensorView<float> x, [Shape("I")] TensorView<int> index,
            [Out("I")] DiffTensorView<float> y)
{{
    uint i = cudaGlobalIdx().x;
    if (i >= y.size(0)) return;
    uint row = uint(index[i]);
    y[i] = {terms};
}}
"""
# Reads rows of two tensors, and a vector of a third one between them. Tests freeze one of the three.
TWO = """
[CudaKernel] [Differentiable] [LaunchTotal("I")]
void two_tensors([Shape("N, 3")] DiffTensorView<float> a, [Shape("N, 4")] DiffTensorView<float> b,
                 [Shape("N")] DiffTensorView<float3> c, [Shape("I")] TensorView<int> index,
                 [Out("I")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= y.size(0)) return;
    uint k = uint(index[i]);
    y[i] = a[k, 0] + 2 * b[k, 0] + 3 * a[k, 1] + 4 * b[k, 1] + dot(c[k], float3(5, 6, 7)) + 8 * b[k, 2] + 9 * b[k, 3];
}

"""


def source() -> str:
    kernels = []
    for name, order in ORDERS.items():
        terms = " + ".join(f"{k + 1} * x[row, {at}]" for k, at in enumerate(order))
        kernels.append(KERNEL.format(name=name, terms=terms))
    return "".join(kernels) + TWO


@pytest.fixture(scope="module")
def module() -> torch_slang.Module:
    return torch_slang.load(source=source(), name="neighbours", namespace="neighbours")


def weights(name: str, device: torch.device) -> Tensor:
    weight = torch.zeros(7, dtype=torch.float64, device=device)
    for k, at in enumerate(ORDERS[name]):
        weight[at] += k + 1
    return weight


@some_cases(16)
@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize(("rows", "count"), [(1, 1), (5, 3), (40, 1000)])
@pytest.mark.parametrize("kind", ["own", "random"])
def test_rows(module: torch_slang.Module, device: torch.device, name: str, rows: int, count: int, kind: str) -> None:
    x = random(rows, 7, device=device)
    index = torch.arange(count, device=device) % rows
    if kind == "random":
        index = index[torch.randperm(count, generator=torch.Generator().manual_seed(1)).to(device)]
    grad = random(count, device=device).detach()
    y = getattr(module, name)(x, index.int())
    y.backward(grad)
    reference = torch.zeros(rows, 7, dtype=torch.float64, device=device)
    reference.index_add_(0, index, grad.double()[:, None] * weights(name, device))
    torch.testing.assert_close(x.grad, reference.float(), rtol=1e-4, atol=1e-4)
    assert (x.grad[:, weights(name, device) == 0] == 0).all()


@pytest.mark.parametrize("frozen", ["none", "a", "b", "c"])
def test_rows_of_two_tensors(module: torch_slang.Module, device: torch.device, frozen: str) -> None:
    tensors = {
        name: random(20, size, device=device).requires_grad_(name != frozen)
        for name, size in (("a", 3), ("b", 4), ("c", 3))
    }
    index = (torch.arange(500, device=device) * 7 % 20).int()
    grad = random(500, device=device).detach()
    module.two_tensors(*tensors.values(), index).backward(grad)
    sums = torch.zeros(20, dtype=torch.float64, device=device).index_add_(0, index.long(), grad.double())
    terms = {"a": (1.0, 3.0, 0.0), "b": (2.0, 4.0, 8.0, 9.0), "c": (5.0, 6.0, 7.0)}
    for name, tensor in tensors.items():
        if name == frozen:
            assert tensor.grad is None
            continue
        expected = sums[:, None] * torch.tensor(terms[name], dtype=torch.float64, device=device)
        torch.testing.assert_close(tensor.grad, expected.float(), rtol=1e-4, atol=1e-4)


def gradient_memory(how: str, device: torch.device) -> tuple[Tensor, Tensor]:
    """A gradient of [40, 7] in memory of some layout, and all of that memory."""
    memory = torch.zeros(40 * 7 * 2 + 3, device=device)
    if how == "transposed":
        return memory[:280].view(7, 40).t(), memory
    if how == "every other":
        return memory[: 40 * 14].view(40, 14)[:, ::2], memory
    begin = {"at once": 0, "one float later": 1, "three floats later": 3}[how]
    return memory[begin : begin + 280].view(40, 7), memory


@pytest.mark.parametrize("how", ["at once", "one float later", "three floats later", "transposed", "every other"])
@pytest.mark.parametrize("name", ["descending", "mixed"])
def test_gradients_in_memory_of_the_callers_own(
    device: torch.device, tmp_path_factory: pytest.TempPathFactory, name: str, how: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "neighbours_launched.slang"
    path.write_text(source())
    kernel = getattr(slangtorch.loadModule(str(path)), name)
    x, grad = random(40, 7, device=device).detach(), random(1000, device=device).detach()
    index = (torch.arange(1000, device=device) * 3 % 40).int()
    grad_x, memory = gradient_memory(how, device)
    launch = kernel.bwd(x=(x, grad_x), index=index, y=(torch.empty(1000, device=device), grad.clone()))
    launch.launchRaw(blockSize=(128, 1, 1), gridSize=(8, 1, 1))
    expected = torch.zeros(40, 7, dtype=torch.float64, device=device)
    expected.index_add_(0, index.long(), grad.double()[:, None] * weights(name, device))
    torch.testing.assert_close(grad_x, expected.float(), rtol=1e-4, atol=1e-4)
    used = int((memory != 0).sum())
    assert used == int((expected != 0).sum())  # nothing beside it
