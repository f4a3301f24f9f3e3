"""What block-sparse layers, products and schedules refuse, since a number would be wrong without an error."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch.nn.utils import prune

import torch_slang
from torch_slang import BlockPattern
from torch_slang.nn import BlockSparseLinear, PatternSchedule, sparsify


def test_values_of_other_blocks_are_refused_where_the_grid_fits_too() -> None:
    pattern = BlockPattern.full((16, 16), (16, 16))
    op = torch_slang.block_sparse_mm_with_epilogue(
        "[Differentiable] T f<T : __BuiltinFloatingPointType>(T sum, T b) { return sum + b; }"
    )
    for shape in ((1, 32, 32), (1, 16, 32), (2, 1, 64, 16)):
        x, values = torch.randn(*shape[:-3], 3, 16), torch.randn(shape)
        for call in (
            lambda x=x, values=values: torch_slang.block_sparse_mm(x, values, pattern),
            lambda x=x, values=values: torch_slang.block_sparse_mm(x, values, pattern, True),
            lambda x=x, values=values: torch_slang.block_sparse_mm(x.mT, values, pattern, left=True),
            lambda x=x, values=values: op(x, values, pattern, 1.0),
        ):
            with pytest.raises(RuntimeError, match=r"expected values to have the pattern's blocks \[16, 16\], but got"):
                call()


def test_a_state_dict_of_other_sizes_is_refused_where_its_blocks_fit_too() -> None:
    pattern = BlockPattern.from_indices([0, 1, 2], [0, 1, 2], (48, 80), (16, 16))
    saved = BlockSparseLinear(80, 48, pattern=pattern).state_dict()
    wider = BlockSparseLinear(96, 48, density=3 / 18, block_shape=(16, 16))
    before = copy.deepcopy(wider.state_dict())
    with pytest.raises(RuntimeError, match=r"column_order to have shape \[6\], .* \[48, 96\], but got \[5\]") as error:
        wider.load_state_dict(saved)
    assert "Missing" not in str(error.value)
    for name, value in wider.state_dict().items():
        assert torch.equal(value, before[name])
    higher = BlockSparseLinear(80, 64, False, density=3 / 20, block_shape=(16, 16))
    with pytest.raises(RuntimeError, match=r"row_order to have shape \[4\], .* \[64, 80\], but got \[3\]"):
        higher.load_state_dict(saved, strict=False)


def test_dtypes_that_have_no_product_are_refused() -> None:
    for dtype in (torch.int32, torch.complex64, torch.float8_e4m3fn):
        with pytest.raises(TypeError, match=f"expected dtype to be one of torch.float16, .*, but got {dtype}"):
            BlockSparseLinear(16, 16, dtype=dtype)


def test_the_model_on_meta_takes_parameters_and_patterns_of_others() -> None:
    layers = [BlockSparseLinear(80, 48, density=0.5, block_shape=(16, 16)) for _ in range(2)]
    base = copy.deepcopy(layers[0]).to("meta")
    x = torch.randn(3, 80)
    for layer in layers:
        given = dict(layer.named_parameters()), dict(layer.named_buffers())
        assert torch.equal(torch.func.functional_call(base, given, (x,)), layer(x))
    with pytest.raises(RuntimeError, match="so it has no pattern yet"):
        base(x)


def test_layers_with_hooks_are_not_made_sparse() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Linear(32, 32))
    prune.l1_unstructured(model[1], "weight", 0.5)
    kept = list(model)
    with pytest.raises(ValueError, match=r"expected 1 to have no hooks, .* but it has 1: remove them first"):
        sparsify(model, {"*": 0.5})
    assert list(model) == kept
    prune.remove(model[1], "weight")
    sparsify(model, {"*": 0.5})
    assert isinstance(model[1], BlockSparseLinear)


def test_schedules_of_frozen_weights_are_refused() -> None:
    layer = BlockSparseLinear(64, 64, density=0.5, block_shape=(16, 16))
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    schedule = PatternSchedule(layer, optimizer, every=1)
    layer.weight.requires_grad_(False)
    before = layer.to_dense()
    with pytest.raises(ValueError, match=r"expected the weight of .* to require gradients, .* it is frozen"):
        PatternSchedule(layer, optimizer, every=1)
    layer(torch.randn(4, 64)).sum().backward()  # the bias has a gradient
    with pytest.raises(ValueError, match="it is frozen"):
        schedule.step()
    assert torch.equal(layer.to_dense(), before)


def test_arguments_of_a_schedule_are_checked() -> None:
    layer = BlockSparseLinear(64, 64)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"every": "a"}, "expected every to be a whole number of steps, at least 1, but got 'a'"),
        ({"every": True}, "every to be .* got True"),
        ({"every": float("nan")}, "every to be .* got nan"),
        ({"every": 1, "until": -1}, "expected until to be a whole number of steps, at least 0, but got -1"),
        ({"every": 1, "until": 2.5}, "until to be .* got 2.5"),
        ({"every": 1, "fraction": "x"}, "expected fraction to be between 0 and 1, but got 'x'"),
        ({"every": 1, "fraction": float("nan")}, "fraction to be .* got nan"),
    ]
    for arguments, message in wrong:
        with pytest.raises(ValueError, match=message):
            PatternSchedule(layer, optimizer, **arguments)


def test_a_schedule_moves_what_an_optimiser_knows_of_rows_and_columns_of_blocks() -> None:
    torch.manual_seed(0)
    layer = BlockSparseLinear(64, 64, False, density=0.5, block_shape=(16, 32))
    optimizer = torch.optim.Adafactor(layer.parameters(), 0.01)
    schedule = PatternSchedule(layer, optimizer, every=1, fraction=0.3)
    layer(torch.randn(8, 64)).square().sum().backward()
    optimizer.step()
    before, old = layer.pattern, copy.deepcopy(optimizer.state[layer.weight])
    assert schedule.step()
    places = {place: k for k, place in enumerate(before._places().tolist())}
    for name in ("row_var", "col_var"):
        for k, place in enumerate(layer.pattern._places().tolist()):
            now = optimizer.state[layer.weight][name][k]
            if place in places:
                assert torch.equal(now, old[name][places[place]])
            else:
                assert not now.any()


def test_what_an_optimiser_knows_otherwise_than_by_blocks_is_refused() -> None:
    layer = BlockSparseLinear(64, 64, density=0.5, block_shape=(16, 16))
    optimizer = torch.optim.LBFGS(layer.parameters(), max_iter=2)
    schedule = PatternSchedule(layer, optimizer, every=1)
    x, before = torch.randn(4, 64), layer.pattern

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = layer(x).square().sum()
        value.backward()
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    with pytest.raises(RuntimeError, match=r"expected .* to be tensors \[8, ...\] by blocks, .* of LBFGS has shape"):
        schedule.step()
    assert layer.pattern == before
