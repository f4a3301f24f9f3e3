"""Launches read straight from Python's arguments, and those that use the general path: the same numbers and messages.

Note [remembered launches] in csrc/python/launch_call.cpp.
"""

from __future__ import annotations

import threading
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import torch_slang
from torch_slang import _C, slangtorch
from torch_slang.kernels.kernel import Kernel

SOURCE = """
struct Line { DiffTensorView<float> slope; TensorView<float> offset; }
[AutoPyBindCUDA] [CudaKernel] [Differentiable]
void line(Line l, DiffTensorView<float> x, DiffTensorView<float> y, float scale, no_diff int3 steps,
          no_diff float2 more, bool twice)
{
    uint i = cudaGlobalIdx().x;
    if (i >= y.size(0)) return;
    float factor = float(steps.x + 10 * steps.y + 100 * steps.z);
    float result = l.slope[i] * x[i] * scale + l.offset[i] * factor + more.x - more.y;
    y[i] = twice ? 2.0f * result : result;
}
"""
BLOCK, GRID = (32, 1, 1), (2, 1, 1)


class Line(NamedTuple):
    slope: Tensor
    offset: Tensor


Turned = namedtuple("Turned", ["offset", "slope"])


class Tagged(torch.Tensor):
    pass


class Setting:
    """Tensors of a launch, and what it should store."""

    def __init__(self, device: torch.device) -> None:
        generator = torch.Generator().manual_seed(2)
        self.slope, self.offset, self.x = (torch.randn(50, generator=generator).to(device) for _ in range(3))
        self.y = torch.zeros(50, device=device)
        self.rest = {"scale": 3.0, "steps": (1, 2, 3), "more": [0.5, 0.25], "twice": True}
        self.expected = 2 * (3 * self.slope * self.x + 321 * self.offset + 0.25)


@pytest.fixture(scope="session")  # the module's identity: a worker may leave this file and come back
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("launch_calls") / "line.slang"
    path.write_text(SOURCE)
    return path


@pytest.fixture
def setting(device: torch.device) -> Setting:
    return Setting(device)


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """By launch, whether it was read at once."""
    ways: list[bool] = []

    class Watched:
        def __init__(self, *args: Any) -> None:
            self._call = _C.LaunchCall(*args)

        def launch(self, *args: Any) -> bool:
            ways.append(self._call.launch(*args))
            return ways[-1]

        def prepare(self, *args: Any) -> _C.PreparedLaunch | None:
            prepared = self._call.prepare(*args)
            ways.append(prepared is not None)
            return prepared

    class Library:
        LaunchCall = Watched

        def __getattr__(self, name: str) -> Any:
            return getattr(_C, name)

    monkeypatch.setattr("torch_slang.kernels.kernel._C", Library())
    return ways


def spellings(s: Setting) -> dict[str, tuple[dict[str, Any], bool]]:
    """Arguments that mean the same, and whether they are read at once."""
    line = {"slope": s.slope, "offset": s.offset}
    usual = {"l": line, "x": s.x, "y": s.y, **s.rest}
    return {
        "a dictionary": (usual, True),
        "another order": (dict(reversed(usual.items())), True),
        "a tuple": ({**usual, "l": (s.slope, s.offset)}, True),
        "a named tuple": ({**usual, "l": Line(s.slope, s.offset)}, True),
        "names in another order": ({**usual, "l": Turned(s.offset, s.slope)}, False),
        "without a gradient": ({**usual, "x": (s.x, None)}, True),
        "a parameter": ({**usual, "x": torch.nn.Parameter(s.x)}, True),
        "a subclass": ({**usual, "x": s.x.as_subclass(Tagged)}, False),
        "strides": ({**usual, "x": torch.stack([s.x, s.y], 1)[:, 0]}, True),
        "a whole number for a float": ({**usual, "scale": 3}, True),
        "a tensor for a float": ({**usual, "scale": torch.tensor(3.0)}, False),
        "a list of tensors' numbers": ({**usual, "steps": torch.tensor([1, 2, 3])}, False),
        "a number for a bool": ({**usual, "twice": 1}, False),
    }


@pytest.mark.parametrize("spelling", spellings(Setting(torch.device("cpu"))))
@pytest.mark.parametrize("api", ["slangtorch", "native"])
def test_what_arguments_may_look_like(path: Path, setting: Setting, api: str, spelling: str, fast: list[bool]) -> None:
    arguments, is_fast = spellings(setting)[spelling]
    if api == "slangtorch":
        slangtorch.clearSessionShaderCache()
        slangtorch.loadModule(
            path, defines={"API": setting.x.device.type + "_" + spelling.replace(" ", "_").replace("'", "")}
        ).line(**arguments).launchRaw(blockSize=BLOCK, gridSize=GRID)
    else:
        module = torch_slang.load(
            path, namespace=f"launch_calls_{setting.x.device.type}_" + spelling.replace(" ", "_").replace("'", "")
        )
        if spelling in {"a parameter"}:
            arguments["x"] = arguments["x"].detach()
        module.line_launch(**arguments, block_size=BLOCK, grid_size=GRID)
    torch.testing.assert_close(setting.y, setting.expected)
    assert fast == [is_fast]


@pytest.mark.parametrize("way", ["position", "names", "published names", "half and half", "lists"])
def test_native_launches_by_position_and_by_name(path: Path, setting: Setting, way: str) -> None:
    kernel = torch_slang.load(path, namespace="launch_calls").line_launch
    values = [(setting.slope, setting.offset), setting.x, setting.y, *setting.rest.values()]
    calls: dict[str, Callable[[], Any]] = {
        "position": lambda: kernel(*values, BLOCK, GRID),
        "names": lambda: kernel(*values, block_size=BLOCK, grid_size=GRID),
        "published names": lambda: kernel(*values, launchBlockSize=BLOCK, launchGridSize=GRID),
        "half and half": lambda: kernel(*values, BLOCK, grid_size=GRID),
        "lists": lambda: kernel(*values, [32], [2]),
    }
    calls[way]()
    torch.testing.assert_close(setting.y, setting.expected)


@pytest.mark.parametrize("api", ["slangtorch", "native"])
@pytest.mark.parametrize("spelling", ["pairs", "nested", "named"])
def test_gradients(path: Path, setting: Setting, api: str, spelling: str) -> None:
    """Added to those of what is loaded; those of what is stored are taken."""
    s = setting
    gradients = [torch.ones_like(s.x), torch.ones_like(s.x), torch.full_like(s.y, 0.5)]

    def pair(value: Tensor, gradient: Tensor) -> Any:
        if spelling == "named":
            return slangtorch.DiffTensorView(value, gradient)
        return (value, (gradient,)) if spelling == "nested" and api == "slangtorch" else (value, gradient)

    arguments = {
        "l": {"slope": pair(s.slope, gradients[0]), "offset": s.offset},
        "x": pair(s.x, gradients[1]),
        "y": pair(s.y, gradients[2]),
        **s.rest,
    }
    if api == "slangtorch":
        slangtorch.loadModule(path).line.bwd(**arguments).launchRaw(BLOCK, GRID)
    else:
        torch_slang.load(path, namespace="launch_calls").line_bwd(**arguments, block_size=BLOCK, grid_size=GRID)
    torch.testing.assert_close(gradients, [1 + 3 * s.x, 1 + 3 * s.slope, torch.zeros_like(s.y)])


def test_errors_are_those_of_the_long_way(path: Path, setting: Setting) -> None:
    s = setting
    kernel, module = torch_slang.load(path, namespace="launch_calls").line_launch, slangtorch.loadModule(path)
    good = {"l": (s.slope, s.offset), "x": s.x, "y": s.y, **s.rest}
    extents = {"block_size": BLOCK, "grid_size": GRID}
    with pytest.raises(TypeError, match=r"Line.*lacks field offset"):
        kernel(**{**good, "l": {"slope": s.slope}}, **extents)
    with pytest.raises(ValueError, match="missing scale"):
        module.line(**{k: v for k, v in good.items() if k != "scale"})
    with pytest.raises(RuntimeError, match="expected x to have dtype float32"):
        kernel(**{**good, "x": s.x.double()}, **extents)
    with pytest.raises(RuntimeError, match=r"x has broadcast dimensions"):
        module.line(**{**good, "x": s.x[:1].expand(50)})
    with pytest.raises(RuntimeError, match="grad"):  # a launch is not differentiable
        kernel(**{**good, "x": s.x.clone().requires_grad_()}, **extents)
    launchable = module.line(**good)
    with pytest.raises(ValueError, match=r"expected gridSize to be a tuple of 3 integers, but got \[2, 1, 1\]"):
        launchable.launchRaw(BLOCK, [2, 1, 1])
    with pytest.raises(ValueError, match="64 bits"):
        launchable.launchRaw(BLOCK, (1 << 70, 1, 1))
    launchable.launchRaw(BLOCK, GRID)
    launchable.launchRaw(BLOCK, GRID)  # again
    torch.testing.assert_close(s.y, s.expected)


def test_versions(path: Path, setting: Setting) -> None:
    """A native launch is seen by autograd, one of slangtorch's is not."""
    arguments = {"l": (setting.slope, setting.offset), "x": setting.x, "y": setting.y, **setting.rest}
    before = setting.y._version
    slangtorch.loadModule(path).line(**arguments).launchRaw(BLOCK, GRID)
    assert setting.y._version == before
    torch_slang.load(path, namespace="launch_calls").line_launch(**arguments, block_size=BLOCK, grid_size=GRID)
    assert setting.y._version > before


@pytest.mark.parametrize("api", ["slangtorch", "native"])
def test_modes_see_launches(path: Path, setting: Setting, api: str) -> None:
    seen: list[str] = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    arguments = {"l": (setting.slope, setting.offset), "x": setting.x, "y": setting.y, **setting.rest}
    module = torch_slang.load(path, namespace="launch_calls")
    with Mode():
        if api == "slangtorch":
            slangtorch.loadModule(path).line(**arguments).launchRaw(BLOCK, GRID)
        else:
            module.line_launch(**arguments, block_size=BLOCK, grid_size=GRID)
    assert any("line_launch" in name for name in seen)
    torch.testing.assert_close(setting.y, setting.expected)


def test_a_launchable_outlives_a_reload_with_other_arguments(setting: Setting) -> None:
    source = "[CudaKernel] void put(TensorView<float> y%s) { y[cudaGlobalIdx().x] = %s; }"
    first = torch_slang.load(source=source % ("", "1"), name="put", namespace="launch_calls_put").put_launch
    first(setting.y, BLOCK, (1, 1, 1))
    second = torch_slang.load(source=source % (", float a", "a"), name="put", namespace="launch_calls_put").put_launch
    second(setting.y, 5.0, BLOCK, (1, 1, 1))
    assert setting.y[:32].unique().tolist() == [5]
    with pytest.raises(RuntimeError, match="reloaded with other arguments"):
        first(setting.y, BLOCK, (1, 1, 1))


def test_threads_share_a_kernel(path: Path, device: torch.device) -> None:
    kernel: Kernel = torch_slang.load(path, namespace="launch_calls").line_launch
    settings = [Setting(device) for _ in range(8)]

    def run(s: Setting, scale: float) -> None:
        for _ in range(50):
            kernel((s.slope, s.offset), s.x, s.y, scale, *list(s.rest.values())[1:], BLOCK, GRID)

    threads = [threading.Thread(target=run, args=(s, float(k))) for k, s in enumerate(settings)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, s in enumerate(settings):
        torch.testing.assert_close(s.y, 2 * (k * s.slope * s.x + 321 * s.offset + 0.25))
