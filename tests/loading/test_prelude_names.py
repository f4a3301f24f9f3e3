"""Names of Slang's own CUDA prelude that emitted text may have: infinities, strings, pointers' integers."""

from __future__ import annotations

import math

import pytest
import torch
from long_tests import dear_file

import torch_slang

pytestmark = dear_file

SOURCE = """
static const float INF = 1.0f / 0.0f;
[Differentiable] double least(double x) { return min(x * x, INF); }
[Differentiable] double below(double x) { return x < 1e39f && x > -INF ? x * x : 0; }
[Differentiable] double most(double x) { return max(x * x, -1.0 / 0.0); }
[Differentiable] double small(double x) { return x < float.maxValue * 2 ? x * x : x; }
[Differentiable] double halves(double x) { return half(x) < half(1.0h / 0.0h) ? x * x : x; }
double infinite(double x) { return 1.0 / 0.0; }
double nan(double x) { return 0.0 / 0.0; }
double address(double x) { intptr_t a = intptr_t(x); uintptr_t b = uintptr_t(x); return double(a) + double(b) - x; }
[Differentiable] double printed(double x)
{
    double y = x * x;
    if (x > 100) printf("%s is %f\\n", "y", y);
    return y;
}
[Differentiable] [CudaKernel] void prints([Shape("N")] DiffTensorView<double> x, [Out("N")] DiffTensorView<double> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= x.size(0)) return;
    double v = x[i];
    if (v > 100) printf("%s is %f\\n", "v", v);
    y[i] = v * v;
}
"""


@pytest.mark.parametrize("name", ["least", "below", "most", "small", "halves", "printed", "prints"])
def test_constants_and_strings_stand_in_differentiable_code(name: str, device: torch.device) -> None:
    function = getattr(torch_slang.load(source=SOURCE, name="names_of_prelude", namespace="names_of_prelude"), name)
    x = torch.tensor([1.5, -2.0], dtype=torch.float64, device=device, requires_grad=True)
    torch.testing.assert_close(function(x), x * x)
    assert torch.autograd.gradcheck(function, x, check_forward_ad=True)


def test_their_values(device: torch.device) -> None:
    module = torch_slang.load(source=SOURCE, name="names_of_prelude", namespace="names_of_prelude")
    x = torch.ones(1, dtype=torch.float64, device=device)
    assert module.infinite(x).item() == math.inf
    assert math.isnan(module.nan(x).item())
    assert module.address(x).item() == 1
