"""What an atomic operation on an output gives is a value that the backward needs, as what a load gives is."""

import pytest
import torch
from long_tests import some_cases

import torch_slang

KERNEL = """
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void weighted(
    [Shape("N")] DiffTensorView<float> x, [Out("N")] TensorView<TYPE> weight, [Out("N")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= x.size(0)) return;
    weight[i] = TYPE(i + 1);
    TYPE before = 0;
    ATOMIC
    y[i] = x[i] * x[i] * float(before);
}
"""
# Each gives weight[i], which is i + 1 then.
OPERATIONS = {
    "add": "weight.InterlockedAdd(i, TYPE(2), before);",
    "min": "weight.InterlockedMin(i, TYPE(-9), before);",
    "max": "weight.InterlockedMax(i, TYPE(9), before);",
    "and": "weight.InterlockedAnd(i, 1, before);",
    "or": "weight.InterlockedOr(i, 8, before);",
    "xor": "weight.InterlockedXor(i, 5, before);",
    "exchange": "weight.InterlockedExchange(i, TYPE(7), before);",
}


def gradient(slang_type: str, name: str, atomic: str, device: torch.device) -> list[float]:
    module = torch_slang.load(
        source=KERNEL.replace("ATOMIC", atomic).replace("TYPE", slang_type),
        name="weighted",
        namespace=f"test_atomic_results_{name}_{slang_type}",
    )
    x = torch.tensor([1.0, -2.0, 3.0], device=device, requires_grad=True)
    module.weighted(x)[1].sum().backward()
    return x.grad.tolist()


@some_cases(2)
@pytest.mark.parametrize(
    ("slang_type", "operation"), [("float", "add"), *(("int", operation) for operation in OPERATIONS)]
)
def test_gradients_depend_on_what_an_atomic_operation_gave(
    slang_type: str, operation: str, device: torch.device
) -> None:
    assert gradient(slang_type, operation, OPERATIONS[operation], device) == [2, -8, 18]


def test_a_result_that_nobody_uses_changes_nothing(device: torch.device) -> None:
    assert gradient("int", "unused", OPERATIONS["add"] + " before = 3;", device) == [6, -12, 18]
