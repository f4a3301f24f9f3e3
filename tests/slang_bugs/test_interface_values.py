"""Variables and parameters of the type of an interface, whose structs are declared IDifferentiable or are not."""

from __future__ import annotations

import pytest
import torch
from long_tests import some_cases

import torch_slang

TYPES = """
interface IShape{interface} {{ [Differentiable] double at(double x); }}
struct Line : IShape{struct} {{ double a; [Differentiable] double at(double x) {{ return a * x; }} }}
struct Curve : IShape{struct} {{ double a; [Differentiable] double at(double x) {{ return a * x * x + x; }} }}
struct Many : IShape{struct}
{{
    double a; double b; double c;
    [Differentiable] double at(double x) {{ return a * x + b * c; }}
}}
[Differentiable] double twice(IShape shape, double x) {{ return shape.at(x) * x; }}
"""
DECLARED = {"declared": (": IDifferentiable", ""), "structs": ("", ", IDifferentiable"), "undeclared": ("", "")}
# Line and Curve have one size. Many has another, and no forward mode beside them: Note [misplaced tangents].
BODIES = {
    "variable": "{0} shape = {{ y * y{1} }}; IShape value = shape; return value.at(x);",
    "branches": (
        "IShape value; if (i == 0) {{ Line line = {{ y * y }}; value = line; }}"
        " else {{ {0} shape = {{ x * y{1} }}; value = shape; }} return value.at(x) * y;"
    ),
    "parameter": "Line line = {{ y * x }}; {0} shape = {{ y{1} }}; return twice(line, x) + twice(shape, y);",
    "loop": (
        "double r = x; [MaxIters(2)] for (int k = 0; k < 2; ++k) {{ IShape value;"
        " if (k == i) {{ Line line = {{ r * y }}; value = line; }} else {{ {0} shape = {{ r{1} }}; value = shape; }}"
        " r = value.at(r); }} return r;"
    ),
}


@pytest.fixture(scope="module", params=DECLARED)
def module(request: pytest.FixtureRequest) -> torch_slang.Module:
    interface, struct = DECLARED[request.param]
    text = "import torch_slang;\n" + TYPES.format(interface=interface, struct=struct)
    for name, body in BODIES.items():
        for shape, rest in (("Curve", ""), ("Many", ", y, x")):
            statements = body.format(shape, rest)
            text += f"[TorchOp] [Differentiable] double {name}_{shape}(double x, double y, int i) {{ {statements} }}\n"
    name = f"interface_values_{request.param}"
    return torch_slang.load(source=text, name=f"{name}.slang", namespace=name)


def arguments(device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    x = torch.tensor([0.5, 0.75, 1.5, -0.25], dtype=torch.float64, device=device, requires_grad=True)
    y = torch.tensor([1.25, -0.5, 0.25, 2.0], dtype=torch.float64, device=device, requires_grad=True)
    return x, y, torch.tensor([0, 1, 0, 1], dtype=torch.int32, device=device)


@some_cases(6)
@pytest.mark.parametrize("shape", ["Curve", "Many"])
@pytest.mark.parametrize("name", BODIES)
def test_gradients_go_through_variables_of_interfaces(
    module: torch_slang.Module, name: str, shape: str, device: torch.device
) -> None:
    x, y, i = arguments(device)
    run = getattr(module, f"{name}_{shape}")
    assert torch.autograd.gradcheck(lambda x, y: run(x, y, i), (x, y))


@some_cases(4)
@pytest.mark.parametrize("name", BODIES)
def test_forward_mode_goes_through_variables_of_structs_of_one_size(
    module: torch_slang.Module, name: str, device: torch.device
) -> None:
    x, y, i = arguments(device)
    run = getattr(module, f"{name}_Curve")
    assert torch.autograd.gradcheck(lambda x, y: run(x, y, i), (x, y), check_forward_ad=True, check_backward_ad=False)


@some_cases(1)
def test_forward_mode_of_structs_of_different_sizes_is_right_or_refused(
    module: torch_slang.Module, device: torch.device
) -> None:
    x, y, i = arguments(device)
    for name in BODIES:
        run = getattr(module, f"{name}_Many")
        try:
            assert torch.autograd.gradcheck(
                lambda x, y, run=run: run(x, y, i), (x, y), check_forward_ad=True, check_backward_ad=False
            )
        except RuntimeError as error:
            assert "holds structs of different sizes" in str(error), name  # noqa: PT017
