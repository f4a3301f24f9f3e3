"""Prints the matrix of docs/derivatives.md: which derivatives of which operators are right, and why others are refused.

    .venv/bin/python scripts/derivative_matrix.py [--device cuda] [--only NAME ...]

A cell is checked in float64 against the same derivative of plain PyTorch. Exits with 1 if a number is wrong.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from cases import Case, Input
from derivative_cases import DERIVATIVES, THIRTY, Derived, listed, of_case, of_differentiable_ones
from test_trilinear import formula

OPERATORS = [
    of_case(Case("", "sqr", (Input((3, 4)),), torch.square)),
    of_case(Case("", "trilinear", (Input((3, 8, 2)), Input((3, 3), (0.1, 0.9))), formula)),
]


def cell(case: Derived, derivative: str, device: torch.device) -> str:
    try:
        ours, inputs = of_differentiable_ones(case, case.op, device)
        theirs, _ = of_differentiable_ones(case, case.reference, device)
        expected = listed(DERIVATIVES[derivative](theirs, inputs))
        actual = listed(DERIVATIVES[derivative](ours, inputs))
    except (RuntimeError, NotImplementedError) as error:
        lines = [line for line in str(error).splitlines() if line]
        return "refused: " + lines[-1].split(" would be wrong: ")[-1]
    for one, other in zip(actual, expected, strict=True):
        if not torch.allclose(one, other, rtol=1e-7, atol=1e-8):
            return "**wrong**"
    return "right"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", nargs="*", help="names of rows")
    arguments = parser.parse_args()
    print("| | " + " | ".join(name.replace("_", " ") for name in DERIVATIVES) + " |")
    print("|---" * (len(DERIVATIVES) + 1) + "|")
    wrong = 0
    for case in [*OPERATORS, *THIRTY]:
        if arguments.only and str(case) not in arguments.only:
            continue
        cells = [cell(case, name, torch.device(arguments.device)) for name in DERIVATIVES]
        wrong += cells.count("**wrong**")
        print(f"| `{case}` | " + " | ".join(cells) + " |", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
