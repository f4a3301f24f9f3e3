"""Generators as arguments of plain functions: their numbers, shapes and types, beside other arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import torch_slang
from torch_slang import slangpy
from torch_slang.generators import call_id, grid, rand_float, thread_id, wang_hash

Tensor = torch.Tensor

SOURCE = """
int2 pair(int2 v) { return v; }
int3 triple(int3 v) { return v; }
int2 array(int v[2]) { return int2(v[0], v[1]); }
int one(int v) { return v; }
uint bits(uint v) { return v; }
float number(float v) { return v; }
float3 numbers(float3 v) { return v; }
[Differentiable] double noisy(double x, double noise) { return x * x * noise; }
[Differentiable] double weighted(double row, double column, no_diff double weight) { return row * column * weight; }
float mixed(float x, int2 at, float noise) { return x + at.x + 10 * at.y + noise; }
T generic<T : __BuiltinFloatingPointType>(T v) { return v; }
"""


@pytest.fixture(scope="module")
def made() -> Any:
    return torch_slang.load(source=SOURCE, name="test_generators", namespace="test_generators")


def wang(seed: np.ndarray) -> np.ndarray:
    """The published hash, on numbers of 32 bits."""
    seed = (seed ^ np.uint32(61)) ^ (seed >> np.uint32(16))
    seed = seed * np.uint32(9)
    seed ^= seed >> np.uint32(4)
    seed = seed * np.uint32(0x27D4EB2D)
    return seed ^ (seed >> np.uint32(15))


def hashes(count: int, seed: int, components: int = 1, warmup: int = 0) -> np.ndarray:
    at = np.arange(count, dtype=np.uint32) * np.uint32(components)
    for _ in range(warmup):
        at = wang(at)
    at ^= wang(np.array([seed], dtype=np.uint32))
    chain = []
    for _ in range(components):
        at = wang(at)
        chain.append(at)
    return np.stack(chain, -1)


def test_the_hash_is_the_published_one() -> None:
    assert wang(np.array([0, 1], dtype=np.uint32)).tolist() == [3232319850, 663891101]


def test_call_ids_begin_with_the_last_dimension_in_vectors(made: Any) -> None:
    result = torch.empty(2, 3, 2, dtype=torch.int32)
    assert made.pair(call_id(), _result=result) is result
    rows, columns = torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij")
    assert torch.equal(result, torch.stack([columns, rows], -1).int())
    made.array(call_id(), _result=result)
    assert torch.equal(result, torch.stack([rows, columns], -1).int())
    wide = torch.empty(2, 3, 3, dtype=torch.int32)
    made.triple(call_id(), _result=wide)
    assert torch.equal(wide, torch.stack([columns, rows, torch.zeros_like(rows)], -1).int())


def test_thread_ids_count_elements(made: Any) -> None:
    result = torch.empty(2, 3, 2, dtype=torch.int32)
    made.pair(thread_id(), _result=result)
    assert result.tolist() == [[[0, 0], [1, 0], [2, 0]], [[3, 0], [4, 0], [5, 0]]]


def test_a_grid_says_the_shape(made: Any) -> None:
    result = made.pair(grid((2, 3), stride=(10, 2), offset=(5, 1)))
    assert result.tolist() == [[[1, 5], [3, 5], [5, 5]], [[1, 15], [3, 15], [5, 15]]]
    assert made.one(grid((4,), stride=(3,))).tolist() == [0, 3, 6, 9]


def test_a_grid_without_sizes_takes_those_of_the_call(made: Any) -> None:
    result = torch.empty(2, 2, 2, dtype=torch.int32)
    made.pair(grid(2, stride=(4, 4)), _result=result)
    assert result.tolist() == [[[0, 0], [4, 0]], [[0, 4], [4, 4]]]


@pytest.mark.parametrize("warmup", [0, 2])
def test_hashes_of_numbers_and_vectors(made: Any, warmup: int) -> None:
    result = torch.empty(2, 50, dtype=torch.uint32)
    made.bits(wang_hash(seed=7, warmup=warmup), _result=result)
    assert result.flatten().tolist() == hashes(100, 7, 1, warmup)[:, 0].tolist()
    vectors = torch.empty(100, 3, dtype=torch.int32)
    made.triple(wang_hash(seed=7, warmup=warmup), _result=vectors)
    assert vectors.tolist() == hashes(100, 7, 3, warmup).astype(np.int32).tolist()


def test_random_numbers_are_hashes_bits(made: Any) -> None:
    result = torch.empty(100, 3)
    made.numbers(rand_float(min=-2, max=3, dim=3, seed=5), _result=result)
    fraction = torch.from_numpy((hashes(100, 5, 3) & 0x7FFFFF).astype(np.float64)) / 2**23
    torch.testing.assert_close(result.double(), -2 + 5 * fraction, rtol=0, atol=1e-6)


def test_the_backward_sees_the_same_numbers(made: Any) -> None:
    x = torch.rand(2, 3, dtype=torch.float64, requires_grad=True)
    noise = made.noisy(torch.ones(2, 3, dtype=torch.float64), rand_float(seed=3))
    y = made.noisy(x, rand_float(seed=3))
    torch.testing.assert_close(y, x**2 * noise)
    y.sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach() * noise)
    assert torch.autograd.gradcheck(lambda x: made.noisy(x, rand_float(seed=3)), x)
    x.grad = None
    result = torch.empty(2, 3, dtype=torch.float64)
    result.grad = torch.ones_like(result)
    made.noisy.bwds(x, rand_float(seed=3), _result=result)
    torch.testing.assert_close(x.grad, 2 * x.detach() * noise)


def test_generators_beside_maps(made: Any) -> None:
    x = torch.rand(3, dtype=torch.float64)
    noise = made.noisy(torch.ones(3, dtype=torch.float64), rand_float())
    torch.testing.assert_close(made.noisy.map(x=(0,))(x, rand_float()), x**2 * noise)
    with pytest.raises(TypeError, match=r"expected noise \(double\) to be a tensor, since it has a map"):
        made.noisy.map(noise=(0,))(x, rand_float())


def test_generators_are_traced_whole_and_vectorized(made: Any) -> None:
    def noisy(x: Tensor) -> Tensor:
        result: Tensor = made.noisy(x, rand_float(seed=3))
        return result

    x = torch.rand(5, 3, dtype=torch.float64)
    torch.testing.assert_close(torch.compile(noisy, backend="aot_eager", fullgraph=True)(x), noisy(x))
    torch.testing.assert_close(torch.func.vmap(noisy)(x), torch.stack([noisy(row) for row in x]))


@pytest.mark.parametrize(
    ("name", "generator", "shape", "message"),
    [
        (
            "pair",
            call_id(),
            (4, 4, 4, 2),
            r"v \(vector<int,2>\) does not fit its generator: call_id\(\) has a number for",
        ),
        ("pair", thread_id(3), (4, 2), "the generator was to have 3 components"),
        ("pair", grid((4,)), (4, 2), "this grid has 1 dimensions"),
        ("pair", rand_float(), (4, 2), r"expected v \(vector<int,2>\) to be floating-point for its generator"),
        ("number", wang_hash(), (4,), r"expected v \(float\) to be integers for its generator"),
        ("generic", rand_float(), (4,), r"expected v \(T\) to have a type of its own for a generator"),
        ("pair", grid((8, 8)), (4, 4, 2), r"the arguments' shapes \[4, 4\], \[8, 8\] do not broadcast"),
    ],
)
def test_generators_that_do_not_fit(made: Any, name: str, generator: Any, shape: Any, message: str) -> None:
    result = torch.empty(shape, dtype=torch.int32 if name == "pair" else torch.float32)
    with pytest.raises(TypeError, match=message):
        getattr(made, name)(generator, _result=result)


def test_generators_where_a_gradient_is_asked(made: Any) -> None:
    x = torch.rand(3, dtype=torch.float64)
    y = torch.zeros(3, dtype=torch.float64)
    y.grad = torch.ones(3, dtype=torch.float64)
    with pytest.raises(RuntimeError, match=r"noisy\(.*: no differentiable argument of bwds requires grad"):
        made.noisy.bwds(rand_float(), rand_float(), _result=y)
    function = slangpy.Module.load_from_source(slangpy.create_torch_device(), "generated", SOURCE).noisy
    with pytest.raises(TypeError, match=r"the primal of a diff_pair to be a tensor: a generator is a constant"):
        function.bwds(x, slangpy.diff_pair(rand_float(), torch.zeros(3)), _result=y)


def test_a_seed_has_32_bits() -> None:
    with pytest.raises(ValueError, match="rand_float: expected seed to be within"):
        rand_float(seed=2**32)


def test_a_grids_numbers_are_of_one_length() -> None:
    with pytest.raises(ValueError, match="grid: expected shape, offset and stride to be of one length"):
        grid((4, 4), stride=(1,))


class Watching(TorchDispatchMode):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def test_generators_take_no_memory(made: Any) -> None:
    x = torch.rand(2, 3, dtype=torch.float64, requires_grad=True)
    with Watching() as watching:
        made.noisy(x, rand_float(seed=3))
        made.pair(grid((2, 3)))
    assert watching.names == ["test_generators.noisy_1_generated.default", "test_generators.pair_0_generated.default"]


def test_generators_beside_strided_and_broadcast_arguments(made: Any) -> None:
    base = torch.rand(5, 4, 3, dtype=torch.float64)
    noise = made.noisy(torch.ones(3, 4, 5, dtype=torch.float64), rand_float(seed=3))
    for x in (
        base.permute(2, 1, 0),
        base[:, :1, :1].permute(2, 1, 0).expand(3, 4, 5),
        base[0].T[:, :, None].expand(3, 4, 5),
    ):
        torch.testing.assert_close(made.noisy(x, rand_float(seed=3)), x * x * noise)
    row = torch.rand(5, dtype=torch.float64, requires_grad=True)
    column = torch.rand(3, 4, 1, dtype=torch.float64)
    y = made.weighted(row, column, rand_float(seed=3))
    weights = made.weighted(
        torch.ones(3, 4, 5, dtype=torch.float64), torch.ones(1, dtype=torch.float64), rand_float(seed=3)
    )
    torch.testing.assert_close(y, row * column * weights)
    y.sum().backward()
    torch.testing.assert_close(row.grad, (column * weights).sum((0, 1)))


def test_several_generators(made: Any) -> None:
    result = made.mixed(torch.zeros(2, 3), call_id(), rand_float(seed=3))
    one = made.number(rand_float(seed=3), _result=torch.empty(2, 3))
    rows, columns = torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij")
    torch.testing.assert_close(result, columns + 10 * rows + one)


def test_operators_with_generators_pass_opcheck(made: Any) -> None:
    x = torch.rand(2, 3, dtype=torch.float64, requires_grad=True)
    made.noisy(x, rand_float(seed=3))
    words = [-1, 2, 2, 3, *rand_float(seed=3).words((2, 3), None, False)]
    op = torch.ops.test_generators.noisy_1_generated.default
    torch.library.opcheck(op, (x, words))
    with pytest.raises(RuntimeError, match="expected noise to be a generator's list of numbers"):
        op(x, words[:-1])
    with pytest.raises(
        RuntimeError, match=r"expected generators to know the call's shape \[4, 3\], but got \[2, 3\]|broadcast"
    ):
        op(torch.rand(4, 3, dtype=torch.float64), words)


def test_a_reload_changes_what_generates(tmp_path: Path) -> None:
    file = tmp_path / "reloaded.slang"
    file.write_text("int number(int v) { return v; }")
    first = torch_slang.load(file, namespace="generators_reloaded")
    assert first.number(grid((3,))).tolist() == [0, 1, 2]
    file.write_text("int number(int v) { return v * 2; }")
    second = torch_slang.load(file, namespace="generators_reloaded")
    assert second.number(grid((3,))).tolist() == [0, 2, 4]
    assert first.number(grid((3,))).tolist() == [0, 1, 2]


def test_nothing_but_generators_has_no_gradient(made: Any) -> None:
    y = torch.zeros(3, dtype=torch.float64)
    y.grad = torch.ones(3, dtype=torch.float64)
    with pytest.raises(RuntimeError, match=r"no differentiable argument of bwds requires grad|has no gradient"):
        made.noisy.bwds(rand_float(), rand_float(), _result=y)
