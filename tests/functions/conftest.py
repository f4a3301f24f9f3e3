"""What the tests of calls of plain functions share."""

from typing import Any

import pytest
import torch


@pytest.fixture(scope="module")
def calls() -> Any:
    from cases import kernels  # not before the folder of the cache is known: tests/conftest.py

    return kernels("function_calls")


@pytest.fixture
def x() -> torch.Tensor:
    return torch.tensor([1.0, 2.0, 3.0, 4.0])
