"""TORCH_SLANG_CXXFLAGS that ask for less optimisation than the marks of compiled kernels need."""

from __future__ import annotations

import itertools

import pytest
import torch
from long_tests import dear_file, some_cases

import torch_slang

pytestmark = dear_file

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


LOOPS = """import torch_slang;
[Differentiable] double at(DiffTensorView<double> v, uint i, uint c) { return v[i, c]; }
#define KERNEL(NAME) [Differentiable] [CudaKernel] [LaunchTotal("N")] \\
    void NAME([Shape("N, C")] DiffTensorView<double> x, \\
    [Shape("C")] DiffTensorView<double> y, [Shape("N")] TensorView<int> n, [Out("N, C")] DiffTensorView<double> z)
KERNEL(behind)
{
    uint i = cudaGlobalIdx().x;
    if (i >= x.size(0)) return;
    double s = 1;
    [MaxIters(4)] for (int j = 0; j < n[i]; j++) s = s * at(x, i, j) + y[j];
    z[i, 0] = s * x[i, 0]; z[i, 1] = 0; z[i, 2] = 0;
}
KERNEL(added)
{
    uint i = cudaGlobalIdx().x;
    if (i >= x.size(0)) return;
    z[i, 0] = x[i, 1]; z[i, 1] = 0; z[i, 2] = 0;
    [MaxIters(4)] for (int j = 0; j < n[i]; j++) z[i, 0] = z[i, 0] + y[j] * x[i, j];
}
KERNEL(carried)
{
    uint i = cudaGlobalIdx().x;
    if (i >= x.size(0)) return;
    z[i, 0] = x[i, 0]; z[i, 1] = y[0]; z[i, 2] = 0;
    int j = 1;
    [MaxIters(4)] while (j < n[i]) { z[i, j] = sin(z[i, j - 1]) * x[i, j]; j++; }
}
KERNEL(careless) { uint i = cudaGlobalIdx().x; if (i < x.size(0)) { x[i, 0] = y[i]; z[i, 0] = x[i, 0]; } }
"""


def loops(name: str, x: torch.Tensor, y: torch.Tensor, n: int) -> torch.Tensor:
    zero = torch.zeros_like(x[0])
    if name == "carried":
        z = [x[0], y[0], zero]
        for j in range(1, n):
            z[j] = z[j - 1].sin() * x[j]
        return torch.stack(z)
    s = torch.ones_like(zero) if name == "behind" else x[1]
    for j in range(n):
        s = s * x[j] + y[j] if name == "behind" else s + y[j] * x[j]
    return torch.stack([s * x[0] if name == "behind" else s, zero, zero])


# What calls are left uninlined hides from the compiled code which view a store is to: Note [written views].
@pytest.mark.parametrize("flags", ["-O0 -Dalways_inline=unused", "-O1", ""])
@some_cases(1)
@pytest.mark.parametrize("name", ["behind", "added", "carried"])
def test_no_kernel_is_refused_for_what_a_compiler_leaves_open(
    name: str, flags: str, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_SLANG_CXXFLAGS", flags)
    space = f"loops{len(flags)}{name}"
    module = torch_slang.load(source=LOOPS, name=space, namespace=space)
    n = torch.tensor([1, 2, 3], dtype=torch.int32, device=device)
    x = torch.rand(3, 3, dtype=torch.float64, device=device, requires_grad=True)
    y = torch.rand(3, dtype=torch.float64, device=device, requires_grad=True)
    derivatives = []
    for z in (getattr(module, name)(x, y, n), torch.stack([loops(name, x[i], y, i + 1) for i in range(3)])):
        first = torch.autograd.grad(z.sin().sum(), (x, y), create_graph=True)
        second = torch.autograd.grad(sum((g * g).sum() for g in first), (x, y))
        derivatives.append((z, *first, *second))
    torch.testing.assert_close(*derivatives)


@pytest.mark.parametrize("flags", ["-O0 -Dalways_inline=unused", ""])
def test_a_kernel_that_writes_to_an_input_is_refused(flags: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_SLANG_CXXFLAGS", flags)
    space = f"loops{len(flags)}careless"
    module = torch_slang.load(source=LOOPS, name=space, namespace=space)
    x, y = torch.ones(3, 3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    with pytest.raises(torch_slang.CompileError, match=r"the kernel writes to x, which is not an output"):
        module.careless(x, y, torch.ones(3, dtype=torch.int32))
    assert x.all()
