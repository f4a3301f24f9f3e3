"""Audits: is each backward the transpose of its forward derivative? (docs/audit.md)

For any directions t and g, ``<g, J t>`` (forward mode) equals ``<J^T g, t>`` (the backward). Slang makes the two in
different ways, so a fault of one shows as a difference. After an operator's first backward a thread of low priority
compares the two, once for a machine. Where they differ, the one that central differences contradict raises from then
on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch_slang._library import _C

__all__ = ["Finding", "accept", "mode", "report", "wait"]


@dataclass(frozen=True)
class Finding:
    """What the audit of one derivative found.

    ``order``: 1, the backward; 2, the double backward. ``types``: of the function's type parameters. ``outcome``:
    ``"agrees"``; ``"wrong"``, this derivative; ``"wrong tangents"``, the forward derivative that it was compared with;
    ``"differs"``, from central differences, which constants in the file may explain;
    ``"not audited"``; ``"waiting"``. ``seconds``: that the audit took, 0 if an earlier process had done it.
    """

    name: str
    order: int
    types: str
    outcome: str
    text: str
    seconds: float
    accepted: bool

    def __str__(self) -> str:
        what = "backward" if self.order == 1 else "second derivative"
        types = f" of {self.types}" if self.types else ""
        if self.outcome in ("agrees", "differs"):
            return f"{what}{types} audited: {self.text}"
        if self.outcome == "waiting":
            return f"{what}{types} not audited yet"
        if self.outcome == "not audited":
            return f"{what}{types} not audited: {self.text}"
        accepted = " (accepted)" if self.accepted else ""
        return f"{what}{types} audited: WRONG{accepted}: {self.text}"


def mode(new: str | None = None) -> str:
    """Sets when audits run, if ``new`` is given, and returns what it was before.

    ``"background"`` (the default): some time after an operator's first backward. ``"first"``: before the first gradient
    is given out. ``"off"``: never. The environment variable ``TORCH_SLANG_AUDIT`` gives the first mode.

    Raises:
        RuntimeError: for another word.
    """
    before: str = _C.audit_mode()
    if new is not None:
        _C.set_audit_mode(new)
    return before


def report() -> list[Finding]:
    """What was found of the operators whose derivatives this process has called, by name."""
    return findings(_C.audit_report())


def wait(seconds: float | None = None) -> bool:
    """Waits until no audit is left to run, or for so many seconds. Returns whether none is left.

    Audits that are waited for begin at once; ``seconds=0`` only asks.
    """
    return bool(_C.audit_wait(seconds))


def accept(name: str) -> None:
    """Takes the derivatives of an operator as they are: they no longer raise, whatever an audit finds.

    Args:
        name: of the operator, ``"slang::sqr"`` or ``"slang.sqr"``.
    """
    _C.audit_accept(name if "::" in name else name.replace(".", "::", 1))


def findings(listed: list[dict[str, Any]]) -> list[Finding]:
    """From what the native module tells."""
    return [Finding(**one) for one in listed]
