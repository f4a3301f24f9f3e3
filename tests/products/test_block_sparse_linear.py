"""``torch_slang.nn.BlockSparseLinear``, ``sparsify`` and ``PatternSchedule``."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch
from devices import DEVICES
from long_tests import dear_test

from torch_slang import BlockPattern
from torch_slang.nn import BlockSparseLinear, PatternSchedule, sparsify

pytestmark = pytest.mark.usefixtures("seeded")

Tensor = torch.Tensor


def dense_of(layer: BlockSparseLinear) -> torch.nn.Linear:
    linear = torch.nn.Linear(layer.in_features, layer.out_features, layer.bias is not None)
    linear.to(layer.weight.device, layer.weight.dtype)
    with torch.no_grad():
        linear.weight.copy_(layer.to_dense())
        if layer.bias is not None:
            linear.bias.copy_(layer.bias)
    return linear


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("sizes", [(64, 96), (50, 70), (1, 300)], ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_is_a_linear_of_its_dense_weight(bias: bool, sizes: tuple[int, int], device: str) -> None:
    layer = BlockSparseLinear(*sizes, bias, density=0.5, block_shape=(16, 32), device=device, dtype=torch.float64)
    linear = dense_of(layer)
    for leading in ((), (1,), (3, 5)):
        x = torch.randn(*leading, sizes[0], dtype=torch.float64, device=device, requires_grad=True)
        y, expected = layer(x), linear(x)
        torch.testing.assert_close(y, expected)
        grad = torch.randn_like(y)
        got = torch.autograd.grad(y, [x, *layer.parameters()], grad)
        want = torch.autograd.grad(expected, [x, *linear.parameters()], grad)
        torch.testing.assert_close(got[0], want[0])
        torch.testing.assert_close(layer.pattern.to_dense(got[1]), want[1] * layer.pattern.element_mask())
        if bias:
            torch.testing.assert_close(got[2], want[2])


def test_first_values_vary_as_those_of_a_dense_layer() -> None:
    layer = BlockSparseLinear(1024, 512, density=0.25)
    dense = torch.nn.Linear(1024, 512)
    assert layer.weight.shape == (0.25 * 32 * 16, 32, 32)
    x = torch.randn(256, 1024)
    assert float(layer(x).detach().std()) == pytest.approx(float(dense(x).detach().std()), rel=0.1)
    ragged = BlockSparseLinear(50, 70, density=1.0)
    torch.testing.assert_close(ragged.pattern.from_dense(ragged.to_dense()), ragged.weight)  # zero outside


def test_a_linear_keeps_its_most_important_blocks() -> None:
    linear = torch.nn.Linear(128, 64)
    with torch.no_grad():
        linear.weight[:32, 64:96] *= 10
        linear.weight[32:, :32] *= 5
    layer = BlockSparseLinear.from_linear(linear, density=0.25)
    assert layer.pattern.mask().tolist() == [[False, False, True, False], [True, False, False, False]]
    torch.testing.assert_close(layer.to_dense(), linear.weight * layer.pattern.element_mask())
    assert torch.equal(layer.bias, linear.bias)
    assert linear.weight.shape == (64, 128)
    linear.bias.requires_grad_(False)
    assert not BlockSparseLinear.from_linear(linear).bias.requires_grad

    linear.weight.grad = torch.zeros_like(linear.weight)
    linear.weight.grad[:32, 96:] = 1
    by_gradient = BlockSparseLinear.from_linear(linear, density=1 / 8, importance="gradient")
    assert by_gradient.pattern.mask().nonzero().tolist() == [[0, 3]]
    linear.weight.grad = None
    with pytest.raises(ValueError, match=r'importance="gradient" wants the gradient of the weight'):
        BlockSparseLinear.from_linear(linear, importance="gradient")
    with pytest.raises(ValueError, match='expected importance to be "magnitude" or "gradient", but got \'size\''):
        BlockSparseLinear.from_linear(linear, importance="size")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"expected a torch.nn.Linear, but got BlockSparseLinear"):
        BlockSparseLinear.from_linear(layer)  # type: ignore[arg-type]


def test_state_dicts_bring_their_pattern() -> None:
    saved, other = (BlockSparseLinear(128, 64, density=0.5) for _ in range(2))
    assert saved.pattern != other.pattern
    stream = io.BytesIO()
    torch.save(saved.state_dict(), stream)
    stream.seek(0)
    other.load_state_dict(torch.load(stream))
    assert other.pattern == saved.pattern
    x = torch.randn(3, 128)
    assert torch.equal(other(x), saved(x))
    with pytest.raises(RuntimeError, match=r"weight to have 2 blocks \[32, 32\] .* but it has shape \[4, 32, 32\]"):
        BlockSparseLinear(128, 64, density=0.25).load_state_dict(saved.state_dict())
    copied = copy.deepcopy(saved)
    with torch.no_grad():
        copied.weight.zero_()
    assert not torch.equal(copied(x), saved(x))


def test_indices_of_a_damaged_state_dict_are_refused() -> None:
    layer = BlockSparseLinear(128, 64, density=0.5)
    for name, value, message in [
        ("columns", 4, r"columns: .*from_indices: expected columns to be"),
        ("rows", -1, r"rows and columns: .*from_indices: expected rows to be"),
        ("columns", 0, r"rows and columns: .*from_indices: expected"),
    ]:
        state = copy.deepcopy(layer.state_dict())
        state[name][:] = value
        with pytest.raises(RuntimeError, match=message):
            layer.load_state_dict(state)
    state = copy.deepcopy(layer.state_dict())
    state["column_blocks"][:] = 10_000  # follows from the others
    before = layer.pattern
    layer.load_state_dict(state)
    assert layer.pattern == before
    assert torch.equal(layer.column_blocks, before.column_blocks)


def test_a_layer_made_without_memory_draws_its_pattern_later() -> None:
    layer = BlockSparseLinear(128, 64, density=0.5, device="meta")
    assert layer(torch.empty(3, 128, device="meta")).shape == (3, 64)
    layer.to_empty(device="cpu")
    with pytest.raises(RuntimeError, match=r'was on the device "meta", so it has no pattern yet'):
        layer(torch.randn(3, 128))
    layer.reset_parameters()
    assert layer.pattern.count == 4
    x = torch.randn(3, 128)
    torch.testing.assert_close(layer(x), x @ layer.to_dense().mT + layer.bias)


def test_a_layer_that_lost_its_memory_has_no_pattern() -> None:
    layer = BlockSparseLinear(128, 64, density=0.5)
    saved = copy.deepcopy(layer.state_dict())
    layer.to("meta").to_empty(device="cpu")
    for indices in layer._indices():
        indices.fill_(12345)
    with pytest.raises(RuntimeError, match="so it has no pattern yet"):
        layer(torch.randn(3, 128))
    layer.load_state_dict(saved)
    layer(torch.randn(3, 128))
    layer.to("meta")
    with pytest.warns(UserWarning, match="meta"):
        layer.load_state_dict(saved)  # into nothing
    layer.to_empty(device="cpu")
    with pytest.raises(RuntimeError, match="so it has no pattern yet"):
        layer(torch.randn(3, 128))
    layer.load_state_dict(saved, assign=True)
    layer(torch.randn(3, 128))


def test_a_weight_without_its_indices_is_refused() -> None:
    layer = BlockSparseLinear(128, 64, density=0.5)
    before = layer.to_dense().detach().clone()
    other = BlockSparseLinear(128, 64, density=0.5).state_dict()
    for names in (["weight"], ["weight", "rows"], ["column_blocks"]):
        state = {name: other[name] for name in names}
        with pytest.raises(
            RuntimeError, match="expected the state dict to have weight, rows and columns, or none of them"
        ):
            layer.load_state_dict(state, strict=False)
        assert torch.equal(layer.to_dense(), before)


@pytest.mark.parametrize("device", DEVICES)
def test_autocast(device: str) -> None:
    layer = BlockSparseLinear(96, 64, device=device)
    x = torch.randn(3, 96, device=device)
    with torch.autocast(device, torch.bfloat16):
        y = layer(x)
    assert y.dtype == torch.bfloat16
    y.float().sum().backward()
    for parameter in layer.parameters():
        assert parameter.grad is not None
        assert parameter.grad.dtype == torch.float32
    torch.testing.assert_close(y.float(), layer(x), rtol=0.02, atol=0.02)


def test_arguments_that_do_not_fit_are_refused() -> None:
    pattern = BlockPattern.full((64, 128), (32, 32))
    with pytest.raises(ValueError, match=r"expected pattern to have the shape .* = \(128, 64\), but got \(64, 128\)"):
        BlockSparseLinear(64, 128, pattern=pattern)
    with pytest.raises(TypeError, match="expected pattern to be a BlockPattern, but got Tensor"):
        BlockSparseLinear(64, 128, pattern=pattern.mask())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="density"):
        BlockSparseLinear(64, 128, density=1.5)
    with pytest.raises(ValueError, match="block_shape"):
        BlockSparseLinear(64, 128, block_shape=(8, 32))


@dear_test
@pytest.mark.parametrize("device", DEVICES)
def test_script_export_and_compile(device: str) -> None:
    layer = BlockSparseLinear(96, 64, density=0.5, device=device)
    x = torch.randn(2, 5, 96, device=device)
    expected = layer(x)
    torch.testing.assert_close(torch.jit.script(layer)(x), expected)
    torch.testing.assert_close(torch.jit.trace(layer, x)(x[:1]), expected[:1])
    batch = torch.export.Dim("batch", min=2)
    exported = torch.export.export(layer, (x,), dynamic_shapes=({0: batch},))
    torch.testing.assert_close(exported.module()(x.repeat(2, 1, 1)), expected.repeat(2, 1, 1))
    compiled = torch.compile(layer, fullgraph=True)
    torch.testing.assert_close(compiled(x), expected)
    compiled(x).sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.shape == layer.weight.shape


def small_model() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 8))
    )


def test_sparsify_replaces_layers_by_name() -> None:
    model = small_model()
    kept = model[2][1]
    assert sparsify(model, {"2.0": 0.5, "0*": 1.0}, block_shape=(16, 16)) is model
    assert isinstance(model[0], BlockSparseLinear)
    assert isinstance(model[2][0], BlockSparseLinear)
    assert model[0].pattern.density == 1
    assert model[2][0].pattern.count == 8
    assert model[2][1] is kept
    for densities, message in [
        ({"2.1": 0.5, "*.mlp": 0.5, "1": 0.5}, r"'\*.mlp', '1' fits none of 2.1"),
        ({"*": 0.5, "2.1": 0.25}, r"those that '2.1' fits are chosen by one in front of it"),
        ({"*": 1.5}, r"layer 2.1: .*expected density to be in \(0, 1\], but got 1.5"),
    ]:
        with pytest.raises(ValueError, match=message):
            sparsify(model, densities, block_shape=(16, 16))
        assert model[2][1] is kept
    with pytest.raises(ValueError, match="fits none of a model that has none"):
        sparsify(torch.nn.ReLU(), {"*": 0.5})


def test_sparsify_replaces_all_or_nothing() -> None:
    model = small_model()
    layers = [model[0], model[2][0], model[2][1]]
    layers[0].weight.grad = torch.ones_like(layers[0].weight)
    with pytest.raises(ValueError, match=r'layer 2.0: .*importance="gradient" wants the gradient'):
        sparsify(model, {"*": 0.5}, (16, 16), importance="gradient")
    assert [model[0], model[2][0], model[2][1]] == layers


def test_sparsify_of_layers_that_are_shared() -> None:
    shared = torch.nn.Linear(32, 32)
    model = torch.nn.Sequential(shared, torch.nn.ReLU(), shared)
    sparsify(model, {"0": 0.5}, (16, 16))
    assert isinstance(model[0], BlockSparseLinear)
    assert model[0] is model[2]
    tied = torch.nn.ModuleDict({"embedding": torch.nn.Embedding(64, 32), "head": torch.nn.Linear(32, 64, False)})
    tied["head"].weight = tied["embedding"].weight
    with pytest.raises(ValueError, match="the weight of head is a parameter of embedding too"):
        sparsify(tied, {"head": 0.5})


def test_sparsify_of_torchs_transformer() -> None:
    layer = torch.nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
    with pytest.raises(
        ValueError, match=r"linear1 is a part of torch.nn.TransformerEncoderLayer, .*set_fastpath_enabled"
    ):
        sparsify(layer, {"linear*": 0.5}, (16, 16))
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        sparsify(layer, {"linear*": 0.5}, (16, 16)).eval()
        with torch.no_grad():
            assert layer(torch.randn(2, 5, 32)).shape == (2, 5, 32)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


# --- schedules


def train(layer: BlockSparseLinear, optimizer: Any, schedule: PatternSchedule, steps: int) -> list[bool]:
    changed = []
    for _ in range(steps):
        optimizer.zero_grad()
        layer(torch.randn(16, layer.in_features, device=layer.weight.device)).square().sum().backward()
        optimizer.step()
        changed.append(schedule.step())
    return changed


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_a_change_drops_small_blocks_and_grows_where_gradients_are_large(kind: str, device: str) -> None:
    pattern = BlockPattern.from_mask(torch.tensor([[1, 1, 0, 0], [0, 1, 1, 0]], dtype=torch.bool), (16, 16)).to(device)
    layer = BlockSparseLinear(64, 32, False, pattern=pattern)
    with torch.no_grad():
        layer.weight[:] = 1
        layer.weight[2] = 0.01  # the block in row 1, column 1
    made: dict[str, Any] = {"sgd": lambda p: torch.optim.SGD(p, 0.0, 0.9), "adam": lambda p: torch.optim.Adam(p, 0.0)}
    optimizer = made[kind](layer.parameters())
    schedule = PatternSchedule(layer, optimizer, every=1, fraction=0.25)
    x, grad = torch.zeros(8, 64, device=device), torch.zeros(8, 32, device=device)
    x[0, :] = 1
    x[1, 48:] = 5  # gradients are largest in the last column,
    grad[0], grad[1, 16:] = 1, 3  # of row 1
    layer(x).backward(grad)
    optimizer.step()
    known = {k: v.clone() for k, v in optimizer.state[layer.weight].items() if v.shape == layer.weight.shape}
    assert schedule.step()
    assert layer.pattern.mask().int().tolist() == [[1, 1, 0, 0], [0, 0, 1, 1]]
    assert layer.weight.detach().amin((1, 2)).tolist() == [1, 1, 1, 0]  # those that stay, and a new one
    assert layer.weight.detach().amax((1, 2)).tolist() == [1, 1, 1, 0]
    assert known
    for name, before in known.items():
        after = optimizer.state[layer.weight][name]
        assert torch.equal(after[[0, 1, 2]], before[[0, 1, 3]])
        assert not after[3].any()
    torch.testing.assert_close(layer(x), x @ layer.to_dense().mT)


def test_patterns_change_every_so_many_steps_and_keep_their_size() -> None:
    layer = BlockSparseLinear(128, 96, density=0.5)
    optimizer = torch.optim.AdamW(layer.parameters(), 0.01)
    schedule = PatternSchedule(layer, optimizer, every=3, fraction=0.3)
    before = layer.pattern
    assert train(layer, optimizer, schedule, 2) == [False, False]
    assert layer.pattern == before
    again = PatternSchedule(layer, optimizer, every=3)
    again.load_state_dict(schedule.state_dict())
    assert again.steps == 2
    assert train(layer, optimizer, schedule, 2) == [True, False]
    after = layer.pattern
    assert after != before
    assert after.count == before.count
    assert BlockPattern.from_mask(after.mask(), (32, 32)) == after


def test_the_dense_gradient_is_computed_in_steps_that_change_alone() -> None:
    layer = BlockSparseLinear(64, 64, density=0.5)
    optimizer = torch.optim.SGD(layer.parameters(), 0.01)
    schedule = PatternSchedule(layer, optimizer, every=2)
    held = []
    for _ in range(4):
        layer(torch.randn(4, 64)).sum().backward()
        held.append(schedule._layers[0].gradient is not None)
        schedule.step()
    assert held == [False, True, False, True]


def test_schedules_that_cannot_work_are_refused() -> None:
    layer = BlockSparseLinear(64, 64)
    optimizer = torch.optim.SGD(layer.parameters(), 0.01)
    for arguments, message in [
        ({"every": 0}, "expected every to be a whole number of steps, at least 1, but got 0"),
        ({"every": 2.5}, "expected every to be a whole number of steps, at least 1, but got 2.5"),
        ({"every": 1, "fraction": 1.0}, "expected fraction to be between 0 and 1, but got 1.0"),
    ]:
        with pytest.raises(ValueError, match=message):
            PatternSchedule(layer, optimizer, **arguments)
    with pytest.raises(ValueError, match="expected model to have a BlockSparseLinear"):
        PatternSchedule(torch.nn.Linear(3, 3), optimizer, every=1)
    with pytest.raises(RuntimeError, match=r"expected a backward through BlockSparseLinear before step number 1"):
        PatternSchedule(layer, optimizer, every=1).step()
    model = torch.nn.Sequential(torch.nn.Linear(64, 64))
    early = torch.optim.SGD(model.parameters(), 0.01)
    sparsify(model, {"0": 0.5})
    with pytest.raises(ValueError, match="expected optimizer to hold the weight of 0, but it does not"):
        PatternSchedule(model, early, every=1)


def test_a_schedule_ends_and_can_be_taken_off() -> None:
    layer = BlockSparseLinear(128, 96, density=0.5)
    optimizer = torch.optim.SGD(layer.parameters(), 0.01)
    schedule = PatternSchedule(layer, optimizer, every=1, fraction=0.3, until=2)
    assert train(layer, optimizer, schedule, 4) == [True, True, False, False]
    assert schedule._layers[0].gradient is None
    stream = io.BytesIO()
    torch.save(layer, stream)
    stream.seek(0)
    loaded = torch.load(stream, weights_only=False)
    x = torch.randn(2, 128)
    assert torch.equal(loaded(x), layer(x))
    schedule.remove()
    assert not layer._forward_hooks


def test_arguments_by_name_and_gradients_that_are_not_finite() -> None:
    layer = BlockSparseLinear(128, 96, density=0.5)
    optimizer = torch.optim.SGD(layer.parameters(), 0.01)
    schedule = PatternSchedule(layer, optimizer, every=1, fraction=0.3)
    before = layer.pattern
    layer(x=torch.randn(4, 128)).mul(torch.inf).sum().backward()
    assert not schedule.step()
    assert layer.pattern == before
    layer(x=torch.randn(4, 128)).square().sum().backward()
    assert schedule.step()
    assert layer.pattern != before


def test_a_full_pattern_has_nothing_to_change() -> None:
    layer = BlockSparseLinear(64, 64, density=1.0)
    optimizer = torch.optim.SGD(layer.parameters(), 0.01)
    schedule = PatternSchedule(layer, optimizer, every=1)
    assert train(layer, optimizer, schedule, 1) == [False]
    assert layer.pattern.density == 1


RANKS = 2


def rank_of_a_schedule(rank: int, address: str, results: Any) -> None:
    torch.distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=RANKS)
    torch.manual_seed(0)
    layer = BlockSparseLinear(128, 96, density=0.4)
    parallel = torch.nn.parallel.DistributedDataParallel(layer)
    optimizer = torch.optim.Adam(layer.parameters(), 0.01)
    schedule = PatternSchedule(layer, optimizer, every=2, fraction=0.3)
    torch.manual_seed(rank + 1)
    for _ in range(6):
        optimizer.zero_grad()
        (parallel(torch.randn(8, 128)) * torch.randn(96)).sum().backward()
        optimizer.step()
        schedule.step()
    results[rank] = (layer.pattern.mask().tolist(), layer.to_dense().detach().numpy())
    torch.distributed.destroy_process_group()


@dear_test
def test_all_ranks_come_to_the_same_pattern(tmp_path: Any) -> None:
    with torch.multiprocessing.Manager() as manager:
        results = manager.dict()
        torch.multiprocessing.spawn(rank_of_a_schedule, (f"file://{tmp_path}/ranks", results), RANKS)
        (first, weights), (second, others) = results[0], results[1]
    assert first == second
    assert (weights == others).all()
