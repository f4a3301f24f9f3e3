"""What `make test` leaves to `make test-long`, which sets TORCH_SLANG_LONG_TESTS=1.

Cases of a table go there whose claim others, which stay, prove too: the place that leaves them out says which.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch

SEED = "TORCH_SLANG_TEST_SEED"
EVERY_CASE = "all"  # as the seed: each case of each table, with the counts of random programs of `make test`
LONG = os.environ.get("TORCH_SLANG_LONG_TESTS") == "1"
# Of random programs: others each time in long runs. A program's name has the seed that it was drawn with.
PROGRAM_SEED = int(os.environ.get("TORCH_SLANG_SEED", int(time.time()) % 10_000_000 if LONG else 20000))
long_test = pytest.mark.skipif(not LONG, reason="make test-long runs it")


def leave_to_long_tests_on_a_cpu(device: torch.device | str) -> None:
    """For cases that only a GPU has code of its own for."""
    if not LONG and torch.device(device).type == "cpu":
        pytest.skip("make test-long runs it on a CPU")


def sampled(cases: Iterable[Any], stays: Callable[..., bool]) -> list[Any]:
    """For `parametrize`, a tuple for each case of several arguments: those that `stays` refuses are long tests."""
    rows = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*row, marks=() if stays(*row) else long_test) for row in rows]


def some_cases(count: int) -> pytest.MarkDecorator:
    """For a test whose cases prove one claim of many kernels: `make test` runs `count` of them on each device.

    The commit is the seed, so that one commit's cases are the same everywhere, and the next commit's are others.
    """
    return pytest.mark.some_cases(count)


def some_tests(count: int) -> pytest.MarkDecorator:
    """The `pytestmark` of a file of dear tests that few changes touch: `make test` runs `count` of them.

    Cases count one by one, on each device; which ones is drawn as for `some_cases`.
    """
    return pytest.mark.some_tests(count)


# For tests that take five seconds or more and that few changes touch: `make test` runs an eighth of them, drawn as for
# `some_cases`.
dear_test = pytest.mark.dear_test

# The `pytestmark` of a file whose first test, whichever it is, takes ten seconds or more, since all need one large
# module: `make test` runs an eighth of these files, drawn as for `some_cases`. What the README promises, files without
# the mark test too.
dear_file = pytest.mark.dear_file


def some_of(names: Iterable[str], count: int) -> list[str]:
    """The same for what one test loops over: `count` of the names, or all in `make test-long`."""
    every = sorted(names)
    return every if LONG else random.Random(seed_of_this_commit()).sample(every, min(count, len(every)))


def seed_of_this_commit() -> str:
    """$TORCH_SLANG_TEST_SEED ("all": nothing is drawn), else the commit; "0" outside of a repository."""
    if SEED in os.environ:
        return os.environ[SEED]
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "0"


def cases_left_out(items: Iterable[pytest.Item], seed: str) -> set[pytest.Item]:
    """What is left to `make test-long`.

    Seven eighths of the files that are marked as `dear_file`. Of tests that are marked as `some_cases` the cases that
    are not drawn, then of files that are marked as `some_tests` the tests that are not, then seven eighths of the tests
    that are marked as `dear_test`.
    """
    left_out = _of_files_not_drawn(items, seed)
    stay = [item for item in items if item not in left_out]
    left_out |= _not_drawn(stay, seed, "some_cases", lambda item: item.nodeid.partition("[")[0])
    stay = [item for item in items if item not in left_out]
    left_out |= _not_drawn(stay, seed, "some_tests", _file)
    dear = sorted((item for item in items if item.get_closest_marker("dear_test")), key=lambda item: item.nodeid)
    dear = [item for item in dear if item not in left_out]
    return left_out | set(random.Random(f"{seed} dear").sample(dear, len(dear) * 7 // 8))


def share_of(items: list[Any], share: str) -> list[Any]:
    """Every third item from the second on for "2/3": `make test-long SHARE=2/3`."""
    number, count = (int(part) for part in share.split("/"))
    if not 1 <= number <= count:
        raise ValueError(f"expected a share as 1/{count} to {count}/{count}, but got {share}")
    return items[number - 1 :: count]


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _of_files_not_drawn(items: Iterable[pytest.Item], seed: str) -> set[pytest.Item]:
    dear = [item for item in items if item.get_closest_marker("dear_file")]
    files = sorted({_file(item) for item in dear})
    not_drawn = set(random.Random(f"{seed} files").sample(files, len(files) * 7 // 8))
    return {item for item in dear if _file(item) in not_drawn}


def _not_drawn(
    items: Iterable[pytest.Item], seed: str, mark: str, group: Callable[[pytest.Item], str]
) -> set[pytest.Item]:
    groups: dict[tuple[str, str], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker(mark):
            device = item.callspec.params.get("device", "") if hasattr(item, "callspec") else ""
            groups[group(item), str(device)].append(item)
    left_out: set[pytest.Item] = set()
    for (name, device), several in groups.items():
        (count,) = several[0].get_closest_marker(mark).args  # type: ignore[union-attr]
        several.sort(key=lambda item: item.nodeid)
        kept = random.Random(f"{seed} {name} {device}").sample(several, min(count, len(several)))
        left_out.update(set(several) - set(kept))
    return left_out
