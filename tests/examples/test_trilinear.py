"""torch.ops.slang.trilinear and its module, against the formula in plain PyTorch and against grid_sample."""

import io
from collections.abc import Callable

import pytest
import torch
from devices import needs_cuda
from long_tests import dear_test, leave_to_long_tests_on_a_cpu, long_test, some_cases, some_tests
from torch._dynamo.testing import CompileCounterWithBackend

import torch_slang
from torch_slang import testing
from torch_slang.nn import TrilinearInterpolation

pytestmark = some_tests(4)

Tensor = torch.Tensor
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
SIZES = [(1, 1), (5, 3), (8, 32), (37, 33), (3, 256), (70, 100)]
# Halves are computed in float and rounded once, by half of a last place.
ROUNDING = {torch.float64: 1e-13, torch.float32: 2e-6, torch.float16: 2**-11, torch.bfloat16: 2**-8}
trilinear = torch.ops.slang.trilinear


def formula(feats: Tensor, points: Tensor) -> Tensor:
    """A line for each half of the cube."""
    u, v, w = ((points + 1) / 2).unsqueeze(-1).unbind(1)
    a, b, c, d = (1 - v) * (1 - w), v * (1 - w), (1 - v) * w, v * w
    near = a * feats[:, 0] + b * feats[:, 1] + c * feats[:, 2] + d * feats[:, 3]
    far = a * feats[:, 4] + b * feats[:, 5] + c * feats[:, 6] + d * feats[:, 7]
    return (1 - u) * near + u * far


def sampled(feats: Tensor, points: Tensor) -> Tensor:
    """PyTorch's own, on volumes of 2 x 2 x 2: u is their depth, w their height, v their width."""
    rows, _, width = feats.shape
    volumes = feats.transpose(1, 2).reshape(rows, width, 2, 2, 2)
    grid = points[:, [1, 2, 0]].view(rows, 1, 1, 1, 3)  # grid_sample wants width, height, depth
    return torch.nn.functional.grid_sample(volumes, grid, align_corners=True).view(rows, width)


def inputs(
    rows: int, width: int, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(rows + 1000 * width)
    feats = torch.randn(rows, 8, width, dtype=torch.float64, generator=generator)
    points = torch.rand(rows, 3, dtype=torch.float64, generator=generator) * 2 - 1
    return feats.to(device, dtype).requires_grad_(), points.to(device, dtype).requires_grad_()


def outcome(function: Callable[..., Tensor], feats: Tensor, points: Tensor, grad: Tensor) -> list[Tensor]:
    """The result and the gradients of both inputs."""
    result = function(feats, points)
    return [result, *torch.autograd.grad(result, (feats, points), grad)]


def assert_as_the_formula(
    feats: Tensor, points: Tensor, grad: Tensor, reference: Callable[..., Tensor] = formula
) -> None:
    ours = outcome(trilinear, feats, points, grad)
    right = outcome(reference, *(t.detach().double().requires_grad_() for t in (feats, points)), grad.double())
    # The gradient of a point is a sum over its row. In half types each summand is rounded before it is added.
    roundings = (1, 1, 3 if feats.dtype in {torch.float16, torch.bfloat16} else 1)
    for one, other, count in zip(ours, right, roundings, strict=True):
        assert one.dtype == feats.dtype
        rounding = count * ROUNDING[feats.dtype]
        torch.testing.assert_close(
            one.double(), other, rtol=rounding, atol=rounding * float(other.detach().abs().amax())
        )


@pytest.mark.parametrize("k", range(8))
def test_a_corner_of_the_cube_has_the_features_of_that_corner(k: int, device: torch.device) -> None:
    feats, _ = inputs(2, 5, device=device)
    u, v, w = k // 4, k % 2, (k // 2) % 2
    corner = torch.tensor([[u, v, w]] * 2, dtype=torch.float64, device=device) * 2 - 1
    torch.testing.assert_close(trilinear(feats, corner), feats[:, k], rtol=0, atol=0)


@some_cases(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "width"), SIZES)
def test_values_and_gradients_are_those_of_the_formula(
    rows: int, width: int, dtype: torch.dtype, device: torch.device
) -> None:
    if (SIZES.index((rows, width)) + DTYPES.index(dtype)) % 2:  # types take turns with sizes
        leave_to_long_tests_on_a_cpu(device)
    feats, points = inputs(rows, width, dtype, device)
    assert_as_the_formula(feats, points, torch.randn(rows, width, dtype=dtype, device=device))


@pytest.mark.parametrize(("rows", "width"), [(1, 1), (7, 33)])
def test_values_and_gradients_are_those_of_grid_sample(rows: int, width: int, device: torch.device) -> None:
    feats, points = inputs(rows, width, device=device)
    assert_as_the_formula(feats, points, torch.randn_like(feats[:, 0]), reference=sampled)


def test_points_outside_the_cube_extrapolate(device: torch.device) -> None:
    feats, points = inputs(9, 7, device=device)
    outside = (points.detach() * 5).requires_grad_()
    assert (outside.abs() > 1).any()
    assert_as_the_formula(feats, outside, torch.randn_like(feats[:, 0]))


# One shape is enough: sizes are told apart by the tests of values.
@dear_test
@pytest.mark.parametrize(("rows", "width"), [(2, 33), pytest.param(3, 4, marks=long_test)])
def test_it_behaves_as_an_operator_should(rows: int, width: int, device: torch.device) -> None:
    """Strides, expanded gradients, frozen inputs, empty tensors, Meta, gradcheck, opcheck."""
    testing.check(trilinear, inputs(rows, width, device=device), reference=formula, nondet_tol=1e-12, order=1)


def test_second_derivatives_and_forward_mode_are_the_formulas(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_SLANG_CXXFLAGS", "-O0")
    given = inputs(2, 3, device=device)
    weights = [torch.randn_like(t) for t in given]
    seconds, tangents = [], []
    for function in (trilinear, formula):
        tangents.append(torch.func.jvp(function, tuple(given), tuple(weights))[1])
        gradients = torch.autograd.grad(function(*given).sin().sum(), given, create_graph=True)
        total = sum((g * w).sum() for g, w in zip(gradients, weights, strict=True))
        seconds.append(torch.autograd.grad(total, given))
    torch.testing.assert_close(*tangents, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(*seconds, rtol=1e-12, atol=1e-12)


@long_test
def test_finite_differences_of_second_derivatives(device: torch.device) -> None:
    given = inputs(2, 3, device=device)
    assert torch.autograd.gradcheck(trilinear, given, check_backward_ad=False, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(trilinear, given, nondet_tol=1e-12)


@some_cases(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels_last", [False, True])
def test_expanded_and_transposed_inputs_and_gradients(
    channels_last: bool, dtype: torch.dtype, device: torch.device
) -> None:
    if (channels_last + DTYPES.index(dtype)) % 2:  # types take turns with layouts
        leave_to_long_tests_on_a_cpu(device)
    rows, width = 6, 40
    feats, points = (t.detach() for t in inputs(rows, width, dtype, device))
    if channels_last:
        feats = feats.transpose(1, 2).contiguous().transpose(1, 2)
    else:
        feats = feats[:1, :, ::2].repeat(1, 1, 2).expand(rows, 8, width)
    one_point = points[:1].expand(rows, 3)
    sum_of_all = torch.ones((), dtype=dtype, device=device).expand(rows, width)
    assert_as_the_formula(feats.requires_grad_(), one_point.requires_grad_(), sum_of_all)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_add_up_a_points_gradient_in_float(dtype: torch.dtype, device: torch.device) -> None:
    """8192 positive terms: bfloat16 itself stops counting at 256."""
    feats, points = inputs(3, 8192, dtype, device)
    slope = torch.linspace(1, 2, 8, device=device).to(dtype).view(1, 8, 1)
    assert_as_the_formula(
        slope.expand(3, 8, 8192).contiguous().requires_grad_(), points, torch.full_like(feats[:, 0], 2**-8)
    )


@pytest.mark.parametrize("block", [(32, 8, 1), (256, 1, 1), (16, 16, 1), (8, 4, 2), (5, 7, 1), (1, 64, 1)])
def test_launches_of_any_block_have_the_same_gradients(block: tuple[int, int, int], device: torch.device) -> None:
    """Whether the threads of a wave have one row, or several, is the caller's choice there."""
    feats, points = inputs(21, 45, device=device)
    grad = torch.randn_like(feats[:, 0])
    expected = outcome(formula, feats, points, grad)
    values = [t.detach() for t in (feats, points, torch.empty_like(expected[0]))]
    gradients = [torch.zeros_like(values[0]), torch.zeros_like(values[1]), grad.clone()]
    grid = [-(-45 // block[0]), -(-21 // block[1]), 1]
    pairs = [tensor for pair in zip(values, gradients, strict=True) for tensor in pair]
    torch.ops.slang.trilinear_bwd(*pairs, block, grid)
    torch.testing.assert_close([values[2], *gradients[:2]], [t.detach() for t in expected])


@some_cases(1)
@pytest.mark.parametrize("shape", [(0, 8, 5), (4, 8, 0), (0, 8, 0)])
def test_no_rows_and_no_features(shape: tuple[int, int, int], device: torch.device) -> None:
    feats = torch.randn(shape, device=device, requires_grad=True)
    points = torch.rand(shape[0], 3, device=device, requires_grad=True)
    result = trilinear(feats, points)
    result.sum().backward()
    assert result.shape == (shape[0], shape[2])
    assert feats.grad.shape == shape
    assert torch.equal(points.grad, torch.zeros_like(points))


def test_a_fit_finds_features_and_points(device: torch.device) -> None:
    """Both gradients drive a loss to nothing."""
    feats, points = inputs(16, 12, torch.float32, device)
    target = formula(*inputs(16, 12, torch.float32, device)).detach()
    with torch.no_grad():
        feats.add_(0.3 * torch.randn_like(feats))
        points.mul_(0.5)
    optimizer = torch.optim.Adam([feats, points], lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        loss = (trilinear(feats, points) - target).square().mean()
        loss.backward()
        optimizer.step()
    assert float(loss) < 1e-4


FEATS, POINTS = torch.zeros(4, 8, 3), torch.zeros(4, 3)
WRONG = [
    (torch.zeros(4, 7, 3), POINTS, r"feats to have shape \[N, 8, F\], but got \[4, 7, 3\]: dimension 1 must be 8"),
    (torch.zeros(4, 8), POINTS, r"feats to have shape \[N, 8, F\] \(3 dimensions\), but got \[4, 8\]"),
    (FEATS, torch.zeros(5, 3), r"points to have shape \[N, 3\], but got \[5, 3\]: dimension 0 must be N = 4"),
    (FEATS, torch.zeros(4, 2), r"points to have shape \[N, 3\], but got \[4, 2\]: dimension 1 must be 3"),
    (FEATS, POINTS.double(), r"points to have dtype float32 like the other arguments of type T, but got float64"),
    (FEATS.int(), POINTS.int(), r"feats to have dtype float16, bfloat16, float32 or float64, but got int32"),
    (FEATS, None, r"points to be a tensor, but got None"),
]


@pytest.mark.parametrize(("feats", "points", "message"), WRONG)
def test_wrong_arguments_are_named(feats: Tensor, points: Tensor, message: str) -> None:
    with pytest.raises(RuntimeError, match=rf"^slang::trilinear: expected {message}"):
        trilinear(feats, points)


@needs_cuda
def test_inputs_on_two_devices_are_named() -> None:
    with pytest.raises(
        RuntimeError, match=r"^slang::trilinear: expected .*same device.*feats is on cuda:0 and points is on cpu"
    ):
        trilinear(FEATS.cuda(), POINTS)


class TestModule:
    def test_it_has_no_state(self) -> None:
        module = torch_slang.nn.TrilinearInterpolation()
        assert repr(module) == "TrilinearInterpolation()"
        assert not module.state_dict()
        assert not list(module.parameters())

    def test_it_gives_what_the_operator_gives(self, device: torch.device) -> None:
        feats, points = inputs(5, 7, torch.float32, device)
        assert torch.equal(TrilinearInterpolation()(feats, points), trilinear(feats, points))

    def test_it_is_scripted_and_saved(self, device: torch.device) -> None:
        feats, points = inputs(5, 7, device=device)
        buffer = io.BytesIO()
        torch.jit.save(torch.jit.script(TrilinearInterpolation()), buffer)
        buffer.seek(0)
        loaded = torch.jit.load(buffer)
        grad = torch.randn_like(feats[:, 0])
        torch.testing.assert_close(outcome(loaded, feats, points, grad), outcome(formula, feats, points, grad))

    @pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
    def test_one_graph_serves_all_sizes(self, backend: str, device: torch.device) -> None:
        torch._dynamo.reset()
        module = TrilinearInterpolation()
        counter = CompileCounterWithBackend(backend)
        compiled = torch.compile(lambda f, p: module(f.sin(), p) * 2, backend=counter, fullgraph=True, dynamic=True)
        for rows, width in [(5, 7), (4, 33), (9, 2)]:  # not those of 3 and 8: equal sizes become one symbol
            feats, points = inputs(rows, width, device=device)
            grad = torch.randn_like(feats[:, 0])
            torch.testing.assert_close(
                outcome(compiled, feats, points, grad),
                outcome(lambda f, p: formula(f.sin(), p) * 2, feats, points, grad),
            )
        assert counter.frame_count == 1
        torch._dynamo.reset()

    def test_it_is_exported_with_dynamic_sizes(self, device: torch.device) -> None:
        rows, width = torch.export.Dim("rows"), torch.export.Dim("width")
        example = tuple(t.detach() for t in inputs(3, 5, device=device))
        program = torch.export.export(
            TrilinearInterpolation(), example, dynamic_shapes={"feats": {0: rows, 2: width}, "points": {0: rows}}
        )
        feats, points = (t.detach() for t in inputs(6, 9, device=device))
        torch.testing.assert_close(program.module()(feats, points), formula(feats, points))
