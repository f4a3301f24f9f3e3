"""Tensors for the tests of calls of plain functions."""

from __future__ import annotations

import collections

import torch
from torch import Tensor

POLYNOMIAL = r"test_function_calls::polynomial\(a: float, b: float, c: float, x: float\) -> float: "
Lens = collections.namedtuple("Lens", ["focus", "center"])
Camera = collections.namedtuple("Camera", ["lens", "exposure", "shift"])
CENTER, AT = torch.tensor([0.5, -1.0]), torch.tensor([[1.0, 2.0], [3.0, 4.0]])


def leaf(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float32, requires_grad=True)


def scalar(value: float) -> Tensor:
    return torch.tensor(float(value), requires_grad=True)


def with_grad(result: Tensor, grad: Tensor | None = None) -> Tensor:
    result.grad = torch.ones_like(result) if grad is None else grad
    return result
