"""Loops under [MaxIters] whose counters begin with what is computed: csrc/compiler/emit/loop_beginnings.h."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

import torch_slang

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


def test_counters_that_cannot_be_told_apart_are_refused() -> None:
    text = """import torch_slang;
[Differentiable] double f(double x, int i)
{
    double s = x;
    [MaxIters(6)]
    for (int k = i, l = i * i; k < 4; ++k, ++l) s += s * x * (k + 2 * l);
    return s;
}"""
    module = torch_slang.load(source=text, name="alike", namespace="alike")
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"lacks the first value of a loop's counter; .* \(.*alike:6\)"):
        module.f(x, torch.ones(2, dtype=torch.int32)).sum().backward()
