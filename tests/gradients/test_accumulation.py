"""Gradients gathered atomically, in replicas and as records: the same numbers, from the same kernels."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from cases import Case, Index, Input, kernels
from long_tests import dear_test, sampled, some_cases, some_tests

import torch_slang
from torch_slang import testing

pytestmark = some_tests(3)

Tensor = torch.Tensor
MODES = ["aa", "r", "asr"]
NARROW = [torch.float32, torch.float16, torch.bfloat16]
UNORDERED = {"nondet_tol": 1e-12}
NO_EMPTY = {**UNORDERED, "empty": False}  # elements are found by an index, or stand at fixed places
FLOATS = {"dtype": torch.float32, "options": {"gradcheck_dtype": None, "empty": False}}


def stencil(x: Tensor) -> Tensor:
    a, b, c = (x.roll(-k) for k in (1, 2, 3))
    return x * a + a * b + b * c


def doubled(bodies: Tensor) -> Tensor:
    mass, velocity = bodies[:, :1], bodies[:, 1:]
    return torch.cat([mass * mass, velocity * 2 * mass], dim=1)


BODIES: dict[str, tuple[tuple[Any, ...], Callable[..., Tensor], dict[str, Any]]] = {
    "gather": ((Input((5,)), Index((9,), below=5)), lambda t, i: t[i] ** 2, {"options": NO_EMPTY}),
    "fixed": ((Input((70,)), Input((2,))), lambda x, w: x * w[0] + w[1], {"options": NO_EMPTY}),
    "uniform": ((Input((6, 2)),), lambda x: x[:, 0] ** 3 + x[:, 1], {}),
    "once": ((Input((6, 2)),), lambda x: x[:, 0] * x[:, 1], {}),
    "vectors": (
        (Input((5, 3)), Index((7,), below=5)),
        lambda p, i: torch.linalg.cross(p[i], p[:1].expand(len(i), 3)),
        {"options": NO_EMPTY},
    ),
    "back": ((Input((6,)),), lambda x: x**5, {}),
    "stencil": ((Input((7,)),), stencil, {"options": UNORDERED}),
    "layered": (
        (Input((5,)), Index((9,), below=5), Input((1,)), Input((5,))),
        lambda x, i, scale, shift: x[i] * scale + shift[i],
        {"options": NO_EMPTY},
    ),
    "energies": (
        (Input((5, 4)), Index((9,), below=5)),
        lambda b, i: b[i, 0] * (b[i, 1:] ** 2).sum(-1) + b[0, 0],
        FLOATS,
    ),
    "doubled": ((Input((5, 4)),), doubled, FLOATS),
}
CASES = {
    (body, mode): Case("accumulation", f"{body}_{mode}", inputs, reference, **more)
    for body, (inputs, reference, more) in BODIES.items()
    for mode in MODES
}


def is_turn_of(body: str, mode: str, dtype: torch.dtype = torch.float32) -> bool:
    """Bodies take turns: one mode each, in each type.

    What the modes differ in is proved by others that stay: test_modes_agree_on_strided_and_expanded_tensors compares
    the gradients of all modes of each body.
    """
    return (list(BODIES).index(body) + MODES.index(mode) + NARROW.index(dtype)) % len(MODES) == 0


@some_cases(1)
@pytest.mark.parametrize(("body", "mode"), sampled(itertools.product(BODIES, MODES), is_turn_of))
def test_every_mode_is_a_proper_operator(body: str, mode: str, device: torch.device) -> None:
    case = CASES[body, mode]
    testing.check(case.op, case.args(device), reference=case.reference, **case.options, order=1)


def backward_of(body: str, mode: str, args: list[Any], seed: Tensor) -> list[Tensor]:
    wanted = [a for a in args if isinstance(a, Tensor) and a.requires_grad]
    return list(torch.autograd.grad(CASES[body, mode].op(*args), wanted, seed))


@some_cases(1)
@pytest.mark.parametrize("body", BODIES)
def test_modes_agree_on_strided_and_expanded_tensors(body: str, device: torch.device) -> None:
    case = CASES[body, "aa"]
    args = []
    for value in case.args(device):
        if not (isinstance(value, Tensor) and value.is_floating_point()):
            args.append(value)
            continue
        room = torch.zeros(*value.shape, 2, dtype=value.dtype, device=device)
        room[..., 0] = value.detach()
        strided = room[..., 0]
        if value.dim() == 2 and body not in ("uniform", "once"):
            # The numbers of an element must be packed, the elements need not.
            strided = torch.cat([strided, strided], dim=1)[:, : value.shape[1]]
        args.append(strided.requires_grad_())
    result = case.op(*args)
    seed = torch.tensor(0.5, dtype=result.dtype, device=device).expand_as(result)
    runs = [backward_of(body, mode, args, seed) for mode in MODES]
    for run in runs[1:]:
        for one, other in zip(run, runs[0], strict=True):
            torch.testing.assert_close(one, other)


@some_cases(1)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_replicas_and_records_of_halves_are_rounded_once(dtype: torch.dtype, device: torch.device) -> None:
    """4096 times 1 and then some: a sum in the type itself would stop where the next step is too large for it."""
    count = 4096
    table = torch.ones(5, dtype=dtype, device=device, requires_grad=True)
    index = torch.zeros(count, dtype=torch.int64, device=device)
    seed = torch.ones(count, dtype=dtype, device=device)
    for mode in ("r", "asr"):
        (gradient,) = backward_of("gather", mode, [table, index], seed)
        assert gradient.dtype == dtype
        assert gradient.tolist() == [2.0 * count, 0, 0, 0, 0]


@some_cases(1)
@pytest.mark.parametrize(
    ("body", "mode", "dtype"),
    sampled(itertools.product(("gather", "fixed", "uniform", "once", "stencil"), MODES, NARROW), is_turn_of),
    ids=str,
)
def test_narrower_types_agree_with_float64(body: str, mode: str, dtype: torch.dtype, device: torch.device) -> None:
    case = CASES[body, mode]
    args = case.args(device, dtype)
    exact = [
        a.detach().double().requires_grad_() if isinstance(a, Tensor) and a.is_floating_point() else a for a in args
    ]
    result, expected = case.op(*args), case.reference(*exact)
    seed = torch.linspace(-1, 1, len(result), device=device)
    wanted = [a for a in args if a.requires_grad]
    reals = [a for a in exact if a.requires_grad]
    gradients = torch.autograd.grad(result, wanted, seed.to(dtype))
    exact_gradients = torch.autograd.grad(expected, reals, seed.to(dtype).double())
    tolerance = 40 * torch.finfo(dtype).eps
    for one, other in zip(gradients, exact_gradients, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=tolerance, atol=tolerance)


@dear_test
@pytest.mark.parametrize("mode", MODES)
def test_a_launched_backward_adds_to_what_is_there(mode: str, device: torch.device) -> None:
    """Replicas and records are the launch's own; their sum is added to the caller's gradient, halves too."""
    for dtype in (torch.float64, torch.float16):
        table, index = CASES["gather", mode].args(device, dtype)
        table = table.detach()
        result = torch.zeros(len(index), dtype=dtype, device=device)
        seed = torch.ones_like(result)
        room = torch.full((5, 2), 3, dtype=dtype, device=device)
        launch = getattr(kernels("accumulation"), f"gather_{mode}_bwd")
        launch((table, room[:, 0]), index, (result, seed), launchBlockSize=4, launchGridSize=3)
        expected = torch.zeros(5, dtype=torch.float64, device=device).index_add_(0, index, 2 * table[index].double())
        torch.testing.assert_close(room[:, 0].double(), 3 + expected, rtol=4e-3, atol=4e-3)
        assert not seed.any()
        assert room[:, 1].tolist() == [3] * 5


@dear_test
@pytest.mark.parametrize("mode", ["r", "asr"])
def test_a_launched_backward_takes_gradients_of_halves_where_they_are(mode: str, device: torch.device) -> None:
    """The kernel takes from memory wide enough to add in; the caller's gradient is what is left there."""
    x = torch.tensor([[1.5, 2.0], [0.5, 4.0]], dtype=torch.float16, device=device)
    gradient, seed = torch.ones_like(x), torch.ones(2, 2, dtype=torch.float16, device=device)[:, 0]
    launch = getattr(kernels("accumulation"), f"uniform_{mode}_bwd")
    launch((x, gradient), (torch.zeros_like(seed), seed), block_size=2, grid_size=1)
    assert gradient.tolist() == [[1 + 3 * 1.5**2, 2.0], [1 + 3 * 0.5**2, 2.0]]
    assert seed.tolist() == [0.0, 0.0]


@dear_test
@pytest.mark.parametrize("mode", MODES)
def test_unwanted_gradients_cost_nothing(mode: str, device: torch.device) -> None:
    x, weight = CASES["fixed", mode].args(device)
    (gradient,) = torch.autograd.grad(CASES["fixed", mode].op(x, weight.detach()).sum(), x)
    torch.testing.assert_close(gradient, weight[0].detach().expand(70))


@some_cases(1)
@pytest.mark.parametrize("mode", MODES)
def test_no_threads_and_no_elements(mode: str, device: torch.device) -> None:
    table = torch.ones(5, dtype=torch.float64, device=device, requires_grad=True)
    none = torch.zeros(0, dtype=torch.int64, device=device)
    CASES["gather", mode].op(table, none).sum().backward()
    assert table.grad.tolist() == [0.0] * 5
    empty = torch.ones(0, 2, dtype=torch.float64, device=device, requires_grad=True)
    CASES["once", mode].op(empty).sum().backward()
    assert empty.grad.shape == (0, 2)


HUGE = """
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void huge([Shape("N")] VIEW x, [Out("N")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < x.size(0)) y[i] = 2 * x[x.size(0) - 1 - i];
}
"""


@dear_test
@some_cases(1)
@pytest.mark.parametrize("view", ["DiffTensorViewR<float, 65536>", "DiffTensorViewASR<float, 65536>"])
def test_memory_that_runs_out_leaves_everything_usable(view: str, device: torch.device) -> None:
    name = "huge_" + "".join(c for c in view if c.isalnum())
    module = torch_slang.load(source=HUGE.replace("VIEW", view), name=name, namespace=name)
    count = 1 << 29  # replicas of 128 TiB, records of 384 TiB
    x = torch.empty(1, device=device).expand(count)
    with pytest.raises(RuntimeError, match=r"(?i)memory|allocate"):
        getattr(torch.ops, name).huge_backward(x, x, [True])
    small = torch.ones(8, device=device, requires_grad=True)
    module.huge(small).sum().backward()
    assert small.grad.tolist() == [2.0] * 8


@pytest.mark.parametrize(
    ("view", "message"),
    [
        ("DiffTensorViewR<float, 0>", "N"),
        ("DiffTensorViewASR<float, 100000>", "N"),
        ("DiffTensorView<Marked>", "Marked"),
    ],
)
def test_views_that_cannot_be_right_are_refused(view: str, message: str) -> None:
    source = """
    struct Marked : IDifferentiable { float value; no_diff float mark; }
    [PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
    void refused([Shape("N")] VIEW x, [Out("N")] DiffTensorView<float> y) { y[0] = 0; }
    """
    name = "refused_" + "".join(c for c in view if c.isalnum())
    module = torch_slang.load(source=source.replace("VIEW", view), name=name, namespace=name)
    assert module.kernels() == ()
    with pytest.raises(AttributeError, match=f"refused is not available: parameter x .*{message}"):
        module.refused  # noqa: B018
