"""Backwards that users write, with aggregates of gradients: what they assign is what they mean."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from long_tests import some_cases, some_tests

import torch_slang.slangtorch as slangtorch

pytestmark = some_tests(3)

Tensor = torch.Tensor

# INLINE: what stands in front of each backward. Three outputs: part(m, k) for k = 0, 1, 2.
SOURCE = """
#define FORCED [ForceInline]
struct Pair : IDifferentiable { float a; float b[3]; };

[Differentiable] float part(Pair m, int k) { return m.a * m.a + m.b[k] * m.b[1]; }

[Differentiable] Pair read(DiffTensorView x)
{
    Pair m;
    m.a = x[0];
    for (int k = 0; k < 3; ++k) m.b[k] = x[k + 1];
    return m;
}

void forward(DiffTensorView x, DiffTensorView y)
{
    Pair m = read(x);
    for (int k = 0; k < 3; ++k) y.storeOnce(k, part(m, k));
}

[BackwardDerivative(summed_backward)] void summed(DiffTensorView x, DiffTensorView y) { forward(x, y); }
INLINE void summed_backward(DiffTensorView x, DiffTensorView y)
{
    Pair m = read(x);
    Pair.Differential sum = diffPair(m).d;
    for (int k = 0; k < 3; ++k)
    {
        var pair = diffPair(m);
        bwd_diff(part)(pair, k, y.diff.diff[k]);
        sum.a += pair.d.a;
        for (int j = 0; j < 3; ++j) sum.b[j] += pair.d.b[j];
    }
    bwd_diff(read)(x, sum);
}

[BackwardDerivative(hoisted_backward)] void hoisted(DiffTensorView x, DiffTensorView y) { forward(x, y); }
INLINE void hoisted_backward(DiffTensorView x, DiffTensorView y)
{
    Pair m = read(x);
    Pair.Differential sum = diffPair(m).d;
    for (int k = 0; k < 3; ++k)
    {
        var pair = diffPair(m);
        bwd_diff(part)(pair, k, y.diff.diff[k]);
        let a = sum.a + pair.d.a;
        if (a != 0.0) sum.a = a;
        for (int j = 0; j < 3; ++j)
        {
            let b = sum.b[j] + pair.d.b[j];
            sum.b[j] = b + 0.0 * a;
        }
    }
    bwd_diff(read)(x, sum);
}

// The last one counts, as its writer has it.
[BackwardDerivative(replaced_backward)] void replaced(DiffTensorView x, DiffTensorView y) { forward(x, y); }
INLINE void replaced_backward(DiffTensorView x, DiffTensorView y)
{
    Pair m = read(x);
    Pair.Differential last = diffPair(m).d;
    for (int k = 0; k < 3; ++k)
    {
        var pair = diffPair(m);
        bwd_diff(part)(pair, k, y.diff.diff[k]);
        last.a = pair.d.a;
        for (int j = 0; j < 3; ++j) last.b[j] = pair.d.b[j];
    }
    bwd_diff(read)(x, last);
}

[AutoPyBindCUDA] [CUDAKernel] [Differentiable] void sums(DiffTensorView x, DiffTensorView y) { summed(x, y); }
[AutoPyBindCUDA] [CUDAKernel] [Differentiable] void hoists(DiffTensorView x, DiffTensorView y) { hoisted(x, y); }
[AutoPyBindCUDA] [CUDAKernel] [Differentiable] void replaces(DiffTensorView x, DiffTensorView y) { replaced(x, y); }
"""

X = (0.5, -1.5, 2.0, 0.25)
WEIGHTS = (1.0, -2.0, 0.5)
ONE = (1, 1, 1)


def gradient(kernel: str, folder: Path, device: torch.device, inline: str = "") -> Tensor:
    path = folder / "own_backwards.slang"
    path.write_text(SOURCE.replace("INLINE", inline))
    return gradient_of(path, kernel, device)


def gradient_of(path: Path, kernel: str, device: torch.device) -> Tensor:
    x, y = torch.tensor(X, device=device), torch.zeros(3, device=device)
    grad_x, grad_y = torch.zeros_like(x), torch.tensor(WEIGHTS, device=device)
    getattr(slangtorch.loadModule(path), kernel).bwd(x=(x, grad_x), y=(y, grad_y)).launchRaw(ONE, ONE)
    return grad_x.cpu().double()


def expected(weights: tuple[float, ...]) -> Tensor:
    x = torch.tensor(X, dtype=torch.float64, requires_grad=True)
    parts = x[0] ** 2 + x[1:] * x[2]
    return torch.autograd.grad(parts, x, torch.tensor(weights, dtype=torch.float64))[0]


INLINE = [
    "",
    "[ForceInline]",
    "[ForceInline, mutating]",
    "static [ForceInline]",
    "[__unsafeForceInlineEarly]",
    "FORCED",
]


@some_cases(2)
@pytest.mark.parametrize("inline", INLINE)
def test_gradients_that_a_backward_sums_by_index_are_summed_once(
    tmp_path: Path, device: torch.device, inline: str
) -> None:
    torch.testing.assert_close(gradient("sums", tmp_path, device, inline), expected(WEIGHTS))


@some_cases(2)
@pytest.mark.parametrize("inline", INLINE)
def test_sums_that_go_through_a_variable_are_summed_once(tmp_path: Path, device: torch.device, inline: str) -> None:
    torch.testing.assert_close(gradient("hoists", tmp_path, device, inline), expected(WEIGHTS))


@some_cases(2)
@pytest.mark.parametrize("inline", INLINE)
def test_what_a_backward_assigns_twice_is_what_it_assigned_last(
    tmp_path: Path, device: torch.device, inline: str
) -> None:
    torch.testing.assert_close(gradient("replaces", tmp_path, device, inline), expected((0.0, 0.0, WEIGHTS[2])))


def test_a_backward_may_name_its_function_instead(tmp_path: Path, device: torch.device) -> None:
    source = SOURCE
    for name in ("summed", "hoisted", "replaced"):
        source = source.replace(f"[BackwardDerivative({name}_backward)]", "")
        source = source.replace(
            f"INLINE void {name}_backward", f"[ForceInline] [BackwardDerivativeOf({name})] void {name}_backward"
        )
    path = tmp_path / "named.slang"
    path.write_text(source)
    torch.testing.assert_close(gradient_of(path, "hoists", device), expected(WEIGHTS))


def test_a_macro_may_name_the_backward(tmp_path: Path, device: torch.device) -> None:
    source = SOURCE.replace("#define FORCED [ForceInline]", "#define BACKWARD(NAME) [BackwardDerivative(NAME)]")
    for name in ("summed", "hoisted", "replaced"):
        source = source.replace(f"[BackwardDerivative({name}_backward)]", f"BACKWARD({name}_backward)")
    path = tmp_path / "by_macro.slang"
    path.write_text(source.replace("INLINE", "[ForceInline]"))
    torch.testing.assert_close(gradient_of(path, "hoists", device), expected(WEIGHTS))


@pytest.mark.parametrize("by", ["import", "#include"])
def test_the_backward_may_stand_in_another_file(by: str, tmp_path: Path, device: torch.device) -> None:
    """One that the file which names it imports or includes."""
    begin = SOURCE.index("void hoisted_backward") - len("INLINE ")
    end = SOURCE.index("// The last one counts")
    own = SOURCE[SOURCE.index("struct Pair") : SOURCE.index("void forward(")]
    (tmp_path / "other_file.slang").write_text(own + SOURCE[begin:end].replace("INLINE", "[ForceInline]"))
    rest = SOURCE.replace(own, "").replace(SOURCE[begin:end], "").replace("INLINE ", "").replace("FORCED", "NOTHING")
    first = "__exported import other_file;\n" if by == "import" else '#include "other_file.slang"\n'
    path = tmp_path / "naming_file.slang"
    path.write_text(first + rest)
    torch.testing.assert_close(gradient_of(path, "hoists", device), expected(WEIGHTS))
