"""Every function of Slang's core that device code may name gives PyTorch's values, on each device and for each type."""

import pytest
from devices import DEVICES
from intrinsics import DTYPES, arguments, expected, generate, mismatch, rows_of

import torch_slang


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("device", DEVICES)
def test_core_functions_agree_with_pytorch(element: str, device: str) -> None:
    module = torch_slang.load(source=generate(element), name=f"intrinsics_{element}", namespace=f"intrinsics_{element}")
    values = arguments(element)
    reals, integers = (result.cpu() for result in module.evaluate(*(value.to(device) for value in values)))
    rows = rows_of(element)
    problems = [
        mismatch(row, (integers if row.to_int else reals)[k], expected(row, *(value[k] for value in values)))
        for k, row in enumerate(rows)
    ]
    assert not any(problems), "\n".join(problem for problem in problems if problem)
