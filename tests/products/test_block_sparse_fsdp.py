"""``BlockSparseLinear`` and ``PatternSchedule`` in models that FSDP2 (``fully_shard``) has sharded over two ranks.

Two processes go through all claims, in one test: to start them takes longer than what they do.
"""

from __future__ import annotations

import copy
import datetime
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from devices import needs_cuda
from long_tests import dear_test

from torch_slang.nn import BlockSparseLinear, PatternSchedule, sparsify
from torch_slang.products import sharded as sharding

dist = pytest.importorskip("torch.distributed")
if not dist.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)

import torch.distributed.checkpoint as dcp  # noqa: E402
from torch.distributed.checkpoint.state_dict import (  # noqa: E402
    StateDictOptions,
    get_model_state_dict,
    set_model_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, fully_shard  # noqa: E402
from torch.distributed.tensor import Shard  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

Tensor = torch.Tensor
Claim = Callable[[Path], None]
RANKS = 2
FULL = StateDictOptions(full_state_dict=True)
CLAIMS: list[Claim] = []


def claim(function: Claim) -> Claim:
    CLAIMS.append(function)
    return function


def plain_model(density: float = 0.4, device: str | None = None) -> torch.nn.Sequential:
    """Of 10 and 5 blocks: ranks have 5 and 5 of the first, 3 and 2 of the second, which reach beyond the shape."""
    made = functools.partial(BlockSparseLinear, device=device, dtype=torch.float64)
    return torch.nn.Sequential(
        made(50, 96, density=density, block_shape=(16, 16)),
        torch.nn.Tanh(),
        made(96, 70, density=density * 0.75, block_shape=(32, 16), epilogue="gelu"),
    )


def sharded(model: torch.nn.Module, **options: Any) -> Any:
    if "mesh" not in options:
        options["mesh"] = init_device_mesh("cpu", (RANKS,))
    for module in model.modules():
        if isinstance(module, BlockSparseLinear) and module is not model:
            fully_shard(module, **options)
    return fully_shard(model, **options)


def pair(**options: Any) -> tuple[Any, torch.nn.Sequential]:
    """A sharded model and the same one whole."""
    torch.manual_seed(0)
    whole = plain_model()
    return sharded(copy.deepcopy(whole), **options), whole


def batch(seed: int = 0, width: int = 50, device: str = "cpu") -> Tensor:
    rows = torch.randn(4 * RANKS, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return rows.to(device)


def own(rows: Tensor) -> Tensor:
    return rows.chunk(dist.get_world_size())[dist.get_rank()]


def train_both(model: Any, whole: torch.nn.Module, steps: int, every: int | None = None, device: str = "cpu") -> Any:
    """By Adam, the sharded model on parts of the batch, the other one on all of it; patterns change `every` steps."""
    optimizers = []
    for one, share in ((model, own), (whole, lambda rows: rows)):
        optimizer = torch.optim.Adam(one.parameters(), 0.01)
        schedule = PatternSchedule(one, optimizer, every=every, fraction=0.3) if every else None
        for step in range(steps):
            optimizer.zero_grad()
            one(share(batch(step, device=device))).square().mean().backward()
            optimizer.step()
            one(batch(step, device=device))  # as an evaluation does: FSDP2 leaves weights gathered
            if schedule:
                assert schedule.step() == ((step + 1) % every == 0)
        optimizers.append(optimizer)
    return optimizers


def expect_same(model: Any, whole: torch.nn.Module, **tolerances: float) -> None:
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()
    for (name, part), expected in zip(model.named_parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(part.full_tensor(), expected, msg=lambda m, n=name: f"{n}: {m}", **tolerances)
        if expected.grad is not None:
            torch.testing.assert_close(part.grad.full_tensor(), expected.grad, **tolerances)


# --- layers


@claim
def steps_are_those_of_the_whole_model(_: Path) -> None:
    for options in ({}, {"reshard_after_forward": False}):
        model, whole = pair(**options)
        assert [len(model[i].weight.to_local()) for i in (0, 2)] == [[5, 3], [5, 2]][dist.get_rank()]
        train_both(model, whole, 3)
        expect_same(model, whole)


@claim
def a_rank_may_have_no_block(_: Path) -> None:
    torch.manual_seed(0)
    whole = BlockSparseLinear(32, 16, density=0.5, block_shape=(16, 16), dtype=torch.float64)
    model = sharded(copy.deepcopy(whole))
    assert len(model.weight.to_local()) == [1, 0][dist.get_rank()]
    x = batch(0, 32)
    model(own(x)).square().mean().backward()
    whole(x).square().mean().backward()
    expect_same(model, whole)


@claim
def mixed_precision_computes_in_bfloat16_and_keeps_the_weights(_: Path) -> None:
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model, whole = pair(mp_policy=policy)
    assert model(own(batch())).dtype == torch.bfloat16
    train_both(model, whole, 1)
    for part, expected in zip(model.parameters(), whole.parameters(), strict=True):
        assert part.dtype == part.grad.dtype == torch.float64
        largest = float(expected.grad.abs().max())
        torch.testing.assert_close(part.grad.full_tensor(), expected.grad, rtol=0, atol=0.02 * largest)


@claim
def activations_may_be_computed_again(_: Path) -> None:
    class Again(torch.nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(super().forward, x, use_reentrant=False)

    torch.manual_seed(0)
    whole = plain_model()
    model = sharded(Again(*copy.deepcopy(whole)))
    train_both(model, whole, 2)
    expect_same(model, whole)


@claim
def to_dense_gathers_the_weight_and_shares_its_gradient(_: Path) -> None:
    model, whole = pair()
    for i in (0, 2):
        dense, expected = model[i].to_dense(), whole[i].to_dense()
        assert torch.equal(dense, expected)
        dense.square().sum().backward()
        expected.square().sum().backward()
        assert model[i].weight.grad.shape == whole[i].weight.shape


@claim
def a_layer_without_memory_gets_one_pattern_on_all_ranks(_: Path) -> None:
    model = sharded(plain_model(device="meta"))
    model.to_empty(device="cpu")
    torch.manual_seed(dist.get_rank())
    for i in (0, 2):
        model[i].reset_parameters()
        indices = torch.cat(model[i]._indices())
        first = indices.clone()
        dist.broadcast(first, 0)
        assert torch.equal(indices, first)
        weight, pattern = model[i].weight.full_tensor(), model[i].pattern
        assert torch.equal(pattern.from_dense(pattern.to_dense(weight)), weight)  # zero outside of the shape
        assert weight.count_nonzero() > 0.5 * weight.numel()
    same = model(batch())
    first = same.detach().clone()
    dist.broadcast(first, 0)
    assert torch.equal(same, first)


@claim
def a_linear_is_made_sparse_before_it_is_sharded(_: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(32, 32))
    fully_shard(model, mesh=init_device_mesh("cpu", (RANKS,)))
    with pytest.raises(ValueError, match="expected the linear's weight to be whole, but it is sharded: sparsify first"):
        sparsify(model, {"0": 0.5}, (16, 16))


# --- state dicts


def other_model(density: float = 0.4) -> Any:
    """Other patterns, sharded."""
    torch.manual_seed(1)
    return sharded(plain_model(density))


@claim
def state_dicts_bring_their_pattern(_: Path) -> None:
    model, whole = pair()
    is_first = dist.get_rank() == 0
    for state, options in [
        (get_model_state_dict(model), None),
        (get_model_state_dict(model, options=FULL), FULL),
        (whole.state_dict() if is_first else {}, StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)),
    ]:
        other = other_model()
        assert other[0].pattern != whole[0].pattern
        set_model_state_dict(other, state, options=options)
        assert other[0].pattern == whole[0].pattern
        expect_same(other, whole)
        assert torch.equal(other(batch()), model(batch()))
    gathered = get_model_state_dict(model, options=FULL)
    torch.manual_seed(2)
    again = plain_model()
    again.load_state_dict(gathered)
    assert torch.equal(again(batch()), whole(batch()))


@claim
def a_model_without_memory_is_loaded(_: Path) -> None:
    model, _whole = pair()
    for assign in (False, True):
        other = sharded(plain_model(device="meta"))
        if not assign:
            other.to_empty(device="cpu")
        other.load_state_dict(model.state_dict(), assign=assign)
        assert torch.equal(other(batch()), model(batch()))


@claim
def checkpoints_in_files_bring_their_pattern(folder: Path) -> None:
    model, whole = pair()
    dcp.save({"model": get_model_state_dict(model)}, checkpoint_id=folder / "saved")
    other = other_model()
    state = {"model": get_model_state_dict(other)}
    dcp.load(state, checkpoint_id=folder / "saved")
    set_model_state_dict(other, state["model"])
    assert other[2].pattern == whole[2].pattern
    assert torch.equal(other(batch()), model(batch()))


@claim
def a_state_dict_of_another_density_is_refused(_: Path) -> None:
    model, other = pair()[0], other_model(0.8)
    before = model[0].pattern
    for options in (None, FULL):
        state = get_model_state_dict(other, options=options)
        with pytest.raises(RuntimeError, match=r"0.weight to have 10 blocks .* has shape \[19, 16, 16\]") as error:
            set_model_state_dict(model, state, options=options)
        assert "Missing" not in str(error.value)
        assert model[0].pattern == before


# --- schedules


def expect_same_schedule(model: Any, whole: torch.nn.Module, every: int = 2) -> None:
    """Patterns, values, gradients and what the optimiser knows, over several changes."""
    before = [whole[i].pattern for i in (0, 2)]
    sharded_optimizer, optimizer = train_both(model, whole, 5, every)
    for i, old in zip((0, 2), before, strict=True):
        assert model[i].pattern == whole[i].pattern != old
        assert torch.equal(torch.cat(model[i]._indices()), torch.cat(whole[i].pattern.tensors()))
        known, expected = sharded_optimizer.state[model[i].weight], optimizer.state[whole[i].weight]
        for name in ("exp_avg", "exp_avg_sq"):
            torch.testing.assert_close(known[name].full_tensor(), expected[name])
    expect_same(model, whole)


@claim
def a_schedule_changes_what_it_changes_in_the_whole_model(_: Path) -> None:
    expect_same_schedule(*pair())


@claim
def a_schedule_changes_weights_that_a_forward_left_gathered(_: Path) -> None:
    expect_same_schedule(*pair(reshard_after_forward=False), every=1)


@claim
def a_schedule_changes_weights_that_are_sharded_by_rows(_: Path) -> None:
    expect_same_schedule(*pair(shard_placement_fn=lambda parameter: Shard(parameter.dim() - 1)))


@claim
def a_schedule_changes_weights_of_a_mesh_with_replicas(_: Path) -> None:
    for sizes in ((1, RANKS), (RANKS, 1)):
        mesh = init_device_mesh("cpu", sizes, mesh_dim_names=("replicate", "shard"))
        expect_same_schedule(*pair(mesh=mesh))


@claim
def a_schedule_works_with_mixed_precision(_: Path) -> None:
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, output_dtype=torch.float32)
    model, _whole = pair(mp_policy=policy)
    before = model[2].pattern
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    schedule = PatternSchedule(model, optimizer, every=1)
    model(own(batch())).square().mean().backward()
    optimizer.step()
    assert schedule.step()
    assert model[2].pattern != before
    places = model[2].pattern._places()
    first = places.clone()
    dist.broadcast(first, 0)
    assert torch.equal(places, first)


@claim
def patterns_that_differ_between_ranks_are_refused(_: Path) -> None:
    torch.manual_seed(dist.get_rank())
    model = sharded(plain_model())
    schedule = PatternSchedule(model, torch.optim.SGD(model.parameters(), 0.01), every=1)
    model(own(batch())).square().mean().backward()
    with pytest.raises(RuntimeError, match="expected 0 to have one pattern on all ranks, but they differ"):
        schedule.step()


# --- the ranks


def go_through_claims(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=RANKS,
        timeout=datetime.timedelta(seconds=60),
    )
    for function in CLAIMS:
        try:
            function(folder)
        except BaseException as error:
            error.add_note(f"This was claim {function.__name__} on rank {rank}.")
            raise
    dist.destroy_process_group()


@dear_test
def test_claims_hold_on_two_ranks(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(go_through_claims, (tmp_path,), RANKS)


def train_with_weights_on_the_host(_: int, folder: Path) -> None:
    dist.init_process_group("cuda:nccl,cpu:gloo", init_method=f"file://{folder}/meeting", rank=0, world_size=1)
    torch.manual_seed(0)
    original = plain_model(device="cuda")
    mesh = init_device_mesh("cuda", (1,))
    model = sharded(copy.deepcopy(original), mesh=mesh, offload_policy=CPUOffloadPolicy())
    before = original[0].pattern
    train_both(model, original, 3, 2, "cuda")
    assert model[0].pattern == original[0].pattern != before
    for part, expected in zip(model.parameters(), original.parameters(), strict=True):
        torch.testing.assert_close(sharding.whole(part), expected)
    dist.destroy_process_group()


@needs_cuda
def test_a_schedule_changes_weights_that_lie_on_the_host(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(train_with_weights_on_the_host, (tmp_path,), 1)


def test_flat_weights_are_refused_by_a_schedule() -> None:
    layer = BlockSparseLinear(32, 32, block_shape=(16, 16))
    layer.weight = torch.nn.Parameter(layer.weight.detach().flatten())
    with pytest.raises(
        ValueError, match=r"expected the weight of .* to be \[n, r, c\], but got shape \[512\]: FullySh"
    ):
        PatternSchedule(layer, torch.optim.SGD(layer.parameters(), 0.1), every=1)
