"""Clocks for what may take microseconds: many calls at once, which a GPU replays from a captured graph, without a host.

*Burst*: milliseconds of work after a rest, at the highest clock; the median of several, in turn with the rivals.
*Steady*: half a second and more of each back to back, without a rest between them, at the limit of the device's power.
"""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from benchmarks.measure import device, shuffled, synchronize

Call = Callable[[], object]
Name = TypeVar("Name", bound=Hashable)
MOST = 200  # calls of a graph


@dataclass(frozen=True)
class Pace:
    """In milliseconds: `rounds` bursts of `work` each, after a `rest`; `segment` is what each gets at once when
    steady, where they take turns as in A B B A, `turns` times. After so many `seconds` a benchmark hurries."""

    rounds: int = 10
    work: float = 1.0
    rest: float = 20.0
    segment: float = 500.0
    turns: int = 1
    seconds: float = 45.0


QUICK = Pace(rounds=3, work=0.1, rest=0.0, segment=0.5)


@contextlib.contextmanager
def own_stream() -> Iterator[None]:
    """A stream that can be captured, unlike the usual one. A backward runs where its forward did: both are inside."""
    if device() == "cpu":
        yield
        return
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        yield
    torch.cuda.synchronize()


class Repeated:
    """`count` calls at once. `milliseconds` is about what one takes, the host's part of it included."""

    def __init__(self, call: Call, pace: Pace) -> None:
        self._call = call  # has what the graph reads
        for _ in range(2):
            call()
        self.milliseconds = self._estimate()
        self.count = max(1, min(MOST, round(pace.work / self.milliseconds)))
        self._graph = self._captured() if device() == "cuda" else None

    def run(self) -> None:
        if self._graph:
            self._graph.replay()
        else:
            self._loop(self.count)

    def _loop(self, count: int) -> None:
        for _ in range(count):
            self._call()

    def _estimate(self) -> float:
        synchronize()
        begin = mark()
        self._loop(5)
        end = mark()
        synchronize()
        return max(1e-6, between(begin, end) / 5)

    def _captured(self) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
            self._loop(self.count)
        return graph


def burst(calls: Mapping[Name, Repeated], pace: Pace) -> dict[Name, float]:
    """Milliseconds of one call of each."""
    taken: dict[Name, list[float]] = {name: [] for name in calls}
    for turn in shuffled(calls, pace.rounds):
        for name, repeated in turn:
            time.sleep(pace.rest / 1e3)
            if device() == "cuda":
                repeated.run()  # not timed: what follows is queued meanwhile, and need not wait for the host
            begin = mark()
            repeated.run()
            end = mark()
            synchronize()
            taken[name].append(between(begin, end) / repeated.count)
    return {name: statistics.median(times) for name, times in taken.items()}


def steady(calls: Mapping[Name, Repeated], pace: Pace) -> dict[Name, float]:
    """Milliseconds of one call of each."""
    taken = dict.fromkeys(calls, 0.0)
    done = dict.fromkeys(calls, 0)
    marks = []
    _segment(next(iter(calls.values())), pace.segment / 3)  # not timed: brings the device to its limit
    for name in [*calls, *reversed(list(calls))] * pace.turns:
        begin = mark()
        done[name] += _segment(calls[name], pace.segment)
        marks.append((name, begin, mark()))
    synchronize()
    for name, begin, end in marks:
        taken[name] += between(begin, end)
    return {name: taken[name] / done[name] for name in calls}


def _segment(repeated: Repeated, milliseconds: float) -> int:
    """Queues about so many milliseconds of work, and says how many calls they are."""
    replays = max(1, math.ceil(milliseconds / (repeated.count * repeated.milliseconds)))
    for _ in range(replays):
        repeated.run()
    return replays * repeated.count


def mark() -> Any:
    """A point in time: of the device on a GPU, of the clock on a CPU."""
    if device() == "cpu":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def between(begin: Any, end: Any) -> float:
    """Milliseconds."""
    return float((end - begin) * 1e3 if isinstance(begin, float) else begin.elapsed_time(end))
