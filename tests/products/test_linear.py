"""torch_slang.nn.Linear beside torch's own in float64."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from cases import nvrtc_is_here
from long_tests import some_cases, some_tests
from matmul_epilogues import ACTIVATIONS, assert_agrees, randn
from torch.autograd import gradcheck, gradgradcheck

import torch_slang

pytestmark = some_tests(2)

Tensor = torch.Tensor

MODULES: dict[str | None, Callable[[Tensor], Tensor]] = {None: lambda x: x, **ACTIVATIONS}


class TestLinear:
    # The others' values and gradients are looked at in float, below.
    @some_cases(1)
    @pytest.mark.parametrize(
        ("epilogue", "bias"), [(None, True), (None, False), ("relu", True), ("gelu", True), ("sigmoid", False)]
    )
    def test_it_is_torchs_linear_and_the_activation(self, epilogue: Any, bias: bool, device: torch.device) -> None:
        torch.manual_seed(0)
        ours = torch_slang.nn.Linear(33, 20, bias, epilogue, device=device, dtype=torch.float64)
        torch.manual_seed(0)
        theirs = torch.nn.Linear(33, 20, bias, device=device, dtype=torch.float64)
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(one, other)
        theirs.load_state_dict(ours.state_dict())
        ours.load_state_dict(theirs.state_dict())
        x = 3 * randn(2, 7, 33, device=device)
        inputs = (x.requires_grad_(), *ours.parameters())

        def in_torch(x: Tensor, *parameters: Tensor) -> Tensor:
            return MODULES[epilogue](F.linear(x, *parameters))

        assert_agrees(lambda x, *_: ours(x), in_torch, list(inputs))

    @some_cases(1)
    @pytest.mark.parametrize("epilogue", ["gelu", "gelu_tanh", "silu", "tanh"])
    def test_float_is_as_accurate_as_torchs(self, epilogue: Any, device: torch.device) -> None:
        """The function of each number from -30 to 30, which are products with 1."""
        x = torch.linspace(-30, 30, 60001, device=device)[:, None].requires_grad_()
        layer = torch_slang.nn.Linear(1, 1, False, epilogue, device=device)
        torch.nn.init.ones_(layer.weight)
        wide_x = x.detach().double().requires_grad_()
        expected = MODULES[epilogue](wide_x)
        result = layer(x)
        scale = wide_x.detach().abs().clamp(min=1)
        assert ((result - expected).abs() / scale).max() < 4e-7
        positive = x.detach() > 1e-3
        assert ((result - expected).abs() / expected.abs())[positive].max() < 1e-6
        (ours,), (theirs,) = torch.autograd.grad(result.sum(), x), torch.autograd.grad(expected.sum(), wide_x)
        assert (ours - theirs).abs().max() < 2e-6

    @some_cases(1)
    @pytest.mark.parametrize("bias", [False, True])
    @pytest.mark.parametrize("epilogue", [None, *sorted(ACTIVATIONS)])
    def test_second_derivatives_and_forward_mode(self, epilogue: Any, bias: bool, device: torch.device) -> None:
        layer = torch_slang.nn.Linear(5, 3, bias=bias, epilogue=epilogue, device=device, dtype=torch.float64)
        x = randn(4, 5, device=device).requires_grad_()
        names, parameters = zip(*layer.named_parameters(), strict=True)

        def call(x: Tensor, *parameters: Tensor) -> Tensor:
            return torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), x)

        assert gradcheck(call, (x, *parameters), check_forward_ad=True)
        assert gradgradcheck(call, (x, *parameters), check_fwd_over_rev=True)

    @some_cases(1)
    @pytest.mark.parametrize("epilogue", sorted(ACTIVATIONS))
    def test_second_derivatives_in_float_and_of_far_numbers(self, epilogue: str, device: torch.device) -> None:
        far = torch.tensor([-1e6, -300.0, -20.0, 20.0, 300.0, 1e6], device=device)
        x = torch.cat([torch.linspace(-9, 9, 1001, device=device), far])[:, None].requires_grad_()
        layer = torch_slang.nn.Linear(1, 1, bias=False, epilogue=epilogue, device=device)
        torch.nn.init.ones_(layer.weight)

        def second(function: Any, x: Tensor) -> Tensor:
            (first,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
            return torch.autograd.grad(first.sum(), x, materialize_grads=True)[0]

        expected = second(ACTIVATIONS[epilogue], x.detach().double().requires_grad_())
        torch.testing.assert_close(second(layer, x).double(), expected, rtol=1e-5, atol=2e-6)

    def test_far_numbers(self, device: torch.device) -> None:
        x = torch.tensor([[-1e30], [-1000.0], [0.0], [1000.0], [1e30], [float("nan")]], device=device)
        for epilogue in ("gelu", "silu"):
            layer = torch_slang.nn.Linear(1, 1, False, epilogue, device=device)
            torch.nn.init.ones_(layer.weight)
            expected = MODULES[epilogue](x)
            assert torch.equal(layer(x).nan_to_num(7.0), expected.nan_to_num(7.0)), epilogue

    @pytest.mark.parametrize("dtype", [torch.bfloat16])
    def test_halves(self, dtype: torch.dtype, device: torch.device) -> None:
        layer = torch_slang.nn.Linear(40, 24, epilogue="gelu", device=device, dtype=dtype)
        x = randn(5, 40, dtype=dtype, device=device).requires_grad_()
        assert_agrees(lambda x, *_: layer(x), lambda x, w, b: F.gelu(F.linear(x, w, b)), [x, *layer.parameters()])

    @pytest.mark.usefixtures("fresh_dynamo")
    def test_compile_script_copy_and_pickle(self, device: torch.device) -> None:
        layer = torch_slang.nn.Linear(6, 4, epilogue="gelu", device=device)
        x = randn(3, 6, dtype=torch.float32, device=device)
        expected = layer(x)
        assert torch.equal(torch.compile(layer, fullgraph=True, backend="aot_eager")(x), expected)
        assert torch.equal(torch.jit.script(layer)(x), expected)
        assert torch.equal(copy.deepcopy(layer)(x), expected)
        file = io.BytesIO()
        torch.save(layer, file)
        file.seek(0)
        assert torch.equal(torch.load(file, weights_only=False)(x), expected)
        with torch.device("meta"):
            assert torch_slang.nn.Linear(6, 4, epilogue="gelu").weight.is_meta

    @some_cases(1)
    @pytest.mark.skipif(not nvrtc_is_here(), reason="NVRTC is not installed")
    @pytest.mark.parametrize("kernel", ["linear_gelu_bias_product", "linear_gelu_bias_product_and_sum"])
    def test_sums_stay_in_a_gpus_registers(self, kernel: str) -> None:
        path = Path(torch_slang.__file__).with_name("ops") / "epilogues" / "linear_gelu_bias.slang"
        module = torch_slang.load(path, namespace="test_epilogues_built_in", defines={"TILE": 1282561})
        ptx = module._handle.cubin(kernel, "forward", ["bfloat16"], False, "compute_90a").decode(errors="replace")
        assert "wgmma.mma_async" in ptx
        assert "__local_depot" not in ptx

    def test_unknown_epilogues_are_named(self) -> None:
        with pytest.raises(ValueError, match=r"expected epilogue to be None or one of relu, gelu, .* but got 'gulu'"):
            torch_slang.nn.Linear(2, 2, epilogue="gulu")  # type: ignore[arg-type]

    def test_repr(self) -> None:
        assert repr(torch_slang.nn.Linear(2, 3, epilogue="silu")) == (
            "Linear(in_features=2, out_features=3, bias=True, epilogue=silu)"
        )
