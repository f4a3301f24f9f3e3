"""What patterns of blocks refuse: each error names the maker, the argument, the rule and the value."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from torch_slang import BlockPattern

Tensor = torch.Tensor
# torch says so at the first one of a process.
pytestmark = pytest.mark.filterwarnings("ignore:Sparse BSR tensor support is in beta")

FULL = BlockPattern.full((64, 64), (16, 32))
SCORES = torch.rand(3, 4)
NAN = torch.tensor([[0.0, 1.0], [math.nan, math.nan]])


def indices(*numbers: int) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int32)


def bsr(crow: Tensor, col: Tensor, shape: tuple[int, int] = (32, 32), blocks: int = 3, size: int = 16) -> Tensor:
    return torch.sparse_bsr_tensor(crow, col, torch.zeros(blocks, size, size), size=shape, check_invariants=False)


def make_list(rows: object, columns: object) -> BlockPattern:
    return BlockPattern.from_indices(rows, columns, (64, 128), (16, 16))


BAD: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: BlockPattern((64, 64), (16, 16)), TypeError, "expected a pattern to be made by from_mask, "),
    # shape and block_shape
    (lambda: BlockPattern.full(64, (16, 16)), TypeError, r"full: expected shape to be two integers \(out, in\), but"),
    (lambda: BlockPattern.full((64, 6.5), (16, 16)), TypeError, r"expected shape to be two .* got \(64, 6.5\)"),
    (lambda: BlockPattern.full((64, 0), (16, 16)), ValueError, r"expected both sizes of shape .* 1, but got \(64, 0\)"),
    (lambda: BlockPattern.full((64, -4), (16, 16)), ValueError, r"expected both sizes of shape .* got \(64, -4\)"),
    (
        lambda: BlockPattern.full((64, 64), 16),
        TypeError,
        r"expected block_shape to be two integers \(r, c\), but got 16",
    ),
    (lambda: BlockPattern.full((64, 64), (16,)), TypeError, r"expected block_shape to be two .* but got \(16,\)"),
    (lambda: BlockPattern.full((64, 64), (16, 48)), ValueError, r"one of 16, 32, 64, 128, but got \(16, 48\)"),
    (lambda: BlockPattern.full((2**20, 2**20), (16, 16)), ValueError, r"fewer than 2\*\*31 blocks.*65536 x 65536"),
    # density and width
    (
        lambda: BlockPattern.random((64, 64), (16, 16), 0),
        ValueError,
        r"random: expected density .* \(0, 1\], but got 0",
    ),
    (lambda: BlockPattern.random((64, 64), (16, 16), 1.5), ValueError, r"expected density .* but got 1.5"),
    (lambda: BlockPattern.random((64, 64), (16, 16), math.nan), ValueError, r"expected density .* but got nan"),
    (lambda: BlockPattern.random((64, 64), (16, 16), "half"), TypeError, "expected density to be a number, but got 'h"),
    (lambda: BlockPattern.banded((64, 64), (16, 16), 0), ValueError, "expected width to be at least 1, but got 0"),
    (lambda: BlockPattern.banded((64, 64), (16, 16), 0.5), TypeError, "expected width to be an integer, but got 0.5"),
    # masks and scores
    (
        lambda: BlockPattern.from_mask([[True]], (16, 16)),
        TypeError,
        "from_mask: expected mask to be a tensor, but got l",
    ),
    (lambda: BlockPattern.from_mask(SCORES, (16, 16)), TypeError, "expected mask to hold bool, but got float32"),
    (lambda: BlockPattern.from_mask(SCORES[0] > 0, (16, 16)), ValueError, r"mask to have 2 dimensions.*shape \[4\]"),
    (lambda: BlockPattern.from_mask(SCORES[:0] > 0, (16, 16)), ValueError, r"sizes of mask .* got \[0, 4\]"),
    (
        lambda: BlockPattern.from_mask(SCORES > 0, (16, 16), (64, 64)),
        ValueError,
        r"mask to have shape \[4, 4\].*\[3, 4\]",
    ),
    (lambda: BlockPattern.from_mask((SCORES > 0).to("meta"), (16, 16)), ValueError, "expected mask to have data"),
    (
        lambda: BlockPattern.from_importance(NAN, (16, 16), 0.5),
        ValueError,
        r"scores to have no NaN, .* one at \[1, 0\]",
    ),
    (lambda: BlockPattern.from_importance(SCORES > 0, (16, 16), 0.5), TypeError, "scores to hold integers.*bool"),
    (lambda: BlockPattern.from_importance(SCORES + 1j, (16, 16), 0.5), TypeError, "scores to hold integers.*complex64"),
    (
        lambda: BlockPattern.from_importance(SCORES, (16, 16), 2),
        ValueError,
        "from_importance: expected density .* got 2",
    ),
    (lambda: BlockPattern.from_importance(SCORES, (16, 16), 1, (1, 1)), ValueError, r"scores to have shape \[1, 1\]"),
    # lists
    (lambda: make_list([0, 4], [0, 1]), IndexError, r"from_indices: expected rows .* \[0, 4\), but got rows\[1\] = 4"),
    (lambda: make_list([0, 1], [-1, 1]), IndexError, r"expected columns .* \[0, 8\), but got columns\[0\] = -1"),
    (lambda: make_list([0, 2**40], [0, 1]), IndexError, r"expected rows .* but got rows\[1\] = 1099511627776"),
    (lambda: make_list([0, 2**70], [0, 1]), TypeError, r"expected rows to be a list of integers, but got \[0, 1180"),
    (lambda: make_list([0, 1, 1], [3, 2, 2]), ValueError, r"each block once, but got block \(1, 2\) at 1 and at 2"),
    (
        lambda: make_list([0, 1, 1], [3, 2, 1]),
        ValueError,
        r"ascending, but got block \(1, 1\) at 2 behind block \(1, 2",
    ),
    (lambda: make_list([1, 0], [0, 0]), ValueError, r"row by row, .* got block \(0, 0\) at 1 behind block \(1, 0\)"),
    (lambda: make_list([0, 1], [0]), ValueError, "rows and columns to be of one length, but got 2 and 1"),
    (lambda: make_list([0.0, 1.0], [0, 1]), TypeError, "expected rows to hold int32 or int64, but got float32"),
    (lambda: make_list([0, 1], [False, True]), TypeError, "expected columns to hold int32 or int64, but got bool"),
    (lambda: make_list([0, None], [0, 1]), TypeError, r"expected rows to be a list of integers, but got \[0, None\]"),
    (lambda: make_list(3, [0, 1]), TypeError, "expected rows to be a tensor or a list, but got int"),
    (lambda: make_list([[0, 1]], [0, 1]), ValueError, r"expected rows to have 1 dimension, but got shape \[1, 2\]"),
    (lambda: make_list(indices(1).to("meta"), [0]), ValueError, "expected rows to have data"),
    # values and matrices
    (
        lambda: FULL.to_dense(torch.zeros(3, 16, 32)),
        ValueError,
        r"to_dense: expected values .* 8, 16, 32\].*\[3, 16, 32\]",
    ),
    (lambda: FULL.to_dense(torch.zeros(16, 32)), ValueError, r"expected values .* but got \[16, 32\]"),
    (lambda: FULL.to_dense([1]), TypeError, "expected values to be a tensor, but got list"),
    (lambda: FULL.to_dense(torch.zeros(8, 16, 32).to("meta")), ValueError, "the pattern's device, cpu, but got meta"),
    (
        lambda: FULL.from_dense(torch.zeros(64, 63)),
        ValueError,
        r"from_dense: expected dense .* 64, 64\], .* \[64, 63\]",
    ),
    (lambda: FULL.from_dense(torch.zeros(64, 64).to("meta")), ValueError, "expected dense to be on .* but got meta"),
    # BSR
    (
        lambda: FULL.to_bsr(torch.zeros(2, 8, 16, 32)),
        ValueError,
        r"to_bsr: .* of one matrix, but got shape \[2, 8, 16, 32",
    ),
    (
        lambda: BlockPattern.full((60, 64), (16, 32)).to_bsr(torch.zeros(8, 16, 32)),
        ValueError,
        r"multiple of its blocks \(16, 32\).* but got \(60, 64\)",
    ),
    (
        lambda: BlockPattern.from_bsr(SCORES),
        TypeError,
        "from_bsr: expected matrix .*torch.sparse_bsr, but got torch.strided",
    ),
    (
        lambda: BlockPattern.from_bsr(torch.ones(2, 32, 32).to_sparse_bsr((16, 16))),
        ValueError,
        r"2 dimensions .* got shape \[2, 32, 32\]",
    ),
    (
        lambda: BlockPattern.from_bsr(bsr(indices(0, 1, 3), indices(0, 0, 1), (16, 16), size=8)),
        ValueError,
        r"block_shape to be one of .* but got \(8, 8\)",
    ),
    # torch does not check these when it is told not to
    (
        lambda: BlockPattern.from_bsr(bsr(indices(0, 1), indices(0, 0, 1))),
        ValueError,
        r"crow_indices .* \[3\], .* \[2\]",
    ),
    (
        lambda: BlockPattern.from_bsr(bsr(indices(0, 1, 3), indices(0, 1))),
        ValueError,
        r"col_indices .* \[3\], .* \[2\]",
    ),
    (
        lambda: BlockPattern.from_bsr(bsr(indices(0, 4, 3), indices(0, 0, 1))),
        ValueError,
        r"blocks, 3, but got crow_indices\[1\] = 4",
    ),
    (lambda: BlockPattern.from_bsr(bsr(indices(1, 1, 3), indices(0, 0, 1))), ValueError, r"crow_indices\[0\] = 1"),
    (lambda: BlockPattern.from_bsr(bsr(indices(0, 1, 2), indices(0, 0, 1))), ValueError, r"crow_indices\[2\] = 2"),
    (lambda: BlockPattern.from_bsr(bsr(indices(0, -1, 3), indices(0, 0, 1))), ValueError, r"crow_indices\[1\] = -1"),
    (
        lambda: BlockPattern.from_bsr(bsr(indices(0, 1, 3), indices(0, 1, 0))),
        ValueError,
        r"\(1, 0\) at 2 behind .*1, 1\)",
    ),
    (lambda: BlockPattern.from_bsr(bsr(indices(0, 1, 3), indices(0, 1, 2))), IndexError, r"col_indices\[2\] = 2"),
]


@pytest.mark.parametrize(("make", "error", "message"), BAD, ids=[message for *_, message in BAD])
def test_bad_input_is_an_error_that_names_argument_rule_and_value(
    make: Callable[[], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as raised:
        make()
    assert type(raised.value) is error
    assert str(raised.value).startswith("torch_slang.BlockPattern")


def test_indices_of_two_devices_are_refused(device: torch.device) -> None:
    if device.type == "cuda":
        with pytest.raises(ValueError, match="rows and columns to be on one device, but got cpu and cuda:0"):
            make_list(indices(0), indices(0).to(device))
