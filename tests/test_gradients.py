"""Every kernel's results and gradients: against plain torch, finite differences, and itself in other circumstances."""

import pytest
import torch
from cases import CASES, Case

from torch_slang import testing


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kernel_is_a_proper_operator(case: Case, device: torch.device) -> None:
    testing.check(case.op, case.args(device), reference=case.reference, **case.options)
