"""Gradients of values: of numbers, vectors, matrices, arrays and structs that all threads of a launch share."""

import itertools
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from agreement import check_against
from cases import FOLDER, kernels
from devices import needs_cuda
from long_tests import LONG, long_test, some_cases, some_tests

import torch_slang
from torch_slang import testing

pytestmark = some_tests(4)

Tensor = torch.Tensor
F64 = torch.float64


class Lens(NamedTuple):
    focal: Any
    centre: Any
    aperture: Any


class Response(NamedTuple):
    curve: Any
    corrections: Any


class Camera(NamedTuple):
    lens: Lens
    turn: Any
    response: Response
    mode: int


class Tone(NamedTuple):
    gain: Any
    bias: Any


class Grade(NamedTuple):
    tone: Tone
    balance: Any


@pytest.fixture(scope="module")
def values() -> torch_slang.Module:
    return kernels("value_gradients")


@pytest.fixture(scope="module")
def meetings() -> torch_slang.Module:
    return kernels("value_meetings")


def random(*shape: int, dtype: torch.dtype = F64, low: float = 0.5, high: float = 2.0, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return (torch.rand(shape, dtype=F64, generator=generator) * (high - low) + low).to(dtype)


def many_weights(x: Tensor, w: Tensor) -> Tensor:
    rows = torch.arange(len(x), device=x.device) % 10
    return x * (w[rows] * w.flip(1).diagonal()).sum(1)


def leaves_early(x: Tensor, s: Tensor, t: Tensor) -> Tensor:
    def root(v: Tensor) -> Tensor:
        return -s if v < 0 else s * s if s < 0 else (v + s).sqrt()

    y = []
    for i, v in enumerate(x):
        if i % 5 == 0:
            y.append(v * t)
        elif i % 7 == 3:
            y.append(0 * v)
        else:
            y.append(sum(root(v + k) for k in range(i % 6 + 1)) * t)
    return torch.stack(y) if y else x * s * t


def own_derivative(x: Tensor, s: Tensor) -> Tensor:
    return torch.where(torch.arange(len(x), device=x.device) % 3 == 0, x, x * s)


def grid_2d(x: Tensor, v: Tensor) -> Tensor:
    return x * v[0] * v[1] + v[2] * torch.arange(x.shape[1], device=x.device)


def shares(group: int) -> Callable[..., Tensor]:
    def reference(x: Tensor, s: Tensor) -> Tensor:
        return torch.cat([(part + s) * s / (part + s).square().sum() for part in x.split(group)]) if len(x) else x * s

    return reference


CASES: dict[str, tuple[str, tuple[tuple[int, ...] | float, ...], Callable[..., Tensor]]] = {
    "times_number": ("value_gradients", ((7,), ()), lambda x, s: x * s),
    "waves_of": ("value_gradients", ((300,), (), (), 0.25), lambda x, a, p, start: a * (x * p + start).sin()),
    "along_vector": ("value_gradients", ((5, 3), (3,)), lambda x, v: x @ v * v[0] + v[1] * v[2]),
    "by_matrices": (
        "value_gradients",
        ((6, 4), (3, 4), (2, 2)),
        lambda x, m, a: x @ m.mT + a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0],
    ),
    "polynomial": (
        "value_gradients",
        ((5,), (4,)),
        lambda x, a: a[0] + x * (a[1] + x * (a[2] + x * a[3])),
    ),
    "many_weights": ("value_gradients", ((23,), (10, 10)), many_weights),
    "leaves_early": ("value_gradients", ((70,), (), ()), leaves_early),
    "own_derivative": ("value_own_backward", ((70,), ()), own_derivative),
    "grid_2d": ("value_gradients", ((5, 40), (3,)), grid_2d),
    "grid_3d": ("value_gradients", ((3, 5, 9), ()), lambda x, s: x * s),
    "block_shares": ("value_meetings", ((150,), ()), shares(64)),
    "wave_shares": ("value_meetings", ((150,), ()), shares(32)),
}


def arguments(name: str, device: torch.device) -> list[Any]:
    shapes = CASES[name][1]
    return [
        shape if isinstance(shape, float) else random(*shape, seed=i).to(device).requires_grad_()
        for i, shape in enumerate(shapes)
    ]


# Layouts, frozen arguments and empty tensors: of a number, a vector, and threads that meet. The other kernels differ in
# how values enter their sums, which values and gradients show.
OF_EACH_KIND = {"times_number", "along_vector", "block_shares"}


@some_cases(2)
@pytest.mark.parametrize("name", CASES)
def test_values_of_every_shape_have_gradients(name: str, device: torch.device) -> None:
    file, _, reference = CASES[name]
    kernel = getattr(kernels(file), name)
    if LONG or name in OF_EACH_KIND:
        testing.check(kernel, arguments(name, device), reference=reference, order=1)
    else:
        check_against(kernel, arguments(name, device), reference)


def test_negative_paths_of_a_kernel_that_leaves_early(values: torch_slang.Module, device: torch.device) -> None:
    x = random(70, low=-3, high=3).to(device).requires_grad_()
    s, t = (torch.tensor(v, dtype=F64, device=device, requires_grad=True) for v in (-0.5, 1.5))
    seed = random(70, seed=5).to(device)
    actual = torch.autograd.grad(values.leaves_early(x, s, t), (x, s, t), seed)
    torch.testing.assert_close(actual, torch.autograd.grad(leaves_early(x, s, t), (x, s, t), seed))


def camera(device: torch.device) -> Camera:
    def leaf(*shape: int, seed: int) -> Tensor:
        return random(*shape, seed=seed).to(device).requires_grad_()

    corrections = tuple(Lens(leaf(seed=k), leaf(2, seed=k), 0.5) for k in (1, 2))
    turn = (torch.eye(3, dtype=F64) + 0.1 * random(3, 3)).to(device).requires_grad_()
    return Camera(Lens(leaf(seed=3), leaf(2, seed=4), 0.25), turn, Response(leaf(3, seed=5), corrections), 1)


def photograph(points: Tensor, cam: Camera, exposure: Tensor) -> Tensor:
    def project(lens: Lens, p: Tensor) -> Tensor:
        return lens.focal * p[:, :2] / p[:, 2:] * lens.aperture + lens.centre

    p = points @ cam.turn.mT
    even = (torch.arange(len(p), device=p.device) % 2 == 0)[:, None]
    first, second = (project(lens, p) for lens in cam.response.corrections)
    at = project(cam.lens, p) + torch.where(even, first, second)
    light = exposure * (-at.square().sum(1)).exp()
    curve = cam.response.curve
    return light * (curve[0] + light * (curve[1] + light * curve[2]))


def leaves(value: Any) -> list[Tensor]:
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in leaves(item)]
    return [value] if isinstance(value, Tensor) else []


def test_nested_structs_have_gradients_by_field(values: torch_slang.Module, device: torch.device) -> None:
    points = random(9, 3, low=1).to(device).requires_grad_()
    exposure = torch.tensor(1.5, dtype=F64, device=device, requires_grad=True)
    call = (points, camera(device), exposure)
    testing.check(values.photograph, call, order=1)
    wanted = leaves(call)
    assert len(wanted) == 10
    torch.testing.assert_close(values.photograph(*call), photograph(*call))
    seed = random(9, seed=8).to(device)
    actual = torch.autograd.grad(values.photograph(*call), wanted, seed)
    torch.testing.assert_close(actual, torch.autograd.grad(photograph(*call), wanted, seed))


def test_a_named_tuple_is_what_autograd_differentiates_by(values: torch_slang.Module, device: torch.device) -> None:
    x = random(100).to(device)
    tone = Tone(*(torch.tensor(v, dtype=F64, device=device, requires_grad=True) for v in (2.0, 3.0)))
    gradients = Tone(*torch.autograd.grad(values.toned(x, tone).sum(), tone))
    torch.testing.assert_close(gradients.gain, x.sum())
    assert gradients.bias.item() == 600
    grade = Grade(tone, torch.tensor([0.5, 1.0], dtype=F64, device=device, requires_grad=True))
    values.graded(x, grade).sum().backward()
    torch.testing.assert_close(tone.gain.grad, 0.5 * x.sum())
    torch.testing.assert_close(tone.bias.grad, torch.tensor(50.0, dtype=F64, device=device))
    torch.testing.assert_close(grade.balance.grad, torch.stack([(2 * x + 3).sum(), torch.full_like(x[0], 100)]))


def test_frozen_values_have_none(values: torch_slang.Module, device: torch.device) -> None:
    cam, points = camera(device), random(9, 3, low=1).to(device)
    exposure = torch.tensor(1.5, dtype=F64, device=device, requires_grad=True)
    every = leaves((cam, exposure))
    expected = torch.autograd.grad(photograph(points, cam, exposure).sum(), every)
    for chosen in itertools.chain(itertools.combinations(range(len(every)), 1), itertools.combinations(range(4), 2)):
        for i, leaf in enumerate(every):
            leaf.requires_grad_(i in chosen).grad = None
        values.photograph(points, cam, exposure).sum().backward()
        for i, leaf in enumerate(every):
            if i in chosen:
                torch.testing.assert_close(leaf.grad, expected[i])
            else:
                assert leaf.grad is None


@some_cases(1)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_long_sums_are_rounded_once(values: torch_slang.Module, dtype: torch.dtype, device: torch.device) -> None:
    """Each term and each sum of terms is exact in float32."""
    x = (torch.arange(100_000, device=device) % 16 / 16).to(dtype)
    s = torch.tensor(1.0, dtype=dtype, device=device, requires_grad=True)
    values.times_number(x, s).sum().backward()
    assert s.grad.dtype == dtype
    assert torch.equal(s.grad, x.double().sum().to(dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_launch_rounds_once_what_it_adds(
    values: torch_slang.Module, dtype: torch.dtype, device: torch.device
) -> None:
    x = (torch.arange(1000, device=device) % 16 / 16).to(dtype)
    s, grad_s = torch.tensor(1.0, dtype=dtype, device=device), torch.tensor(1.0, dtype=dtype, device=device)
    values.times_number_bwd(x, (s, grad_s), (torch.empty_like(x), torch.ones_like(x)), block_size=96, grid_size=11)
    assert torch.equal(grad_s, (1 + x.double().sum()).to(dtype))


def test_long_sums_of_float32_are_accurate(values: torch_slang.Module, device: torch.device) -> None:
    x = random(1_000_000, dtype=torch.float32).to(device)
    s = torch.tensor(1.0, device=device, requires_grad=True)
    values.times_number(x, s).sum().backward()
    torch.testing.assert_close(s.grad.double(), x.double().sum(), rtol=1e-6, atol=0)


@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("count", [33, 1_000_003])
def test_sums_are_reproducible_to_the_bit(values: torch_slang.Module, count: int, device: torch.device) -> None:
    x, seed = (random(count, dtype=torch.float32, low=-1, seed=k).to(device) for k in (1, 2))
    a, p = (torch.tensor(v, device=device, requires_grad=True) for v in (1.5, 0.7))
    runs = [torch.autograd.grad(values.waves_of(x, a, p, 0.5), (a, p), seed) for _ in range(5)]
    for run in runs[1:]:
        assert all(torch.equal(one, other) for one, other in zip(run, runs[0], strict=True))
    exact = seed.double() @ (x.double() * p.double() + 0.5).sin()
    torch.testing.assert_close(runs[0][0].double(), exact.detach(), rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("deterministic")
def test_sums_beside_threads_that_meet_are_reproducible(meetings: torch_slang.Module, device: torch.device) -> None:
    x, seed = (random(1000, seed=k).to(device) for k in (1, 2))
    s = torch.tensor(1.5, dtype=F64, device=device, requires_grad=True)
    runs = [torch.autograd.grad(meetings.wave_shares(x, s), s, seed)[0] for _ in range(5)]
    assert all(torch.equal(run, runs[0]) for run in runs)


BLOCKS = [(1,), (31,), (32,), (33,), (96,), (1000,), (8, 4), (5, 7), (33, 3), (3, 5, 7), (1, 1, 32), (2, 40, 3)]


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_blocks_of_any_shape_add_to_the_callers_gradients(
    values: torch_slang.Module, block: tuple[int, ...], device: torch.device
) -> None:
    """Threads of every row, wave and block count once, the surplus ones as well, which have nothing to give."""
    x = random(6, 70, low=-2).to(device)
    v = torch.tensor([0.5, -1.5, 3.0], dtype=F64, device=device)
    seed = random(6, 70, seed=3).to(device)
    before = torch.tensor([10.0, 20.0, 30.0], dtype=F64, device=device)
    grad_v, grad_x = before.clone(), torch.zeros_like(x)
    rows = block[1] if len(block) > 1 else 1
    grid = (-(-70 // block[0]), -(-6 // rows))
    values.grid_2d_bwd((x, grad_x), (v, grad_v), (torch.empty_like(x), seed.clone()), block_size=block, grid_size=grid)
    # Threads that differ in z alone do the same again, but the first has taken the output's gradient.
    wanted = [x.clone().requires_grad_(), v.clone().requires_grad_()]
    expected = torch.autograd.grad(grid_2d(*wanted), wanted, seed)
    torch.testing.assert_close(grad_x, expected[0])
    torch.testing.assert_close(grad_v, before + expected[1])


@pytest.mark.parametrize("block", [(1,), (31,), (33,), (96,), (7, 5)], ids=str)
def test_threads_that_leave_early_count_in_blocks_of_any_shape(
    values: torch_slang.Module, block: tuple[int, ...], device: torch.device
) -> None:
    x, seed = random(200, low=-2).to(device), random(200, seed=4).to(device)
    s, t = (torch.tensor(v, dtype=F64, device=device) for v in (0.5, 1.5))
    grad_s, grad_t = torch.zeros_like(s), torch.zeros_like(t)
    pairs = (x, None), (s, grad_s), (t, grad_t), (torch.zeros_like(x), seed.clone())
    values.leaves_early_bwd(*pairs, block_size=block, grid_size=-(-200 // block[0]))
    wanted = [s.clone().requires_grad_(), t.clone().requires_grad_()]
    expected = torch.autograd.grad(leaves_early(x, *wanted), wanted, seed)
    torch.testing.assert_close([grad_s, grad_t], list(expected))


def test_targets_of_a_launch_may_be_strided_or_one_memory(values: torch_slang.Module, device: torch.device) -> None:
    x = random(100).to(device)
    y, seed = torch.empty_like(x), torch.ones_like(x)
    tone = torch.tensor([2.0, 3.0], dtype=F64, device=device)
    together = torch.zeros((), dtype=F64, device=device)
    tone_pairs = [(tone[0], together), (tone[1], together)]
    values.toned_bwd((x, None), tone_pairs, (y, seed.clone()), block_size=32, grid_size=4)
    torch.testing.assert_close(together, x.sum() + 6 * 100)
    v, spread = torch.ones(3, dtype=F64, device=device), torch.zeros(9, dtype=F64, device=device)
    seed_2d = torch.ones(1, 100, dtype=F64, device=device)
    values.grid_2d_bwd(x[None], (v, spread[::3]), (y[None], seed_2d), block_size=32, grid_size=4)
    sums = torch.stack([x.sum(), x.sum(), torch.full_like(x[0], 4950)])
    torch.testing.assert_close(spread.view(3, 3), torch.stack([sums, 0 * sums, 0 * sums], 1))


@pytest.mark.parametrize("is_deterministic", [False, True])
def test_parts_share_places_where_they_would_take_too_much_memory(
    values: torch_slang.Module, is_deterministic: bool, device: torch.device
) -> None:
    """100 components for each of 300,000 blocks (or waves): 64 MiB are not enough."""
    count = 300_000
    x = (torch.arange(count, device=device) % 8).double()
    w = torch.ones(10, 10, dtype=F64, device=device)
    grad_w = torch.zeros_like(w)
    torch.use_deterministic_algorithms(is_deterministic)
    try:
        pairs = (x, None), (w, grad_w), (torch.empty_like(x), torch.ones_like(x))
        values.many_weights_bwd(*pairs, block_size=1, grid_size=count)
    finally:
        torch.use_deterministic_algorithms(False)
    wanted = w.clone().requires_grad_()
    (expected,) = torch.autograd.grad(many_weights(x, wanted).sum(), wanted)
    assert torch.equal(grad_w, expected)


@pytest.mark.parametrize("count", [200, pytest.param(1040, marks=long_test)])  # what is long is the time alone
def test_values_of_many_components(count: int) -> None:
    """On the host: a GPU has no room for so much in each thread."""
    source = """
    [PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
    void looked_up([Shape("N")] DiffTensorView<float> x, float w[COUNT], [Out("N")] DiffTensorView<float> y)
    {
        uint i = cudaGlobalIdx().x;
        if (i < x.size(0)) y[i] = x[i] * w[i % COUNT];
    }
    """
    module = torch_slang.load(
        source=source, name=f"looked_up_{count}.slang", namespace=f"looked_up_{count}", defines={"COUNT": count}
    )
    x = torch.arange(3 * count - 1).float()
    w = torch.ones(count, requires_grad=True)
    module.looked_up(x, w).sum().backward()
    expected = torch.zeros(count).index_add_(0, torch.arange(len(x)) % count, x)
    assert torch.equal(w.grad, expected)


def test_expanded_output_gradients(values: torch_slang.Module, device: torch.device) -> None:
    x = random(300).to(device)
    s = torch.tensor(2.0, dtype=F64, device=device, requires_grad=True)
    one = torch.tensor(0.5, dtype=F64, device=device)
    (gradient,) = torch.autograd.grad(values.times_number(x, s), s, one.expand(300))
    torch.testing.assert_close(gradient, 0.5 * x.sum())


def test_launches_without_threads_give_zeros(values: torch_slang.Module, device: torch.device) -> None:
    x = torch.empty(0, 4, dtype=F64, device=device)
    m, a = (random(*shape).to(device).requires_grad_() for shape in ((3, 4), (2, 2)))
    values.by_matrices(x, m, a).sum().backward()
    assert torch.equal(m.grad, torch.zeros_like(m))
    assert torch.equal(a.grad, torch.zeros_like(a))


def test_threads_of_the_caller_do_not_mix_their_sums(values: torch_slang.Module, device: torch.device) -> None:
    gradients: dict[int, list[Tensor]] = {k: [] for k in range(1, 5)}

    def work(k: int) -> None:
        x = torch.full((20_000,), float(k), dtype=F64, device=device)
        s = torch.tensor(1.0, dtype=F64, device=device, requires_grad=True)
        for _ in range(10):
            gradients[k] += torch.autograd.grad(values.times_number(x, s).sum(), s)

    threads = [threading.Thread(target=work, args=(k,)) for k in gradients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {k: [g.item() for g in found] for k, found in gradients.items()} == {
        k: [20_000.0 * k] * 10 for k in gradients
    }


def test_debug_mode_changes_no_sum(device: torch.device) -> None:
    source = FOLDER / "value_gradients.slang"
    module = torch_slang.load(source, namespace="test_value_gradients_debug", debug=True)
    x = random(150).to(device)
    s, t = (torch.tensor(v, dtype=F64, device=device, requires_grad=True) for v in (0.5, 1.5))
    actual = torch.autograd.grad(module.leaves_early(x, s, t).sum(), (s, t))
    torch.testing.assert_close(actual, torch.autograd.grad(leaves_early(x, s, t).sum(), (s, t)))


@needs_cuda
def test_numbers_of_the_host_get_their_gradients_there(values: torch_slang.Module) -> None:
    x = random(1000).to("cuda")
    s = torch.tensor(2.0, dtype=F64, requires_grad=True)
    values.times_number(x, s).sum().backward()
    assert s.grad.device.type == "cpu"
    torch.testing.assert_close(s.grad, x.sum().cpu())
    grad_s = torch.tensor(1.0, dtype=F64)
    pairs = (x, None), (s.detach(), grad_s), (torch.empty_like(x), torch.ones_like(x))
    values.times_number_bwd(*pairs, block_size=33, grid_size=31)
    torch.testing.assert_close(grad_s, 1 + x.sum().cpu())


@needs_cuda
def test_sums_in_a_captured_graph(values: torch_slang.Module) -> None:
    x = random(1000).to("cuda")
    s = torch.tensor(2.0, dtype=F64, device="cuda", requires_grad=True)

    def gradient() -> Tensor:
        return torch.autograd.grad(values.times_number(x, s).sum(), s)[0]

    gradient()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        gradient()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = gradient()
    for factor in (1, 3):
        x.mul_(factor)
        graph.replay()
        torch.testing.assert_close(result, x.sum())
