"""Sources that add accesses to DiffTensorView under names that ours has: theirs are the ones that are called."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
from long_tests import dear_test, some_cases, some_tests

import torch_slang

pytestmark = some_tests(2)

_numbers = itertools.count()
NAMES = ("loadFixed", "loadUniform", "loadUniformOnce")

# What theirs loads is twice what ours does.
EXTENSION = """
__generic<T : __BuiltinFloatingPointType, A : IDiffTensorWrapper>
extension %(view)s
{
    [BackwardDerivative(__twice_backward)] [ForwardDerivative(__twice_forward)] [NoDiffThis]
    __generic<let N : int>
    T %(name)s(vector<uint, N> i) { return T(2) * primal.load(i); }
    __generic<let N : int>
    DifferentialPair<T> __twice_forward(vector<uint, N> i)
    {
        return diffPair(T(2) * primal.load(i), reinterpret<T.Differential, T>(T(2) * diff.load_forward<T, N>(i)));
    }
    __generic<let N : int>
    void __twice_backward(vector<uint, N> i, T.Differential d)
    {
        diff.load_backward<T, N>(i, T(2) * reinterpret<T, T.Differential>(d));
    }
}
"""
KERNELS = """
[CUDAKernel] [Differentiable]
void by_number(DiffTensorView<double> x, [Out("x")] DiffTensorView<double> y)
{
    uint i = cudaThreadIdx().x + cudaBlockIdx().x * cudaBlockDim().x;
    if (i < y.size(0)) y[i] = x.%(name)s(i / 2) * x[i];
}
[CUDAKernel] [Differentiable]
void by_vector([Shape("N, 2")] DiffTensorView<double> x, [Out("N")] DiffTensorView<double> y)
{
    uint i = cudaThreadIdx().x + cudaBlockIdx().x * cudaBlockDim().x;
    if (i < y.size(0)) y[i] = x.%(name)s(uint2(i / 2, 0)) * x[i, 1];
}
[Differentiable]
double in_function(double s, DiffTensorView<double> x) { return s * x.%(name)s(0u); }
"""


def load(path: Path) -> torch_slang.Module:
    return torch_slang.load(path, namespace=f"own_accesses_{next(_numbers)}")


def loaded(folder: Path, name: str, place: str) -> torch_slang.Module:
    view = "DiffTensorView<T, A>"
    extension = EXTENSION % {"name": name, "view": view}
    kernels = KERNELS % {"name": name}
    if place == "included":
        (folder / "theirs.slang").write_text(extension)
        kernels = '#include "theirs.slang"\n' + kernels
    elif place == "included by an included file":
        (folder / "theirs.slang").write_text(extension)
        (folder / "more.slang").write_text('#include "theirs.slang"\n')
        kernels = '#include "more.slang"\n' + kernels
    else:
        kernels = extension + kernels
    (folder / "own.slang").write_text(kernels)
    return load(folder / "own.slang")


@some_cases(1)
@pytest.mark.parametrize("place", ["same file", "included", "included by an included file"])
@pytest.mark.parametrize("name", NAMES)
def test_accesses_of_the_users_own_are_taken(tmp_path: Path, device: torch.device, name: str, place: str) -> None:
    module = loaded(tmp_path, name, place)
    half = torch.arange(7, device=device) // 2
    x = torch.randn(7, dtype=torch.float64, device=device, requires_grad=True)
    torch.testing.assert_close(module.by_number(x), 2 * x[half] * x)
    assert torch.autograd.gradcheck(module.by_number, x)
    pairs = torch.randn(7, 2, dtype=torch.float64, device=device, requires_grad=True)
    torch.testing.assert_close(module.by_vector(pairs), 2 * pairs[half, 0] * pairs[:, 1])
    assert torch.autograd.gradcheck(module.by_vector, pairs)
    s = torch.randn(5, dtype=torch.float64, device=device, requires_grad=True)
    torch.testing.assert_close(module.in_function(s, x), 2 * s * x[0])
    assert torch.autograd.gradcheck(module.in_function, (s, x))


@dear_test
def test_tangents_through_a_gradients_field_are_refused(tmp_path: Path, device: torch.device) -> None:
    """A forward derivative of the user's own reads `diff`, where forward mode has the gradient, not the tangent."""
    module = loaded(tmp_path, "loadUniform", "included")
    x = torch.randn(4, dtype=torch.float64, device=device, requires_grad=True)
    reason = r"\[ForwardDerivative\] of loadUniform reads or writes tangents through `diff`"
    with pytest.raises(torch_slang.CompileError, match=reason):
        torch.func.jvp(module.by_number, (x.detach(),), (x.detach(),))
    (gradient,) = torch.autograd.grad(module.by_number(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=reason):
        gradient.sum().backward()


def test_sums_of_many_threads_are_theirs(tmp_path: Path, device: torch.device) -> None:
    """As SlangPy's loadUniform: all threads load one element, which ours would not add atomically."""
    (tmp_path / "sums.slang").write_text(
        EXTENSION.replace("T(2) * ", "") % {"name": "loadUniform", "view": "DiffTensorView<T, A>"}
        + """
[CUDAKernel] [Differentiable]
void shared(DiffTensorView<float> x, TensorView<float> like, [Out("like")] DiffTensorView<float> y)
{
    uint i = cudaThreadIdx().x + cudaBlockIdx().x * cudaBlockDim().x;
    if (i < y.size(0)) y[i] = x.loadUniform(0u);
}
"""
    )
    module = load(tmp_path / "sums.slang")
    x = torch.ones(1, device=device, requires_grad=True)
    module.shared(x, torch.ones(100_003, device=device)).sum().backward()
    assert x.grad is not None
    assert x.grad.item() == 100_003


@pytest.mark.parametrize(
    "declared",
    [
        "extension DiffTensorView<float> { float loadUniform(float2 uv) { return primal.load(uint(uv.x)); } }",
        "struct Mine { float loadUniform(uint i) { return float(i); } }",
        "extension TensorView<float> { float loadUniform(uint i) { return this.load(i); } }",
        "// extension DiffTensorView<float> { float loadUniform(uint i)",
    ],
)
def test_ours_stay_where_nothing_stands_for_them(tmp_path: Path, device: torch.device, declared: str) -> None:
    (tmp_path / "ours.slang").write_text(
        declared
        + """
[CUDAKernel] [Differentiable]
void square(DiffTensorView<float> x, [Out("x")] DiffTensorView<float> y)
{
    uint i = cudaThreadIdx().x + cudaBlockIdx().x * cudaBlockDim().x;
    if (i < y.size(0)) y[i] = x.loadUniform(i) * x.loadUniform(i);
}
"""
    )
    module = load(tmp_path / "ours.slang")
    x = torch.randn(5, device=device, requires_grad=True)
    y = module.square(x)
    torch.testing.assert_close(y, x * x)
    y.sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach())


@some_cases(1)
@pytest.mark.parametrize(
    ("declared", "used"),
    [
        ("typealias Texture = DiffTensorView<float, AtomicAdd>;", "Texture"),
        ("typedef DiffTensorView<float, AtomicAdd> Texture;", "Texture"),
        ("typealias Texture<T : IDifferentiable> = DiffTensorView<T, AtomicAdd>;", "Texture<float>"),
        ("typealias First = DiffTensorView<float, AtomicAdd>; typealias Texture = First;", "Texture"),
    ],
)
def test_an_alias_is_seen_through(tmp_path: Path, device: torch.device, declared: str, used: str) -> None:
    (tmp_path / "alias.slang").write_text(
        f"{declared}\nextension {used}"
        + """
{
    [BackwardDerivative(__theirs_backward)] [NoDiffThis]
    float loadUniform(uint i) { return -primal.load(i); }
    void __theirs_backward(uint i, float d) { diff.load_backward<float>(i, -d); }
}
[CUDAKernel] [Differentiable]
void negated(DiffTensorView<float> x, [Out("x")] DiffTensorView<float> y)
{
    uint i = cudaThreadIdx().x + cudaBlockIdx().x * cudaBlockDim().x;
    if (i < y.size(0)) y[i] = x.loadUniform(i);
}
"""
    )
    module = load(tmp_path / "alias.slang")
    x = torch.randn(5, device=device, requires_grad=True)
    y = module.negated(x)
    torch.testing.assert_close(y, -x)
    y.sum().backward()
    torch.testing.assert_close(x.grad, -torch.ones_like(x))


def test_an_access_that_a_macro_declares_is_seen(tmp_path: Path, device: torch.device) -> None:
    (tmp_path / "macro.slang").write_text(
        """
#define DECLARE(NAME) \\
    [BackwardDerivative(__theirs_backward)] [NoDiffThis] \\
    float NAME(uint i) { return -primal.load(i); } \\
    void __theirs_backward(uint i, float d) { diff.load_backward<float>(i, -d); }
extension DiffTensorView<float, AtomicAdd>
{
    DECLARE(loadUniform)
}
[CUDAKernel] [Differentiable]
void negated(DiffTensorView<float> x, [Out("x")] DiffTensorView<float> y)
{
    uint i = cudaThreadIdx().x + cudaBlockIdx().x * cudaBlockDim().x;
    if (i < y.size(0)) y[i] = x.loadUniform(i);
}
"""
    )
    x = torch.randn(5, device=device)
    torch.testing.assert_close(load(tmp_path / "macro.slang").negated(x), -x)


@dear_test
@some_cases(1)
@pytest.mark.parametrize("body", ["direct", "by a helper", "by a variable"])
@pytest.mark.parametrize(
    "form",
    ["[ForwardDerivative(fwd), BackwardDerivative(bwd)]", "[BackwardDerivative(bwd)] [ForwardDerivative(fwd)]"],
)
def test_tangents_are_found_however_they_are_read(tmp_path: Path, device: torch.device, body: str, form: str) -> None:
    tangent = {
        "direct": "x.diff.load_forward<double, 1>(vector<uint, 1>(i))",
        "by a helper": "tangent(x, i)",
        "by a variable": "dx.load_forward<double, 1>(vector<uint, 1>(i))",
    }[body]
    (tmp_path / "tangents.slang").write_text(
        f"""
double tangent(DiffTensorView<double> x, uint i) {{ return x.diff.load_forward<double, 1>(vector<uint, 1>(i)); }}
DifferentialPair<double> fwd(DiffTensorView<double> x, uint i)
{{
    {"let dx = x.diff;" if body == "by a variable" else ""}
    return diffPair(x.primal[i], {tangent});
}}
void bwd(DiffTensorView<double> x, uint i, double d) {{ x.diff.load_backward<double, 1>(vector<uint, 1>(i), d); }}
{form} double f(DiffTensorView<double> x, uint i) {{ return x.primal[i]; }}
[CUDAKernel] [Differentiable]
void triple(DiffTensorView<double> x, [Out("x")] DiffTensorView<double> y)
{{
    uint i = cudaThreadIdx().x + cudaBlockIdx().x * cudaBlockDim().x;
    if (i < y.size(0)) y[i] = 3 * f(x, i);
}}
"""
    )
    module = load(tmp_path / "tangents.slang")
    x = torch.randn(3, dtype=torch.float64, device=device)
    with pytest.raises(torch_slang.CompileError, match=r"\[ForwardDerivative\] of f reads or writes tangents"):
        torch.func.jvp(module.triple, (x,), (x,))
