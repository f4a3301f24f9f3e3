"""First and second derivatives of every function of Slang's core that has some, beside PyTorch's."""

import pytest
import torch
from intrinsics import rows_of, spelled
from intrinsics_table import Row
from long_tests import long_test

import torch_slang

Tensor = torch.Tensor
COUNT = 12
# Without derivatives (docs/functions.md), or with others than PyTorch's, or ones that end Slang's compiler.
LEFT_OUT = {
    *("floor", "ceil", "trunc", "round", "step", "ldexp", "frexp", "modf", "vector functions"),
    *("asdouble", "from integers", "through half", "min and max with nan"),
    "remainder operator",
}
ROWS = [row for row in rows_of("double") if not row.to_int and row.name not in LEFT_OUT]


def module() -> torch_slang.Module:
    """`row(which, a, b, c)`: all in one text."""
    text = "import torch_slang;\n"
    for k, row in enumerate(ROWS):
        body = spelled(f"{row.statements} return {row.slang};", "double")
        text += f"[Differentiable] double row_{k}(double a, double b, double c) {{ {body} }}  // {row.name}\n"
    calls = "\n".join(f"    if (which == {k}) return row_{k}(a, b, c);" for k in range(len(ROWS)))
    head = "[TorchOp] [Differentiable] double row(int which, double a, double b, double c)"
    text += f"{head}\n{{\n{calls}\n    return 0;\n}}\n"
    return torch_slang.load(source=text, name="intrinsics_twice.slang", namespace="intrinsics_twice")


def inside(row: Row, generator: torch.Generator) -> list[Tensor]:
    """a, b and c, away from the ends of the row's ranges."""
    drawn = []
    for low, high in (row.a, row.b, row.c):
        margin = 0.05 * (high - low)
        spread = high - low - 2 * margin
        drawn.append(low + margin + spread * torch.rand(COUNT, generator=generator, dtype=torch.float64))
    return drawn


@long_test
def test_derivatives_of_core_functions_are_pytorchs(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_SLANG_CXXFLAGS", "-O0")
    generator = torch.Generator().manual_seed(7)
    values = [inside(row, generator) for row in ROWS]
    weights = torch.randn(len(ROWS), COUNT, generator=generator, dtype=torch.float64)
    which = torch.arange(len(ROWS), dtype=torch.int32)[:, None].to(device)
    given = [torch.stack(side).to(device).requires_grad_() for side in zip(*values, strict=True)]
    first = torch.autograd.grad(module().row(which, *given).sum(), given, create_graph=True)
    second = torch.autograd.grad(sum((g * weights.to(device)).sum() for g in first), given)
    problems = []
    for k, row in enumerate(ROWS):
        leaves = [value.requires_grad_() for value in values[k]]
        once = torch.autograd.grad(row.reference(*leaves).sum(), leaves, create_graph=True, materialize_grads=True)
        total = sum((g * weights[k]).sum() for g in once)
        twice = (
            torch.autograd.grad(total, leaves, materialize_grads=True)
            if total.requires_grad
            else [torch.zeros_like(leaf) for leaf in leaves]
        )
        # Some constants in Slang's derivatives are of single precision.
        for what, actual, expected in (("first", first, once), ("second", second, twice)):
            for name, one, other in zip("abc", actual, expected, strict=True):
                if not torch.allclose(one[k].detach().cpu(), other.detach(), rtol=1e-7, atol=1e-7):
                    problems.append(f"the {what} derivative of {row.name} ({row.slang}) by {name}")
    assert not problems, "\n".join(problems)
