"""SlangPy's names: modules from files and source, their functions, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import torch_slang.slangpy as slangpy

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
    assert module.square.map((1, 0))(torch.ones(2, 3)).shape == (3, 2)


def test_modules_with_functions_of_one_name_stand_apart() -> None:
    device = slangpy.create_torch_device()
    first = slangpy.Module.load_from_source(device, "same", SQUARE)
    second = slangpy.Module.load_from_source(device, "same", SQUARE.replace("x * x", "x * x + 1"))
    assert [float(first.square(3.0)), float(second.square(3.0)), float(first.square(2.0))] == [9, 10, 4]


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
