"""Loops under [MaxIters] whose counters begin with what is computed: csrc/compiler/ir/computed_beginnings.h.

Where steps are inlined: csrc/compiler/emit/loop_beginnings.h.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
import torch
from long_tests import dear_file

import torch_slang

pytestmark = dear_file

Tensor = torch.Tensor


def repeat(times: Iterator[int], s: Tensor, change: Callable[[Tensor, int], Tensor]) -> Tensor:
    for k in times:
        s = change(s, k)
    return s


def nested(s: Tensor, x: Tensor, i: int) -> Tensor:
    for j in range(i, 3):
        for k in range(2 * j, 7, 2):
            for l in range(k - j, k + 2):  # noqa: E741
                s = s + s * x * 0.05 * l
    return s


def left(s: Tensor, x: Tensor, i: int) -> Tensor:
    k = 2 * i
    while True:
        s, k = s + s * x * k, k - 2
        if k <= 0:
            return s


def after_another(s: Tensor, x: Tensor, i: int) -> Tensor:
    if i > 0:
        s = repeat((k for k in range(i, 4) if k != 2), s, lambda s, k: s + s * x * k)
    return repeat(range(i + 1, 4), s, lambda s, k: s + x * k * s)


# Loops that change s, and the same in PyTorch.
LOOPS: dict[str, Callable[[Tensor, Tensor, int], Tensor]] = {
    "for (int k = i; k < 4; ++k) s += s * x * k;": lambda s, x, i: repeat(range(i, 4), s, lambda s, k: s + s * x * k),
    "for (int k = i * 2; k > 0; k -= 2) s += s * x * k;": lambda s, x, i: repeat(
        range(2 * i, 0, -2), s, lambda s, k: s + s * x * k
    ),
    "for (int k = i * i; k < i * i + 3; k++) s = sin(s) * k + x;": lambda s, x, i: repeat(
        range(i * i, i * i + 3), s, lambda s, k: torch.sin(s) * k + x
    ),
    "for (uint k = uint(i + 1); k < 4; ++k) s += s * x * int(k);": lambda s, x, i: repeat(
        range(i + 1, 4), s, lambda s, k: s + s * x * k
    ),
    "for (int k = 4; k > i; k -= i + 1) s += s * x * k;": lambda s, x, i: repeat(
        range(4, i, -i - 1), s, lambda s, k: s + s * x * k
    ),
    "int k = i * 2; [MaxIters(6)] while (true) { s += s * x * k; k -= 2; if (k <= 0) break; }": left,
    "int l = i + 3; [MaxIters(6)] for (int k = i; k < 4; ++k) { s += s * x * k * l; l -= 1; }": lambda s, x, i: repeat(
        range(i, 4), s, lambda s, k: s + s * x * k * (3 + 2 * i - k)
    ),
    "int l = i + 3; [MaxIters(6)] for (int k = i; k < 4; ++k) { s += s * x * k * l; l += 1; }": lambda s, x, i: repeat(
        range(i, 4), s, lambda s, k: s + s * x * k * (k + 3)
    ),
    "if (i > 0) { [MaxIters(6)] for (int k = i; k < 4; ++k) { if (k == 2) continue; s += s * x * k; } }"
    "[MaxIters(6)] for (int k = i + 1; k < 4; ++k) s += x * k * s;": after_another,
    "for (int j = i; j < 3; ++j) { [MaxIters(4)] for (int k = j * 2; k < 7; k += 2) {"
    "[MaxIters(5)] for (int l = k - j; l < k + 2; ++l) s += s * x * 0.05lf * l; } }": nested,
}


def test_gradients_of_loops(device: torch.device) -> None:
    text = "import torch_slang;\n"
    for number, loop in enumerate(LOOPS):
        bound = "[MaxIters(6)] " if loop.startswith("for") else ""
        text += f"[Differentiable] double loop{number}(double x, int i) {{ double s = x; {bound}{loop} return s; }}\n"
    chosen = " ".join(f"if (which == {number}) y = loop{number}(x, i);" for number in range(len(LOOPS)))
    text += f"[Differentiable] double run(int which, double x, int i) {{ double y = 0; {chosen} return y; }}\n"
    module = torch_slang.load(source=text, name="loop_beginnings", namespace="loop_beginnings")
    x = torch.tensor([0.5, 1.5, -0.7], dtype=torch.float64).expand(len(LOOPS), 3).contiguous().requires_grad_()
    i = torch.arange(3, dtype=torch.int32)
    which = torch.arange(len(LOOPS), dtype=torch.int32)
    rows = [torch.stack([loop(x[n, j], x[n, j], j) for j in range(3)]) for n, loop in enumerate(LOOPS.values())]
    (expected,) = torch.autograd.grad(torch.stack(rows).sum(), x)
    given = x.detach().to(device).requires_grad_()
    result = module.run(which[:, None].to(device), given, i.to(device))
    torch.testing.assert_close(result.detach().cpu(), torch.stack(rows).detach())
    torch.testing.assert_close(torch.autograd.grad(result.sum(), given)[0].cpu(), expected)


KERNEL = """
import torch_slang;
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void windows([Shape("N")] DiffTensorView<double> x, int stride, [Out("N - 3")] DiffTensorView<double> products)
{
    uint t = cudaGlobalIdx().x;
    if (t >= products.size(0)) return;
    double product = 1;
    [MaxIters(4)] for (int k = int(t) * stride; k < int(t) * stride + 3; ++k) product *= x[k % 11] + 0.1lf * k;
    products[t] = product;
}
"""


def test_a_kernel_whose_threads_begin_elsewhere(device: torch.device) -> None:
    module = torch_slang.load(source=KERNEL, name="windows", namespace="windows")
    x = torch.linspace(-1, 1, 11, dtype=torch.float64).requires_grad_()
    terms = [[x[k % 11] + 0.1 * k for k in range(2 * t, 2 * t + 3)] for t in range(8)]
    expected = torch.stack([a * b * c for a, b, c in terms])
    given = x.detach().to(device).requires_grad_()
    result = module.windows(given, 2)
    torch.testing.assert_close(result.detach().cpu(), expected.detach())
    gradients = torch.autograd.grad(result.sum(), given)[0].cpu()
    torch.testing.assert_close(gradients, torch.autograd.grad(expected.sum(), x)[0])


INLINED = """import torch_slang;
[ForceInline] void step(inout int k) { ++k; }
[Differentiable] double f(double x, int i)
{
    double s = x;
    [MaxIters(6)]
    for (int k = i, l = i * i; k < 4; step(k), step(l)) s += s * x * (k + 2 * l);
    return s;
}"""


def test_counters_with_inlined_steps_that_cannot_be_told_apart_are_refused() -> None:
    module = torch_slang.load(source=INLINED, name="alike", namespace="alike")
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"lacks the first value of a loop's counter; .* \(.*alike:7\)"):
        module.f(x, torch.ones(2, dtype=torch.int32)).sum().backward()


# --- Rows of a sparse matrix: each begins with what a view holds

# What stands around `LOOP; ++i) sum += ...`.
ROWS = {
    "element": ("int begin = crow[r], end = crow[r + 1];", "int i = begin; i < end"),
    "loaded": ("int begin = crow.load(r), end = crow.load(r + 1);", "int i = begin; i < end"),
    "detached": ("int begin = no_diff crow[r], end = crow[r + 1];", "int i = begin; i < end"),
    "in_place": ("", "int i = crow[r] + 0; i < crow[r + 1]"),
    "wide": ("int64_t begin = crow[r], end = crow[r + 1];", "int64_t i = begin; i < end"),
    "two": ("int begin = crow[r], other = crow[0], end = crow[r + 1];", "int i = begin, j = other; i < end; ++j"),
}
ROW_KERNEL = """
[CudaKernel] [Differentiable]
void {name}([Shape("R")] TensorView<int> crow, [Shape("E")] DiffTensorView<double> v,
    [Out("R - 1")] DiffTensorView<double> sums)
{{
    uint r = cudaGlobalIdx().x;
    if (r >= sums.size(0)) return;
    double sum = 0;
    {before}
    [MaxIters(4)] for ({loop}) sum += v[i] * v[i] * int(i);
    sums[r] = sum;
}}
"""


def row_kernel(name: str, before: str, loop: str) -> str:
    step = ", ++i" if loop.count(";") == 2 else "; ++i"
    return ROW_KERNEL.format(name=name, before=before, loop=loop + step)


@pytest.fixture(scope="module")
def rows() -> torch_slang.Module:
    text = "".join(row_kernel(name, *parts) for name, parts in ROWS.items())
    return torch_slang.load(source="import torch_slang;" + text, name="rows", namespace="rows")


@pytest.mark.parametrize("name", ROWS)
def test_rows_of_a_sparse_matrix(rows: torch_slang.Module, name: str, device: torch.device) -> None:
    crow = torch.tensor([0, 2, 2, 6, 7], dtype=torch.int32, device=device)
    v = torch.linspace(-1, 1, 7, dtype=torch.float64, device=device).requires_grad_()
    terms = v * v * torch.arange(7, device=device)
    expected = torch.stack([terms[begin:end].sum() for begin, end in itertools.pairwise(crow)])
    grad = torch.arange(1, 5, dtype=torch.float64, device=device)
    result = getattr(rows, name)(crow, v)
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(torch.autograd.grad(result, v, grad)[0], torch.autograd.grad(expected, v, grad)[0])
    assert torch.autograd.gradcheck(lambda v: getattr(rows, name)(crow, v), (v,))


def test_rows_have_second_derivatives(rows: torch_slang.Module) -> None:
    crow = torch.tensor([0, 2, 2, 6, 7], dtype=torch.int32)
    v = torch.linspace(-1, 1, 7, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda v: rows.element(crow, v), (v,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda v: rows.element(crow, v), (v,))


def test_two_counters_that_begin_alike() -> None:
    source = INLINED.replace("step(k)", "++k").replace("step(l)", "++l")
    module = torch_slang.load(source=source, name="two_counters", namespace="two_counters")
    x = torch.tensor([0.5, -0.25], dtype=torch.float64, requires_grad=True)
    i = torch.tensor([1, 2], dtype=torch.int32)
    assert torch.autograd.gradcheck(lambda x: module.f(x, i), (x,))
