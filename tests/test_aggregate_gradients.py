"""Gradients of vectors, matrices, arrays and structs whose elements are read and assigned by index, which Slang gets wrong.

`csrc/compiler/added_gradients.h` and `lost_copies.h` say what Slang does, and what is done about it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

import pytest
import torch
from aggregate_programs import Program, draw_program, module_text

import torch_slang

Tensor = torch.Tensor
LONG = os.environ.get("TORCH_SLANG_LONG_TESTS") == "1"
FIRST = int(os.environ.get("TORCH_SLANG_FIRST_PROGRAM", "0"))
PROGRAMS = 1000 if LONG else 24
AT_ONCE = 8  # in one module
ROWS = 6  # of arguments, for each program


@pytest.fixture
def quick_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_SLANG_CXXFLAGS", "-O0")


# Programs whose gradients Slang's text has wrong, each beside the same in PyTorch. `m` and the like are lists of scalars.
MET = """
struct Weights : IDifferentiable { double a[3]; double2x2 b; };
[Differentiable] double two(double x, double m[2], int i) { return x * m[i] + m[1]; }
[Differentiable] double product(double m[3], int i, int j) { return m[i] * m[j] * m[j]; }
[Differentiable] double of_vector(double2 m, int i) { return m[i % 2] * m[1] + m.x; }
[Differentiable] double unsigned_too(double m[2]) { return m[1] * m[1u] + m[0] * m[uint(1)]; }
[Differentiable] double elements(double3x3 m, int i, int j) { return m[i][j] * m[2][1] + m[i].y * m[2].y + m[i][0] + m[j][1]; }
[Differentiable] double rows(double2x2 m, int i) { return dot(m[i], m[0]) + m[1].x * m[i].x; }
[Differentiable] double field(Weights w, int i, int j) { return w.a[i] * w.a[2] + w.b[j][0] * w.b[0][j]; }
[Differentiable] void shift(inout double a[3], int i) { a[i] = a[i] * a[(i + 1) % 3] + a[0]; }
[Differentiable] double changed(double a[3], int i) { shift(a, i); return a[0] * a[i] + a[2]; }
[Differentiable] double looped(double a[4], double x)
{
    [MaxIters(3)] for (int i = 1; i < 4; ++i) a[i] = a[i] * a[i - 1] + a[0];
    return a[3] * x;
}
[Differentiable] double structs(Weights w[2], int i, int j) { return w[i].a[j] * w[1].a[2] + w[i].b[1].x * w[j % 2].b[i].y; }
[ForceInline] [Differentiable] double inlined(double m[3], int i, int j) { return m[i] * m[j]; }
[Differentiable] double inlines(double m[3], int i) { return inlined(m, i, 2) + m[1] * m[i]; }
// Assigned by the user, not by Slang: these stay assignments.
[Differentiable] double assigned(double2 m, int i, int j)
{
    float2 none = float2(0.0);
    double2 q = double2(none);
    q[i] = m.x * m.y;
    q[j] = m.x * m.x;
    return q.x * q.y + q[i];
}
[Differentiable] double from_zero(double2 m, int i, int j)
{
    double q[2] = {0.0, 0.0};
    q[i] = m.x * m.y;
    q[j] = m.x * m.x;
    return sin(q[0] + q[j]) * q[1];
}
"""


def changed(a: list[Tensor], i: int) -> Tensor:
    a[i] = a[i] * a[(i + 1) % 3] + a[0]
    return a[0] * a[i] + a[2]


def looped(a: list[Tensor], x: Tensor) -> Tensor:
    for i in range(1, 4):
        a[i] = a[i] * a[i - 1] + a[0]
    return a[3] * x


def assigned(m: list[Tensor], i: int, j: int) -> list[Tensor]:
    q = [torch.zeros((), dtype=torch.float64)] * 2
    q[i] = m[0] * m[1]
    q[j] = m[0] * m[0]
    return q


def from_zero(m: list[Tensor], i: int, j: int) -> Tensor:
    q = assigned(m, i, j)
    return torch.sin(q[0] + q[j]) * q[1]


Reference = Callable[..., Tensor]
MET_REFERENCES: dict[str, tuple[Sequence[tuple[int, ...]], int, Reference]] = {
    # The shapes of tensors, how many integers below the last shape's first size, and the formula.
    "two": ([(), (2,)], 1, lambda x, m, i: x * m[i] + m[1]),
    "product": ([(3,)], 2, lambda m, i, j: m[i] * m[j] * m[j]),
    "of_vector": ([(2,)], 1, lambda m, i: m[i] * m[1] + m[0]),
    "unsigned_too": ([(2,)], 0, lambda m: m[1] * m[1] + m[0] * m[1]),
    "elements": ([(3, 3)], 2, lambda m, i, j: m[i][j] * m[2][1] + m[i][1] * m[2][1] + m[i][0] + m[j][1]),
    "rows": ([(2, 2)], 1, lambda m, i: m[i][0] * m[0][0] + m[i][1] * m[0][1] + m[1][0] * m[i][0]),
    "changed": ([(3,)], 1, changed),
    "looped": ([(4,), ()], 0, looped),
    "inlines": ([(3,)], 1, lambda m, i: m[i] * m[2] + m[1] * m[i]),
    "assigned": ([(2,)], 2, lambda m, i, j: (lambda q: q[0] * q[1] + q[i])(assigned(m, i, j))),
    "from_zero": ([(2,)], 2, from_zero),
}


def nested(tensor: Tensor) -> Tensor | list:
    return [nested(part) for part in tensor.unbind()] if tensor.dim() else tensor


def integers_below(count: int, size: int) -> Iterator[tuple[int, ...]]:
    yield from ((i, j)[:count] for i in range(size if count > 0 else 1) for j in range(size if count > 1 else 1))


@pytest.mark.parametrize("name", MET_REFERENCES)
def test_elements_that_are_read_by_several_indices_get_all_their_gradient(name: str, device: torch.device) -> None:
    shapes, count, reference = MET_REFERENCES[name]
    function = getattr(torch_slang.load(source=MET, name="met", namespace="met"), name)
    generator = torch.Generator().manual_seed(0)
    size = max(shape[0] for shape in shapes if shape)
    for integers in integers_below(count, size):
        tensors = [torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes]
        expected = torch.autograd.grad(reference(*map(nested, tensors), *integers), tensors)
        given = [tensor.detach().to(device).requires_grad_() for tensor in tensors]
        result = torch.autograd.grad(function(*given, *integers), given)
        for one, other in zip(result, expected, strict=True):
            torch.testing.assert_close(one.cpu(), other, rtol=1e-12, atol=1e-12)


def test_fields_of_structs_that_are_read_by_several_indices(device: torch.device) -> None:
    module = torch_slang.load(source=MET, name="met", namespace="met")
    generator = torch.Generator().manual_seed(1)
    for i, j in integers_below(2, 2):
        a, b = (torch.randn(s, generator=generator, dtype=torch.float64).requires_grad_() for s in [(3,), (2, 2)])
        expected = torch.autograd.grad(a[i] * a[2] + b[j][0] * b[0][j], (a, b))
        given = {"a": a.detach().to(device).requires_grad_(), "b": b.detach().to(device).requires_grad_()}
        result = torch.autograd.grad(module.field(given, i, j), list(given.values()))
        for one, other in zip(result, expected, strict=True):
            torch.testing.assert_close(one.cpu(), other, rtol=1e-12, atol=1e-12)


# Random programs.


def compare(programs: Sequence[Program], name: str, device: torch.device) -> None:
    """Values and gradients of each program on its own rows, beside PyTorch's."""
    module = torch_slang.load(source=module_text(programs), name=name, namespace=name)
    generator = torch.Generator().manual_seed(len(programs))
    most = max(program.scalars for program in programs)
    numbers = 2 * torch.rand(len(programs), ROWS, most, generator=generator, dtype=torch.float64) - 1
    integers = torch.randint(0, 6, (len(programs), ROWS, 2), generator=generator, dtype=torch.int32)
    integers[:, 0, 1] = integers[:, 0, 0]
    which = torch.arange(len(programs), dtype=torch.int32)[:, None].expand(-1, ROWS)
    given = numbers.to(device).requires_grad_()
    values = module.run(which.to(device), given, integers[..., 0].to(device), integers[..., 1].to(device))
    (gradients,) = torch.autograd.grad(values.sum(), given)
    for n, program in enumerate(programs):
        for row in range(ROWS):
            scalars = numbers[n, row, : program.scalars].clone().requires_grad_()
            value = program.run(scalars, integers[n, row].tolist())
            expected = torch.autograd.grad(value, scalars, allow_unused=True)[0] if value.requires_grad else None
            expected = torch.zeros_like(scalars) if expected is None else expected
            message = f"{program.name}, row {row}:\n{program.text}"
            torch.testing.assert_close(values[n, row].detach().cpu(), value.detach(), rtol=1e-9, atol=1e-9, msg=message)
            scale = 1e-9 * (1 + float(expected.abs().max()))
            torch.testing.assert_close(
                gradients[n, row, : program.scalars].cpu(), expected, rtol=1e-8, atol=scale, msg=message
            )


def refused_among(programs: Sequence[Program], device: torch.device) -> list[str]:
    """Compares all; the names of those that the compiler refuses."""
    name = f"{programs[0].name}_{len(programs)}"
    try:
        compare(programs, name, device)
        return []
    except torch_slang.CompileError as error:
        if len(programs) > 1:
            half = len(programs) // 2
            return refused_among(programs[:half], device) + refused_among(programs[half:], device)
        assert "is refused: the gradient of" in str(error) or "exited with" in str(error), error
        return [programs[0].name]


def test_random_programs_of_aggregates(quick_compiles: None, device: torch.device) -> None:
    refused = []
    for first in range(FIRST, FIRST + PROGRAMS, AT_ONCE):
        refused += refused_among([draw_program(seed, f"f{seed}") for seed in range(first, first + AT_ONCE)], device)
    assert len(refused) <= PROGRAMS / 10, refused
