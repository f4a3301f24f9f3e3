"""`pytest --costs 40`: the tests that take most of the processor's time, with the compilers that they start.

The clock says little on a machine that does other things as well.
"""

from __future__ import annotations

import resource
from collections.abc import Generator, Iterable
from typing import Any, NamedTuple

import pytest

_PROPERTY = "costs"  # of a test's reports, so that it travels from the workers of pytest-xdist


class Cost(NamedTuple):
    own: float  # seconds of this process
    children: float  # seconds of compilers and other programs that have ended
    slang_runs: int
    host_runs: int
    nvrtc_runs: int

    def __sub__(self, other: Cost) -> Cost:
        return Cost(*(a - b for a, b in zip(self, other, strict=True)))

    @property
    def seconds(self) -> float:
        return self.own + self.children


def until_now() -> Cost:
    import torch_slang  # not before the folder of its cache is known

    def seconds(who: int) -> float:
        usage = resource.getrusage(who)
        return usage.ru_utime + usage.ru_stime

    counts = torch_slang.cache.stats()
    return Cost(
        seconds(resource.RUSAGE_SELF),
        seconds(resource.RUSAGE_CHILDREN),
        *(counts[f"{compiler}_runs"] for compiler in ("slang", "host", "nvrtc")),
    )


class Costs:
    """The plugin that `--costs` registers."""

    def __init__(self, shown: int) -> None:
        self.shown = shown
        self.known: dict[str, Cost] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        before = until_now()
        try:
            return (yield)
        finally:
            item.user_properties.append((_PROPERTY, tuple(until_now() - before)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, values in report.user_properties:
            if name == _PROPERTY and report.when == "call":
                self.known[report.nodeid] = Cost(*values)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.section(f"dearest {self.shown} of {len(self.known)} tests")
        for line in table(self.known, self.shown):
            terminalreporter.write_line(line)


def table(known: dict[str, Cost], shown: int) -> Iterable[str]:
    yield "    own compilers  slang host nvrtc"
    dearest = sorted(known.items(), key=lambda item: -item[1].seconds)[:shown]
    total = Cost(*(sum(column) for column in zip(*known.values(), strict=True)))
    for name, cost in [*dearest, ("all", total)]:
        own, compilers, *runs = cost
        slang, host, nvrtc = (int(count) for count in runs)
        yield f"{own:7.1f} {compilers:9.1f}  {slang:5} {host:4} {nvrtc:5}  {name}"
