"""Threads that read one element add up in its gradient, whatever the element type: atomically, and by component."""

import pytest
import torch
from devices import DEVICES
from long_tests import some_cases, some_tests

import torch_slang

pytestmark = some_tests(2)

KERNEL = """
import torch_slang;
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void gather([Shape("K")] DiffTensorView<T> x, [Shape("N")] TensorView<int> index, [Out("N")] DiffTensorView<T> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= y.size(0)) return;
    y[i] = x[uint(index[i])];
}
"""

# Slang's name, the tensor's dtype, components of an element
ELEMENTS = [
    ("float", torch.float32, ()),
    ("double", torch.float64, ()),
    ("half", torch.float16, ()),
    ("BFloat16", torch.bfloat16, ()),
    ("float3", torch.float32, (3,)),
    ("float4", torch.float32, (4,)),
    ("double2", torch.float64, (2,)),
    ("half4", torch.float16, (4,)),
]


def kernel(element: str) -> str:
    return KERNEL.replace("<T>", f"<{element}>")


@some_cases(3)
@pytest.mark.parametrize(("element", "dtype", "components"), ELEMENTS, ids=[row[0] for row in ELEMENTS])
@pytest.mark.parametrize("device", DEVICES)
def test_contended_gradients_add_up(element: str, dtype: torch.dtype, components: tuple[int, ...], device: str) -> None:
    module = torch_slang.load(source=kernel(element), name=f"gather_{element}", namespace=f"gather_{element}")
    index = torch.arange(300, dtype=torch.int32, device=device) % 5  # sums up to 60: exact in every type
    # Vectors start in the middle of one: an element need not lie at a multiple of its size.
    x = torch.randn(1 + 5 * max(1, *components, 1), device=device).to(dtype)[1:].view(5, *components).requires_grad_()
    y = module.gather(x, index)
    torch.testing.assert_close(y, x[index.long()], rtol=0, atol=0)
    y.backward(torch.ones_like(y))
    torch.testing.assert_close(x.grad, torch.full_like(x, 60), rtol=0, atol=0)
