"""Forward mode and double backward beside eager PyTorch's of the same formula, and beside a copy of as many bytes.

Of the double backward the second call of autograd alone is timed: from the gradients, which are there, to the gradients
of their product with given directions by the inputs and by the result's gradient. torch.compile has none, so it stands
beside forward mode only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import torch_slang
from benchmarks import trilinear
from benchmarks.comparison import OURS, Task, compare
from benchmarks.functions import FORMULAS, SOURCE
from benchmarks.measure import device

Function = Callable[..., Tensor]
Run = Callable[[], list[Tensor]]


@dataclass(frozen=True)
class Subject:
    """A function by us and by torch, and the places of the arguments that are differentiated.

    `operations` are those of an element of the result, in forward mode and in the double backward; `terms` say how many
    numbers each second derivative is a sum of.
    """

    title: str
    ours: Function
    formula: Function
    arguments: Sequence[Any]
    wanted: Sequence[int]
    operations: tuple[int, int]
    terms: Sequence[int]


def cast(value: Any, dtype: torch.dtype) -> Any:
    return value.detach().to(dtype) if isinstance(value, Tensor) else value


def jvp(function: Function, subject: Subject, directions: Sequence[Tensor], dtype: torch.dtype) -> Run:
    """The result, and its tangent."""
    arguments = [cast(value, dtype) for value in subject.arguments]
    tangents = tuple(cast(direction, dtype) for direction in directions)

    def of_wanted(*values: Tensor) -> Tensor:
        given = list(arguments)
        for place, value in zip(subject.wanted, values, strict=True):
            given[place] = value
        return function(*given)

    primals = tuple(arguments[i] for i in subject.wanted)
    return lambda: list(torch.func.jvp(of_wanted, primals, tangents))


def double_backward(
    function: Function, subject: Subject, directions: Sequence[Tensor], grad: Tensor, dtype: torch.dtype
) -> Run:
    """The gradients by the wanted arguments and by the result's gradient. Makes the graph; the run goes through it."""
    arguments = [cast(value, dtype) for value in subject.arguments]
    leaves = [arguments[i].requires_grad_() for i in subject.wanted]
    grad = cast(grad, dtype).requires_grad_()
    gradients = torch.autograd.grad(function(*arguments), leaves, grad, create_graph=True)
    weights = [cast(direction, dtype) for direction in directions]
    return lambda: list(
        torch.autograd.grad(gradients, [*leaves, grad], weights, retain_graph=True, materialize_grads=True)
    )


def size(tensors: Sequence[Any]) -> int:
    return sum(value.nbytes for value in tensors if isinstance(value, Tensor))


def tasks(subject: Subject, quick: bool) -> list[Task]:
    wanted = [subject.arguments[i] for i in subject.wanted]
    directions = [torch.randn_like(value) for value in wanted]
    result = subject.ours(*subject.arguments)
    grad = torch.randn_like(result)
    given = size(subject.arguments) + size(directions)
    wide = torch.float64

    forward_runs: dict[str, Any] = {
        OURS: jvp(subject.ours, subject, directions, grad.dtype),
        "eager": jvp(subject.formula, subject, directions, grad.dtype),
    }
    if not quick:
        forward_runs["torch.compile"] = torch.compile(forward_runs["eager"], dynamic=False, fullgraph=True)
    make = functools.partial(double_backward, subject=subject, directions=directions, grad=grad)
    forward, backward = (count * grad.numel() for count in subject.operations)
    return [
        Task(
            f"{subject.title}, jvp",
            forward_runs,
            jvp(subject.formula, subject, directions, wide),
            given + 2 * grad.nbytes,
            forward,
            grad.dtype,
            [8, 16],
        ),
        Task(
            f"{subject.title}, double backward",
            {OURS: make(subject.ours, dtype=grad.dtype), "eager": make(subject.formula, dtype=grad.dtype)},
            lambda: make(subject.formula, dtype=wide)(),  # noqa: PLW0108  (its graph is not kept)
            given + size(wanted) + 2 * grad.nbytes,
            backward,
            grad.dtype,
            [*subject.terms, 8],
        ),
    ]


def main(quick: bool) -> None:
    module = torch_slang.load(source=SOURCE, name="second_derivatives", namespace="second_derivatives_benchmark")
    random = functools.partial(torch.randn, device=device())
    gpu = device() == "cuda"
    count, vectors = (1 << 12, 1 << 10) if quick else (1 << 26, 1 << 23) if gpu else (1 << 22, 1 << 20)
    rows, features = (64, 40) if quick else (65536 if gpu else 4096, 128)
    x, numbers = random(count), [random(()) for _ in range(3)]
    polynomial, glint = module.polynomial, module.glint
    # Not near zero: there second derivatives of a direction have no limit, and no correct digits in float32.
    normals = torch.nn.functional.normalize(random(vectors, 3), dim=-1) * (1 + torch.rand(vectors, 1, device=device()))
    # A colour: the formula has exp of a tint's length, so of longer ones few digits stay.
    tint = torch.rand(3, device=device())
    feats, points, _ = trilinear.inputs(rows, features, torch.float32)
    subjects = [
        Subject("a x x + b x + c, of x", polynomial, FORMULAS["polynomial"], [2.0, 8.0, -1.0, x], [3], (8, 12), [8]),
        Subject(
            "a x x + b x + c, of all", polynomial, FORMULAS["polynomial"], [*numbers, x], range(4), (14, 30),
            [count, count, count, 8],
        ),
        Subject(
            "float3 glint, of all", glint, FORMULAS["glint"], [random(vectors, 3), normals, tint],
            range(3), (60, 200), [16, 128, vectors],
        ),
        Subject(
            "trilinear, of both", torch.ops.slang.trilinear, trilinear.formula, [feats, points], range(2), (60, 150),
            [8, 8 * features],
        ),
    ]  # fmt: skip
    for subject in subjects:
        compare(f"second derivatives: {subject.title}", tasks(subject, quick), quick)
