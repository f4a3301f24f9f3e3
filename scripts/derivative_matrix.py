"""Prints the matrix of docs/derivatives.md: which derivatives of which operators are right, and why others are refused.

    .venv/bin/python scripts/derivative_matrix.py [--device cuda] [--only NAME ...]

A cell is checked in float64 against the same derivative of plain PyTorch. Exits with 1 if a number is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from torch_slang import BlockPattern, block_sparse_mm, block_sparse_sdd

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from cases import Case, Input
from derivative_cases import DERIVATIVES, THIRTY, Derived, listed, of_case, of_differentiable_ones
from test_trilinear import formula

ops = torch.ops.slang


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
        block_sparse_epilogue,
        lambda x, values: (x @ pattern_on(x.device).to_dense(values)).tanh(),
        (3, 32),
        (3, 16, 16),
    ),
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
