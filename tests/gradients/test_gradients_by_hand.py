"""Gradients that a kernel works on by itself, in every precision: what works, and what the message says of the rest."""

from __future__ import annotations

import itertools

import pytest
import torch
from long_tests import some_cases

import torch_slang

DTYPES = {"half": torch.float16, "BFloat16": torch.bfloat16, "float": torch.float32, "double": torch.float64}
VIEWS = ["DiffTensorView<{0}>", "DiffTensorViewAA<{0}>", "DiffTensorViewR<{0}, 4>", "DiffTensorViewASR<{0}, 4>"]
KERNEL = """import torch_slang;
[Differentiable] {element} get({view} h, uint i) {{ return h[i]; }}
[PyBindCUDA(Auto)] [CudaKernel]
void hand({view} h)
{{
    uint i = cudaGlobalIdx().x;
    if (i < h.size(0)) {{ {statement} }}
}}
"""
ADDS = "bwd_diff(get)(h, i, {element}(2.0));"
STORES = "h.diff.diff[i] = h.diff.diff[i] + 2;"
_numbers = itertools.count()


def run(element: str, view: str, statement: str, device: torch.device) -> torch.Tensor:
    """What the kernel makes of a gradient of 0, 1, 2."""
    name = f"by_hand{next(_numbers)}"
    source = KERNEL.format(element=element, view=view.format(element), statement=statement.format(element=element))
    module = torch_slang.load(source=source, name=name, namespace=name)
    gradient = torch.arange(3, dtype=DTYPES[element], device=device)
    values = torch.ones_like(gradient)
    module.hand_launch((values, gradient), launchBlockSize=(4, 1, 1), launchGridSize=(1, 1, 1))
    return gradient.float().cpu()


@some_cases(4)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("element", DTYPES)
def test_the_backward_of_a_load_adds_in_every_precision(element: str, view: str, device: torch.device) -> None:
    assert run(element, view, ADDS, device).tolist() == [2, 3, 4]


@pytest.mark.parametrize(
    ("element", "view"), [("float", VIEWS[0]), ("float", VIEWS[2]), ("half", VIEWS[2]), ("BFloat16", VIEWS[2])]
)
def test_gradients_that_are_gathered_in_float_are_loaded_and_stored(
    element: str, view: str, device: torch.device
) -> None:
    assert run(element, view, STORES, device).tolist() == [2, 3, 4]


@some_cases(3)
@pytest.mark.parametrize(
    ("element", "view"),
    [("double", view) for view in VIEWS[:3]]
    + [(element, view) for element in ("half", "BFloat16") for view in VIEWS[:2]],
)
def test_the_message_says_what_works_in_other_precisions(element: str, view: str, device: torch.device) -> None:
    with pytest.raises(torch_slang.CompileError) as caught:
        run(element, view, STORES, device)
    message = str(caught.value)
    assert f"the gradient of h holds {str(DTYPES[element]).removeprefix('torch.')} numbers as its values do" in message
    assert f"give the kernel the gradient as a TensorView<{element}> parameter of its own" in message
    assert ("DiffTensorViewR<" in message) == (element != "double")
    assert "DiffTensorViewAA" not in message


@pytest.mark.parametrize("element", DTYPES)
def test_a_gradient_may_be_a_parameter_of_its_own(element: str, device: torch.device) -> None:
    name = f"by_hand{next(_numbers)}"
    source = f"""import torch_slang;
[PyBindCUDA(Auto)] [CudaKernel]
void hand(TensorView<{element}> x, TensorView<{element}> grad)
{{
    uint i = cudaGlobalIdx().x;
    if (i < x.size(0)) grad[i] = grad[i] + x[i];
}}
"""
    x = torch.arange(3, dtype=DTYPES[element], device=device)
    gradient = torch.ones_like(x)
    module = torch_slang.load(source=source, name=name, namespace=name)
    module.hand_launch(x, gradient, launchBlockSize=(4, 1, 1), launchGridSize=(1, 1, 1))
    assert gradient.tolist() == [1, 2, 3]
