"""Audits of all operators of a file, for ``python -m torch_slang check``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_slang import audit
from torch_slang._descriptor import Descriptor, describe
from torch_slang._load import load
from torch_slang._module import members_of
from torch_slang.checks.arguments import UnknownShapeError, draw_arguments, draw_rows

_NAMESPACE = "torch_slang_check"
_ROWS = 512  # of plain functions' arguments, of which an audit takes some


def check_file(path: str, defines: Mapping[str, str], folders: Sequence[str], device: str) -> int:
    """Prints what audits find. Returns an exit status: 1 if a derivative is wrong, 2 if there is no operator."""
    before = audit.mode("first")
    try:
        module = load(path, namespace=_NAMESPACE, defines=dict(defines), include_dirs=list(folders))
        members = members_of(module)
        statuses = [
            _check(name, callee.op, describe(members.handle, name), device)
            for name, callee in members.callees().items()
        ]
        return max(statuses, default=2)
    except (RuntimeError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    finally:
        audit.mode(before)


def _check(name: str, operator: Any, about: Descriptor, device: str) -> int:
    """Of one operator: 1 if a derivative of it is wrong."""
    if about.operators["backward"] is None:
        print(f"{name}: has no derivative")
        return 0
    try:
        arguments = draw_arguments(about, device)
    except UnknownShapeError as error:
        print(f"{name}: not audited: arguments cannot be drawn, since {error}")
        return 0
    rows = draw_rows(about, _ROWS, device)
    reasons = _differentiate(operator, arguments if rows is None else rows)
    if 1 in reasons and rows is not None:  # an index that is out of range, say
        reasons = _differentiate(operator, arguments)
    findings = [one for one in audit.report() if one.name == f"{_NAMESPACE}::{name}"]
    for finding in findings:
        print(f"{name}: {finding}")
    for order, reason in reasons.items():
        if order not in {finding.order for finding in findings}:
            print(f"{name}: order {order} not audited: {reason}")
    return int(any(one.outcome in ("wrong", "wrong tangents") and not one.accepted for one in findings))


def _differentiate(operator: Any, arguments: list[Any]) -> dict[int, str]:
    """Calls the backward and the double backward. By order: why there is none."""
    wanted = [x for x in arguments if isinstance(x, Tensor) and x.requires_grad]
    reasons: dict[int, str] = {}
    gradients: list[Tensor] = []

    def attempt(order: int, function: Callable[[], object]) -> None:
        try:
            function()
        except RuntimeError as error:
            reasons[order] = str(error).partition("\n")[0]

    def first() -> None:
        results = operator(*arguments)
        results = [results] if isinstance(results, Tensor) else results
        value = sum(r.double().sum() for r in results if r.requires_grad)
        gradients.extend(torch.autograd.grad(value, wanted, create_graph=True, allow_unused=True))

    def second() -> None:
        value = sum(g.double().sum() for g in gradients if g is not None and g.requires_grad)
        torch.autograd.grad(value, wanted, allow_unused=True)

    attempt(1, first)
    if gradients:
        attempt(2, second)
    return reasons
