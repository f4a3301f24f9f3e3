"""Generators as arguments of plain functions: their numbers, shapes and types, beside other arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from long_tests import dear_test, some_tests
from torch.utils._python_dispatch import TorchDispatchMode

import torch_slang
from torch_slang import slangpy
from torch_slang.generators import call_id, grid, rand_float, thread_id, wang_hash

pytestmark = some_tests(6)

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
int64_t long_one(int64_t v) { return v; }
uint8_t byte_of(uint8_t v) { return v; }
half half_of(half v) { return v; }
T as_type<T : __BuiltinFloatingPointType>(int v) { return T(v) / T(2); }
[Differentiable] float look(DiffTensorView<float> table, no_diff int at) { return table[at] * table[at]; }
void count(TensorView<float> into, int at) { into[at] = float(at); }
T generic<T : __BuiltinFloatingPointType>(T v) { return v; }
"""

# Generators in the place of a differentiable argument, and of one that is not.
WAVES = """
[Differentiable] double wave(double x, double noise, no_diff int place, double y)
{
    return sin(x * noise + place) * y * y * noise;
}
struct Two : IDifferentiable { double first; double second; };
[Differentiable] Two both(double3 x, double3 noise) { return { dot(x * x, noise), x.y * x.z * noise.x * noise.x }; }
[Differentiable] void scaled(double x, double noise, out double doubled, inout double sum)
{
    doubled = 2 * x * noise * x;
    sum += x * noise * sum;
}
"""


@pytest.fixture(scope="module")
def waves() -> Any:
    return torch_slang.load(source=WAVES, name="test_generator_waves", namespace="test_generator_waves")


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
            r"v \(vector<int,2>\), which is 2 numbers, does not fit its generator: call_id\(\) gives .* result has \[",
        ),
        ("pair", thread_id(3), (4, 2), "it was to give 3"),
        ("pair", grid((4,)), (4, 2), r"grid\(\.\.\.\) gives 1, as many as its shape has"),
        ("pair", rand_float(), (4, 2), r"expected v \(vector<int,2>\) to be floating-point for its generator"),
        ("number", wang_hash(), (4,), r"expected v \(float\) to be integers for its generator"),
        ("generic", rand_float(), (4,), r"expected v \(T\) to have a type of its own for a generator"),
        ("pair", grid((8, 8)), (4, 4, 2), r"do not broadcast: result has \[4, 4\], v has \[8, 8\]"),
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
    result = torch.empty(2, 3, 2, dtype=torch.int32)
    with Watching() as watching:
        y = made.noisy(x, rand_float(seed=3))
        torch.autograd.grad(y, x, y.detach())
        made.pair(grid((2, 3)), _result=result)
    names = [name.removeprefix("test_generators.") for name in watching.names if not name.startswith("aten.detach")]
    expected = ["noisy_generated_1.default", "noisy_generated_1_backward.default", "pair_generated_0_out.default"]
    assert names == expected


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
    column = torch.rand(3, 4, 1, dtype=torch.float64, requires_grad=True)
    one = torch.ones((), dtype=torch.float64)
    weights = made.weighted(one.expand(3, 4, 5), one, rand_float(seed=3))
    y = made.weighted(row, column, rand_float(seed=3))
    torch.testing.assert_close(y, row * column * weights)
    y.sum().backward()
    torch.testing.assert_close(row.grad, (column * weights).sum((0, 1)))
    torch.testing.assert_close(column.grad, (row * weights).sum(2, keepdim=True))


def test_several_generators(made: Any) -> None:
    result = made.mixed(torch.zeros(2, 3), call_id(), rand_float(seed=3))
    one = made.number(rand_float(seed=3), _result=torch.empty(2, 3))
    rows, columns = torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij")
    assert torch.equal(result, columns + 10 * rows + one)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 0, 3), (1, 1), (300, 41)])
def test_calls_of_any_size(made: Any, shape: tuple[int, ...]) -> None:
    count = int(np.prod(shape))
    expected = torch.from_numpy(hashes(count, 3)[:, 0].astype(np.int64)).reshape(shape)
    x = torch.rand(shape, dtype=torch.float64, requires_grad=True)
    y = made.noisy(x, rand_float(seed=3))
    noise = (expected & 0x7FFFFF).double() / 2**23
    torch.testing.assert_close(y, x * x * noise)
    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], 2 * x.detach() * noise)
    places = made.long_one(thread_id(), _result=torch.empty(shape, dtype=torch.int64))
    assert torch.equal(places, torch.arange(count).reshape(shape))
    assert made.long_one(grid(shape if len(shape) == 1 else (4,))).shape == (shape if len(shape) == 1 else (4,))


def test_numbers_are_converted_to_the_parameters_type(made: Any) -> None:
    bits = hashes(50, 7)[:, 0]
    result = torch.empty(50, dtype=torch.int64)
    assert made.long_one(wang_hash(seed=7), _result=result).tolist() == bits.tolist()
    result = torch.empty(50, dtype=torch.uint8)
    assert made.byte_of(wang_hash(seed=7), _result=result).tolist() == (bits & 0xFF).tolist()
    half = made.half_of(rand_float(seed=7), _result=torch.empty(50, dtype=torch.float16))
    assert torch.equal(half, made.number(rand_float(seed=7), _result=torch.empty(50)).half())
    assert made.require_function("as_type<double>")(grid((3,))).tolist() == [0, 0.5, 1]
    unhashed = made.bits(wang_hash(seed=7, hash_seed=False), _result=torch.empty(50, dtype=torch.uint32))
    at = np.arange(50, dtype=np.uint32) ^ np.uint32(7)
    assert unhashed.tolist() == wang(at).tolist()


@dear_test
def test_generators_beside_tensors_seen_whole(made: Any) -> None:
    table = torch.rand(4, requires_grad=True)
    looked = made.look(table, grid((3,), offset=(1,)))
    torch.testing.assert_close(looked, table[1:] ** 2)
    torch.testing.assert_close(torch.autograd.grad(looked.sum(), table)[0], 2 * table * torch.tensor([0, 1, 1, 1]))
    into = torch.zeros(5)
    made.count(into, grid((4,), offset=(1,)))
    assert into.tolist() == [0, 1, 2, 3, 4]


def test_calls_of_generators_alone_in_transforms(made: Any) -> None:
    x = torch.rand(3, dtype=torch.float64)

    def scaled(x: Tensor) -> Tensor:
        result: Tensor = x * made.long_one(grid((3,)))
        return result

    places = torch.arange(3)
    assert torch.equal(scaled(x), x * places)
    assert torch.equal(torch.func.jacrev(scaled)(x), torch.diag(places).double())
    assert torch.equal(torch.func.vmap(scaled)(x.expand(2, 3)), (x * places).expand(2, 3))
    assert torch.equal(torch.compile(scaled, backend="aot_eager", fullgraph=True)(x), scaled(x))


def of_waves(waves: Any, generated: bool, seed: int = 5) -> Any:
    """The function with generators, or with the tensors that have the same numbers."""

    def call(x: Tensor, y: Tensor) -> Tensor:
        if generated:
            result: Tensor = waves.wave(x, rand_float(1, 2, seed=seed), thread_id(), y)
            return result
        at = torch.arange(x.numel() // x.shape[-1] * y.shape[-1]).reshape(*x.shape[:-1], y.shape[-1])
        fraction = torch.from_numpy((hashes(at.numel(), seed)[:, 0] & 0x7FFFFF) / 2**23).reshape(at.shape)
        noise = (1 + fraction).float().double()
        return torch.sin(x * noise + at) * y * y * noise

    return call


@dear_test
def test_derivatives_of_all_kinds(waves: Any) -> None:
    x = torch.rand(2, 1, dtype=torch.float64, requires_grad=True)
    y = torch.rand(3, dtype=torch.float64, requires_grad=True)
    wave, expected = of_waves(waves, True), of_waves(waves, False)
    torch.testing.assert_close(wave(x, y), expected(x, y), rtol=0, atol=1e-6)
    assert torch.autograd.gradcheck(wave, (x, y), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(wave, (x, y))
    vectors = torch.rand(2, 3, dtype=torch.float64, requires_grad=True)
    both = lambda x: tuple(waves.both(x, rand_float(seed=2)))  # noqa: E731
    assert torch.autograd.gradcheck(both, vectors, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(both, vectors)
    scaled = lambda x, y: tuple(waves.scaled(x, rand_float(seed=2), sum=y))  # noqa: E731
    assert torch.autograd.gradcheck(scaled, (x, y), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(scaled, (x, y))


@dear_test
def test_function_transforms(waves: Any) -> None:
    x, y = torch.rand(2, 1, dtype=torch.float64), torch.rand(3, dtype=torch.float64)
    wave, expected = of_waves(waves, True), of_waves(waves, False)
    for transform in (
        lambda call: torch.func.hessian(call, argnums=1)(x, y),
        lambda call: torch.func.jacrev(torch.func.jacrev(call, argnums=1), argnums=0)(x, y),
        lambda call: torch.func.jvp(call, (x, y), (x + 1, y - 1))[1],
        lambda call: torch.func.vmap(torch.func.grad(lambda x, y: call(x, y).sum(), argnums=1), (None, 0))(
            x, torch.stack([y, 2 * y])
        ),
        lambda call: torch.func.vmap(torch.func.vmap(call, (0, None)), (0, 0))(
            torch.rand(4, 2, 2, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1)),
            torch.stack([y, 2 * y, y, y]),
        ),
        lambda call: torch.func.vmap(lambda y: torch.func.jvp(lambda x: call(x, y), (x,), (x,))[1])(y[None]),
    ):
        torch.testing.assert_close(transform(wave), transform(expected), rtol=0, atol=1e-5)


def test_sizes_and_seeds_may_be_symbols(made: Any) -> None:
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, example: Any) -> Any:
        graphs.append(graph)
        return graph

    def noisy(x: Tensor, seed: int) -> Tensor:
        result: Tensor = made.noisy(x, rand_float(seed=seed))
        return result + made.long_one(thread_id(), _result=torch.empty(x.shape, dtype=torch.int64))

    compiled = torch.compile(noisy, backend=backend, fullgraph=True, dynamic=True)
    for size, seed in ((5, 3), (7, 4), (9, 11)):
        x = torch.rand(size, 3, dtype=torch.float64)
        torch.testing.assert_close(compiled(x, seed), noisy(x, seed))
    assert len(graphs) == 1
    targets = {str(node.target) for node in graphs[0].graph.nodes if node.op == "call_function"}
    assert not any("arange" in target for target in targets)


def test_bounds_are_constants_of_a_trace(made: Any) -> None:
    def noisy(x: Tensor, low: float, high: int) -> Tensor:
        result: Tensor = made.noisy(x, rand_float(low, high + 1))
        return result

    x = torch.rand(4, dtype=torch.float64)
    compiled = torch.compile(noisy, backend="eager", fullgraph=True)
    for low, high in ((0.5, 1), (0.7, 2), (1.5, 3)):
        torch.testing.assert_close(compiled(x, low, high), noisy(x, low, high))


def test_second_derivatives_are_traced(waves: Any) -> None:
    def second(x: Tensor, y: Tensor) -> Tensor:
        return torch.func.hessian(of_waves(waves, True), argnums=1)(x, y)

    x, y = torch.rand(2, 1, dtype=torch.float64), torch.rand(3, dtype=torch.float64)
    torch.testing.assert_close(torch.compile(second, backend="aot_eager", fullgraph=True)(x, y), second(x, y))


def test_operators_with_generators_pass_opcheck(made: Any, waves: Any) -> None:
    x = torch.rand(2, 3, dtype=torch.float64, requires_grad=True)
    made.noisy(x, rand_float(seed=3))
    words = [2, 2, 3, *rand_float(seed=3).words(2, None, False)]
    op = torch.ops.test_generators.noisy_generated_1.default
    torch.library.opcheck(op, (x, words))
    waves.wave(x, rand_float(), thread_id(), x).sum().backward()
    places = [2, 2, 3, *thread_id().words(2, None, False)]
    torch.library.opcheck(torch.ops.test_generator_waves.wave_generated_1_2.default, (x, words, places, x))
    torch.library.opcheck(torch.ops.test_generator_waves.wave_generated_1_2_jvp.default, (x, words, places, x, x, x))
    backward = torch.ops.test_generator_waves.wave_generated_1_2_jvp_backward.default
    x = x.detach()
    torch.library.opcheck(backward, (x, x, words, places, x, x, x, [True] * 4))


@pytest.mark.parametrize(
    "words",
    [
        [],
        [2, 2, 3],
        [-1, 1, 0, 3, 1, 0],
        [2, 2, 3, 3, 0, 3, 1, 0],
        [2, 2, 3, 2, 0, 3, 1],
        [2, 2, 3, 0, 0, 3, 0, 1],
        [2, 2, 3, 0, 1, 0, 0, 1],
    ],
)
def test_wrong_lists_of_numbers_are_refused(made: Any, words: list[int]) -> None:
    made.mixed(torch.zeros(2, 3), call_id(), rand_float(seed=3))
    made.noisy(torch.zeros(2, 3, dtype=torch.float64), rand_float(seed=3))
    with pytest.raises(RuntimeError, match=r"noisy_generated_1: expected noise to be a generator's list of numbers"):
        torch.ops.test_generators.noisy_generated_1(torch.zeros(2, 3, dtype=torch.float64), words)


def test_lists_of_numbers_for_another_shape_are_refused(made: Any) -> None:
    made.noisy(torch.zeros(2, 3, dtype=torch.float64), rand_float(seed=3))
    for rows in (2, 1):
        words = [2, rows, 3, *rand_float(seed=3).words(2, None, False)]
        with pytest.raises(
            RuntimeError, match=r"expected noise to be generated for the call's shape \[4, 3\], but got"
        ):
            torch.ops.test_generators.noisy_generated_1(torch.rand(4, 3, dtype=torch.float64), words)


def test_a_reload_changes_what_generates(tmp_path: Path) -> None:
    file = tmp_path / "reloaded.slang"
    file.write_text("int number(int v) { return v; }")
    first = torch_slang.load(file, namespace="generators_reloaded")
    assert first.number(grid((3,))).tolist() == [0, 1, 2]
    file.write_text("int number(int v) { return v * 2; }")
    second = torch_slang.load(file, namespace="generators_reloaded")
    assert second.number(grid((3,))).tolist() == [0, 2, 4]
    assert first.number(grid((3,))).tolist() == [0, 1, 2]


def test_what_a_generator_stands_for_needs_no_gradient(made: Any) -> None:
    x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    assert not made.weighted(rand_float(), rand_float(seed=1), x).requires_grad  # a constant: the parameter is no_diff
    assert not made.noisy(rand_float(), rand_float(seed=1), _result=torch.empty(3, dtype=torch.float64)).requires_grad
    result = x * 1
    made.noisy(rand_float(), rand_float(seed=1), _result=result)
    assert result.grad_fn is None or torch.equal(torch.autograd.grad(result.sum(), x)[0], torch.zeros_like(x))


def test_the_operator_itself_takes_tensors(made: Any) -> None:
    with pytest.raises(TypeError, match=r"noisy\(.*: the operator takes tensors, but got a generator"):
        made.noisy.flatten(torch.rand(3), rand_float())


def test_numbers_with_a_point_are_refused_by_name() -> None:
    for make, what in (
        (lambda: wang_hash(warmup=1.5), "wang_hash: expected warmup"),
        (lambda: rand_float(seed=1.5), "rand_float: expected seed"),
        (lambda: grid((3.5, 2)), "grid: expected shape"),
    ):
        with pytest.raises(TypeError, match=f"{what} to be an integer, but got"):
            make()


def test_call_id_of_a_shape_is_a_grid(made: Any) -> None:
    assert made.pair(call_id((2, 3))).tolist() == made.pair(grid((2, 3))).tolist()
