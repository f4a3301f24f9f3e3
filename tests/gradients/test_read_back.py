"""Kernels that read back what they stored: derivatives of all orders are those of plain torch.

What such a kernel needs memory for is learned from compiled code: Note [scratch outputs] in csrc/kernels/learn.cpp.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from long_tests import dear_test, some_cases

import torch_slang

Tensor = torch.Tensor
HEAD = """
import torch_slang;
typealias V = DiffTensorView<double>;
[ForwardDerivative(pinned_forward)] [BackwardDerivative(pinned_backward)] double pinned(double v) { return 2; }
[Differentiable] DifferentialPair<double> pinned_forward(DifferentialPair<double> v) { return diffPair(pinned(v.p), v.d); }
void pinned_backward(inout DifferentialPair<double> v, double d) { v = diffPair(v.p, d); }
"""  # noqa: E501
KERNEL = """
[Differentiable] [CudaKernel] [LaunchTotal("N")]
void NAME([Shape("N, C")] V x, [Shape("M")] V y, [Shape("N")] TensorView<int> n, [Out("N, C")] VIEW<double REST> z,
          [Out("N")] VIEW<double REST> w)
{
    uint i = cudaGlobalIdx().x;
    if (i >= x.size(0)) return;
    BODY
}
"""
MODES = {"": ("DiffTensorView", ""), "_r": ("DiffTensorViewR", ", 2"), "_asr": ("DiffTensorViewASR", ", 12")}


@dataclass(frozen=True)
class Case:
    """`rows`: of one thread, (x[i], y, n[i]) -> (z[i], w[i])."""

    body: str
    rows: Callable[[Tensor, Tensor, int], tuple[list[Tensor], Tensor]]
    modes: tuple[str, ...] = ("",)


def repeated(x: Tensor, y: Tensor, n: int) -> tuple[list[Tensor], Tensor]:
    z = (x[0] * x[0]).sin() * x[1]
    return [z * z + z.exp(), *x[1:]], 3 * z * z


def summed(x: Tensor, y: Tensor, n: int) -> tuple[list[Tensor], Tensor]:
    z = x[0]
    for v in y[:n]:
        z = z + v.sin() * x[1] + v * z * z
    return [z * z, *x[1:]], (z * z * x[0]).sin()


def carried(x: Tensor, y: Tensor, n: int) -> tuple[list[Tensor], Tensor]:
    z = [x[0]]
    for v in x[1:]:
        z.append(z[-1].sin() * v)
    return [*z[:-1], z[-1] * z[0]], z[1] * z[1]


def chosen(x: Tensor, y: Tensor, n: int) -> tuple[list[Tensor], Tensor]:
    w = x[0] * x[1]
    z = w * w if x[0] > 0 else w.sin() * y[0]
    z = (z * w).exp() if n > 1 else z
    return [z, *x[1:]], w * z


REST = "z[i, 1] = x[i, 1]; z[i, 2] = x[i, 2];"
CASES = {
    "squared": Case(
        f"z[i, 0] = x[i, 0]; z[i, 0] = z[i, 0] * z[i, 0]; {REST} w[i] = z[i, 1];",
        lambda x, y, n: ([x[0] * x[0], *x[1:]], x[1]),
        tuple(MODES),
    ),
    "by_methods": Case(
        f"z.store(uint2(i, 0), x[i, 0]); double u = z.load(uint2(i, 0)); z.store(uint2(i, 0), u * u * x[i, 1]); {REST}"
        "w.storeOnce(i, sin(u));",
        lambda x, y, n: ([x[0] * x[0] * x[1], *x[1:]], x[0].sin()),
    ),
    # w is made of what is linear in z: the value of z is read once that of w is kept.
    "each_of_the_other": Case(
        f"z[i, 0] = x[i, 0]; {REST} w[i] = 3 * z[i, 0]; z[i, 1] = sin(w[i]); w[i] = w[i] * w[i];",
        lambda x, y, n: ([x[0], (3 * x[0]).sin(), x[2]], 9 * x[0] * x[0]),
        ("", "_r"),
    ),
    "repeated": Case(
        "z[i, 0] = x[i, 0]; z[i, 0] = z[i, 0] * z[i, 0]; z[i, 0] = sin(z[i, 0]) * x[i, 1];"
        "w[i] = 3 * z[i, 0] * z[i, 0];"
        f"z[i, 0] = z[i, 0] * z[i, 0] + exp(z[i, 0]); {REST}",
        repeated,
    ),
    "summed": Case(
        "z[i, 0] = x[i, 0]; [MaxIters(4)] for (int j = 0; j < n[i]; ++j)"
        " z[i, 0] = z[i, 0] + sin(y[j]) * x[i, 1] + y[j] * z[i, 0] * z[i, 0];"
        f"z[i, 0] = z[i, 0] * z[i, 0]; w[i] = z[i, 0]; w[i] = sin(w[i] * x[i, 0]); {REST}",
        summed,
        ("", "_r"),
    ),
    "carried": Case(
        "z[i, 0] = x[i, 0]; [MaxIters(8)] for (uint c = 1; c < x.size(1); ++c) z[i, c] = sin(z[i, c - 1]) * x[i, c];"
        "w[i] = z[i, 1]; w[i] = w[i] * w[i]; z[i, 2] = z[i, 2] * z[i, 0];",
        carried,
        ("", "_asr"),
    ),
    "chosen": Case(
        f"{REST} w[i] = x[i, 0] * x[i, 1];"
        "if (x[i, 0] > 0) z[i, 0] = w[i] * w[i]; else z[i, 0] = sin(w[i]) * y[0];"
        "if (n[i] > 1) { double u = z[i, 0]; z[i, 0] = exp(u * w[i]); } w[i] = w[i] * z[i, 0];",
        chosen,
    ),
}
NAMES = [name + mode for name, case in CASES.items() for mode in case.modes]


def kernel_text(name: str, body: str, mode: str = "") -> str:
    view, rest = MODES[mode]
    text = KERNEL.replace("NAME", name).replace("VIEW", view).replace(" REST", rest)
    return text.replace("BODY", body)


@functools.cache
def module() -> torch_slang.Module:
    source = HEAD + "".join(
        kernel_text(name + mode, case.body, mode) for name, case in CASES.items() for mode in case.modes
    )
    injected = "w[i] = x[i, 0]; z[i, 0] = sin(pinned(w[i])) * x[i, 0]; w[i] = 0;" + REST
    return torch_slang.load(
        source=source + kernel_text("injected", injected), name="read_back.slang", namespace="read_back"
    )


def by_rows(case: Case) -> Callable[..., tuple[Tensor, Tensor]]:
    def reference(x: Tensor, y: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
        rows = [case.rows(x[i], y, int(n[i])) for i in range(len(x))]
        return torch.stack([torch.stack(list(z)) for z, _ in rows]), torch.stack([w for _, w in rows])

    return reference


def arguments(device: torch.device, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    rows = int(torch.randint(2, 6, (1,), generator=generator))
    x = torch.rand(rows, 3, dtype=torch.float64, generator=generator) * 2 - 1
    y = torch.rand(4, dtype=torch.float64, generator=generator) - 0.5
    n = torch.randint(0, 5, (rows,), dtype=torch.int32, generator=generator)
    return x.to(device).requires_grad_(), y.to(device).requires_grad_(), n.to(device)


def derivatives(op: Callable[..., tuple[Tensor, ...]], args: tuple[Tensor, Tensor, Tensor]) -> list[Tensor]:
    """Results, gradients, gradients of those, and tangents, with fixed weights."""

    def weights(t: Tensor) -> Tensor:
        return torch.linspace(-1, 2, t.numel(), dtype=t.dtype, device=t.device).view(t.shape)

    def weighted(tensors: tuple[Tensor, ...]) -> Tensor:
        return torch.stack([(t * (weights(t) + k)).sum() for k, t in enumerate(tensors)]).sum()

    x, y, n = args
    results = op(x, y, n)
    first = torch.autograd.grad(weighted(results), (x, y), create_graph=True, materialize_grads=True)
    second = torch.autograd.grad(weighted(first), (x, y), materialize_grads=True)
    inputs = (x.detach(), y.detach())
    tangents = torch.func.jvp(lambda x, y: op(x, y, n), inputs, tuple(map(weights, inputs)))[1]
    return [*(t.detach() for t in (*results, *first)), *second, *tangents]


def check_differences(op: Callable[..., tuple[Tensor, ...]], args: tuple[Tensor, Tensor, Tensor]) -> None:
    """Gradients, and those of their squares, along one direction: gradcheck would want kernels for more masks."""
    x, y, n = args
    along = (torch.cos(7 * x.detach()), torch.sin(5 * y.detach()))

    def differentiated(step: float) -> list[Tensor]:
        inputs = [(t.detach() + step * d).requires_grad_() for t, d in zip((x, y), along, strict=True)]
        value = torch.stack([t.square().sum() for t in op(*inputs, n)]).sum()
        first = torch.autograd.grad(value, inputs, create_graph=True, materialize_grads=True)
        square = torch.stack([g.square().sum() for g in first]).sum()
        return (
            [value, square]
            if step
            else [
                torch.stack([(g * d).sum() for g, d in zip(grads, along, strict=True)]).sum()
                for grads in (first, torch.autograd.grad(square, inputs, materialize_grads=True))
            ]
        )

    step = 1e-5
    before, after = differentiated(-step), differentiated(step)
    for low, high, slope in zip(before, after, differentiated(0), strict=True):
        torch.testing.assert_close((high - low) / (2 * step), slope, rtol=1e-6, atol=1e-7)


@dear_test
@some_cases(1)
@pytest.mark.parametrize("name", NAMES)
def test_derivatives_are_those_of_plain_torch_and_of_finite_differences(name: str, device: torch.device) -> None:
    op, reference = getattr(module(), name), by_rows(CASES[name.removesuffix("_asr").removesuffix("_r")])
    for seed in range(2):
        args = arguments(device, seed)
        torch.testing.assert_close(derivatives(op, args), derivatives(reference, args), rtol=1e-9, atol=1e-10)
    check_differences(op, args)


@dear_test
def test_outputs_made_of_each_other_have_right_gradients(device: torch.device) -> None:
    """Without the second derivatives, whose compilation takes most of the time."""
    args = arguments(device)
    for result in range(2):
        got, expected = (
            torch.autograd.grad(op(*args)[result].square().sum(), args[0])
            for op in (module().each_of_the_other, by_rows(CASES["each_of_the_other"]))
        )
        torch.testing.assert_close(got, expected)


@dear_test
def test_a_gradient_reaches_a_value_that_nothing_reads(device: torch.device) -> None:
    """`pinned` is 2 whatever it gets, and has the gradient of its argument: that of w has memory all the same."""

    class Pinned(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, v: Tensor) -> Tensor:
            return torch.full_like(v, 2)

        @staticmethod
        def backward(ctx: object, g: Tensor) -> Tensor:
            return g

    args = arguments(device)
    x = args[0]
    z = Pinned.apply(x[:, 0]).sin() * x[:, 0]
    (first,) = torch.autograd.grad(z.sum(), x, create_graph=True)
    expected = torch.autograd.grad(first.sum(), x)[0]
    (first,) = torch.autograd.grad(module().injected(*args)[0][:, 0].sum(), x, create_graph=True)
    torch.testing.assert_close(torch.autograd.grad(first.sum(), x)[0], expected)
