"""Functions where memory is shared, sizes are unknown and modes are on: what a review of their run-time found."""

import functools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch._dynamo.config

import torch_slang

SOURCE = """
[Differentiable] float product(float x, float y) { return x * y; }
float weighed_square(float3 x, float y) { return dot(x, x) * y; }
[Differentiable] void both(float x, float y, out float a, out float b) { a = x * y; b = x + y; }
"""


@functools.cache
def functions() -> torch_slang.Module:
    return torch_slang.load(source=SOURCE, name="function_review.slang", namespace="function_review")


def test_a_result_in_an_arguments_memory_is_read_before_it_is_written(device: torch.device) -> None:
    x, y = torch.rand(3, 3, device=device), torch.rand(3, 3, device=device)
    expected = (x * x).sum(-1) * y
    functions().weighed_square(x, y, _result=x)  # an element of x is a whole row, one of the result is not
    torch.testing.assert_close(x, expected)


@pytest.mark.parametrize("shift", [0, 1])
def test_results_must_not_share_memory(shift: int, device: torch.device) -> None:
    memory = torch.zeros(5, device=device)
    a, b = memory[:4], memory[shift : 4 + shift]
    with pytest.raises(RuntimeError, match=r"both_out: expected a and b to be tensors apart, but they share memory"):
        functions().both(torch.ones(4, device=device), 2.0, _result=(a, b))
    assert memory.tolist() == [0, 0, 0, 0, 0]
    every_other = torch.zeros(8, device=device)[::2]
    with pytest.raises(RuntimeError, match="a and b"):
        functions().both(torch.ones(4, device=device), 2.0, _result=(every_other, every_other[:]))


@pytest.mark.parametrize("compiled", [False, True])
def test_one_tensor_for_two_results_is_refused_beside_a_graph_too(compiled: bool) -> None:
    both = functions().both

    def call(x: torch.Tensor, result: torch.Tensor) -> None:
        both(x, 2.0, _result=(result, result))

    traced = torch.compile(call, backend="aot_eager", fullgraph=True) if compiled else call
    with pytest.raises(RuntimeError, match="a and b to be tensors apart"):
        traced(torch.ones(4, requires_grad=True), torch.zeros(4))


def test_results_may_lie_between_each_other(device: torch.device) -> None:
    memory = torch.zeros(4, 2, device=device)
    x = torch.arange(4.0, device=device)
    functions().both(x, 3.0, _result=(memory[:, 0], memory[:, 1]))
    torch.testing.assert_close(memory, torch.stack([3 * x, x + 3], -1))


def test_an_expanded_result_is_refused_by_name(device: torch.device) -> None:
    with pytest.raises(RuntimeError, match=r"product_out: expected result to have memory of its own.*strides \[0\]"):
        functions().product(torch.ones(3, device=device), 2.0, _result=torch.empty(1, device=device).expand(3))


def test_a_result_given_as_a_lazy_clone_leaves_the_original_alone(device: torch.device) -> None:
    original = torch.full((4,), 5.0, device=device)
    clone = torch._lazy_clone(original)
    functions().product(torch.ones(4, device=device), 2.0, _result=clone)
    assert clone.tolist() == [2, 2, 2, 2]
    assert original.tolist() == [5, 5, 5, 5]


@pytest.fixture
def unknown_sizes() -> Iterator[None]:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        yield


@pytest.mark.usefixtures("unknown_sizes")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_sizes_that_a_trace_does_not_know(backend: str) -> None:
    product = functions().product

    def of_positive(x: torch.Tensor) -> torch.Tensor:
        chosen = x[x > 0]
        return product(product(chosen, 2.0), chosen[None] + 1)

    compiled = torch.compile(of_positive, backend=backend, fullgraph=True)
    for count in (3, 8):
        x = torch.randn(count)
        torch.testing.assert_close(compiled(x), of_positive(x))


@pytest.mark.usefixtures("unknown_sizes")
def test_unknown_sizes_are_checked_as_the_trace_runs() -> None:
    product = functions().product

    def of_positive(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = product(x[x > 0], y[y > 0])
        return result

    mixed = torch.compile(of_positive, backend="aot_eager", fullgraph=True)
    assert mixed(torch.ones(3), torch.full((3,), 2.0)).tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError):
        mixed(torch.ones(3), torch.ones(2))


WRITES = """
import torch_slang;
[Differentiable] float product(float x, float y) { return x * y; }
int whole(float x) { return int(x); }
struct Parts { int whole; float rest; }
Parts parts(float x) { return { int(x), frac(x) }; }
[PyBindCUDA(Auto)] [CudaKernel]
void copied([Shape("N")] [In] TensorView<float> x, [Out("N")] TensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < x.size(0)) y[i] = x[i];
}
"""


@pytest.fixture(scope="module")
def writes() -> Any:
    return torch_slang.load(source=WRITES, name="review_writes", namespace="review_writes")


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("name", ["product", "copied"])
def test_what_is_written_has_a_new_version_in_inference_mode_too(writes: Any, name: str, inference: bool) -> None:
    w, x = torch.randn(4), torch.randn(4, requires_grad=True)
    y, version = x * w, w._version
    with torch.inference_mode(inference):
        if name == "product":
            writes.product(torch.ones(4), 2.0, _result=w)
        else:
            writes.copied_launch(torch.ones(4), w, block_size=4, grid_size=1)
    assert w._version == version + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_negated_views_are_read_and_not_written(writes: Any) -> None:
    negated, result = torch.ones(4)._neg_view(), torch.empty(4)
    writes.product(negated, 3.0, _result=result)
    assert result.tolist() == [-3.0] * 4
    writes.copied_launch(negated, result, block_size=4, grid_size=1)
    assert result.tolist() == [-1.0] * 4
    with pytest.raises(RuntimeError, match="expected result, which may be written, to be no negated view"):
        writes.product(torch.ones(4), 3.0, _result=torch.empty(4)._neg_view())
    with pytest.raises(RuntimeError, match="expected y, which may be written, to be no negated view"):
        writes.copied_launch(torch.ones(4), torch.empty(4)._neg_view(), block_size=4, grid_size=1)


def test_integer_results_of_what_has_no_derivative(writes: Any) -> None:
    x = torch.tensor([1.5, -2.25], requires_grad=True)
    assert writes.whole(x).tolist() == [1, -2]
    result = writes.parts(x)
    assert result.whole.tolist() == [1, -2]
    with pytest.raises(RuntimeError, match="it has no derivative"):
        result.rest.sum().backward()


CONSTANTS = """
struct Plain { float gain; no_diff float fixed; int steps; }
struct Declared : IDifferentiable { float gain; no_diff float fixed; }
struct Holder : IDifferentiable { float scale; Plain plain; no_diff Plain constant; }
struct Lens { float focus; [Differentiable] float bend(float x) { return focus * x; } }

[Differentiable] float lost(Plain plain, float x) { return plain.gain * plain.fixed * x; }
[Differentiable] float nested(Holder holder, float x) { return holder.plain.gain * holder.constant.gain * x; }
[Differentiable] float listed(Plain plains[2], float x) { return plains[0].gain * plains[1].gain * x; }
[Differentiable] float constant(no_diff Plain plain, float x) { return plain.gain * x; }
[Differentiable] float declared(Declared plain, float x) { return plain.gain * plain.fixed * x; }
[Differentiable] float of_nothing(Plain plain) { return plain.gain; }
[Differentiable] float counted<N : __BuiltinArithmeticType>(N count, float x) { return x * x; }
float without_derivative(Plain plain, float x) { return plain.gain * x; }
"""


@pytest.fixture(scope="module")
def constants() -> Any:
    return torch_slang.load(source=CONSTANTS, name="review_constants", namespace="review_constants")


def plain(wanted: str = "", **others: Any) -> dict[str, Any]:
    """A struct of numbers, one of which is a tensor that requires grad."""
    return {"gain": 2.0, "fixed": 3.0, **others, **({wanted: torch.tensor(2.0, requires_grad=True)} if wanted else {})}


LOST = {"a type parameter": (lambda m, x: m.counted(x, 2.0), r"counted: .* count .*the type parameter N")}
FOUND = {  # structs that nobody declares
    "a parameter": (lambda m, g, x: m.lost({"gain": g, "fixed": 3.0, "steps": 1}, x), lambda g, x: 3 * g * x),
    "a field": (
        lambda m, g, x: m.nested(
            {"scale": 1.0, "plain": {"gain": g, "fixed": 3.0, "steps": 1}, "constant": plain(steps=1)}, x
        ),
        lambda g, x: 2 * g * x,
    ),
    "an array": (
        lambda m, g, x: m.listed([plain(steps=1), {"gain": g, "fixed": 3.0, "steps": 1}], x),
        lambda g, x: 2 * g * x,
    ),
    "this": (lambda m, g, x: m.Lens_bend({"focus": g}, x), lambda g, x: g * x),
    "alone": (lambda m, g, x: m.of_nothing({"gain": g, "fixed": 3.0, "steps": 1}), lambda g, x: g + 0 * x),
}


@pytest.mark.parametrize("case", LOST)
def test_a_gradient_that_would_be_lost_is_refused(constants: Any, case: str) -> None:
    call, message = LOST[case]
    x = torch.randn(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=rf"{message}.* is not IDifferentiable, but got a tensor that requires grad"):
        call(constants, x)
    with torch.no_grad():
        call(constants, x)


@pytest.mark.parametrize("case", FOUND)
def test_structs_that_nobody_declares_have_gradients(constants: Any, case: str) -> None:
    call, reference = FOUND[case]
    gain, x = torch.tensor(2.0, requires_grad=True), torch.randn(3, requires_grad=True)
    ours, theirs = (
        torch.autograd.grad(r.sum(), (gain, x), allow_unused=True, materialize_grads=True)
        for r in (call(constants, gain, x), reference(gain, x))
    )
    if case == "alone":
        theirs = (torch.tensor(1.0), theirs[1])
    torch.testing.assert_close(ours, theirs)


def test_a_gradient_that_would_be_lost_is_refused_in_a_trace(constants: Any) -> None:
    compiled = torch.compile(constants.counted, backend="aot_eager", fullgraph=True)
    with pytest.raises(Exception, match="the type parameter N is not IDifferentiable"):
        compiled(torch.ones(3, requires_grad=True), torch.ones(3))


def test_constants_by_declaration_take_tensors_that_require_grad(constants: Any) -> None:
    x = torch.randn(3, requires_grad=True)
    wanted = [torch.tensor(value, requires_grad=True) for value in (2.0, 3.0)]
    gain, fixed = wanted
    results = [
        (constants.constant({"gain": gain, "fixed": fixed, "steps": 1}, x), [2, None, None]),
        (constants.declared({"gain": gain, "fixed": fixed}, x), [6, 3 * x.sum(), None]),
        (constants.lost({"gain": 2.0, "fixed": fixed, "steps": 1}, x), [6, None, None]),
        (
            constants.nested({"scale": 1.0, "plain": plain(steps=1), "constant": plain("gain", steps=1)}, x),
            [4, None, None],
        ),
    ]
    for result, (of_x, *others) in results:
        grads = torch.autograd.grad(result.sum(), [x, *wanted], allow_unused=True)
        torch.testing.assert_close(grads[0], torch.full_like(x, of_x))
        for grad, other in zip(grads[1:], others, strict=True):
            assert (grad is None) == (other is None)
            if other is not None:
                torch.testing.assert_close(grad, other)


def test_functions_that_have_no_derivative_at_all_say_what_it_takes(constants: Any) -> None:
    for result in (constants.without_derivative(plain("gain", steps=1), torch.ones(3)),):
        with pytest.raises(RuntimeError, match=r"it has no derivative: .*in structs that are IDifferentiable"):
            result.sum().backward()
