"""What `make test` leaves to `make test-long`, which sets TORCH_SLANG_LONG_TESTS=1.

Cases of a table go there whose claim others, which stay, prove too: the place that leaves them out says which.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch

LONG = os.environ.get("TORCH_SLANG_LONG_TESTS") == "1"
long_test = pytest.mark.skipif(not LONG, reason="make test-long runs it")


def leave_to_long_tests_on_a_cpu(device: torch.device | str) -> None:
    """For cases that only a GPU has code of its own for."""
    if not LONG and torch.device(device).type == "cpu":
        pytest.skip("make test-long runs it on a CPU")


def sampled(cases: Iterable[Any], stays: Callable[..., bool]) -> list[Any]:
    """For `parametrize`, a tuple for each case of several arguments: those that `stays` refuses are long tests."""
    rows = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*row, marks=() if stays(*row) else long_test) for row in rows]
