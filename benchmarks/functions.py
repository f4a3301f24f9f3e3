"""Plain functions beside eager PyTorch and torch.compile of the same formula, and what a call costs the host.

`limit` is the time that a copy takes for the bytes that must move: the forward reads the inputs and writes the results,
the backward reads the inputs and the results' gradients and writes those of inputs.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import torch_slang
from benchmarks.machine import copied
from benchmarks.measure import device, host_microseconds, print_table, samples

SOURCE = """
#define REAL T : __BuiltinFloatingPointType

[Differentiable] T square<REAL>(T x) { return x * x; }
[Differentiable] T polynomial<REAL>(T a, T b, T c, T x) { return a * x * x + b * x + c; }
[Differentiable] T outer<REAL>(T x, T y) { return exp(-x * x) * y; }
[Differentiable] T biased<REAL>(T x, T bias) { return (x + bias) * (x + bias); }
[Differentiable] float3 ray(float3 origin, float3 direction, float t) { return origin + t * direction; }

// Some forty operations.
[Differentiable]
float3 glint(float3 view, float3 normal, float3 tint)
{
    float3 n = normalize(normal);
    float3 mirrored = reflect(view, n);
    return sin(mirrored) * tint * exp(-dot(n, tint)) + mirrored;
}
"""


def glint(view: Tensor, normal: Tensor, tint: Tensor) -> Tensor:
    n = torch.nn.functional.normalize(normal, dim=-1)
    mirrored = view - 2 * (view * n).sum(-1, keepdim=True) * n
    return mirrored.sin() * tint * (-(n * tint).sum(-1, keepdim=True)).exp() + mirrored


FORMULAS: dict[str, Callable[..., Tensor]] = {
    "polynomial": lambda a, b, c, x: a * x * x + b * x + c,
    "ray": lambda origin, direction, t: origin + t[:, None] * direction,
    "glint": glint,
    "outer": lambda x, y: (-x * x).exp() * y,
    "biased": lambda x, bias: (x + bias) * (x + bias),
}


@dataclass(frozen=True)
class Task:
    """`wanted`: the arguments that get gradients; without any, the forward alone is measured."""

    title: str
    function: str
    arguments: Sequence[Any]
    wanted: Sequence[int] = ()

    def leaves(self) -> list[Any]:
        return [
            value.detach().requires_grad_(i in self.wanted) if isinstance(value, Tensor) else value
            for i, value in enumerate(self.arguments)
        ]

    def bytes(self, result: Tensor) -> int:
        sizes = [value.nbytes if isinstance(value, Tensor) else 0 for value in self.arguments]
        forward = sum(sizes) + result.nbytes
        return 2 * forward + sum(sizes[i] for i in self.wanted) if self.wanted else forward


def step(function: Callable[..., Tensor], values: list[Any], grad: Tensor) -> Callable[[], list[Tensor]]:
    """What is timed: a call, and the gradients of what requires grad. It returns all of them."""
    inputs = [value for value in values if isinstance(value, Tensor) and value.requires_grad]

    def run() -> list[Tensor]:
        result = function(*values)
        return [result, *torch.autograd.grad(result, inputs, grad)] if inputs else [result]

    return run


def measure(task: Task, function: Callable[..., Tensor], quick: bool) -> tuple[list[Any], list[dict[str, Any]]]:
    """A row of the table, and how wrong each result was."""
    formula = FORMULAS[task.function]
    values = task.leaves()
    expected = formula(*values)
    grad = torch.randn_like(expected) / 8  # sums of them stay within half's range
    runs = {"torch_slang": step(function, values, grad), "eager": step(formula, values, grad)}
    if not quick:
        torch.compiler.reset()
        runs["torch.compile"] = step(torch.compile(formula, dynamic=False), values, grad)
    right = runs["eager"]()
    tolerance = 2e-3 if expected.dtype == torch.float16 else 1e-4
    checks = []
    for name in runs.keys() - {"eager"}:
        worst = 0.0
        for one, other in zip(runs[name](), right, strict=True):
            summed = max(1, expected.numel() // other.numel())  # terms of each sum
            allowed = tolerance * (10 * other.abs() + summed**0.5)
            worst = max(worst, float(((one - other).abs() / allowed).max().detach()))
            torch.testing.assert_close(one, other, rtol=10 * tolerance, atol=tolerance * summed**0.5)
        checks.append({"row": task.title, "run": name, "error": worst})
    moved = task.bytes(expected)
    del right, one, other
    taken = samples(runs, device(), 5 if quick else 20)
    times: list[Any] = [statistics.median(taken[name]) for name in runs]
    limit = moved / copied(moved)
    return [
        task.title,
        *times,
        *[None] * (3 - len(times)),
        limit,
        times[0] / min(times[1:]),
        moved / times[0] / 1e9,
    ], checks


def tasks(quick: bool) -> list[Task]:
    random = functools.partial(torch.randn, device=device())
    gpu = device() == "cuda"
    count = 1 << (20 if quick else 27 if gpu else 24)
    vectors = 1 << (18 if quick else 24 if gpu else 22)
    rows = 1 << (10 if quick else 13 if gpu else 12)
    x, numbers = random(count), [random(()) for _ in range(3)]
    narrow = [value.half() for value in (*numbers, x)]
    view, normal, tint, distance = random(vectors, 3), random(vectors, 3), random(3), random(vectors)
    table, column, row = random(rows, rows), random(rows, 1), random(1, rows)
    both = "forward+backward"
    return [
        Task(f"a x x + b x + c, {count}, forward", "polynomial", [2.0, 8.0, -1.0, x]),
        Task(f"{both} of x", "polynomial", [2.0, 8.0, -1.0, x], [3]),
        Task(f"{both} of a, b, c, x", "polynomial", [*numbers, x], range(4)),
        Task("in half: forward", "polynomial", narrow),
        Task(f"in half: {both} of x", "polynomial", narrow, [3]),
        Task(f"in half: {both} of a, b, c, x", "polynomial", narrow, range(4)),
        Task(f"float3 glint, {vectors}, forward", "glint", [view, normal, tint]),
        Task(f"{both} of all", "glint", [view, normal, tint], range(3)),
        Task(f"float3 o + t d, {vectors}, forward", "ray", [view, normal, distance]),
        Task(f"{both} of all", "ray", [view, normal, distance], range(3)),
        Task(f"[{rows}, 1] with [1, {rows}], forward", "outer", [column, row]),
        Task(f"{both} of both", "outer", [column, row], range(2)),
        Task(f"[{rows}, {rows}] with [{rows}], forward", "biased", [table, row[0]]),
        Task(f"{both} of both", "biased", [table, row[0]], range(2)),
    ]


def host_cost(module: torch_slang.Module, quick: bool) -> None:
    x = torch.randn(32, device=device())
    leaf = x.clone().requires_grad_()
    grad = torch.ones_like(x)
    a, b, c = (torch.tensor(value, device=device()) for value in (2.0, 8.0, -1.0))
    functions: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
        "eager x * x": (lambda x: x * x, lambda x: 2 * x),
        "operator square(x)": (module.square.op, lambda x: 2 * x),
        "module.square(x)": (module.square, lambda x: 2 * x),
        "operator polynomial(a, b, c, x)": (
            functools.partial(module.polynomial.op, a, b, c),
            lambda x: 4 * x + 8,
        ),
        "module.polynomial(2, 8, -1, x)": (functools.partial(module.polynomial, 2, 8, -1), lambda x: 4 * x + 8),
    }
    calls = 100 if quick else 1000
    rows: list[list[object]] = []
    for name, (function, derivative) in functions.items():
        run = step(function, [leaf], grad)
        torch.testing.assert_close(run()[1], derivative(x))
        rows.append(
            [name, host_microseconds(functools.partial(function, x), calls), host_microseconds(run, calls // 4)]
        )
    eager: Any = rows[0]
    rows = [[*row, row[1] / eager[1], row[2] / eager[2]] for row in rows]  # type: ignore[operator]
    chart = ["forward", "forward+backward"]
    header = ["", "forward", "forward+backward", "forward / eager", "both / eager"]
    print_table(f"functions: host cost on {device()}, 32 floats, us", header, rows, chart=chart, unit="us")


def main(quick: bool) -> None:
    module = torch_slang.load(source=SOURCE, name="functions_benchmark.slang", namespace="functions_benchmark")
    measured = [measure(task, getattr(module, task.function), quick) for task in tasks(quick)]
    print_table(
        f"functions on {device()}, ms",
        ["", "torch_slang", "eager", "torch.compile", "limit", "ours / best rival", "TB/s"],
        [row for row, _ in measured],
        notes=["limit: the time of a copy of as many bytes in the same run"],
        chart=["torch_slang", "eager", "torch.compile", "limit"],
        unit="ms",
        checks=[check for _, checks in measured for check in checks],
    )
    host_cost(module, quick)
