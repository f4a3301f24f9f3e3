"""SlangPy's names: what `inout` parameters write, under maps and autograd, and values that are set."""

from __future__ import annotations

from dataclasses import make_dataclass
from typing import Any

import numpy as np
import pytest
import torch
from long_tests import some_tests

from torch_slang import slangpy

pytestmark = some_tests(5)

SOURCE = """
// uniform float gain; extern static const int kOther = 3;
#if 1
uniform float gain;
#else
uniform int gain;
#endif
uniform float2 tint;
struct Lens { double focus; bool on; }
struct Camera { float x, y; Lens lens; }
ParameterBlock<Camera> camera;
extern static const int kCount = 3;
float first_of(float x[kCount]) { return x[0] * kCount; }
float gained(float x) { return x * gain + tint.x + 2 * tint.y + kCount; }
double exposed(double x) { return camera.lens.on ? x * camera.lens.focus + camera.y : 0; }
[Differentiable] void mix(inout float x, float y, out float z) { z = x * y; x += y * y; }
[Differentiable] float scaled(float2 x, float y) { return x.x * x.y * y; }
struct Line : IDifferentiable
{
    float slope; float2 at;
    [Differentiable] [mutating] void scale(float s) { slope *= s; at = at * s * s; }
};
struct Pair : IDifferentiable
{
    Line line; float own;
    [Differentiable] [mutating] void scale(float s) { line.slope *= s; own *= s; }
};
void count(uint3 id, RWTensor<float, 1> into) { into[id.x] += 1; }
T sized<T : __BuiltinFloatingPointType, let N : int>(T x) { return x + T(N); }
[Differentiable] void spread<T : __BuiltinFloatingPointType, let N : int>(T x, out vector<T, N> y, vector<T, N> z)
{
    y = x * z;
}
"""


@pytest.fixture(scope="module")
def module() -> Any:
    source = f"import slangpy;\n{SOURCE}"
    return slangpy.Module.load_from_source(slangpy.create_torch_device(), "test_slangpy_written", source)


@pytest.mark.parametrize("shape", [(3, 3), (3, 4), (0, 2), (1, 1)])
def test_a_mapped_inout_parameter_is_written_along_its_own_dimensions(module: Any, shape: tuple[int, int]) -> None:
    x, y, z = torch.rand(shape), torch.rand(shape[1]), torch.empty(shape).T.contiguous()
    before = x.clone()
    module.mix.map((1, 0), y=(0,))(x, y, z)
    torch.testing.assert_close(x, before + y * y)
    torch.testing.assert_close(z, (before * y).T)


def test_gradients_go_through_inout_parameters(module: Any) -> None:
    x, y = torch.rand(3, 2).T.requires_grad_(), torch.rand(3, requires_grad=True)
    changed, z = x * 2, torch.empty(2, 3)
    module.mix(changed, y, z)

    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        changed, z = x * 2, torch.empty(2, 3)
        module.mix(changed, y, z)
        return (changed.square() + z.sin()).sum()

    compiled = torch.compile(program, fullgraph=True, backend="aot_eager")(x, y)
    torch.testing.assert_close(torch.autograd.grad(compiled, (x, y)), torch.autograd.grad(program(x, y), (x, y)))
    wide = [one.detach().double().requires_grad_() for one in (x, y)]
    grads = torch.autograd.grad((changed.square() + z.sin()).sum(), (x, y))
    wanted = torch.autograd.grad(((2 * wide[0] + wide[1] ** 2).square() + (2 * wide[0] * wide[1]).sin()).sum(), wide)
    for got, want in zip(grads, wanted, strict=True):
        torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-6)


def test_gradients_go_through_mutating_methods(module: Any) -> None:
    base, s = torch.rand(4, 3, requires_grad=True), torch.rand(4, requires_grad=True)
    instances = slangpy.InstanceList(module.Line, {"slope": base[:, 0] * 1, "at": base[:, 1:] * 1})
    instances.scale(s)
    grads = torch.autograd.grad(instances.slope.square().sum() + instances.at.square().sum(), (base, s))
    wide = [one.detach().double().requires_grad_() for one in (base, s)]
    slope, at = wide[0][:, 0] * wide[1], wide[0][:, 1:] * wide[1][:, None] ** 2
    for got, want in zip(grads, torch.autograd.grad(slope.square().sum() + at.square().sum(), wide), strict=True):
        torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-6)


def test_nested_dictionaries_that_name_their_type_are_written_beside_gradients(module: Any) -> None:
    line = {"_type": "Line", "slope": torch.ones(3), "at": torch.zeros(2)}
    own = torch.ones(3, requires_grad=True) * 1
    slangpy.InstanceList(module.Pair, {"line": line, "own": own}).scale(2.0)
    assert line["slope"].tolist() == own.tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("x", "rule"),
    [
        (torch.ones(3, dtype=torch.int32), r"x is written, so it must hold torch.float32, but got torch.int32"),
        (torch.ones(3, requires_grad=True), r"mix\(.*\).*: x is written, .* got a leaf that requires grad"),
        (torch.ones(1).expand(3), r"mix\(.*\).*: x is written, .* got an expanded tensor"),
        (slangpy.floatRef(2.0), r"x is one number, but the call has shape \[3\]"),
    ],
)
def test_what_cannot_be_written_is_named(module: Any, x: Any, rule: str) -> None:
    with pytest.raises((TypeError, RuntimeError), match=rule):
        module.mix(x, torch.rand(3), torch.empty(3))


def test_nothing_is_written_where_one_field_cannot_be(module: Any) -> None:
    slope = torch.ones(3)
    instances = slangpy.InstanceList(module.Line, {"slope": slope, "at": torch.zeros(3, 2, requires_grad=True)})
    with pytest.raises(RuntimeError, match=r"this\.at is written, .* but got a leaf that requires grad"):
        instances.scale(2.0)
    frozen = make_dataclass("Frozen", ["slope", "at"], frozen=True)(slope, (1.0, 2.0))
    with pytest.raises(TypeError, match=r"this\.at is written, so this must be one whose fields can be set"):
        slangpy.InstanceList(module.Line, frozen).scale(torch.full((3,), 2.0))
    assert slope.tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match=r"scaled: expected _result to be a tensor to write into, but got a leaf"):
        module.scaled(torch.ones(3, 2), 1.0, _result=torch.ones(3, requires_grad=True))


def test_vectors_by_their_components(module: Any) -> None:
    x = torch.rand(4, 1, requires_grad=True)
    y = torch.rand(3, dtype=torch.float16, requires_grad=True)
    result = module.scaled({"_type": "float2", "x": x, "y": y}, 2.0)
    torch.testing.assert_close(result, x * y * 2)
    gradient = torch.rand(4, 3)
    grads = torch.autograd.grad(result, (x, y), gradient)
    torch.testing.assert_close(grads[0], (gradient * y * 2).sum(1, keepdim=True))
    torch.testing.assert_close(grads[1], (gradient * x * 2).sum(0).half(), rtol=1e-2, atol=1e-3)
    result = result.detach()
    result.grad = gradient
    module.scaled.bwds({"x": x, "y": y}, 2.0, _result=result)
    torch.testing.assert_close((x.grad, y.grad), grads)
    wide = [one.detach().double().requires_grad_() for one in (x, y)]
    assert torch.autograd.gradcheck(lambda x, y: module.spread(x, {"x": y, "y": x}), wide)
    written = {"x": torch.ones(3), "y": 1.0}
    slangpy.InstanceList(module.Line, {"slope": torch.ones(3), "at": written}).scale(torch.tensor([1.0, 2.0, 3.0]))
    assert written["x"].tolist() == written["y"].tolist() == [1, 4, 9]
    assert module.spread(1.0, {"_type": "double3", "x": 1, "y": 2, "z": y}).dtype == torch.float64


@pytest.mark.parametrize(
    ("vector", "rule"),
    [
        ({"x": 1.0}, r"x \(vector<float,2>\) lacks field y"),
        ({"x": 1.0, "y": 1.0, "z": 1.0}, r"x \(vector<float,2>\) has no field z"),
        ({"_type": "float3", "x": 1.0, "y": 1.0}, r"the type of x .* but got 'float3'"),
        ({"x": 1.0, "y": torch.ones(2, dtype=torch.float64)}, r"component y of x .* to have dtype torch.float32"),
        ({"x": torch.ones(3), "y": torch.ones(2)}, r"the components of x .* do not broadcast.* x: \[3\], y: \[2\]"),
        ({"x": slangpy.rand_float(), "y": 1.0}, r"component x of x .* but got a generator"),
    ],
)
def test_components_that_do_not_fit(module: Any, vector: dict[str, Any], rule: str) -> None:
    with pytest.raises(TypeError, match=rule):
        module.scaled(vector, 1.0)


def test_maps_of_no_dimensions_and_of_types(module: Any) -> None:
    x, y = torch.rand(3, 2, requires_grad=True), torch.rand((), requires_grad=True)
    result = module.scaled.map((0,), ())(x, y)
    torch.testing.assert_close(result, x[:, 0] * x[:, 1] * y)
    grads = torch.autograd.grad(result.sum(), (x, y))
    torch.testing.assert_close(grads[1], (x[:, 0] * x[:, 1]).sum())
    assert module.scaled.map("float2", "float")(x, y).shape == (3,)
    assert module.scaled.map(slangpy.float2)(x, y).shape == (3,)
    with pytest.raises(TypeError, match="the type of x"):
        module.scaled.map("float3")


def test_types_in_a_map_say_what_generic_arguments_are(module: Any) -> None:
    x, z = torch.rand(4, requires_grad=True), torch.rand(3, 2)
    assert module.spread.map("double", z="double2")(2.0, z).dtype == torch.float64
    assert module.spread.map(float, "float2", slangpy.float2)(x, torch.empty(4, 2), z[0]) is None
    y = torch.empty(4, 3, 2)
    module.spread.map((1,), y=(1, 0), z=(0,))(x, y, z)
    wanted = x.detach()[:, None, None] * z
    torch.testing.assert_close(y, wanted)
    (grad,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(grad, z.sum().expand(4))
    y, leaf = torch.empty(4, 3, 2), x.detach().requires_grad_()
    y.grad = torch.ones_like(y)
    module.spread.bwds.map((1,), y=(1, 0), z=(0,))(leaf, y, z)
    torch.testing.assert_close(leaf.grad, grad)
    typed = module.spread.map(z="double2")
    calls = [lambda x: typed(x, z)]
    if torch.__version__ >= (2, 13):  # older releases do not trace what chooses the types
        calls.append(lambda x: module.spread.map(z="double2")(x, z))
    for call in calls:
        assert torch.compile(call, fullgraph=True, backend="aot_eager")(torch.ones(4, 1)).dtype == torch.float64
    assert module["sized<float, 3>"].set(gain=2.0)(1.0) == 4
    assert module.device_module.spread.map("double", z="double2")(2.0, z).dtype == torch.float64
    with pytest.raises(TypeError, match=r"T is float by the type of x \(T\), but double by that of z"):
        module.spread.map("float", z="double2")
    with pytest.raises(TypeError, match=r"map: expected x \(T\) to be the type of a number, .* but got 'float3'"):
        module.spread.map("float3")
    with pytest.raises(TypeError, match=r"expected T to be a type that it allows, but got int"):
        module.spread.map("int")
    with pytest.raises(TypeError, match=r"expected y, which is written, to name each of the call's 2 dimensions once"):
        module.spread.map((1,), y=(0,), z=(0,))(x, y, z)


def test_values_are_set_again(module: Any) -> None:
    x = torch.rand(3)
    first = module.gained.set(gain=2.0, tint=[1, 2])
    torch.testing.assert_close(first(x), 2 * x + 8)
    torch.testing.assert_close(first.set(gain=np.float32(3), tint=np.array([0.0, 1.0]))(x), 3 * x + 5)
    torch.testing.assert_close(first.constants({"kCount": 1}).constants({"kCount": 7})(x), 2 * x + 12)
    torch.testing.assert_close(first(x), 2 * x + 8)


def test_an_array_whose_size_is_an_extern_constant_is_refused_until_it_is_set(module: Any) -> None:
    with pytest.raises(AttributeError, match=r"parameter x has the type float\[kCount\], .* arrays of known size"):
        module.first_of  # noqa: B018
    assert module.with_constants({"kCount": 2}).first_of(torch.tensor([3.0, 1.0])) == 6


def test_a_block_of_uniforms_is_set_by_its_fields(module: Any) -> None:
    lens = {"focus": 0.1, "on": True}
    assert module.exposed.set({"camera": {"x": 1, "y": 2, "lens": lens}})(10.0) == 10 * 0.1 + 2
    with pytest.raises(TypeError, match=r"the value of camera \(Camera\) lacks field y, lens"):
        module.exposed.set(camera={"x": 1})
    with pytest.raises(TypeError, match=r"the value of camera.lens \(Lens\) has no field gain"):
        module.exposed.set(camera={"x": 1, "y": 2, "lens": {**lens, "gain": 1}})
    with pytest.raises(ValueError, match=r"there is no extern static const kOther .* which has: kCount"):
        module.exposed.constants({"kOther": 1})
    with pytest.raises(slangpy.SlangCompileError, match=r"uniforms get their values by set: function.set\({'gain'"):
        module.gained(1.0)


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ({"tint": (0, 0, 0)}, "float2"),
        ({"tint": [1]}, "float2"),
        ({"gain": float("inf")}, "float"),
        ({"gain": [1, 2]}, "float"),
    ],
)
def test_values_that_do_not_fit_their_declaration(module: Any, values: dict[str, Any], shown: str) -> None:
    with pytest.raises(TypeError, match=f"the value of {next(iter(values))} to be a finite {shown}, but got"):
        module.gained.set(values)
    with pytest.raises(TypeError, match=r"kCount to be a finite int, but got 2\.5"):
        module.gained.constants({"kCount": 2.5})


def test_dispatch_says_what_sizes_it_takes(module: Any) -> None:
    into = torch.zeros(4)
    module.count.dispatch(np.array([4, 1, 1]), into=into)
    assert into.tolist() == [1, 1, 1, 1]
    for wrong in ((-1, 1, 1), (1, 1, 1, 1)):
        with pytest.raises(ValueError, match="expected thread_count to be up to 3 sizes"):
            module.count.dispatch(wrong, into=into)


def test_generic_arguments_that_do_not_fit_say_why(module: Any) -> None:
    with pytest.raises(ValueError, match="expected N to be at least 1, but got -5"):
        module.require_function("sized<float, -5>")
