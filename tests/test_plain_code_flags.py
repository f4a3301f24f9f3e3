"""TORCH_SLANG_CXXFLAGS that ask for less optimisation than the marks of compiled kernels need."""

from __future__ import annotations

import itertools

import pytest
import torch
from long_tests import some_cases

import torch_slang

KERNEL = """import torch_slang;
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void square([Shape("N")] DiffTensorView<double> x, [Out("N")] DiffTensorView<double> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < x.size(0)) y[i] = x[i] * x[i];
}
[Differentiable] double twice(double x) { return 2 * x; }
"""
_numbers = itertools.count()


@some_cases(2)
@pytest.mark.parametrize("flags", ["-O0", "-Og", "-O1", "-Os", "-O3 -O0"])
def test_kernels_are_right_at_every_level_of_optimisation(flags: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_SLANG_CXXFLAGS", flags)
    name = f"plain_code{next(_numbers)}"
    module = torch_slang.load(source=KERNEL, name=name, namespace=name)
    x = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64, requires_grad=True)
    (module.square(x) + module.twice(x)).sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach() + 2)
