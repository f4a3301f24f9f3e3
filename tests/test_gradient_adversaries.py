"""Kernels that mix the ways to gather a gradient, where threads diverge, and launches on memory that is shared."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import torch_slang

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


@pytest.mark.parametrize("debug", [None, False], ids=["default", "unchecked"])
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_plain_torch(name: str, debug: bool | None, device: torch.device) -> None:
    shapes, reference = CASES[name]
    kernel = getattr(load(debug), name)
    flat = kernel if name != "structs" else lambda a, b, c, d: kernel([(a, b), (c, d)])
    generator = torch.Generator().manual_seed(5)
    inputs = [torch.randn(s, dtype=torch.float64, generator=generator).to(device) for s in shapes]
    every = list(range(len(inputs)))
    for wanted in [every, *([i] for i in every)]:
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
