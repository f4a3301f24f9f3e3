"""Every kernel's results and gradients: against plain torch, finite differences, and itself in other circumstances."""

import pytest
import torch
from agreement import check_against
from cases import BY_NAME, CASES, Case
from long_tests import LONG, dear_test, some_cases

from torch_slang import testing

# What the run-time does with arguments (layouts, frozen ones, empty tensors) depends on how a kernel takes them: one of
# each kind goes through all that here. Of the others, values and gradients are compared with plain torch's.
OF_EACH_KIND = {"sqr", "parts", "gather", "stencil", "place", "directions", "running_product", "block_share", "bumps"}


@dear_test
@some_cases(2)
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=str(case)) for case in CASES],
)
def test_kernel_is_a_proper_operator(case: Case, device: torch.device) -> None:
    if LONG or case.kernel in OF_EACH_KIND:
        testing.check(case.op, case.args(device), reference=case.reference, **case.options, order=1)
    else:
        check_against(case.op, case.args(device), case.reference)


@some_cases(2)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["sqr", "stencil", "branching"])
def test_narrower_types_agree_with_float64(name: str, dtype: torch.dtype, device: torch.device) -> None:
    """Values and gradients have the arguments' own dtype, sums over threads included."""
    case = BY_NAME[name]
    values = case.args(device, dtype)
    exact = [v.detach().double().requires_grad_() if isinstance(v, torch.Tensor) else v for v in values]
    result, expected = case.op(*values), case.reference(*exact)
    weights = torch.linspace(-1, 1, result.numel(), device=device).view_as(result)
    (grad,) = torch.autograd.grad(result, values[0], weights.to(dtype))
    (expected_grad,) = torch.autograd.grad(expected, exact[0], weights.to(dtype).double())
    assert result.dtype == grad.dtype == dtype
    tolerance = 16 * torch.finfo(dtype).eps
    for actual, wanted in [(result, expected), (grad, expected_grad)]:
        torch.testing.assert_close(actual.double(), wanted, rtol=tolerance, atol=tolerance)


def test_gradient_of_many_threads_meets_in_one_element(device: torch.device) -> None:
    """Every thread reads row 0: its gradient is a sum over all of them."""
    table = torch.ones(2, 3, dtype=torch.float64, device=device, requires_grad=True)
    index = torch.zeros(20_000, dtype=torch.int64, device=device)
    BY_NAME["gather"].op(table, index).sum().backward()
    assert table.grad.tolist() == [[40_000.0] * 3, [0.0] * 3]


def test_values_sum_their_gradients_over_all_threads(device: torch.device) -> None:
    x = torch.ones(10_000, 3, dtype=torch.float64, device=device)
    scale, shift, turn = (torch.ones(shape, dtype=torch.float64, device=device) for shape in [(), (3,), (3, 3)])
    leaves = [tensor.requires_grad_() for tensor in (scale, shift, turn)]
    BY_NAME["place"].op(x, *leaves, 0.5).sum().backward()
    assert scale.grad.item() == 2 * 10_000 * 9
    assert shift.grad.tolist() == [5_000.0] * 3
    assert turn.grad.tolist() == [[10_000.0] * 3] * 3
