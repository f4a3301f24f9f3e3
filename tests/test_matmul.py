"""torch.ops.slang.mm, matmul and dot, beside torch's own in float64."""

from __future__ import annotations

import io
import itertools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from devices import needs_cuda
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from layouts import Layout, layouts
from torch._dynamo.testing import CompileCounterWithBackend
from torch.autograd import gradcheck, gradgradcheck
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import torch_slang
from torch_slang import testing

Tensor = torch.Tensor
mm, matmul, dot = torch.ops.slang.mm, torch.ops.slang.matmul, torch.ops.slang.dot
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
# Of the largest element. Halves add up in float and round once; gradients of what is broadcast round once more in sums.
ROUNDING = {torch.float64: 1e-13, torch.float32: 1e-5, torch.float16: 2**-10, torch.bfloat16: 2**-7}
TRANSPOSES = list(itertools.product([False, True], repeat=2))


@pytest.fixture(autouse=True)
def the_first_tile() -> Iterator[None]:
    """All tiles are tried by test_mma.py; here each class of sizes would time them."""
    before = torch_slang.tuning.mode("off")
    yield
    torch_slang.tuning.mode(before)


# Operands of all the ranks that torch.matmul takes.
SHAPES = [
    ((4,), (4,)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
    ((3, 4), (4, 5)),
    ((4,), (2, 4, 5)),
    ((2, 3, 4), (4,)),
    ((2, 3, 4), (4, 5)),
    ((3, 4), (2, 4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((1, 3, 4), (2, 4, 5)),
    ((6, 2, 3, 4), (4, 5)),
    ((3, 4), (6, 2, 4, 5)),
    ((6, 2, 3, 4), (1, 4, 5)),
    ((6, 1, 3, 4), (2, 4, 5)),
    ((1, 1, 3, 4), (1, 4, 5)),
]


def randn(*shape: int, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu") -> Tensor:
    generator = torch.Generator().manual_seed(sum(n * 10**i for i, n in enumerate(shape)))
    return torch.randn(shape, dtype=torch.float64, generator=generator).to(device, dtype)


def dot_in_torch(
    a: Tensor,
    b: Tensor,
    transpose_a: bool = False,
    transpose_b: bool = False,
    alpha: float = 1,
    beta: float = 0,
    c: Tensor | None = None,
) -> Tensor:
    product = alpha * torch.matmul(a.mT if transpose_a else a, b.mT if transpose_b else b)
    return product + beta * c if beta else product


def wide(tensor: Tensor) -> Tensor:
    return tensor.detach().double().requires_grad_(tensor.requires_grad)


def assert_near(actual: Tensor, expected: Tensor, dtype: torch.dtype, roundings: int = 1) -> None:
    assert actual.dtype == dtype
    assert actual.shape == expected.shape
    if actual.numel():
        error = (actual.detach().double() - expected.detach()).abs().max().item()
        assert error <= roundings * ROUNDING[dtype] * max(1.0, expected.detach().abs().max().item())


def assert_agrees(
    function: Callable[..., Tensor], reference: Callable[..., Tensor], tensors: list[Tensor], grad_of: Callable = randn
) -> None:
    """Result and gradients; `reference` runs in float64."""
    dtype, device = tensors[0].dtype, tensors[0].device
    references = [wide(t) for t in tensors]
    result, expected = function(*tensors), reference(*references)
    assert_near(result, expected, dtype, 3)
    assert result.is_contiguous()
    wanted = [i for i, t in enumerate(tensors) if t.requires_grad]
    assert result.requires_grad == expected.requires_grad
    if not result.requires_grad:
        return
    grad = grad_of(*result.shape, dtype=dtype, device=device)
    ours = torch.autograd.grad(result, [tensors[i] for i in wanted], grad, allow_unused=True)
    theirs = torch.autograd.grad(expected, [references[i] for i in wanted], grad.double(), allow_unused=True)
    for one, other in zip(ours, theirs, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert_near(one, other, dtype, 8)


def value_and_gradients(function: Callable[..., Tensor], *inputs: Tensor) -> list[Tensor]:
    leaves = [t.detach().clone().requires_grad_() for t in inputs]
    result = function(*leaves)
    return [result.detach(), *torch.autograd.grad(result.sum(), leaves)]


class Recorded(TorchDispatchMode):
    """The operators that run, with the shapes of their tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, list[list[int]]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append((str(func), [list(a.shape) for a in args if isinstance(a, Tensor)]))
        return func(*args, **(kwargs or {}))

    def products(self) -> list[list[list[int]]]:
        return [shapes for name, shapes in self.calls if name == "slang.mm.default"]

    def copies(self) -> list[str]:
        return [name for name, _ in self.calls if "clone" in name or "copy" in name]


@pytest.fixture
def spoiled_memory() -> Iterator[None]:
    """In deterministic mode torch fills new memory with NaN."""
    before = torch.utils.deterministic.fill_uninitialized_memory
    torch.utils.deterministic.fill_uninitialized_memory = True
    torch.use_deterministic_algorithms(True, warn_only=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(deterministic|CUBLAS)")
        yield
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = before


@pytest.fixture
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.usefixtures("spoiled_memory")
class TestValues:
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize(("transpose_a", "transpose_b"), TRANSPOSES)
    def test_all_transposes_of_many_sizes(
        self, transpose_a: bool, transpose_b: bool, dtype: torch.dtype, device: torch.device
    ) -> None:
        for m, k, n in [(1, 1, 1), (1, 130, 1), (3, 1, 17), (17, 130, 3), (130, 33, 70), (64, 64, 64), (129, 16, 257)]:
            a = randn(*((k, m) if transpose_a else (m, k)), dtype=dtype, device=device).requires_grad_()
            b = randn(*((n, k) if transpose_b else (k, n)), dtype=dtype, device=device).requires_grad_()
            assert_agrees(
                lambda a, b: dot(a, b, transpose_a, transpose_b),
                lambda a, b: dot_in_torch(a, b, transpose_a, transpose_b),
                [a, b],
            )

    @pytest.mark.parametrize(("one", "other"), SHAPES)
    @pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
    def test_all_ranks(
        self, one: tuple[int, ...], other: tuple[int, ...], dtype: torch.dtype, device: torch.device
    ) -> None:
        for wanted in itertools.product([False, True], repeat=2):
            operands = [
                randn(*shape, dtype=dtype, device=device).requires_grad_(grad)
                for shape, grad in zip((one, other), wanted, strict=True)
            ]
            assert_agrees(matmul, torch.matmul, operands)

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_mm_is_a_product_for_each_of_a_batch(self, dtype: torch.dtype, device: torch.device) -> None:
        a = randn(5, 33, 20, dtype=dtype, device=device).requires_grad_()
        b = randn(5, 20, 17, dtype=dtype, device=device).requires_grad_()
        assert_agrees(mm, torch.bmm, [a, b])

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_nothing_to_add_up_is_zero(self, dtype: torch.dtype, device: torch.device) -> None:
        a = torch.ones(2, 3, 0, dtype=dtype, device=device, requires_grad=True)
        b = torch.ones(2, 0, 5, dtype=dtype, device=device, requires_grad=True)
        result = mm(a, b)
        assert torch.equal(result, torch.zeros(2, 3, 5, dtype=dtype, device=device))
        result.sum().backward()
        assert (a.grad.shape, b.grad.shape) == (a.shape, b.shape)

    @pytest.mark.parametrize(
        ("one", "other"),
        [((0, 3), (3, 4)), ((2, 3), (3, 0)), ((0, 2, 3), (3, 4)), ((2, 3), (0, 3, 4)), ((0, 0), (0, 0)), ((0,), (0,))],
    )
    def test_empty_operands(self, one: tuple[int, ...], other: tuple[int, ...], device: torch.device) -> None:
        assert_agrees(matmul, torch.matmul, [randn(*s, device=device).requires_grad_() for s in (one, other)])

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_alpha_beta_and_c(self, dtype: torch.dtype, device: torch.device) -> None:
        a, b = randn(2, 7, 9, dtype=dtype, device=device), randn(9, 5, dtype=dtype, device=device)
        for shape, (alpha, beta) in itertools.product(
            [(2, 7, 5), (7, 5), (5,), (2, 1, 1), ()], [(1, 1), (2, 0.5), (0, -1), (-1.5, 2)]
        ):
            c = randn(*shape, dtype=dtype, device=device)
            numbers = {"alpha": alpha, "beta": beta}
            assert_agrees(
                lambda a, b, c, numbers=numbers: dot(a, b, **numbers, c=c),
                lambda a, b, c, numbers=numbers: dot_in_torch(a, b, **numbers, c=c),
                [t.detach().requires_grad_() for t in (a, b, c)],
            )

    def test_nan_in_c_does_not_spread_where_beta_is_0(self, device: torch.device) -> None:
        a, b = randn(3, 4, device=device), randn(4, 5, device=device)
        c = torch.full((3, 5), torch.nan, dtype=a.dtype, device=device, requires_grad=True)
        result = dot(a, b, c=c)
        assert torch.equal(result, matmul(a, b))
        assert not result.requires_grad

    def test_nan_and_infinity_in_operands_spread_as_in_torch(self, device: torch.device) -> None:
        a, b = randn(6, 7, device=device), randn(7, 8, device=device)
        a[1, 2], a[3, 0], b[4, 5] = torch.nan, torch.inf, -torch.inf
        torch.testing.assert_close(matmul(a, b), torch.matmul(a, b), equal_nan=True)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
    @pytest.mark.parametrize(("m", "k", "n"), [(40, 300, 50), (1, 2048, 9), (65, 31, 33)])
    def test_errors_are_no_larger_than_those_of_torch(
        self, m: int, k: int, n: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        a, b = randn(m, k, dtype=dtype, device=device), randn(k, n, dtype=dtype, device=device)
        right = a.double() @ b.double()
        rows = torch.cat([a, a.new_zeros(64, k)])  # of one row torch makes sums of sums, by another kernel
        ours, theirs = ((x[:m].double() - right).abs() for x in (matmul(a, b), torch.matmul(rows, b)))
        # float32: sums in one order or another. What is narrower rounds the result, and that is nearly all.
        factor = 4 if dtype == torch.float32 else 1.1
        assert ours.max() <= factor * theirs.max()
        assert ours.mean() <= factor * theirs.mean()

    def test_sums_of_halves_are_wide(self, device: torch.device) -> None:
        """bfloat16 itself stops counting at 256."""
        ones = torch.ones(1, 4096, dtype=torch.bfloat16, device=device)
        assert matmul(ones, ones.mT).item() == 4096


@dataclass(frozen=True)
class Call:
    """One call of dot, with operands of any layout."""

    operands: tuple[Layout, ...]  # a, b and c
    transposes: tuple[bool, bool]
    alpha: float
    beta: float
    dtype: torch.dtype
    wanted: tuple[bool, ...]
    expanded_gradient: bool
    seed: int


@st.composite
def calls(draw: st.DrawFn) -> Call:
    batch = draw(st.lists(st.sampled_from([0, 1, 2, 3]), max_size=2))
    m, k, n = (draw(st.sampled_from([0, 1, 2, 3, 5, 8, 17, 33])) for _ in range(3))

    def leading() -> list[int]:
        kept = batch[draw(st.integers(0, len(batch))) :]
        return [draw(st.sampled_from([size, size, 1])) for size in kept]

    a, b = [*leading(), m, k], [*leading(), k, n]
    transposes = draw(st.tuples(st.booleans(), st.booleans()))
    vectors = draw(st.sampled_from([(False, False)] * 4 + [(True, False), (False, True), (True, True)]))
    if vectors[0]:
        a = [k]
    if vectors[1]:
        b = [k]
    transposes = (transposes[0] and not vectors[0], transposes[1] and not vectors[1])
    result = [
        *torch.broadcast_shapes(a[:-2], b[:-2]),
        *([] if vectors[0] else [m]),
        *([] if vectors[1] else [n]),
    ]
    c = [draw(st.sampled_from([size, size, 1])) for size in result[draw(st.integers(0, len(result))) :]]
    stored = [
        [*shape[:-2], *reversed(shape[-2:])] if turned else shape
        for shape, turned in zip((a, b), transposes, strict=True)
    ]
    return Call(
        tuple(draw(layouts(shape)) for shape in (*stored, c)),
        transposes,
        draw(st.sampled_from([1, 1, 2, -0.5])),
        draw(st.sampled_from([0, 0, 1, -2.5])),
        draw(st.sampled_from(DTYPES)),
        draw(st.tuples(st.booleans(), st.booleans(), st.booleans())),
        draw(st.booleans()),
        draw(st.integers(0, 1000)),
    )


@settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(call=calls())
def test_dot_of_any_layout_is_the_formula(call: Call, device: torch.device) -> None:
    generator = torch.Generator().manual_seed(call.seed)
    tensors = [
        layout.make(call.dtype, device, generator).requires_grad_(wanted)
        for layout, wanted in zip(call.operands, call.wanted, strict=True)
    ]
    before = [t.detach().clone() for t in tensors]
    numbers = {"alpha": call.alpha, "beta": call.beta}

    def grad_of(*shape: int, **options: Any) -> Tensor:
        return (
            randn(*([1] * len(shape)), **options).expand(shape) if call.expanded_gradient else randn(*shape, **options)
        )

    assert_agrees(
        lambda a, b, c: dot(a, b, *call.transposes, **numbers, c=c),
        lambda a, b, c: dot_in_torch(a, b, *call.transposes, **numbers, c=c),
        tensors,
        grad_of,
    )
    assert all(torch.equal(tensor, old) for tensor, old in zip(tensors, before, strict=True))
    assert not any(tensor._version for tensor in tensors if tensor.is_leaf and not tensor._is_view())


class TestFolding:
    """What is one product and what is copied, since that is what a call costs."""

    def test_rows_of_a_batch_are_one_product(self, device: torch.device) -> None:
        x, w = randn(6, 2, 3, 4, device=device), randn(4, 5, device=device).requires_grad_()
        with Recorded() as ran:
            matmul(x, w).sum().backward()
        assert ran.products() == [[[36, 4], [4, 5]], [[4, 36], [36, 5]]]
        assert not ran.copies()

    def test_rows_that_are_no_view_are_copied_for_a_gradient_alone(self, device: torch.device) -> None:
        x, w = randn(2, 6, 4, device=device).transpose(0, 1), randn(4, 5, device=device)
        with Recorded() as ran:
            matmul(x, w)
        assert ran.products() == [[[6, 2, 4], [6, 4, 5]]]
        assert not ran.copies()
        with Recorded() as ran:
            matmul(x, w.requires_grad_()).sum().backward()
        assert ran.products() == [[[12, 4], [4, 5]], [[4, 12], [12, 5]]]

    def test_a_matrix_on_the_left_has_one_product_as_its_gradient(self, device: torch.device) -> None:
        w, x = randn(3, 4, device=device), randn(6, 4, 5, device=device)
        with Recorded() as ran:
            matmul(w, x)
        assert ran.products() == [[[6, 3, 4], [6, 4, 5]]]
        assert not ran.copies()
        with Recorded() as ran:
            matmul(w.requires_grad_(), x).sum().backward()
        assert ran.products() == [[[30, 4], [4, 3]], [[4, 30], [30, 3]]]

    def test_transposes_and_one_matrix_for_all_are_views(self, device: torch.device) -> None:
        a, b = randn(3, 4, 7, device=device), randn(1, 5, 4, device=device)
        with Recorded() as ran:
            dot(a, b, True, True)
            dot(a.mT, b.expand(3, 5, 4), transpose_b=True)
        assert [shapes[0] for shapes in ran.products()] == [[3, 7, 4], [3, 7, 4]]
        assert not ran.copies()

    def test_numbers_that_change_nothing_cost_nothing(self, device: torch.device) -> None:
        a, b, c = (randn(3, 3, device=device) for _ in range(3))
        with Recorded() as ran:
            dot(a, b, alpha=1.0, beta=0, c=c)
        assert not any("mul." in name or "add" in name for name, _ in ran.calls)

    def test_more_rows_than_a_product_takes_stay_a_batch(self) -> None:
        x, w = torch.empty(2**16, 2**16, 4, device="meta"), torch.empty(4, 8, device="meta", requires_grad=True)
        with Recorded() as ran:
            assert matmul(x, w).shape == (2**16, 2**16, 8)
        assert ran.products() == [[[2**16, 2**16, 4], [2**16, 4, 8]]]


class TestGradients:
    @pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True)])
    @pytest.mark.parametrize("batch", [(), (2,)], ids=["matrices", "batches"])
    def test_first_and_second_derivatives_of_mm(
        self, batch: tuple[int, ...], wanted: tuple[bool, bool], device: torch.device
    ) -> None:
        a = randn(*batch, 3, 4, device=device).requires_grad_(wanted[0])
        b = randn(*batch, 4, 2, device=device).requires_grad_(wanted[1])
        assert gradcheck(mm, (a, b), check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True)
        assert gradgradcheck(mm, (a, b), check_fwd_over_rev=True, gen_non_contig_grad_outputs=True)

    @pytest.mark.parametrize(("one", "other"), [s for s in SHAPES if len(s[0]) + len(s[1]) < 6])
    def test_first_and_second_derivatives_of_matmul(
        self, one: tuple[int, ...], other: tuple[int, ...], device: torch.device
    ) -> None:
        operands = tuple(randn(*shape, device=device).requires_grad_() for shape in (one, other))
        assert gradcheck(matmul, operands, check_forward_ad=True)
        assert gradgradcheck(matmul, operands, check_fwd_over_rev=True, gen_non_contig_grad_outputs=True)

    @pytest.mark.parametrize(("transpose_a", "transpose_b"), TRANSPOSES)
    def test_first_and_second_derivatives_of_dot(
        self, transpose_a: bool, transpose_b: bool, device: torch.device
    ) -> None:
        a = randn(*((3, 2) if transpose_a else (2, 3)), device=device).requires_grad_()
        b = randn(*((4, 3) if transpose_b else (3, 4)), device=device).requires_grad_()
        c = randn(4, device=device).requires_grad_()

        def function(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
            return dot(a, b, transpose_a, transpose_b, alpha=-1.5, beta=2, c=c)

        assert gradcheck(function, (a, b, c), check_forward_ad=True)
        assert gradgradcheck(function, (a, b, c), check_fwd_over_rev=True)

    def test_a_third_derivative(self, device: torch.device) -> None:
        x = randn(3, 3, device=device).requires_grad_()
        gradients = []
        for product in (matmul, torch.matmul):
            value = product(product(x, x), product(x, x)).sum()
            for _ in range(3):
                (value,) = torch.autograd.grad(value.sum(), x, create_graph=True)
            gradients.append(value.detach())
        torch.testing.assert_close(*gradients)

    def test_only_what_a_wanted_gradient_needs_is_kept(self, device: torch.device) -> None:
        a, b = randn(2, 3, 4, device=device), randn(2, 4, 5, device=device)
        for wanted, kept in [
            ((True, False), [b.shape]),
            ((False, True), [a.shape]),
            ((True, True), [a.shape, b.shape]),
        ]:
            shapes: list[torch.Size] = []
            with torch.autograd.graph.saved_tensors_hooks(lambda t, s=shapes: s.append(t.shape) or t, lambda t: t):
                mm(a.detach().requires_grad_(wanted[0]), b.detach().requires_grad_(wanted[1]))
            assert sorted(shapes) == sorted(kept)

    def test_only_the_gradient_that_is_asked_for_is_computed(self, device: torch.device) -> None:
        a, b = randn(2, 3, 4, device=device).requires_grad_(), randn(2, 4, 5, device=device).requires_grad_()
        result = mm(a, b)
        with Recorded() as ran:
            torch.autograd.grad(result.sum(), b)
        assert ran.products() == [[[2, 4, 3], [2, 3, 5]]]

    def test_an_operand_that_was_changed_since_is_noticed(self, device: torch.device) -> None:
        a, b = randn(2, 3, device=device).requires_grad_(), randn(3, 4, device=device)
        result = matmul(a, b)
        b.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.sum().backward()

    def test_a_second_backward_needs_a_retained_graph(self, device: torch.device) -> None:
        a = randn(2, 3, device=device).requires_grad_()
        result = matmul(a, randn(3, 4, device=device)).sum()
        result.backward(retain_graph=True)
        result.backward()
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            result.backward()

    @pytest.mark.parametrize(("one", "other"), [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5))])
    def test_a_result_may_be_changed_in_place(
        self, one: tuple[int, ...], other: tuple[int, ...], device: torch.device
    ) -> None:
        operands = (randn(*one, device=device), randn(*other, device=device))
        torch.testing.assert_close(
            value_and_gradients(lambda a, b: matmul(a, b).relu_(), *operands),
            value_and_gradients(lambda a, b: torch.matmul(a, b).relu(), *operands),
        )

    @pytest.mark.parametrize("use_reentrant", [False, True])
    def test_checkpoints(self, use_reentrant: bool, device: torch.device) -> None:
        x, w = randn(3, 4, device=device).requires_grad_(), randn(4, 5, device=device).requires_grad_()
        checkpoint(lambda x, w: matmul(x.sin(), w).cos(), x, w, use_reentrant=use_reentrant).sum().backward()
        expected = value_and_gradients(lambda x, w: (x.sin() @ w).cos(), x, w)
        torch.testing.assert_close([x.grad, w.grad], expected[1:])


class TestOperators:
    """Strides, expanded gradients, frozen operands, empty tensors, Meta, gradcheck, opcheck."""

    @pytest.mark.parametrize("batch", [(), (2,)], ids=["matrices", "batches"])
    def test_mm(self, batch: tuple[int, ...], device: torch.device) -> None:
        operands = tuple(randn(*batch, *shape, device=device).requires_grad_() for shape in [(3, 4), (4, 5)])
        testing.check(mm, operands, reference=torch.matmul)

    @pytest.mark.parametrize(
        ("one", "other"), [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((6, 1, 3, 4), (2, 4, 5))]
    )
    def test_matmul(self, one: tuple[int, ...], other: tuple[int, ...], device: torch.device) -> None:
        operands = tuple(randn(*shape, device=device).requires_grad_() for shape in (one, other))
        # torch's own sums of empty tensors have other strides on the meta device.
        testing.check(matmul, operands, reference=torch.matmul, empty=1 not in one)

    def test_dot(self, device: torch.device) -> None:
        a, b, c = (randn(*shape, device=device).requires_grad_() for shape in [(4, 3), (2, 5, 4), (5,)])
        arguments = {"transpose_a": True, "transpose_b": True, "alpha": 2.5, "beta": -1, "c": c}
        torch.library.opcheck(dot.default, (a, b), arguments)

    @pytest.mark.parametrize(("one", "other"), SHAPES)
    def test_shapes_on_meta(self, one: tuple[int, ...], other: tuple[int, ...]) -> None:
        a, b = torch.empty(one, device="meta"), torch.empty(other, device="meta")
        result = matmul(a, b)
        assert (result.device.type, result.shape) == ("meta", torch.matmul(a, b).shape)

    def test_inference_mode(self, device: torch.device) -> None:
        with torch.inference_mode():
            a, b = randn(2, 3, 4, device=device), randn(4, 5, device=device)
            torch.testing.assert_close(matmul(a, b), a @ b)

    def test_negated_views(self, device: torch.device) -> None:
        a, b = (
            torch.complex(randn(3, 4, device=device), randn(3, 4, device=device)).conj().imag,
            randn(4, 5, device=device),
        )
        assert a.is_neg()
        torch.testing.assert_close(matmul(a, b), a @ b)


class TestAutocast:
    def test_operands_become_narrow(self, device: torch.device) -> None:
        a, b, c = (randn(*s, dtype=torch.float32, device=device) for s in [(3, 4), (4, 5), (5,)])
        b.requires_grad_()
        narrow = [t.detach().bfloat16() for t in (a, b, c)]
        with torch.autocast(device.type, torch.bfloat16):
            results = [matmul(a, b), dot(a, b, beta=1, c=c), mm(a[None], b[None])[0], matmul(narrow[0], b)]
        assert all(result.dtype == torch.bfloat16 for result in results)
        plain = matmul(*narrow[:2])
        assert torch.equal(results[0], plain)
        assert torch.equal(results[1], plain + narrow[2])
        assert torch.equal(results[2], plain)
        assert torch.equal(results[3], plain)
        results[0].sum().backward()
        assert b.grad.dtype == torch.float32

    def test_float64_stays(self, device: torch.device) -> None:
        a, b = randn(3, 4, device=device), randn(4, 5, device=device)
        with torch.autocast(device.type, torch.bfloat16):
            assert matmul(a, b).dtype == torch.float64


def layer(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
    """A batch with one matrix for all, a batch with one each, and all that dot can do."""
    hidden = matmul(x.sin(), w)
    return dot(hidden, matmul(v, hidden), True, alpha=2, beta=0.5, c=w.sum(0)).cos()


def layer_in_torch(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
    hidden = x.sin() @ w
    return (2 * (hidden.mT @ (v @ hidden)) + 0.5 * w.sum(0)).cos()


def layer_inputs(batch: int, rows: int, width: int, out: int, device: torch.device) -> list[Tensor]:
    return [randn(*shape, device=device) for shape in [(batch, rows, width), (width, out), (batch, rows, rows)]]


LAYER_SIZES = [(2, 3, 4, 5), (6, 5, 7, 9), (3, 8, 11, 2)]


class Layer(torch.nn.Module):
    def forward(self, x: Tensor, w: Tensor, v: Tensor) -> Tensor:
        return layer(x, w, v)


class Product(torch.nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.ops.slang.matmul(a, b)


@pytest.mark.usefixtures("fresh_dynamo")
class TestCompilers:
    @pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
    def test_one_graph_serves_all_sizes(self, backend: str, device: torch.device) -> None:
        counter = CompileCounterWithBackend(backend)
        compiled = torch.compile(layer, backend=counter, fullgraph=True, dynamic=True)
        for sizes in LAYER_SIZES:
            inputs = layer_inputs(*sizes, device)
            torch.testing.assert_close(
                value_and_gradients(compiled, *inputs), value_and_gradients(layer_in_torch, *inputs)
            )
        assert counter.frame_count == 1

    def test_a_number_of_rows_that_data_decides(self, device: torch.device) -> None:
        def function(x: Tensor, w: Tensor) -> Tensor:
            return matmul(x[x[:, 0] > 0], w).sum(0)

        x, w = randn(9, 4, device=device), randn(4, 5, device=device)
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            compiled = torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=True)
            torch.testing.assert_close(compiled(x, w), x[x[:, 0] > 0].matmul(w).sum(0))

    @pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True)])
    def test_compiled_autograd(self, wanted: tuple[bool, bool], device: torch.device) -> None:
        inputs = (randn(3, 4, device=device), randn(4, 5, device=device))
        expected = value_and_gradients(lambda a, b: (a @ b).sin(), *inputs)[1:]
        a, b = (t.requires_grad_(grad) for t, grad in zip(inputs, wanted, strict=True))
        counter = CompileCounterWithBackend("aot_eager")
        with torch._dynamo.compiled_autograd._enable(torch.compile(backend=counter, fullgraph=True)):
            matmul(a, b).sin().sum().backward()
        nodes = [node.name for graph in counter.graphs for node in graph.graph.nodes]
        assert sum("slang_mm_backward" in name for name in nodes) == 1
        for tensor, gradient in zip((a, b), expected, strict=True):
            if tensor.requires_grad:
                torch.testing.assert_close(tensor.grad, gradient)
            else:
                assert tensor.grad is None

    def test_export_saves_and_loads_with_dynamic_sizes(self, device: torch.device) -> None:
        batch, rows, width, out = (torch.export.Dim(name) for name in ("batch", "rows", "width", "out"))
        shapes = {"x": {0: batch, 1: rows, 2: width}, "w": {0: width, 1: out}, "v": {0: batch, 1: rows, 2: rows}}
        program = torch.export.export(Layer(), tuple(layer_inputs(2, 3, 4, 5, device)), dynamic_shapes=shapes)
        buffer = io.BytesIO()
        torch.export.save(program, buffer)
        buffer.seek(0)
        loaded = torch.export.load(buffer).module()
        for sizes in LAYER_SIZES:
            inputs = layer_inputs(*sizes, device)
            torch.testing.assert_close(loaded(*inputs), layer_in_torch(*inputs))

    def test_gradients_are_traced_as_products(self, device: torch.device) -> None:
        def gradients(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
            return torch.func.grad(lambda a, b: matmul(a, b).sum(), argnums=(0, 1))(a, b)

        traced = make_fx(gradients, tracing_mode="symbolic")(randn(3, 4, device=device), randn(4, 5, device=device))
        targets = [str(node.target) for node in traced.graph.nodes]
        assert targets.count("slang.mm.default") == 3
        inputs = (randn(7, 2, device=device), randn(2, 6, device=device))
        torch.testing.assert_close(traced(*inputs), gradients(*inputs))

    @pytest.mark.filterwarnings("ignore:`torch.jit.(save|load)` is deprecated:DeprecationWarning")
    def test_script_is_saved_loaded_and_differentiated(self, device: torch.device) -> None:
        buffer = io.BytesIO()
        torch.jit.save(torch.jit.script(Product()), buffer)
        buffer.seek(0)
        loaded = torch.jit.load(buffer)
        for rows in (3, 5, 7):  # several runs: the profiling executor rewrites the graph after the first
            inputs = (randn(2, rows, 4, device=device), randn(4, 5, device=device))
            torch.testing.assert_close(value_and_gradients(loaded, *inputs), value_and_gradients(torch.matmul, *inputs))


class TestFunctionTransforms:
    @pytest.mark.parametrize(
        ("one", "other", "in_dims"),
        [
            ((7, 3, 4), (7, 4, 5), (0, 0)),
            ((3, 7, 4), (4, 5, 7), (1, 2)),
            ((7, 3, 4), (4, 5), (0, None)),
            ((3, 4), (7, 4, 5), (None, 0)),
            ((7, 4), (4,), (0, None)),
            ((7, 2, 3, 4), (7, 4, 5), (0, 0)),
            ((2, 3, 4), (2, 4, 7, 5), (None, 2)),
        ],
    )
    def test_vmap_is_one_product(
        self,
        one: tuple[int, ...],
        other: tuple[int, ...],
        in_dims: tuple[int | None, int | None],
        device: torch.device,
    ) -> None:
        a, b = randn(*one, device=device), randn(*other, device=device)
        with Recorded() as ran:
            actual = torch.vmap(matmul, in_dims=in_dims)(a, b)
        torch.testing.assert_close(actual, torch.vmap(torch.matmul, in_dims=in_dims)(a, b))
        assert len(ran.products()) == 1

    def test_vmap_in_vmap(self, device: torch.device) -> None:
        a, b = randn(6, 3, 4, device=device), randn(2, 4, 5, device=device)
        actual = torch.vmap(torch.vmap(lambda a, b: dot(a, b, alpha=2), (0, None)), (None, 0))(a, b)
        torch.testing.assert_close(actual, 2 * (a @ b[:, None]))

    def test_vmap_checks_what_each_call_would(self, device: torch.device) -> None:
        a, b = randn(7, 1, 3, 4, device=device), randn(7, 2, 4, 5, device=device)
        with pytest.raises(RuntimeError, match=r"^slang::mm: expected b .*: dimension 0 must be B = 1 \(from a\)$"):
            torch.vmap(mm)(a, b)

    def test_gradients_of_samples(self, device: torch.device) -> None:
        x, w = randn(6, 3, 4, device=device), randn(4, 5, device=device)
        actual, expected = (
            torch.vmap(torch.func.grad(lambda w, x, f=f: f(x, w).sin().sum()), (None, 0))(w, x)
            for f in (matmul, torch.matmul)
        )
        torch.testing.assert_close(actual, expected)

    @pytest.mark.parametrize("transform", ["grad", "jacrev", "jacfwd", "hessian"])
    def test_derivatives(self, transform: str, device: torch.device) -> None:
        inputs = layer_inputs(2, 3, 2, 3, device)
        actual, expected = (
            getattr(torch.func, transform)(lambda *t, f=f: f(*t).sum(), argnums=(0, 1, 2))(*inputs)
            for f in (layer, layer_in_torch)
        )
        torch.testing.assert_close(actual, expected)

    def test_jvp(self, device: torch.device) -> None:
        inputs = tuple(layer_inputs(2, 3, 4, 5, device))
        tangents = tuple(t.cos() for t in inputs)
        torch.testing.assert_close(
            torch.func.jvp(layer, inputs, tangents), torch.func.jvp(layer_in_torch, inputs, tangents)
        )


def ones(*shape: int, **options: Any) -> Tensor:
    return torch.ones(shape, **options)


A, B = ones(3, 8), ones(8, 5)
MATMUL_ERRORS: dict[str, tuple[Any, Any, str]] = {
    "size": (A, ones(7, 3), r"expected b to have shape \[8, N\], but got \[7, 3\]: dimension 0 must be 8"),
    "size of a vector": (A, ones(7), r"expected b to have shape \[8\], but got \[7\]: dimension 0 must be 8"),
    "size in a batch": (
        A,
        ones(2, 7, 3),
        r"expected b to have shape \[..., 8, N\], but got \[2, 7, 3\]: dimension 1 must be 8",
    ),
    "batches": (
        ones(2, 3, 8),
        ones(6, 3, 8, 5),
        r"expected the leading dimensions of b to broadcast with those of a, but got \[6, 3, 8, 5\] and \[2, 3, 8\]: "
        r"dimension 1 of b must be 2 or 1",
    ),
    "number": (ones(), B, r"expected a to have at least 1 dimension, but got a 0-dimensional tensor"),
    "second number": (A, ones(), r"expected b to have at least 1 dimension, but got a 0-dimensional tensor"),
    "integers": (A.int(), B.int(), r"expected a to have dtype float16, bfloat16, float32 or float64, but got int32"),
    "complex": (A + 1j, B + 1j, r"expected a to have dtype float16, bfloat16, float32 or float64, but got ComplexFl.*"),
    "dtypes": (A, B.double(), r"expected b to have dtype float32 like a, but got float64"),
    "devices": (A, B.to("meta"), r"expected all tensors to be on the same device, but a is on cpu and b is on meta"),
    "none": (None, B, r"expected a to be a tensor, but got None"),
    "second none": (A, None, r"expected b to be a tensor, but got None"),
    "sparse": (
        A.to_sparse(),
        B,
        r"expected a to be a dense tensor on the CPU or a CUDA device, but got the layout Sp.*",
    ),
    "rows": (
        ones(1, 1).expand(2**32, 1),
        ones(1, 1),
        r"a is too large: the limit is 2147483647, but dimension 0 has 4294967296 elements",
    ),
    "columns": (
        ones(1, 1),
        ones(1, 1).expand(5, 1, 2**31),
        r"b is too large: the limit is 2147483647, but dimension 2 has 2147483648 elements",
    ),
    "summands": (
        torch.empty(1, 2**31, device="meta"),
        torch.empty(2**31, 1, device="meta"),
        r"a is too large: the limit is 2147483647, but dimension 1 has 2147483648 elements",
    ),
}
MM_ERRORS: dict[str, tuple[Any, Any, str]] = {
    "rank": (A[0], B, r"expected a to have shape \[M, K\] or \[B, M, K\], but got \[8\]"),
    "matrix and batch": (A, B[None], r"expected b to have shape \[K, N\] \(2 dimensions\), but got \[1, 8, 5\]"),
    "depth": (A, A, r"expected b to have shape \[K, N\], but got \[3, 8\]: dimension 0 must be K = 8 \(from a\)"),
    "second rank": (A[None], B, r"expected b to have shape \[B, K, N\] \(3 dimensions\), but got \[8, 5\]"),
    "size": (
        A[None],
        ones(1, 7, 5),
        r"expected b to have shape \[B, K, N\], but got \[1, 7, 5\]: dimension 1 must be K = 8 \(from a\)",
    ),
    "batch": (
        A.expand(4, 3, 8),
        B[None],
        r"expected b to have shape \[B, K, N\], but got \[1, 8, 5\]: dimension 0 must be B = 4 \(from a\)",
    ),
    "integers": (A[None].long(), B[None], r"expected a to have dtype .* but got int64"),
    "dtypes": (A[None], B[None].half(), r"expected b to have dtype float32 like a, but got float16"),
    "devices": (
        A[None],
        B[None].to("meta"),
        r"expected all tensors to be on the same device, but a is on cpu and b .*",
    ),
    "none": (None, B, r"expected a to be a tensor, but got None"),
    "sparse": (A[None].to_sparse(), B[None], r"expected a to be a dense tensor .*"),
    "products": (
        ones(1, 1, 1).expand(2**31, 1, 1),
        ones(1, 1, 1).expand(2**31, 1, 1),
        r"a is too large: the limit is 2147483647, but dimension 0 has 2147483648 elements",
    ),
}
DOT_ERRORS: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "transposed": (
        (A, B, False, True),
        {},
        r"expected the transpose of b to have shape \[8, N\], but got \[5, 8\]: dimension 0 must be 8",
    ),
    "vector": (
        (A[0], B, True),
        {},
        r"expected a, which is to be transposed, to have at least 2 dimensions, but got shape \[8\]",
    ),
    "no c": ((A, B), {"beta": 2}, r"expected c to be a tensor, since beta is 2, but got None"),
    "shape of c": (
        (A, B),
        {"beta": 1, "c": ones(2, 5)},
        r"expected c to broadcast to the result's shape \[3, 5\], but got \[2, 5\]: dimension 0 must be 3 or 1",
    ),
    "c larger than the result": (
        (A, B),
        {"beta": 1, "c": ones(1, 3, 5)},
        r"expected c to broadcast to the result's shape \[3, 5\], but got \[1, 3, 5\]",
    ),
    "shape of an unused c": ((A, B), {"c": ones(4)}, r"expected c to broadcast .*"),
    "dtype of c": ((A, B), {"c": ones(5).double()}, r"expected c to have dtype float32 like a, but got float64"),
    "device of c": (
        (A, B),
        {"c": ones(5, device="meta")},
        r"expected all tensors to be on the same device, but a is on cpu and c is on meta",
    ),
    "complex alpha": ((A, B), {"alpha": 1j}, r"expected alpha to be a real number, but got \(0,1\)"),
    "dtypes": ((A, B.half(), False, True), {}, r"expected b to have dtype float32 like a, but got float16"),
}


class TestErrors:
    @pytest.mark.parametrize("case", MATMUL_ERRORS)
    @pytest.mark.parametrize("name", ["matmul", "dot"])
    def test_matmul_names_what_is_wrong(self, name: str, case: str) -> None:
        a, b, message = MATMUL_ERRORS[case]
        with pytest.raises(RuntimeError, match=rf"^slang::{name}: {message}$"):
            getattr(torch.ops.slang, name)(a, b)

    @pytest.mark.parametrize("case", MM_ERRORS)
    def test_mm_names_what_is_wrong(self, case: str) -> None:
        a, b, message = MM_ERRORS[case]
        with pytest.raises(RuntimeError, match=rf"^slang::mm: {message}$"):
            mm(a, b)

    @pytest.mark.parametrize("case", DOT_ERRORS)
    def test_dot_names_what_is_wrong(self, case: str) -> None:
        args, kwargs, message = DOT_ERRORS[case]
        with pytest.raises(RuntimeError, match=rf"^slang::dot: {message}$"):
            dot(*args, **kwargs)

    @pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
    @pytest.mark.parametrize("name", ["mm", "matmul", "dot"])
    def test_nested_tensors_are_refused(self, name: str) -> None:
        nested = torch.nested.nested_tensor([A, A])
        with pytest.raises(
            RuntimeError, match=rf"^slang::{name}: expected a to be a dense .* but got a nested tensor$"
        ):
            getattr(torch.ops.slang, name)(nested, B)

    @needs_cuda
    def test_two_devices_are_named(self) -> None:
        for a, b in [(A.cuda(), B), (A, B.cuda())]:
            with pytest.raises(RuntimeError, match=r"^slang::matmul: expected all tensors to be on the same device"):
                matmul(a, b)
            with pytest.raises(RuntimeError, match=r"^slang::mm: expected all tensors to be on the same device"):
                mm(a[None], b[None])
