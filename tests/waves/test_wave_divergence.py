"""Lanes that take part in a wave operation are those that reach it together, however control flow has split them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from cases import nvrtc_is_here
from devices import DEVICES
from long_tests import some_cases
from wave_programs import WAVE, Kernel, Lanes, LoopWriter, Writer

import torch_slang

LENGTHS = [6, 32, 100]  # part of a wave, a wave, blocks of two waves with a part at the end
SHORT, LONG = 2, 150  # kernels of PROGRAMS random functions
PROGRAMS = 4


@pytest.fixture(scope="module", params=[False, True], ids=["", "debug"])
def divergence(request: pytest.FixtureRequest) -> torch_slang.Module:
    path = Path(__file__).with_name("wave_divergence.slang")
    return torch_slang.load(path, namespace=f"divergence_{request.param}", debug=request.param)


def by_wave(values: np.ndarray, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    parts = [values[first : first + WAVE] for first in range(0, len(values), WAVE)]
    return np.concatenate([np.broadcast_to(function(part), part.shape) for part in parts])


def numbers(count: int) -> np.ndarray:
    return np.random.default_rng(count).integers(-2, 7, count)


def counts(*groups: np.ndarray) -> np.ndarray:
    """For each lane, how many are in its group; 0 for those in none."""
    return sum((group * group.sum() for group in groups), np.zeros(len(groups[0]), dtype=np.int64))


def count_if_positive(v: np.ndarray, lanes: np.ndarray) -> np.ndarray:
    return counts(lanes & (v >= 0))


def first_sum_above(v: np.ndarray, limit: np.ndarray, lanes: np.ndarray) -> np.ndarray:
    found = np.zeros(len(v), dtype=np.int64)
    for k in range(5):
        total = (v & k)[lanes].sum()
        leave = lanes & (total > limit)
        found, lanes = np.where(leave, total, found), lanes & ~leave
    return found - counts(lanes)


def by_turns(v: np.ndarray) -> np.ndarray:
    large = v > 2
    found = count_if_positive(v, ~large)
    many = ~large & (found > 3)
    few = ~large & ~many
    later = found + first_sum_above(v, 4 * v, many)
    return np.select([large, many], [10 * count_if_positive(v - 5, large), later], 1000 + counts(few))


def lanes_by_case(v: np.ndarray) -> np.ndarray:
    none, some = v == 0, (v == 1) | (v == 2)
    return counts(none) * 100 + counts(some) + 10 * counts(~none & ~some)


def after_a_return(v: np.ndarray) -> np.ndarray:
    inside = (v > 1) & (v != 3)
    return np.where(inside, count_if_positive(v - 4, inside) + 100 * counts(inside), 0) + 10000 * counts(v != 3)


EVERYBODY = [
    lambda v: count_if_positive(v, v == v) + 100 * len(v),
    lambda v: first_sum_above(v, 3 * v, v == v) + 10000 * len(v),
    lambda v: by_turns(v) + 10000 * len(v),
    lambda v: lanes_by_case(v) + 10000 * len(v),
    lambda v: np.where((v & 2) != 0, counts((v & 2) != 0), 1) + 100 * len(v),
    after_a_return,
]


@pytest.mark.parametrize("count", LENGTHS)
@pytest.mark.parametrize("device", DEVICES)
def test_lanes_that_return_early_from_a_function_are_there_behind_its_call(
    divergence: torch_slang.Module, device: str, count: int
) -> None:
    x = numbers(count)
    y = divergence.helpers(torch.from_numpy(x.astype(np.int32)).to(device)).cpu().numpy()
    for row, function in enumerate(EVERYBODY):
        np.testing.assert_array_equal(y[row], by_wave(x, function), err_msg=f"row {row}")


def falling(v: np.ndarray) -> np.ndarray:
    first, second, third = v == 0, (v == 0) | (v == 1), (v >= 0) & (v <= 3)
    r = 1000 * counts(first) + 100 * counts(second)
    stays = third & ~(r > 500)
    r = r + 10 * counts(stays)
    return r + counts(stays | ~third) + 10000 * len(v)


def in_a_loop(v: np.ndarray) -> np.ndarray:
    r, here = np.zeros(len(v), dtype=np.int64), v == v
    for k in range(4):
        case = v + k
        r = r + counts(here & ((case == 4) | (case == 5))) + 10 * counts(here & (case == 1))
        goes_on = here & (case != 3)
        stays = goes_on & (v != k + 1)
        r = r + 100 * counts(stays)
        here = stays | (here & (case == 3))
    return r + 10000 * len(v)


@pytest.mark.parametrize("count", LENGTHS)
@pytest.mark.parametrize("device", DEVICES)
def test_lanes_of_one_case_are_together_whatever_their_selectors(
    divergence: torch_slang.Module, device: str, count: int
) -> None:
    x = numbers(count)
    y = divergence.cases(torch.from_numpy(x.astype(np.int32)).to(device)).cpu().numpy()
    for row, function in enumerate([lambda v: lanes_by_case(v) + 10000 * len(v), falling, in_a_loop]):
        np.testing.assert_array_equal(y[row], by_wave(x, function), err_msg=f"row {row}")


def conditions_behind_turns(v: np.ndarray) -> np.ndarray:
    r, turns, here = np.zeros(len(v), dtype=np.int64), np.zeros(len(v), dtype=np.int64), v == v
    while here.any():
        turns += here
        k = turns.max()
        r += counts(here & ((v & 1) == 0))
        few = here & (k < 5)
        many = counts(few & ~(v > k)) * 100 > 200 * k + 300
        here = few & ((v > k) | many)
    return r + 100 * turns + 10000 * len(v)


def steps_behind_turns(v: np.ndarray) -> np.ndarray:
    r, k, here = np.zeros(len(v), dtype=np.int64), np.zeros(len(v), dtype=np.int64), v == v
    while here.any():
        here = here & (k < 6)
        works = here & (v != k) & ~(v + 2 < k)
        r += counts(works)
        here = works | (here & (v == k))
        k += here * (1 + (here.sum() & 1))
    return r + 1000 * k + 10000 * len(v)


@pytest.mark.parametrize("count", LENGTHS)
@pytest.mark.parametrize("device", DEVICES)
def test_lanes_leave_a_loop_behind_operations_that_follow_a_turn(
    divergence: torch_slang.Module, device: str, count: int
) -> None:
    x = numbers(count)
    y = divergence.turns(torch.from_numpy(x.astype(np.int32)).to(device)).cpu().numpy()
    for row, function in enumerate([conditions_behind_turns, steps_behind_turns]):
        np.testing.assert_array_equal(y[row], by_wave(x, function), err_msg=f"row {row}")


def fall_behind_a_return(v: np.ndarray) -> np.ndarray:
    returns = (v == 3) & (np.arange(len(v)) % 2 == 1)
    falls = (v == 1) | ((v == 3) & ~returns)
    many = falls & (falls.sum() > 2 * v)
    behind = ~returns & ~many
    return counts(returns) + 100 * many + 1000 * counts(behind) + 100000 * len(v)


def continue_from_inside(v: np.ndarray) -> np.ndarray:
    r, k, here, v = np.zeros(len(v), dtype=np.int64), np.zeros(len(v), dtype=np.int64), v == v, v.copy()
    while (here := here & (k < 6)).any():
        odd, inner = here & ((v & 1) != 0), here & ((v & 3) == 3)
        continues = inner & (v < k)
        r += 3 * (inner & ~continues) + counts(odd & ~continues) + 100 * counts(here & ~continues)
        v += here & ~continues
        k += here * (1 + (here.sum() & 1))
    return r + 100000 * len(v)


@pytest.mark.parametrize("count", LENGTHS)
@pytest.mark.parametrize("device", DEVICES)
def test_lanes_meet_in_copies_of_a_statement_wherever_they_come_from(
    divergence: torch_slang.Module, device: str, count: int
) -> None:
    x = numbers(count)
    y = divergence.copies(torch.from_numpy(x.astype(np.int32)).to(device)).cpu().numpy()
    for row, function in enumerate([fall_behind_a_return, continue_from_inside]):
        np.testing.assert_array_equal(y[row], by_wave(x, function), err_msg=f"row {row}")


@pytest.mark.parametrize("device", DEVICES)
def test_the_sum_of_a_block_by_its_first_wave(divergence: torch_slang.Module, device: str) -> None:
    x = torch.arange(1000, dtype=torch.int32)
    assert divergence.textbook_sum(x.to(device)).tolist() == [part.sum().item() for part in x.split(256)]


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_of_kernels_whose_lanes_count_each_other(divergence: torch_slang.Module, device: str) -> None:
    x = torch.from_numpy(np.random.default_rng(0).uniform(-2, 4, 100).astype(np.float32)).double().requires_grad_()
    values = x.detach().numpy()
    inside = by_wave(values, lambda v: counts((v >= 0) & (v < 2)))
    w = torch.from_numpy(np.where(values < 0, 1, np.where(values < 2, inside, 2)))
    everybody = torch.from_numpy(by_wave(values, lambda v: np.full(len(v), len(v))))
    reference = w * x * x + everybody * x
    reference.sum().backward()
    leaf = x.detach().float().to(device).requires_grad_()
    y = divergence.weighed(leaf)
    y.sum().backward()
    torch.testing.assert_close(y.cpu().double(), reference.detach(), rtol=1e-6, atol=1e-5)
    torch.testing.assert_close(leaf.grad.cpu().double(), x.grad, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_implementations_of_an_interface(divergence: torch_slang.Module, device: str) -> None:
    x = numbers(100)

    def reference(v: np.ndarray) -> np.ndarray:
        odd = (v & 1) != 0
        positive = counts(odd & (v >= 2)) + 100 * counts(odd)
        return np.where(odd, positive, 7 + 101 * counts(~odd)) + 10000 * len(v)

    y = divergence.interfaces(torch.from_numpy(x.astype(np.int32)).to(device)).cpu().numpy()
    np.testing.assert_array_equal(y, by_wave(x, reference))


IN_TWO_CASES = """import torch_slang;
void add(TensorView<int> y, uint i) { y[i] = y[i] + WaveActiveSum(1); }
[PyBindCUDA(Auto)] [CudaKernel]
void k([Shape("N")] TensorView<int> x, [Out("N")] [Fill(0)] TensorView<int> y)
{
    uint i = cudaThreadIdx().x;
    if (i >= x.size(0)) return;
    switch (x[i]) { case 0: add(y, i); break; case 1: add(y, i); break; }
}
"""


@pytest.mark.parametrize("device", DEVICES)
def test_equal_calls_in_two_cases_are_two_operations(device: str) -> None:
    module = torch_slang.load(source=IN_TWO_CASES, name="two.slang", namespace="divergence_two")
    x = torch.tensor([0, 1, 1, 2, 0, 1], dtype=torch.int32)
    assert module.k(x.to(device)).tolist() == [2, 3, 3, 0, 2, 3]


# --- random programs


SCATTERED = [129, 131]  # of Writer: lanes that stand in copies of an operation exchange values


def random_kernels(count: int) -> list[int]:
    if os.environ.get("TORCH_SLANG_LONG_TESTS") == "1":
        return list(range(LONG))
    return [*range(count), *SCATTERED]


def load(writer: type[Writer], seed: int) -> tuple[Kernel, torch_slang.Module]:
    kernel = writer(seed).kernel("random", PROGRAMS)
    name = f"{writer.__name__}_{seed}"
    source = "import torch_slang;\n" + kernel.text()
    return kernel, torch_slang.load(source=source, name=f"{name}.slang", namespace=name)


@contextmanager
def skip_what_is_refused() -> Iterator[None]:
    try:
        yield
    except torch_slang.CompileError as error:
        if "wave operation is not clear" not in str(error):
            raise
        pytest.skip("one of its programs is refused")  # one in a few hundred


@some_cases(2)
@pytest.mark.parametrize("seed", random_kernels(SHORT))
@pytest.mark.parametrize("writer", [Writer, LoopWriter])
@pytest.mark.parametrize("device", DEVICES)
def test_random_programs_agree_with_an_interpreter(device: str, writer: type[Writer], seed: int) -> None:
    kernel, module = load(writer, seed)
    x: Lanes = np.random.default_rng(seed).integers(0, 1024, 102)
    with skip_what_is_refused():
        y = module.random(torch.from_numpy(x.astype(np.int32)).to(device)).cpu().numpy()
    np.testing.assert_array_equal(y, kernel.run(x))


@some_cases(2)
@pytest.mark.skipif(not nvrtc_is_here(), reason="NVRTC is not installed")
@pytest.mark.parametrize("seed", random_kernels(2))
@pytest.mark.parametrize("writer", [Writer, LoopWriter])
def test_random_programs_compile_for_a_gpu(writer: type[Writer], seed: int) -> None:
    _, module = load(writer, seed)
    with skip_what_is_refused():
        assert module._handle.cubin("random", "forward", [], True, "sm_90").startswith(b"\x7fELF")
