"""``torch_slang.slangtorch``: programs written for slangtorch run with the import changed alone."""

from __future__ import annotations

import shutil
import warnings
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import torch_slang
import torch_slang.slangtorch as slangtorch

KERNELS = Path(__file__).parent / "kernels"
BLOCK = (32, 1, 1)
ONE = (1, 1, 1)


@pytest.fixture(scope="module")
def values() -> Any:
    return slangtorch.loadModule(str(KERNELS / "slangtorch_values.slang"))


@pytest.fixture(scope="module")
def derivatives() -> Any:
    return slangtorch.loadModule(KERNELS / "slangtorch_derivatives.slang")


@pytest.fixture(scope="module")
def extensions() -> Any:
    return slangtorch.loadModule(KERNELS / "slangtorch_extensions.slang")


@pytest.fixture(scope="module")
def own_backward() -> Any:
    return slangtorch.loadModule(KERNELS / "slangtorch_own_backward.slang")


@pytest.fixture
def copied(tmp_path: Path) -> Callable[..., Path]:
    """Copies kernels to where they may be edited; gives the path of the first."""

    def copy(*names: str) -> Path:
        for name in names:
            shutil.copy(KERNELS / name, tmp_path / name)
        return tmp_path / names[0]

    return copy


def numbers(count: int, device: torch.device, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.linspace(-1.5, 2, count, device=device).to(dtype)


# --- Calls and launches


@pytest.mark.parametrize(
    "call",
    [
        lambda kernel, x, y: kernel(input=x, output=y),
        lambda kernel, x, y: kernel(output=y, input=x),
        lambda kernel, x, y: kernel(x, y),
        lambda kernel, x, y: kernel(x, output=y),
        lambda kernel, x, y: kernel(input=(x,), output=(y,)),
        lambda kernel, x, y: kernel(input=(x, torch.ones_like(x)), output=(y, None)),
        lambda kernel, x, y: kernel(input=slangtorch.DiffTensorView(x), output=slangtorch.DiffTensorView(value=y)),
    ],
)
def test_arguments_may_be_given_in_many_ways(call: Callable[..., Any], derivatives: Any, device: torch.device) -> None:
    x = numbers(40, device)
    y = torch.zeros_like(x)
    assert call(derivatives.square, x, y).launchRaw(blockSize=BLOCK, gridSize=(2, 1, 1)) is None
    torch.testing.assert_close(y, x * x)


@pytest.mark.parametrize(
    ("launch", "reached"),
    [
        (lambda kernel: kernel.launchRaw(blockSize=(4, 2, 1), gridSize=(2, 3, 4)), (8, 6, 4)),
        (lambda kernel: kernel.launchRaw((4, 2, 1), (2, 3, 4)), (8, 6, 4)),
        (lambda kernel: kernel.launchTotal(blockSize=(4, 4, 1), totalSize=(9, 5, 2)), (12, 8, 2)),
        (lambda kernel: kernel.launchTotal(blockSize=(4, 4, 1), totalSize=(0, 5, 2)), (0, 0, 0)),
    ],
)
def test_every_thread_of_the_grid_runs_once(
    launch: Callable[..., Any], reached: tuple[int, int, int], values: Any, device: torch.device
) -> None:
    visits = torch.zeros(12, 8, 4, dtype=torch.int32, device=device)
    launch(values.places(visits=visits))
    expected = torch.zeros_like(visits)
    expected[: reached[0], : reached[1], : reached[2]] = 1
    assert torch.equal(visits, expected)


@pytest.mark.parametrize("total", [(7, 1, 1), (5, 6, 1), (3, 4, 5), (1, 1, 1), (2, 0, 3), (1, 300, 2)])
def test_auto_launch_reaches_the_whole(total: tuple[int, int, int], values: Any, device: torch.device) -> None:
    visits = torch.zeros(total, dtype=torch.int32, device=device)
    values.places(visits=visits).autoLaunch(totalSize=total)
    assert torch.equal(visits, torch.ones_like(visits))


@pytest.mark.parametrize("size", [[1, 1, 1], (1, 1), (1.0, 1, 1), 1, None, (1, 1, 1, 1)])
def test_sizes_are_tuples_of_three_integers(size: Any, derivatives: Any, device: torch.device) -> None:
    x = numbers(3, device)
    for name, others in (
        ("launchRaw", ("blockSize", "gridSize")),
        ("launchTotal", ("blockSize", "totalSize")),
        ("autoLaunch", ("totalSize",)),
    ):
        for wrong in others:
            launchable = derivatives.square(x, x.clone())
            with pytest.raises(ValueError, match=f"expected {wrong} to be a tuple of 3 integers, but got"):
                getattr(launchable, name)(**{other: size if other == wrong else ONE for other in others})


@pytest.mark.parametrize("block", [(0, 1, 1), (-1, 1, 1), (1, 1, 4096)])
def test_impossible_blocks_are_errors(block: tuple[int, int, int], derivatives: Any, device: torch.device) -> None:
    x = numbers(3, device)
    with pytest.raises(RuntimeError, match="square"):
        derivatives.square(x, x.clone()).launchRaw(blockSize=block, gridSize=ONE)
    if block[0] < 1:
        with pytest.raises(ValueError, match="square: expected blockSize to be positive"):
            derivatives.square(x, x.clone()).launchTotal(blockSize=block, totalSize=ONE)


def test_a_launchable_that_was_never_launched_warns(derivatives: Any) -> None:
    x = torch.ones(3)
    with pytest.warns(RuntimeWarning, match=r"square was given arguments but never launched"):
        derivatives.square(input=x, output=x.clone())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        derivatives.square(input=x, output=x.clone()).launchRaw(BLOCK, ONE)


def test_raw_functions_take_the_launch_first(derivatives: Any, device: torch.device) -> None:
    x = numbers(20, device)
    y, gx, gy = torch.zeros_like(x), torch.zeros_like(x), torch.ones_like(x)
    assert derivatives.square(BLOCK, ONE, x, y) is None
    torch.testing.assert_close(y, x * x)
    derivatives.square_bwd_diff(BLOCK, ONE, (x, (gx,)), (y, (gy,)))
    torch.testing.assert_close(gx, 2 * x)
    derivatives.square_fwd_diff(BLOCK, ONE, (x, (torch.ones_like(x),)), (y, (gy,)))
    torch.testing.assert_close(gy, 2 * x)
    derivatives.weighted(BLOCK, ONE, 0.5, x, torch.ones_like(x), y)
    torch.testing.assert_close(y, 0.5 * x.exp())


def test_no_threads_is_no_launch(derivatives: Any, device: torch.device) -> None:
    empty = torch.zeros(0, device=device)
    derivatives.square(input=empty, output=empty.clone()).launchRaw(blockSize=BLOCK, gridSize=ONE)
    derivatives.square.bwd((empty, empty.clone()), (empty.clone(), empty.clone())).launchRaw(BLOCK, ONE)
    derivatives.square(input=empty, output=empty.clone()).autoLaunch(totalSize=(0, 1, 1))


# --- Derivatives


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_derivatives_of_both_precisions(dtype: torch.dtype, derivatives: Any, device: torch.device) -> None:
    kernel = derivatives.square if dtype == torch.float32 else derivatives.square_double
    x = numbers(50, device, dtype) / 3
    y, gx, gy, ty = (torch.zeros_like(x) for _ in range(4))
    gy += 1 / 3
    kernel.bwd(input=(x, gx), output=(y, gy)).launchRaw(blockSize=BLOCK, gridSize=(2, 1, 1))
    torch.testing.assert_close(gx, 2 * x * torch.tensor(1 / 3, dtype=dtype, device=device))
    assert not gy.any()  # taken
    tangent = numbers(50, device, dtype).flip(0)
    kernel.fwd(
        input=derivatives.DiffTensorView(value=x, grad=tangent), output=derivatives.DiffTensorView(value=y, grad=ty)
    ).launchRaw(blockSize=BLOCK, gridSize=(2, 1, 1))
    torch.testing.assert_close(y, x * x)
    torch.testing.assert_close(ty, 2 * x * tangent)


def test_float32_gradients_of_other_values_are_taken_too(derivatives: Any, device: torch.device) -> None:
    x = numbers(20, device, torch.float64)
    y, gx, gy = torch.zeros_like(x), torch.ones(20, device=device), torch.full((20,), 0.5, device=device)
    derivatives.square_double.bwd(input=(x, gx), output=(y, gy)).launchRaw(BLOCK, ONE)
    torch.testing.assert_close(gx, 1 + x.float())
    assert not gy.any()
    derivatives.square_double.fwd(input=(x, torch.ones_like(gx)), output=(y, gy)).launchRaw(BLOCK, ONE)
    torch.testing.assert_close(gy, 2 * x.float())
    with pytest.raises(RuntimeError, match=r"to have dtype float64.*, but got float16"):
        derivatives.square_double.bwd(input=(x, gx.half()), output=(y, gy)).launchRaw(BLOCK, ONE)


def test_gradients_are_added_to(derivatives: Any, device: torch.device) -> None:
    x = numbers(5, device)
    gx = torch.full_like(x, 10)
    derivatives.square.bwd((x, gx), (x.clone(), torch.ones_like(x))).launchTotal(BLOCK, (5, 1, 1))
    torch.testing.assert_close(gx, 10 + 2 * x)


def test_differentiable_numbers_are_plain_arguments(derivatives: Any, device: torch.device) -> None:
    x = numbers(5, device)
    for factor in (3.0, torch.tensor(3.0, requires_grad=True)):
        y, gx = torch.zeros_like(x), torch.zeros_like(x)
        derivatives.scale(factor=factor, x=x, y=y).launchRaw(BLOCK, ONE)
        torch.testing.assert_close(y, 3 * x)
        derivatives.scale.bwd(factor=factor, x=(x, gx), y=(y, torch.ones_like(x))).launchRaw(BLOCK, ONE)
        torch.testing.assert_close(gx, torch.full_like(x, 3))


@pytest.mark.parametrize("unwanted", [lambda x: x, lambda x: (x,), lambda x: (x, None)])
def test_unwanted_gradients_are_left_out(unwanted: Callable[..., Any], derivatives: Any, device: torch.device) -> None:
    x, mask = numbers(5, device), torch.ones(5, device=device)
    y, gy = torch.zeros_like(x), torch.ones_like(x)
    derivatives.weighted.bwd(weight=2.0, x=unwanted(x), mask=mask, y=(y, gy)).launchTotal(BLOCK, (5, 1, 1))
    gx = torch.zeros_like(x)
    derivatives.weighted.bwd(weight=2.0, x=(x, gx), mask=mask, y=(y, torch.ones_like(x))).launchTotal(BLOCK, (5, 1, 1))
    torch.testing.assert_close(gx, 2 * x.exp())


def test_strided_tensors_and_gradients(derivatives: Any, device: torch.device) -> None:
    x = numbers(40, device)[::2]
    gx = torch.zeros(40, device=device)[::2]
    y, gy = torch.zeros(3, 20, device=device)[1], torch.ones(20, 3, device=device)[:, 0]
    derivatives.square.bwd((x, gx), (y, gy)).launchTotal(BLOCK, (20, 1, 1))
    torch.testing.assert_close(gx, 2 * x)


def chain_reference(lines: list[tuple[torch.Tensor, torch.Tensor]], scale: float, x: torch.Tensor) -> torch.Tensor:
    at = torch.arange(len(x), device=x.device) % 2
    for slope, shift in lines:
        x = slope[at] * x + shift[at]
    return x * scale


@pytest.mark.parametrize("spelling", ["named tuples", "mappings", "tuples"])
def test_structs_of_arrays_of_structs_with_gradients(spelling: str, derivatives: Any, device: torch.device) -> None:
    generator = torch.Generator().manual_seed(1)
    lines = [tuple(torch.rand(2, generator=generator).to(device) for _ in range(2)) for _ in range(3)]
    grads = [tuple(torch.zeros_like(t) for t in line) for line in lines]
    x, gx = numbers(7, device), torch.zeros(7, device=device)

    def links(fields: list[tuple[Any, Any]]) -> Any:
        if spelling == "named tuples":
            parts = [derivatives.Line(slope=slope, shift=shift) for slope, shift in fields]
            return derivatives.Chain(lines=parts, scale=0.5)
        if spelling == "mappings":
            return {"lines": [{"slope": slope, "shift": shift} for slope, shift in fields], "scale": 0.5}
        return (tuple(fields), 0.5)

    y = torch.zeros_like(x)
    derivatives.chain(links=links(lines), x=x, y=y).launchTotal(BLOCK, (7, 1, 1))
    torch.testing.assert_close(y, chain_reference(lines, 0.5, x))

    pairs = [tuple(zip(line, grad, strict=True)) for line, grad in zip(lines, grads, strict=True)]
    gy = numbers(7, device) + 3
    derivatives.chain.bwd(links=links(pairs), x=(x, gx), y=(y, gy.clone())).launchTotal(BLOCK, (7, 1, 1))

    wanted = [t.double().requires_grad_() for line in lines for t in line]
    x64 = x.double().requires_grad_()
    reference = chain_reference([(wanted[2 * i], wanted[2 * i + 1]) for i in range(3)], 0.5, x64)
    expected = torch.autograd.grad(reference, [*wanted, x64], gy.double())
    for got, want in zip([g for grad in grads for g in grad] + [gx], expected, strict=True):
        torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-5)


def test_inside_an_autograd_function(derivatives: Any, device: torch.device) -> None:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            y = torch.zeros_like(x)
            derivatives.square_double(input=x, output=y).launchRaw(BLOCK, ONE)
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            x, y = ctx.saved_tensors
            gx = torch.zeros_like(x)
            derivatives.square_double.bwd(input=(x, gx), output=(y, grad.clone())).launchRaw(BLOCK, ONE)
            return gx

    x = numbers(6, device, torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(Square.apply, (x,))


def test_tensors_that_require_grad_are_launched_without_a_trace(derivatives: Any, device: torch.device) -> None:
    x = numbers(6, device).requires_grad_()
    y = torch.zeros(6, device=device)
    derivatives.square(input=x, output=y).launchRaw(BLOCK, ONE)
    torch.testing.assert_close(y, (x * x).detach())
    assert not y.requires_grad


def test_launches_leave_the_versions_of_tensors_alone(derivatives: Any, device: torch.device) -> None:
    x = numbers(6, device).requires_grad_()
    square = x * x  # keeps x
    derivatives.square(input=x, output=torch.zeros(6, device=device)).launchRaw(BLOCK, ONE)
    (grad,) = torch.autograd.grad(square.sum(), x)
    torch.testing.assert_close(grad, 2 * x.detach())


def check_norms(kernel: Any, device: torch.device) -> None:
    points = torch.randn(9, 3, generator=torch.Generator().manual_seed(2)).to(device)
    norms, grad = torch.zeros(9, device=device), torch.zeros_like(points)
    kernel(points=points, norms=norms).launchTotal(BLOCK, (9, 1, 1))
    torch.testing.assert_close(norms, (points * points).sum(1))
    weights = numbers(9, device)
    kernel.bwd(points=(points, grad), norms=(norms, weights.clone())).launchTotal(BLOCK, (9, 1, 1))
    torch.testing.assert_close(grad, 2 * points * weights[:, None])


@pytest.mark.parametrize("kernel", ["norms_by_method", "norms_by_row"])
def test_users_own_extensions_of_differentiable_views(kernel: str, extensions: Any, device: torch.device) -> None:
    check_norms(getattr(extensions, kernel), device)
    points, tangents = torch.randn(2, 9, 3, generator=torch.Generator().manual_seed(3)).to(device)
    norms, tangent = torch.zeros(9, device=device), torch.zeros(9, device=device)
    getattr(extensions, kernel).fwd((points, tangents), (norms, tangent)).launchTotal(BLOCK, (9, 1, 1))
    torch.testing.assert_close(tangent, (2 * points * tangents).sum(1))


def test_gradients_that_users_put_into_memory_themselves(own_backward: Any, device: torch.device) -> None:
    check_norms(own_backward.norms_by_function, device)


def test_a_backward_written_by_hand(own_backward: Any, device: torch.device) -> None:
    x = numbers(9, device)
    y, gx, gy = torch.zeros_like(x), torch.zeros_like(x), numbers(9, device) + 1
    own_backward.cubes(x=x, y=y).launchRaw(BLOCK, ONE)
    torch.testing.assert_close(y, x**3)
    own_backward.cubes.bwd(x=(x, gx), y=(y, gy)).launchRaw(BLOCK, ONE)
    torch.testing.assert_close(gx, 3 * x * x * (numbers(9, device) + 1))


# --- Values


@pytest.mark.parametrize("kind", ["plain", "numpy", "torch"])
def test_scalars(kind: str, values: Any, device: torch.device) -> None:
    given = {"f": 1.5, "d": 1 / 3, "i": -7, "u": 4_000_000_000, "l": -(2**40), "m": 2**50, "b": True, "h": 0.5}
    make = {"plain": lambda v: v, "numpy": np.array, "torch": lambda v: torch.tensor(v, dtype=_exact(v))}[kind]
    out = torch.zeros(8, dtype=torch.float64, device=device)
    values.scalars(**{name: make(value) for name, value in given.items()}, out=out).launchRaw(BLOCK, ONE)
    assert out.tolist() == [float(value) for value in given.values()]


def _exact(value: Any) -> torch.dtype:
    return {bool: torch.bool, int: torch.int64, float: torch.float64}[type(value)]


def test_vectors(values: Any, device: torch.device) -> None:
    for a in ((1.5, 2.5, 3.5), [1.5, 2.5, 3.5], np.array([1.5, 2.5, 3.5]), torch.tensor([1.5, 2.5, 3.5])):
        out = torch.zeros(7, device=device)
        values.vectors(a=a, b=(-4, 5), c=(True, False), out=out).launchRaw(ONE, ONE)
        assert out.tolist() == [1.5, 2.5, 3.5, -4, 5, 1, 0]


def test_matrices_are_given_by_rows(values: Any, device: torch.device) -> None:
    out = torch.zeros(6, device=device)
    values.matrices(a=((1.0, 2.0, 3.0), (4.0, 5.0, 6.0)), out=out).launchRaw(ONE, ONE)
    assert out.tolist() == [1, 2, 3, 4, 5, 6]


def test_arrays(values: Any, device: torch.device) -> None:
    out = torch.zeros(10, device=device)
    values.arrays(a=[1.0, 2.0, 3.0, 4.0], b=[(5.0, 6.0, 7.0), (8.0, 9.0, 10.0)], out=out).launchRaw(ONE, ONE)
    assert out.tolist() == list(range(1, 11))


def test_structs_of_values(values: Any, device: torch.device) -> None:
    rows = ((1.0, 2.0, 3.0), (4.0, 5.0, 6.0), (7.0, 8.0, 9.0))
    for value in (
        values.Mixed(m=rows, count=10, on=True),
        {"m": rows, "count": 10, "on": True},
        (rows, 10, True),
        namedtuple("Other", "on m count")(True, rows, 10),
    ):
        out = torch.zeros(11, device=device)
        values.mixed(value=value, out=out).launchRaw(ONE, ONE)
        assert out.tolist() == [*range(1, 10), 10, 1]


ELEMENTS = {
    "int8_t": torch.int8,
    "int16_t": torch.int16,
    "int": torch.int32,
    "int64_t": torch.int64,
    "uint8_t": torch.uint8,
    "uint16_t": torch.uint16,
    "uint": torch.uint32,
    "uint64_t": torch.uint64,
    "half": torch.float16,
    "float": torch.float32,
    "double": torch.float64,
}


@pytest.mark.parametrize("element", ELEMENTS)
def test_elements(element: str, values: Any, device: torch.device) -> None:
    dtype = ELEMENTS[element]
    x = torch.arange(50).to(dtype).to(device)
    out = torch.zeros(50).to(dtype).to(device)
    getattr(values, "twice_" + element)(x=x, out=out).launchRaw(BLOCK, (2, 1, 1))
    assert out.cpu().to(torch.int64).tolist() == [2 * i + 1 for i in range(50)]


def test_a_tensor_without_dimensions_is_one_of_one_element(derivatives: Any, device: torch.device) -> None:
    x, y = torch.tensor(3.0, device=device), torch.tensor(0.0, device=device)
    gx, gy = torch.tensor(0.0, device=device), torch.tensor(1.0, device=device)
    derivatives.square(input=x, output=y).launchRaw(BLOCK, ONE)
    derivatives.square.bwd(input=(x, gx), output=(y, gy)).launchRaw(BLOCK, ONE)
    assert (y.item(), gx.item(), gy.item()) == (9, 6, 0)


def test_bools(values: Any, device: torch.device) -> None:
    x = torch.arange(9, device=device) % 3 == 0
    out = torch.zeros_like(x)
    values.negate(x=x, out=out).launchRaw(BLOCK, ONE)
    assert torch.equal(out, ~x)


@pytest.mark.parametrize("strided", [lambda t: t, lambda t: t[::2], lambda t: t.flip(0).t().contiguous().t()])
def test_elements_that_are_vectors(strided: Callable[..., Any], values: Any, device: torch.device) -> None:
    x = strided(torch.randn(10, 3, generator=torch.Generator().manual_seed(4)).to(device))
    out = torch.zeros(3, len(x), device=device).t()
    values.swap_ends(x=x, out=out).launchRaw(BLOCK, ONE)
    assert torch.equal(out, x.flip(1))


# --- Wrong arguments


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, x: m.square(input=x), r"square: missing output; it has input, output"),
        (lambda m, x: m.square(input=x, outptu=x), r"square has no argument outptu; it has input, output"),
        (lambda m, x: m.square(x, x, x), r"square: expected at most 2 arguments, but got 3"),
        (lambda m, x: m.square(x, input=x), r"square: got two values for input"),
        (lambda m, x: m.square(input=x, output=None), r"expected output .* to be a tensor, but got NoneType"),
        (lambda m, x: m.square(input=1.0, output=x), r"expected input .* to be a tensor, but got float"),
        (lambda m, x: m.square(input=(x, x, x), output=x), r"expected input .* pair \(value, gradient\), but got 3"),
        (lambda m, x: m.chain(links=(1.0,), x=x, y=x), r"links \(Chain<2, 3>\) has fields .* but got 1"),
        (lambda m, x: m.chain(links=2.0, x=x, y=x), r"expected links .* to be a mapping or a tuple"),
        (lambda m, x: m.chain(links={"lines": []}, x=x, y=x), r"links \(Chain<2, 3>\) lacks field scale"),
        (lambda m, x: m.chain(links={"line": [], "lines": [], "scale": 1}, x=x, y=x), r"has no field line"),
    ],
)
def test_wrong_arguments_are_type_errors_and_value_errors(
    call: Callable[..., Any], message: str, derivatives: Any
) -> None:
    x = torch.ones(3)
    for kind in (TypeError, ValueError):
        with pytest.raises(kind, match=message):
            call(derivatives, x)


def test_broadcast_tensors_are_refused(derivatives: Any, device: torch.device) -> None:
    x = numbers(4, device)
    with pytest.raises(RuntimeError, match=r"input has broadcast dimensions .* pass input.contiguous\(\)"):
        derivatives.square(input=torch.ones(1, device=device).expand(4), output=x)
    with pytest.raises(RuntimeError, match="grad_output has broadcast dimensions"):
        derivatives.square.bwd((x, x.clone()), (x, torch.ones(1, device=device).expand(4)))
    y = torch.zeros(1, device=device).expand(1)
    derivatives.square(input=x[:1].expand(1), output=y).launchRaw(BLOCK, ONE)  # of one element: nothing is shared


def test_missing_derivatives_are_errors(derivatives: Any) -> None:
    x = torch.ones(3)
    for derivative in ("fwd", "bwd"):
        with pytest.raises(ValueError, match=r"copy has no .* derivative"):
            getattr(derivatives.copy, derivative)(input=x, output=x)


def test_a_refused_kernel_says_why(tmp_path: Path) -> None:
    path = tmp_path / "refused.slang"
    path.write_text("[AutoPyBindCUDA] [CUDAKernel] void writes(out TensorView<float> x) {}")
    with pytest.raises(AttributeError, match=r"writes is not available: .*x"):
        slangtorch.loadModule(path).writes  # noqa: B018


def test_unknown_names_are_attribute_errors(derivatives: Any) -> None:
    with pytest.raises(AttributeError, match=r"no kernel named 'sqare'; this module has: .*square"):
        derivatives.sqare  # noqa: B018


# --- Loading


def scaled(module: Any, device: torch.device) -> list[float]:
    x = torch.tensor([1.0, 2.0], device=device)
    y = torch.zeros_like(x)
    module.scale(x=x, y=y).launchRaw(BLOCK, ONE)
    return y.tolist()


def test_defines_as_text_reach_imported_files(device: torch.device) -> None:
    path = KERNELS / "slangtorch_import.slang"
    twice = slangtorch.loadModule(path, defines={"FACTOR": "2.0", "SHIFT": 1, "MODULUS": 4})
    thrice = slangtorch.loadModule(path, defines={"FACTOR": 3, "SHIFT": "0.5"})
    assert scaled(twice, device) == [3, 5]
    assert scaled(thrice, device) == [3.5, 6.5]
    assert scaled(twice, device) == [3, 5]


def test_defines_and_folders_as_flags(copied: Callable[..., Path], device: torch.device) -> None:
    path = copied("slangtorch_import.slang", "slangtorch-imported-part.slang")
    elsewhere = path.parent / "elsewhere"
    elsewhere.mkdir()
    (path.parent / "slangtorch-imported-part.slang").rename(elsewhere / "slangtorch-imported-part.slang")
    with pytest.raises(RuntimeError, match="slangtorch_imported_part"):
        slangtorch.loadModule(path, defines={"FACTOR": 2, "SHIFT": 0})
    for folder in ({"includePaths": [elsewhere]}, {"extraSlangFlags": ["-I", str(elsewhere)]}):
        options = {"defines": {"FACTOR": 2, "SHIFT": 0}, **folder}
        assert scaled(slangtorch.loadModule(path, **options), device) == [2, 4]
    flags = ["-DFACTOR=4", "-D", "SHIFT=1", f"-I{elsewhere}"]
    assert scaled(slangtorch.loadModule(path, extraSlangFlags=flags), device) == [5, 9]


def test_an_edit_makes_a_new_module_and_leaves_the_old(copied: Callable[..., Path], device: torch.device) -> None:
    path = copied("slangtorch_import.slang", "slangtorch-imported-part.slang")
    defines = {"FACTOR": 2, "SHIFT": 0}
    first = slangtorch.loadModule(path, defines=defines)
    assert slangtorch.loadModule(path, defines=defines) is first
    part = path.parent / "slangtorch-imported-part.slang"
    part.write_text(part.read_text().replace("return v *", "return 10 * v *"))
    second = slangtorch.loadModule(path, defines=defines)
    path.write_text(
        path.read_text().replace("TensorView<float> x, TensorView<float> y", "float s, TensorView<float> x")
    )
    path.write_text(path.read_text().replace("y[at.x] =", "x[at.x] = s *"))
    third = slangtorch.loadModule(path, defines=defines)
    assert scaled(second, device) == [20, 40]
    assert scaled(first, device) == [2, 4]
    x = torch.ones(2, device=device)
    third.scale(s=3.0, x=x).launchRaw(BLOCK, ONE)
    assert x.tolist() == [60, 60]


def test_a_cuda_header_is_found_in_include_paths(copied: Callable[..., Path], device: torch.device) -> None:
    path = copied("slangtorch_prelude.slang")
    x = torch.tensor([1.0, 2.0], device=device)
    y = torch.zeros_like(x)
    for folder in ({"includePaths": [KERNELS]}, {"extraCudaFlags": ["-I", str(KERNELS)]}):
        slangtorch.loadModule(path, **folder).offset(x=x, y=y).launchRaw(BLOCK, ONE)
        assert y.tolist() == [3, 4]


def test_an_edit_of_a_cuda_header_is_seen(copied: Callable[..., Path], device: torch.device) -> None:
    path = copied("slangtorch_prelude.slang", "slangtorch_prelude.cuh")
    for offset in (2, 5):
        header = path.parent / "slangtorch_prelude.cuh"
        header.write_text(header.read_text().replace("2.0f", f"{offset}.0f"))
        x = torch.tensor([1.0, 2.0], device=device)
        y = torch.zeros_like(x)
        slangtorch.loadModule(path).offset(x=x, y=y).launchRaw(BLOCK, ONE)
        assert y.tolist() == [1 + offset, 2 + offset]


def test_a_failed_load_is_a_runtime_error_and_spoils_nothing(copied: Callable[..., Path]) -> None:
    path = copied("slangtorch_import.slang", "slangtorch-imported-part.slang")
    with pytest.raises(RuntimeError, match=r"slangtorch-imported-part\.slang"):
        slangtorch.loadModule(path)
    assert scaled(slangtorch.loadModule(path, defines={"FACTOR": 1, "SHIFT": 0}), torch.device("cpu")) == [1, 2]
    with pytest.raises(RuntimeError, match="no such file"):
        slangtorch.loadModule(path.parent / "absent.slang")


def test_modules_with_equal_names_do_not_meet(
    copied: Callable[..., Path], derivatives: Any, device: torch.device
) -> None:
    other = copied("slangtorch_derivatives.slang")
    other.write_text(other.read_text().replace("input[at.x] * input[at.x]", "-input[at.x]"))
    negative = slangtorch.loadModule(other)
    x = numbers(5, device)
    y, z = torch.zeros_like(x), torch.zeros_like(x)
    negative.square(x, y).launchRaw(BLOCK, ONE)
    derivatives.square(x, z).launchRaw(BLOCK, ONE)
    torch.testing.assert_close(y, -x)
    torch.testing.assert_close(z, x * x)
    assert not hasattr(torch.ops.slang, "square_launch")


def test_flags_without_a_meaning_are_noted_once(capsys: pytest.CaptureFixture[str]) -> None:
    path = KERNELS / "slangtorch_derivatives.slang"
    flags = {"extraCudaFlags": ["-O3", "-gencode", "arch=compute_90,code=sm_90", "--maxrregcount", "64"]}
    with pytest.warns(UserWarning, match="--maxrregcount 64 in extraCudaFlags is ignored"):
        slangtorch.loadModule(path, **flags)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        slangtorch.loadModule(path, **flags, skipNinjaCheck=True, slangGenLineInfo=False, cudaGenLineInfo=False)
    assert capsys.readouterr().err == ""
    with pytest.warns(DeprecationWarning, match="skipSlang"):
        slangtorch.loadModule(path, skipSlang=True, verbose=True)
    assert "slangtorch_derivatives.slang" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["extraSlangFlags", "extraCudaFlags"])
def test_flags_are_lists(flag: str) -> None:
    with pytest.raises(TypeError, match=f"expected {flag} to be a list"):
        slangtorch.loadModule(KERNELS / "slangtorch_derivatives.slang", **{flag: "-O3"})


@pytest.mark.parametrize("fast", [True, False])
def test_fast_math_keeps_nan_and_infinity(fast: bool, tmp_path: Path, device: torch.device) -> None:
    path = tmp_path / "kinds.slang"
    path.write_text(
        """
        [AutoPyBindCUDA] [CUDAKernel] void kinds(TensorView<float> x, TensorView<int> y)
        {
            uint i = cudaThreadIdx().x;
            if (i < x.size(0)) y[i] = (isnan(x[i]) ? 1 : 0) + (isinf(x[i]) ? 2 : 0);
        }
        """
    )
    x = torch.tensor([1.0, float("nan"), float("inf"), -float("inf"), 0.0], device=device)
    y = torch.zeros(5, dtype=torch.int32, device=device)
    slangtorch.loadModule(path, cudaFastMath=fast).kinds(x=x, y=y).launchRaw(BLOCK, ONE)
    assert y.tolist() == [0, 1, 2, 2, 0]
    assert torch.tensor(1e-40).item() * 1.0 != 0.0  # denormals of the process are as they were


def test_clearing_the_caches_leaves_modules_usable(device: torch.device) -> None:
    path = KERNELS / "slangtorch_import.slang"
    before = slangtorch.loadModule(path, defines={"FACTOR": 7, "SHIFT": 0})
    slangtorch.clearShaderCaches()
    assert torch_slang.cache.clear() == 0
    after = slangtorch.loadModule(path, defines={"FACTOR": 7, "SHIFT": 0})
    assert after is not before
    assert scaled(before, device) == scaled(after, device) == [7, 14]


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="no second GPU")
def test_tensors_of_a_second_gpu(derivatives: Any) -> None:
    device = torch.device("cuda:1")
    x = numbers(9, device)
    y, gx = torch.zeros_like(x), torch.zeros_like(x)
    derivatives.square(x, y).launchRaw(BLOCK, ONE)
    derivatives.square.bwd((x, gx), (y, torch.ones_like(x))).launchRaw(BLOCK, ONE)
    torch.testing.assert_close(y, x * x)
    torch.testing.assert_close(gx, 2 * x)
