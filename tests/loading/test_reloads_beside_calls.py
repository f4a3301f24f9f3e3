"""A reload while a call is under way: the call takes one Program, once, for all that it runs and records."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

import torch_slang

FACTORS = (2.0, 5.0)
SOURCE = """
[Differentiable] T scaled<T : __BuiltinFloatingPointType>(T x) { return x * T(FACTOR); }

[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void scale([Shape("n")] DiffTensorView<double> x, [Out("n")] DiffTensorView<double> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < x.size(0)) y[i] = x[i] * double(FACTOR);
}
"""
EPILOGUE = "[Differentiable] float factored(float x, float y) { return x * FACTOR + y; }"


def text(source: str, factor: float) -> str:
    return source.replace("FACTOR", str(factor))


def load(factor: float) -> torch_slang.Module:
    return torch_slang.load(source=text(SOURCE, factor), name="beside", namespace="beside")


class Reloading(TorchDispatchMode):
    """Reloads, once, where a call of one of our operators stands between autograd and the kernel that runs."""

    def __init__(self, reload: Callable[[], Any]) -> None:
        super().__init__()
        self.reload: Callable[[], Any] | None = reload

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.reload is not None and op.namespace.startswith(("beside", "slang")):  # "beside_vmap" too
            reload, self.reload = self.reload, None
            reload()
        return op(*args, **(kwargs or {}))


def results(function: Callable[[Tensor], Tensor]) -> Iterator[tuple[str, float]]:
    """What is recorded by a call that a reload falls into, as the factor that it shows."""
    x = torch.tensor([1.5, -2.0, 0.5], dtype=torch.float64)

    def during(run: Callable[[], Any]) -> Any:
        load(FACTORS[0])
        with Reloading(lambda: load(FACTORS[1])) as mode:
            result = run()
        assert mode.reload is None, "the call met no reload"
        return result

    leaf = x.clone().requires_grad_()
    y = during(lambda: function(leaf))
    yield "value", (y / x)[0].item()
    yield "gradient", torch.autograd.grad(y.sum(), leaf)[0][0].item()

    with forward_ad.dual_level():
        tangent = torch.ones_like(x)
        value, given = forward_ad.unpack_dual(during(lambda: function(forward_ad.make_dual(x, tangent))))
        yield "value beside a tangent", (value / x)[0].item()
        assert given is not None
        yield "tangent", given[0].item()

    mapped = during(lambda: torch.func.vmap(torch.func.grad(lambda x: function(x[None])[0]))(x))
    yield "mapped gradient", mapped[0].item()


@pytest.mark.parametrize("name", ["scaled", "scale"])
def test_what_a_call_records_is_of_one_text(name: str) -> None:
    load(FACTORS[0])
    getattr(load(FACTORS[1]), name)(torch.ones(2, dtype=torch.float64))  # makes the function's operator
    found = dict(results(getattr(torch.ops.beside, name)))
    assert found == dict.fromkeys(found, FACTORS[0])
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    after = getattr(torch.ops.beside, name)(x)
    after.sum().backward()
    assert after[0].item() == FACTORS[1]
    assert x.grad is not None
    assert x.grad[0].item() == FACTORS[1]


def test_a_product_with_an_epilogue_records_one_text() -> None:
    def epilogue(factor: float) -> Any:
        return torch_slang.matmul_with_epilogue(text(EPILOGUE, factor))

    a, b, y = torch.eye(4), torch.eye(4).requires_grad_(), torch.zeros(4)
    op = epilogue(FACTORS[0])
    with Reloading(lambda: epilogue(FACTORS[1])) as mode:
        result = op(a, b, y)
    assert mode.reload is None
    (gradient,) = torch.autograd.grad(result.sum(), b)
    assert result[0, 0].item() == FACTORS[0]
    assert gradient[0, 0].item() == FACTORS[0]
