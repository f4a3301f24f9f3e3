"""Functions on shapes, strides and dtypes that hypothesis chooses, beside the formula in PyTorch; and on large ones."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch
from function_references import BY_NAME, Case
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from layouts import Layout, layouts
from long_tests import dear_file, some_cases, some_tests

pytestmark = [some_tests(9), dear_file]

Tensor = torch.Tensor
BOUNDED = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
CHOSEN = [BY_NAME[name] for name in ("polynomial", "weighed", "shaded", "polar")]
ACCURACY = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 6e-3}


@dataclass(frozen=True)
class Call:
    layouts: tuple[Layout, ...]
    dtypes: tuple[torch.dtype, ...]
    wanted: tuple[bool, ...]
    seed: int

    def make(self, device: torch.device) -> list[Tensor]:
        generator = torch.Generator().manual_seed(self.seed)
        made = [layout.make(dtype, device, generator) for layout, dtype in zip(self.layouts, self.dtypes, strict=True)]
        return [tensor.requires_grad_(wanted) for tensor, wanted in zip(made, self.wanted, strict=True)]


@st.composite
def calls(draw: st.DrawFn, case: Case) -> Call:
    outer = draw(st.lists(st.sampled_from([0, 1, 2, 3, 5, 16, 33]), max_size=4).filter(lambda s: math.prod(s) < 5000))
    chosen, dtypes = [], []
    fixed = case.dtypes == (torch.float32,)
    for argument in case.arguments:
        # Fewer dimensions, and some of one element: what broadcasts to `outer`.
        own = outer[draw(st.integers(0, len(outer))) :]
        own = [draw(st.sampled_from([size, size, 1])) for size in own]
        chosen.append(draw(layouts([*own, *argument.element])))
        narrow = [torch.float16, torch.float32]
        dtypes.append(draw(st.sampled_from(narrow if fixed else [*narrow, torch.float64])))
    wanted = draw(st.tuples(*(st.booleans() for _ in case.arguments)))
    return Call(tuple(chosen), tuple(dtypes), wanted, draw(st.integers(0, 1000)))


def computed_in(case: Case, values: Sequence[Tensor]) -> torch.dtype:
    """PyTorch's own promotion: what has no dimensions but its element's does not widen what has some."""
    if case.dtypes == (torch.float32,):
        return torch.float32
    strong = [v.dtype for a, v in zip(case.arguments, values, strict=True) if v.dim() > len(a.element)]
    return functools.reduce(torch.promote_types, strong or [value.dtype for value in values])


def results_of(returned: Tensor | tuple[Tensor, ...]) -> list[Tensor]:
    return [returned] if isinstance(returned, Tensor) else list(returned)


def assert_near(what: str, actual: Tensor, expected: Tensor, accuracy: float, terms: float) -> None:
    """`terms`: how many numbers of the size of one were added up."""
    assert actual.shape == expected.shape, f"{what} has shape {list(actual.shape)}, not {list(expected.shape)}"
    if actual.numel():
        error = (actual.detach().double() - expected.detach().double()).abs().max().item()
        scale = max(1.0, expected.detach().abs().max().item(), math.sqrt(terms))
        assert error <= accuracy * scale, f"{what} is off by {error} of {scale}"


def check(case: Case, values: Sequence[Tensor], grad_layouts: Sequence[str] = ("packed", "expanded")) -> None:
    dtype = computed_in(case, values)
    wide = [value.detach().double().requires_grad_(value.requires_grad) for value in values]
    ours, theirs = results_of(case.op(*values)), results_of(case.reference(*wide))
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        assert one.dtype == dtype
        assert one.is_contiguous()
        assert_near(f"{case}: result {number}", one, other, ACCURACY[dtype], 1)
    wanted = [i for i, value in enumerate(values) if value.requires_grad]
    assert all(result.requires_grad == bool(wanted) for result in ours)
    for layout in grad_layouts if wanted else ():
        generator = torch.Generator().manual_seed(3)
        grads = [torch.rand(r.shape, generator=generator, dtype=torch.float64).to(r.device, dtype) for r in ours]
        if layout == "expanded":
            grads = [grad.flatten()[:1].view([1] * grad.dim()).expand(grad.shape) for grad in grads if grad.numel()]
            if not grads:
                continue
        mine = torch.autograd.grad(ours, [values[i] for i in wanted], grads, retain_graph=True)
        right = torch.autograd.grad(theirs, [wide[i] for i in wanted], [g.double() for g in grads], retain_graph=True)
        for i, one, other in zip(wanted, mine, right, strict=True):
            what = f"{case}: gradient of argument {i} for {layout} gradients"
            assert one.dtype == values[i].dtype, what
            narrowest = max(ACCURACY[dtype], ACCURACY[one.dtype])
            assert_near(what, one, other, narrowest, theirs[0].numel() / max(other.numel(), 1))


@some_cases(1)
@pytest.mark.parametrize("case", CHOSEN, ids=str)
@given(data=st.data())
@BOUNDED
def test_any_call_is_the_formula_with_its_gradients(case: Case, device: torch.device, data: st.DataObject) -> None:
    check(case, data.draw(calls(case)).make(device))


NEAR_BLOCKS = [256 * k + off for k in (1, 2, 4, 33, 256) for off in (-1, 0, 1)]
LARGE = [65_537, 100_003, 262_147]


@pytest.mark.parametrize("count", [*NEAR_BLOCKS, *LARGE])
def test_sizes_around_blocks_and_beyond(count: int, device: torch.device) -> None:
    case = BY_NAME["polynomial"]
    check(case, case.make([(), (1,), (), (count,)], torch.float32, device))
    check(case, case.make([(count,)], torch.float32, device))


# Sizes that have no divisors in common with vectors and blocks; which argument is broadcast, and over what.
PARTIAL = {
    "rows_and_columns": [(1031, 1), (1, 257)],
    "bias": [(257,), (1031, 257)],
    "column_bias": [(1031, 257), (1031, 1)],
    "middle": [(17, 1, 129), (17, 61, 129)],
    "outer_and_inner": [(1, 61, 1), (17, 61, 129)],
    "alternating": [(3, 1, 7, 1, 11), (3, 5, 7, 9, 11)],
    "one_row_too_many": [(65_537, 1), (1, 3)],
    "short_rows": [(3,), (65_537, 3)],
    "number": [(), (1031, 257)],
}


@some_cases(8)
@pytest.mark.parametrize("name", PARTIAL)
@pytest.mark.parametrize("case", CHOSEN, ids=str)
def test_partial_broadcasts_of_large_tensors(case: Case, name: str, device: torch.device) -> None:
    shapes = PARTIAL[name]
    check(case, case.make(shapes, torch.float32, device))
    check(case, case.make(shapes[::-1], torch.float32, device), ["packed"])


@pytest.mark.parametrize(
    ("dtype", "count", "accuracy"), [(torch.float32, 1 << 24, 1e-6), (torch.float16, 50_000, 1e-3)], ids=str
)
def test_sums_of_many_do_not_stand_still(dtype: torch.dtype, count: int, accuracy: float, device: torch.device) -> None:
    """Added up one by one, ones come to 2048 in half precision, and tenths are off in the second digit in float32."""
    shift = torch.zeros((), dtype=dtype, device=device, requires_grad=True)
    y = BY_NAME["polynomial"].op(shift.detach(), shift.detach(), shift, torch.ones(count, dtype=dtype, device=device))
    value = torch.tensor(0.1 if dtype == torch.float32 else 1.0, dtype=dtype, device=device)
    y.backward(value.expand(count))
    assert shift.grad is not None
    expected = value.item() * count
    assert abs(shift.grad.item() - expected) <= accuracy * expected


@pytest.mark.parametrize("name", PARTIAL)
@pytest.mark.usefixtures("deterministic")
def test_deterministic_gradients_are_the_same_to_the_bit(name: str, device: torch.device) -> None:
    case = BY_NAME["shaded"]
    values = case.make(PARTIAL[name], torch.float32, device)
    result = case.op(*values)
    grad = torch.randn(result.shape, generator=torch.Generator().manual_seed(2)).to(device)
    first, *others = (torch.autograd.grad(result, values, grad, retain_graph=True) for _ in range(4))
    for other in others:
        assert all(torch.equal(one, two) for one, two in zip(first, other, strict=True))
