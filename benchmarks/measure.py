"""Clocks: medians over repetitions, on the host and on the device."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TypeVar

import torch

from benchmarks.report import print_table

__all__ = [
    "device",
    "host_medians",
    "host_microseconds",
    "milliseconds",
    "print_table",
    "samples",
    "shuffled",
    "synchronize",
]

Call = Callable[[], object]
Name = TypeVar("Name", bound=Hashable)
Value = TypeVar("Value")


def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def host_microseconds(call: Call, calls: int = 1000, rounds: int = 7) -> float:
    """What one call costs the calling thread, the device keeping up or not."""
    return host_medians({"": call}, calls, rounds)[""]


def host_medians(functions: Mapping[Name, Call], calls: int, rounds: int = 7) -> dict[Name, float]:
    """The same for several, whose rounds take turns."""
    taken: dict[Name, list[float]] = {name: [] for name in functions}
    for i in range(rounds + 1):
        for name, call in functions.items():
            synchronize()
            begin = time.perf_counter()
            for _ in range(calls):
                call()
            if i > 0:  # the first warms up
                taken[name].append((time.perf_counter() - begin) / calls * 1e6)
    synchronize()
    return {name: statistics.median(times) for name, times in taken.items()}


def milliseconds(call: Call, rounds: int = 20) -> float:
    """What one call takes, by device events on a GPU and by the clock on a CPU."""
    return statistics.median(samples({"": call}, device(), rounds)[""])


def samples(calls: Mapping[Name, Call], on: str, rounds: int = 20, seconds: float = 10.0) -> dict[Name, list[float]]:
    """Milliseconds of each call in each round. Rounds take turns, so that what slows the machine meets all alike, in an
    order of their own each: a call pays for what the one before left to be written from the caches.

    There are fewer rounds, but three at least, if they would take more than `seconds`.
    """
    begin = time.perf_counter()
    for call in calls.values():
        call()
    synchronize()
    rounds = max(3, min(rounds, int(seconds / (time.perf_counter() - begin))))
    for call in calls.values():
        call()
    synchronize()
    return (_by_events if on == "cuda" else _by_clock)(calls, rounds)


def shuffled(calls: Mapping[Name, Value], rounds: int) -> Iterator[list[tuple[Name, Value]]]:
    """The calls in another order for each round, the same in each run."""
    order = random.Random(1)
    for _ in range(rounds):
        turn = list(calls.items())
        order.shuffle(turn)
        yield turn


def _by_clock(calls: Mapping[Name, Call], rounds: int) -> dict[Name, list[float]]:
    taken: dict[Name, list[float]] = {name: [] for name in calls}
    for turn in shuffled(calls, rounds):
        for name, call in turn:
            begin = time.perf_counter()
            call()
            taken[name].append((time.perf_counter() - begin) * 1e3)
    return taken


def _by_events(calls: Mapping[Name, Call], rounds: int) -> dict[Name, list[float]]:
    events: dict[Name, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {name: [] for name in calls}
    for turn in shuffled(calls, rounds):
        for name, call in turn:
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            call()
            end.record()
            events[name].append((begin, end))
    synchronize()
    return {name: [begin.elapsed_time(end) for begin, end in pairs] for name, pairs in events.items()}
