"""Functions in which many calls follow on each other. Note [long chains] in csrc/compiler/ir/long_chains.h: each call doubled the
time of Slang's compiler, so that these would take it longer than a test may.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from devices import DEVICES

import torch_slang

CALLS = 60
SOURCE = f"""import torch_slang;
[Differentiable] double helper(double a, double b) {{ return a * 0.5 + b; }}
[Differentiable] double numbers(double x, double w)
{{
    double v = x;
    {"v = exp(-v) / w; v = helper(v, w); v = sin(v);" * (CALLS // 3)}
    return v;
}}
[Differentiable] double3 vectors(double3 x, double w)
{{
    double3 v = x;
    {"v = sin(v) / w;" * (CALLS // 2)}
    return v;
}}
"""


def numbers(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    for _ in range(CALLS // 3):
        x = torch.sin(torch.exp(-x) / w * 0.5 + w)
    return x


def vectors(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    for _ in range(CALLS // 2):
        x = torch.sin(x) / w[..., None]
    return x


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("function", [numbers, vectors])
def test_derivatives_of_many_calls_in_a_row_are_right(function, device: str, tmp_path: Path) -> None:
    path = tmp_path / "chains.slang"
    path.write_text(SOURCE)
    module = torch_slang.load(path, namespace=f"long_chains_{function.__name__}_{device}")
    shape = (5, 3) if function is vectors else (5,)
    x = torch.linspace(0.3, 1.2, steps=5 * (3 if function is vectors else 1), dtype=torch.float64, device=device)
    x = x.reshape(shape).requires_grad_()
    w = torch.linspace(0.9, 1.1, steps=5, dtype=torch.float64, device=device).requires_grad_()
    ours, expected = getattr(module, function.__name__)(x, w), function(x, w)
    torch.testing.assert_close(ours, expected)
    gradients, references = (torch.autograd.grad(y.sum(), (x, w)) for y in (ours, expected))
    torch.testing.assert_close(gradients, references)
