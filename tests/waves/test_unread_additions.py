"""Atomic additions of the user's own whose result nobody reads: a GPU's lanes sum them first, and nobody can tell.

compiler/emit/unread_additions.h finds them; Note [seen additions] in csrc/prelude/wave_sums.h says what holds for them.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from long_tests import some_tests
from test_wave_sums import KINDS, indices

import torch_slang

pytestmark = some_tests(10)
Tensor = torch.Tensor

SOURCE = """
#define THREAD uint i = cudaGlobalIdx().x; if (i >= x.size(0)) return; float before;
#define KERNEL [CudaKernel]

KERNEL void scatter(TensorView<float> x, TensorView<int> at, TensorView<float> sums)
{
    THREAD
    sums.InterlockedAdd(uint(at[i]), x[i], before);
}

// Ten numbers of one element, as a renderer's backward that is written by hand adds them; one `before` for all.
KERNEL void scatter10(TensorView<float> x, TensorView<int> at, TensorView<float> sums, TensorView<float> counts)
{
    THREAD
    uint k = uint(at[i]);
    float a = x[i];
    if (a > 1.5f) return;
    [ForceUnroll] for (uint j = 0; j < 9; ++j) sums.InterlockedAdd(uint2(k, j), a * float(j + 1), before);
    counts.InterlockedAdd(k, 1.0f, before);
}

// In loops of several lengths, and in a function.
void add(TensorView<float> sums, uint k, float a) { float before; sums.InterlockedAdd(k, a, before); }
KERNEL void scatter_often(TensorView<float> x, TensorView<int> at, TensorView<float> sums)
{
    THREAD
    for (uint j = 0; j < i % 6; ++j)
    {
        if ((i + j) % 4 == 1) continue;
        add(sums, uint(at[i]), x[i]);
        if (j == 3 && i % 5 == 0) break;
        add(sums, 0, x[i] * 0.5f);
    }
}

// A thread reads a sum right after it has added to it: by a load, by a load through another view of the same memory,
// and by the result of another addition.
KERNEL void seen(TensorView<float> x, TensorView<int> at, TensorView<float> sums, TensorView<float> more,
                 TensorView<float> same, TensorView<float> found)
{
    THREAD
    uint k = uint(at[i]);
    sums.InterlockedAdd(k, x[i], before);
    more.InterlockedAdd(k, x[i], before);
    found[uint2(i, 0)] = sums[k] - x[i];
    sums.InterlockedAdd(k, x[i], before);
    float there = same[k];
    found[uint2(i, 1)] = there - 2 * x[i];
    more.InterlockedAdd(k, x[i], before);
    float given;
    more.InterlockedAdd(k, 0.0f, given);
    found[uint2(i, 2)] = given - 2 * x[i];
}

// The thread that is the last one to count itself reads the sums of all threads.
KERNEL void last(TensorView<float> x, TensorView<int> at, TensorView<float> sums, TensorView<int> done,
                 TensorView<float> result)
{
    THREAD
    sums.InterlockedAdd(uint(at[i]), x[i], before);
    DeviceMemoryBarrier();
    int order;
    done.InterlockedAdd(0u, 1, order);
    if (uint(order) + 1 < x.size(0)) return;
    DeviceMemoryBarrier();
    for (uint k = 0; k < sums.size(0); ++k) { float value; sums.InterlockedAdd(k, 0.0f, value); result[k] = value; }
}

#define TYPED(NAME, T) \\
    KERNEL void NAME(TensorView<T> x, TensorView<int> at, TensorView<T> sums) \\
    { \\
        uint i = cudaGlobalIdx().x; \\
        if (i >= x.size(0)) return; \\
        T before; \\
        sums.InterlockedAdd(uint(at[i]), x[i], before); \\
    }
TYPED(scatter_int, int)
TYPED(scatter_double, double)
TYPED(scatter_half, half)

// A plain function.
void gather(float x, int at, TensorView<float> sums) { float before; sums.InterlockedAdd(uint(at), x, before); }
"""
N, M = 1003, 40


@pytest.fixture(scope="module")
def module() -> torch_slang.Module:
    return torch_slang.load(source=SOURCE, name="unread", namespace="unread_additions")


def given(kind: str, device: torch.device) -> tuple[Tensor, Tensor]:
    """Numbers whose sums are exact, in whatever order."""
    x = torch.randint(1, 9, (N,), generator=torch.Generator().manual_seed(1)).float().to(device) / 8
    return x, indices(kind, N, M, device)


def sums_by_index(x: Tensor, at: Tensor) -> Tensor:
    return torch.zeros(M, device=x.device, dtype=x.dtype).index_add(0, at.long(), x)


def launch(kernel: Callable[..., None], *arguments: Tensor) -> None:
    kernel(*arguments, launchBlockSize=(128, 1, 1), launchGridSize=(-(-N // 128), 1, 1))


@pytest.mark.parametrize("kind", KINDS)
def test_each_number_is_added_once(module: torch_slang.Module, device: torch.device, sums: bool, kind: str) -> None:
    x, at = given(kind, device)
    result = torch.zeros(M, device=device)
    launch(module.scatter, x, at, result)
    torch.testing.assert_close(result, sums_by_index(x, at), rtol=0, atol=0)
    assert any(k.wave_sums for k in module.explain("scatter")) == (device.type == "cuda") or not sums


@pytest.mark.parametrize("kind", KINDS)
def test_several_additions_in_a_row(module: torch_slang.Module, device: torch.device, sums: bool, kind: str) -> None:
    x, at = given(kind, device)
    x[::7] = 2
    result, counts = torch.zeros(M, 9, device=device), torch.zeros(M, device=device)
    launch(module.scatter10, x, at, result, counts)
    a = torch.where(x > 1.5, 0, x)
    factors = torch.arange(1.0, 10.0, device=device)
    torch.testing.assert_close(result, sums_by_index(a, at)[:, None] * factors, rtol=0, atol=0)
    torch.testing.assert_close(counts, sums_by_index((x <= 1.5).float(), at), rtol=0, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_lanes_that_are_not_there(module: torch_slang.Module, device: torch.device, sums: bool, kind: str) -> None:
    x, at = given(kind, device)
    result = torch.zeros(M, device=device)
    launch(module.scatter_often, x, at, result)
    expected = torch.zeros(M)
    for i, (a, k) in enumerate(zip(x.tolist(), at.tolist(), strict=True)):
        for j in range(i % 6):
            if (i + j) % 4 == 1:
                continue
            expected[k] += a
            if j == 3 and i % 5 == 0:
                break
            expected[0] += a / 2
    torch.testing.assert_close(result.cpu(), expected, rtol=0, atol=0)


@pytest.mark.parametrize("is_shared", [True, False], ids=["one memory", "two"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_thread_sees_what_it_has_added(
    module: torch_slang.Module, device: torch.device, sums: bool, kind: str, is_shared: bool
) -> None:
    x, at = given(kind, device)
    one, more, found = torch.zeros(M, device=device), torch.zeros(M, device=device), torch.zeros(N, 3, device=device)
    launch(module.seen, x, at, one, more, one if is_shared else torch.full((M,), 9.0, device=device), found)
    assert found.min() >= 0
    for result in (one, more):
        torch.testing.assert_close(result, 2 * sums_by_index(x, at), rtol=0, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_who_is_last_sees_what_all_have_added(
    module: torch_slang.Module, device: torch.device, sums: bool, kind: str
) -> None:
    x, at = given(kind, device)
    for _ in range(20):
        one, result = torch.zeros(M, device=device), torch.full((M,), -1.0, device=device)
        launch(module.last, x, at, one, torch.zeros(1, device=device, dtype=torch.int32), result)
        torch.testing.assert_close(result, sums_by_index(x, at), rtol=0, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_plain_functions(module: torch_slang.Module, device: torch.device, sums: bool, kind: str) -> None:
    x, at = given(kind, device)
    result = torch.zeros(M, device=device)
    module.gather(x, at, result)
    torch.testing.assert_close(result, sums_by_index(x, at), rtol=0, atol=0)


@pytest.mark.parametrize(("name", "dtype"), [("scatter_double", torch.float64), ("scatter_half", torch.float16)])
@pytest.mark.parametrize("kind", KINDS)
def test_other_types(
    module: torch_slang.Module, device: torch.device, sums: bool, kind: str, name: str, dtype: torch.dtype
) -> None:
    x, at = given(kind, device)
    result = torch.zeros(M, device=device, dtype=dtype)
    launch(getattr(module, name), x.to(dtype), at, result)
    rtol = 0.02 if dtype == torch.float16 else 0
    torch.testing.assert_close(result.double(), sums_by_index(x, at).double(), rtol=rtol, atol=0)


def test_integers_are_added_as_ever(module: torch_slang.Module, device: torch.device, sums: bool) -> None:
    x, at = given("runs of 5", device)
    result = torch.zeros(M, device=device, dtype=torch.int32)
    launch(module.scatter_int, (8 * x).int(), at, result)
    assert torch.equal(result, sums_by_index((8 * x).int(), at))
    assert not any(k.wave_sums for k in module.explain("scatter_int"))


def test_deterministic_calls_add_apart(device: torch.device) -> None:
    module = torch_slang.load(source=SOURCE, name="unread", namespace="unread_apart")
    x, at = given("one", device)
    result = torch.zeros(M, device=device)
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        launch(module.scatter, x, at, result)
    finally:
        torch.use_deterministic_algorithms(False)
    torch.testing.assert_close(result, sums_by_index(x, at), rtol=0, atol=0)
    assert not any(k.wave_sums for k in module.explain("scatter"))
