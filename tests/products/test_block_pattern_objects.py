"""Patterns of blocks as objects: torch's BSR, equality, copies, pickles, compilers, pictures."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable

import pytest
import torch
from block_patterns import assert_consistent, blocks_of

from torch_slang import BlockPattern

Tensor = torch.Tensor
# torch says so at the first one of a process.
pytestmark = pytest.mark.filterwarnings("ignore:Sparse BSR tensor support is in beta")


# torch's BSR


@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
def test_patterns_and_values_of_bsr_are_those_of_the_matrix(device: torch.device, index_dtype: torch.dtype) -> None:
    matrix = torch.rand(96, 128, device=device) * (torch.rand(6, 4, device=device) < 0.5).repeat_interleave(
        16, 0
    ).repeat_interleave(32, 1)
    matrix[16:32] = 0
    bsr = matrix.to_sparse_bsr((16, 32))
    crow, col = bsr.crow_indices().to(index_dtype), bsr.col_indices().to(index_dtype)
    bsr = torch.sparse_bsr_tensor(crow, col, bsr.values(), size=bsr.shape, check_invariants=True)
    pattern, values = BlockPattern.from_bsr(bsr)
    assert values.data_ptr() == bsr.values().data_ptr()
    assert_consistent(pattern, blocks_of(pattern.mask()))
    assert torch.equal(pattern.row_offsets, crow.int())
    assert torch.equal(pattern.columns, col.int())
    assert torch.equal(pattern.to_dense(values), matrix)


def test_bsr_of_a_pattern_shares_values_and_indices(device: torch.device) -> None:
    pattern = BlockPattern.random((96, 128), (16, 32), 0.4, device=device)
    values = torch.rand(pattern.count, 16, 32, device=device)
    bsr = pattern.to_bsr(values)
    torch._validate_sparse_bsr_tensor_args(bsr.crow_indices(), bsr.col_indices(), bsr.values(), bsr.shape)
    for theirs, ours in (
        (bsr.values(), values),
        (bsr.crow_indices(), pattern.row_offsets),
        (bsr.col_indices(), pattern.columns),
    ):
        assert theirs.data_ptr() == ours.data_ptr()
    assert torch.equal(bsr.to_dense(), pattern.to_dense(values))
    again, same = BlockPattern.from_bsr(bsr)
    assert again == pattern
    assert same.data_ptr() == values.data_ptr()


def test_gradients_go_through_bsr_and_back() -> None:
    pattern = BlockPattern.random((64, 64), (16, 16), 0.4)
    values = torch.rand(pattern.count, 16, 16, requires_grad=True)
    _, same = BlockPattern.from_bsr(pattern.to_bsr(values))
    (same * 3).sum().backward()
    assert torch.equal(values.grad, torch.full_like(values, 3))


# Identity, copies, pickles, compilers


def test_patterns_are_equal_by_content() -> None:
    mask = torch.eye(4) > 0
    pattern = BlockPattern.from_mask(mask, (16, 16))
    same = BlockPattern.banded((64, 64), (16, 16), 1)
    assert pattern == same
    assert hash(pattern) == hash(same)
    assert len({pattern, same}) == 1
    assert pattern != BlockPattern.from_mask(mask.flip(0), (16, 16))
    assert pattern != BlockPattern.from_mask(mask, (16, 32))
    assert pattern != BlockPattern.from_mask(mask, (16, 16), (64, 63))
    assert pattern != "a pattern"


def test_patterns_on_two_devices_are_equal_by_content(device: torch.device) -> None:
    pattern = BlockPattern.random((640, 640), (16, 32), 0.3)
    moved = pattern.to(device)
    assert moved.device.type == device.type
    assert moved == pattern == moved.to("cpu")
    assert hash(moved) == hash(pattern)
    assert moved.to(moved.device) is moved


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_and_pickles_are_the_pattern(again: Callable, device: torch.device) -> None:
    pattern = BlockPattern.random((200, 300), (16, 32), 0.3, device=device)
    made = again(pattern)
    assert type(made) is BlockPattern
    assert (made.shape, made.block_shape, made.device) == (pattern.shape, pattern.block_shape, pattern.device)
    assert all(torch.equal(a, b) for a, b in zip(made.tensors(), pattern.tensors(), strict=True))


def test_torch_saves_and_loads_patterns(device: torch.device) -> None:
    pattern = BlockPattern.random((200, 300), (16, 32), 0.3, device=device)
    file = io.BytesIO()
    torch.save({"pattern": pattern}, file)
    file.seek(0)
    assert torch.load(file, weights_only=False)["pattern"] == pattern
    file.seek(0)
    assert torch.load(file, weights_only=False, map_location="cpu")["pattern"].device.type == "cpu"
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="block_pattern"):  # its indices would be believed
        torch.load(file)


@pytest.mark.parametrize("name", ["shape", "columns", "anything"])
def test_patterns_cannot_be_changed(name: str) -> None:
    with pytest.raises(AttributeError, match=name):
        setattr(BlockPattern.full((64, 64), (16, 16)), name, None)


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pattern = BlockPattern.random((40, 70), (16, 32), 0.5)
        self.values = torch.nn.Parameter(torch.randn(self.pattern.count, 16, 32))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.pattern.to_dense(self.values).t() * self.pattern.density


@pytest.mark.usefixtures("fresh_dynamo")
def test_compiled_and_exported_modules_carry_a_pattern() -> None:
    layer, x = Layer(), torch.randn(3, 70)
    torch.testing.assert_close(torch.compile(layer, fullgraph=True, backend="aot_eager")(x), layer(x))
    torch.testing.assert_close(torch.export.export(layer, (x,)).module()(x), layer(x))


@pytest.mark.usefixtures("fresh_dynamo")
def test_a_pattern_is_an_argument_of_compiled_functions() -> None:
    compiled = torch.compile(lambda p, v: (p.to_dense(v), p.tensors()), fullgraph=True, backend="aot_eager")
    for density in (0.25, 0.5, 0.75):
        pattern = BlockPattern.random((40, 70), (16, 32), density)
        values = torch.randn(pattern.count, 16, 32)
        dense, tensors = compiled(pattern, values)
        assert torch.equal(dense, pattern.to_dense(values))
        assert all(torch.equal(a, b) for a, b in zip(tensors, pattern.tensors(), strict=True))


def test_patterns_of_known_counts_have_shapes_without_data() -> None:
    pattern = BlockPattern.random((200, 300), (16, 32), 0.3, device="meta")
    assert [tuple(one.shape) for one in pattern.tensors()] == [
        tuple(one.shape) for one in BlockPattern.random((200, 300), (16, 32), 0.3).tensors()
    ]
    values = torch.empty(pattern.count, 16, 32, device="meta")
    assert pattern.to_dense(values).shape == (200, 300)


# Pictures


def drawn(mask: list[str], **kwargs: object) -> list[str]:
    made = torch.tensor([[one == "x" for one in row] for row in mask])
    return BlockPattern.from_mask(made, (16, 16)).draw().split("\n")


def test_a_picture_has_two_blocks_in_a_character() -> None:
    assert drawn(["xx..", "x.x.", "...x"]) == ["┌────┐", "│█▀▄ │", "│   ▀│", "└────┘"]


@pytest.mark.parametrize(("grid", "inner"), [((300, 200), (38, 50)), ((96, 96), (48, 96)), ((97, 3), (25, 2))])
def test_pictures_of_large_patterns_fit_a_terminal(grid: tuple[int, int], inner: tuple[int, int]) -> None:
    lines = BlockPattern.full((grid[0] * 16, grid[1] * 16), (16, 16)).draw().split("\n")
    assert lines[1:-1] == ["│" + "█" * inner[1] + "│"] * inner[0]


def test_shades_say_blank_for_none_and_full_for_all_only() -> None:
    mask = torch.zeros(4, 200, dtype=torch.bool)  # 3 blocks across a character, 6 down of which 4 are there
    mask[:, :3] = True
    mask[:, 3:6] = True
    mask[0, 3] = False
    mask[0, 6] = True
    mask[:2, 9:12] = True
    line = BlockPattern.from_mask(mask, (16, 16)).draw().split("\n")[1]
    assert line == "│█▓░▒" + " " * 63 + "│"


def test_the_picture_is_of_any_device(device: torch.device) -> None:
    assert BlockPattern.banded((64, 64), (16, 16), 1, device).draw() == "┌────┐\n│▀▄  │\n│  ▀▄│\n└────┘"


def test_repr_says_shape_blocks_and_density() -> None:
    assert repr(BlockPattern.banded((96, 64), (16, 32), 1)) == (
        "BlockPattern(shape=(96, 64), block_shape=(16, 32), count=6, density=0.5, device='cpu')"
    )
