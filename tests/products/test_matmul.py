"""Values and gradients of torch.ops.slang.mm, matmul and dot, beside torch's own in float64."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from agreement import value_and_gradients
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from layouts import Layout, layouts
from products import SHAPES, Recorded, assert_agrees, dot_in_torch, randn
from torch.autograd import gradcheck, gradgradcheck
from torch.utils.checkpoint import checkpoint

Tensor = torch.Tensor
mm, matmul, dot = torch.ops.slang.mm, torch.ops.slang.matmul, torch.ops.slang.dot
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
TRANSPOSES = list(itertools.product([False, True], repeat=2))
pytestmark = pytest.mark.usefixtures("the_first_tile")


@pytest.mark.usefixtures("poisoned_memory")
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
