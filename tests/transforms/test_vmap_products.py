"""torch.vmap of the operators of ops/ inside each other, where a level maps over none of the operands."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from block_sparse_epilogues import drawn
from long_tests import some_cases

from torch_slang import block_sparse_mm, block_sparse_sdd

Tensor = torch.Tensor


def randn(*shape: int, device: torch.device) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, device=device)


def operations(device: torch.device) -> dict[str, Callable[[Tensor], Tensor]]:
    """Each a function of one matrix [6, 32] alone, so that an inner level maps over none of its operands."""
    pattern = drawn((32, 16), (16, 16), device, 0.9)
    values, other, wide = (randn(*shape, device=device) for shape in [(pattern.count, 16, 16), (32, 4), (6, 16)])
    ops = torch.ops.slang
    indices = pattern.tensors()
    return {
        "mm": lambda x: ops.mm(x, other),
        "matmul": lambda x: ops.matmul(x, other),
        "dot": lambda x: ops.dot(x, other, alpha=2.0),
        "epilogue": lambda x: ops.matmul_with_epilogue("linear_tanh", x, other, []),
        "block_sparse_mm": lambda x: block_sparse_mm(x, values, pattern),
        "block_sparse_sdd": lambda x: block_sparse_sdd(x.mT, wide, pattern),
        "block_sparse_epilogue": lambda x: ops.block_sparse_mm_with_epilogue(
            "linear_tanh", x, values, indices, pattern.shape, False, []
        ),
        "sqr": ops.sqr,
    }


NAMES = (
    "mm", "matmul", "dot", "epilogue", "block_sparse_mm", "block_sparse_sdd", "block_sparse_epilogue", "sqr",
)  # fmt: skip
pytestmark = pytest.mark.usefixtures("the_first_tile")


@some_cases(2)
@pytest.mark.filterwarnings("error:There is a performance drop")
@pytest.mark.parametrize("name", NAMES)
def test_a_level_that_maps_over_none_of_the_operands(name: str, device: torch.device) -> None:
    operation = operations(device)[name]
    x, factors = randn(2, 6, 32, device=device), randn(3, device=device)
    each = torch.stack([operation(matrix) for matrix in x])
    inner_first = torch.vmap(lambda x: torch.vmap(lambda f: operation(x) * f)(factors))(x)
    torch.testing.assert_close(inner_first, each[:, None] * factors.view(3, *(1,) * (each.dim() - 1)))
    constant = torch.vmap(lambda f: operation(x[0]) * f)(factors)
    torch.testing.assert_close(constant, each[0] * factors.view(3, *(1,) * (each.dim() - 1)))
