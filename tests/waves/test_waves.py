"""Threads that meet: waves, barriers and group-shared memory behave on a CPU as they do on a GPU."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from devices import DEVICES

import torch_slang

BLOCK = 96
LENGTHS = [1, 31, 32, 96, 200]  # part of a wave, whole waves, several blocks


@pytest.fixture(scope="module")
def waves() -> torch_slang.Module:
    return torch_slang.load(Path(__file__).with_name("waves.slang"), namespace="waves")


def waves_of(count: int) -> Iterator[slice]:
    """The elements that each wave holds; no wave reaches over the end of its block."""
    for block in range(0, count, BLOCK):
        for wave in range(block, min(block + BLOCK, count), 32):
            yield slice(wave, min(wave + 32, block + BLOCK, count))


def by_wave(values: np.ndarray, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    return np.concatenate(
        [np.broadcast_to(function(values[part]), values[part].shape) for part in waves_of(len(values))]
    )


def exclusive(function: Callable[[np.ndarray], np.ndarray], first: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda v: np.concatenate([[first], function(v)[:-1]])


def diverged(v: np.ndarray) -> np.ndarray:
    positive, large = v[v > 0], np.cumsum(v > 1) - (v > 1)
    low = -v[v <= 0].min() if (v <= 0).any() else 0
    return np.where(v > 0, positive.sum() + np.where(v > 1, 1000.0 * large, 0), low)


def lanes_left(v: np.ndarray) -> np.ndarray:
    turns = np.trunc(np.abs(v) * 2)
    return np.array([sum((turns > turn).sum() for turn in range(int(own))) for own in turns], dtype=np.float64)


def neighbour(v: np.ndarray) -> np.ndarray:
    index = np.arange(len(v)) ^ 1
    return np.where(index < len(v), v[np.minimum(index, len(v) - 1)], np.nan)


def maxima(v: np.ndarray) -> np.ndarray:
    return v.max() + (-v).max() + (2 * v).max() + 1


FLOATS = {
    0: np.sum,
    1: lambda v: np.prod(1 + v / 64),
    2: np.min,
    3: np.max,
    4: exclusive(np.cumsum, 0),
    5: exclusive(lambda v: np.cumprod(1 + v / 64), 1),
    6: lambda v: v[0],
    7: lambda v: v[3] if len(v) > 3 else np.nan,
    8: lambda v: 2 * len(v) - 2 * v.sum(),
    9: maxima,
    10: lambda v: exclusive(np.cumsum, 0)(v) + 100 * np.arange(len(v)),
    11: diverged,
    12: len,
    13: lanes_left,
    14: neighbour,
    15: np.sum,
    16: len,
    17: lambda v: 3 * v[0],
}


@pytest.mark.parametrize("count", LENGTHS)
@pytest.mark.parametrize("device", DEVICES)
def test_waves_of_floats(waves: torch_slang.Module, device: str, count: int) -> None:
    x = torch.from_numpy(np.random.default_rng(count).uniform(-3, 3, count).astype(np.float32))
    y = waves.wave_floats(x.to(device)).cpu().double().numpy()
    for row, function in FLOATS.items():
        reference = by_wave(x.double().numpy(), function)
        known = ~np.isnan(reference)  # lanes that are not there give nothing to read
        np.testing.assert_allclose(y[row][known], reference[known], rtol=1e-4, atol=1e-4, err_msg=f"row {row}")


def ballot(votes: np.ndarray) -> np.ndarray:
    return (
        np.array((votes.astype(np.uint64) << np.arange(len(votes), dtype=np.uint64)).sum())
        .astype(np.uint32)
        .astype(np.int32)
    )


def first_odd(v: np.ndarray) -> np.ndarray:
    odd = (v & 1) != 0
    return np.where(odd, np.where(np.cumsum(odd) == 1, 1, 2), 0)


def per_class(function: Callable[[np.ndarray, np.ndarray], float]) -> Callable[[np.ndarray], np.ndarray]:
    """function(values, which of them share the lane's class), for each lane."""
    return lambda v: np.array([function(v, (v & 3) == (own & 3)) for own in v])


def prefix_in_class(v: np.ndarray) -> np.ndarray:
    return np.array([v[:lane][(v[:lane] & 3) == (own & 3)].sum() for lane, own in enumerate(v)])


INTEGERS = {
    0: np.sum,
    1: lambda v: np.bitwise_and.reduce(v | 4096),
    2: np.bitwise_or.reduce,
    3: np.bitwise_xor.reduce,
    4: np.min,
    5: np.max,
    6: lambda v: ballot(v > 0),
    7: lambda v: (v > 0).sum(),
    8: lambda v: np.cumsum(v > 0) - (v > 0),
    9: lambda v: (v > 40).any() * 1 + (v > -40).all() * 2,
    10: lambda v: (v == v[0]).all() * 5 + 2,
    11: lambda v: np.arange(len(v)) + 3200,
    12: lambda v: np.arange(len(v)) == 0,
    13: per_class(lambda v, same: ballot(same)),
    14: prefix_in_class,
    15: lambda v: (v & 255).sum(),
    16: np.sum,
    17: first_odd,
    18: lambda v: v.astype(np.uint32).max().astype(np.int32),
    19: per_class(lambda v, same: v[same].sum()),
}


@pytest.mark.parametrize("count", LENGTHS)
@pytest.mark.parametrize("device", DEVICES)
def test_waves_of_integers(waves: torch_slang.Module, device: str, count: int) -> None:
    x = torch.from_numpy(np.random.default_rng(count).integers(-50, 50, count, dtype=np.int32))
    y = waves.wave_integers(x.to(device)).cpu().numpy()
    for row, function in INTEGERS.items():
        np.testing.assert_array_equal(y[row], by_wave(x.numpy(), function), err_msg=f"row {row}")


@pytest.mark.parametrize("device", DEVICES)
def test_block_sums_through_shared_memory(waves: torch_slang.Module, device: str) -> None:
    x = torch.arange(1000, dtype=torch.float32)
    expected = torch.stack([part.sum() for part in x.split(256)])
    torch.testing.assert_close(waves.block_sum(x.to(device)).cpu(), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_tiles_are_transposed(waves: torch_slang.Module, device: str) -> None:
    x = torch.randn(37, 50)
    torch.testing.assert_close(waves.transpose_tiles(x.to(device)).cpu(), x.T, rtol=0, atol=0)


@pytest.mark.parametrize("device", DEVICES)
def test_threads_that_left_do_not_hold_up_a_barrier(waves: torch_slang.Module, device: str) -> None:
    x = torch.randn(5, 100)
    assert waves.block_argmax(x.to(device)).tolist() == x.argmax(1).tolist()


@pytest.mark.parametrize("device", DEVICES)
def test_atomics_count_every_thread(waves: torch_slang.Module, device: str) -> None:
    x = torch.randint(0, 8, (1000,), dtype=torch.int32)
    counts, sums = waves.histogram(x.to(device))
    assert counts.tolist() == torch.bincount(x, minlength=8).tolist()
    assert sums.tolist() == [x[0::2].sum(), x[1::2].sum()]
