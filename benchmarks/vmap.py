"""Per-sample gradients of a small network with a Slang layer: torch.vmap, a Python loop, and PyTorch's fallback for
operators without a batching rule, which a wrapper of the same kernel falls into.
"""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable
from typing import Any

import torch

import torch_slang
from benchmarks.measure import device, print_table, samples
from benchmarks.report import problem

Tensor = torch.Tensor
SAMPLES = 256

SOURCE = """
import torch_slang;

// A linear layer and its activation.
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void layer([Shape("I")] DiffTensorView<float> x, [Shape("O, I")] DiffTensorView<float> weight,
           [Shape("O")] DiffTensorView<float> bias, int inputs, [Out("O")] DiffTensorView<float> y)
{
    uint o = cudaGlobalIdx().x;
    if (o >= y.size(0)) return;
    float sum = bias[o];
    [MaxIters(64)] for (int i = 0; i < inputs; i++) sum += weight[o, i] * x[i];
    y[o] = tanh(sum);
}
"""


def without_a_rule(layer: Callable[..., Tensor], backward: Any) -> Callable[..., Tensor]:
    """The kernel as operators that PyTorch has no batching rule for, so that its own loop runs them."""

    arguments = "Tensor x, Tensor weight, Tensor bias, int inputs"
    library = torch.library.Library("benchmark_vmap", "FRAGMENT")
    library.define(f"layer({arguments}) -> Tensor")
    library.define(f"layer_backward(Tensor grad, {arguments}) -> (Tensor, Tensor, Tensor)")
    library.impl("layer", layer, "CompositeExplicitAutograd")
    library.impl("layer_backward", lambda *a: tuple(backward(*a, [True, True, True])), "CompositeExplicitAutograd")
    plain = torch.ops.benchmark_vmap

    class Layer(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Tensor, weight: Tensor, bias: Tensor, inputs: int) -> Tensor:
            result: Tensor = plain.layer(x, weight, bias, inputs)
            return result

        @staticmethod
        def setup_context(context: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG004
            *tensors, context.inputs = inputs
            context.library = library  # which takes its operators with it
            context.save_for_backward(*tensors)

        @staticmethod
        def backward(context: Any, grad: Tensor) -> Any:
            return (*plain.layer_backward(grad, *context.saved_tensors, context.inputs), None)

    apply: Callable[..., Tensor] = Layer.apply
    return apply


def main(quick: bool) -> None:
    on = device()
    inputs, hidden, count = (8, 8, 4) if quick else (32, 64, SAMPLES)
    module = torch_slang.load(source=SOURCE, name="benchmark_vmap", namespace="benchmark_vmap_layer")
    generator = torch.Generator().manual_seed(0)

    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).to(on)

    weights = {"first": randn(inputs, inputs) / 8, "weight": randn(hidden, inputs) / 8, "bias": randn(hidden)}
    x, target = randn(count, inputs), randn(count, hidden)

    def loss_with(layer: Callable[..., Tensor]) -> Callable[[dict[str, Tensor], Tensor, Tensor], Tensor]:
        def loss(weights: dict[str, Tensor], x: Tensor, target: Tensor) -> Tensor:
            hidden = torch.relu(weights["first"] @ x)
            return ((layer(hidden, weights["weight"], weights["bias"], inputs) - target) ** 2).mean()

        return loss

    ops = torch.ops.benchmark_vmap_layer
    grad = torch.func.grad(loss_with(ops.layer))
    fallback = torch.func.grad(loss_with(without_a_rule(ops.layer, ops.layer_backward)))
    in_dims = (None, 0, 0)

    def loop() -> dict[str, Tensor]:
        rows = [grad(weights, x[k], target[k]) for k in range(count)]
        return {name: torch.stack([row[name] for row in rows]) for name in weights}

    calls: dict[str, Callable[[], dict[str, Tensor]]] = {
        "torch.vmap": lambda: torch.vmap(grad, in_dims)(weights, x, target),
        "Python loop": loop,
        "PyTorch's fallback": lambda: torch.vmap(fallback, in_dims)(weights, x, target),
    }
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="There is a performance drop")
        expected = loop()
        for name, call in calls.items():
            try:
                torch.testing.assert_close(call(), expected, rtol=1e-4, atol=1e-5)
            except AssertionError as difference:
                problem(f"{name} has other gradients: {str(difference)[:300]}")
        times = {name: statistics.median(taken) for name, taken in samples(calls, on, 5 if quick else 20).items()}
    rows = [[name, time, times["Python loop"] / time] for name, time in times.items()]
    del module
    print_table(
        f"gradients of each of {count} samples of a small network on {on}, ms",
        ["", "time", "times as fast as the loop"],
        rows,
        chart=["time"],
        unit="ms",
    )
