"""Functions in which many calls follow on each other. Note [long chains] in csrc/compiler/ir/long_chains.h: each call
doubled the time of Slang's compiler, so that these would take it longer than a test may.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import torch_slang

Tensor = torch.Tensor
STEPS = 25
STEP = "v = sin(v) * w; v = exp(-v * v);"
CHAIN = STEP * STEPS
HEAD = """import torch_slang;
struct Pair : IDifferentiable { double a; double b;
    [Differentiable] double along(double w) { double v = a; CHAIN return v; }
}
[Differentiable] double helper(double x, double w) { double v = x; CHAIN return v; }
""".replace("CHAIN", CHAIN)
FUNCTION = "[Differentiable] double NAME(double x, double w) { BODY }\n"
BODIES = {
    "numbers": "double v = x; CHAIN return v;",
    "vectors": "double3 v = double3(x, x * x, w); CHAIN return v.x + v.y * v.z;",
    "matrices": "double2x2 v = double2x2(x, w, x * w, x * x); CHAIN return v[0][0] + v[0][1] * v[1][0] * v[1][1];",
    "in_a_helper": "return helper(x, w) * helper(w, x);",
    "in_a_loop": "double v = x; [MaxIters(3)] for (int i = 0; i < 3; ++i) { CHAIN } return v;",
    "in_a_loop_unrolled": "double v = x; [ForceUnroll] for (int i = 0; i < 2; ++i) { CHAIN } return v;",
    "behind_a_branch": "double v = x; if (x > 0.6) { CHAIN } else { v = v * w; CHAIN } return v;",
    "in_a_method": "Pair p = {x, w}; return p.along(w * x);",
}


def chain(v: Tensor, w: Tensor) -> Tensor:
    for _ in range(STEPS):
        v = torch.exp(-((torch.sin(v) * w) ** 2))
    return v


def vectors(x: Tensor, w: Tensor) -> Tensor:
    return chain(x, w) + chain(x * x, w) * chain(w, w)


def matrices(x: Tensor, w: Tensor) -> Tensor:
    return chain(x, w) + chain(w, w) * chain(x * w, w) * chain(x * x, w)


REFERENCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "numbers": chain,
    "vectors": vectors,
    "matrices": matrices,
    "in_a_helper": lambda x, w: chain(x, w) * chain(w, x),
    "in_a_loop": lambda x, w: chain(chain(chain(x, w), w), w),
    "in_a_loop_unrolled": lambda x, w: chain(chain(x, w), w),
    "behind_a_branch": lambda x, w: torch.where(x > 0.6, chain(x, w), chain(x * w, w)),
    "in_a_method": lambda x, w: chain(x, w * x),
}


@pytest.mark.parametrize("name", BODIES)
def test_derivatives_of_many_calls_in_a_row_are_right(name: str, device: torch.device, tmp_path: Path) -> None:
    body = BODIES[name].replace("CHAIN", CHAIN)
    path = tmp_path / "chains.slang"
    path.write_text(HEAD + FUNCTION.replace("NAME", name).replace("BODY", body))
    ours = getattr(torch_slang.load(path, namespace=f"long_chains_{name}_{device.type}"), name)
    x = torch.linspace(0.3, 1.2, steps=5, dtype=torch.float64, device=device).requires_grad_()
    w = torch.linspace(1.4, 1.6, steps=5, dtype=torch.float64, device=device).requires_grad_()
    value, expected = ours(x, w), REFERENCES[name](x, w)
    torch.testing.assert_close(value, expected)
    found, right = (torch.autograd.grad(y.sum(), (x, w)) for y in (value, expected))
    torch.testing.assert_close(found, right, rtol=1e-9, atol=1e-14)
    inputs, tangents = (x.detach(), w.detach()), (torch.ones_like(x), torch.full_like(w, -0.5))
    of_ours, of_theirs = (torch.func.jvp(f, inputs, tangents)[1] for f in (ours, REFERENCES[name]))
    torch.testing.assert_close(of_ours, of_theirs, rtol=1e-9, atol=1e-14)
