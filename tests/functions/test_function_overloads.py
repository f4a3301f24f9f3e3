"""Functions of one name, generic functions with their arguments given, and parameters that are written."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_slang
import torch_slang.testing

SOURCE = """
[Differentiable] float3 blend(float3 a, float t) { return a * t; }
[Differentiable] float4 blend(float4 a, float t) { return a * (2 * t); }
[Differentiable] half blend(half a, float t) { return half(a * half(3)); }
[Differentiable] float blend(float a, float t) { return a * t * 4; }
int kind(int x) { return 1; }
float kind(float x) { return 2; }
bool kind(bool x) { return true; }
float either(float a, int b) { return 1; }
float either(int a, float b) { return 2; }
[Differentiable] float[M] repeat<let N : int, let M : int>(vector<float, N> v)
{
    float[M] r;
    [ForceUnroll] for (int i = 0; i < M; ++i) r[i] = v[i % N] * (i + 1);
    return r;
}
[Differentiable] vector<T, N> twice<T : __BuiltinFloatingPointType, let N : int>(vector<T, N> v) { return v * T(2); }
[Differentiable] void split(float x, out float low, float y, out float2 both) { low = x * y; both = float2(x, y); }
[Differentiable] float split_too(float x, out float low) { low = x * 2; return x * 3; }
[Differentiable] float step_on(inout float x, float dx) { x += dx; return x * x; }
struct Lens : IDifferentiable { float focus; float2 center; }
[Differentiable] float bend(Lens lens, float x) { return lens.focus * x + lens.center.y; }
"""


@pytest.fixture(scope="module")
def module() -> torch_slang.Module:
    return torch_slang.load(source=SOURCE, name="overloads_test", namespace="overloads_test")


@pytest.mark.parametrize(
    ("value", "factor"),
    [
        (torch.rand(5, 3), 0.5),
        (torch.rand(2, 5, 4), 1.0),
        (torch.rand(5, dtype=torch.float16), 3.0),
        (torch.rand(5), 2.0),
        (torch.rand(2, 1), 2.0),
    ],
    ids=["float3", "float4", "half", "float", "float, two dimensions"],
)
def test_the_arguments_choose(module: torch_slang.Module, value: torch.Tensor, factor: float) -> None:
    x = value.clone().requires_grad_()
    y = module.blend(x, 0.5)
    assert y.dtype == value.dtype
    torch.testing.assert_close(y, value * factor)
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, torch.full_like(value, factor))


def test_each_overload_is_an_operator_of_its_own(module: torch_slang.Module) -> None:
    assert module.blend_float3_float(torch.ones(2, 3), 0.5).tolist() == [[0.5] * 3] * 2
    x = torch.ones(3, dtype=torch.float64)
    assert torch.ops.overloads_test.blend_float3_float(x.float(), torch.tensor(2.0)).tolist() == [2, 2, 2]
    torch_slang.testing.check(module.blend_float4_float, (torch.rand(3, 4), 0.5), order=1)


def test_numbers_choose(module: torch_slang.Module) -> None:
    results = [module.kind(value) for value in (1, 1.0, True, torch.tensor(3, dtype=torch.int32), torch.tensor([1.0]))]
    assert [result.flatten().tolist() for result in results] == [[1], [2.0], [True], [1], [2.0]]


def test_a_name_in_a_map_chooses(module: torch_slang.Module) -> None:
    x = torch.ones(3, dtype=torch.float32)
    assert module.blend.map(a=(0,))(x, 1.0).tolist() == [4, 4, 4]
    assert module.blend.map(a=())(x, 1.0).tolist() == [1, 1, 1]
    assert module.blend.map("float")(x, 1.0).tolist() == [4, 4, 4]


def test_what_fits_no_overload_or_several(module: torch_slang.Module) -> None:
    with pytest.raises(
        TypeError, match=r"ambiguous for these arguments, which fit all of\n  .*either_float_int\(a: float, b: int\)"
    ):
        module.either(1, 1)
    with pytest.raises(TypeError, match=r"(?s)blend: no overload fits the arguments:.*float3.*float4"):
        module.blend(torch.ones(2, 5, dtype=torch.float64), 0.5)
    with pytest.raises(TypeError, match="no overload fits"):
        module.blend(torch.ones(2))


@pytest.mark.parametrize("compiled", [False, True])
def test_overloads_in_a_trace(module: torch_slang.Module, compiled: bool) -> None:
    def both(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return module.blend(a, 0.5).sum() + module.blend(b, 0.5).sum()

    run = torch.compile(both, fullgraph=True, backend="aot_eager") if compiled else both
    assert run(torch.ones(2, 3), torch.ones(2, 4)).item() == 3 + 8


def test_generic_arguments_are_given(module: torch_slang.Module) -> None:
    repeat = module.require_function("repeat<2, 5>")
    assert repeat is module.require_function("repeat<2, 5>")
    v = torch.tensor([1.0, 10.0], requires_grad=True)
    y = repeat(v)
    assert y.tolist() == [1, 20, 3, 40, 5]
    y.sum().backward()
    assert v.grad is not None
    assert v.grad.tolist() == [9, 6]
    assert module.require_function("repeat<2, 3>")(torch.ones(4, 2)).shape == (4, 3)
    torch_slang.testing.check(repeat, (torch.rand(3, 2),), order=1)


def test_generic_arguments_are_kept_to(module: torch_slang.Module) -> None:
    twice = module.require_function("twice<double, 2>")
    assert twice(torch.ones(3, 2)).dtype == torch.float64
    with pytest.raises(RuntimeError, match=r"twice_double_2: expected N to be 2, as the generic arguments say"):
        twice(torch.ones(3, 3))
    assert module.require_function("twice<double>")(torch.ones(3, 3, dtype=torch.float16)).dtype == torch.float64
    with pytest.raises(RuntimeError, match=r"twice_half: expected v to have dtype float16 .* or one that widens to it"):
        module.require_function("twice<half>")(torch.ones(3, 3))


def test_a_reload_changes_an_instance(tmp_path: Path) -> None:
    file = tmp_path / "reloaded.slang"
    text = "float[M] fill<let M : int>(float v) { float[M] r; for (int i = 0; i < M; ++i) r[i] = v; return r; }"
    file.write_text(text)
    first = torch_slang.load(file, namespace="instances_reloaded")
    assert first.require_function("fill<2>")(3.0).tolist() == [3, 3]
    file.write_text(text.replace("= v;", "= v + 1;"))
    second = torch_slang.load(file, namespace="instances_reloaded")
    assert second.require_function("fill<2>")(3.0).tolist() == [4, 4]
    assert first.require_function("fill<2>")(3.0).tolist() == [3, 3]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("thrice", "there is no function thrice"),
        ("twice<4, 5>", "expected at most 1 types and 1 sizes as generic arguments, but got 0 and 2"),
        ("twice<int>", "expected T to be a type that it allows, but got int"),
        ("repeat<2, 0>", "expected M to be at least 1, but got 0"),
    ],
)
def test_generic_arguments_that_are_wrong(module: torch_slang.Module, name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        module.require_function(name)


def test_a_single_element_stays_on_the_host_only_where_its_size_is_known_and_small() -> None:
    source = """
float known(float3 v, float x) { return x + v.x; }
float open<let N : int>(float[N] v, float x) { return x + v[0]; }
float large(float[17] v, float x) { return x + v[0]; }
"""
    module = torch_slang.load(source=source, name="single_elements_test", namespace="single_elements_test")
    elsewhere = torch.empty(2, device="meta")
    assert module.known(torch.ones(3), elsewhere).device == elsewhere.device
    for function, size in ((module.open, 3), (module.large, 17)):
        assert function(torch.ones(size), torch.ones(2)).tolist() == [2, 2]
        with pytest.raises(RuntimeError, match="expected all tensors to be on the same device, but v is on cpu"):
            function(torch.ones(size), elsewhere)


def test_generic_arguments_that_nothing_decides(module: torch_slang.Module) -> None:
    with pytest.raises(AttributeError, match=r'no argument has its size M.*require_function\("repeat<4>"\)'):
        module.repeat(torch.ones(2))


def test_out_parameters_take_tensors(module: torch_slang.Module) -> None:
    x, y = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 4.0])
    low, both = torch.zeros(2), torch.zeros(2, 2)
    assert module.split(x, low, y, both) is None
    assert low.tolist() == [3, 8]
    assert both.tolist() == [[1, 3], [2, 4]]
    low.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3, 4]
    low, both = torch.zeros(2), torch.zeros(2, 2)
    assert module.split(x.detach(), y=y, both=both, low=low) is None
    assert low.tolist() == [3, 8]
    assert module.split(x.detach(), y).low.tolist() == [3, 8]


def test_an_out_parameter_beside_a_result(module: torch_slang.Module) -> None:
    x = torch.tensor([1.0, 2.0])
    low = torch.zeros(2)
    assert module.split_too(x, low).tolist() == [3, 6]
    assert low.tolist() == [2, 4]
    result, low = torch.zeros(2), torch.zeros(2)
    assert module.split_too(x, low, _result=result) is result
    assert (result.tolist(), low.tolist()) == ([3, 6], [2, 4])


def test_out_parameters_that_are_wrong(module: torch_slang.Module) -> None:
    x = torch.ones(2)
    with pytest.raises(TypeError, match="expected all out parameters to be given or none, but there is no both"):
        module.split(x, y=x, low=torch.zeros(2))
    with pytest.raises(RuntimeError, match=r"expected low to have the result's shape \[2\], but got \[3\]"):
        module.split_too(x, torch.zeros(3))


def test_bwds_with_out_parameters(module: torch_slang.Module) -> None:
    x, y = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 4.0])
    low, both = torch.zeros(2), torch.zeros(2, 2)
    low.grad, both.grad = torch.ones(2), torch.zeros(2, 2)
    module.split.bwds(x, low, y, both)
    assert x.grad is not None
    assert x.grad.tolist() == [3, 4]


def test_arrays_of_numpy(module: torch_slang.Module) -> None:
    numpy = pytest.importorskip("numpy")
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    for y in (module.blend_float_float(x, 1.0, _result="numpy"), module.blend.return_type(numpy.ndarray)(x, 1.0)):
        assert isinstance(y, numpy.ndarray)
        assert y.tolist() == [4, 8]
    into = numpy.zeros(2, dtype=numpy.float32)
    assert module.blend_float_float(x.detach(), 1.0, _result=into) is into
    assert into.tolist() == [4, 8]
    both = module.split(x, x, _result="numpy")
    assert isinstance(both.low, numpy.ndarray)


@dataclasses.dataclass
class Lens:
    focus: Any
    center: Any


class LensModule(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.focus = torch.nn.Parameter(torch.tensor([2.0, 3.0]))
        self.register_buffer("center", torch.tensor([0.0, 1.0]))


def test_dataclasses_and_modules_are_structs(module: torch_slang.Module) -> None:
    focus = torch.tensor([2.0, 3.0], requires_grad=True)
    y = module.bend(Lens(focus, (0.0, 1.0)), 2.0)
    assert y.tolist() == [5, 7]
    y.sum().backward()
    assert focus.grad is not None
    assert focus.grad.tolist() == [2, 2]
    lens = LensModule()
    module.bend(lens, 2.0).sum().backward()
    assert lens.focus.grad is not None
    assert lens.focus.grad.tolist() == [2, 2]


def test_structs_with_too_few_fields_or_too_many(module: torch_slang.Module) -> None:
    lens = LensModule()
    lens.register_buffer("tint", torch.zeros(3))
    with pytest.raises(TypeError, match=r"lens \(Lens\) has no field tint"):
        module.bend(lens, 2.0)
    with pytest.raises(TypeError, match=r"lens \(Lens\) lacks field focus, center"):
        module.bend(torch.nn.Module(), 2.0)

    @dataclasses.dataclass
    class Wide(Lens):
        tint: Any

    with pytest.raises(TypeError, match=r"lens \(Lens\) has no field tint"):
        module.bend(Wide(1.0, (0.0, 1.0), 3.0), 2.0)
