"""Gradients of tensors that plain functions see whole: of an element's own places, and of few elements for all.

Memory that nobody has cleared is NaN here: each element of a gradient is stored by the one that has it, or cleared.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
import torch
from cases import FOLDER, kernels, nvrtc_is_here
from long_tests import dear_file, dear_test, sampled, some_cases, some_tests
from torch import Tensor

import torch_slang
from torch_slang.generators import Generator, call_id, grid, thread_id

pytestmark = [pytest.mark.usefixtures("poisoned_memory", "threads"), some_tests(5), dear_file]
DOUBLE = torch.float64


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@functools.cache
def kernels_unchecked() -> torch_slang.Module:
    """Without checks of indices."""
    return torch_slang.load(FOLDER / "own_places.slang", namespace="test_own_places_unchecked", debug=False)


@pytest.fixture(scope="module")
def module() -> torch_slang.Module:
    return kernels("own_places")


def random(*shape: int, device: torch.device, dtype: torch.dtype = DOUBLE) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape) + len(shape))
    return torch.rand(shape, generator=generator, dtype=DOUBLE).add(0.5).to(device, dtype).requires_grad_()


def kept(module: torch_slang.Module, name: str, device: torch.device) -> dict[str, set[str]]:
    """How the backwards that were called kept each gradient."""
    found: dict[str, set[str]] = {}
    for kernel in module.explain(name):
        if kernel.kind != "backward" or not kernel.device.startswith(device.type):
            continue
        for gradient in kernel.gradients:
            found.setdefault(gradient.argument, set()).add(gradient.kept)
    return found


def agree(result: Tensor, expected: Tensor, leaves: list[Tensor], tolerance: float = 1e-12) -> None:
    torch.testing.assert_close(result.to(DOUBLE), expected.to(DOUBLE), rtol=tolerance, atol=tolerance)
    seed = torch.rand(expected.shape, dtype=DOUBLE, generator=torch.Generator().manual_seed(7)).to(result.device)
    found = torch.autograd.grad(result, leaves, seed.to(result.dtype))
    wanted = torch.autograd.grad(expected, leaves, seed.to(expected.dtype))
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one.to(DOUBLE), other.to(DOUBLE), rtol=tolerance, atol=tolerance)


def squared(x: Tensor) -> Tensor:
    return x * x


def sometimes(x: Tensor) -> Tensor:
    by = torch.arange(len(x), device=x.device) % 3
    return torch.where(by == 0, torch.full_like(x, 2), torch.where(by == 1, x * x, x))


# Each by its shapes: of the result, then of its tensors.
OWN: dict[str, tuple[Generator, tuple[int, ...], list[tuple[int, ...]], Callable[..., Tensor]]] = {
    "square": (call_id(), (33,), [(33,)], squared),
    "unsigned_square": (call_id(), (33,), [(33,)], squared),
    "long_square": (call_id(), (33,), [(33,)], squared),
    "product": (call_id(), (33,), [(33,), (33,)], lambda a, b: a * b),
    "pixel": (call_id(), (5, 9), [(5, 9)], squared),
    "transposed": (call_id(), (5, 9), [(9, 5)], lambda m: squared(m).T),
    "voxel": (call_id(), (3, 4, 5), [(3, 4, 5)], lambda m: 3 * m),
    "colour": (call_id(), (33,), [(33, 3)], lambda x: x * x[:, [1, 2, 0]]),
    "triple": (call_id(), (33,), [(33, 3)], lambda x: x[:, 0] * x[:, 1] + x[:, 2]),
    "on_x": (thread_id(), (33,), [(33,)], squared),
    "sometimes": (call_id(), (33,), [(33,)], sometimes),
    "looped": (call_id(), (33,), [(33,)], lambda x: 3 * x * x),
    "replicated": (call_id(), (33,), [(33,)], lambda x: 3 * x),
    "recorded": (call_id(), (33,), [(33,)], lambda x: 3 * x),
    "line_of_slangpy": (call_id(), (33,), [(33,)], squared),
    "picture_of_slangpy": (call_id(), (5, 9), [(5, 9)], squared),
}


def called(function: Any, place: Generator, shape: tuple[int, ...], *arguments: Any) -> Tensor:
    """A call of this shape, which its result says."""
    tensor = next(argument for argument in arguments if isinstance(argument, Tensor) and argument.requires_grad)
    result = torch.empty(shape, dtype=tensor.dtype, device=tensor.device)
    written: Tensor = function(place, *arguments, _result=result)
    return written


@some_cases(2)
@pytest.mark.parametrize("name", OWN)
def test_own_elements_need_no_atomics(module: torch_slang.Module, device: torch.device, name: str) -> None:
    place, _, sizes, reference = OWN[name]
    tensors = [random(*size, device=device) for size in sizes]
    expected = reference(*tensors)
    agree(called(getattr(module, name), place, tuple(expected.shape), *tensors), expected, tensors)
    assert set().union(*kept(module, name, device).values()) == {"registers"}
    # The forward has no gradients, and one that is not wanted is none.
    if len(tensors) > 1:
        tensors[1].requires_grad_(False)
        again = called(getattr(module, name), place, tuple(expected.shape), *tensors)
        agree(again, reference(*tensors), tensors[:1])


@dear_test
@pytest.mark.parametrize("size", [1, 2, 31, 257, 4097, 100_003])
@pytest.mark.parametrize("name", ["square", "sometimes", "replicated", "recorded"])
def test_sizes(module: torch_slang.Module, device: torch.device, name: str, size: int) -> None:
    _, _, _, reference = OWN[name]
    x = random(size, device=device)
    agree(called(getattr(module, name), call_id(), (size,), x), reference(x), [x])


def test_calls_of_no_elements(module: torch_slang.Module, device: torch.device) -> None:
    x = random(3, device=device)
    called(module.square, call_id(), (0,), x).sum().backward()
    assert x.grad is not None
    assert not x.grad.any()


def test_elements_beyond_the_call_have_no_gradient(module: torch_slang.Module, device: torch.device) -> None:
    x = random(100, device=device)
    agree(called(module.square, call_id(), (40,), x), squared(x[:40]), [x])
    m = random(9, 11, device=device)
    agree(called(module.pixel, call_id(), (5, 7), m), squared(m[:5, :7]), [m])
    assert kept(module, "pixel", device)["m"] == {"registers"}


def test_grids_skip_elements(module: torch_slang.Module, device: torch.device) -> None:
    x = random(40, device=device)
    agree(module.square(grid((12,), offset=(2,), stride=(3,)), x), squared(x[2:38:3]), [x])
    m = random(12, 20, device=device)
    agree(module.pixel(grid((4, 5), offset=(1, 0), stride=(2, 4)), m), squared(m[1:9:2, ::4]), [m])
    assert kept(module, "square", device)["x"] == {"registers"}


def test_broadcast_arguments_beside(module: torch_slang.Module, device: torch.device) -> None:
    """The loop by rows, and an expanded argument."""
    x = random(6, device=device)
    gain = random(6, device=device)
    agree(module.scaled(call_id(), gain, x), gain * x * x, [gain, x])
    agree(module.scaled(thread_id(), gain[:1].expand(6), x), gain[:1] * x * x, [gain, x])
    x = random(24, device=device)
    for leaf, wide in (
        (random(4, 6, device=device), lambda t: t),
        (random(6, 4, device=device), lambda t: t.T),
        (random(4, 1, device=device), lambda t: t.expand(4, 6)),
    ):
        agree(module.scaled(thread_id(), wide(leaf), x), wide(leaf) * squared(x).view(4, 6), [leaf, x])
    assert kept(module, "scaled", device)["x"] == {"registers"}


def test_views_of_one_tensor(module: torch_slang.Module, device: torch.device) -> None:
    x = random(50, device=device)
    agree(called(module.product, call_id(), (50,), x, x), x * x, [x])
    agree(called(module.product, call_id(), (24,), x[::2], x[1:]), x[:48:2] * x[1:25], [x])
    agree(called(module.product, call_id(), (9,), x[:1].expand(9), x.flip(0)), x[:1] * x.flip(0)[:9], [x])
    m = random(6, 7, device=device)
    agree(called(module.pixel, call_id(), (7, 6), m.T), squared(m.T), [m])


def test_views_in_structs(module: torch_slang.Module, device: torch.device) -> None:
    first, second, gain = (random(20, device=device), random(21, device=device), random(device=device))
    result = torch.empty(20, dtype=DOUBLE, device=device)
    tables = {"first": {"values": first, "gain": gain}, "second": second}
    agree(module.nested(call_id(), tables, _result=result), gain * first * second[:20], [first, second, gain])
    found = kept(module, "nested", device)
    assert found["tables.first.values"] == found["tables.second"] == {"registers"}


@some_cases(1)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_types(module: torch_slang.Module, device: torch.device, dtype: torch.dtype) -> None:
    tolerance = 2e-3 if dtype == torch.float16 else 1e-6
    for name in ("square", "replicated", "recorded"):
        x = random(33, device=device, dtype=dtype)
        agree(called(getattr(module, name), call_id(), (33,), x), OWN[name][3](x), [x], tolerance)


def at(index: Callable[[Tensor, int], Tensor]) -> Callable[..., Tensor]:
    """The square of x there, of all i along a call of the tensor's size."""

    def reference(x: Tensor) -> Tensor:
        return squared(x[index(torch.arange(len(x), device=x.device), len(x))])

    return reference


# Those that take n, and what they compute of a tensor of n elements in a call of n.
SHARED: dict[str, tuple[bool, Callable[..., Tensor]]] = {
    "halved": (False, at(lambda i, n: i // 2)),
    "seventh": (False, at(lambda i, n: i % 7)),
    "thrice": (True, at(lambda i, n: i * 3 % n)),
    "backwards": (True, at(lambda i, n: n - 1 - i)),
    "wrapped": (True, lambda x: 2 * x[torch.arange(len(x), device=x.device) * 0x80000001 % 2**32 % len(x)]),
    "negated": (True, at(lambda i, n: (n - i) % n)),
    "neighbours": (True, lambda x: x * x[(torch.arange(len(x), device=x.device) + 1).clamp(max=len(x) - 1)]),
    "also_first": (False, lambda x: x * x[0]),
    "narrowed": (False, lambda x: 2 * x[torch.arange(len(x), device=x.device) & 255]),
}


@some_cases(2)
@pytest.mark.parametrize("name", SHARED)
def test_other_elements_are_added_atomically(module: torch_slang.Module, device: torch.device, name: str) -> None:
    takes_size, reference = SHARED[name]
    for size in (33, 3001):
        x = random(size, device=device)
        sizes = [size] if takes_size else []
        agree(called(getattr(module, name), call_id(), (size,), *sizes, x), reference(x), [x], 1e-10)
    assert kept(module, name, device)["x"] == {"atomics"}


@dear_test
def test_one_axis_is_shared_along_the_other(module: torch_slang.Module, device: torch.device) -> None:
    x = random(20, device=device)
    agree(called(module.column, call_id(), (5, 20), x), squared(x).expand(5, 20), [x])
    agree(called(module.line, call_id(), (20, 5), x), squared(x)[:, None].expand(20, 5), [x])
    m = random(20, 20, device=device)
    agree(called(module.both_ways, call_id(), (20, 20), m), m * m.T, [m])
    agree(called(module.diagonal, call_id(), (5, 20), m), 2 * m.diagonal().expand(5, 20), [m])
    for name, argument in (("column", "x"), ("line", "x"), ("both_ways", "m"), ("diagonal", "m")):
        assert kept(module, name, device)[argument] == {"atomics"}
    # The call has no more elements along the other axis than one.
    agree(called(module.column, call_id(), (1, 20), x), squared(x)[None], [x])
    assert kept(module, "column", device)["x"] == {"atomics", "registers"}
    agree(module.on_x(grid((1, 1, 20)), x), squared(x)[None, None], [x])
    assert kept(module, "on_x", device)["x"] == {"registers"}


def test_indices_in_memory(module: torch_slang.Module, device: torch.device) -> None:
    x = random(20, device=device)
    j = torch.arange(100, dtype=torch.int32, device=device) * 7 % 20
    agree(module.given(call_id(), j, x), squared(x[j]), [x])
    agree(module.square(j, x), squared(x[j]), [x])
    assert kept(module, "given", device)["x"] == {"atomics"}
    points = random(20, 3, device=device)
    i = torch.arange(20, device=device)
    agree(called(module.triple_at, call_id(), (20,), points), points[i, i % 3] * points[:, 0], [points])


def test_some_own_and_some_not(module: torch_slang.Module, device: torch.device) -> None:
    x, w = random(300, device=device), random(3, device=device)
    agree(called(module.own_and_all, call_id(), (300,), x, w), x * w[0] + w[1] * w[2], [x, w])
    found = kept(module, "own_and_all", device)
    assert found["x"] == {"registers"}
    assert found["w"] == {"sums, then atomics"}


@pytest.mark.parametrize("in_dims", [(0,), (None,)])
def test_vmap(module: torch_slang.Module, device: torch.device, in_dims: tuple[int | None]) -> None:
    """Samples of the same places, and of one tensor for all."""
    x = random(4, 20, device=device) if in_dims == (0,) else random(20, device=device)
    gain = random(4, 20, device=device)

    def function(gain: Tensor, x: Tensor) -> Tensor:
        result: Tensor = module.scaled(call_id(), gain, x)
        return result

    result = torch.vmap(function, in_dims=(0, *in_dims))(gain, x)
    agree(result, gain * squared(x).expand(4, 20), [gain, x])

    def gradient(gain: Tensor, x: Tensor) -> Tensor:
        found: Tensor = torch.func.grad(lambda x: function(gain, x).sum())(x)
        return found

    found = torch.vmap(gradient, in_dims=(0, *in_dims))(gain, x)
    torch.testing.assert_close(found, 2 * gain * x.expand(4, 20))


def test_traced_and_checked(module: torch_slang.Module, device: torch.device, fresh_dynamo: None) -> None:
    gain, x = random(7, device=device), random(7, device=device)
    assert torch.autograd.gradcheck(lambda gain, x: module.scaled(call_id(), gain, x), (gain, x))
    traced = torch.compile(lambda gain, x: module.scaled(call_id(), gain, x).sin(), fullgraph=True, backend="aot_eager")
    agree(traced(gain, x), (gain * x * x).sin(), [gain, x])


def test_deterministic_mode_takes_own_elements(module: torch_slang.Module, device: torch.device) -> None:
    x = random(33, device=device)
    torch.use_deterministic_algorithms(True)
    called(module.square, call_id(), (33,), x).sum().backward()
    with pytest.raises(RuntimeError, match="added up atomically"):
        called(module.halved, call_id(), (33,), x).sum().backward()


def test_indices_outside_are_reported(module: torch_slang.Module) -> None:
    x = random(30, device=torch.device("cpu"))
    result = torch.empty(33, dtype=DOUBLE)
    with pytest.raises(IndexError, match="x"):
        module.square(call_id(), x, _result=result)


FEW: dict[str, tuple[tuple[int, ...], Callable[..., Tensor]]] = {
    "first": ((3,), lambda x, k, w: x * w[0]),
    "of_three": ((3,), lambda x, k, w: x * w[0] ** 2 + w[1] * w[2]),
    "chosen": ((5,), lambda x, k, w: x * w[k] ** 2),
    "of_matrix": ((5, 2), lambda x, k, w: x * w[k, 1] + x * x * w[1, 0]),
    "of_vectors": ((2, 2), lambda x, k, w: x[..., None] * w[0] * w[1]),
    "of_replicas": ((2,), lambda x, k, w: x * w[0] * w[1]),
    "of_records": ((3,), lambda x, k, w: x * w[1]),
}


@some_cases(2)
@pytest.mark.parametrize("name", FEW)
def test_few_elements_for_all(module: torch_slang.Module, device: torch.device, name: str) -> None:
    """Their sums are made in registers: in the loop over elements, that by rows, and where they are too few for it."""
    sizes, reference = FEW[name]
    w = random(*sizes, device=device)
    function = getattr(module, name)
    for x in (random(4, device=device), random(100_003, device=device), random(60, 50, device=device).detach().T):
        k = torch.arange(x.numel(), dtype=torch.int32, device=device).view(x.shape) * 3 % 5
        leaves = [x, w] if x.requires_grad else [w]
        result = function(x, k, w) if name in {"chosen", "of_matrix"} else function(x, w)
        agree(result, reference(x, k.long(), w), leaves, 1e-10)
    found = kept(module, name, device)["w"]
    few = {"of_replicas": {"sums, then replicas", "replicas"}, "of_records": {"records"}}
    assert found == few.get(name, {"sums, then atomics", "atomics"})


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_sums_of_few_are_wide(module: torch_slang.Module, device: torch.device, dtype: torch.dtype) -> None:
    """What atomics in halves would lose: each addition is below the sum's last digit."""
    x = torch.full((20_000,), 0.25, dtype=dtype, device=device)
    w = torch.ones(1, dtype=dtype, device=device, requires_grad=True)
    module.first(x, w).sum().backward()
    assert w.grad is not None
    torch.testing.assert_close(w.grad.double(), torch.full_like(w, 5000).double(), rtol=2e-2, atol=0)


def test_few_elements_of_an_index_outside(module: torch_slang.Module) -> None:
    x, w = torch.ones(100, dtype=DOUBLE), random(2, device=torch.device("cpu"))
    k = torch.zeros(100, dtype=torch.int32)
    result = module.chosen(x, k, w)
    k.data[50] = 2  # autograd does not see it
    with pytest.raises(IndexError, match="w"):
        result.sum().backward()


# Of random programs: an index along a view's rows or columns, in Slang and in torch; p is the place in a call of n rows
# and m columns. The first two are the element's own.
Index = Callable[[Tensor, Tensor, int, int], Tensor]
INDICES: list[tuple[str, Index]] = [
    ("p.y", lambda y, x, n, m: y),
    ("p.x", lambda y, x, n, m: x),
    ("(p.y / 2)", lambda y, x, n, m: y // 2),
    ("(p.x % 7)", lambda y, x, n, m: x % 7),
    ("(p.x * 3 % m)", lambda y, x, n, m: x * 3 % m),
    ("(n - 1 - p.y)", lambda y, x, n, m: n - 1 - y),
    ("min(p.y, p.x)", lambda y, x, n, m: torch.minimum(y, x)),
    ("((p.y + n) % n)", lambda y, x, n, m: y),
    ("(p.x + 0 * p.y)", lambda y, x, n, m: x),
    ("int(uint(p.y) * 3u / 3u)", lambda y, x, n, m: y),
    ("(p.y ^ 1)", lambda y, x, n, m: y ^ 1),
    ("0", lambda y, x, n, m: 0 * y),
]
PROGRAMS = 12


def drawn(program: int) -> list[list[tuple[str, int, int]]]:
    """The terms of a program: products of elements of a, b and c, each with its indices."""
    numbers = Random(program)
    usual = (0, 1) if numbers.random() < 0.7 else (1, 0)

    def index() -> int:
        return numbers.choice([0, 1, numbers.randrange(len(INDICES))])

    def factor() -> tuple[str, int, int]:
        return (numbers.choice("abc"), *(usual if numbers.random() < 0.7 else (index(), index())))

    return [[factor() for _ in range(numbers.randint(1, 2))] for _ in range(numbers.randint(1, 3))]


def slang_of(program: int) -> str:
    def term(factors: list[tuple[str, int, int]]) -> str:
        return " * ".join(f"{view}[uint({INDICES[i][0]}), uint({INDICES[j][0]})]" for view, i, j in factors)

    first, *others = drawn(program)
    body = f"double sum = {term(first)};"
    body += "".join(f" if (p.x % {k} != 0) sum += {term(factors)};" for k, factors in enumerate(others, 2))
    views = "DiffTensorView<double> a, DiffTensorView<double> b, DiffTensorViewR<double, 4> c"
    return f"[Differentiable] double f{program}(int2 p, int n, int m, {views}) {{ {body} return sum; }}"


@functools.cache
def programs() -> torch_slang.Module:
    source = "\n".join(map(slang_of, range(PROGRAMS)))
    return torch_slang.load(source=source, name="own_place_programs", namespace="own_place_programs")


def reference_of(program: int, n: int, m: int, views: dict[str, Tensor]) -> Tensor:
    device = views["a"].device
    y, x = torch.meshgrid(torch.arange(n, device=device), torch.arange(m, device=device), indexing="ij")
    result = torch.zeros(n, m, dtype=DOUBLE, device=device)
    for k, factors in enumerate(drawn(program), 1):
        term = torch.ones_like(result)
        for view, i, j in factors:
            term = term * views[view][INDICES[i][1](y, x, n, m), INDICES[j][1](y, x, n, m)]
        result = result + (term if k == 1 else torch.where(x % k != 0, term, 0))
    return result


@some_cases(1)
@pytest.mark.parametrize("program", sampled(list(range(PROGRAMS)), lambda program: program < 6))
def test_random_programs(device: torch.device, program: int) -> None:
    for n, m in ((1, 1), (6, 6), (70, 33), (2, 301)):
        side = max(n, m, 6) + 2
        views = {name: random(side, side, device=device) for name in "abc"}
        expected = reference_of(program, n, m, views)
        result = called(getattr(programs(), f"f{program}"), call_id(), (n, m), n, m, *views.values())
        torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-12)
        seed = torch.rand(n, m, dtype=DOUBLE, generator=torch.Generator().manual_seed(7)).to(device)
        found = torch.autograd.grad(result, list(views.values()), seed)
        wanted = torch.autograd.grad(expected, list(views.values()), seed, allow_unused=True)
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, torch.zeros_like(one) if other is None else other, rtol=1e-10, atol=1e-10)


# The others have indices of another number than their generator has.
HAS_NONE = [name for name in OWN if name not in {"triple", "on_x", "looped"}]
HAS_ATOMICS = ["halved", "neighbours", "column", "both_ways", "narrowed", "first"]


@some_cases(9)
@pytest.mark.parametrize("name", HAS_NONE + HAS_ATOMICS)
def test_compiled_code_has_atomics_where_gradients_are_shared_alone(module: torch_slang.Module, name: str) -> None:
    """What NVRTC makes for a GPU, on any machine."""
    if not nvrtc_is_here():
        pytest.skip("NVRTC is not installed")
    handle = kernels_unchecked()._handle
    types = ["float64" for _ in handle.describe(name)["type_parameters"]]
    made = name if name == "first" else handle.generating(name, [0])
    ptx = handle.cubin(made, "backward", types, True, "compute_90").decode()
    atomics = re.findall(r"^\s*(?:red|atom)\.[\w.]+", ptx, re.MULTILINE)
    assert bool(atomics) == (name in HAS_ATOMICS)


@dear_test
@some_cases(1)
@pytest.mark.parametrize("name", FEW)
def test_sums_of_few_compile_for_a_gpu(name: str) -> None:
    """A wave adds up first: there are shuffles, and additions once for all elements of a thread."""
    if not nvrtc_is_here():
        pytest.skip("NVRTC is not installed")
    for dtype in ("float16", "float32", "float64"):
        ptx = kernels_unchecked()._handle.cubin(name, "backward", [dtype], False, "compute_90").decode()
        assert ("shfl.sync" in ptx) == (name != "of_records")
