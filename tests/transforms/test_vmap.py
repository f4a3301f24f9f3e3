"""torch.vmap of kernels and functions: one launch for all samples, against a loop over them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cases import BY_NAME, kernels
from derivative_cases import BATCHED, REFUSED, THIRTY, Derived, assert_right_or_refused
from long_tests import dear_test, some_cases, some_tests

import torch_slang

pytestmark = some_tests(4)

Tensor = torch.Tensor

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


FUNCTIONS = """
[Differentiable] T product<T : __BuiltinFloatingPointType>(T a, T b) { return a * b; }
[Differentiable] float total(float a, float b) { return a + b; }
"""


def functions() -> torch_slang.Module:
    return torch_slang.load(source=FUNCTIONS, name="vmap_functions", namespace="test_vmap_functions")


@pytest.fixture(scope="module")
def scaled() -> Any:
    return torch_slang.load(source=SOURCE, name="vmap_scaled", namespace="test_vmap").scaled


def randn(*shape: int, device: torch.device | str = "cpu") -> Tensor:
    return torch.randn(shape, dtype=torch.float64, device=device)


@some_cases(4)
@pytest.mark.filterwarnings("error:There is a performance drop")
@pytest.mark.parametrize("derivative", BATCHED)
@pytest.mark.parametrize("case", THIRTY, ids=str)
def test_thirty(case: Derived, derivative: str, device: torch.device) -> None:
    assert_right_or_refused(case, derivative, device, REFUSED.get(str(case)) if derivative == "jacfwd" else None)


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

    def test_chunks(self, scaled: Any, device: torch.device) -> None:
        x, scale, weight = randn(5, 7, device=device), randn(device=device), randn(3, device=device)
        mapped = torch.vmap(scaled, (0, None, None), chunk_size=2)
        torch.testing.assert_close(mapped(x, scale, weight), x * x * scale * weight.sum())
        jacobian = torch.func.jacrev(scaled, chunk_size=2)(x[0], scale, weight)
        torch.testing.assert_close(jacobian, torch.diag(2 * x[0] * scale * weight.sum()))

    def test_compiled(self, scaled: Any, device: torch.device) -> None:
        x, scale, weight = randn(4, 5, device=device), randn(device=device), randn(3, device=device)

        @torch.compile(backend="aot_eager", fullgraph=True)
        def grads(x: Tensor) -> Any:
            return torch.vmap(torch.func.grad(lambda x: scaled(x, scale, weight).sum()))(x)

        for samples in (4, 2):
            torch.testing.assert_close(grads(x[:samples]), 2 * x[:samples] * scale * weight.sum())

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


class TestSecondDerivatives:
    """Of a kernel with a value, a vector of parameters and a loop; the references are plain torch."""

    @staticmethod
    def loss(op: Any) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        return lambda x, scale, weight: (op(x, scale, weight) ** 2).sum()

    def both(self, scaled: Any, transform: Callable[[Any], Any], *args: Tensor) -> None:
        def plain(x: Tensor, scale: Tensor, weight: Tensor) -> Tensor:
            return x * x * scale * weight.sum()

        torch.testing.assert_close(transform(self.loss(scaled))(*args), transform(self.loss(plain))(*args))

    @dear_test
    @some_cases(1)
    @pytest.mark.parametrize("in_dims", [(0, 0, None), (1, None, None), (None, 0, None)])
    def test_hessians_and_double_backward_of_samples(
        self, in_dims: tuple[int | None, ...], scaled: Any, device: torch.device
    ) -> None:
        shapes = {0: (3, 5), 1: (5, 3), None: (5,)}
        x, weight = randn(*shapes[in_dims[0]], device=device), randn(3, device=device)
        scale = randn(*(() if in_dims[1] is None else (3,)), device=device)

        def penalty(f: Any) -> Any:  # differentiated, it needs the second backward
            def norm(*args: Tensor) -> Tensor:
                return sum((g * g).sum() for g in torch.func.grad(f, (0, 1))(*args))  # type: ignore[return-value]

            return norm

        self.both(scaled, lambda f: torch.vmap(torch.func.hessian(f, (0, 1)), in_dims), x, scale, weight)
        self.both(scaled, lambda f: torch.vmap(torch.func.grad(penalty(f), (0, 1)), in_dims), x, scale, weight)
        self.both(
            scaled,
            lambda f: torch.func.grad(lambda *a: torch.vmap(penalty(f), in_dims)(*a).sum(), (0, 1)),
            x,
            scale,
            weight,
        )

    def test_jvp_of_vmap_and_vmap_of_jvp(self, scaled: Any, device: torch.device) -> None:
        x, scale, weight, t = (randn(*s, device=device) for s in [(4, 5), (), (3,), (4, 5)])
        dims = (0, None, None)

        def outside(f: Any) -> Any:
            return lambda x, scale, weight: torch.func.jvp(
                torch.vmap(f, dims), (x, scale, weight), (t, torch.ones_like(scale), torch.zeros_like(weight))
            )

        def inside(f: Any) -> Any:
            def of_one(x: Tensor, scale: Tensor, weight: Tensor) -> Any:
                return torch.func.jvp(lambda x: f(x, scale, weight), (x,), (t[0],))

            return torch.vmap(of_one, dims)

        def backward(f: Any) -> Any:  # forward over reverse, the tangents mapped over
            def of_one(t: Tensor, x: Tensor, scale: Tensor, weight: Tensor) -> Any:
                return torch.func.jvp(torch.func.grad(lambda x: f(x, scale, weight)), (x,), (t,))

            return lambda x, scale, weight: torch.vmap(of_one, (0, None, None, None))(t, x[0], scale, weight)

        for transform in (outside, inside, backward):
            self.both(scaled, transform, x, scale, weight)

    @pytest.mark.filterwarnings("error:There is a performance drop")
    def test_gradients_in_batches(self, scaled: Any, device: torch.device) -> None:
        """By is_grads_batched=True, which maps by another key than torch.vmap."""
        x, scale, weight = randn(4, device=device), randn(2, 1, device=device), randn(3, device=device)
        product, grads = functions().product, randn(3, 2, 4, device=device)
        for op, plain, args in [
            (scaled, lambda x, s, w: x * x * s * w.sum(), (x, scale[0, 0], weight)),
            (product, torch.mul, (x, scale)),
        ]:
            leaves = [t.clone().requires_grad_() for t in args[:2]]
            results = []
            for f in (op, plain):
                y = f(*leaves, *args[2:])
                g = grads[:, 0] if y.dim() == 1 else grads
                first = torch.autograd.grad(y, leaves, g, is_grads_batched=True, create_graph=True)
                norm = sum((t * t).sum() for t in first)
                results.append((*first, *torch.autograd.grad(norm, leaves)))  # gradients of batched gradients
            torch.testing.assert_close(results[0], results[1])

    def test_gradcheck_in_batches(self, scaled: Any, device: torch.device) -> None:
        x, scale = (randn(*s, device=device).requires_grad_() for s in [(4,), ()])
        weight = randn(3, device=device)
        options = {"check_batched_grad": True, "check_forward_ad": True, "check_batched_forward_grad": True}
        assert torch.autograd.gradcheck(lambda x, s: scaled(x, s, weight), (x, scale), **options)
        assert torch.autograd.gradgradcheck(lambda x, s: scaled(x, s, weight), (x, scale), check_batched_grad=True)
        product = functions().product
        assert torch.autograd.gradcheck(product, (x, scale), **options)
        assert torch.autograd.gradcheck(torch.vmap(product, (0, None)), (x, scale), **options)


class TestFunctions:
    def test_promotion_is_that_of_one_sample(self, device: torch.device) -> None:
        module = functions()
        a, b = torch.randn(5, device=device), randn(3, device=device)
        results = torch.vmap(module.product, in_dims=(None, 0))(a, b)
        assert results.dtype == torch.float32
        torch.testing.assert_close(results, a * b[:, None].float())
        grads = torch.vmap(torch.func.grad(lambda a, b: module.product(a, b).sum(), argnums=1), (None, 0))(a, b)
        assert grads.dtype == torch.float64
        torch.testing.assert_close(grads, a.sum().double().expand(3), rtol=1e-5, atol=1e-5)

    def test_shapes_are_refused_as_one_sample_has_them(self, device: torch.device) -> None:
        module = functions()
        a, b = torch.zeros(4, 3, device=device), torch.zeros(4, 2, device=device)
        with pytest.raises(RuntimeError, match=r"total: .* b has shape \[2\] among a \(float\) \[3\]"):
            torch.vmap(module.total)(a, b)

    def test_one_type_of_instances(self, device: torch.device) -> None:
        """One sample's 0-dimensional double may go to a float; so may one for each sample."""
        product = functions().require_function("product<float>")
        a, b = torch.randn(5, device=device), randn(3, device=device)
        torch.testing.assert_close(torch.vmap(product, (None, 0))(a, b), a * b[:, None].float())
        torch.testing.assert_close(torch.vmap(product, (0, 0))(b, b), (b * b).float())

    def test_out_writes_what_is_mapped_over(self, device: torch.device) -> None:
        functions().product.register()
        out = torch.ops.test_vmap_functions.product_out
        a, b, result = (randn(*s, device=device) for s in [(3, 4), (4,), (3, 4)])

        def run(result: Tensor, a: Tensor, b: Tensor) -> Tensor:
            out(a, b, result)
            return result + 0

        torch.testing.assert_close(torch.vmap(run, (0, 0, None))(result, a, b), a * b)
        torch.testing.assert_close(result, a * b)
        with pytest.raises(RuntimeError, match=r"product_out: expected .*, which may be written, to be mapped over"):
            torch.vmap(run, (None, 0, None))(result[0], a, b)


class TestFunctionsThatSeeTensors:
    def arguments(self, device: torch.device) -> tuple[Tensor, Tensor]:
        i = torch.tensor([3, 0, 3], dtype=torch.int32, device=device)
        return i, randn(2, 4, 5, device=device)

    @dear_test
    def test_tensors_of_samples(self, device: torch.device) -> None:
        pair, (i, tables) = kernels("whole_tensors").pair, self.arguments(device)
        a, b = tables

        def plain(i: Tensor, a: Tensor, b: Tensor) -> Tensor:
            return a[i.long()] * b[i.long() + 1]

        for transform in (
            lambda f: torch.vmap(f, (None, 0, None))(i, a, b[0]),
            lambda f: torch.vmap(f, (0, None, None))(torch.stack([i, i - i]), a[0], b[0]),
            lambda f: torch.vmap(torch.func.grad(lambda a, b: f(i, a, b).sum(), (0, 1)), (0, None))(a, b[0]),
            lambda f: torch.func.grad(lambda b: torch.vmap(f, (None, 0, None))(i, a, b).square().sum())(b[0]),
            lambda f: torch.vmap(torch.vmap(lambda a, b: f(i, a, b), (None, 0)), (0, None))(a, b),
        ):
            torch.testing.assert_close(transform(pair), transform(plain))
        assert torch.vmap(pair, (None, 0, None))(i, a[:0], b[0]).shape == (0, 3)

    def test_stores_go_to_each_sample(self, device: torch.device) -> None:
        scatter = kernels("whole_tensors").scatter
        i = torch.arange(3, dtype=torch.int32, device=device)
        x, to = torch.randn(2, 3, device=device), torch.zeros(2, 3, device=device)
        torch.testing.assert_close(torch.vmap(scatter, (None, 0, 0))(i, x, to), x + 1)
        torch.testing.assert_close(to, 2 * x)
        with pytest.raises(RuntimeError, match="scatter: expected to, which may be written, to be mapped over"):
            torch.vmap(scatter, (None, 0, None))(i, x, to[0])


class TestRefusals:
    def test_more_samples_than_a_launch_can_have(self, scaled: Any) -> None:
        x = randn(1, 0).expand(2**32, 0)
        with pytest.raises(RuntimeError, match=r"scaled: expected at most 4294967295 samples .*: pass a chunk_size"):
            torch.vmap(scaled, (0, None, None))(x, randn(), randn(3))

    def test_what_pytorch_refuses(self, scaled: Any, device: torch.device) -> None:
        x, one, weight = randn(4, 5, device=device), randn(device=device), randn(3, device=device)
        with pytest.raises(ValueError, match="Got in_dim=2 for some input"):
            torch.vmap(scaled, (2, None, None))(x, one, weight)
        with pytest.raises(ValueError, match="same size in the mapped dimension"):
            torch.vmap(scaled, (0, None, 0))(x, one, weight)

    def test_tensors_of_a_vmap_that_has_ended(self, scaled: Any, device: torch.device) -> None:
        kept = []
        torch.vmap(lambda x: kept.append(x) or x)(randn(4, 5, device=device))
        with pytest.raises(RuntimeError, match=r"a tensor of a torch\.vmap that has ended"):
            scaled(kept[0], randn(device=device), randn(3, device=device))

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
scaled = torch_slang.load(source=sys.argv[1], name="vmap_scaled", namespace="test_vmap").scaled
weight, scale = torch.ones(3, dtype=torch.float64), torch.tensor(2.0, dtype=torch.float64)
grad = torch.vmap(torch.func.grad(lambda x: scaled(x, scale, weight).sum()))
for samples in (3, 5):
    grad(torch.ones(samples, 7, dtype=torch.float64))
    if samples == 3: before = torch_slang.cache.stats()["host_runs"]
print("compiled", torch_slang.cache.stats()["host_runs"] - before)
"""


@dear_test
def test_one_launch_for_all_samples_and_nothing_compiled_for_more(tmp_path: Path) -> None:
    program = [sys.executable, "-c", PROGRAM, SOURCE]
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
