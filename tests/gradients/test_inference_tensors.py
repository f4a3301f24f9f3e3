"""Tensors of inference mode as constants of recorded calls: the graph keeps copies of what a backward reads."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import torch_slang

SOURCE = """
[Differentiable] T scaled<T : __BuiltinFloatingPointType>(T x, T c) { return x * x * c; }
[Differentiable] T shifted<T : __BuiltinFloatingPointType>(T x, T c) { return x * T(3.0f) + c; }

[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void gathered(
    [Shape("n")] DiffTensorView<double> x, [Shape("m")] TensorView<int> places, [Out("m")] DiffTensorView<double> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < places.size(0)) y[i] = x[places[i]] * x[places[i]];
}
"""


@pytest.fixture(scope="module")
def module() -> torch_slang.Module:
    return torch_slang.load(source=SOURCE, name="inference", namespace="inference")


def numbers(device: torch.device) -> tuple[Tensor, Tensor]:
    x = torch.tensor([1.5, -2.0, 0.5], dtype=torch.float64, device=device).requires_grad_()
    with torch.inference_mode():
        c = torch.tensor([3.0, 4.0, -1.0], dtype=torch.float64, device=device)
    return x, c


CALLS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "read by the backward": (lambda m, x, c: m.scaled(x, c), lambda x, c: x * x * c),
    "not read by it": (lambda m, x, c: m.shifted(x, c), lambda x, c: 3 * x + c),
    "indices": (lambda m, x, c: m.gathered(x, c), lambda x, c: x[c.long()] ** 2),
    "a product": (lambda m, x, c: torch.ops.slang.mm(x[None, None], c[None, :, None]), lambda x, c: (x * c).sum()),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_recorded_call_takes_them(call: str, module: Any, device: torch.device) -> None:
    ours, reference = CALLS[call]
    x, c = numbers(device)
    if call == "indices":
        with torch.inference_mode():
            c = torch.tensor([2, 0, 1, 2], dtype=torch.int32, device=device)
    for _ in range(2):  # what the backward reads is known the second time
        y = ours(module, x, c)
        expected = reference(x, c.clone())
        torch.testing.assert_close(y.sum(), expected.sum())
        torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], torch.autograd.grad(expected.sum(), x)[0])


def test_second_derivatives_take_them(module: Any, device: torch.device) -> None:
    x, c = numbers(device)
    (first,) = torch.autograd.grad(module.scaled(x, c).sum(), x, create_graph=True)
    torch.testing.assert_close(torch.autograd.grad(first.sum(), x)[0], 2 * c.clone())


def test_a_change_behind_the_call_does_not_reach_the_graph(module: Any, device: torch.device) -> None:
    x, c = numbers(device)
    before = c.clone()
    y = module.scaled(x, c)
    with torch.inference_mode():
        c.zero_()  # has no versions, by which autograd would notice
    torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], (2 * x * before).detach())
