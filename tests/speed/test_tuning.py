"""Tuned variables: which variant is chosen, that nobody sees the choosing, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from agreement import check_against
from devices import needs_cuda
from long_tests import dear_test, some_cases, some_tests

import torch_slang
from torch_slang import tuning

pytestmark = some_tests(4)

# Each thread has BM elements.
TILES = """
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel] TUNE LAUNCH
void NAME([Shape("N")] DiffTensorView<float> x, [Out("N")] DiffTensorView<float> y)
{
    uint first = cudaGlobalIdx().x * BM;
    [ForceUnroll]
    for (int k = 0; k < BM; ++k)
    {
        uint i = first + k;
        if (i < x.size(0)) y[i] = x[i] * x[i] * x[i];
    }
}
"""

# The more WORK, the slower; the result is the same.
SLOW = """
[PyBindCUDA(Auto)] [CudaKernel] TUNE
void NAME([Shape("N")] TensorView<float> x, [Out("N")] TensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= x.size(0)) return;
    float v = x[i], most = 0;
    for (int k = 0; k < WORK; ++k) most = max(most, sin(v + k));
    y[i] = most > 2 ? most : 2 * v;
}
"""

# Adds one to each element where it stands.
COUNT = """
[PyBindCUDA(Auto)] [CudaKernel] [Tune("WORK", "3000, 1")]
void NAME([Shape("N")] TensorView<int> counts)
{
    uint i = cudaGlobalIdx().x;
    if (i >= counts.size(0)) return;
    float most = 0;
    for (int k = 0; k < WORK; ++k) most = max(most, sin(float(i + k)));
    counts[i] = counts[i] + (most > 2 ? 100 : 1);
}
"""


def filled(text: str, name: str, **changes: str) -> str:
    for old, new in {"NAME": name, "LAUNCH": '[LaunchTotal("cdiv(N, BM)")]', **changes}.items():
        text = text.replace(old, new)
    return text


def tiles(name: str, values: str = "1, 2, 4") -> str:
    return filled(TILES, name, TUNE=f'[Tune("BM", "{values}")]')


def slow(name: str, values: str = "3000, 1") -> str:
    return filled(SLOW, name, TUNE=f'[Tune("WORK", "{values}")]')


def made_for(op: str) -> list[tuning.Choice]:
    return [choice for choice in tuning.log() if choice.op == f"slang::{op}"]


def only(op: str) -> tuning.Choice:
    (choice,) = made_for(op)
    return choice


@pytest.fixture(autouse=True)
def usual_settings() -> Iterator[None]:
    mode, budget = tuning.mode("on"), tuning.budget(60)
    yield
    tuning.mode(mode)
    tuning.budget(budget)


# --- Choosing


@dear_test
def test_the_fastest_variant_is_chosen(device: torch.device) -> None:
    name = f"tune_fastest_{device.type}"
    module = torch_slang.load(source=slow(name, "3000, 1, 1000"), name=name)
    x = torch.randn(20000, device=device)
    torch.testing.assert_close(getattr(module, name)(x), 2 * x)
    choice = only(name)
    assert choice.value == "WORK=1"
    assert [attempt.value for attempt in choice.tried] == ["WORK=3000", "WORK=1", "WORK=1000"]
    assert all(attempt.seconds is not None and attempt.problem is None for attempt in choice.tried)
    assert "x: float32 [32768]" in choice.about


@some_cases(1)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_every_variant_gives_the_same(device: torch.device, size: int) -> None:
    name = f"tune_same_{device.type}_{size}"
    x = torch.randn(size, device=device)
    for tile in (1, 2, 4):
        fixed = torch_slang.load(
            source=tiles(name), name=name, namespace=f"tune_{tile}_{size}_{device.type}", defines={"BM": tile}
        )
        torch.testing.assert_close(getattr(fixed, name)(x), x**3)
    assert not made_for(name)  # a plain define leaves nothing to tune
    tuned = torch_slang.load(source=tiles(name), name=name)
    torch.testing.assert_close(getattr(tuned, name)(x), x**3)
    assert all(attempt.problem is None for attempt in only(name).tried)


def test_a_choice_holds_for_sizes_up_to_the_same_power_of_two() -> None:
    module = torch_slang.load(source=tiles("tune_class"), name="tune_class")
    for size, choices in ((600, 1), (1000, 1), (1024, 1), (1025, 2), (2048, 2)):
        module.tune_class(torch.randn(size))
        assert len(made_for("tune_class")) == choices
    module.tune_class(torch.randn(2048)[::2])  # strided
    assert len(made_for("tune_class")) == 3


def test_the_space_is_every_combination() -> None:
    source = """
    [PyBindCUDA(Auto)] [CudaKernel]
    [Tune("BM", "1, 2")] [Tune("WARPS", "1, 4")] [LaunchTotal("cdiv(N, BM)")] [BlockSize(32 * WARPS, 1, 1)]
    void tune_space([Shape("N")] TensorView<float> x, [Out("N")] TensorView<float> y)
    {
        uint first = cudaGlobalIdx().x * BM;
        for (uint i = first; i < min(first + BM, x.size(0)); ++i) y[i] = x[i] + 1;
    }
    """
    module = torch_slang.load(source=source, name="tune_space")
    x = torch.randn(5000)
    torch.testing.assert_close(module.tune_space(x), x + 1)
    choice = only("tune_space")
    assert [a.value for a in choice.tried] == [f"BM={b}, WARPS={w}" for b in (1, 2) for w in (1, 4)]
    assert all(a.problem is None for a in choice.tried)


def test_lists_among_the_defines(device: torch.device) -> None:
    name = f"tune_defines_{device.type}"
    source = filled(TILES, name, TUNE="")
    module = torch_slang.load(source=source, name=name, defines={"BM": [4, 8], "OTHER": (1, 2)})
    x = torch.randn(100, device=device)
    torch.testing.assert_close(getattr(module, name)(x), x**3)
    assert [a.value for a in only(name).tried] == ["BM=4", "BM=8"]  # nothing has OTHER


def test_a_list_goes_before_the_attribute() -> None:
    module = torch_slang.load(source=tiles("tune_over"), name="tune_over", defines={"BM": [8, 16]})
    module.tune_over(torch.randn(10))
    assert [a.value for a in only("tune_over").tried] == ["BM=8", "BM=16"]


def test_annotations_may_name_tuned_variables() -> None:
    source = filled(TILES, "tune_annotated", TUNE="", LAUNCH="")
    module = torch_slang.load(
        source=source,
        name="tune_annotated",
        defines={"BM": [1, 2], "WARPS": [2, 1]},
        annotations={"tune_annotated": {"launch_total": ["cdiv(N, BM)"], "block_size": ["32 * WARPS"]}},
    )
    x = torch.randn(5000)
    torch.testing.assert_close(module.tune_annotated(x), x**3)
    assert [a.value for a in only("tune_annotated").tried] == [f"BM={b}, WARPS={w}" for b in (1, 2) for w in (2, 1)]
    assert all(a.problem is None for a in only("tune_annotated").tried)


def test_kernels_have_lists_of_their_own() -> None:
    module = torch_slang.load(source=tiles("tune_left", "1, 2") + tiles("tune_right", "8, 4"), name="tune_two")
    x = torch.randn(333)
    for name in ("tune_left", "tune_right"):
        torch.testing.assert_close(getattr(module, name)(x), x**3)
    assert [a.value for a in only("tune_left").tried] == ["BM=1", "BM=2"]
    assert [a.value for a in only("tune_right").tried] == ["BM=8", "BM=4"]


def test_variants_with_the_same_code_are_one() -> None:
    other = filled(TILES, "tune_other", TUNE="").replace("BM", "2").replace('"cdiv(N, 2)"', '"cdiv(N, 2)"')
    module = torch_slang.load(
        source=filled(TILES, "tune_one", TUNE="") + other, name="tune_one", defines={"BM": [1, 2]}
    )
    x = torch.randn(50)
    torch.testing.assert_close(module.tune_other(x), x**3)
    assert [a.problem for a in only("tune_other").tried] == [None, "the same as BM=1"]
    torch.testing.assert_close(module.tune_one(x), x**3)
    assert [a.problem for a in only("tune_one").tried] == [None, None]


def test_types_and_operations_are_defines() -> None:
    source = """
    [PyBindCUDA(Auto)] [CudaKernel]
    void NAME([Shape("N")] TensorView<TYPE> x, [Out("N")] TensorView<TYPE> y)
    {
        uint i = cudaGlobalIdx().x;
        if (i < x.size(0)) y[i] = TYPE(OPERATION(SUM(x[i]), SUM(2)));
    }
    """
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32):
        name = f"tune_{str(dtype).split('.')[1]}"
        module = torch_slang.load(
            source=source.replace("NAME", name),
            name=name,
            defines={"TYPE": dtype, "OPERATION": "max", "SUM": [torch.float32, torch.float64]},
        )
        x = torch.arange(-5, 5).to(dtype)
        torch.testing.assert_close(getattr(module, name)(x), x.clamp(min=2))
        assert [a.value for a in only(name).tried] == ["SUM=float", "SUM=double"]
        assert all(a.problem is None for a in only(name).tried)


@some_cases(2)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.uint16, torch.uint32, torch.uint64, torch.bool])
def test_results_of_every_dtype_are_compared(device: torch.device, dtype: torch.dtype) -> None:
    name = f"tune_{str(dtype).split('.')[1]}_{device.type}"
    source = filled(TILES, name, TUNE='[Tune("BM", "2, 1, 4")]', LAUNCH='[LaunchTotal("cdiv(N, 2)")]')
    source = source.replace("[Differentiable]", "").replace("DiffTensorView<float>", "TensorView<TYPE>")
    module = torch_slang.load(source=source.replace("x[i] * x[i] * x[i]", "x[i]"), name=name, defines={"TYPE": dtype})
    x = (torch.arange(4096, device=device) % 2).to(dtype)
    assert torch.equal(getattr(module, name)(x), x)
    assert [a.problem for a in only(name).tried] == [None, "its results are not those of BM=2", None]


def test_gradients_of_a_tuned_kernel(device: torch.device) -> None:
    name = f"tune_gradient_{device.type}"
    source = tiles(name).replace("DiffTensorView<float>", "DiffTensorView<double>")
    module = torch_slang.load(source=source, name=name)
    x = torch.randn(13, dtype=torch.float64, device=device, requires_grad=True)
    check_against(getattr(torch.ops.slang, name), (x,), lambda x: x**3)
    getattr(module, name)(x).sum().backward()
    torch.testing.assert_close(x.grad, 3 * x.detach() ** 2)
    assert made_for(f"{name}_backward")


def test_a_generic_kernel_is_tuned_for_each_dtype() -> None:
    source = (
        tiles("tune_generic").replace("tune_generic(", "tune_generic<T : IReal>(").replace("View<float>", "View<T>")
    )
    module = torch_slang.load(source=source, name="tune_generic")
    for dtype in (torch.float64, torch.bfloat16):
        x = torch.randn(40, dtype=dtype)
        torch.testing.assert_close(module.tune_generic(x), x * x * x)
    assert len(made_for("tune_generic")) == 2


# --- Variants that cannot be had


def test_a_variant_that_does_not_compile_is_left_out(device: torch.device) -> None:
    name = f"tune_broken_{device.type}"
    source = "#if BM == 2\n#error no such tile\n#endif\n" + tiles(name)
    x = torch.randn(100, device=device)
    module = torch_slang.load(source=source, name=name)
    torch.testing.assert_close(getattr(module, name)(x), x**3)
    problems = [a.problem for a in only(name).tried]
    assert problems[0] is None
    assert problems[2] is None
    assert "no such tile" in str(problems[1])
    assert only(name).value != "BM=2"


def test_a_kernel_that_does_not_compile_is_not_tried_for_other_sizes(device: torch.device) -> None:
    name = f"tune_refused_{device.type}"
    source = """
    #if WORK == 2
    float same(float x) { __target_switch { case cuda: __intrinsic_asm "no_such_function($0)"; } }
    #else
    float same(float x) { return x; }
    #endif""" + slow(name, "3, 2, 1").replace("sin(v + k)", "sin(same(v) + k)")
    module = torch_slang.load(source=source, name=name)
    for size in (100, 1000):
        x = torch.randn(size, device=device)
        torch.testing.assert_close(getattr(module, name)(x), 2 * x)
    first, second = ([a.problem for a in choice.tried] for choice in made_for(name))
    assert "no_such_function" in str(first[1])
    assert "WORK=2 did not compile for an earlier call" in str(second[1])
    assert [first[0], first[2], second[0], second[2]] == [None] * 4


def test_a_variant_that_cannot_be_launched_is_left_out(device: torch.device) -> None:
    name = f"tune_large_{device.type}"
    source = slow(name).replace(
        '[Tune("WORK", "3000, 1")]', '[Tune("THREADS", "4096, 64, 128")] [BlockSize(THREADS, 1, 1)]'
    )
    module = torch_slang.load(source=source.replace("WORK", "2"), name=name)
    x = torch.randn(1000, device=device)
    torch.testing.assert_close(getattr(module, name)(x), 2 * x)
    choice = only(name)
    assert choice.value in ("THREADS=64", "THREADS=128")
    assert choice.tried[0].problem
    assert choice.tried[0].seconds is None


@needs_cuda
def test_a_variant_with_too_much_shared_memory_is_left_out() -> None:
    source = """
    groupshared float tile[SIZE];
    [PyBindCUDA(Auto)] [CudaKernel] [Tune("SIZE", "100000, 256")] [BlockSize(256, 1, 1)]
    void tune_shared_memory([Shape("N")] TensorView<float> x, [Out("N")] TensorView<float> y)
    {
        uint i = cudaGlobalIdx().x, t = cudaThreadIdx().x;
        tile[t] = i < x.size(0) ? x[i] : 0;
        GroupMemoryBarrierWithGroupSync();
        if (i < x.size(0)) y[i] = tile[t] + 1;
    }
    """
    module = torch_slang.load(source=source, name="tune_shared_memory")
    x = torch.randn(1000, device="cuda")
    torch.testing.assert_close(module.tune_shared_memory(x), x + 1)
    choice = only("tune_shared_memory")
    assert choice.value == "SIZE=256"
    assert choice.tried[0].problem


def test_if_no_variant_works_the_first_ones_error_is_raised() -> None:
    source = slow("tune_hopeless").replace(
        '[Tune("WORK", "3000, 1")]', '[Tune("T", "2048, 4096")] [BlockSize(T, 1, 1)]'
    )
    module = torch_slang.load(source=source.replace("WORK", "2"), name="tune_hopeless")
    for _ in range(2):
        with pytest.raises(torch_slang.LaunchError, match="2048"):
            module.tune_hopeless(torch.randn(10))
    assert not made_for("tune_hopeless")


def test_a_variant_with_other_results_is_left_out(device: torch.device, capfd: pytest.CaptureFixture[str]) -> None:
    name = f"tune_wrong_{device.type}"
    source = filled(TILES, name, TUNE='[Tune("BM", "4, 1")]', LAUNCH='[LaunchTotal("cdiv(N, 4)")]')  # 1: a quarter
    module = torch_slang.load(source=source, name=name)
    x = torch.randn(4096, device=device)
    torch.testing.assert_close(getattr(module, name)(x), x**3)
    assert only(name).value == "BM=4"
    assert only(name).tried[1].problem == "its results are not those of BM=4"
    assert "tuned variables may not change results" in capfd.readouterr().err


def test_shapes_may_not_name_tuned_variables() -> None:
    source = tiles("tune_shape").replace('[Out("N")]', '[Out("N * BM")]')
    with pytest.raises(RuntimeError, match=r'shape of y, "N \* BM", names the tuned variable BM'):
        torch_slang.load(source=source, name="tune_shape")


def test_arguments_may_not_depend_on_tuned_variables() -> None:
    source = """
    [PyBindCUDA(Auto)] [CudaKernel] [Tune("K", "2, 4")]
    void tune_arguments(vector<float, K> v, [Shape("N")] TensorView<float> x, [Out("N")] TensorView<float> y)
    {
        uint i = cudaGlobalIdx().x;
        if (i < x.size(0)) y[i] = x[i] * v[0];
    }
    """
    module = torch_slang.load(source=source, name="tune_arguments")
    x = torch.ones(3)
    torch.testing.assert_close(module.tune_arguments([2.0, 0.0], x), 2 * x)
    assert "the arguments depend on tuned variables" in str(only("tune_arguments").tried[1].problem)


@pytest.mark.parametrize(
    ("defines", "error"),
    [
        ({"BM": []}, "expected values for the tuned variable BM, but got none"),
        ({"BM": list(range(1, 70)), "A": list(range(70))}, "more than 4096 combinations"),
        ({"2": [1]}, "expected the tuned variable to be a name"),
    ],
)
def test_wrong_search_spaces(defines: dict[str, Any], error: str) -> None:
    with pytest.raises(RuntimeError, match=error):
        torch_slang.load(source=tiles("tune_wrong_space").replace("x[i] *", "A * x[i] *"), defines=defines)


def test_values_of_defines_must_be_text() -> None:
    with pytest.raises(TypeError, match="numbers, strings or dtypes"):
        torch_slang.load(source=tiles("tune_nested"), defines={"BM": [[1, 2]]})
    with pytest.raises(TypeError, match="complex64"):
        torch_slang.load(source=tiles("tune_nested"), defines={"BM": torch.complex64})


# --- Nobody sees the choosing


def test_launches_are_timed_on_copies(device: torch.device) -> None:
    name = f"tune_count_{device.type}"
    module = torch_slang.load(source=COUNT.replace("NAME", name), name=name)
    launch = getattr(torch.ops.slang, f"{name}_launch")
    for size in (300, 1000):
        memory = torch.zeros(2 * size, dtype=torch.int32, device=device)
        counts = memory[::2]
        version = counts._version
        launch(counts, [64], [size // 64 + 1])
        assert counts.tolist() == [1] * size
        assert memory[1::2].tolist() == [0] * size
        assert counts._version == version + 1
    choices = made_for(f"{name}_launch")
    assert [choice.value for choice in choices] == ["WORK=1", "WORK=1"]
    assert module.namespace == "slang"


def test_a_launch_keeps_the_first_value_of_what_its_grid_depends_on(device: torch.device) -> None:
    name = f"tune_grid_{device.type}"
    module = torch_slang.load(source=tiles(name, "4, 1"), name=name)
    x, y = torch.randn(64, device=device), torch.zeros(64, device=device)
    getattr(module, f"{name}_launch")(x, y, launchBlockSize=(16, 1, 1), launchGridSize=(1, 1, 1))
    torch.testing.assert_close(y, x**3)
    assert not made_for(f"{name}_launch")


def test_a_launch_may_have_the_same_tensor_twice(device: torch.device) -> None:
    name = f"tune_twice_{device.type}"
    source = """
    [PyBindCUDA(Auto)] [CudaKernel] [Tune("BM", "1, 2")]
    void NAME([Shape("N")] TensorView<float> x, [Shape("N")] TensorView<float> y)
    {
        uint first = cudaGlobalIdx().x * BM;
        for (uint i = first; i < min(first + BM, x.size(0)); ++i) y[i] = 2 * x[i];
    }
    """
    module = torch_slang.load(source=source.replace("NAME", name), name=name)
    x = torch.ones(100, device=device)
    getattr(module, f"{name}_launch")(x, x, launchBlockSize=(100, 1, 1), launchGridSize=(1, 1, 1))
    torch.testing.assert_close(x, torch.full_like(x, 2))
    assert all(a.problem is None for a in only(f"{name}_launch").tried)


def test_random_numbers_and_inputs_stay() -> None:
    module = torch_slang.load(source=tiles("tune_quiet"), name="tune_quiet")
    x = torch.randn(100, requires_grad=True)
    before, version, state = x.detach().clone(), x._version, torch.get_rng_state()
    y = module.tune_quiet(x)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(x.detach(), before)
    assert x._version == version
    assert x.grad is None
    assert y.grad_fn is not None
    assert only("tune_quiet")


def test_empty_tensors_are_not_tuned() -> None:
    module = torch_slang.load(source=tiles("tune_empty"), name="tune_empty")
    assert module.tune_empty(torch.empty(0)).shape == (0,)
    tuning.mode("frozen")
    assert module.tune_empty(torch.empty(0)).shape == (0,)
    assert not made_for("tune_empty")


BESIDE_A_LIST = """import torch_slang;
[PyBindCUDA(Auto)] [CudaKernel] [Tune("BM", "1, 2")] [LaunchTotal("cdiv(N, BM)")]
void tune_beside([Shape("N")] TensorView<float> x, [Shape("P")] TensorView<int> list, [Out("N")] TensorView<float> y)
{
    for (uint i = cudaGlobalIdx().x * BM; i < min((cudaGlobalIdx().x + 1) * BM, x.size(0)); ++i)
        y[i] = x[i] + list.size(0);
}
"""


def test_a_call_is_tuned_where_only_one_of_its_tensors_is_empty() -> None:
    module = torch_slang.load(source=BESIDE_A_LIST, name="tune_beside")
    y = module.tune_beside(torch.ones(100), torch.empty(0, dtype=torch.int32))
    assert y.eq(1).all()
    assert len(only("tune_beside").tried) == 2


def test_wrong_arguments_are_refused_before_anything_is_tried() -> None:
    module = torch_slang.load(source=tiles("tune_arguments_first"), name="tune_arguments_first")
    tuning.mode("frozen")
    with pytest.raises(RuntimeError, match="expected x to have dtype float32"):
        module.tune_arguments_first(torch.randn(3, dtype=torch.float64))
    with pytest.raises(RuntimeError, match="expected x to have shape"):
        module.tune_arguments_first(torch.randn(3, 4))


def test_threads_choose_once() -> None:
    module = torch_slang.load(source=tiles("tune_threads"), name="tune_threads")
    x = torch.randn(500)
    with ThreadPoolExecutor(8) as pool:
        for y in pool.map(lambda _: module.tune_threads(x), range(16)):
            torch.testing.assert_close(y, x**3)
    assert len(made_for("tune_threads")) == 1


def test_torch_compile(device: torch.device) -> None:
    name = f"tune_compiled_{device.type}"
    torch_slang.load(source=tiles(name), name=name)
    op = getattr(torch.ops.slang, name)

    function = torch.compile(lambda x: op(2 * x) + 1, fullgraph=True, dynamic=True, backend="aot_eager")

    for size in (10, 300, 5000):
        x = torch.randn(size, device=device, requires_grad=True)
        y = function(x)
        torch.testing.assert_close(y, 8 * x**3 + 1)
        (gradient,) = torch.autograd.grad(y.sum(), x)
        torch.testing.assert_close(gradient, 24 * x.detach() ** 2)
    assert len(made_for(name)) == 3
    assert len(made_for(f"{name}_backward")) == 3


@needs_cuda
def test_nothing_is_tuned_while_a_graph_is_captured() -> None:
    module = torch_slang.load(source=slow("tune_captured"), name="tune_captured")
    x = torch.randn(1000, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = module.tune_captured(x)
    assert not made_for("tune_captured")
    x.copy_(torch.randn(1000))
    graph.replay()
    torch.testing.assert_close(y, 2 * x)
    module.tune_captured(x)  # now it may
    assert only("tune_captured").value == "WORK=1"
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = module.tune_captured(x)
    graph.replay()
    torch.testing.assert_close(y, 2 * x)
    assert len(made_for("tune_captured")) == 1


# --- Modes, budget, files


def test_off_takes_the_first_values() -> None:
    module = torch_slang.load(source=slow("tune_off"), name="tune_off")
    x = torch.randn(100)
    tuning.mode("off")
    torch.testing.assert_close(module.tune_off(x), 2 * x)
    assert not made_for("tune_off")
    tuning.mode("on")
    module.tune_off(x)
    assert only("tune_off").value == "WORK=1"


def test_frozen_refuses_what_was_not_chosen() -> None:
    module = torch_slang.load(source=slow("tune_frozen"), name="tune_frozen")
    x = torch.randn(100)
    module.tune_frozen(x)
    assert tuning.mode("frozen") == "on"
    torch.testing.assert_close(module.tune_frozen(x), 2 * x)
    with pytest.raises(
        RuntimeError, match=r"slang::tune_frozen: tuning is frozen.*x: float32 \[4096\] \(key [0-9a-f]+\)"
    ):
        module.tune_frozen(torch.randn(4000))
    with pytest.raises(RuntimeError, match="on, off or frozen"):
        tuning.mode("perhaps")


def test_choices_are_saved_and_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "TORCH_SLANG_CACHE_DIR", str(tmp_path / "cache")
    )  # others need the choices that this test clears
    module = torch_slang.load(source=slow("tune_saved"), name="tune_saved")
    x = torch.randn(100)
    module.tune_saved(x)
    path = tmp_path / "choices.json"
    assert tuning.save(path) == len(tuning.choices()) > 0
    text = json.loads(path.read_text())
    (key,) = (key for key, choice in text["choices"].items() if choice["op"] == "slang::tune_saved")
    assert text["choices"][key]["value"] == "WORK=1"
    text["choices"] = {key: {**text["choices"][key], "value": "WORK=3000"}}
    path.write_text(json.dumps(text))
    assert tuning.load(path) == 1
    tuning.mode("frozen")
    torch.testing.assert_close(module.tune_saved(x), 2 * x)
    assert [c.value for c in tuning.choices() if c.key == key] == ["WORK=3000"]
    tuning.mode("on")
    assert tuning.clear() > 0
    module.tune_saved(x)
    assert [c.value for c in made_for("tune_saved")] == ["WORK=1", "WORK=1"]


def test_damaged_files_of_choices_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "choices.json"
    for text in ("", "[]", '{"format": 2, "choices": {}}', '{"format": 1, "choices": {"a": {"op": 1}}}'):
        path.write_text(text)
        with pytest.raises(RuntimeError, match=r"torch_slang\.tuning"):
            tuning.load(path)


def test_the_budget_ends_a_search(capfd: pytest.CaptureFixture[str]) -> None:
    values = ", ".join(str(n) for n in range(1, 41))
    module = torch_slang.load(source=tiles("tune_budget", values), name="tune_budget")
    x = torch.randn(100)
    tuning.budget(2)
    torch.testing.assert_close(module.tune_budget(x), x**3)
    assert "tune_budget: not all variants were tried, since tuning may take 2 s" in capfd.readouterr().err
    for choice in made_for("tune_budget"):
        is_late = ["budget of 2 s" in str(attempt.problem) for attempt in choice.tried]
        assert any(is_late)
        assert is_late == sorted(is_late)  # the values of one variable are tried in their order
    assert tuning.budget() == 2


def test_without_any_budget_the_first_variant_runs() -> None:
    module = torch_slang.load(source=slow("tune_hurry"), name="tune_hurry")
    tuning.budget(0)
    x = torch.randn(100)
    torch.testing.assert_close(module.tune_hurry(x), 2 * x)
    assert not made_for("tune_hurry")
    with pytest.raises(RuntimeError, match="seconds"):
        tuning.budget(-1)


def run_python(code: str, folder: Path, **variables: str) -> str:
    environment = {**os.environ, "TORCH_SLANG_CACHE_DIR": str(folder / "cache"), **variables}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


CALL = """
import sys, torch, torch_slang
from torch_slang import tuning
module = torch_slang.load(sys.argv[1] if len(sys.argv) > 1 else {path!r})
x = torch.randn(1000)
torch.testing.assert_close(module.tune_shared(x), 2 * x)
print(len(tuning.log()), *(choice.value for choice in tuning.choices()))
"""


@dear_test
def test_processes_share_choices(tmp_path: Path) -> None:
    path = tmp_path / "shared.slang"
    path.write_text(slow("tune_shared"))
    code = CALL.format(path=str(path))
    assert run_python(code, tmp_path) == "1 WORK=1\n"
    assert run_python(code, tmp_path) == "0 WORK=1\n"
    assert run_python(code, tmp_path, TORCH_SLANG_TUNING="frozen") == "0 WORK=1\n"
    path.write_text("// changed\n" + slow("tune_shared"))
    assert run_python(code, tmp_path) == "1 WORK=1\n"


@dear_test
def test_processes_that_choose_at_once_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "shared.slang"
    path.write_text(slow("tune_shared"))
    code = CALL.format(path=str(path))
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda _: run_python(code, tmp_path), range(2)))
    assert all(answer.split()[1:] == ["WORK=1"] for answer in answers)
    assert run_python(code, tmp_path) == "0 WORK=1\n"


@pytest.mark.parametrize(
    ("variable", "value"), [("TORCH_SLANG_TUNING", "perhaps"), ("TORCH_SLANG_TUNING_BUDGET", "soon")]
)
def test_wrong_environment_variables_are_named(tmp_path: Path, variable: str, value: str) -> None:
    path = tmp_path / "shared.slang"
    path.write_text(slow("tune_shared"))
    code = f"""
    import torch, torch_slang
    module = torch_slang.load({str(path)!r})
    try:
        module.tune_shared(torch.randn(10))
    except RuntimeError as error:
        print(error)
    """
    answer = run_python(code, tmp_path, **{variable: value})
    assert variable in answer
    assert value in answer


def test_an_edited_file_is_loaded_and_tuned_again(tmp_path: Path) -> None:
    path = tmp_path / "edited.slang"
    path.write_text(slow("tune_edited"))
    before = torch_slang.load(path)
    x = torch.randn(100)
    torch.testing.assert_close(before.tune_edited(x), 2 * x)
    path.write_text(slow("tune_edited", "2000, 2").replace("2 * v", "3 * v"))
    torch.testing.assert_close(before.tune_edited(torch.randn(5000).fill_(1)), torch.full((5000,), 2.0))
    after = torch_slang.load(path)
    torch.testing.assert_close(after.tune_edited(x), 3 * x)
    torch.testing.assert_close(before.tune_edited(x), 2 * x)
    assert [choice.value for choice in made_for("tune_edited")] == ["WORK=1", "WORK=2"]


# --- MultipleOf


MULTIPLE = """
[PyBindCUDA(Auto)] [CudaKernel]
void NAME([MultipleOf(8)] TYPE width, [Shape("N")] TensorView<float> x, [Out("N")] TensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < x.size(0)) y[i] = x[i] + width;
}
"""


@pytest.mark.parametrize("kind", ["int", "uint", "int64_t"])
def test_multiple_of_is_checked(device: torch.device, kind: str) -> None:
    name = f"multiple_{kind}_{device.type}"
    module = torch_slang.load(source=MULTIPLE.replace("NAME", name).replace("TYPE", kind), name=name)
    x = torch.ones(4, device=device)
    for width in (0, 8, 64, 1000) if kind == "uint" else (0, 8, 64, 1000, -16):
        torch.testing.assert_close(getattr(module, name)(width, x), x + width)
    message = rf"slang::{name}: expected width to be a multiple of 8, but got 12"
    with pytest.raises(RuntimeError, match=message):
        getattr(module, name)(12, x)
    with pytest.raises(RuntimeError, match=message):
        getattr(module, name)(12, x.to("meta"))


def test_multiple_of_with_symbolic_sizes() -> None:
    torch_slang.load(
        source=MULTIPLE.replace("NAME", "multiple_symbolic").replace("TYPE", "int"), name="multiple_symbolic"
    )

    op = torch.ops.slang.multiple_symbolic
    function = torch.compile(lambda x: op(x.shape[0], x), fullgraph=True, dynamic=True, backend="eager")

    for size in (16, 24, 80):
        torch.testing.assert_close(function(torch.ones(size)), torch.ones(size) + size)
    with pytest.raises(Exception, match="multiple of 8"):
        function(torch.ones(20))


@pytest.mark.parametrize(
    "declaration", ["[MultipleOf(8)] no_diff float", "[MultipleOf(0)] int", "[MultipleOf(8)] int2"]
)
def test_multiple_of_is_for_integers(declaration: str) -> None:
    name = "multiple_wrong"
    source = MULTIPLE.replace("[MultipleOf(8)] TYPE", declaration).replace("NAME", name).replace("+ width", "")
    module = torch_slang.load(source=source)
    with pytest.raises(AttributeError, match="width has the attribute MultipleOf"):
        _ = module.multiple_wrong


def test_multiple_of_is_for_kernels() -> None:
    module = torch_slang.load(source="float multiple_plain(float x, [MultipleOf(8)] int n) { return x * n; }")
    with pytest.raises((AttributeError, RuntimeError), match="MultipleOf, which is for parameters of kernels"):
        module.multiple_plain(torch.ones(3), 8)


def test_the_reference_kernels_of_this_file_are_what_they_seem(device: torch.device) -> None:
    """SLOW really takes longer with more WORK: else the tests above would pass by chance."""
    times: dict[int, float] = {}
    for work in (3000, 1):
        name = f"tune_reference_{device.type}"
        module = torch_slang.load(
            source=slow(name), name=name, namespace=f"tune_reference_{work}_{device.type}", defines={"WORK": work}
        )
        x = torch.randn(20000, device=device)
        function = getattr(module, name)
        function(x)
        times[work] = min(seconds_of(function, x) for _ in range(5))
    assert times[3000] > 2 * times[1]


def seconds_of(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> float:
    start = time.perf_counter()
    function(x)
    if x.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start


def test_plain_functions_are_refused() -> None:
    text = '[Tune("U", "1, 2")] float tuned(float x) { return x * U; } float plain(float x) { return x * U; }'
    module = torch_slang.load(source=text, name="tuned_function", namespace="tuned_function")
    with pytest.raises(AttributeError, match=r"tuned is not available: \[Tune\] is for kernels.*first of U"):
        module.tuned(torch.ones(2))
    assert module.plain(torch.ones(2)).tolist() == [1, 1]
