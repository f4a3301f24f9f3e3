"""SlangPy's names: modules from files and source, their functions, what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from long_tests import some_tests

import torch_slang.slangpy as slangpy

pytestmark = some_tests(5)

SQUARE = "[Differentiable] float square(float x) { return x * x; }"


def test_a_module_from_source() -> None:
    device = slangpy.create_torch_device(enable_hot_reload=False)
    module = slangpy.Module.load_from_source(device, "test_slangpy", SQUARE)
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = module.square(x)
    y.sum().backward()
    assert y.tolist() == [1, 4, 9]
    assert x.grad is not None
    assert x.grad.tolist() == [2, 4, 6]
    assert module["square"] is module.require_function("square") is module.square.as_func()
    assert module.find_struct("square") is None
    assert module.square.map((1, 0))(torch.ones(2, 3)).shape == (3, 2)


def test_modules_with_functions_of_one_name_stand_apart() -> None:
    device = slangpy.create_torch_device()
    first = slangpy.Module.load_from_source(device, "same", SQUARE)
    second = slangpy.Module.load_from_source(device, "same", SQUARE.replace("x * x", "x * x + 1"))
    assert [first.square(3.0), second.square(3.0), first.square(2.0)] == [9, 10, 4]


@pytest.mark.parametrize("name", ["squares", "squares.slang"])
def test_a_file_is_found_in_the_include_paths(tmp_path: Path, name: str) -> None:
    (tmp_path / "squares.slang").write_text(SQUARE)
    device = slangpy.create_torch_device(include_paths=[tmp_path])
    assert float(slangpy.Module.load_from_file(device, name).square(3.0)) == 9
    assert float(slangpy.Module(device.load_module(name)).square(3.0)) == 9
    with pytest.raises(FileNotFoundError, match="slangpy: there is no module cubes in "):
        device.load_module("cubes")


def test_dictionaries_name_their_type() -> None:
    source = "struct Line { float slope; float start; }\nfloat at(Line line, float x) { return line.slope * x; }"
    module = slangpy.Module.load_from_source(slangpy.create_torch_device(), "lines", source)
    assert float(module.at({"_type": "Line", "slope": 2.0, "start": 1.0}, 3.0)) == 6
    with pytest.raises(TypeError, match=r"expected line \(Line\) to be of that type, but its _type is 'Curve'"):
        module.at({"_type": "Curve", "slope": 2.0, "start": 1.0}, 3.0)
    with pytest.raises(TypeError, match=r"line \(Line\) lacks field start"):
        module.at({"_type": "Line", "slope": 2.0}, 3.0)


def test_what_is_not_there() -> None:
    device = slangpy.create_torch_device()
    module = slangpy.Module.load_from_source(device, "test_slangpy", SQUARE)
    assert module.find_function("cube") is None
    with pytest.raises(ValueError, match="slangpy: there is no function cube"):
        module.require_function("cube")
    with pytest.raises(AttributeError, match="cube"):
        module.cube  # noqa: B018
    with pytest.raises(TypeError, match="there is no link here"):
        slangpy.Module.load_from_source(device, "test_slangpy", SQUARE, link=[module])
    with pytest.raises(TypeError, match="expected no options, but got strict_broadcasting"):
        slangpy.Module.load_from_source(device, "test_slangpy", SQUARE, {"strict_broadcasting": True})


PARTICLES = """
struct Material : IDifferentiable { float3 color; float gloss; }
struct Particle : IDifferentiable
{
    float2 position;
    float2 velocity;
    Material material;
    [Differentiable] float energy(float mass) { return mass * dot(velocity, velocity) / 2; }
    [mutating] void step(float dt) { position += velocity * dt; material.gloss *= 2; }
    [mutating] float move(float2 by) { position += by; return position.x; }
}
"""


def particles() -> slangpy.Module:
    return slangpy.Module.load_from_source(slangpy.create_torch_device(), "particles", PARTICLES)


def fields() -> dict[str, Any]:
    return {
        "position": torch.zeros(3, 2),
        "velocity": torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
        "material": {"color": torch.ones(3), "gloss": torch.ones(3)},
    }


def test_instances_have_methods_that_write_back() -> None:
    data = fields()
    instances = slangpy.InstanceList(particles().Particle, data)
    assert instances.step(0.5) is None
    assert data["position"].tolist() == [[0.5, 1.0], [1.5, 2.0], [2.5, 3.0]]
    assert instances.position is data["position"]
    assert data["material"]["gloss"].tolist() == [2, 2, 2]
    assert instances.move((1.0, 0.0)).tolist() == [1.5, 2.5, 3.5]
    assert instances.energy(2.0).tolist() == [5, 25, 61]


CONSTRUCTED = """
struct Lens : IDifferentiable { float2 center; float focus; __init(float2 c, float f) { center = c; focus = f; } }
struct Camera : IDifferentiable
{
    float gain;
    Lens lens;
    __init(float2 center, float focus) { gain = 1; lens = Lens(center, focus); }
    __init(float gain) { this.gain = gain; lens = Lens(float2(0), 2 * gain); }
    [Differentiable] float power() { return gain * lens.focus; }
}
struct Point : IDifferentiable
{
    float x, y;
    [Differentiable] __init(float t) { x = t; y = t * t; }
    [Differentiable] float sum() { return x + y; }
}
struct Bare { float a; float sum() { return a; } }
"""


@pytest.fixture
def constructed() -> slangpy.Module:
    return slangpy.Module.load_from_source(slangpy.create_torch_device(), "constructed", CONSTRUCTED)


@pytest.mark.parametrize("data", [None, {}, {"lens": {"focus": torch.zeros(3)}}], ids=["none", "empty", "some"])
def test_construct_makes_fields(constructed: slangpy.Module, data: Any) -> None:
    instances = slangpy.InstanceList(constructed.Camera, data)
    centers = torch.rand(3, 2)
    instances.construct(centers, torch.tensor([1.0, 2.0, 3.0]))
    assert torch.equal(instances.lens["center"], centers)
    assert instances.gain.tolist() == [1, 1, 1]
    assert instances.power().tolist() == [1, 2, 3]
    instances.construct(torch.tensor([4.0, 5.0, 6.0]))  # the other constructor
    assert instances.lens["focus"].tolist() == [8, 10, 12]
    assert instances.power().tolist() == [32, 50, 72]


def test_construct_writes_into_what_is_there(constructed: slangpy.Module) -> None:
    @dataclass
    class Lens:
        center: Any
        focus: Any

    focus = torch.zeros(2, 3)
    lens = Lens((1.0, 2.0), focus)
    data = {"gain": 7.0, "lens": lens}
    slangpy.InstanceList(constructed.Camera, data).construct((3.0, 4.0), torch.arange(3.0))
    assert focus.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert lens.focus is focus
    assert lens.center.tolist() == [[3, 4]] * 3
    tensor = slangpy.InstanceTensor(constructed.Camera, (2, 3))
    tensor.construct(torch.arange(6.0).reshape(2, 3))
    assert tensor.tensor[1].tolist() == [[3, 0, 0, 6], [4, 0, 0, 8], [5, 0, 0, 10]]
    tensor.construct(1.0)  # all alike
    assert tensor.tensor.tolist() == [[[1, 0, 0, 2]] * 3] * 2


def test_constructors_have_gradients(constructed: slangpy.Module) -> None:
    t = torch.tensor([1.0, 2.0], requires_grad=True)
    points = slangpy.InstanceList(constructed.Point, {})
    points.construct(t)
    points.sum().sum().backward()
    assert t.grad is not None
    assert t.grad.tolist() == [3, 5]
    tensor = slangpy.InstanceTensor(constructed.Point, (2,))
    t.grad = None
    tensor.construct(t)
    tensor.sum().sum().backward()
    assert t.grad.tolist() == [3, 5]


def test_what_cannot_be_constructed(constructed: slangpy.Module) -> None:
    with pytest.raises(TypeError, match=r"the struct Bare has no constructor, __init"):
        slangpy.InstanceList(constructed.Bare, {}).construct(1.0)
    data = {"gain": torch.zeros(3), "lens": {"focus": torch.zeros(2)}}
    instances = slangpy.InstanceList(constructed.Camera, data)
    with pytest.raises(
        TypeError, match=r"tensor of Camera.lens.focus to have the call's shape \[3\], but got shape \[2\]"
    ):
        instances.construct(torch.ones(3))
    assert data["gain"].tolist() == [0, 0, 0]
    with pytest.raises(TypeError, match=r"tensor of Camera.gain to have the call's shape \[4\], but got shape \[3\]"):
        slangpy.InstanceTensor(constructed.Camera, (3,)).construct(torch.ones(4))
    with pytest.raises(TypeError, match=r"no overload fits the arguments"):
        instances.construct(torch.ones(3), torch.ones(3), 1.0)


def test_instances_with_other_fields(constructed: slangpy.Module) -> None:
    with pytest.raises(TypeError, match=r"this \(Point\) lacks field y"):
        slangpy.InstanceList(constructed.Point, {"x": torch.zeros(2)}).sum()
    with pytest.raises(TypeError, match=r"this \(Point\) has no field z"):
        slangpy.InstanceList(constructed.Point, {"x": torch.zeros(2), "y": 1.0, "z": 1.0}).sum()


def test_methods_of_instances_have_gradients() -> None:
    data = fields()
    data["velocity"].requires_grad_()
    slangpy.InstanceList(particles().Particle, data).energy(2.0).sum().backward()
    torch.testing.assert_close(data["velocity"].grad, 2 * data["velocity"].detach())


def test_a_number_that_is_written_becomes_a_tensor() -> None:
    data = {**fields(), "position": (0.0, 0.0), "_type": "Particle"}
    instances = slangpy.InstanceList(particles().Particle, data)
    instances.step(1.0)
    assert instances.position.tolist() == data["position"].tolist() == [[1, 2], [3, 4], [5, 6]]


def test_a_field_that_is_too_small_for_what_is_written() -> None:
    data = {**fields(), "position": torch.zeros(2)}
    with pytest.raises(TypeError, match=r"this.position is written, so it must have the call's shape \[3, 2\]"):
        slangpy.InstanceList(particles().Particle, data).step(1.0)


def test_instances_in_one_tensor() -> None:
    module = particles()
    data = torch.arange(16.0).reshape(2, 8)
    instances = slangpy.InstanceTensor(module.Particle, (2,), data.clone())
    assert instances.velocity.tolist() == [[2, 3], [10, 11]]
    instances.step(1.0)
    assert instances.tensor[:, :2].tolist() == [[2, 4], [18, 20]]
    assert instances.tensor[:, 7].tolist() == [14, 30]
    assert slangpy.InstanceTensor(module.Particle, (4,)).tensor.shape == (4, 8)
    with pytest.raises(ValueError, match=r"expected data to have shape \[2, 8\]"):
        slangpy.InstanceTensor(module.Particle, (2,), torch.zeros(2, 7))


class Wrapped:
    """What SlangPy calls an IThis."""

    def __init__(self) -> None:
        self.data = fields()
        self.updates = 0

    def get_this(self) -> Any:
        return self.data

    def update_this(self, value: Any) -> None:
        self.updates += 1


def test_a_method_bound_to_what_has_its_fields() -> None:
    this = Wrapped()
    particles().Particle.step.bind(this)(0.5)
    assert this.data["position"][0].tolist() == [0.5, 1.0]
    assert this.updates == 1


CALLS = """
extern static const int kCount = 2;
uniform float gain;
float counted(float x) { return x * kCount; }
float gained(float x) { return x * gain; }
float2 pair(float x) { return float2(x, 2 * x); }
half3 halved(half3 x) { return x / half(2); }
bool is_positive(float x) { return x > 0; }
float2x2 matrix(float a, float b) { return float2x2(a, b, b, a); }
struct Two { float a; int b; }
Two two(float a) { Two t; t.a = a; t.b = 3; return t; }
void halve(float x, out float y) { y = x / 2; }
void grow(inout float x, float by) { x += by; }
[Differentiable] float square(float x) { return x * x; }
uint place(uint3 id) { return id.x + 10 * id.y; }
"""


@pytest.fixture(scope="module")
def calls() -> slangpy.Module:
    return slangpy.Module.load_from_source(slangpy.create_torch_device(), "calls", CALLS)


def test_constants_and_uniforms(calls: slangpy.Module) -> None:
    x = torch.tensor([1.0, 2.0])
    assert calls.counted(x).tolist() == [2, 4]
    assert calls.counted.constants({"kCount": 5})(x).tolist() == [5, 10]
    assert calls.gained.set({"gain": 3.0})(x).tolist() == calls.gained.set(gain=3.0)(x).tolist() == [3, 6]
    with pytest.raises(ValueError, match="there is no uniform loss in the module's own text"):
        calls.gained.set(loss=3.0)
    with pytest.raises(TypeError, match="expected the value of gain to be a number or a vector of numbers"):
        calls.gained.set(gain=x)


def test_calls_of_numbers_give_numbers(calls: slangpy.Module) -> None:
    assert calls.is_positive(1.0) is True
    assert calls.square(3) == 9
    pair = calls.pair(2.0)
    assert isinstance(pair, slangpy.float2)
    assert (pair.x, pair.y) == (2, 4)
    assert calls.matrix(1.0, 2.0) == slangpy.math.float2x2([1, 2, 2, 1])
    assert calls.two(1.0) == {"a": 1, "b": 3}
    assert calls.pair(2.0, _result="tensor").tolist() == [2, 4]


def test_what_a_call_writes(calls: slangpy.Module) -> None:
    x, y, number = torch.tensor([1.0, 2.0]), torch.zeros(2), slangpy.floatRef(1.0)
    calls.halve(x, y)
    assert y.tolist() == [0.5, 1]
    calls.grow(x, 2.0)
    assert x.tolist() == [3, 4]
    calls.grow(number, 2.0)
    assert number.value == 3
    calls.halve(4.0, number)
    assert number.value == 2
    tensor = slangpy.Tensor.zeros(None, shape=(2,), dtype="float")
    calls.halve(slangpy.Tensor.from_torch(None, x), tensor)
    assert tensor.to_torch().tolist() == [1.5, 2]


def test_vectors_compute_by_components(calls: slangpy.Module) -> None:
    one = slangpy.float3(slangpy.float2(1, 2), 4)
    assert (one + 1, 2 * one, 1 - one, 4 / one) == ((2, 3, 5), (2, 4, 8), (0, -1, -3), (4, 2, 1))
    assert slangpy.int2(7, -7) / 2 == (3, -3)
    assert slangpy.quatf() == slangpy.float4(0, 0, 0, 1)
    with pytest.raises(TypeError, match=r"slangpy.float2x2: there is no arithmetic here"):
        slangpy.float2x2([1, 2, 3, 4]) * 2  # type: ignore[operator]
    assert calls.halved(slangpy.half3(1, 2, 4)) == slangpy.float16_t3(0.5, 1, 2)
    assert calls.halved.map(slangpy.half3)(torch.ones(2, 3).half()).tolist() == [[0.5] * 3] * 2


def test_tensors_with_gradients_of_their_own(calls: slangpy.Module) -> None:
    x = slangpy.Tensor.from_numpy(None, [1.0, 2.0]).with_grads()
    y = slangpy.Tensor.zeros_like(x).with_grads(slangpy.Tensor.ones(None, (2,)), zero=False)
    calls.square(x, _result=y)
    calls.square.bwds(x, _result=y)
    assert y.to_numpy().tolist() == [1, 4]
    assert x.grad.to_numpy().tolist() == x.grad_out.to_numpy().tolist() == [2, 4]
    assert (x.dtype, slangpy.Tensor.empty(None, (4,), "float16_t3").storage.shape) == ("float", (4, 3))


def test_pairs_with_gradients(calls: slangpy.Module) -> None:
    x, grad = torch.tensor([1.0, 2.0]), torch.ones(2)
    calls.square.bwds(slangpy.diff_pair(x, grad), _result=slangpy.diff_pair(x, torch.tensor([1.0, 10.0])))
    assert grad.tolist() == [3, 41]


def test_dispatch(calls: slangpy.Module) -> None:
    places = torch.zeros(1, 2, 3, dtype=torch.uint32)
    calls.place.return_type("tensor").dispatch((3, 2, 1), _result=places)
    assert places.tolist() == [[[0, 1, 2], [10, 11, 12]]]
    with pytest.raises(TypeError, match="to have one uint3 that is not given, but it has 0"):
        calls.square.dispatch((3, 2, 1), x=1.0)


def test_what_belongs_to_graphics() -> None:
    names = "Texture TextureUsage CommandEncoder RenderPipeline Window App Format Sampler"
    for name in names.split():
        with pytest.raises(AttributeError, match=f"slangpy: {name} belongs to graphics"):
            getattr(slangpy, name)
    for name, reason in (
        ("MouseButton", "is input of a window"),
        ("RWStructuredBuffer", "is memory of a graphics device"),
        ("TypeReflection", "is SlangPy's own inside"),
        ("SlangLinkOptions", "is an option of SlangPy's compiler"),
        ("float5", "there is no float5 here"),
    ):
        with pytest.raises(AttributeError, match=f"slangpy: .*{reason}"):
            getattr(slangpy, name)
    with pytest.raises(AttributeError, match=r"slangpy.math: there is no normalize"):
        slangpy.math.normalize  # noqa: B018
    with pytest.raises(NotImplementedError, match=r"slangpy: Device.create_texture belongs to graphics"):
        slangpy.create_torch_device().create_texture()
    module = slangpy.Module.load_from_source(slangpy.create_torch_device(), "test_slangpy", SQUARE)
    with pytest.raises(NotImplementedError, match="slangpy: append_to takes a command encoder"):
        module.square.append_to(None, 1.0)
    with pytest.raises(NotImplementedError, match="slangpy: texture belongs to graphics"):
        module.square.return_type("texture")


def test_tensors_are_made_where_the_device_says(device: torch.device) -> None:
    made = slangpy.create_torch_device(torch_device=device)
    module = slangpy.Module.load_from_source(made, "where", "float twice(float x) { return 2 * x; }")
    x = slangpy.Tensor.from_numpy(made, [1.0, 2.0])
    assert x.storage.device.type == slangpy.Tensor.zeros(made, shape=(3,)).storage.device.type == device.type
    assert module.twice(x).tolist() == [2, 4]
    automatic = slangpy.create_torch_device()
    assert automatic.torch_device.type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert slangpy.create_torch_device(slangpy.DeviceType.cpu).torch_device.type == "cpu"


def test_a_call_of_packed_tensors_alone_gives_a_number(device: torch.device) -> None:
    source = "import slangpy; float first(Tensor<float, 1> t) { return t[0]; } float twice(float x) { return 2 * x; }"
    module = slangpy.Module.load_from_source(slangpy.create_torch_device(), "packed", source)
    t = torch.tensor([42.0, 1.0], device=device)
    result = module.first(slangpy.pack(module, t))
    assert type(result) is float
    assert result == 42
    assert isinstance(module.first(t), torch.Tensor)
    assert module.twice(slangpy.pack(module, t)).tolist() == [84, 2]
