"""Gradients that a plain launch is given, which kernels without a derivative of their own work on by themselves."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from cases import FOLDER, kernels
from long_tests import some_tests

import torch_slang
import torch_slang.slangtorch as slangtorch

pytestmark = some_tests(20)

Tensor = torch.Tensor
VIEWS = ["plain", "aa", "r", "asr"]
BLOCK, GRID = (64, 1, 1), (2, 1, 1)
LAUNCH = {"block_size": BLOCK, "grid_size": GRID}
COUNT = 70  # threads, in two blocks; elements are half as many


@pytest.fixture
def program() -> Any:
    return slangtorch.loadModule(str(FOLDER / "launch_gradients.slang"))


@pytest.fixture
def operators() -> Any:
    return kernels("launch_gradients")


def numbers(count: int, device: torch.device, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.linspace(-1.5, 2, count, device=device).to(dtype)


def squares(x: Tensor, seed: Tensor) -> Tensor:
    """The gradient of sum(seed * x[i / 2] ** 2), in float64."""
    leaf = x.double().requires_grad_()
    return torch.autograd.grad((seed.double() * leaf.repeat_interleave(2) ** 2).sum(), leaf)[0].to(x.dtype)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("way", ["through", "by_hand"])
class TestGradientsAreAddedTo:
    def test_by_a_launch_of_the_drop_in(self, way: str, view: str, program: Any, device: torch.device) -> None:
        x, seed = numbers(COUNT // 2, device), numbers(COUNT, device)
        gradient = torch.ones_like(x)
        getattr(program, f"{way}_{view}")(x=(x, gradient), seed=seed).launchRaw(blockSize=BLOCK, gridSize=GRID)
        torch.testing.assert_close(gradient, 1 + squares(x, seed))

    def test_by_a_launch_operator(self, way: str, view: str, operators: Any, device: torch.device) -> None:
        x, seed = numbers(COUNT // 2, device), numbers(COUNT, device)
        launch = getattr(operators, f"{way}_{view}_launch")
        gradient = torch.ones_like(x)
        launch(x, seed, BLOCK, GRID, grad_x=gradient)
        torch.testing.assert_close(gradient, 1 + squares(x, seed))
        launch((x, gradient), seed, launchBlockSize=BLOCK, launchGridSize=GRID)
        torch.testing.assert_close(gradient, 1 + 2 * squares(x, seed))

    def test_or_there_is_none(self, way: str, view: str, operators: Any, device: torch.device) -> None:
        x, seed = numbers(COUNT // 2, device), numbers(COUNT, device)
        before = x.clone()
        getattr(operators, f"{way}_{view}_launch")(x, seed, BLOCK, GRID)
        assert x.equal(before)


@pytest.mark.parametrize("view", VIEWS)
def test_what_a_kernel_reads_of_a_gradient_is_what_it_was_given(
    view: str, operators: Any, device: torch.device
) -> None:
    x, seed = numbers(COUNT // 2, device), numbers(COUNT, device)
    gradient = torch.ones_like(x)
    getattr(operators, f"mixed_{view}_launch")(x, seed, **LAUNCH, grad_x=gradient)
    torch.testing.assert_close(gradient, 10 + squares(x, seed))


@pytest.mark.parametrize("view", VIEWS)
def test_the_gradient_of_what_is_stored_is_taken(view: str, operators: Any, device: torch.device) -> None:
    y, result = torch.zeros(COUNT, device=device), torch.zeros(COUNT, device=device)
    given = numbers(COUNT, device)
    left = given.clone()
    getattr(operators, f"taken_{view}_launch")(y, result, **LAUNCH, grad_y=left)
    torch.testing.assert_close(result, 3 * given)
    assert not left.any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_gradients_are_of_the_dtype_of_the_data(dtype: torch.dtype, operators: Any, device: torch.device) -> None:
    x, y = numbers(COUNT, device, dtype), numbers(COUNT, device, dtype).flip(0)
    grad_x, grad_y = torch.ones_like(x), torch.ones_like(y)
    operators.products_launch((x, grad_x), (y, grad_y), **LAUNCH)
    torch.testing.assert_close(grad_x, 1 + 2 * y)
    torch.testing.assert_close(grad_y, 1 + 2 * x)


def test_the_drop_in_takes_gradients_in_float32_for_doubles_too(program: Any, device: torch.device) -> None:
    x = numbers(COUNT, device, torch.float64)
    gradient = torch.ones(COUNT, device=device)
    program.products(x=(x, gradient), y=(x.flip(0),)).launchRaw(blockSize=BLOCK, gridSize=GRID)
    torch.testing.assert_close(gradient, 1 + 2 * x.flip(0).float())


def test_gradients_stand_in_structs_too(program: Any, operators: Any, device: torch.device) -> None:
    x, weights, bias = numbers(COUNT, device), numbers(COUNT, device), torch.ones(1, device=device)
    grad_weights, grad_bias = torch.zeros_like(weights), torch.zeros_like(bias)
    layer = program.Layer(weights=(weights, grad_weights), bias=(bias, grad_bias))
    program.layers(layer=layer, x=x).launchRaw(blockSize=BLOCK, gridSize=GRID)
    torch.testing.assert_close(grad_weights, x)
    torch.testing.assert_close(grad_bias, torch.full_like(bias, COUNT))
    operators.layers_launch({"weights": weights, "bias": bias}, x, **LAUNCH, grad_layer_bias=grad_bias)
    torch.testing.assert_close(grad_weights, x)
    torch.testing.assert_close(grad_bias, torch.full_like(bias, 2 * COUNT))


def test_threads_that_meet_add_to_gradients(operators: Any, device: torch.device) -> None:
    x, seed = torch.full((1,), 0.5, device=device), numbers(COUNT, device)
    gradient = torch.ones_like(x)
    operators.block_sums_launch((x, gradient), seed, **LAUNCH)
    torch.testing.assert_close(gradient, 1 + 2 * x * seed.sum())


def test_a_plain_call_of_a_differentiable_kernel_leaves_gradients_as_they_are(
    program: Any, device: torch.device
) -> None:
    x, y = numbers(COUNT, device), torch.zeros(COUNT, device=device)
    grad_x, grad_y = torch.ones_like(x), torch.ones_like(y)
    program.forward(x=(x, grad_x), y=(y, grad_y), scale=2.0).launchRaw(blockSize=BLOCK, gridSize=GRID)
    torch.testing.assert_close(y, 2 * x * x)
    assert bool((grad_x == 1).all())
    assert bool((grad_y == 1).all())


VECTORS = """
[Differentiable] float square(DiffTensorView<float3> x, uint i) { return dot(x[i], x[i]); }
[PyBindCUDA(Auto)] [CudaKernel] void by_hand(DiffTensorView<float3> x, TensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= y.size(0)) return;
    ACCESS
}
[PyBindCUDA(Auto)] [CudaKernel] void by_slang(DiffTensorView<float3> x, TensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < y.size(0)) bwd_diff(square)(x, i, 1.0f);
}
"""


class TestMemory:
    def test_of_gradients_may_have_any_strides(self, operators: Any, device: torch.device) -> None:
        x, seed = numbers(COUNT // 2, device), numbers(COUNT, device)
        for view in VIEWS:
            gradient = torch.ones(COUNT, device=device)[::2]
            getattr(operators, f"through_{view}_launch")(x, seed, **LAUNCH, grad_x=gradient)
            torch.testing.assert_close(gradient, 1 + squares(x, seed))

    def test_of_two_gradients_may_be_one(self, operators: Any, device: torch.device) -> None:
        x, y = numbers(COUNT, device), numbers(COUNT, device).flip(0)
        both = torch.ones_like(x)
        operators.products_launch((x, both), (y, both), **LAUNCH)
        torch.testing.assert_close(both, 1 + 2 * (x + y))

    def test_of_a_gradient_may_overlap_that_of_values(self, operators: Any, device: torch.device) -> None:
        memory = numbers(COUNT, device)
        x, gradient, before = memory[: COUNT // 2], memory[COUNT // 2 :], memory.clone()
        operators.through_plain_launch((x, gradient), torch.ones(COUNT, device=device), **LAUNCH)
        torch.testing.assert_close(gradient, before[COUNT // 2 :] + 4 * before[: COUNT // 2])

    def test_is_declared_as_written(self, operators: Any, device: torch.device) -> None:
        x, seed = numbers(COUNT // 2, device), numbers(COUNT, device)
        schema = str(operators.through_plain_launch.op._schema)
        assert schema.endswith("int[] block_size, int[] grid_size, *, Tensor(a2!)? grad_x=None) -> ()")
        gradient = torch.ones_like(x)
        version = gradient._version
        operators.through_plain_launch((x, gradient), seed, **LAUNCH)
        assert gradient._version == version + 1


@pytest.mark.usefixtures("operators")
def test_torch_compile_sees_what_is_written(device: torch.device, fresh_dynamo: None) -> None:
    def step(x: Tensor, seed: Tensor) -> Tensor:
        gradient = torch.ones_like(x)
        torch.ops.test_launch_gradients.through_r_launch(x, seed, [64], [2], grad_x=gradient)
        return gradient * 2

    x, seed = numbers(COUNT // 2, device), numbers(COUNT, device)
    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, seed), 2 + 2 * squares(x, seed))


def test_meta_tensors_are_checked(operators: Any) -> None:
    x, seed = torch.empty(5, device="meta"), torch.empty(10, device="meta")
    assert operators.through_plain_launch((x, torch.empty_like(x)), seed, **LAUNCH) is None
    with pytest.raises(RuntimeError, match=r"expected grad_x to have the shape of x \[5\], but got \[4\]"):
        operators.through_plain_launch((x, torch.empty(4, device="meta")), seed, **LAUNCH)


class TestRefusals:
    @pytest.mark.parametrize(
        ("gradient", "message"),
        [
            (
                lambda x: torch.zeros(3, device=x.device),
                r"expected grad_x to have the shape of x \[35\], but got \[3\]",
            ),
            (lambda x: x.double(), "expected grad_x to have dtype float32"),
            (lambda x: x.to("meta"), "and grad_x is on meta"),
            (lambda x: torch.zeros(1, device=x.device).expand(35), "expected the elements of grad_x to have memory of"),
            (lambda x: x.clone().requires_grad_(), "grad_x requires grad, but a launch op is not differentiable"),
        ],
    )
    def test_name_the_operator_and_the_gradient(
        self, gradient: Any, message: str, operators: Any, device: torch.device
    ) -> None:
        x, seed = numbers(COUNT // 2, device), numbers(COUNT, device)
        with pytest.raises(RuntimeError, match=rf"^test_launch_gradients::through_plain_launch: .*{message}"):
            operators.through_plain_launch(x, seed, **LAUNCH, grad_x=gradient(x))

    @pytest.mark.parametrize("gradient", [5, [1.0], "grad"])
    def test_of_the_drop_in_name_what_is_no_tensor(self, gradient: Any, program: Any, device: torch.device) -> None:
        x = numbers(COUNT, device)
        with pytest.raises(slangtorch.ArgumentError, match=r"expected the gradient of x .* to be a tensor, but got"):
            program.through_plain(x=(x, gradient), seed=x)

    def test_of_the_drop_in_name_shape_and_dtype(self, program: Any, device: torch.device) -> None:
        x, seed = numbers(COUNT // 2, device), numbers(COUNT, device)
        for gradient, message in ((x[1:], r"the shape of x \[35\]"), (x.int(), "dtype float32"), (x.double(), "dtype")):
            with pytest.raises(RuntimeError, match=rf"through_plain_launch: expected grad_x to have {message}"):
                program.through_plain(x=(x, gradient), seed=seed).launchRaw(blockSize=BLOCK, gridSize=GRID)

    def test_a_value_has_no_gradient_in_a_plain_launch(self, operators: Any, device: torch.device) -> None:
        x, scale = numbers(COUNT, device), torch.ones((), device=device)
        with pytest.raises(TypeError, match=r"forward_launch.*scale \(float\) is given a gradient"):
            operators.forward_launch(x, x.clone(), (scale, torch.zeros_like(scale)), **LAUNCH)

    def test_name_an_index_outside_of_a_gradient(self, operators: Any) -> None:
        x = numbers(COUNT, torch.device("cpu"))
        with pytest.raises(IndexError, match=r"careless_launch: gradient of x\[70\]: index 70 is outside .*slang:104"):
            operators.careless_launch((x, torch.zeros_like(x)), **LAUNCH)

    def test_name_numbers_of_another_type(self, operators: Any, device: torch.device) -> None:
        x = numbers(COUNT, device, torch.float64)
        with pytest.raises(RuntimeError, match="the gradient of x holds float64 numbers"):
            operators.retyped_launch((x, torch.zeros_like(x)), **LAUNCH)

    @pytest.mark.parametrize(
        "access",
        [
            "y[i] = x.diff.diff[i];",
            "x.diff.diff[i] = y[i];",
            "x.diff.diff.store(i, y[i]);",
            "float before; x.diff.diff.InterlockedAdd(i, y[i], before);",
        ],
    )
    def test_name_elements_of_which_one_number_would_be_taken(self, access: str, device: torch.device) -> None:
        source = VECTORS.replace("ACCESS", access)
        module = torch_slang.load(source=source, namespace=f"test_launch_gradients_vectors{abs(hash(access))}")
        x, y = numbers(3 * COUNT, device).view(COUNT, 3), numbers(COUNT, device)
        with pytest.raises(RuntimeError, match="the gradient of x holds elements of 3 float32 numbers"):
            module.by_hand_launch((x, torch.zeros_like(x)), y, **LAUNCH)
        gradient = torch.zeros_like(x)
        module.by_slang_launch((x, gradient), y, **LAUNCH)
        torch.testing.assert_close(gradient, 2 * x)


class TestDeterministicMode:
    @pytest.fixture(autouse=True)
    def mode(self) -> Any:
        torch.use_deterministic_algorithms(True)
        yield
        torch.use_deterministic_algorithms(False)

    @pytest.mark.parametrize("kernel", ["through_plain", "by_hand_plain", "through_r", "by_hand_r", "by_hand_asr"])
    def test_refuses_additions_in_no_order(self, kernel: str, operators: Any, device: torch.device) -> None:
        x, seed = numbers(COUNT // 2, device), numbers(COUNT, device)
        with pytest.raises(RuntimeError, match=f"{kernel}_launch does not have a deterministic implementation"):
            getattr(operators, f"{kernel}_launch")((x, torch.zeros_like(x)), seed, **LAUNCH)

    def test_takes_records(self, operators: Any, device: torch.device) -> None:
        x, seed = numbers(COUNT // 2, device), numbers(COUNT, device)
        gradient = torch.ones_like(x)
        operators.through_asr_launch((x, gradient), seed, **LAUNCH)
        torch.testing.assert_close(gradient, 1 + squares(x, seed))

    def test_takes_launches_without_gradients(self, operators: Any, device: torch.device) -> None:
        x, seed = numbers(COUNT // 2, device), numbers(COUNT, device)
        operators.through_plain_launch(x, seed, **LAUNCH)


def test_a_launch_in_debug_mode_is_the_same(device: torch.device) -> None:
    module = torch_slang.load(FOLDER / "launch_gradients.slang", namespace="launch_gradients_debug", debug=True)
    x, seed = numbers(COUNT // 2, device), numbers(COUNT, device)
    for view in VIEWS:
        gradient = torch.ones_like(x)
        getattr(module, f"through_{view}_launch")((x, gradient), seed, **LAUNCH)
        torch.testing.assert_close(gradient, 1 + squares(x, seed))
