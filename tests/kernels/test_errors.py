"""Bad inputs, each with its message; every one leaves the process, the caller's tensors and the cache usable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from cases import kernels
from long_tests import some_cases, some_tests

import torch_slang

pytestmark = some_tests(16)

SOURCE = """
import torch_slang;

[PyBindCUDA(Auto)] [Differentiable] [CudaKernel] [LaunchTotal("F, N")]
void corner([Shape("N, 8, F")] DiffTensorView<float> feats, [Out("N, F")] DiffTensorView<float> y)
{
    uint3 i = cudaGlobalIdx();
    if (i.x < y.size(1) && i.y < y.size(0)) y[i.y, i.x] = feats[i.y, 0, i.x];
}

[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void scale<T : IReal>([Shape("...")] DiffTensorView<T> x, T s, [Shape("...")] TensorView<T> k,
                      [Out("...")] DiffTensorView<T> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < x.size(0)) y[i] = s * x[i] * k[i];
}

[PyBindCUDA(Auto)] [CudaKernel]
void numbers([Shape("N")] TensorView<float> x, int8_t small, uint8_t byte, uint64_t big, bool flag, float f, float3 v,
             [Out("N")] TensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < y.size(0)) y[i] = x[i] + small + byte + float(big) + (flag ? 1 : 0) + f + v.x + 2 * v.y + 4 * v.z;
}

// Any rank and any strides.
[PyBindCUDA(Auto)] [CudaKernel]
void first(TensorView<float> x, [Out("1")] TensorView<float> y) { if (cudaGlobalIdx().x == 0) y[0] = x.dims(); }

[PyBindCUDA(Auto)] [CudaKernel]
void careless([Shape("N")] TensorView<float> x, [Out("N")] TensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < y.size(0)) { y[i] = x[i]; x[i] = 0; }
}

[PyBindCUDA(Auto)] [CudaKernel]
void counting([Shape("N")] TensorView<float> x, [Out("N")] TensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= y.size(0)) return;
    float old;
    x.InterlockedAdd(i, 1.0f, old);
    y[i] = old;
}

[PyBindCUDA(Auto)] [CudaKernel]
void promised([In] TensorView<float> x) { x[cudaGlobalIdx().x] = 1; }

[PyBindCUDA(Auto)] [CudaKernel]
void results([Shape("N")] TensorView<float> x, out TensorView<float> y) {}

[PyBindCUDA(Auto)] [CudaKernel]
void updates([Shape("N")] inout TensorView<float> x) {}

[PyBindCUDA(Auto)] [CudaKernel]
void count(int n, [Out("n")] TensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < y.size(0)) y[i] = i;
}
"""


@pytest.fixture(scope="module")
def module() -> torch_slang.Module:
    return torch_slang.load(source=SOURCE, name="errors", namespace="errors")


@pytest.fixture(autouse=True)
def still_works() -> Iterator[None]:
    """After whatever a test did: a good call, and a good load from the cache or not."""
    yield
    assert torch.ops.slang.sqr(torch.tensor([1.0, -3.0])).tolist() == [1, 9]
    assert torch_slang.load(source=SOURCE, name="errors", namespace="errors").first(torch.ones(2, 3)).tolist() == [2]


def ones(*sizes: int, **options: Any) -> torch.Tensor:
    return torch.ones(sizes, **options)


def huge() -> torch.Tensor:
    return torch.ones(1).expand(2**32)


# (call, what its error says). The calls get the module.
TABLE: dict[str, tuple[Callable[[Any], Any], str]] = {
    "size": (
        lambda m: m.corner(ones(4, 7, 3)),
        r"^errors::corner: expected feats to have shape \[N, 8, F\], but got \[4, 7, 3\]: dimension 1 must be 8$",
    ),
    "rank": (
        lambda m: m.corner(ones(4, 8)),
        r"^errors::corner: expected feats to have shape \[N, 8, F\] \(3 dimensions\), but got \[4, 8\]$",
    ),
    "dtype": (
        lambda m: m.corner(ones(4, 8, 3, dtype=torch.float64)),
        r"^errors::corner: expected feats to have dtype float32 \(DiffTensorView<float.*>\), but got float64$",
    ),
    "dtype of a generic kernel": (
        lambda m: torch.ops.slang.sqr(ones(3, dtype=torch.int32)),
        r"^slang::sqr: expected x to have dtype float16, bfloat16, float32 or float64, but got int32$",
    ),
    "complex": (
        lambda m: torch.ops.slang.sqr(ones(3, dtype=torch.complex64)),
        r"^slang::sqr: expected x to have dtype float16, bfloat16, float32 or float64, but got ComplexFloat$",
    ),
    "two dtypes for one type parameter": (
        lambda m: m.scale(ones(3), 2, ones(3, dtype=torch.float64)),
        r"^errors::scale: expected k to have dtype float32 like the other arguments of type T, but got float64$",
    ),
    "devices": (
        lambda m: m.scale(ones(3), 2, ones(3, device="meta")),
        r"^errors::scale: expected all tensors to be on the same device, but x is on cpu and k is on meta$",
    ),
    "device of a value": (
        lambda m: m.scale(ones(3), ones(device="meta"), ones(3)),
        r"^errors::scale: expected all tensors to be on the same device, but x is on cpu and s is on meta$",
    ),
    "shape of a value": (
        lambda m: m.scale(ones(3), ones(2), ones(3)),
        r"^errors::scale: expected s \(T\) to be a 0-dimensional tensor, but got shape \[2\]$",
    ),
    "no number": (
        lambda m: m.scale(ones(3), "two", ones(3)),
        r"scale\(.*\): expected s \(T\) to be a number or a tensor, but got 'two'$",
    ),
    "too many dimensions": (
        lambda m: m.first(ones(1, 1, 1, 1, 1, 1)),
        r"^errors::first: x has 6 dimensions, but kernels see at most 5: shape \[1, 1, 1, 1, 1, 1\]$",
    ),
    "too large for uint": (
        lambda m: m.first(huge()),
        r"^errors::first: x is too large: kernels index with uint, but dimension 0 \(as the kernel sees it\) has 42949",
    ),
    "too large for uint when flattened": (
        lambda m: torch.ops.slang.sqr(ones(1).expand(2**17, 2**17)),
        r"^slang::sqr: x is too large: kernels index with uint, but dimension 0 \(as the kernel sees it\) has 17179",
    ),
    "too large for uint on meta": (
        lambda m: torch.ops.slang.sqr(torch.empty(2**17, 2**17, device="meta")),
        r"^slang::sqr: x is too large: kernels index with uint, but dimension 0 \(as the kernel sees it\) has 17179",
    ),
    "sparse": (
        lambda m: torch.ops.slang.sqr(torch.eye(3).to_sparse()),
        r"^slang::sqr: expected x to be a dense tensor on the CPU or a CUDA device, but got the layout Sparse$",
    ),
    "quantized": (
        lambda m: torch.ops.slang.sqr(torch.quantize_per_tensor(ones(3), 1.0, 0, torch.qint8)),
        r"^slang::sqr: expected x to be a dense tensor on the CPU or a CUDA device, but got a quantized tensor$",
    ),
    "nested": (
        lambda m: torch.ops.slang.sqr(torch.nested.nested_tensor([ones(3), ones(2)])),
        r"^slang::sqr: expected x to be a dense tensor on the CPU or a CUDA device, but got a nested tensor$",
    ),
    "None": (lambda m: m.scale(None, 1, ones(3)), r"errors::scale: expected x to be a tensor, but got None$"),
    "missing argument": (lambda m: m.corner(), r"^errors::corner\(\) is missing value for argument 'feats'"),
    "unknown argument": (
        lambda m: m.corner(ones(4, 8, 3), q=1),
        r"^errors::corner\(\) .*(Unknown keyword|expected at most)",
    ),
    "too many arguments": (
        lambda m: m.numbers(ones(3), 0, 0, 0, True, 0, [0, 0, 0], 1, 2),
        r"numbers\(x: .*\): expected at most 7 arguments, but got 9$",
    ),
    "an argument twice": (
        lambda m: m.numbers(ones(3), 0, 0, 0, True, 0, [0, 0, 0], x=1),
        r"numbers\(x: .*\): got two values for x$",
    ),
    "a small integer overflows": (
        lambda m: m.numbers(ones(3), 128, 0, 0, True, 0, [0, 0, 0]),
        r"^errors::numbers: expected small to fit in int8_t, but got 128$",
    ),
    "an unsigned integer is negative": (
        lambda m: m.numbers(ones(3), 0, -1, 0, True, 0, [0, 0, 0]),
        r"^errors::numbers: expected byte to fit in uint8_t, but got -1$",
    ),
    "a long unsigned integer is negative": (
        lambda m: m.numbers(ones(3), 0, 0, -1, True, 0, [0, 0, 0]),
        r"^errors::numbers: expected big to fit in uint64_t, but got -1$",
    ),
    "components of a vector": (
        lambda m: m.numbers(ones(3), 0, 0, 0, True, 0, [0, 0]),
        r"^errors::numbers: expected v \(.*float.*3.*\) to have 3 numbers, but got 2$",
    ),
    "a fraction for an integer": (
        lambda m: m.numbers(ones(3), 0.5, 0, 0, True, 0, [0, 0, 0]),
        r"errors::numbers\(\) Expected a value of type 'int' for argument 'small' but instead found type 'float'",
    ),
    "a gradient for a constant": (
        lambda m: m.numbers(ones(3), 0, 0, 0, True, ones(requires_grad=True), [0, 0, 0]),
        r"numbers\(.*\): f \(float\) is a constant, but got a tensor that requires grad$",
    ),
    "a gradient of a kernel without one": (
        lambda m: m.numbers(ones(3, requires_grad=True), 0, 0, 0, True, 0, [0, 0, 0]),
        r"^errors::numbers: x requires grad, but the kernel has no derivative: mark it \[Differentiable\], or",
    ),
    "a gradient of a launch": (
        lambda m: m.corner_launch(ones(4, 8, 3, requires_grad=True), ones(4, 3), [8], [1]),
        r"^errors::corner_launch: feats requires grad, but a launch op is not differentiable: call errors::corner, or",
    ),
    "shape of an output given to a launch": (
        lambda m: m.corner_launch(ones(4, 8, 3), ones(4, 4), [8], [1]),
        r"^errors::corner_launch: expected y to have shape \[N, F\], but got \[4, 4\]: dimension 1 must be F = 3",
    ),
    "no block size": (
        lambda m: m.corner_launch(ones(4, 8, 3), ones(4, 3), [], [1]),
        r"^errors::corner_launch: expected block_size to have 1 to 3 elements, but got \[\]$",
    ),
    "too many block sizes": (
        lambda m: m.corner_launch(ones(4, 8, 3), ones(4, 3), [1, 1, 1, 1], [1]),
        r"^errors::corner_launch: expected block_size to have 1 to 3 elements, but got \[1, 1, 1, 1\]$",
    ),
    "a block of no threads": (
        lambda m: m.corner_launch(ones(4, 8, 3), ones(4, 3), [8, 0], [1]),
        r"^errors::corner_launch: expected block_size to be positive and to fit in 32 bits, but got \[8, 0\]$",
    ),
    "a negative grid": (
        lambda m: m.corner_launch(ones(4, 8, 3), ones(4, 3), [8], [-1]),
        r"^errors::corner_launch: expected grid_size to be positive and to fit in 32 bits, but got \[-1\]$",
    ),
    "more blocks than a number": (
        lambda m: m.corner_launch(ones(4, 8, 3), ones(4, 3), [8], [2**32]),
        r"^errors::corner_launch: expected grid_size to be positive and to fit in 32 bits, but got \[4294967296\]$",
    ),
    "a mask of another length": (
        lambda m: torch.ops.errors.corner_backward(ones(4, 3), ones(4, 8, 3), [True, False]),
        r"^errors::corner_backward: expected mask to have 1 elements, one for each differentiable argument, but got 2$",
    ),
    "shape of an output gradient": (
        lambda m: torch.ops.errors.corner_backward(ones(4, 4), ones(4, 8, 3), [True]),
        r"^errors::corner_backward: expected grad_y to have the output's shape \[4, 3\], but got \[4, 4\]: "
        r"pass one of that shape, or a \.view\(\) of this one that has it$",
    ),
    "an out parameter": (
        lambda m: m.results,
        r"errors::results is not available: parameter y is `out TensorView<float>`, but out parameters cannot be",
    ),
    "an inout parameter": (
        lambda m: m.updates,
        r"errors::updates is not available: parameter x is `inout TensorView<float>`, but inout parameters cannot be",
    ),
    "an unknown kernel": (
        lambda m: m.nobody,
        r"no kernel or function named 'nobody'; "
        r"this module has: careless, corner, count, counting, first, numbers, promised, scale$",
    ),
    "a kernel without output as a function": (
        lambda m: m.promised(ones(3)),
        r"^errors::promised has no output \(\[Out\]\), so there is no operator promised; there is promised_launch$",
    ),
    "no tensor argument": (
        lambda m: m.count(3),
        r"^errors::count: no argument is a tensor, so nothing says which device to run on: call errors::count_launch",
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_bad_input(module: torch_slang.Module, name: str) -> None:
    call, message = TABLE[name]
    with pytest.raises((RuntimeError, TypeError, AttributeError), match=message) as caught:
        call(module)
    assert not isinstance(caught.value, NotImplementedError)
    assert "INTERNAL ASSERT" not in str(caught.value)


@pytest.mark.parametrize(
    ("block", "grid", "what"),
    [
        ([2000], [1], "the block's x from 1 to 1024"),
        ([32, 64], [1], "at most 1024 threads a block"),
        ([1], [1, 70000], "grid's y"),
    ],
)
def test_launches_beyond_the_limits(module: torch_slang.Module, block: list[int], grid: list[int], what: str) -> None:
    y = torch.zeros(4, 3)
    with pytest.raises(torch_slang.LaunchError, match=f"errors::corner_launch: cannot launch a grid .*{what}"):
        module.corner_launch(ones(4, 8, 3), y, block_size=block, grid_size=grid)
    assert not y.any()
    module.corner_launch(ones(4, 8, 3), y, block_size=[4, 4], grid_size=[1])
    assert y.all()


def test_a_kernel_that_writes_to_an_input_says_so(module: torch_slang.Module) -> None:
    x = ones(3)
    with pytest.raises(
        torch_slang.CompileError, match=r"errors::careless: the kernel writes to x, which is not an output: "
    ):
        module.careless(x)
    with pytest.raises(
        torch_slang.CompileError, match=r"errors::counting: the kernel writes to x, which is not an out"
    ):
        module.counting(x)
    assert (x == 1).all()
    y = torch.zeros(3)
    module.careless_launch(x, y, block_size=[4], grid_size=[1])  # which may
    assert y.all()
    assert not x.any()
    with pytest.raises(torch_slang.CompileError, match=r"the kernel writes to x, which is declared \[In\]"):
        module.promised_launch(ones(4), block_size=[4], grid_size=[1])


RECOMPUTED = """
[PreferRecompute] [Differentiable] float half_of(DiffTensorView<float> y, uint i) { return 0.5f * y[i] * y[i]; }
[PreferRecompute] [Differentiable] float half_square(float y) { return 0.5f * y * y; }
[PreferRecompute] float peek(TensorView<float> y, uint i) { return 0.5f * y[i] * y[i]; }
struct Scale
{
    float factor;
    [PreferRecompute] [Differentiable]
    float of<T : __BuiltinFloatingPointType>(DiffTensorView<float> y, uint i, T two)
    {
        return factor * y[i] * y[i] / __realCast<float>(two);
    }
}
[Differentiable] float through(DiffTensorView<float> y, uint i) { return half_of(y, i); }
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void recomputed([Shape("N")] DiffTensorView<float> x, [Out("N")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= x.size(0)) return;
    y[i] = x[i];
    Scale scale = { 1.0f };
    float before = BEFORE;
    y[i] = before * x[i];
}
"""
RELOADING = ["half_of(y, i)", "through(y, i)", "scale.of(y, i, 2.0f)", "y[i] * no_diff peek(y.primal, i)"]
NOT_RELOADING = ["0.5f * y[i] * y[i]", "half_square(y[i])"]


def recomputed(before: str) -> torch.Tensor:
    source = RECOMPUTED.replace("BEFORE", before)
    number = (RELOADING + NOT_RELOADING).index(before)
    module = torch_slang.load(source=source, name="recomputed", namespace=f"test_recomputed{number}")
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    module.recomputed(x).sum().backward()
    return x.grad


@some_cases(2)
@pytest.mark.parametrize("before", RELOADING)
def test_recomputing_from_an_output_that_is_overwritten_is_an_error(before: str) -> None:
    with pytest.raises(
        RuntimeError, match=r"reads back from its output y, and it calls a \[PreferRecompute\] function"
    ):
        recomputed(before)


@pytest.mark.parametrize("before", NOT_RELOADING)
def test_recomputing_elsewhere_in_the_module_is_none(before: str) -> None:
    torch.testing.assert_close(recomputed(before), torch.tensor([1.5, 6.0, 13.5]))


INDEXED = """
[PyBindCUDA(Auto)] [CudaKernel]
void taken([Shape("N")] TensorView<float> x, [Shape("N")] TensorView<int> index, [Out("N")] TensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < x.size(0)) y[i] = x[uint(index[i])];
}
float repeated(float x, int times) { return x * times; }
"""


def test_what_to_write_for_int64_indices_is_said() -> None:
    """Whether their values fit is not known before the kernel runs."""
    module = torch_slang.load(source=INDEXED, name="indexed", namespace="test_indexed")
    x, index = ones(3), torch.arange(3)
    with pytest.raises(
        RuntimeError, match=r"dtype int32 .*, but got int64; convert it .*, index\.to\(torch\.int32\), if"
    ):
        module.taken(x, index)
    with pytest.raises(
        RuntimeError, match=r"dtype int32 .*, but got int64; convert it .*, index\.to\(torch\.int32\), if"
    ):
        module.taken_launch(x, index, ones(3), block_size=[32], grid_size=[1])
    with pytest.raises(
        RuntimeError, match=r"dtype int32 .*, but got int64; convert it before the call, times\.to\(torch\.int32\), if"
    ):
        module.repeated(x, index)
    assert module.taken(x, index.to(torch.int32)).tolist() == [1, 1, 1]


def test_a_gradient_that_slang_gets_wrong_is_an_error() -> None:
    """It loads bfloat16 values again, after the last store, where the derivative needs what was read before."""
    kernel = kernels("stores").read_back
    x = ones(3, dtype=torch.bfloat16, requires_grad=True)
    y = kernel(x)
    with pytest.raises(RuntimeError, match=r"reads back from its output y, .* for bfloat16"):
        y.sum().backward()
    assert y.all()


def test_a_third_derivative_is_an_error_when_it_is_asked_for() -> None:
    x = ones(3, requires_grad=True)
    (gradient,) = torch.autograd.grad(torch.ops.slang.sqr(x).sum(), x, create_graph=True)
    assert gradient.tolist() == [2, 2, 2]
    (second,) = torch.autograd.grad(gradient.sum(), x, create_graph=True)
    assert second.tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match=r"slang::sqr_jvp_backward: derivatives of the third order"):
        second.sum().backward()


def test_numbers_have_the_values_that_they_are_given(module: torch_slang.Module) -> None:
    x = torch.zeros(2)
    assert module.numbers(x, -128, 0, 0, False, 0, [0, 0, 0]).tolist() == [-128, -128]
    assert module.numbers(x, 0, 255, 0, True, 0.5, [1, 2, 3]).tolist() == [273.5, 273.5]
    assert module.numbers(x, 0, 0, 2**63 - 1, False, 0, [0, 0, 0]).tolist() == [2.0**63, 2.0**63]
    assert module.numbers(x, 0, 0, 0, False, torch.tensor(1.5), torch.tensor([1.0, 0, 0])).tolist() == [2.5, 2.5]


# --- Compile errors


GOOD = """
import torch_slang;
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void NAME([Shape("N")] DiffTensorView<float> x, [Out("N")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < y.size(0)) y[i] = 2 * x[i];
}
"""


BROKEN = {
    "unknown_name": (
        "2 * x[i]",
        "2 * nothing",
        r"broken\.slang:7:\d+[\s\S]*y\[i\] = 2 \* nothing[\s\S]*\^+.*'nothing'",
    ),
    "syntax": ("uint i =", "uint = ", r"broken\.slang:6:\d+[\s\S]*\^"),
    "include": ("import torch_slang;", '#include "nowhere.h"', r"broken\.slang:2:\d+[\s\S]*'nowhere\.h'"),
    "module": ("import torch_slang;", "import nowhere;", r"broken\.slang:2:\d+[\s\S]*nowhere"),
    "shape": ('[Shape("N")]', '[Shape("N +")]', r'slang::shape: Shape\("N \+"\) of x: in "N \+": expected a number'),
    "block": (
        "[CudaKernel]",
        "[CudaKernel] [BlockSize(0, 1, 1)]",
        r"slang::block: expected BlockSize to be positive, but got \[0, 1, 1\]",
    ),
    "unbound": ('[Out("N")]', '[Out("M")]', r"slang::unbound: 'M' in a shape or launch expression is never bound"),
    "no_utf8": ("2 * x[i]", "2 * \udcff\udcfe", r"broken\.slang:7:\d+"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_source_that_does_not_compile_registers_nothing(name: str, tmp_path: Path) -> None:
    old, new, message = BROKEN[name]
    path = tmp_path / "broken.slang"
    path.write_bytes(GOOD.replace("NAME", name).replace(old, new).encode(errors="surrogateescape"))
    of_the_shape = name in ("shape", "unbound", "block")
    with pytest.raises(RuntimeError if of_the_shape else torch_slang.CompileError, match=message) as caught:
        torch_slang.load(path)
    if not of_the_shape:
        assert str(caught.value).startswith(f"torch_slang: {path} does not compile\n")
    assert "torch_slang wrapper" not in str(caught.value)
    assert not hasattr(torch.ops.slang, name)
    path.write_text(GOOD.replace("NAME", name))
    assert torch_slang.load(path).kernels() == (name,)


def test_a_reload_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "kept.slang"
    path.write_text(GOOD.replace("NAME", "kept"))
    module = torch_slang.load(path)
    for broken in ("}", GOOD.replace("NAME", "kept").replace('Out("N")', 'Out("M")')):
        path.write_text(broken)
        with pytest.raises(RuntimeError):
            torch_slang.load(path)
        assert module.kept(ones(2)).tolist() == [2, 2]
        assert torch.ops.slang.kept(ones(2)).tolist() == [2, 2]


def test_names_that_are_taken(tmp_path: Path) -> None:
    def load(source: str, **options: Any) -> torch_slang.Module:
        return torch_slang.load(source=source, name=f"taken_{len(source)}", **options)

    first = load(GOOD.replace("NAME", "taken"))
    with pytest.raises(
        RuntimeError, match=r"slang::taken is already defined by another module .* namespace=, or edited"
    ):
        load(GOOD.replace("NAME", "taken") + "// another text, another name")
    with pytest.raises(RuntimeError, match=r"slang::sqr is already defined by another module"):
        load(GOOD.replace("NAME", "sqr"))
    with pytest.raises(
        RuntimeError,
        match=r"slang::taken_backward is registered already, by slang::taken: rename one, or load with another name",
    ):
        load(GOOD.replace("NAME", "taken_backward"))
    both = GOOD.replace("NAME", "pair") + GOOD.replace("NAME", "pair_backward").replace("import torch_slang;", "")
    with pytest.raises(
        RuntimeError, match=r"pair_backward would be both a kernel and an operator that goes with another kernel"
    ):
        load(both)
    assert not hasattr(torch.ops.slang, "pair")
    with pytest.raises(RuntimeError, match="the namespace aten is PyTorch's own"):
        load(GOOD.replace("NAME", "taken"), namespace="aten")
    assert load(GOOD.replace("NAME", "taken") + " ", namespace="taken_elsewhere").taken(ones(1)).tolist() == [2]
    assert first.taken(ones(1)).tolist() == [2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give either a path or source="),
        ({"path": "a.slang", "source": "b"}, "give either a path or source="),
        ({"path": "/nowhere/a.slang"}, "torch_slang.load: no such file: /nowhere/a.slang"),
        ({"source": GOOD, "namespace": "a::b"}, "expected namespace to be a name, but got 'a::b'"),
        ({"source": GOOD, "defines": {"A B": 1}}, "expected defines to be of names, but got 'A B'"),
        ({"source": GOOD, "include_dirs": "/tmp"}, "expected include_dirs to be a list of folders, but got one path"),
        ({"source": b"void f() {}"}, "expected source to be a string, but got bytes"),
        (
            {"source": GOOD.replace("NAME", "def")},
            "a kernel or an argument means something else in PyTorch's schemas; rename it",
        ),
    ],
)
def test_bad_arguments_of_load(options: dict[str, Any], message: str) -> None:
    with pytest.raises((RuntimeError, TypeError), match=message):
        torch_slang.load(**options)


# --- Compilers that are not there, or do not answer


@pytest.fixture
def twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[float]]]:
    """Loads and calls a kernel with nothing cached; afterwards, and without what the test changed, that works."""
    name = f"twice_{tmp_path.name}"

    def load_and_call() -> list[float]:
        module = torch_slang.load(source=GOOD.replace("NAME", name), name=f"{name}.slang")
        return getattr(module, name)(ones(2)).tolist()

    with monkeypatch.context() as patch:
        patch.setenv("TORCH_SLANG_CACHE_DIR", str(tmp_path / "cache"))
        yield load_and_call
    monkeypatch.undo()
    assert load_and_call() == [2, 2]


def test_a_missing_host_compiler_is_named(twice: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_SLANG_CXX", "/nonexistent/c++")
    message = r"slang::twice_.*: .*TORCH_SLANG_CXX names the C\+\+ compiler /nonexistent/c\+\+, which is not a program"
    with pytest.raises(torch_slang.CompileError, match=message):
        twice()


def test_a_missing_slang_compiler_is_named(twice: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_SLANG_COMPILER", "/nonexistent/torch-slangc")
    with pytest.raises(
        RuntimeError, match="TORCH_SLANG_COMPILER is /nonexistent/torch-slangc, but there is no such file"
    ):
        twice()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "kill -SEGV $$",
            r"the Slang compiler .*(SIGSEGV|signal 11|Segmentation fault).* while compiling twice_\w+\.slang",
        ),
        ("kill -KILL $$", r"the Slang compiler .*(SIGKILL|signal 9|Killed).* while compiling twice_\w+\.slang"),
        ("sleep 60", r"the Slang compiler .*1 s.* while compiling twice_\w+\.slang"),
        ("echo out of luck >&2; exit 3", r"the Slang compiler .*3 while compiling twice_\w+\.slang\nout of luck"),
        ("echo '{]'", r"the Slang compiler's answer for twice_\w+\.slang is no Program: "),
    ],
    ids=["crash", "kill", "time-out", "failure", "nonsense"],
)
def test_a_compiler_that_dies_is_an_error_that_says_over_what(
    script: str, message: str, twice: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "torch-slangc"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("TORCH_SLANG_COMPILER", str(fake))
    monkeypatch.setenv("TORCH_SLANG_COMPILE_TIMEOUT", "1")
    with pytest.raises(torch_slang.CompileError, match=message):
        twice()


# --- Integer tensors


INTEGERS = {
    "int8_t": torch.int8,
    "int16_t": torch.int16,
    "int": torch.int32,
    "int64_t": torch.int64,
    "uint8_t": torch.uint8,
    "uint16_t": torch.uint16,
    "uint": torch.uint32,
    "uint64_t": torch.uint64,
    "bool": torch.bool,
}


@pytest.fixture(scope="module")
def integers() -> torch_slang.Module:
    # Halves of the bits tell whether all of them arrive; the sum's gradient goes through the weights alone.
    kernel = """
    [PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
    void take_NAME([Shape("N")] DiffTensorView<float> w, [Shape("N")] TensorView<TYPE> x,
                   [Out("2, N")] DiffTensorView<float> y)
    {
        uint i = cudaGlobalIdx().x;
        if (i >= w.size(0)) return;
        uint64_t bits = (uint64_t)x[i];
        y[0, i] = w[i] * (float)(uint)bits;
        y[1, i] = w[i] * (float)(uint)(bits >> 32);
    }
    """
    kernels = "".join(kernel.replace("NAME", dtype_name(d)).replace("TYPE", t) for t, d in INTEGERS.items())
    return torch_slang.load(source=kernels, name="integers", namespace="integers")


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@some_cases(4)
@pytest.mark.parametrize("dtype", INTEGERS.values(), ids=dtype_name)
def test_every_integer_type_is_an_input(integers: torch_slang.Module, dtype: torch.dtype) -> None:
    if dtype == torch.bool:
        values = [0, 1, 1]
    else:
        values = [torch.iinfo(dtype).min, 1, torch.iinfo(dtype).max]
    x = torch.tensor(values, dtype=dtype)
    w = torch.tensor([1.0, 0.5, 2.0], requires_grad=True)
    y = getattr(integers, f"take_{dtype_name(dtype)}")(w, x)
    bits = [value % 2**64 for value in values]
    halves = torch.tensor([[b % 2**32 for b in bits], [b >> 32 for b in bits]], dtype=torch.float64)
    torch.testing.assert_close(y.detach().double(), halves * w.detach().double(), rtol=1e-6, atol=0)
    y.sum().backward()
    assert w.grad is not None
    torch.testing.assert_close(w.grad.double(), halves.sum(0), rtol=1e-6, atol=0)
    with pytest.raises(RuntimeError, match=f"expected x to have dtype {dtype_name(dtype)} .*, but got float32"):
        getattr(integers, f"take_{dtype_name(dtype)}")(w, torch.ones(3))
