"""``torch_slang.nn.BlockSparseLinear`` with an epilogue, and under a ``PatternSchedule``."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from long_tests import dear_file, some_cases, some_tests
from matmul_epilogues import ACTIVATIONS
from products import Recorded, assert_near, second_gradients
from torch.autograd import gradgradcheck

from torch_slang import BlockPattern
from torch_slang.nn import BlockSparseLinear, PatternSchedule

Tensor = torch.Tensor

pytestmark = [pytest.mark.usefixtures("seeded", "the_first_tile"), some_tests(3), dear_file]


def layer_of(epilogue: Any, bias: bool = True, **more: Any) -> BlockSparseLinear:
    return BlockSparseLinear(50, 70, bias, density=0.5, block_shape=(16, 32), epilogue=epilogue, **more)


def in_torch(layer: BlockSparseLinear, x: Tensor) -> Tensor:
    bias = None if layer.bias is None else layer.bias.to(x.dtype)
    total = F.linear(x, layer.to_dense().to(x.dtype), bias)
    return total if layer.epilogue is None else ACTIVATIONS[layer.epilogue](total)


def layer_without_bias(layer: BlockSparseLinear) -> BlockSparseLinear:
    made = copy.deepcopy(layer)
    made.bias = None
    return made


@some_cases(1)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("epilogue", ["relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh"])
def test_it_is_the_linear_of_its_dense_weight_and_the_activation(
    epilogue: Any, bias: bool, device: torch.device
) -> None:
    layer = layer_of(epilogue, bias, device=device)
    for leading in ((), (3, 5)):
        x = (3 * torch.randn(*leading, 50, device=device)).requires_grad_()
        y, expected = layer(x), in_torch(layer, x.double())
        assert_near(y, expected, torch.float32)
        grad = torch.randn_like(y)
        inputs = [x, *layer.parameters()]
        ours = torch.autograd.grad(y, inputs, grad)
        theirs = torch.autograd.grad(expected, inputs, grad.double())
        for one, other in zip(ours, theirs, strict=True):
            assert_near(one, other, torch.float32, 4)


@some_cases(1)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_rounded_once(dtype: torch.dtype, device: torch.device) -> None:
    x = torch.randn(9, 50, dtype=dtype, device=device)
    for epilogue in ("gelu", None):
        layer = layer_of(epilogue, dtype=dtype, device=device)
        with torch.no_grad():
            y, expected = layer(x), in_torch(layer, x.double())
        unit = torch.finfo(dtype).eps / 2
        assert ((y - expected).abs() <= 1.01 * unit * expected.abs() + 1e-5).all()


def test_without_blocks_it_is_the_activation_of_the_bias(device: torch.device) -> None:
    pattern = BlockPattern.from_mask(torch.zeros(5, 2, dtype=torch.bool, device=device), (16, 32), (70, 50))
    layer = BlockSparseLinear(50, 70, pattern=pattern, epilogue="sigmoid")
    assert layer.bias is not None
    y = layer(torch.randn(3, 50, device=device))
    assert_near(y, torch.sigmoid(layer.bias.double()).expand(3, 70), torch.float32)
    y.sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.shape == (0, 16, 32)
    slope = torch.sigmoid(layer.bias.double()) * (1 - torch.sigmoid(layer.bias.double()))
    assert_near(layer.bias.grad, 3 * slope, torch.float32)


def test_a_bias_alone_is_in_the_kernel_unless_gradients_are_recorded(device: torch.device) -> None:
    layer = layer_of(None, device=device)
    x = torch.randn(4, 50, device=device)
    with torch.no_grad(), Recorded() as recorded:
        y = layer(x)
    assert [name for name, _ in recorded.calls] == ["slang.block_sparse_mm_with_epilogue.default"]
    assert_near(layer(x), y.double(), torch.float32)
    with torch.no_grad():
        _, tangent = torch.func.jvp(layer, (x,), (x,))
    assert_near(tangent, in_torch(layer_without_bias(layer), x.double()), torch.float32)
    xs = torch.randn(3, 4, 50, device=device)
    for mode in (torch.enable_grad, torch.no_grad):
        with mode():
            assert_near(torch.vmap(layer)(xs), layer(xs).double(), torch.float32)
    torch.library.opcheck(
        torch.ops.slang.block_sparse_linear.default, (x, layer.weight, layer._indices(), layer.shape, layer.bias)
    )


def test_without_an_epilogue_there_are_second_derivatives() -> None:
    layer = BlockSparseLinear(16, 32, density=1.0, block_shape=(16, 16), dtype=torch.float64)
    x = torch.randn(2, 16, dtype=torch.float64, requires_grad=True)
    assert layer.bias is not None
    call = torch.func.functional_call
    assert gradgradcheck(lambda x, w, b: call(layer, {"weight": w, "bias": b}, (x,)), (x, layer.weight, layer.bias))


@some_cases(1)
@pytest.mark.parametrize("epilogue", ["gelu", "silu"])
def test_with_an_epilogue_there_are_second_derivatives(epilogue: str, device: torch.device) -> None:
    layer = layer_of(epilogue, device=device, dtype=torch.float64)
    x = torch.randn(2, 50, dtype=torch.float64, device=device, requires_grad=True)
    inputs = [x, *layer.parameters()]
    ours, theirs = (second_gradients(y.square().sum(), inputs) for y in (layer(x), in_torch(layer, x)))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_from_linear_takes_an_epilogue(device: torch.device) -> None:
    linear = torch.nn.Linear(50, 70, device=device)
    layer = BlockSparseLinear.from_linear(linear, density=1.0, block_shape=(16, 32), epilogue="silu")
    x = torch.randn(4, 50, device=device)
    assert_near(layer(x), F.silu(linear(x)).double(), torch.float32)


def test_autocast(device: torch.device) -> None:
    layer = layer_of("gelu", device=device)
    x = torch.randn(3, 50, device=device)
    with torch.autocast(device.type, torch.bfloat16):
        y = layer(x)
    assert y.dtype == torch.bfloat16
    y.float().sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in layer.parameters())
    torch.testing.assert_close(y.float(), layer(x), rtol=0.02, atol=0.02)


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("epilogue", ["gelu", None])
def test_script_trace_export_compile_copy_and_pickle(epilogue: Any, device: torch.device) -> None:
    layer = layer_of(epilogue, device=device)
    x = torch.randn(2, 5, 50, device=device)
    for mode in (torch.enable_grad, torch.no_grad):
        with mode():
            expected = layer(x)
            assert torch.equal(torch.jit.script(layer)(x), expected)
            assert torch.equal(torch.jit.trace(layer, x)(x), expected)
            assert torch.equal(torch.export.export(layer, (x,)).module()(x), expected)
            assert torch.equal(torch.compile(layer, fullgraph=True, backend="aot_eager")(x), expected)
            assert torch.equal(copy.deepcopy(layer)(x), expected)
            file = io.BytesIO()
            torch.save(layer, file)
            file.seek(0)
            assert torch.equal(torch.load(file, weights_only=False)(x), expected)
    with torch.device("meta"):
        assert layer_of(epilogue)(torch.empty(3, 50)).is_meta


def test_state_dicts_are_those_of_layers_without_one(device: torch.device) -> None:
    plain, layer = layer_of(None, device=device), layer_of("relu", device=device)
    assert layer.state_dict().keys() == plain.state_dict().keys()
    layer.load_state_dict(plain.state_dict())
    x = torch.randn(4, 50, device=device)
    assert_near(layer(x), F.relu(plain(x)).double(), torch.float32)


@some_cases(3)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("epilogue", "bias"), [("gelu", True), ("relu", False), (None, True)])
def test_a_schedule_looks_at_the_gradient_of_the_dense_weight(
    epilogue: Any, bias: bool, dtype: torch.dtype, device: torch.device
) -> None:
    layer = layer_of(epilogue, bias, dtype=dtype, device=device)
    schedule = PatternSchedule(layer, torch.optim.SGD(layer.parameters(), 0.1), every=1)
    x, grad = (torch.randn(2, 8, n, dtype=dtype, device=device) for n in (50, 70))
    layer(x).backward(grad)
    weight = layer.to_dense().detach().double().requires_grad_()
    total = F.linear(x.double(), weight, None if layer.bias is None else layer.bias.detach().double())
    y = total if epilogue is None else ACTIVATIONS[epilogue](total)
    (expected,) = torch.autograd.grad(y, weight, grad.double())
    gradient = schedule._layers[0].gradient
    assert gradient is not None
    assert_near(gradient, expected, torch.promote_types(dtype, torch.float32), 1 if dtype != torch.bfloat16 else 2000)
    assert schedule.step()


def test_a_schedule_under_autocast(device: torch.device) -> None:
    layer = layer_of("gelu", device=device)
    schedule = PatternSchedule(layer, torch.optim.SGD(layer.parameters(), 0.1), every=1)
    with torch.autocast(device.type, torch.bfloat16):
        layer(torch.randn(8, 50, device=device)).float().square().sum().backward()
    assert schedule.step()


def test_unknown_epilogues_are_named() -> None:
    rule = "torch_slang.nn.BlockSparseLinear: expected epilogue to be None or one of relu, gelu, .* but got 'gulu'; "
    with pytest.raises(ValueError, match=rule + "torch_slang.block_sparse_mm_with_epilogue takes"):
        layer_of("gulu")


def test_repr() -> None:
    assert repr(layer_of("silu")).endswith("blocks=5 of 10, epilogue=silu)")
    assert "epilogue" not in repr(layer_of(None))
