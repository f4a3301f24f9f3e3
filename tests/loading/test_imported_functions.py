"""Kernels and functions of imported modules, and of files that a module includes: Note [imported functions]."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from long_tests import dear_file

import torch_slang
from torch_slang import slangtorch

pytestmark = dear_file

KERNEL = """{attributes}
void {name}([Shape("N")] DiffTensorView<double> x, [Out("N")] DiffTensorView<double> y)
{{
    uint i = cudaGlobalIdx().x;
    if (i < y.size(0)) y[i] = {value};
}}
"""
DIFFERENTIABLE = "[CudaKernel] [Differentiable]"
FILES = {
    "main.slang": """
import part;
import declared;
[Differentiable] double own(double x) { return shared(x); }
[Differentiable] double nearest(double x) { return 1 * x; }
[Differentiable] double both(double x) { return 3 * cube(x); }
""",
    "part.slang": """
import behind;
[Differentiable] double shared(double x) { return 2 * x; }
[Differentiable] double nearest(double x) { return 2 * x; }
[Differentiable] double clash(double x) { return 2 * x; }
[Differentiable] T cube<T : __BuiltinFloatingPointType>(T x) { return x * x * x; }
namespace geometry { [Differentiable] double area(double r) { return 3 * r * r; } }
"""
    + KERNEL.format(attributes=DIFFERENTIABLE, name="cubes", value="cube(x[i])")
    + """
[CudaKernel] [Differentiable]
void generic<T : __BuiltinFloatingPointType>([Shape("N")] DiffTensorView<T> x, [Out("N")] DiffTensorView<T> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < y.size(0)) y[i] = cube(x[i]);
}
""",
    "behind.slang": "[Differentiable] double far(double x) { return x * x; }\n"
    + KERNEL.format(attributes=DIFFERENTIABLE, name="distant", value="far(x[i])"),
    "declared.slang": """module declared;
__include "included";
[Differentiable] double hidden(double x) { return 5 * x * x; }
public [Differentiable] double open(double x) { return hidden(x); }
public [Differentiable] double clash(double x) { return 3 * x; }
"""
    + KERNEL.format(attributes="internal " + DIFFERENTIABLE, name="inner", value="hidden(x[i])"),
    "included.slang": """implementing declared;
public [Differentiable] double included(double x) { return sin(x); }
"""
    + KERNEL.format(attributes="public " + DIFFERENTIABLE, name="including", value="included(x[i]) * hidden(x[i])"),
}
# What each computes.
KERNELS = {
    "cubes": lambda x: x**3,
    "generic": lambda x: x**3,
    "distant": lambda x: x**2,
    "inner": lambda x: 5 * x**2,
    "including": lambda x: torch.sin(x) * 5 * x**2,
}
FUNCTIONS = {
    "own": lambda x: 2 * x,
    "both": lambda x: 3 * x**3,
    "nearest": lambda x: x,
    "shared": lambda x: 2 * x,
    "cube": lambda x: x**3,
    "geometry_area": lambda x: 3 * x**2,
    "far": lambda x: x**2,
    "open": lambda x: 5 * x**2,
    "included": torch.sin,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("imports")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def module(folder: Path) -> torch_slang.Module:
    return torch_slang.load(folder / "main.slang", namespace="imported_functions")


@pytest.mark.parametrize("name", [*KERNELS, *FUNCTIONS])
def test_imported_functions_have_values_and_derivatives(
    module: torch_slang.Module, name: str, device: torch.device
) -> None:
    op = getattr(module, name)
    x = torch.tensor([0.5, -1.5, 2], dtype=torch.float64, device=device, requires_grad=True)
    expected = (KERNELS | FUNCTIONS)[name](x)
    result = op(x)
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(
        torch.autograd.grad(result.sum(), x)[0],
        torch.autograd.grad(expected.sum(), x)[0],
    )
    assert torch.autograd.gradcheck(op, (x,))


@pytest.mark.parametrize("name", ["including", "cube"])
def test_they_have_forward_mode_and_second_derivatives(module: torch_slang.Module, name: str) -> None:
    op = getattr(module, name)
    x = torch.tensor([0.5, -1.5], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(op, (x,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(op, (x,))


def test_names_that_two_imported_files_have_are_refused(module: torch_slang.Module) -> None:
    with pytest.raises(AttributeError, match=r"imported files .*part.slang and .*declared.slang both have a clash"):
        module.clash  # noqa: B018


def test_functions_that_are_not_public_stay_hidden(module: torch_slang.Module) -> None:
    with pytest.raises(AttributeError, match="no kernel or function named 'hidden'"):
        module.hidden  # noqa: B018


def test_nothing_of_the_library_is_among_them(module: torch_slang.Module) -> None:
    assert sorted(module.functions()) == sorted(FUNCTIONS)
    assert sorted(module.kernels()) == sorted(KERNELS)


def test_slangtorch_launches_imported_kernels(folder: Path) -> None:
    module = slangtorch.loadModule(str(folder / "main.slang"))
    for name, reference in KERNELS.items():
        if name == "generic":
            continue
        x = torch.tensor([0.5, -1.5], dtype=torch.float64)
        y, dx = torch.zeros_like(x), torch.zeros_like(x)
        getattr(module, name)(x=x, y=y).launchRaw(blockSize=(32, 1, 1), gridSize=(1, 1, 1))
        torch.testing.assert_close(y, reference(x))
        dy = torch.ones_like(y)
        getattr(module, name).bwd(x=(x, dx), y=(y, dy)).launchRaw(blockSize=(32, 1, 1), gridSize=(1, 1, 1))
        given = x.clone().requires_grad_()
        torch.testing.assert_close(dx, torch.autograd.grad(reference(given).sum(), given)[0])


def test_a_changed_import_is_loaded_anew(tmp_path: Path) -> None:
    (tmp_path / "again.slang").write_text("import factor;")
    values = []
    for factor in (2, 3):
        (tmp_path / "factor.slang").write_text(
            KERNEL.format(attributes=DIFFERENTIABLE, name="scaled", value=f"{factor} * x[i]")
        )
        module = torch_slang.load(tmp_path / "again.slang", namespace="changed_import")
        values.append(module.scaled(torch.ones(1, dtype=torch.float64)).item())
    assert values == [2, 3]
