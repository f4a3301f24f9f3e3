"""Kernels that mix the ways to gather a gradient, where threads diverge, and launches on memory that is shared."""

from collections.abc import Callable

import pytest
import torch
from long_tests import LONG, some_cases, some_tests
from torch import Tensor

import torch_slang

pytestmark = some_tests(3)

N = 13
SOURCE = """
#define KERNEL [PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
#define THREAD(VIEW) uint i = cudaGlobalIdx().x; if (i >= VIEW.size(0)) return;
#define R DiffTensorViewR
#define ASR DiffTensorViewASR

// Three ways in one kernel, each element with several readers.
KERNEL void mixed([Shape("N")] R<double, 3> a, [Shape("N")] ASR<double, 2> b, [Shape("N")] DiffTensorView<double> c,
                  [Out("N")] DiffTensorView<double> y)
{
    THREAD(y)
    uint n = y.size(0);
    y[i] = a[i] * b[(i + 1) % n] * c[(i * i) % n] + a[(i + 2) % n] * b[i];
}

// Early returns, loops of several lengths with continue and break.
KERNEL void divergent([Shape("N")] R<double, 3> a, [Shape("N")] ASR<double, 4> b, [Out("N")] DiffTensorView<double> y)
{
    THREAD(y)
    if (i % 3 == 0) { y[i] = a[0] * b[0]; return; }
    double sum = 0;
    [MaxIters(8)]
    for (uint k = 0; k < i % 5; ++k)
    {
        if (k == 2) continue;
        sum += a[k] * b[(i + k) % 13];
        if (sum > 1.0) break;
    }
    y[i] = sum;
}

// Generic helpers that load in a branch, on fields of structs in an array.
[Differentiable]
double chosen<A : IDiffTensorWrapper>(DiffTensorView<double, A> view, uint i, bool own)
{
    if (own) return view[i] * view[i];
    return view.loadFixed(0);
}
struct Pair { [Shape("N")] R<double, 2> r; [Shape("N")] ASR<double, 3> s; }
KERNEL void structs(Pair p[2], [Out("N")] DiffTensorView<double> y, [Out("N")] ASR<double, 1> z)
{
    THREAD(y)
    y[i] = chosen(p[0].r, i, i % 2 == 0) * chosen(p[1].s, i, i % 2 == 1) + p[1].r[0] * p[0].s[i];
    z[i] = p[0].s[i] * p[1].r[i];
}

// Numbers beside views.
KERNEL void numbers([Shape("N")] R<double, 5> x, double s, double3 v, [Shape("N")] ASR<double, 1> z,
                    [Out("N")] DiffTensorView<double> y)
{
    THREAD(y)
    y[i] = x[i] * s + v.y * z[i] * v.x * s;
}

// What is read once is stored once, in elements of a struct.
struct Both : IDifferentiable { double a; double b; }
KERNEL void elements([Shape("N")] R<Both, 3> x, [Shape("N")] DiffTensorView<Both> z, [Out("N")] ASR<Both, 2> y)
{
    THREAD(y)
    Both own = x.loadUniform(i), other = z[i], fixed = z.loadFixed(1), result;
    result.a = own.b * other.a;
    result.b = own.a + fixed.b;
    y.storeUniform(i, result);
}
"""


def divergent(a: Tensor, b: Tensor) -> Tensor:
    values = []
    for i in range(N):
        value = a[0] * b[0] if i % 3 == 0 else torch.zeros_like(a[0])
        for k in range(0 if i % 3 == 0 else i % 5):
            if k != 2:
                value = value + a[k] * b[(i + k) % N]
                if value > 1.0:
                    break
        values.append(value)
    return torch.stack(values)


def structs(r0: Tensor, s0: Tensor, r1: Tensor, s1: Tensor) -> tuple[Tensor, Tensor]:
    even = torch.arange(N, device=r0.device) % 2 == 0
    y = torch.where(even, r0 * r0, r0[0]) * torch.where(even, s1[0], s1 * s1) + r1[0] * s0
    return y, s0 * r1


def mixed(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    i = torch.arange(N, device=a.device)
    return a * b.roll(-1) * c[i * i % N] + a.roll(-2) * b


CASES: dict[str, tuple[list[tuple[int, ...]], Callable[..., object]]] = {
    "mixed": ([(N,)] * 3, mixed),
    "divergent": ([(N,)] * 2, divergent),
    "structs": ([(N,)] * 4, structs),
    "numbers": ([(N,), (), (3,), (N,)], lambda x, s, v, z: x * s + v[1] * z * v[0] * s),
    "elements": ([(N, 2)] * 2, lambda x, z: torch.stack([x[:, 1] * z[:, 0], x[:, 0] + z[1, 1]], 1)),
}


def load(debug: bool | None = None) -> torch_slang.Module:
    return torch_slang.load(source=SOURCE, name="adversaries.slang", namespace=f"adversaries_{debug}", debug=debug)


def gradients(function: Callable[..., object], inputs: list[Tensor], wanted: list[int]) -> list[Tensor]:
    values = [x.requires_grad_(i in wanted) for i, x in enumerate(x.detach() for x in inputs)]
    results = function(*values)
    results = results if isinstance(results, tuple) else (results,)
    seeds = [torch.linspace(-1, 2, r.numel(), dtype=r.dtype, device=r.device).view_as(r) for r in results]
    total = sum((r * seed).sum() for r, seed in zip(results, seeds, strict=True))
    return [*results, *torch.autograd.grad(total, [values[i] for i in wanted])]


@some_cases(1)
@pytest.mark.parametrize("debug", [None, False], ids=["default", "unchecked"])
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_plain_torch(name: str, debug: bool | None, device: torch.device) -> None:
    shapes, reference = CASES[name]
    kernel = getattr(load(debug), name)
    flat = kernel if name != "structs" else lambda a, b, c, d: kernel([(a, b), (c, d)])
    generator = torch.Generator().manual_seed(5)
    inputs = [torch.randn(s, dtype=torch.float64, generator=generator).to(device) for s in shapes]
    every = list(range(len(inputs)))
    alone = [[i] for i in every] if debug is None or LONG else []
    for wanted in [every, *alone]:
        for one, other in zip(gradients(flat, inputs, wanted), gradients(reference, inputs, wanted), strict=True):
            torch.testing.assert_close(one, other)


def test_one_tensor_for_every_parameter(device: torch.device) -> None:
    kernel = load().mixed
    x = torch.linspace(-1, 1, N, dtype=torch.float64, device=device)
    one = gradients(lambda x: kernel(x, x, x), [x], [0])
    other = gradients(lambda x: mixed(x, x, x), [x], [0])
    torch.testing.assert_close(one, other)


def test_gradients_of_two_parameters_in_one_memory(device: torch.device) -> None:
    """A launched backward adds to what it is given, also where that is the same tensor twice, or overlaps."""
    a, b, c = (torch.linspace(-1, k, N, dtype=torch.float64, device=device) for k in (1, 2, 3))
    y, seed = torch.zeros_like(a), torch.ones_like(a)
    expected = torch.autograd.functional.vjp(mixed, (a, b, c), seed)[1]
    room = torch.ones(N + 1, dtype=torch.float64, device=device)
    load().mixed_bwd((a, room[:N]), (b, room[:N]), (c, room[1:]), (y, seed.clone()), block_size=4, grid_size=4)
    wanted = torch.ones_like(room)
    wanted[:N] += expected[0] + expected[1]
    wanted[1:] += expected[2]
    torch.testing.assert_close(room, wanted)


# --- What checks hide from the compiler must not count: marks that say too much refused these.

BRANCHES = """
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void branches([Shape("N")] VIEW x, [Shape("N")] DiffTensorView<double> w, [Out("N")] DiffTensorView<double> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= x.size(0)) return;
    if (i % 2 == 0) y[i] = x.FIRST(i) * w[i];
    else y[i] = 2 * x.SECOND(i) * w[i];
}
"""


@some_cases(2)
@pytest.mark.parametrize(
    "view", ["DiffTensorViewAA<double>", "DiffTensorViewR<double, 2>", "DiffTensorViewASR<double, 2>"]
)
@pytest.mark.parametrize(
    "loads", [("loadUniform", "loadUniform"), ("load", "loadUniform"), ("loadOnce", "loadUniform")]
)
def test_different_accesses_in_two_branches(view: str, loads: tuple[str, str], device: torch.device) -> None:
    name = "branches_" + "".join(c for c in view + loads[0] if c.isalnum())
    source = BRANCHES.replace("VIEW", view).replace("FIRST", loads[0]).replace("SECOND", loads[1])
    kernel = torch_slang.load(source=source, name=name, namespace=name).branches
    x, w = (torch.randn(9, dtype=torch.float64, device=device, requires_grad=True) for _ in range(2))
    factor = torch.where(torch.arange(9, device=device) % 2 == 0, 1.0, 2.0).double()
    gradients = torch.autograd.grad(kernel(x, w).sum(), (x, w))
    torch.testing.assert_close(gradients, ((factor * w).detach(), (factor * x).detach()))


def test_records_beside_a_frozen_atomic_view_are_deterministic(device: torch.device) -> None:
    source = BRANCHES.replace("VIEW", "DiffTensorViewASR<double, 1>").replace("FIRST", "load").replace("SECOND", "load")
    kernel = torch_slang.load(source=source, name="frozen_beside", namespace="frozen_beside").branches
    x = torch.randn(9, dtype=torch.float64, device=device, requires_grad=True)
    torch.use_deterministic_algorithms(True)
    try:
        kernel(x, torch.ones_like(x).detach()).sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
    assert x.grad is not None


def test_atomics_of_the_users_own_have_no_order(device: torch.device) -> None:
    source = """
    void cube_backward(DiffTensorView<float> x, uint i, float d)
    {
        float before;
        x.diff.diff.InterlockedAdd(i, 3 * x.primal[i] * x.primal[i] * d, before);
    }
    [BackwardDerivative(cube_backward)]
    float cube(DiffTensorView<float> x, uint i) { return x.primal[i] * x.primal[i] * x.primal[i]; }
    [PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
    void cubes([Shape("N")] DiffTensorView<float> x, [Out("N")] DiffTensorView<float> y)
    {
        uint i = cudaGlobalIdx().x;
        if (i < x.size(0)) y[i] = cube(x, i);
    }
    """
    kernel = torch_slang.load(source=source, name="own_atomics", namespace="own_atomics").cubes
    x = torch.randn(9, device=device, requires_grad=True)
    (gradient,) = torch.autograd.grad(kernel(x).sum(), x)
    torch.testing.assert_close(gradient, 3 * x.detach() ** 2)
    torch.use_deterministic_algorithms(True)
    try:
        with pytest.raises(RuntimeError, match="the gradient of x is added up atomically"):
            kernel(x).sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)


# --- Two gradients in one memory

SHARED = """
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void shared([Shape("N")] DiffTensorView<double> x, double3 u, double3 v, [Out("N")] DiffTensorView<double> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < x.size(0)) y[i] = x[i] * dot(u, double3(1, 2, 3)) + dot(v, v);
}
"""


def test_gradients_of_values_may_share_memory_of_any_strides(device: torch.device) -> None:
    module = torch_slang.load(source=SHARED, name="shared", namespace="shared_memory")
    x, y = torch.ones(2, 4, dtype=torch.float64, device=device)
    u, v = torch.ones(2, 3, dtype=torch.float64, device=device)
    room = torch.zeros(3, 2, dtype=torch.float64, device=device)
    for shared in (room[:, 0], torch.zeros(3, dtype=torch.float64, device=device)):
        module.shared_bwd(x, (u, shared), (v, shared), (y, torch.ones_like(y)), block_size=4, grid_size=1)
        assert shared.tolist() == [4 * (1 + 2), 4 * (2 + 2), 4 * (3 + 2)]
    assert not room[:, 1].any()


# --- Derivatives that Slang would take for zero, however they are written

MACRO = "#define OWN(f) [BackwardDerivative(f)]\nOWN(cube_backward) double cube(double x) { return x * x * x; }"
CONDITIONAL = """
#ifdef NEVER
[ForwardDerivative(cube_forward)]
#endif
[BackwardDerivative(cube_backward)] double cube(double x) { return x * x * x; }
"""
OPERATOR = """
struct Number : IDifferentiable { double v; }
void product_backward(inout DifferentialPair<Number> a, inout DifferentialPair<Number> b, Number.Differential d)
{
    Number.Differential da, db;
    da.v = d.v * b.p.v;
    db.v = d.v * a.p.v;
    a = diffPair(a.p, da);
    b = diffPair(b.p, db);
}
[BackwardDerivative(product_backward)] Number operator*(Number a, Number b) { Number r; r.v = a.v * b.v; return r; }
[Differentiable] double cube(double x) { Number n; n.v = x; Number r = n * n * n; return r.v; }
"""
METHOD = """
struct Powers
{
    [BackwardDerivative(third_backward)] double third(double x) { return x * x * x; }
    void third_backward(inout DifferentialPair<double> x, double d) { x = diffPair(x.p, 3 * x.p * x.p * d); }
}
[Differentiable] double cube(double x) { Powers p; return p.third(x); }
"""


ELSEWHERE = """
double cube(double x) { return x * x * x; }
[BackwardDerivativeOf(cube)]
void away(inout DifferentialPair<double> x, double d) { x = diffPair(x.p, 3 * x.p * x.p * d); }
"""


@some_cases(2)
@pytest.mark.parametrize("text", [MACRO, CONDITIONAL, OPERATOR, METHOD, ELSEWHERE])
def test_forward_derivatives_that_would_be_zero_are_refused(text: str) -> None:
    source = f"""
    {text}
    void cube_backward(inout DifferentialPair<double> x, double d) {{ x = diffPair(x.p, 3 * x.p * x.p * d); }}
    [PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
    void cubes([Shape("N")] DiffTensorView<double> x, [Out("N")] DiffTensorView<double> y)
    {{
        uint i = cudaGlobalIdx().x;
        if (i < x.size(0)) y[i] = cube(x[i]);
    }}
    """
    name = f"zero_{abs(hash(text))}"
    module = torch_slang.load(source=source, name=name, namespace=name)
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(module.cubes(x).sum(), x)
    torch.testing.assert_close(gradient, 3 * x.detach() ** 2)
    pair = (torch.zeros(5, dtype=torch.float64), torch.zeros(5, dtype=torch.float64))
    with pytest.raises(torch_slang.CompileError, match=r"has a \[BackwardDerivative\] and no \[ForwardDerivative\]"):
        module.cubes_fwd((x.detach(), torch.ones_like(x).detach()), pair, block_size=8, grid_size=1)


BY_NAME = """
void square_backward(inout DifferentialPair<double> x, double d) { x = diffPair(x.p, 2 * x.p * d); }
[BackwardDerivative(square_backward)] double square(double x) { return x * x; }
[Differentiable] double inner(double x) { return square(x) + 1; }
[Differentiable] double quotient(double x) { return 10 / inner(x); }
[Differentiable] double plain(double x) { return 10 / x; }
struct Scale { [Differentiable] static double of(double x) { return inner(x) * x; } }
double slope(double x) { return fwd_diff(quotient)(diffPair(x, 1.0)).d; }
double method_slope(double x) { return __fwd_diff(Scale.of)(diffPair(x, 1.0)).d; }
double gradient(double x)
{
    DifferentialPair<double> p = diffPair(x);
    bwd_diff(quotient)(p, 1.0);
    return p.d + fwd_diff(plain)(diffPair(x, 1.0)).d;
}
"""


def test_forward_derivatives_that_a_source_takes_itself_and_that_would_be_zero_are_refused() -> None:
    module = torch_slang.load(source=BY_NAME, name="by_name", namespace="by_name")
    x = torch.tensor([1.5, -0.5], dtype=torch.float64)
    torch.testing.assert_close(module.gradient(x), -20 * x / (x * x + 1) ** 2 - 10 / x**2)
    for name, function in {"slope": "quotient", "method_slope": "of"}.items():
        with pytest.raises(torch_slang.CompileError, match=rf"`fwd_diff\({function}\)` would have zeros for square"):
            getattr(module, name)(x)


BY_FUNCTION = """
double square(double x) { return x * x; }
[BackwardDerivativeOf(square)] void square_backward(inout DifferentialPair<double> x, double d)
{
    x = diffPair(x.p, 2 * x.p * d);
}
double cube(double x) { return x * x * x; }
[BackwardDerivativeOf(cube)] void cube_backward(inout DifferentialPair<double> x, double d)
{
    x = diffPair(x.p, 3 * x.p * x.p * d);
}
[ForwardDerivativeOf(cube)] DifferentialPair<double> cube_forward(DifferentialPair<double> x)
{
    return diffPair(x.p * x.p * x.p, 3 * x.p * x.p * x.d);
}
[Differentiable] double squared(double x) { return 2 * square(x); }
[Differentiable] double cubed(double x) { return 2 * cube(x); }
[Differentiable] double neither(double x) { return 2 * x * x; }
"""


def test_a_forward_derivative_is_asked_of_each_function() -> None:
    module = torch_slang.load(source=BY_FUNCTION, name="by_function", namespace="by_function")
    x = (torch.tensor([1.5], dtype=torch.float64),)
    torch.testing.assert_close(torch.func.jvp(module.cubed, x, x)[1], 6 * x[0] ** 3)
    torch.testing.assert_close(torch.func.jvp(module.neither, x, x)[1], 4 * x[0] ** 2)
    with pytest.raises(torch_slang.CompileError, match=r"square has a \[BackwardDerivative\] and no \[ForwardDer"):
        torch.func.jvp(module.squared, x, x)


# --- A module inside torch.compile


def test_kernels_first_used_in_a_compiled_function(device: torch.device) -> None:
    module = torch_slang.load(source=SHARED.replace("shared", "traced"), name="traced", namespace="traced")
    x = torch.ones(4, dtype=torch.float64, device=device)
    u = torch.ones(3, dtype=torch.float64, device=device)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def run(x: Tensor, y: Tensor) -> Tensor:
        module.traced(x, u, u, y, launchBlockSize=(4,), launchGridSize=(1,))
        return module.traced(x, u, u) + y

    assert run(x, torch.zeros_like(x)).tolist() == [18.0] * 4


def test_a_number_takes_the_dtype_of_its_own_type_parameter(device: torch.device) -> None:
    source = """
    [PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
    void mixed_types<T : IFloat>(
        [Shape("N")] TensorView<float> f, [Shape("N")] DiffTensorView<T> x, T s, [Out("N")] DiffTensorView<T> y)
    {
        uint i = cudaGlobalIdx().x;
        if (i < x.size(0)) y[i] = x[i] * s;
    }
    """
    kernel = torch_slang.load(source=source, name="mixed_types", namespace="mixed_types").mixed_types
    f, x = torch.ones(4, device=device), torch.ones(4, dtype=torch.float64, device=device)
    assert kernel(f, x, 2.5).tolist() == [2.5] * 4
