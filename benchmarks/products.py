"""Matrix products beside their rivals: values checked, then timed in bursts and at a steady pace, tables of both."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from benchmarks.comparison import OURS, Results, Runnable, WrongValues, listed
from benchmarks.measure import device, print_table
from benchmarks.repeats import Pace, Repeated, burst, steady
from benchmarks.report import Cell, problem

# What may be wrong, as a part of the element and of the root mean square of all.
ALLOWED = {torch.float64: 1e-13, torch.float32: 4e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
ALLOWED_TF32 = 8e-3
SHORT = {torch.float64: "fp64", torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}


def blas() -> str:
    """The name of what PyTorch's own products are made by."""
    return "cuBLAS" if device() == "cuda" else "torch.mm"


@dataclass(frozen=True)
class Product:
    """A row. `runs` begins with ours, `beside` is timed with them, though it gives something else, and `steady` names
    those that are also timed at a steady pace."""

    title: str
    runs: Mapping[str, Runnable]
    expected: Callable[[], Results]
    operations: int
    dtype: torch.dtype
    allowed: float | None = None
    steady: Sequence[str] = ()
    beside: Mapping[str, Runnable] = field(default_factory=dict)


@dataclass
class Row:
    """Milliseconds of one call of each: plain data, for another process to make a table of."""

    title: str
    operations: int
    burst: dict[str, float]
    steady: dict[str, float] = field(default_factory=dict)
    checks: list[dict[str, Any]] = field(default_factory=list)
    hurried: bool = False


def measure(product: Product, pace: Pace) -> Row | None:
    """What is wrong or fails is left out, and is a problem of the run."""
    row = Row(product.title, product.operations, {})
    right = check(product, row.checks)
    if not right:
        return None
    calls: dict[str, Repeated] = {}
    for name, run in {**right, **product.beside}.items():
        try:
            calls[name] = Repeated(run, pace)
        except Exception as reason:  # a capture fails by what is not allowed in one
            _failed(product, name, reason)
    if calls:
        row.burst = burst(calls, pace)
    if chosen := {name: calls[name] for name in product.steady if name in calls}:
        row.steady = steady(chosen, pace)
    return row if calls else None


def check(product: Product, checks: list[dict[str, Any]]) -> dict[str, Runnable]:
    """Those whose results are right. This first call of each is also what compiles and tunes."""
    expected = listed(product.expected())
    right = {}
    for name, run in product.runs.items():
        try:
            wrong = error(listed(run()), expected, product.dtype, product.allowed or ALLOWED[product.dtype])
        except Exception as reason:  # a rival's compiler may raise anything
            _failed(product, name, reason)
            continue
        checks.append({"row": product.title, "run": name, "error": wrong})
        right[name] = run
    return right


def _failed(product: Product, name: str, reason: Exception) -> None:
    problem(f"{product.title}: {name}: {type(reason).__name__}: {str(reason).strip()[:300]}")


def error(results: Sequence[Tensor], expected: Sequence[Tensor], dtype: torch.dtype, allowed: float) -> float:
    """The largest difference from what is expected, in units of what is allowed; more than 1 raises."""
    if len(results) != len(expected):
        raise WrongValues(f"expected {len(expected)} results, but got {len(results)}")
    worst = 0.0
    for i, (result, right) in enumerate(zip(results, expected, strict=True)):
        if result.shape != right.shape or result.dtype != dtype:
            raise WrongValues(f"result {i}: expected {dtype} {right.shape}, got {result.dtype} {result.shape}")
        usual = right.square().mean().sqrt()
        difference = float(((result.detach().double() - right).abs() / (right.abs() + usual)).max()) / allowed
        if not difference <= 1:  # NaN is wrong too
            raise WrongValues(f"result {i}: wrong by {difference:.3g} times what is allowed")
        worst = max(worst, difference)
    return worst


def measure_all(products: Sequence[Callable[[], Product]], pace: Pace) -> list[Row]:
    """Each is made when its turn comes, and its tensors are gone before the next.

    Compilers may have taken the time: what comes after `pace.seconds` gets few bursts, and no steady pace.
    """
    begin = time.perf_counter()
    rows = []
    for make in products:
        product = make()
        hurried = time.perf_counter() - begin > pace.seconds
        if hurried:
            product = replace(product, steady=())
        if row := measure(product, replace(pace, rounds=3) if hurried else pace):
            row.hurried = hurried
            rows.append(row)
        del product
    return rows


def print_rows(
    title: str, rows: Sequence[Row], pace: Pace, *, unit: str = "ms", notes: Sequence[str] = (), ratios: bool = False
) -> None:
    """A table of bursts, and one of what was timed at a steady pace. `ratios`: these are drawn, not the times."""
    on = device()
    means = (
        f"burst: medians of {pace.rounds} turns, each about {pace.work:g} ms of calls after {pace.rest:g} ms of rest"
    )
    if hurried := sum(row.hurried for row in rows):
        means += f"; the last {hurried} rows, after {pace.seconds:g} s, had 3 turns"
    _print(f"{title}, burst, on {on}, {unit}", [(row, row.burst) for row in rows], unit, [means, *notes], ratios)
    means = f"steady: without a rest, {pace.segment:g} ms of each, in turns as A B B A; only the rows named here"
    kept = [(row, row.steady) for row in rows if row.steady]
    _print(f"{title}, steady, on {on}, {unit}", kept, unit, [means, *notes], ratios)


def _print(
    title: str, rows: Sequence[tuple[Row, dict[str, float]]], unit: str, notes: Sequence[str], ratios: bool
) -> None:
    if not rows:
        return
    names = list(dict.fromkeys(name for _, times in rows for name in times))
    names.sort(key=lambda name: name != OURS)
    rivals = [name for name in names if name != OURS]
    cells: list[list[Cell]] = []
    for row, times in rows:
        ours = times.get(OURS)
        scaled: list[Cell] = [times[name] * (1e3 if unit == "us" else 1) if name in times else None for name in names]
        faster: list[Cell] = [times[name] / ours if ours and name in times else None for name in rivals]
        cells.append([row.title, *scaled, row.operations / ours / 1e9 if ours else None, *faster])
    columns = [f"{name} / ours" for name in rivals]
    print_table(
        title,
        ["", *names, "TFLOP/s", *columns],
        cells,
        notes=[*notes, "TFLOP/s: of torch_slang; ratios above 1: ours is faster"],
        chart=columns if ratios else names,
        unit="ours is faster so many times" if ratios else unit,
        lines=[0.8, 0.95] if ratios else [],
        checks=[one for row, times in rows for one in row.checks if one["run"] in times],
    )
