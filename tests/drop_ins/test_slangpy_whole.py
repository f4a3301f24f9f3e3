"""Tensors that programs of SlangPy pass whole: of more dimensions, constants, leaves, of structs; and lookups."""

from __future__ import annotations

import functools

import pytest
import torch

from torch_slang import slangpy

SOURCE = """
import slangpy;

[Differentiable]
float weighed(DiffTensor<float, 1> t, float scale)
{
    float sum = 0;
    [MaxIters(8)] for (int i = 0; i < t.shape[0]; ++i) sum += t[i] * t[i];
    return sum * scale;
}
float scaled(Tensor<float, 1> t, float x) { return t[0] * x; }
float with_view(Tensor<float, 1> t, TensorView<float> v) { return t[0] + v[0]; }
struct Pair { float a, b; }
float with_struct(Tensor<float, 1> t, Pair p) { return t[0] + p.a; }
[Differentiable]
void square_into(uint i, DiffTensor<float, 1> x, RWDiffTensor<float, 1> y) { y[i] = x[i] * x[i]; }
void add(Tensor<float, 2> a, Tensor<float, 1> b, WTensor<float, 2> to)
{
    for (int i = 0; i < a.shape[0]; ++i)
        for (int j = 0; j < a.shape[1]; ++j) to[i, j] = a[i, j] + b[j];
}
[Differentiable]
void cube(uint i, DiffTensor<float, 1> x, WDiffTensor<float, 1> y) { y[i] = x[i] * x[i] * x[i]; }

struct Particle { float3 place; float3 speed; }
void move(Tensor<Particle, 1> from, float time, WTensor<Particle, 1> to)
{
    for (uint i = 0; i < from.shape[0]; ++i)
    {
        Particle moved = from[i];
        moved.place += time * moved.speed;
        to[i] = moved;
    }
}
float lookup(float2 uv, Tensor<float, 2> t) { return t.sample(uv); }
float rank_of(Tensor<float, 1> t) { return 1; }
float rank_of(Tensor<float, 2> t) { return 2; }
half4 lookup_vector(float2 uv, RWTensor<half4, 2> t) { return t.sample(uv); }
"""


@functools.cache
def module() -> slangpy.Module:
    return slangpy.Module.load_from_source(slangpy.create_torch_device(), "slangpy_whole", SOURCE)


@pytest.mark.parametrize("before", [(), (3,), (2, 3)])
def test_a_call_goes_over_the_dimensions_before_those_that_are_seen(
    device: torch.device, before: tuple[int, ...]
) -> None:
    t = torch.randn(*before, 5, device=device, requires_grad=True)
    scale = torch.rand(before, device=device, requires_grad=True)
    result = module().weighed(t, scale)
    expected = t.square().sum(-1) * scale
    torch.testing.assert_close(result, expected)
    grad = torch.randn(before, device=device)
    found = torch.autograd.grad(result, (t, scale), grad)
    torch.testing.assert_close(found, torch.autograd.grad(expected, (t, scale), grad))


def test_tensors_of_fewer_dimensions_are_the_same_in_all_calls(device: torch.device) -> None:
    a, b = torch.rand(4, 3, 2, 5, device=device), torch.rand(3, 5, device=device)
    to = torch.full_like(a, torch.nan)
    assert module().add(a, b, to) is None
    torch.testing.assert_close(to, a + b[:, None])


def test_dimensions_choose_among_overloads() -> None:
    assert [module().rank_of(torch.rand((2,) * rank)).tolist() for rank in (1, 2, 3)] == [1, 2, [2, 2]]
    with pytest.raises(TypeError, match=r"t \(Tensor<float, ?1>\) does not fit shape \[\]"):
        module().rank_of(torch.rand(()))


def test_what_is_written_must_have_all_dimensions(device: torch.device) -> None:
    with pytest.raises(RuntimeError, match="vmap"):
        module().add(torch.rand(4, 2, 5, device=device), torch.rand(5, device=device), torch.zeros(2, 5, device=device))


def test_tensors_without_gradients_by_their_type_are_constants(device: torch.device) -> None:
    a = torch.rand(2, 5, device=device, requires_grad=True)
    to = torch.zeros(2, 5, device=device)
    module().add(a, torch.zeros(5, device=device, requires_grad=True), to)
    torch.testing.assert_close(to, a.detach())
    assert not to.requires_grad


def test_a_leaf_that_is_written_is_a_result_then(device: torch.device) -> None:
    x = torch.randn(4, device=device, requires_grad=True)
    y = torch.zeros(5, device=device, requires_grad=True)
    module().cube(slangpy.grid((4,)), x, y)
    weights = torch.randn(5, device=device)
    (y * weights).sum().backward()
    torch.testing.assert_close(y[:4], x**3)
    torch.testing.assert_close(x.grad, 3 * x.detach() ** 2 * weights[:4])
    torch.testing.assert_close(y.grad, weights)  # as of a leaf


def test_a_leaf_is_as_before_where_the_call_fails(device: torch.device) -> None:
    y = torch.zeros(5, device=device, requires_grad=True)
    with pytest.raises(RuntimeError, match="float32"):
        module().cube(slangpy.grid((4,)), torch.ones(4, device=device).double(), y)
    assert y.is_leaf
    assert y.requires_grad


def test_tensors_of_structs(device: torch.device) -> None:
    numbers = torch.randn(3, 6, device=device)
    given = slangpy.Tensor.from_torch(None, numbers, dtype=module().Particle)
    to = slangpy.Tensor.from_torch(None, torch.zeros_like(numbers), dtype=module().Particle)
    module().move(given, 0.5, to)
    moved = torch.cat([numbers[:, :3] + 0.5 * numbers[:, 3:], numbers[:, 3:]], 1)
    torch.testing.assert_close(to.to_torch(), moved)
    assert given.shape == (3,)
    assert given.to_numpy().tobytes() == numbers.cpu().numpy().tobytes()
    with pytest.raises(ValueError, match=r"shape \[3, 5\] does not match <slangpy struct Particle>"):
        slangpy.Tensor.from_torch(None, numbers[:, :5], dtype=module().Particle)


def test_bilinear_lookups(device: torch.device) -> None:
    t = torch.rand(4, 6, device=device)
    uv = torch.rand(50, 2, device=device)
    uv[:4] = torch.tensor([[0.0, 0.0], [1.0, 1.0], [0.999, 0.0], [0.0, 0.999]])
    place = uv * torch.tensor([6.0, 4.0], device=device)
    last = torch.tensor([5, 3], device=device)
    low, high = place.long().minimum(last), (place.long() + 1).minimum(last)
    x, y = place.frac().unbind(-1)
    above = torch.lerp(t[low[:, 1], low[:, 0]], t[low[:, 1], high[:, 0]], x)
    below = torch.lerp(t[high[:, 1], low[:, 0]], t[high[:, 1], high[:, 0]], x)
    torch.testing.assert_close(module().lookup(uv, t), torch.lerp(above, below, y))
    vectors = torch.stack([t, -t, 2 * t, torch.zeros_like(t)], -1).half()
    expected = torch.lerp(above, below, y)[:, None] * torch.tensor([1.0, -1.0, 2.0, 0.0], device=device)
    torch.testing.assert_close(module().lookup_vector(uv, vectors).float(), expected, rtol=5e-3, atol=5e-3)


def test_other_arguments_broadcast_with_the_call_from_the_right(device: torch.device) -> None:
    t = torch.tensor([[1.0, 0.0], [10.0, 0.0]], device=device)
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], device=device)
    torch.testing.assert_close(module().scaled(t, x), t[:, 0] * x)
    for shape in ((3, 2), (1,), (1, 2), (3, 1), ()):
        x = torch.rand(shape, device=device)
        torch.testing.assert_close(module().scaled(t, x), t[:, 0] * x)
    torch.testing.assert_close(
        module().scaled(t[:1], torch.rand(3, device=device) * 0 + 2), torch.full((3,), 2.0).to(t)
    )
    with pytest.raises(TypeError, match=r"the dimensions of the call do not broadcast, t: \[2\], x: \[3\]"):
        module().scaled(t, torch.rand(3, device=device))


def test_calls_over_dimensions_want_numbers_and_tensors_alone(device: torch.device) -> None:
    t = torch.rand(2, 3, device=device)
    for other, call in (
        ("v is a TensorView<float>", lambda: module().with_view(t, torch.rand(2, device=device))),
        ("p is a Pair", lambda: module().with_struct(t, {"a": torch.rand(2, device=device), "b": 0.0})),
        ("x is a generator", lambda: module().scaled(t, slangpy.rand_float())),
    ):
        rule = rf"expected t \(Tensor<float, ?1>\) to have just the dimensions .* \[2, 3\].* {other}"
        with pytest.raises(TypeError, match=rule):
            call()


def test_a_leaf_that_is_read_too_is_refused(device: torch.device) -> None:
    y = torch.ones(3, device=device, requires_grad=True)
    for x in (y, y.view(3)):
        with pytest.raises(RuntimeError, match="leaf"):
            module().square_into(slangpy.grid((3,)), x, y)
    assert y.is_leaf
