"""Gradients of aggregates whose elements are read and assigned by index, some of which Slang gets wrong.

`csrc/compiler/emit/added_gradients.h` and `lost_copies.h` say what Slang does, and what is done about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
import torch
from aggregate_programs import Program, draw_program, is_moderate, is_refused, module_text
from devices import with_memory_for_frames
from long_tests import LONG, some_cases, some_tests

import torch_slang

pytestmark = some_tests(3)

Tensor = torch.Tensor
BATCHES = 25 if LONG else 1  # one test each, so that workers share them: 1,000 programs in all
PROGRAMS = 40 if LONG else 16  # of a batch
AT_ONCE = 8  # in one module
ROWS = 6  # of arguments, for each program


# Programs whose gradients Slang's text has wrong, each beside the same in PyTorch, where `m` and the like are lists.
MET = """
struct Weights : IDifferentiable { double a[3]; double2x2 b; };
[Differentiable] double two(double x, double m[2], int i) { return x * m[i] + m[1]; }
[Differentiable] double product(double m[3], int i, int j) { return m[i] * m[j] * m[j]; }
[Differentiable] double of_vector(double2 m, int i) { return m[i % 2] * m[1] + m.x; }
[Differentiable] double unsigned_too(double m[2]) { return m[1] * m[1u] + m[0] * m[uint(1)]; }
// One index, written in two ways.
[Differentiable] double same(double x, double m[2], int i) { return m[i + 0] * x + m[i]; }
[Differentiable] double same_times(double x, double m[2], int i) { return m[0 + i] * x + m[1 * i] + m[i]; }
[ForceInline] [Differentiable] double at(double m[2], int i, int k) { return m[i + k]; }
[Differentiable] double same_inlined(double x, double m[2], int i) { return at(m, i, 0) * x + m[i]; }
[ForceInline] [Differentiable] double behind<let K : int>(double m[2], int i) { return m[i + K]; }
[Differentiable] double same_generic(double x, double m[2], int i) { return behind<0>(m, i) * x + m[i]; }
[Differentiable] double elements(double3x3 m, int i, int j)
{
    return m[i][j] * m[2][1] + m[i].y * m[2].y + m[i][0] + m[j][1];
}
[Differentiable] double rows(double2x2 m, int i) { return dot(m[i], m[0]) + m[1].x * m[i].x; }
[Differentiable] double field(Weights w, int i, int j) { return w.a[i] * w.a[2] + w.b[j][0] * w.b[0][j]; }
[Differentiable] void shift(inout double a[3], int i) { a[i] = a[i] * a[(i + 1) % 3] + a[0]; }
[Differentiable] double changed(double a[3], int i) { shift(a, i); return a[0] * a[i] + a[2]; }
[Differentiable] double looped(double a[4], double x)
{
    [MaxIters(3)] for (int i = 1; i < 4; ++i) a[i] = a[i] * a[i - 1] + a[0];
    return a[3] * x;
}
[ForceInline] [Differentiable] double inlined(double m[3], int i, int j) { return m[i] * m[j]; }
[Differentiable] double inlines(double m[3], int i) { return inlined(m, i, 2) + m[1] * m[i]; }
// An inout argument that is read in a loop behind the call, and in a branch before it.
[Differentiable] double spend(inout double a[3], double x) { double b = a[0] * a[1]; a[2] = a[2] * x; return b; }
[Differentiable] double read_behind(double a[3], double x, int i)
{
    double sum = spend(a, x);
    [MaxIters(3)] for (int k = 0; k < 3; ++k) sum += x * a[(k + i) % 3] * a[2];
    return sum;
}
[Differentiable] double read_before(double a[3], double x, int i)
{
    double sum = x;
    if (i > 0) sum = a[0] * x;
    return spend(a, x) * a[2] + sum;
}
// What the branches leave behind: each variable gets its own value.
[Differentiable] double branches(double2 s, double2 u, double z)
{
    if (z > 0) { s.y = z * s.y; } else { u.y = u.y * z; }
    return s.y * s.x + u.x * z + u.y;
}
[Differentiable] double exchanged(double3 s, double3 u, double z, int i)
{
    if (z > 0) { s[i] *= z; u.x = s.y; } else { double3 t = s; s = u; u = t; u[i] = s.x * z; s.z = u.y; }
    return dot(s, u) * z + s.x * u[i];
}
[Differentiable] double turned(double2 s, double2 u, double z)
{
    [MaxIters(4)] for (int k = 0; k < 4; ++k)
    {
        s.x = s.x * z + u.y;
        double2 t = s;
        s = u;
        u = t;
    }
    return s.x * u.x + s.y * u.y * z;
}
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


def from_nothing(m: list[Tensor], i: int, j: int) -> Tensor:
    q = assigned(m, i, j)
    return q[0] * q[1] + q[i]


def from_zero(m: list[Tensor], i: int, j: int) -> Tensor:
    q = assigned(m, i, j)
    return torch.sin(q[0] + q[j]) * q[1]


def spend(a: list[Tensor], x: Tensor) -> Tensor:
    product = a[0] * a[1]
    a[2] = a[2] * x
    return product


def read_behind(a: list[Tensor], x: Tensor, i: int) -> Tensor:
    total = spend(a, x)
    for k in range(3):
        total = total + x * a[(k + i) % 3] * a[2]
    return total


def read_before(a: list[Tensor], x: Tensor, i: int) -> Tensor:
    total = a[0] * x if i > 0 else x
    return spend(a, x) * a[2] + total


def branches(s: list[Tensor], u: list[Tensor], z: Tensor) -> Tensor:
    if z > 0:
        s[1] = z * s[1]
    else:
        u[1] = u[1] * z
    return s[1] * s[0] + u[0] * z + u[1]


def exchanged(s: list[Tensor], u: list[Tensor], z: Tensor, i: int) -> Tensor:
    if z > 0:
        s[i] = s[i] * z
        u[0] = s[1]
    else:
        s, u = u, s
        u[i] = s[0] * z
        s[2] = u[1]
    return sum(a * b for a, b in zip(s, u, strict=True)) * z + s[0] * u[i]


def turned(s: list[Tensor], u: list[Tensor], z: Tensor) -> Tensor:
    for _ in range(4):
        s[0] = s[0] * z + u[1]
        s, u = u, s
    return s[0] * u[0] + s[1] * u[1] * z


Reference = Callable[..., Tensor]
MET_REFERENCES: dict[str, tuple[Sequence[tuple[int, ...]], int, Reference]] = {
    # The shapes of tensors, how many integers below the last shape's first size, and the formula.
    "two": ([(), (2,)], 1, lambda x, m, i: x * m[i] + m[1]),
    "product": ([(3,)], 2, lambda m, i, j: m[i] * m[j] * m[j]),
    "of_vector": ([(2,)], 1, lambda m, i: m[i] * m[1] + m[0]),
    "unsigned_too": ([(2,)], 0, lambda m: m[1] * m[1] + m[0] * m[1]),
    "same": ([(), (2,)], 1, lambda x, m, i: m[i] * x + m[i]),
    "same_times": ([(), (2,)], 1, lambda x, m, i: m[i] * x + 2 * m[i]),
    "same_inlined": ([(), (2,)], 1, lambda x, m, i: m[i] * x + m[i]),
    "same_generic": ([(), (2,)], 1, lambda x, m, i: m[i] * x + m[i]),
    "elements": ([(3, 3)], 2, lambda m, i, j: m[i][j] * m[2][1] + m[i][1] * m[2][1] + m[i][0] + m[j][1]),
    "rows": ([(2, 2)], 1, lambda m, i: m[i][0] * m[0][0] + m[i][1] * m[0][1] + m[1][0] * m[i][0]),
    "changed": ([(3,)], 1, changed),
    "looped": ([(4,), ()], 0, looped),
    "inlines": ([(3,)], 1, lambda m, i: m[i] * m[2] + m[1] * m[i]),
    "read_behind": ([(3,), ()], 1, read_behind),
    "read_before": ([(3,), ()], 1, read_before),
    "branches": ([(2,), (2,), ()], 0, branches),
    "exchanged": ([(3,), (3,), ()], 1, exchanged),
    "turned": ([(2,), (2,), ()], 0, turned),
    "assigned": ([(2,)], 2, from_nothing),
    "from_zero": ([(2,)], 2, from_zero),
}


def nested(tensor: Tensor) -> Tensor | list:
    return [nested(part) for part in tensor.unbind()] if tensor.dim() else tensor


def integers_below(count: int, size: int) -> Iterator[tuple[int, ...]]:
    yield from ((i, j)[:count] for i in range(size if count > 0 else 1) for j in range(size if count > 1 else 1))


@some_cases(5)
@pytest.mark.parametrize("name", MET_REFERENCES)
def test_gradients_of_aggregates(name: str, device: torch.device) -> None:
    shapes, count, reference = MET_REFERENCES[name]
    function = getattr(torch_slang.load(source=MET, name="met", namespace="met"), name)
    generator = torch.Generator().manual_seed(0)
    size = max(shape[0] for shape in shapes if shape)
    for integers in [*integers_below(count, size), *integers_below(count, size)]:
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


KERNEL = """
import torch_slang;
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void met([Shape("N")] DiffTensorView<double> x, [Shape("N")] TensorView<int> which, double3 m,
         [Out("N")] DiffTensorView<double> y)
{
    uint t = cudaGlobalIdx().x;
    if (t >= x.size(0)) return;
    int i = which[t];
    double a[2] = {x[t], m.x};
    double3 b = m;
    if (i > 0) { a[i % 2] = a[i % 2] * m[i] + m[1]; } else { b.y = a[1]; b[i] *= x[t]; }
    y[t] = a[0] * a[i % 2] + m[2] * m[i] + b[i] * b.x;
}
"""


def test_kernels_of_aggregates(device: torch.device) -> None:
    module = torch_slang.load(source=KERNEL, name="met_kernel", namespace="met_kernel")
    generator = torch.Generator().manual_seed(2)
    which = torch.tensor([0, 1, 2, 2, 1, 0, 0], dtype=torch.int32)
    x = torch.randn(len(which), generator=generator, dtype=torch.float64).requires_grad_()
    m = torch.randn(3, generator=generator, dtype=torch.float64).requires_grad_()
    weights = torch.randn(len(which), generator=generator, dtype=torch.float64)
    values = []
    for t, i in enumerate(which.tolist()):
        a, b = [x[t], m[0]], list(m.unbind())
        if i > 0:
            a[i % 2] = a[i % 2] * m[i] + m[1]
        else:
            b[1] = a[1]
            b[i] = b[i] * x[t]
        values.append(a[0] * a[i % 2] + m[2] * m[i] + b[i] * b[0])
    expected = torch.autograd.grad((torch.stack(values) * weights).sum(), (x, m))
    given = [tensor.detach().to(device).requires_grad_() for tensor in (x, m)]
    result = module.met(given[0], which.to(device), given[1])
    torch.testing.assert_close(result.detach().cpu(), torch.stack(values).detach())
    for one, other in zip(torch.autograd.grad(result, given, weights.to(device)), expected, strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=1e-12, atol=1e-12)


OWN_BACKWARD = """
import torch_slang;
[BackwardDerivative(grow_bwd)] double grow(inout double3 v, double x) { v = v + x; return v.x * x; }
void grow_bwd(inout DifferentialPair<double3> v, inout DifferentialPair<double> x, double dr)
{
    double3 d = v.d + double3(dr * x.p, 0, 0);
    x = diffPair(x.p, d.x + d.y + d.z + dr * (v.p.x + x.p));
    v = diffPair(v.p, d);
}
[Differentiable] double behind(double3 u, double x, int n)
{
    double3 v = u;
    double s = grow(v, x);
    [MaxIters(4)] for (int k = 0; k < n; ++k) { s += x * v[k % 3] * v[(k + n) % 3]; if (k == 1) s += v.y * v.y; }
    return s;
}
[Differentiable] double within(double3 u, double x, int n)
{
    double3 v = u;
    double s = 0;
    [MaxIters(4)] for (int k = 0; k < n; ++k) s += grow(v, x) * v[k % 3];
    return s + v.x * v.y;
}
"""


def grown(v: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    return v + x, (v[0] + x) * x


def behind(v: Tensor, x: Tensor, n: int) -> Tensor:
    v, s = grown(v, x)
    for k in range(n):
        s = s + x * v[k % 3] * v[(k + n) % 3] + (v[1] * v[1] if k == 1 else 0)
    return s


def within(v: Tensor, x: Tensor, n: int) -> Tensor:
    s = torch.zeros_like(x)
    for k in range(n):
        v, r = grown(v, x)
        s = s + r * v[k % 3]
    return s + v[0] * v[1]


@pytest.mark.parametrize("function", [behind, within])
def test_hand_written_backwards_of_inout_arguments(function: Callable[..., Tensor], device: torch.device) -> None:
    module = torch_slang.load(source=OWN_BACKWARD, name="own_backward", namespace="own_backward")
    generator = torch.Generator().manual_seed(3)
    for n in range(5):
        v, x = (torch.randn(s, generator=generator, dtype=torch.float64).requires_grad_() for s in [(3,), ()])
        expected = function(v, x, n)
        given = [tensor.detach().to(device).requires_grad_() for tensor in (v, x)]
        result = getattr(module, function.__name__)(*given, n)
        torch.testing.assert_close(result.detach().cpu(), expected.detach())
        gradients = torch.autograd.grad(expected, (v, x), materialize_grads=True)
        for one, other in zip(torch.autograd.grad(result, given), gradients, strict=True):
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
            if not is_moderate(value, expected):
                continue
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
        with_memory_for_frames(lambda: compare(programs, name, device))
        return []
    except RuntimeError as error:  # a CompileError, as which autograd does not hand on what a backward raises
        # What ends Slang's compiler is refused, too, with hints where these are known (test_crashes_of_slang.py).
        if not is_refused(error):
            raise
        if len(programs) == 1:
            return [programs[0].name]
    half = len(programs) // 2
    return refused_among(programs[:half], device) + refused_among(programs[half:], device)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_programs_of_aggregates(quick_compiles: None, batch: int, device: torch.device) -> None:
    refused = []
    start = batch * PROGRAMS
    for first in range(start, start + PROGRAMS, AT_ONCE):
        refused += refused_among([draw_program(seed, f"f{seed}") for seed in range(first, first + AT_ONCE)], device)
    assert len(refused) <= PROGRAMS / 10, refused
