"""Patterns of blocks and their matrices, beside references made by loops over blocks."""

from __future__ import annotations

import math

import pytest
import torch
from block_patterns import BOUNDED, assert_consistent, blocks_of, dense_of, inside, patterns, shapes
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

from torch_slang import BlockPattern

Tensor = torch.Tensor
# torch says so at the first one of a process.
pytestmark = pytest.mark.filterwarnings("ignore:Sparse BSR tensor support is in beta")


@BOUNDED
@given(st.data())
def test_indices_of_a_mask_are_those_of_loops_over_its_blocks(data: st.DataObject) -> None:
    shape, block = data.draw(shapes())
    grid = [math.ceil(size / one) for size, one in zip(shape, block, strict=True)]
    mask = torch.tensor([[data.draw(st.booleans()) for _ in range(grid[1])] for _ in range(grid[0])])
    pattern = BlockPattern.from_mask(mask, block, shape)
    assert (pattern.shape, pattern.block_shape, pattern.grid) == (shape, block, tuple(grid))
    assert_consistent(pattern, blocks_of(mask))
    assert torch.equal(pattern.mask(), mask)


@BOUNDED
@given(patterns())
def test_a_list_of_a_patterns_blocks_makes_it_again(pattern: BlockPattern) -> None:
    for rows, columns in (
        (pattern.rows, pattern.columns),
        (pattern.rows.long(), pattern.columns.long()),
        (pattern.rows.tolist(), pattern.columns.tolist()),
    ):
        again = BlockPattern.from_indices(rows, columns, pattern.shape, pattern.block_shape)
        assert all(torch.equal(a, b) for a, b in zip(again.tensors(), pattern.tensors(), strict=True))


def test_a_pattern_does_not_change_with_the_list_it_was_made_of() -> None:
    rows, columns = torch.tensor([0, 1], dtype=torch.int32), torch.tensor([1, 0], dtype=torch.int32)
    pattern = BlockPattern.from_indices(rows, columns, (32, 32), (16, 16))
    matrix = pattern.to_dense(torch.ones(2, 16, 16)).to_sparse_bsr((16, 16))
    same, _ = BlockPattern.from_bsr(matrix)
    for theirs in (rows, columns, matrix.col_indices()):
        theirs.fill_(7)
    for made in (pattern, same):
        assert_consistent(made, [(0, 1), (1, 0)])


def test_lists_may_have_any_strides() -> None:
    blocks = torch.tensor([[0, 1], [1, 0]])
    pattern = BlockPattern.from_indices(*blocks.t().unbind(), (32, 32), (16, 16))
    assert_consistent(pattern, [(0, 1), (1, 0)])


def test_a_mask_may_have_any_strides() -> None:
    mask = torch.rand(7, 5) < 0.5
    assert BlockPattern.from_mask(mask.t().contiguous().t(), (16, 32)) == BlockPattern.from_mask(mask, (16, 32))


def test_without_a_shape_a_mask_stands_for_whole_blocks() -> None:
    assert BlockPattern.from_mask(torch.ones(3, 2, dtype=torch.bool), (16, 64)).shape == (48, 128)


@BOUNDED
@given(shapes(), st.floats(0.001, 1))
def test_random_patterns_have_the_exact_count(made: tuple, density: float) -> None:
    pattern = BlockPattern.random(*made, density)
    assert pattern.count == max(1, round(density * math.prod(pattern.grid)))
    assert_consistent(pattern, blocks_of(pattern.mask()))


def test_one_seed_gives_one_random_pattern_on_all_devices(device: torch.device) -> None:
    def make(seed: int, on: torch.device | None) -> BlockPattern:
        return BlockPattern.random((512, 640), (32, 16), 0.3, torch.Generator().manual_seed(seed), on)

    assert make(0, device).device.type == device.type
    assert make(0, device) == make(0, None)
    assert make(0, device) != make(1, device)


def test_random_patterns_follow_a_generator_on_the_device(device: torch.device) -> None:
    first, second = (
        BlockPattern.random((512, 640), (32, 16), 0.3, torch.Generator(device).manual_seed(3), device) for _ in "ab"
    )
    assert first == second
    assert BlockPattern.random((512, 640), (32, 16), 0.3, torch.Generator(device)).device.type == device.type


def test_each_block_is_as_likely_in_random_patterns() -> None:
    generator = torch.Generator().manual_seed(0)
    seen = sum(BlockPattern.random((64, 80), (16, 16), 0.4, generator).mask().double() for _ in range(2000)) / 2000
    assert (seen - 0.4).abs().max() < 0.05  # 4.5 standard deviations


@BOUNDED
@given(shapes(most=20), st.integers(1, 25))
def test_a_band_is_what_is_near_the_diagonal_of_a_stretched_square(made: tuple, width: int) -> None:
    pattern = BlockPattern.banded(*made, width)
    (rows, columns), size = pattern.grid, min(pattern.grid)
    blocks = [
        (i, j) for i in range(rows) for j in range(columns) if abs(i * size // rows - j * size // columns) < width
    ]
    assert_consistent(pattern, blocks)


@BOUNDED
@given(shapes(most=20))
def test_a_butterfly_has_the_blocks_whose_numbers_differ_in_a_bit_at_most(made: tuple) -> None:
    pattern = BlockPattern.butterfly(*made)
    (rows, columns), size = pattern.grid, min(pattern.grid)
    blocks = [
        (i, j)
        for i in range(rows)
        for j in range(columns)
        if ((i * size // rows) ^ (j * size // columns)).bit_count() <= 1
    ]
    assert_consistent(pattern, blocks)


@BOUNDED
@given(shapes(most=20))
def test_no_row_or_column_of_a_butterfly_or_a_band_is_empty(made: tuple) -> None:
    for pattern in (BlockPattern.butterfly(*made), BlockPattern.banded(*made, 1)):
        assert pattern.row_offsets.diff().min() > 0
        assert pattern.column_offsets.diff().min() > 0


def test_a_butterfly_holds_the_product_of_butterfly_factors() -> None:
    """The factors have the diagonals of 2x2 blocks: what they have, the flat butterfly has."""
    size = 16
    factors = []
    for distance in (1, 2, 4, 8):
        factor = torch.zeros(size, size, dtype=torch.bool)
        for i in range(size):
            factor[i, i] = factor[i, i ^ distance] = True
        factors.append(factor)
    pattern = BlockPattern.butterfly((size * 32, size * 32), (32, 32))
    assert torch.equal(pattern.mask(), torch.stack(factors).any(0))


def test_a_full_pattern_has_all_blocks(device: torch.device) -> None:
    pattern = BlockPattern.full((100, 50), (32, 16), device)
    assert_consistent(pattern, [(i, j) for i in range(4) for j in range(4)])
    assert pattern.density == 1


@BOUNDED
@given(shapes(), st.floats(0.01, 1), st.sampled_from([torch.float32, torch.bfloat16, torch.int64]), st.data())
def test_the_most_important_blocks_are_kept_and_the_first_of_equal_ones(
    made: tuple, density: float, dtype: torch.dtype, data: st.DataObject
) -> None:
    shape, block = made
    rows, columns = (math.ceil(size / one) for size, one in zip(shape, block, strict=True))
    scores = [data.draw(st.integers(-2, 2)) for _ in range(rows * columns)]
    pattern = BlockPattern.from_importance(torch.tensor(scores, dtype=dtype).view(rows, columns), block, density, shape)
    count = max(1, round(density * rows * columns))
    kept = sorted(sorted(range(len(scores)), key=lambda k: (-scores[k], k))[:count])
    assert_consistent(pattern, [divmod(place, columns) for place in kept])


def test_infinite_scores_are_the_most_and_the_least_important() -> None:
    scores = torch.tensor([[0.0, -math.inf], [math.inf, 1.0]])
    assert BlockPattern.from_importance(scores, (16, 16), 0.25).mask().tolist() == [[False, False], [True, False]]
    assert not BlockPattern.from_importance(scores, (16, 16), 0.75).mask()[0, 1]


def test_scores_may_need_gradients() -> None:
    assert BlockPattern.from_importance(torch.rand(3, 3, requires_grad=True), (16, 16), 0.5).count == 4


def test_a_band_may_be_wider_than_the_grid() -> None:
    assert BlockPattern.banded((64, 128), (16, 16), 2**70) == BlockPattern.full((64, 128), (16, 16))


def test_empty_patterns_are_legal(device: torch.device) -> None:
    empty = BlockPattern.from_mask(torch.zeros(3, 4, dtype=torch.bool, device=device), (16, 32))
    assert_consistent(empty, [])
    assert BlockPattern.from_indices([], [], (48, 128), (16, 32), device=device) == empty
    none = torch.empty(0, 16, 32, device=device, requires_grad=True)
    assert not empty.to_dense(none).any()
    assert empty.from_dense(torch.ones(2, 48, 128, device=device)).shape == (2, 0, 16, 32)
    assert not empty.to_bsr(none).to_dense().any()
    assert empty.transpose().transpose() == empty
    assert not empty.element_mask().any()


def test_patterns_are_made_where_their_input_is(device: torch.device) -> None:
    mask = torch.ones(2, 2, dtype=torch.bool, device=device)
    indices = torch.arange(2, device=device)
    for pattern in (
        BlockPattern.from_mask(mask, (16, 16)),
        BlockPattern.from_indices(indices, indices, (32, 32), (16, 16)),
        BlockPattern.from_indices([0, 1], [0, 1], (32, 32), (16, 16), device=device),
        BlockPattern.from_importance(mask.float(), (16, 16), 0.5),
        BlockPattern.banded((32, 32), (16, 16), 1, device),
        BlockPattern.butterfly((32, 32), (16, 16), device),
    ):
        assert {indices.device.type for indices in [*pattern.tensors(), pattern.mask()]} == {device.type}


def test_lists_and_random_choices_are_moved_to_the_device_that_is_named(device: torch.device) -> None:
    on_device, on_cpu = torch.arange(2, device=device), torch.arange(2)
    for rows, to in ((on_device, "cpu"), (on_cpu, device), (on_cpu.tolist(), device)):
        pattern = BlockPattern.from_indices(rows, rows, (32, 32), (16, 16), device=to)
        assert pattern.device.type == torch.device(to).type
        assert_consistent(pattern, [(0, 0), (1, 1)])
    drawn = BlockPattern.random((640, 640), (16, 16), 0.3, torch.Generator(device), "cpu")
    assert_consistent(drawn, blocks_of(drawn.mask()))


def test_lists_go_to_the_default_device() -> None:
    with torch.device("meta"):
        assert BlockPattern.from_indices([0], [0], (16, 16), (16, 16)).device.type == "meta"
        assert BlockPattern.banded((64, 64), (16, 16), 1).device.type == "meta"


# Views of a pattern, and matrices


@BOUNDED
@given(patterns())
def test_the_transposed_pattern_is_that_of_the_transposed_mask(pattern: BlockPattern) -> None:
    turned = pattern.transpose()
    assert turned.shape == pattern.shape[::-1]
    assert turned.block_shape == pattern.block_shape[::-1]
    assert_consistent(turned, blocks_of(pattern.mask().t()))
    values = torch.rand(pattern.count, *pattern.block_shape)
    assert torch.equal(turned.to_dense(values[pattern.column_blocks].mT), pattern.to_dense(values).t())
    assert turned.transpose() == pattern


@BOUNDED
@given(patterns())
def test_elements_of_blocks_lie_where_loops_put_them(pattern: BlockPattern) -> None:
    values = torch.rand(pattern.count, *pattern.block_shape, dtype=torch.float64)
    dense = pattern.to_dense(values)
    assert torch.equal(dense, dense_of(pattern, values))
    assert torch.equal(pattern.from_dense(dense), values * inside(pattern))
    assert torch.equal(pattern.element_mask(), dense_of(pattern, torch.ones_like(values)) > 0)


def test_matrices_and_values_may_be_batches() -> None:
    pattern = BlockPattern.random((40, 70), (16, 32), 0.5)
    values = torch.rand(2, 3, pattern.count, 16, 32)
    dense = pattern.to_dense(values)
    assert dense.shape == (2, 3, 40, 70)
    assert torch.equal(dense[1, 2], pattern.to_dense(values[1, 2]))
    assert torch.equal(pattern.from_dense(dense)[1, 2], pattern.from_dense(dense[1, 2]))
    assert pattern.from_dense(dense).is_contiguous()
    assert torch.equal(torch.vmap(pattern.to_dense)(values[0]), dense[0])
    assert torch.equal(torch.vmap(pattern.from_dense)(dense[0]), pattern.from_dense(dense[0]))


def test_matrices_may_have_any_strides() -> None:
    pattern = BlockPattern.random((40, 70), (16, 32), 0.5)
    dense = torch.rand(70, 40).t()
    assert torch.equal(pattern.from_dense(dense), pattern.from_dense(dense.contiguous()))
    values = torch.rand(pattern.count, 32, 16).mT
    assert torch.equal(pattern.to_dense(values), pattern.to_dense(values.contiguous()))


def test_going_to_a_dense_matrix_and_back_is_differentiable() -> None:
    pattern = BlockPattern.from_indices([0, 1], [1, 0], (20, 24), (16, 16))
    values = torch.rand(2, 16, 16, dtype=torch.float64, requires_grad=True)
    dense = torch.rand(20, 24, dtype=torch.float64, requires_grad=True)
    for function, argument in ((pattern.to_dense, values), (pattern.from_dense, dense)):
        assert gradcheck(function, argument, fast_mode=True)
        assert gradgradcheck(function, argument, fast_mode=True)


def test_patterns_and_their_matrices_are_deterministic(device: torch.device) -> None:
    torch.use_deterministic_algorithms(True)  # what is not would raise
    try:
        pattern = BlockPattern.random((200, 300), (16, 32), 0.3, device=device)
        values = torch.rand(pattern.count, 16, 32, device=device, requires_grad=True)
        pattern.from_dense(pattern.to_dense(values)).sum().backward()
        assert BlockPattern.from_mask(pattern.mask(), (16, 32), pattern.shape) == pattern
        assert BlockPattern.from_indices(pattern.rows, pattern.columns, pattern.shape, (16, 32)) == pattern
        assert pattern.transpose().transpose() == pattern
    finally:
        torch.use_deterministic_algorithms(False)


def test_what_lies_outside_the_shape_has_no_gradient() -> None:
    pattern = BlockPattern.full((20, 40), (16, 32))
    values = torch.ones(4, 16, 32, dtype=torch.float64, requires_grad=True)
    pattern.to_dense(values).sum().backward()
    assert torch.equal(values.grad, inside(pattern))
