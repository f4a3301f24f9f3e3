"""torch.ops.slang.mm, matmul and dot as PyTorch's operators: opcheck, autocast, compilers, function transforms."""

from __future__ import annotations

import io

import pytest
import torch
from agreement import check_one_graph_serves, value_and_gradients
from long_tests import some_cases
from products import SHAPES, Recorded, randn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.fx.experimental.proxy_tensor import make_fx

from torch_slang import testing

Tensor = torch.Tensor
mm, matmul, dot = torch.ops.slang.mm, torch.ops.slang.matmul, torch.ops.slang.dot
pytestmark = pytest.mark.usefixtures("the_first_tile")


class TestOperators:
    """Strides, expanded gradients, frozen operands, empty tensors, Meta, gradcheck, opcheck."""

    @pytest.mark.parametrize("batch", [(), (2,)], ids=["matrices", "batches"])
    def test_mm(self, batch: tuple[int, ...], device: torch.device) -> None:
        operands = tuple(randn(*batch, *shape, device=device).requires_grad_() for shape in [(3, 4), (4, 5)])
        testing.check(mm, operands, reference=torch.matmul, order=1)

    @pytest.mark.parametrize(
        ("one", "other"), [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((6, 1, 3, 4), (2, 4, 5))]
    )
    def test_matmul(self, one: tuple[int, ...], other: tuple[int, ...], device: torch.device) -> None:
        operands = tuple(randn(*shape, device=device).requires_grad_() for shape in (one, other))
        # torch's own sums of empty tensors have other strides on the meta device.
        testing.check(matmul, operands, reference=torch.matmul, empty=1 not in one, order=1)

    def test_dot(self, device: torch.device) -> None:
        a, b, c = (randn(*shape, device=device).requires_grad_() for shape in [(4, 3), (2, 5, 4), (5,)])
        arguments = {"transpose_a": True, "transpose_b": True, "alpha": 2.5, "beta": -1, "c": c}
        torch.library.opcheck(dot.default, (a, b), arguments)

    @pytest.mark.parametrize(("one", "other"), SHAPES)
    def test_shapes_on_meta(self, one: tuple[int, ...], other: tuple[int, ...]) -> None:
        a, b = torch.empty(one, device="meta"), torch.empty(other, device="meta")
        result = matmul(a, b)
        assert (result.device.type, result.shape) == ("meta", torch.matmul(a, b).shape)

    def test_inference_mode(self, device: torch.device) -> None:
        with torch.inference_mode():
            a, b = randn(2, 3, 4, device=device), randn(4, 5, device=device)
            torch.testing.assert_close(matmul(a, b), a @ b)

    def test_negated_views(self, device: torch.device) -> None:
        a, b = (
            torch.complex(randn(3, 4, device=device), randn(3, 4, device=device)).conj().imag,
            randn(4, 5, device=device),
        )
        assert a.is_neg()
        torch.testing.assert_close(matmul(a, b), a @ b)


class TestAutocast:
    def test_operands_become_narrow(self, device: torch.device) -> None:
        a, b, c = (randn(*s, dtype=torch.float32, device=device) for s in [(3, 4), (4, 5), (5,)])
        b.requires_grad_()
        narrow = [t.detach().bfloat16() for t in (a, b, c)]
        with torch.autocast(device.type, torch.bfloat16):
            results = [matmul(a, b), dot(a, b, beta=1, c=c), mm(a[None], b[None])[0], matmul(narrow[0], b)]
        assert all(result.dtype == torch.bfloat16 for result in results)
        plain = matmul(*narrow[:2])
        assert torch.equal(results[0], plain)
        assert torch.equal(results[1], plain + narrow[2])
        assert torch.equal(results[2], plain)
        assert torch.equal(results[3], plain)
        results[0].sum().backward()
        assert b.grad.dtype == torch.float32

    def test_float64_stays(self, device: torch.device) -> None:
        a, b = randn(3, 4, device=device), randn(4, 5, device=device)
        with torch.autocast(device.type, torch.bfloat16):
            assert matmul(a, b).dtype == torch.float64


def layer(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
    """A batch with one matrix for all, a batch with one each, and all that dot can do."""
    hidden = matmul(x.sin(), w)
    return dot(hidden, matmul(v, hidden), True, alpha=2, beta=0.5, c=w.sum(0)).cos()


def layer_in_torch(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
    hidden = x.sin() @ w
    return (2 * (hidden.mT @ (v @ hidden)) + 0.5 * w.sum(0)).cos()


def layer_inputs(batch: int, rows: int, width: int, out: int, device: torch.device) -> list[Tensor]:
    return [randn(*shape, device=device) for shape in [(batch, rows, width), (width, out), (batch, rows, rows)]]


LAYER_SIZES = [(2, 3, 4, 5), (6, 5, 7, 9), (3, 8, 11, 2)]


class Layer(torch.nn.Module):
    def forward(self, x: Tensor, w: Tensor, v: Tensor) -> Tensor:
        return layer(x, w, v)


class Product(torch.nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.ops.slang.matmul(a, b)


@pytest.mark.usefixtures("fresh_dynamo")
class TestCompilers:
    @some_cases(1)
    @pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
    def test_one_graph_serves_all_sizes(self, backend: str, device: torch.device) -> None:
        all_inputs = [layer_inputs(*sizes, device) for sizes in LAYER_SIZES]
        check_one_graph_serves(all_inputs, layer, layer_in_torch, backend)

    def test_a_number_of_rows_that_data_decides(self, device: torch.device) -> None:
        def function(x: Tensor, w: Tensor) -> Tensor:
            return matmul(x[x[:, 0] > 0], w).sum(0)

        x, w = randn(9, 4, device=device), randn(4, 5, device=device)
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            compiled = torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=True)
            torch.testing.assert_close(compiled(x, w), x[x[:, 0] > 0].matmul(w).sum(0))

    @pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True)])
    def test_compiled_autograd(self, wanted: tuple[bool, bool], device: torch.device) -> None:
        inputs = (randn(3, 4, device=device), randn(4, 5, device=device))
        expected = value_and_gradients(lambda a, b: (a @ b).sin(), *inputs)[1:]
        a, b = (t.requires_grad_(grad) for t, grad in zip(inputs, wanted, strict=True))
        counter = CompileCounterWithBackend("aot_eager")
        with torch._dynamo.compiled_autograd._enable(torch.compile(backend=counter, fullgraph=True)):
            matmul(a, b).sin().sum().backward()
        nodes = [node.name for graph in counter.graphs for node in graph.graph.nodes]
        assert sum("slang_mm_backward" in name for name in nodes) == 1
        for tensor, gradient in zip((a, b), expected, strict=True):
            if tensor.requires_grad:
                torch.testing.assert_close(tensor.grad, gradient)
            else:
                assert tensor.grad is None

    def test_export_saves_and_loads_with_dynamic_sizes(self, device: torch.device) -> None:
        batch, rows, width, out = (torch.export.Dim(name) for name in ("batch", "rows", "width", "out"))
        shapes = {"x": {0: batch, 1: rows, 2: width}, "w": {0: width, 1: out}, "v": {0: batch, 1: rows, 2: rows}}
        program = torch.export.export(Layer(), tuple(layer_inputs(2, 3, 4, 5, device)), dynamic_shapes=shapes)
        buffer = io.BytesIO()
        torch.export.save(program, buffer)
        buffer.seek(0)
        loaded = torch.export.load(buffer).module()
        for sizes in LAYER_SIZES:
            inputs = layer_inputs(*sizes, device)
            torch.testing.assert_close(loaded(*inputs), layer_in_torch(*inputs))

    def test_gradients_are_traced_as_products(self, device: torch.device) -> None:
        def gradients(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
            return torch.func.grad(lambda a, b: matmul(a, b).sum(), argnums=(0, 1))(a, b)

        traced = make_fx(gradients, tracing_mode="symbolic")(randn(3, 4, device=device), randn(4, 5, device=device))
        targets = [str(node.target) for node in traced.graph.nodes]
        assert targets.count("slang.mm.default") == 3
        inputs = (randn(7, 2, device=device), randn(2, 6, device=device))
        torch.testing.assert_close(traced(*inputs), gradients(*inputs))

    def test_script_is_saved_loaded_and_differentiated(self, device: torch.device) -> None:
        buffer = io.BytesIO()
        torch.jit.save(torch.jit.script(Product()), buffer)
        buffer.seek(0)
        loaded = torch.jit.load(buffer)
        for rows in (3, 5, 7):  # several runs: the profiling executor rewrites the graph after the first
            inputs = (randn(2, rows, 4, device=device), randn(4, 5, device=device))
            torch.testing.assert_close(value_and_gradients(loaded, *inputs), value_and_gradients(torch.matmul, *inputs))


class TestFunctionTransforms:
    @pytest.mark.parametrize(
        ("one", "other", "in_dims"),
        [
            ((7, 3, 4), (7, 4, 5), (0, 0)),
            ((3, 7, 4), (4, 5, 7), (1, 2)),
            ((7, 3, 4), (4, 5), (0, None)),
            ((3, 4), (7, 4, 5), (None, 0)),
            ((7, 4), (4,), (0, None)),
            ((7, 2, 3, 4), (7, 4, 5), (0, 0)),
            ((2, 3, 4), (2, 4, 7, 5), (None, 2)),
        ],
    )
    def test_vmap_is_one_product(
        self,
        one: tuple[int, ...],
        other: tuple[int, ...],
        in_dims: tuple[int | None, int | None],
        device: torch.device,
    ) -> None:
        a, b = randn(*one, device=device), randn(*other, device=device)
        with Recorded() as ran:
            actual = torch.vmap(matmul, in_dims=in_dims)(a, b)
        torch.testing.assert_close(actual, torch.vmap(torch.matmul, in_dims=in_dims)(a, b))
        assert len(ran.products()) == 1

    def test_vmap_in_vmap(self, device: torch.device) -> None:
        a, b = randn(6, 3, 4, device=device), randn(2, 4, 5, device=device)
        actual = torch.vmap(torch.vmap(lambda a, b: dot(a, b, alpha=2), (0, None)), (None, 0))(a, b)
        torch.testing.assert_close(actual, 2 * (a @ b[:, None]))

    def test_vmap_checks_what_each_call_would(self, device: torch.device) -> None:
        a, b = randn(7, 1, 3, 4, device=device), randn(7, 2, 4, 5, device=device)
        with pytest.raises(RuntimeError, match=r"^slang::mm: expected b .*: dimension 0 must be B = 1 \(from a\)$"):
            torch.vmap(mm)(a, b)

    def test_gradients_of_samples(self, device: torch.device) -> None:
        x, w = randn(6, 3, 4, device=device), randn(4, 5, device=device)
        actual, expected = (
            torch.vmap(torch.func.grad(lambda w, x, f=f: f(x, w).sin().sum()), (None, 0))(w, x)
            for f in (matmul, torch.matmul)
        )
        torch.testing.assert_close(actual, expected)

    @pytest.mark.parametrize("transform", ["grad", "jacrev", "jacfwd", "hessian"])
    def test_derivatives(self, transform: str, device: torch.device) -> None:
        inputs = layer_inputs(2, 3, 2, 3, device)
        actual, expected = (
            getattr(torch.func, transform)(lambda *t, f=f: f(*t).sum(), argnums=(0, 1, 2))(*inputs)
            for f in (layer, layer_in_torch)
        )
        torch.testing.assert_close(actual, expected)

    def test_jvp(self, device: torch.device) -> None:
        inputs = tuple(layer_inputs(2, 3, 4, 5, device))
        tangents = tuple(t.cos() for t in inputs)
        torch.testing.assert_close(
            torch.func.jvp(layer, inputs, tangents), torch.func.jvp(layer_in_torch, inputs, tangents)
        )
