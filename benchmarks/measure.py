"""Clocks: medians over repetitions, on the host and on the device."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch


def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def host_microseconds(call: Callable[[], object], calls: int = 1000, rounds: int = 7) -> float:
    """What one call costs the calling thread, the device keeping up or not."""
    for _ in range(calls // 5):
        call()
    synchronize()
    results = []
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        results.append((time.perf_counter() - begin) / calls * 1e6)
        synchronize()
    return statistics.median(results)


def milliseconds(call: Callable[[], object], rounds: int = 20) -> float:
    """What one call takes, by device events on a GPU and by the clock on a CPU."""
    for _ in range(3):
        call()
    synchronize()
    if not torch.cuda.is_available():
        results = []
        for _ in range(rounds):
            begin = time.perf_counter()
            call()
            results.append((time.perf_counter() - begin) * 1e3)
        return statistics.median(results)
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(rounds)]
    for begin_event, end_event in events:
        begin_event.record()
        call()
        end_event.record()
    synchronize()
    return statistics.median(begin_event.elapsed_time(end_event) for begin_event, end_event in events)


def print_table(title: str, header: list[str], rows: list[list[object]]) -> None:
    shown = [header, *[[f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]]
    widths = [max(len(row[i]) for row in shown) for i in range(len(header))]
    print(f"\n{title}")
    for row in shown:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
