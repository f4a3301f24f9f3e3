"""What torch_slang.testing.check found out: which checks passed, failed, or were refused by the operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from torch.autograd.gradcheck import GradcheckError

from torch_slang import audit

Outcome = Literal["passed", "failed", "refused"]


@dataclass(frozen=True)
class Finding:
    """One check of one operator. ``reason`` is empty where it passed."""

    op: str
    check: str
    outcome: Outcome
    reason: str = ""


@dataclass
class Report:
    """The findings of :func:`torch_slang.testing.check`, in the order of the checks. ``print(report)`` is a table.

    ``audits``: by operator, what audits of its derivatives found (:mod:`torch_slang.audit`).
    """

    findings: list[Finding] = field(default_factory=list)
    audits: dict[str, list[audit.Finding]] = field(default_factory=dict)

    @property
    def passed(self) -> list[Finding]:
        return self._with("passed")

    @property
    def failed(self) -> list[Finding]:
        return self._with("failed")

    @property
    def refused(self) -> list[Finding]:
        """What an operator says that it cannot do: no double backward, no forward mode, no vmap."""
        return self._with("refused")

    def run(
        self, op: str, check: str, function: Callable[[], object], *, may_be_refused: bool = False
    ) -> Exception | None:
        """Runs one check, notes what comes of it, and returns its error.

        ``may_be_refused``: an error of the operator itself is its right; a wrong number never is.
        """
        try:
            function()
        except (AssertionError, GradcheckError) as error:
            return self._note(op, check, "failed", error)
        except (RuntimeError, NotImplementedError) as error:
            return self._note(op, check, "refused" if may_be_refused else "failed", error)
        except Exception as error:
            return self._note(op, check, "failed", error)
        self.findings.append(Finding(op, check, "passed"))
        return None

    def _note(self, op: str, check: str, outcome: Outcome, error: Exception) -> Exception | None:
        self.findings.append(Finding(op, check, outcome, str(error)))
        return error if outcome == "failed" else None

    def _with(self, outcome: Outcome) -> list[Finding]:
        return [finding for finding in self.findings if finding.outcome == outcome]

    def __str__(self) -> str:
        lines: list[str] = []
        for op in dict.fromkeys(finding.op for finding in self.findings):
            lines += [op, *_table(finding for finding in self.findings if finding.op == op)]
            lines += [f"  {finding}" for finding in self.audits.get(op, [])]
        return "\n".join(lines)


def _table(findings: Iterable[Finding]) -> Iterable[str]:
    for finding in findings:
        reason = next((line for line in finding.reason.splitlines() if line.strip()), "")
        yield f"  {finding.outcome:8}{finding.check}" + (f": {reason}" if reason else "")
