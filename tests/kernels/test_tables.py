"""Tables: arrays that are `static const`, indexed at run time."""

from __future__ import annotations

import math

import pytest
import torch
from cases import nvrtc_is_here

import torch_slang

TABLES = """
import torch_slang;
struct Pair { double a; int b; };
static const int MORE[3] = {4, 5, 6};
static const int WHOLE[2][3] = {{0, 1, 2}, MORE};
static const int DEEP[2][2][2] = {{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}};
static const double COMPUTED[2] = {sqrt(2.0lf), 3.0};
static const double NESTED[2][2] = {{exp(1.0lf), 2}, {COMPUTED[1], -1}};
static const Pair PAIRS[2] = {{1.5, 2}, {2.5, -3}};
static const double3 VECTORS[2] = {double3(1, 2, 3), double3(4, 5, 6)};
static const double2x2 MATRICES[2] = {double2x2(1, 2, 3, 4), double2x2(5, 6, 7, 8)};
static const double3 UNIT = normalize(double3(3, 0, 4));
static const half SMALL[2] = {half(0.5), half(0.25)};
static const bool ASKED[2] = {true, false};

[Differentiable] double read(double x, int i, int j)
{
    double sum = x * WHOLE[i][j] + x * x * DEEP[i][j][1 - i] + COMPUTED[i] * x + NESTED[i][j] * x;
    sum += PAIRS[i].a * x * PAIRS[j].b + VECTORS[i][j] * x + MATRICES[i][j][i] * x + UNIT[j] * x;
    sum += double(SMALL[j]) * x;
    return ASKED[j] ? sum : sum * 2;
}
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void tabled([Shape("N")] DiffTensorView<double> x, [Shape("N")] TensorView<int> i, [Shape("N")] TensorView<int> j,
            [Out("N")] DiffTensorView<double> y)
{
    uint n = cudaGlobalIdx().x;
    if (n < x.size(0)) y[n] = read(x[n], i[n], j[n]);
}
"""


def value(x: torch.Tensor, i: int, j: int) -> torch.Tensor:
    whole = [[0, 1, 2], [4, 5, 6]][i][j]
    deep = [[[1, 2], [3, 4]], [[5, 6], [7, 8]]][i][j][1 - i]
    computed = [math.sqrt(2), 3][i] + [[math.e, 2], [3, -1]][i][j]
    pairs = [1.5, 2.5][i] * [2, -3][j]
    vectors = [[1, 2, 3], [4, 5, 6]][i][j] + [[[1, 2], [3, 4]], [[5, 6], [7, 8]]][i][j][i]
    unit = [0.6, 0, 0.8][j] + [0.5, 0.25][j]
    return (x * (whole + computed + pairs + vectors + unit) + x * x * deep) * [1, 2][j]


def test_tables_are_read_by_kernels_and_functions(device: torch.device) -> None:
    module = torch_slang.load(source=TABLES, name="tables", namespace="tables")
    i, j = torch.tensor([[0, 0, 1, 1], [0, 1, 0, 1]], dtype=torch.int32)
    x = torch.tensor([0.5, 1.5, -2.0, 3.0], dtype=torch.float64)
    expected_x = x.clone().requires_grad_()
    rows = [value(expected_x[n], int(i[n]), int(j[n])) for n in range(4)]
    (expected,) = torch.autograd.grad(torch.stack(rows).sum(), expected_x)
    for operator in (module.tabled, module.read):
        given = x.to(device).requires_grad_()
        result = operator(given, i.to(device), j.to(device))
        torch.testing.assert_close(result.detach().cpu(), torch.stack(rows).detach())
        torch.testing.assert_close(torch.autograd.grad(result.sum(), given)[0].cpu(), expected)


@pytest.mark.skipif(not nvrtc_is_here(), reason="NVRTC is not installed")
def test_kernels_with_tables_compile_for_a_gpu() -> None:
    handle = torch_slang.load(source=TABLES, name="tables", namespace="tables")._handle
    for kind in ("forward", "backward"):
        assert handle.cubin("tabled", kind, [], True, "sm_90").startswith(b"\x7fELF")
