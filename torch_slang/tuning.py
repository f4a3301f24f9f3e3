"""Autotuning: which variants of tuned kernels were chosen, and how choosing goes (docs/tuning.md)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from torch_slang._library import _C

__all__ = ["Attempt", "Choice", "budget", "choices", "clear", "load", "log", "mode", "save"]


class Attempt(NamedTuple):
    """One variant that was looked at."""

    value: str  # "BM=64, BN=32"
    seconds: float | None  # of one call; None: it was not timed
    problem: str | None  # why it was left out


class Choice(NamedTuple):
    """The choice for one class of calls."""

    op: str  # "slang::matmul_backward"
    about: str  # hardware, dtypes, sizes rounded up to powers of two
    value: str  # "BM=64, BN=32"
    tried: tuple[Attempt, ...]
    spent: float  # seconds that choosing took
    key: str  # identifies the kind of call and the kernel's text


def mode(new: str | None = None) -> str:
    """Sets the mode, if one is given, and returns what it was before.

    ``"on"`` (the default): an earlier choice is used, else variants are timed. ``"off"``: the first value of every
    list, nothing is timed. ``"frozen"``: an earlier choice is used; a call that has none raises. The
    environment variable ``TORCH_SLANG_TUNING`` gives the first mode.
    """
    before = _C.tuning_mode()
    if new is not None:
        _C.set_tuning_mode(new)
    return before


def budget(seconds: float | None = None) -> float:
    """Sets how many seconds one choice may take, if that is given, and returns what it was before.

    When the time is over the best variant so far is taken. ``TORCH_SLANG_TUNING_BUDGET`` gives the first budget, else
    it is 10.
    """
    before = _C.tuning_budget()
    if seconds is not None:
        _C.set_tuning_budget(seconds)
    return before


def choices() -> list[Choice]:
    """The choices that this process knows: made, found in the disk cache when they were needed, or loaded."""
    return [_choice(one) for one in _C.tuning_known()]


def log() -> list[Choice]:
    """The choices that this process made itself, in order, with all that was tried."""
    return [_choice(one) for one in _C.tuning_made()]


def save(path: str | os.PathLike[str]) -> int:
    """Writes :func:`choices` to a JSON file that :func:`load` reads, and returns how many there are."""
    text = _C.tuning_to_json()
    Path(path).write_text(json.dumps(json.loads(text), indent=1) + "\n")
    return len(_C.tuning_known())


def load(path: str | os.PathLike[str]) -> int:
    """Adds the choices of a file to those that are known, in place of earlier ones, and returns how many it has.

    With ``mode("frozen")`` after it a program runs the same variants each time.
    """
    return _C.tuning_read_json(Path(path).read_text())


def clear() -> int:
    """Forgets all choices, in the disk cache too, and returns how many there were."""
    return _C.tuning_forget()


def _choice(one: dict[str, Any]) -> Choice:
    tried = tuple(Attempt(value, seconds or None, problem or None) for value, seconds, problem in one["tried"])
    return Choice(one["op"], one["about"], one["value"], tried, one["spent"], one["key"])
