"""A loop that copies an aggregate and changes an element of the copy: its derivatives are wrong.

"Known and not mended" in docs/derivatives.md.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import torch_slang

HEAD = """import torch_slang;
struct Pair { double2 b; double c; };
[Differentiable] Pair with_element(Pair p, int k, double x) { p.b[k] = x; return p; }
[Differentiable] Pair copy(Pair p) { return p; }
[TorchOp] [Differentiable] double f(double a[4])
{
    Pair v = {double2(a[0], a[1]), a[2]}, t = {double2(0.0), 0.0};
    double x = a[3];
    v.b.y = x;
"""
LOOP = "[MaxIters(2)] for (int k = 0; k < 2; ++k)"
REMEDIES = {
    "a function that changes": f"{LOOP} t = with_element(v, k, x);",
    "a function that copies": f"{LOOP} {{ t = copy(v); t.b[k] = x; }}",
    "an unrolled loop": "[ForceUnroll] for (int k = 0; k < 2; ++k) { t = v; t.b[k] = x; }",
}


@pytest.fixture
def audited_first() -> Iterator[None]:
    before = torch_slang.audit.mode("first")
    yield
    torch_slang.audit.mode(before)


def gradient(body: str, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Of f, and what it should be: the last pass of the loop leaves t = {(a[0], x), a[2]}."""
    module = torch_slang.load(source=f"{HEAD}{body}\nreturn t.b.x * t.c;\n}}\n", name=name, namespace=name)
    a = torch.tensor([[0.5, 0.3, -0.7, 1.1], [-0.2, 0.9, 0.4, 0.6]], dtype=torch.float64, requires_grad=True)
    zero = torch.zeros(2, dtype=torch.float64)
    expected = torch.stack([a[:, 2].detach(), zero, a[:, 0].detach(), zero], 1)
    return torch.autograd.grad(module.f(a).sum(), a)[0], expected


def test_an_audit_finds_it(audited_first: None) -> None:
    with pytest.raises(RuntimeError, match="the gradient of a is wrong"):
        gradient(f"{LOOP} {{ t = v; t.b[k] = x; }}", "reused_variable")


@pytest.mark.parametrize("remedy", REMEDIES)
def test_what_docs_say_to_write(remedy: str) -> None:
    found, expected = gradient(REMEDIES[remedy], "reused_variable_" + remedy.replace(" ", "_"))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)
