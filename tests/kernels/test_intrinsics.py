"""Every function of Slang's core that device code may name gives PyTorch's values, on each device and for each type."""

import pytest
import torch
from devices import DEVICES, needs_cuda
from intrinsics import DTYPES, arguments, expected, generate, mismatch, rows_of
from long_tests import dear_test, some_cases

import torch_slang


@dear_test
@some_cases(1)
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


@needs_cuda
def test_roots_of_all_floats_are_rounded_correctly() -> None:
    module = torch_slang.load(source="float root(float x) { return sqrt(x); }", name="root.slang", namespace="roots")
    count = 2**26
    for first in range(0, 2**32, count):
        bits = torch.arange(first, first + count, device="cuda").to(torch.int32)
        x = bits.view(torch.float32)
        actual, expected = module.root(x), torch.sqrt(x)  # signs of zeros are to be the same too
        same = (actual.view(torch.int32) == expected.view(torch.int32)) | (actual.isnan() & expected.isnan())
        assert bool(same.all()), x[~same][:8].tolist()
