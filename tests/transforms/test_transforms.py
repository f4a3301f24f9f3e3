"""Operators under PyTorch's transforms: compilers, export, TorchScript, functorch, checkpoints, threads."""

import io
import threading
from collections.abc import Callable

import pytest
import torch
from agreement import check_one_graph_serves, value_and_gradients
from cases import BY_NAME, kernels
from long_tests import some_tests
from torch._dynamo.testing import CompileCounterWithBackend
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint

import torch_slang

pytestmark = some_tests(8)

Tensor = torch.Tensor
CUBE = """
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void cube<T : IReal>([Shape("N")] DiffTensorView<T> x, [Out("N")] DiffTensorView<T> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < x.size(0)) y[i] = x[i] * x[i] * x[i];
}
"""

TOTAL = """
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void total<T : IReal>(
    [Shape("N")] DiffTensorView<T> x, [Shape("N")] DiffTensorView<T> z, [Out("N")] DiffTensorView<T> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < x.size(0)) y[i] = x[i] + z[i];
}
"""

SIZES = [(3, 5), (4, 7), (9, 2), (6, 11)]


def wave(x: Tensor, scale: Tensor) -> Tensor:
    return (torch.ops.slang.sqr(x.sin()) * scale).sum(1)


def wave_in_torch(x: Tensor, scale: Tensor) -> Tensor:
    return (x.sin().square() * scale).sum(1)


def wave_inputs(rows: int, columns: int, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    x = torch.linspace(-2, 2, rows * columns, dtype=torch.float64, device=device).view(rows, columns)
    return x, torch.linspace(1, 2, columns, dtype=torch.float64, device=device)


@pytest.mark.usefixtures("fresh_dynamo")
class TestCompile:
    @pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
    def test_one_graph_serves_four_sizes_forward_and_backward(self, backend: str, device: torch.device) -> None:
        all_inputs = [wave_inputs(*size, device) for size in SIZES]
        counter = check_one_graph_serves(all_inputs, wave, wave_in_torch, backend)
        assert sum(str(node.target).startswith("slang.sqr") for node in counter.graphs[0].graph.nodes) == 1

    def test_shapes_of_a_result_follow_those_of_arguments(self, device: torch.device) -> None:
        """Index, table and 2-D launch: sizes K, F of the result are symbols of two arguments."""
        op = BY_NAME["gather"].op
        counter = CompileCounterWithBackend("aot_eager")
        compiled = torch.compile(lambda table, index: op(table, index).sum(0), backend=counter, dynamic=True)
        for rows, columns, chosen in [(4, 3, 6), (5, 7, 9), (8, 2, 3)]:
            table = torch.randn(rows, columns, dtype=torch.float64, device=device)
            index = torch.randint(rows, (chosen,), device=device)
            torch.testing.assert_close(
                value_and_gradients(lambda t, index=index: compiled(t, index), table),
                value_and_gradients(lambda t, index=index: t[index].square().sum(0), table),
            )
        assert counter.frame_count == 1

    def test_only_wanted_gradients_are_compiled(self, device: torch.device) -> None:
        op = BY_NAME["along"].op
        x, slope, start = (tensor.detach() for tensor in BY_NAME["along"].args(device))
        compiled = torch.compile(op, backend="aot_eager", fullgraph=True)
        slope.requires_grad_()
        compiled(x, slope, start).sum().backward()
        torch.testing.assert_close(slope.grad, x)
        assert start.grad is None

    def test_launch_is_functionalised(self, device: torch.device) -> None:
        launch = kernels("plain").add_scaled_launch

        def function(x: Tensor) -> Tensor:
            y = x.clone()
            launch(y, x, 2.0, [32], [4])
            return y * 10

        x = torch.randn(100, device=device)
        compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(x), x * 30)

    def test_module_callable_is_traced_whole(self, device: torch.device) -> None:
        kernel = kernels("overlaps").stencil
        x = torch.randn(9, dtype=torch.float64, device=device)
        compiled = torch.compile(lambda x: kernel(x) + 1, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(x), BY_NAME["stencil"].reference(x) + 1)

    def test_compiled_autograd_runs_the_backward(self, device: torch.device) -> None:
        counter = CompileCounterWithBackend("aot_eager")
        x, scale = wave_inputs(3, 5, device)
        expected = value_and_gradients(wave_in_torch, x, scale)[1:]
        x.requires_grad_()
        scale.requires_grad_()
        with torch._dynamo.compiled_autograd._enable(torch.compile(backend=counter, fullgraph=True)):
            wave(x, scale).sum().backward()
        torch.testing.assert_close([x.grad, scale.grad], expected)
        assert any("slang_sqr_backward" in node.name for graph in counter.graphs for node in graph.graph.nodes)


class Waves(torch.nn.Module):
    def forward(self, x: Tensor, scale: Tensor) -> Tensor:
        return wave(x, scale)


def test_export_saves_and_loads_with_dynamic_sizes(device: torch.device) -> None:
    rows, columns = torch.export.Dim("rows"), torch.export.Dim("columns")
    shapes = {"x": {0: rows, 1: columns}, "scale": {0: columns}}
    program = torch.export.export(Waves(), wave_inputs(3, 5, device), dynamic_shapes=shapes)
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    loaded = torch.export.load(buffer).module()
    for size in SIZES:
        inputs = wave_inputs(*size, device)
        torch.testing.assert_close(loaded(*inputs), wave_in_torch(*inputs))


def test_script_is_saved_loaded_run_and_differentiated(device: torch.device) -> None:
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(Waves()), buffer)
    buffer.seek(0)
    loaded = torch.jit.load(buffer)
    for size in SIZES:  # several runs: the profiling executor rewrites the graph after the first
        inputs = wave_inputs(*size, device)
        torch.testing.assert_close(value_and_gradients(loaded, *inputs), value_and_gradients(wave_in_torch, *inputs))


def test_symbolic_trace_serves_other_sizes(device: torch.device) -> None:
    traced = make_fx(wave, tracing_mode="symbolic")(*wave_inputs(3, 5, device))
    inputs = wave_inputs(8, 4, device)
    torch.testing.assert_close(traced(*inputs), wave_in_torch(*inputs))


def test_gradients_are_traced_as_the_backward_op(device: torch.device) -> None:
    traced = make_fx(torch.func.grad(lambda x: wave(x, x[0]).sum()))(wave_inputs(3, 5, device)[0])
    targets = [str(node.target) for node in traced.graph.nodes]
    assert targets.count("slang.sqr_backward.default") == 1


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoint_recomputes(use_reentrant: bool, device: torch.device) -> None:
    x, scale = wave_inputs(3, 5, device)
    expected = value_and_gradients(wave_in_torch, x, scale)[1:]
    x.requires_grad_()
    scale.requires_grad_()
    checkpoint(wave, x, scale, use_reentrant=use_reentrant).sum().backward()
    torch.testing.assert_close([x.grad, scale.grad], expected)


def test_checkpoints_agree_on_what_is_saved_before_and_after_the_first_backward(device: torch.device) -> None:
    """The last block's backward compiles the kernel, which shows what it needs; the first is recomputed after that."""
    total = torch_slang.load(
        source=TOTAL, name=f"total_{device.type}", namespace=f"test_checkpoint_{device.type}"
    ).total
    x = torch.ones(5, dtype=torch.float64, device=device, requires_grad=True)
    y = x
    for _ in range(2):
        y = checkpoint(lambda y: total(y, y.sin()).exp(), y, use_reentrant=False)
    y.sum().backward()
    assert x.grad.isfinite().all()


class TestFunctionTransforms:
    def test_grad(self, device: torch.device) -> None:
        inputs = wave_inputs(3, 5, device)
        both = (0, 1)
        actual = torch.func.grad(lambda *v: wave(*v).sum(), argnums=both)(*inputs)
        torch.testing.assert_close(actual, torch.func.grad(lambda *v: wave_in_torch(*v).sum(), argnums=both)(*inputs))

    def test_vjp(self, device: torch.device) -> None:
        radius, angle = (tensor.detach() for tensor in BY_NAME["polar"].args(device))
        grads = torch.ones_like(radius), torch.full_like(radius, 2)
        results, vjp = torch.func.vjp(BY_NAME["polar"].op, radius, angle)
        expected, expected_vjp = torch.func.vjp(BY_NAME["polar"].reference, radius, angle)
        torch.testing.assert_close(results, expected)
        torch.testing.assert_close(vjp(grads), expected_vjp(grads))

    def test_jacrev(self, device: torch.device) -> None:
        x = torch.randn(7, dtype=torch.float64, device=device)
        expected = torch.func.jacrev(BY_NAME["stencil"].reference)(x)
        torch.testing.assert_close(torch.func.jacrev(BY_NAME["stencil"].op)(x), expected)

    @pytest.mark.parametrize(
        ("shapes", "in_dims"),
        [(((2, 4, 3), (2, 4, 3)), (0, 0)), (((4, 2, 3), (4, 3)), (1, None)), (((4, 3), (2, 4, 3)), (None, 0))],
    )
    def test_vmap(
        self, shapes: tuple[tuple[int, ...], ...], in_dims: tuple[int | None, ...], device: torch.device
    ) -> None:
        a, b = (torch.randn(shape, dtype=torch.float64, device=device) for shape in shapes)
        case = BY_NAME["twist"]
        actual = torch.vmap(case.op, in_dims=in_dims)(a, b)
        torch.testing.assert_close(actual, torch.vmap(case.reference, in_dims=in_dims)(a, b))

    def test_gradients_for_each_sample(self, device: torch.device) -> None:
        x = torch.randn(3, 6, dtype=torch.float64, device=device)
        actual = torch.vmap(torch.func.grad(lambda row: BY_NAME["stencil"].op(row).sum()))(x)
        expected = torch.vmap(torch.func.grad(lambda row: BY_NAME["stencil"].reference(row).sum()))(x)
        torch.testing.assert_close(actual, expected)

    def test_forward_mode(self, device: torch.device) -> None:
        x = torch.randn(4, device=device)
        torch.testing.assert_close(torch.func.jvp(torch.ops.slang.sqr, (x,), (torch.ones_like(x),)), (x * x, 2 * x))
        with torch.autograd.forward_ad.dual_level():
            result = torch.ops.slang.sqr(torch.autograd.forward_ad.make_dual(x, torch.ones_like(x)))
            torch.testing.assert_close(torch.autograd.forward_ad.unpack_dual(result).tangent, 2 * x)

    def test_a_launch_takes_no_tangents(self, device: torch.device) -> None:
        x = torch.randn(4, device=device)
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
            with pytest.raises(NotImplementedError, match=r"a launch op is not differentiable.*slang::sqr_fwd"):
                torch.ops.slang.sqr_launch(dual, torch.empty_like(x), [4], [1])


def in_threads(count: int, function: Callable[[int], None]) -> None:
    """Runs function(0), function(1), ... at once; raises what one of them raises."""
    start = threading.Barrier(count)
    errors: list[BaseException] = []

    def work(index: int) -> None:
        try:
            start.wait()
            function(index)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_threads_share_one_first_compile(device: torch.device) -> None:
    """Nobody has run this kernel: all threads ask for it at once, and each compiler starts once."""
    cube = torch_slang.load(source=CUBE, name=f"cube_{device.type}", namespace=f"test_threads_{device.type}").cube
    run_of = "host_runs" if device.type == "cpu" else "nvrtc_runs"
    before = torch_slang.cache.stats()
    results: dict[int, list[Tensor]] = {}

    def work(index: int) -> None:
        x = torch.full((50,), float(index), dtype=torch.float64, device=device)
        results[index] = value_and_gradients(cube, x)

    in_threads(6, work)
    after = torch_slang.cache.stats()
    for index, (value, grad) in results.items():
        assert value.unique().tolist() == [index**3]
        assert grad.unique().tolist() == [3 * index**2]
    assert len(results) == 6
    assert after[run_of] - before[run_of] <= 2  # forward and backward


def test_one_graph_is_differentiated_by_several_threads(device: torch.device) -> None:
    x = torch.randn(50, dtype=torch.float64, device=device, requires_grad=True)
    y = torch.ops.slang.sqr(x)
    grads: dict[int, Tensor] = {}

    def work(index: int) -> None:
        (grads[index],) = torch.autograd.grad(y, x, torch.full_like(y, index), retain_graph=True)

    in_threads(4, work)
    for index, grad in grads.items():
        torch.testing.assert_close(grad, 2 * index * x.detach())
    assert len(grads) == 4
