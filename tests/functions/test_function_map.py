"""`module.f.map(...)`: arguments' dimensions go where the map says; values, gradients, and maps that do not fit."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import torch_slang

Tensor = torch.Tensor

SOURCE = """
[Differentiable] T product<T : __BuiltinFloatingPointType>(T a, T b) { return a * b * b; }
[Differentiable] T dotted<T : __BuiltinFloatingPointType>(vector<T, 3> a, vector<T, 3> b, T scale)
{
    return dot(a, b) * scale * scale;
}
struct Line : IDifferentiable { double slope; no_diff double start; }
[Differentiable] double at(Line line, double x) { return line.slope * x * x + line.start; }
[Differentiable] void split(double x, inout double y, out double z) { z = x * y; y = x + y; }
"""


@pytest.fixture(scope="module")
def maps() -> Any:
    return torch_slang.load(source=SOURCE, name="test_function_map", namespace="test_function_map")


def random(*shape: int, requires_grad: bool = False) -> Tensor:
    return torch.rand(*shape, dtype=torch.float64, requires_grad=requires_grad)


def test_an_outer_product(maps: Any) -> None:
    a, b = random(3), random(4)
    expected = a[:, None] * b[None] ** 2
    torch.testing.assert_close(maps.product.map(a=(0,), b=(1,))(a, b), expected)
    torch.testing.assert_close(maps.product.map((0,), (1,))(a, b=b), expected)
    torch.testing.assert_close(maps.product.map((0,), b=[1])(b=b, a=a), expected)


def test_negative_dimensions_count_from_the_calls_last(maps: Any) -> None:
    a, b = random(3), random(4, 3)
    torch.testing.assert_close(maps.product.map(a=(-2,), b=(-1, -2))(a, b), a[:, None] * b.T**2)
    torch.testing.assert_close(maps.product.map(a=(-2,))(a, random(3, 4).zero_() + 1), a[:, None].expand(3, 4))


def test_dimensions_are_reordered(maps: Any) -> None:
    a, b = random(2, 3, 4), random(4, 2)
    result = maps.product.map(a=(2, 0, 1), b=(1, 2))(a, b)
    torch.testing.assert_close(result, a.permute(1, 2, 0) * b[None] ** 2)


def test_arguments_without_a_map_broadcast_from_the_right(maps: Any) -> None:
    a, b = random(3, 4), random(3)
    torch.testing.assert_close(maps.product.map(b=(0,))(a, b), a * b[:, None] ** 2)
    torch.testing.assert_close(maps.product.map(None, (0,))(2, b), 2 * b**2)


def test_a_vectors_components_are_not_named(maps: Any) -> None:
    a, b, scale = random(5, 3), random(3), random(2)
    result = maps.dotted.map(a=(1,), b=(), scale=(0,))(a, b, scale)
    torch.testing.assert_close(result, (a @ b)[None] * scale[:, None] ** 2)


def test_a_structs_fields_have_maps(maps: Any) -> None:
    slope, start, x = random(2), random(3), random(2)
    result = maps.at.map(line={"slope": (0,), "start": (1,)}, x=(0,))({"slope": slope, "start": start}, x)
    torch.testing.assert_close(result, (slope * x**2)[:, None] + start[None])


def test_several_results_have_the_calls_shape(maps: Any) -> None:
    x, y = random(3), random(4)
    result = maps.split.map(x=(0,), y=(1,))(x, y)
    torch.testing.assert_close(result.y, x[:, None] + y[None])
    torch.testing.assert_close(result.z, x[:, None] * y[None])


def test_a_given_result_is_written_into(maps: Any) -> None:
    a, b = random(3), random(4)
    result = torch.empty(3, 4, dtype=torch.float64)
    mapped = maps.product.map((0,), (1,))
    assert mapped(a, b, _result=result) is result
    torch.testing.assert_close(result, a[:, None] * b[None] ** 2)
    torch.testing.assert_close(mapped.return_type("tensor")(a, b), result)


def test_gradients_are_reduced_over_what_was_not_named(maps: Any) -> None:
    a, b, scale = random(5, 2, 3, requires_grad=True), random(3, requires_grad=True), random(4, requires_grad=True)
    mapped = maps.dotted.map(a=(2, 0), scale=(1,))
    assert torch.autograd.gradcheck(mapped, (a, b, scale))
    expected = torch.einsum("jik,k,l->ilj", a, b, scale**2)
    weights = random(2, 4, 5)
    ours = torch.autograd.grad((mapped(a, b, scale) * weights).sum(), (a, b, scale))
    torch.testing.assert_close(ours, torch.autograd.grad((expected * weights).sum(), (a, b, scale)))


def test_bwds_adds_gradients_in_the_arguments_shapes(maps: Any) -> None:
    a, b = random(4, 1, 3, requires_grad=True), random(2, requires_grad=True)
    mapped = maps.product.map(a=(3, 0, 1), b=(2,))
    result = mapped(a, b).detach()
    assert result.shape == (1, 3, 2, 4)
    result.grad = random(1, 3, 2, 4)
    a.grad = torch.ones_like(a)
    mapped.bwds(a, b, _result=result)
    expected = a.permute(1, 2, 0)[:, :, None] * b[:, None] ** 2
    of_a, of_b = torch.autograd.grad((expected * result.grad).sum(), (a, b))
    torch.testing.assert_close(a.grad, of_a + 1)
    torch.testing.assert_close(b.grad, of_b)


def test_bwds_of_a_struct(maps: Any) -> None:
    slope, x = random(2, requires_grad=True), random(3, requires_grad=True)
    mapped = maps.at.map(line={"slope": (0,)}, x=(1,))
    result = mapped((slope, 1.0), x).detach()
    result.grad = torch.ones_like(result)
    mapped.bwds((slope, 1.0), x, _result=result)
    torch.testing.assert_close(slope.grad, (x.detach() ** 2).sum().expand(2))
    torch.testing.assert_close(x.grad, 2 * x.detach() * slope.detach().sum())


def test_maps_are_traced_whole_and_vectorized(maps: Any) -> None:
    def outer(a: Tensor, b: Tensor) -> Tensor:
        result: Tensor = maps.product.map(a=(0,), b=(1,))(a, b)
        return result

    a, b = random(3, requires_grad=True), random(4)
    compiled = torch.compile(outer, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(a, b), outer(a, b))
    torch.testing.assert_close(torch.autograd.grad(compiled(a, b).sum(), a), torch.autograd.grad(outer(a, b).sum(), a))
    several = random(5, 3)
    torch.testing.assert_close(
        torch.func.vmap(outer, (0, None))(several, b), torch.stack([outer(one, b) for one in several])
    )


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"a": (1,)}, r"map: no argument has dimension 0 of the call's 2"),
        ({"a": (0, 1)}, r"map: expected a \(T\) to have 2 dimensions before .* for \(0, 1\), but got shape \[3\]"),
        ({"a": ()}, r"map: expected a \(T\) to have 0 dimensions before .* but got shape \[3\]"),
        ({"a": (10**12,)}, r"map: no argument has dimension 0 of the call's 1000000000001"),
        ({"b": (0,)}, r"map: expected b \(T\) to have 1 dimensions before .* but got shape \[\]"),
    ],
)
def test_maps_that_do_not_fit_the_tensors(maps: Any, mapping: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=r"test_function_map::product<T>.*" + message):
        maps.product.map(**mapping)(random(3), 2.0)


def test_a_dimension_is_named_once_however_it_is_counted(maps: Any) -> None:
    with pytest.raises(TypeError, match=r"expected a \(T\) to name each of the call's 2 dimensions once.*\(1, -1\)"):
        maps.product.map(a=(1, -1))(random(3, 3), 2.0)


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "message"),
    [
        ("product", ((0,), (1,), (2,)), {}, "expected at most 2 arguments, but got 3"),
        ("product", (), {"c": (0,)}, "there is no argument c"),
        ("product", ((0,),), {"a": (0,)}, "got two values for a"),
        ("product", ((0, 0),), {}, r"expected a \(T\) to name each dimension once, but got \(0, 0\)"),
        ("product", (1,), {}, r"expected a \(T\) to be a tuple of dimensions or a type's name, but got 1"),
        ("product", ((0.5,),), {}, r"expected a \(T\) to be a tuple of dimensions or a type's name, but got \(0.5,\)"),
        ("at", (), {"x": "float"}, r"expected the type of x \(double\) as Slang has it, but got 'float'"),
        ("at", ((0,),), {}, r"expected line \(Line\) to be a mapping of its fields to their dimensions"),
        ("at", ({"stop": (0,)},), {}, r"line \(Line\) has no field stop"),
    ],
)
def test_maps_that_are_wrong(maps: Any, name: str, args: Any, kwargs: Any, message: str) -> None:
    with pytest.raises(TypeError, match="map: " + message):
        getattr(maps, name).map(*args, **kwargs)


def test_types_are_checked_and_change_nothing(maps: Any) -> None:
    x = random(3)
    torch.testing.assert_close(maps.at.map("Line", "double")((2.0, 1.0), x), 2 * x * x + 1)


def test_a_map_says_what_it_is(maps: Any) -> None:
    assert repr(maps.product.map(b=(1,))).endswith("with map(b=(1,))>")
    assert maps.product.as_func() is maps.product
