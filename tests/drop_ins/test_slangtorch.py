"""``torch_slang.slangtorch``: programs written for slangtorch run with the import changed alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from slangtorch_kernels import BLOCK, ONE, module, numbers
from slow_compilers import wait_until

import torch_slang
import torch_slang.slangtorch as slangtorch
from torch_slang.slangtorch._types import beside


@pytest.fixture
def values() -> Any:
    return module("values")


@pytest.fixture
def derivatives() -> Any:
    return module("derivatives")


@pytest.fixture
def extensions() -> Any:
    return module("extensions")


@pytest.fixture
def own_backward() -> Any:
    return module("own_backward")


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


SHAPES = {  # of a gradient: the part that belongs to a value of [5]
    "longer": ((8,), lambda g: g[:5]),
    "a column": ((5, 1), lambda g: g[:, 0]),
    "a longer column": ((7, 1, 1), lambda g: g[:5, 0, 0]),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_and_tangents_of_another_shape(
    dtype: torch.dtype, shape: str, derivatives: Any, device: torch.device
) -> None:
    sizes, part = SHAPES[shape]
    kernel = derivatives.square if dtype == torch.float32 else derivatives.square_double
    x, y = numbers(5, device, dtype), torch.zeros(5, dtype=dtype, device=device)
    gx, gy = torch.full(sizes, 10.0, device=device), torch.ones(sizes, device=device)  # of float32 for double too
    kernel.bwd(input=(x, gx), output=(y, gy)).launchTotal(BLOCK, (5, 1, 1))
    torch.testing.assert_close(part(gx), 10 + 2 * x.float())
    assert gx.sum().item() == pytest.approx(10 * gx.numel() + 2 * x.sum().item(), abs=1e-4)
    assert gy.sum().item() == gy.numel() - 5  # the rest is left
    tangent, ty = torch.rand(sizes, dtype=dtype, device=device), torch.zeros(sizes, dtype=dtype, device=device)
    kernel.fwd(input=(x, tangent), output=(y, ty)).launchTotal(BLOCK, (5, 1, 1))
    torch.testing.assert_close(part(ty), 2 * x * part(tangent))


@pytest.mark.parametrize(
    ("value", "gradient", "element", "part"),
    [
        ((5, 1), (5,), 0, (5, 1)),
        ((5, 1, 3), (6, 3), 1, (5, 1, 3)),
        ((5, 3), (6, 1, 3), 1, (5, 3)),
        ((5, 3), (5, 4), 1, (5, 4)),  # elements of another size: refused behind it
        ((5, 3), (15,), 0, (15,)),
        ((3,), (), 1, ()),
    ],
)
def test_the_part_of_a_gradient_that_belongs_to_a_value(
    value: tuple[int, ...], gradient: tuple[int, ...], element: int, part: tuple[int, ...]
) -> None:
    given = torch.zeros(gradient)
    found = beside(torch.zeros(value), given, element)
    assert found.shape == part
    assert found.data_ptr() == given.data_ptr()


@pytest.mark.parametrize("sizes", [(4,), (1, 5), (5, 2), (2, 3)])
def test_gradients_that_lack_an_element_are_refused_with_the_cure(
    sizes: tuple[int, ...], derivatives: Any, device: torch.device
) -> None:
    x, gx = numbers(5, device), torch.zeros(sizes, device=device)
    with pytest.raises(
        RuntimeError, match=r"have the shape of input \[5\], but got .*: pass one of that shape, or a .view"
    ):
        derivatives.square.bwd(input=(x, gx), output=(x.clone(), torch.ones_like(x))).launchRaw(BLOCK, ONE)
    assert not gx.any()


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


AHEAD = """
[AutoPyBindCUDA] [CUDAKernel] [Differentiable]
void cube(DiffTensorView x, DiffTensorView y)
{
    uint i = cudaThreadIdx().x;
    if (i < x.size(0)) y[i] = x[i] * x[i] * x[i] + OFFSET;
}
"""


@pytest.mark.parametrize("requires_grad", [True, False])
def test_a_launch_on_tensors_that_require_grad_has_its_backward_compiled_meanwhile(
    requires_grad: bool, tmp_path: Path, device: torch.device
) -> None:
    def runs() -> int:
        return torch_slang.cache.stats()["host_runs"] + torch_slang.cache.stats()["nvrtc_runs"]

    (tmp_path / "cube.slang").write_text(AHEAD)
    cube = slangtorch.loadModule(str(tmp_path / "cube.slang"), defines={"OFFSET": 3 + requires_grad}).cube
    x, before = numbers(6, device).requires_grad_(requires_grad), runs()
    y, gradient = torch.zeros_like(x), torch.zeros(6, device=device)
    with torch.no_grad():  # as inside of an autograd.Function
        cube(x=x, y=y).launchRaw(BLOCK, ONE)
    if requires_grad:
        wait_until(lambda: runs() >= before + 2, "the compile of the backward")
    assert runs() >= before + 2 if requires_grad else runs() == before + 1
    cube.bwd(x=(x, gradient), y=(y, torch.ones_like(gradient))).launchRaw(BLOCK, ONE)
    assert runs() >= before + 2
    torch.testing.assert_close(gradient, 3 * x.detach() ** 2)


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
