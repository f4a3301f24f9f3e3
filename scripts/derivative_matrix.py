"""Prints the matrix of docs/derivatives.md: which derivatives of which operators are right, and why others are refused.

    .venv/bin/python scripts/derivative_matrix.py [--device cuda] [--only NAME ...] [--write]

A cell is checked in float64 against the same derivative of plain PyTorch. Exits with 1 if a number is wrong.
--write puts each row into the table of docs/derivatives.md for that device, in place of the row that was there.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from torch_slang import (
    BlockPattern,
    block_sparse_mm,
    block_sparse_mm_with_epilogue,
    block_sparse_sdd,
    matmul_with_epilogue,
)

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/helpers"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests/examples"))

from block_sparse_epilogues import SHADE, shade_in_torch
from cases import Case, Input
from derivative_cases import DERIVATIVES, THIRTY, Derived, listed, of_case, of_differentiable_ones
from marked_tables import read_table, write_table
from test_trilinear import formula

ops = torch.ops.slang
HEAD = [
    "| | " + " | ".join(name.replace("_", " ") for name in DERIVATIVES) + " | refused because |",
    "|---" * (len(DERIVATIVES) + 2) + "|",
]


def product(name: str, op: Callable[..., Any], reference: Callable[..., Any], *shapes: tuple[int, ...]) -> Derived:
    """One of ops/, as a function of tensors of these shapes."""

    def arguments(device: torch.device | str) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(3)
        drawn = (torch.randn(shape, dtype=torch.float64, generator=generator) for shape in shapes)
        return [tensor.to(device).requires_grad_() for tensor in drawn]

    return Derived(name, lambda: op, arguments, reference)


def pattern_on(device: torch.device) -> BlockPattern:
    return BlockPattern.from_mask(torch.tensor([[True, False], [True, True]], device=device), (16, 16))


def block_sparse_epilogue(x: torch.Tensor, values: torch.Tensor) -> Any:
    pattern = pattern_on(x.device)
    return ops.block_sparse_mm_with_epilogue("linear_tanh", x, values, pattern.tensors(), pattern.shape, False, [])


OPERATORS = [
    of_case(Case("", "sqr", (Input((3, 4)),), torch.square)),
    of_case(Case("", "trilinear", (Input((3, 8, 2)), Input((3, 3), (0.1, 0.9))), formula)),
    product("mm", ops.mm, torch.mm, (3, 4), (4, 2)),
    product("matmul", ops.matmul, torch.matmul, (2, 3, 4), (4, 2)),
    product(
        "dot",
        lambda a, b, c: ops.dot(a, b, alpha=2, beta=0.5, c=c),
        lambda a, b, c: 2 * a @ b + 0.5 * c,
        (3, 4),
        (4, 2),
        (2,),
    ),
    product(
        "matmul_with_epilogue",
        lambda a, b, bias, residual: matmul_with_epilogue(SHADE)(a, b, bias, 0.1, residual),
        lambda a, b, bias, residual: shade_in_torch(a @ b, bias, 0.1, residual),
        (3, 4),
        (4, 2),
        (2,),
        (3, 2),
    ),
    product(
        "matmul_with_epilogue(linear_tanh)",
        lambda a, b: ops.matmul_with_epilogue("linear_tanh", a, b, []),
        lambda a, b: (a @ b).tanh(),
        (3, 4),
        (4, 2),
    ),
    product(
        "block_sparse_mm",
        lambda x, values: block_sparse_mm(x, values, pattern_on(x.device)),
        lambda x, values: x @ pattern_on(x.device).to_dense(values),
        (3, 32),
        (3, 16, 16),
    ),
    product(
        "block_sparse_sdd",
        lambda a, b: block_sparse_sdd(a, b, pattern_on(a.device)),
        lambda a, b: pattern_on(a.device).from_dense(a @ b),
        (32, 3),
        (3, 32),
    ),
    product(
        "block_sparse_mm_with_epilogue",
        lambda x, values, bias, r: block_sparse_mm_with_epilogue(SHADE)(x, values, pattern_on(x.device), bias, 0.1, r),
        lambda x, values, bias, r: shade_in_torch(x @ pattern_on(x.device).to_dense(values), bias, 0.1, r),
        (3, 32),
        (3, 16, 16),
        (32,),
        (3, 32),
    ),
    product(
        "block_sparse_mm_with_epilogue(linear_tanh)",
        block_sparse_epilogue,
        lambda x, values: (x @ pattern_on(x.device).to_dense(values)).tanh(),
        (3, 32),
        (3, 16, 16),
    ),
]


def cell(case: Derived, derivative: str, device: torch.device) -> tuple[str, str]:
    """Right, refused or wrong, and the reason of a refusal."""
    theirs, inputs = of_differentiable_ones(case, case.reference, device)
    expected = listed(DERIVATIVES[derivative](theirs, inputs))
    try:
        ours, _ = of_differentiable_ones(case, case.op, device)
        actual = listed(DERIVATIVES[derivative](ours, inputs))
    except (RuntimeError, NotImplementedError) as error:
        lines = [line for line in str(error).splitlines() if line]
        return "refused", lines[-1].split(" would be wrong: ")[-1].replace("|", "\\|")
    close = (torch.allclose(a, e, rtol=1e-7, atol=1e-8) for a, e in zip(actual, expected, strict=True))
    return ("right" if all(close) else "**wrong**"), ""


def row(case: Derived, device: torch.device) -> str:
    cells = [cell(case, name, device) for name in DERIVATIVES]
    reasons = dict.fromkeys(reason for _, reason in cells if reason)
    return " | ".join([f"| `{case}`", *(said for said, _ in cells), "; ".join(reasons)]) + " |"


def write(new: str, device: str, order: list[str]) -> None:
    """Puts a row into the page's table for the device, in the order of the cases."""
    name = f"derivative_matrix.py {device}"
    rows = {line.split("`")[1]: line for line in [*read_table(name), new] if line.startswith("| `")}
    write_table(name, [*HEAD, *(rows[case] for case in order if case in rows)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--only", nargs="*", help="names of rows")
    parser.add_argument("--write", action="store_true", help="write the rows into docs/derivatives.md, too")
    arguments = parser.parse_args()
    cases = {str(case): case for case in [*OPERATORS, *THIRTY]}
    print("\n".join(HEAD))
    wrong = False
    for name in arguments.only or cases:
        new = row(cases[name], torch.device(arguments.device))
        wrong = wrong or "**wrong**" in new
        print(new, flush=True)
        if arguments.write:
            write(new, arguments.device, list(cases))
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
