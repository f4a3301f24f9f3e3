"""torch.vmap of kernels and functions: one launch for all samples, against a loop over them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from cases import BY_NAME, CASES, kernels
from derivative_cases import THIRTY

import torch_slang
from torch_slang._check_vmap import check_vmap

Tensor = torch.Tensor

NARROW = {"rtol": 1e-4, "atol": 1e-4}  # of kernels that take float32 alone

SOURCE = """
import torch_slang;

[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void scaled([Shape("N")] DiffTensorView<double> x, double scale, [Shape("M")] TensorView<double> weight,
            [Out("N")] DiffTensorView<double> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= x.size(0)) return;
    double sum = 0;
    [MaxIters(8)] for (uint k = 0; k < weight.size(0); k++) sum += weight[k];
    y[i] = x[i] * x[i] * scale * sum;
}
"""


@pytest.fixture(scope="module")
def scaled() -> Any:
    return torch_slang.load(source=SOURCE, name="vmap_scaled", namespace="test_vmap").scaled


def randn(*shape: int, device: torch.device | str = "cpu") -> Tensor:
    return torch.randn(shape, dtype=torch.float64, device=device)


@pytest.mark.filterwarnings("error:There is a performance drop")
class TestAgainstALoop:
    @pytest.mark.parametrize("case", [c for c in CASES if str(c) != "scaled"], ids=str)  # libslang crashes at it
    def test_cases(self, case: Any, device: torch.device) -> None:
        check_vmap(case.op, case.args(device), **(NARROW if case.dtype == torch.float32 else {}))

    @pytest.mark.parametrize("case", [c for c in THIRTY if str(c) not in BY_NAME], ids=str)
    def test_thirty(self, case: Any, device: torch.device) -> None:
        check_vmap(case.op, case.args(device))

    def test_trilinear(self, device: torch.device) -> None:
        feats, points = randn(5, 8, 3, device=device), torch.rand(5, 3, dtype=torch.float64, device=device) * 2 - 1
        check_vmap(torch.ops.slang.trilinear.default, (feats.requires_grad_(), points.requires_grad_()))


class TestTransforms:
    def test_per_sample_gradients_of_shared_arguments(self, scaled: Any, device: torch.device) -> None:
        x, scale, weight = randn(4, 5, device=device), randn(device=device), randn(3, device=device)

        def loss(x: Tensor, scale: Tensor) -> Tensor:
            return scaled(x, scale, weight).sum()

        grads = torch.vmap(torch.func.grad(loss, argnums=(0, 1)), in_dims=(0, None))(x, scale)
        torch.testing.assert_close(grads[0], 2 * x * scale * weight.sum())
        torch.testing.assert_close(grads[1], (x * x).sum(1) * weight.sum())

    def test_gradient_of_a_vmap_sums_over_samples(self, scaled: Any, device: torch.device) -> None:
        x, scale, weight = randn(4, 5, device=device), randn(device=device), randn(3, device=device)

        def loss(x: Tensor, scale: Tensor) -> Tensor:
            return torch.vmap(lambda row: scaled(row, scale, weight))(x).sum()

        torch.testing.assert_close(torch.func.grad(loss, argnums=1)(x, scale), (x * x).sum() * weight.sum())
        scale.requires_grad_()  # autograd itself beneath a vmap
        loss(x, scale).backward()
        torch.testing.assert_close(scale.grad, (x * x).sum() * weight.sum())

    def test_scalars_for_each_sample(self, scaled: Any, device: torch.device) -> None:
        x, scales, weight = randn(5, device=device), randn(4, device=device), randn(3, device=device)
        results = torch.vmap(scaled, in_dims=(None, 0, None))(x, scales, weight)
        torch.testing.assert_close(results, x * x * scales[:, None] * weight.sum())

    def test_dimensions_anywhere(self, scaled: Any, device: torch.device) -> None:
        x, scales, weight = randn(5, 4, device=device), randn(4, device=device), randn(3, 8, device=device)[:, ::2]
        results = torch.vmap(scaled, in_dims=(1, 0, 1), out_dims=1)(x, scales, weight)
        torch.testing.assert_close(results, x * x * scales * weight.sum(0))

    def test_jacrev(self, device: torch.device) -> None:
        case = BY_NAME["twist"]
        a, b = (t.detach() for t in case.args(device))
        for argnums in (0, 1):
            actual = torch.func.jacrev(case.op, argnums)(a, b)
            torch.testing.assert_close(actual, torch.func.jacrev(case.reference, argnums)(a, b))

    def test_three_levels(self, scaled: Any, device: torch.device) -> None:
        x, scales, weights = randn(2, 5, device=device), randn(3, device=device), randn(4, 3, device=device)
        over = torch.vmap(torch.vmap(torch.vmap(scaled, (None, None, 0)), (None, 0, None)), (0, None, None))
        expected = (x * x)[:, None, None] * scales[:, None, None] * weights.sum(1)[:, None]
        torch.testing.assert_close(over(x, scales, weights), expected)

    def test_a_level_that_maps_over_none_of_the_arguments(self, scaled: Any, device: torch.device) -> None:
        x, weight, other = randn(4, 5, device=device), randn(3, device=device), randn(2, 5, device=device)
        one = torch.tensor(1.0, dtype=torch.float64, device=device)
        actual = torch.vmap(lambda row: torch.vmap(lambda o: o + scaled(row, one, weight))(other))(x)
        torch.testing.assert_close(actual, other + (x * x * weight.sum())[:, None])

    @pytest.mark.parametrize("samples", [0, 1])
    def test_no_sample_and_one(self, samples: int, scaled: Any, device: torch.device) -> None:
        x, scale, weight = randn(samples, 5, device=device), randn(device=device), randn(3, device=device)

        def loss(x: Tensor, scale: Tensor) -> Tensor:
            return scaled(x, scale, weight).sum()

        assert torch.vmap(scaled, (0, None, None))(x, scale, weight).shape == (samples, 5)
        grads = torch.vmap(torch.func.grad(loss, argnums=(0, 1)), in_dims=(0, None))(x, scale)
        torch.testing.assert_close(grads, (2 * x * scale * weight.sum(), (x * x).sum(1) * weight.sum()))

    def test_traces_have_the_operator_for_samples(self, scaled: Any, device: torch.device) -> None:
        x, scale, weight = randn(4, 5, device=device), randn(device=device), randn(3, device=device)

        def function(x: Tensor, scale: Tensor, weight: Tensor) -> Tensor:
            return torch.vmap(lambda row: scaled(row, scale, weight))(x)

        traced = torch.fx.experimental.proxy_tensor.make_fx(function, tracing_mode="symbolic")(x, scale, weight)
        assert "test_vmap_vmap.scaled.default" in [str(node.target) for node in traced.graph.nodes]
        other = randn(7, 5, device=device)
        torch.testing.assert_close(traced(other, scale, weight), other * other * scale * weight.sum())


class TestFunctions:
    def test_promotion_is_that_of_one_sample(self, device: torch.device) -> None:
        module = torch_slang.load(
            source="[Differentiable] T product<T : __BuiltinFloatingPointType>(T a, T b) { return a * b; }",
            name="vmap_product",
            namespace="test_vmap_product",
        )
        a, b = torch.randn(5, device=device), randn(3, device=device)
        results = torch.vmap(module.product, in_dims=(None, 0))(a, b)
        assert results.dtype == torch.float32
        torch.testing.assert_close(results, a * b[:, None].float())
        grads = torch.vmap(torch.func.grad(lambda a, b: module.product(a, b).sum(), argnums=1), (None, 0))(a, b)
        assert grads.dtype == torch.float64
        torch.testing.assert_close(grads, a.sum().double().expand(3), rtol=1e-5, atol=1e-5)

    def test_shapes_are_refused_as_one_sample_has_them(self, device: torch.device) -> None:
        module = torch_slang.load(
            source="[Differentiable] float total(float a, float b) { return a + b; }",
            name="vmap_total",
            namespace="test_vmap_total",
        )
        a, b = torch.zeros(4, 3, device=device), torch.zeros(4, 2, device=device)
        with pytest.raises(RuntimeError, match=r"total: .* b has shape \[2\] among a \(float\) \[3\]"):
            torch.vmap(module.total)(a, b)


class TestRefusals:
    def test_shapes_are_those_of_one_sample(self, scaled: Any, device: torch.device) -> None:
        x, one, weight = randn(4, 5, 2, device=device), randn(device=device), randn(3, device=device)
        with pytest.raises(RuntimeError, match=r"test_vmap::scaled: expected x to have shape \[N\].*but got \[5, 2\]"):
            torch.vmap(scaled, (0, None, None))(x, one, weight)

    def test_a_launch_writes_what_is_mapped_over(self, device: torch.device) -> None:
        kernels("pointwise")
        launch = torch.ops.test_pointwise.total_launch
        x, z = torch.randn(3, 5, device=device, dtype=torch.float64), torch.randn(5, device=device, dtype=torch.float64)
        y = torch.zeros_like(x)
        names = [a.name for a in launch.default._schema.arguments]
        given = {"x": x, "z": z, "y": y}
        tensors = [name for name in names if name in given]

        def run(*values: Tensor) -> Tensor:
            launch(*values, [32], [1])
            return values[0]

        dims = tuple(0 if given[name].dim() == 2 else None for name in tensors)
        with pytest.raises(RuntimeError, match="total_launch: expected z, which may be written, to be mapped over"):
            torch.vmap(run, in_dims=dims)(*(given[name] for name in tensors))
        given["z"] = z.expand(3, 5).clone()
        torch.vmap(run)(*(given[name] for name in tensors))
        torch.testing.assert_close(y, x + 2 * z)


PROGRAM = """
import sys
import torch, torch_slang
sys.path.insert(0, sys.argv[1])
from test_vmap import SOURCE
scaled = torch_slang.load(source=SOURCE, name="vmap_scaled", namespace="test_vmap").scaled
weight, scale = torch.ones(3, dtype=torch.float64), torch.tensor(2.0, dtype=torch.float64)
grad = torch.vmap(torch.func.grad(lambda x: scaled(x, scale, weight).sum()))
for samples in (3, 5):
    grad(torch.ones(samples, 7, dtype=torch.float64))
    if samples == 3: before = torch_slang.cache.stats()["host_runs"]
print("compiled", torch_slang.cache.stats()["host_runs"] - before)
"""


def test_one_launch_for_all_samples_and_nothing_compiled_for_more(tmp_path: Path) -> None:
    program = [sys.executable, "-c", PROGRAM, str(Path(__file__).parent)]
    run = subprocess.run(
        program, env={**os.environ, "TORCH_SLANG_RECORD": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert "compiled 0" in run.stdout
    lines = sorted(line for file in tmp_path.glob("launches.*") for line in file.read_text().splitlines())
    expected = [
        f"test_vmap::scaled{op} on cpu: grid [1, 1, 1] of blocks [256, 1, 1], {samples} samples"
        for op in ("", "_backward")
        for samples in (3, 5)
    ]
    assert lines == sorted(expected)
