"""An operator beside its rivals: all results checked, then all timed in turns, then one table of times and ratios."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from benchmarks.machine import copied, operations
from benchmarks.measure import device, print_table, samples
from benchmarks.report import Cell, problem

Results = Tensor | Sequence[Tensor]
Runnable = Callable[[], Results]
OURS = "torch_slang"
ROUNDS = 40

RELATIVE = {torch.float64: 1e-9, torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


@dataclass(frozen=True)
class Task:
    """A row. `runs` begins with ours; a rival that is a mapping is the fastest of its variants.

    `bytes` is the least that must be moved, `operations` the arithmetic. `expected` gives the results in float64, and
    `terms` how many numbers each element of each result is a sum of, which says how exact it can be.
    """

    title: str
    runs: Mapping[str, Runnable | Mapping[str, Runnable]]
    expected: Callable[[], Results]
    bytes: int
    operations: int
    dtype: torch.dtype = torch.float32
    terms: Sequence[int] = ()
    on: str = field(default_factory=device)


@dataclass
class Row:
    """Medians in milliseconds, of ours, of each rival, and of a copy of as many bytes."""

    task: Task
    times: dict[str, float]
    copy: float
    limit: float
    checks: list[dict[str, Any]]


class WrongValues(AssertionError):
    pass


def compare(title: str, tasks: Iterable[Task], quick: bool, notes: Sequence[str] = ()) -> list[Row]:
    """The table of these tasks. A result that is wrong or fails is left out, and is a problem of the run."""
    rows = []
    for task in tasks:
        if not quick:
            torch.compiler.reset()  # formulas of one function for several types are not recompilations
        if row := measure(task, quick):
            rows.append(row)
    if rows:
        _print(title, rows, quick, notes)
    return rows


def measure(task: Task, quick: bool) -> Row | None:
    expected = listed(task.expected())
    checks: list[dict[str, Any]] = []
    calls: dict[str, Runnable] = {}
    for name, run in task.runs.items():
        right = {}
        for variant, call in (run if isinstance(run, Mapping) else {"": run}).items():
            label = f"{name} {variant}".strip()
            try:
                wrong = error(task, listed(call()), expected)
            except Exception as reason:  # a rival's compiler may raise anything
                problem(f"{task.title}: {label}: {type(reason).__name__}: {str(reason).strip()[:300]}")
                continue
            checks.append({"row": task.title, "run": label, "error": wrong})
            right[label] = call
        if right:
            calls[name] = _fastest(right, task.on)
    del expected
    return _row(task, calls, checks, quick) if OURS in calls else None


def error(task: Task, results: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """The largest difference from what is expected, in units of what is allowed; more than 1 raises."""
    if len(results) != len(expected):
        raise WrongValues(f"expected {len(expected)} results, but got {len(results)}")
    worst = 0.0
    for i, (result, right) in enumerate(zip(results, expected, strict=True)):
        if result.shape != right.shape or result.dtype != task.dtype:
            raise WrongValues(f"result {i}: expected {task.dtype} {right.shape}, got {result.dtype} {result.shape}")
        terms = task.terms[i] if task.terms else 1
        allowed = RELATIVE[task.dtype] * (right.abs() + terms**0.75)
        difference = float(((result.double() - right).abs() / allowed).max())
        if not difference <= 1:  # NaN is wrong too
            raise WrongValues(f"result {i}: wrong by {difference:.3g} times what is allowed")
        worst = max(worst, difference)
    return worst


def listed(results: Results) -> list[Tensor]:
    return [results] if isinstance(results, Tensor) else [result for result in results if result is not None]


def _fastest(calls: dict[str, Runnable], on: str) -> Runnable:
    if len(calls) == 1:
        return next(iter(calls.values()))
    taken = samples(calls, on, rounds=5)
    return calls[min(calls, key=lambda label: statistics.median(taken[label]))]


def _row(task: Task, calls: Mapping[str, Runnable], checks: list[dict[str, Any]], quick: bool) -> Row:
    source = torch.ones(max(1, task.bytes // 8), device=task.on)
    target = torch.empty_like(source)
    taken = samples({**calls, "copy": lambda: target.copy_(source)}, task.on, 5 if quick else ROUNDS)
    times = {name: statistics.median(measured) for name, measured in taken.items()}
    copy = times.pop("copy")
    limit = max(copy, task.operations / operations(torch.float32, task.on, quick))
    return Row(task, times, copy, limit, checks)


def _print(title: str, rows: Sequence[Row], quick: bool, notes: Sequence[str]) -> None:
    on = rows[0].task.on
    names = list(dict.fromkeys(name for row in rows for name in row.times))
    rivals = [name for name in names if name != OURS]
    header = ["", *names, "limit", "TB/s", "TFLOP/s", "limit / ours", *(f"{name} / ours" for name in rivals)]
    cells: list[list[Cell]] = []
    for row in rows:
        ours = row.times[OURS]
        rates: list[Cell] = [row.task.bytes / ours / 1e9, row.task.operations / ours / 1e9, row.limit / ours]
        ratios = [row.times[name] / ours if name in row.times else None for name in rivals]
        cells.append([row.task.title, *(row.times.get(name) for name in names), row.limit, *rates, *ratios])
    largest = max(row.task.bytes for row in rows)
    means = (
        f"limit: a copy of as many bytes in this run ({copied(largest, on) / 1e9:.3g} TB/s for the largest row), or "
        f"{operations(torch.float32, on, quick) / 1e9:.3g} TFLOP/s of a matrix product; ratios above 1: ours is faster"
    )
    print_table(
        f"{title}, on {on}, ms",
        header,
        cells,
        notes=[means, *notes],
        chart=[*names, "limit"],
        unit="ms",
        checks=[check for row in rows for check in row.checks],
    )
