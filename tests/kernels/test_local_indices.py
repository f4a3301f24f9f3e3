"""Indices into arrays, vectors, rows of matrices and group-shared memory: an error says where one is outside."""

import functools

import pytest
import torch
from cases import nvrtc_is_here
from long_tests import some_cases, some_tests

import torch_slang

pytestmark = some_tests(4)

Tensor = torch.Tensor

# Name: body of a function of `float x, int n`, the last index that there is, and what the error says of the place.
BODIES = {
    "array_read": ("float a[3] = { x, 2 * x, 3 * x }; return a[n];", 2, "an array of 3 elements"),
    "array_written": (
        "float a[5]; for (int k = 0; k < 5; ++k) a[k] = x; a[n] = 2; return a[0] + a[4];",
        4,
        "an array of 5 elements",
    ),
    "array_of_arrays": (
        "float a[2][4]; for (int k = 0; k < 8; ++k) a[k / 4][k % 4] = x; return a[1][n];",
        3,
        "an array of 4 elements",
    ),
    "array_in_a_struct": (
        "Box b; for (int k = 0; k < 6; ++k) b.values[k] = x; return b.values[n];",
        5,
        "an array of 6 elements",
    ),
    "computed": ("float a[4] = { x, x, x, x }; return a[n * 2 - n];", 3, "an array of 4 elements"),
    "long_index": (
        "float a[4] = { x, x, x, x }; int64_t i = n; return a[i * 1000000007 % 1000000006];",
        3,
        "an array of 4 elements",
    ),
    "table": ("return x * kTable[1][n];", 2, "an array of 3 elements"),
    "vector_read": ("float4 v = float4(x, 2 * x, 3 * x, 4 * x); return v[n];", 3, "a vector of 4 components"),
    "vector_written": ("float2 v = float2(x); v[n] = 3; return v.x + v.y;", 1, "a vector of 2 components"),
    "row_read": ("float2x3 m = float2x3(x, 2, 3, 4, 5, 6); return m[n].y;", 1, "a matrix of 2 rows"),
    "row_written": (
        "float3x2 m = float3x2(x, 2, 3, 4, 5, 6); m[n].x = 9; return m[0].x + m[2].x;",
        2,
        "a matrix of 3 rows",
    ),
    "column": ("float2x3 m = float2x3(x, 2, 3, 4, 5, 6); return m[1][n];", 2, "a vector of 3 components"),
    "passed_on": ("float a[3] = { x, x, x }; fill(a, n); return a[0];", 2, "an array of 3 elements"),
}
HEAD = """
static const int kTable[2][3] = { { 1, 2, 3 }, { 4, 5, 6 } };
struct Box { float values[6]; }
void fill(inout float a[3], int n) { a[n] = 1; }
"""
KERNEL = """
[PyBindCUDA(Auto)] [CudaKernel]
void kernel_NAME([Shape("N")] TensorView<float> x, [Shape("N")] TensorView<int> n, [Out("N")] TensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < y.size(0)) y[i] = NAME(x[i], n[i]);
}
"""
SHARED = """
groupshared float corridor[32];
[PyBindCUDA(Auto)] [CudaKernel] [BlockSize(32, 1, 1)]
void turned([Shape("N")] TensorView<float> x, [Shape("N")] TensorView<int> n, [Out("N")] TensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    corridor[i] = i < x.size(0) ? x[i] : 0;
    GroupMemoryBarrierWithGroupSync();
    if (i < y.size(0)) y[i] = corridor[n[i]];
}
[PyBindCUDA(Auto)] [CudaKernel] [BlockSize(32, 1, 1)]
void scattered([Shape("N")] TensorView<int> n, [Out("N")] TensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < y.size(0)) corridor[n[i]] = i;
    GroupMemoryBarrierWithGroupSync();
    if (i < y.size(0)) y[i] = corridor[i];
}
"""
GRADIENTS = """
[Differentiable] float chosen(float x, float y, no_diff int n) { float a[3] = { x, x * y, y }; return a[n] * a[n]; }
[Differentiable] float repeated(float x, no_diff int run)
{
    float a[2] = { x, 1 };
    [MaxIters(6)] for (int k = 0; k < run; ++k) { float b = a[0] * a[1]; a[k & 1] = b; }
    return a[0];
}
"""
SIZES = """
[PyBindCUDA(Auto)] [CudaKernel]
void sized([Shape("N")] TensorView<float> x, [Out("N")] TensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < y.size(0)) y[i] = x.size(AT);
}
[PyBindCUDA(Auto)] [CudaKernel]
void shaped([Shape("N")] DiffTensorView<float> x, [Out("N")] TensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < y.size(0)) y[i] = x.shape[AT];
}
[PyBindCUDA(Auto)] [CudaKernel]
void strided([Shape("N")] TensorView<float> x, [Out("N")] TensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < y.size(0)) y[i] = x.stride(AT);
}
[PyBindCUDA(Auto)] [CudaKernel]
void before([Shape("N")] TensorView<float> x, [Out("N")] TensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < y.size(0)) y[i] = x[i - 1];
}
"""


def load(source: str, name: str, debug: bool | None) -> torch_slang.Module:
    return torch_slang.load(source=source, name=f"{name}.slang", namespace=f"local_{name}_{debug}".lower(), debug=debug)


FUNCTIONS = "".join(f"float {name}(float x, int n) {{ {body} }}\n" for name, (body, _, _) in BODIES.items())
SOURCE = HEAD + FUNCTIONS + "".join(KERNEL.replace("NAME", name) for name in BODIES) + SHARED + GRADIENTS

HOST = """
[TorchEntryPoint]
public __extern_cpp int host(int n, int d)
{
    int a[3] = { 1, 2, 3 };
    int2 v = int2(n, d);
    int2x2 m = int2x2(n, d, d, n);
    int s = 0;
    for (int k = 0; k < 2; ++k) s += v[k] / d + m[k][1];
    return s + a[n] + v[d - 1] + m[n][0];
}
"""


def line_of(text: str) -> int:
    return 1 + SOURCE[: SOURCE.index(text)].count("\n")


@functools.cache
def locals_(debug: bool | None) -> torch_slang.Module:
    return load(SOURCE, "locals", debug)


def checked(device: torch.device) -> bool | None:
    """On the CPU indices are always checked, on a GPU in debug mode."""
    return None if device.type == "cpu" else True


def indices(*values: int, device: torch.device) -> Tensor:
    return torch.tensor(values, dtype=torch.int32, device=device)


@some_cases(11)
@pytest.mark.parametrize("kind", ["", "kernel_"])
@pytest.mark.parametrize("name", BODIES)
def test_an_index_outside_is_an_error_that_says_where(name: str, kind: str, device: torch.device) -> None:
    _, last, what = BODIES[name]
    call = getattr(locals_(checked(device)), kind + name)
    x = torch.ones(3, device=device)
    inside = call(x, indices(0, last, 0, device=device))
    place = r"thread \(1, 0, 0\) of block \(0, 0, 0\), " if kind else ""
    for outside in (last + 1, -1, 1 << 20, -(2**31)):
        if name == "long_index" and outside not in (last + 1, -1):
            continue
        with pytest.raises(
            IndexError, match=rf"::{kind}{name}: index {outside} is outside {what} \({place}locals\.slang:\d+\)$"
        ):
            call(x, indices(0, outside, 0, device=device))
    assert torch.equal(call(x, indices(0, last, 0, device=device)), inside)  # all is as before


@pytest.mark.parametrize("outside", [32, -1, 100000])
def test_group_shared_indices_are_checked(outside: int, device: torch.device) -> None:
    module = locals_(checked(device))
    n = indices(3, 2, outside, 0, device=device)
    where = r"\(thread \(2, 0, 0\) of block \(0, 0, 0\), locals\.slang:{}\)$"
    error = rf"index {outside} is outside an array of 32 elements "
    with pytest.raises(IndexError, match="::turned: " + error + where.format(line_of("= corridor[n[i]]"))):
        module.turned(torch.arange(4.0, device=device), n)
    with pytest.raises(IndexError, match="::scattered: " + error + where.format(line_of("corridor[n[i]] ="))):
        module.scattered(n)
    kept = indices(3, 2, 1, 0, device=device)
    assert module.turned(torch.arange(4.0, device=device), kept).tolist() == [3, 2, 1, 0]
    assert module.scattered(kept).tolist() == [3, 2, 1, 0]


def test_a_backward_checks_its_indices_too(device: torch.device) -> None:
    module = locals_(checked(device))
    x, y = (torch.rand(3, device=device, requires_grad=True) for _ in range(2))
    module.chosen(x, y, indices(0, 1, 2, device=device)).sum().backward()
    assert x.grad is not None
    expected = torch.stack([2 * x[0], 2 * x[1] * y[1] ** 2, x[2] * 0])
    torch.testing.assert_close(x.grad, expected.detach())
    with pytest.raises(IndexError, match=r"::chosen: index 3 is outside an array of 3 elements"):
        module.chosen(x, y, indices(0, 1, 3, device=device))


def test_arrays_within_loops_keep_their_gradients(device: torch.device) -> None:
    x = torch.full((4,), 1.5, dtype=torch.float32, device=device, requires_grad=True)
    run = [0, 1, 2, 6]
    (gradient,) = torch.autograd.grad(locals_(checked(device)).repeated(x, indices(*run, device=device)).sum(), x)

    def reference(value: Tensor, count: int) -> Tensor:
        a = [value, torch.ones_like(value)]
        for k in range(count):
            a[k & 1] = a[0] * a[1]
        return a[0]

    expected = torch.stack([reference(one, count) for one, count in zip(x, run, strict=True)])
    torch.testing.assert_close(gradient, torch.autograd.grad(expected.sum(), x)[0])


def test_checks_of_local_indices_can_be_left_out() -> None:
    module = load(HEAD + "float first(float x, int n) { float a[3] = { x, x, x }; return a[n]; }", "unchecked", False)
    assert module.first(torch.ones(2), indices(0, 2, device=torch.device("cpu"))).tolist() == [1, 1]


@some_cases(1)
@pytest.mark.parametrize("name", ["sized", "shaped", "strided"])
def test_the_size_of_a_dimension_that_is_not_there_is_an_error_in_debug_mode(name: str, device: torch.device) -> None:
    x = torch.ones(4, device=device)
    assert getattr(load(SIZES.replace("AT", "0"), "sizes_0", True), name)(x)[0] in (4, 1)
    for dimension in (1, 3, 5, 1000):
        call = getattr(load(SIZES.replace("AT", str(dimension)), f"sizes_{dimension}", True), name)
        said = rf"::{name}: x has 1 dimension, but its size or stride along dimension {dimension} is asked for \(thread"
        with pytest.raises(IndexError, match=said):
            call(x)


def test_an_index_below_zero_is_shown_as_such(device: torch.device) -> None:
    module = load(SIZES.replace("AT", "0"), "sizes_0", True)
    with pytest.raises(IndexError, match=r"::before: x\[-1\]: index -1 is outside dimension 0, which has 4 elements "):
        module.before(torch.ones(4, device=device))


def test_host_functions_check_theirs() -> None:
    module = torch_slang.load(source=HOST, name="host.slang", namespace="local_host")
    assert module.host(1, 1) == 1 + 1 + 1 + 1 + 2 + 1 + 1
    with pytest.raises(IndexError, match=r"::host: index 3 is outside an array of 3 elements$"):
        module.host(3, 1)
    with pytest.raises(IndexError, match=r"::host: index -1 is outside a vector of 2 components$"):
        module.host(1, 0)
    with pytest.raises(IndexError, match=r"::host: index 2 is outside a matrix of 2 rows$"):
        module.host(2, 1)


@pytest.mark.parametrize("debug", [None, True])
def test_guarded_indices_compile_for_a_gpu(debug: bool | None) -> None:
    if not nvrtc_is_here():
        pytest.skip("NVRTC is not installed")
    for name in ("kernel_row_written", "kernel_column", "kernel_array_in_a_struct", "turned"):
        locals_(debug)._handle.cubin(name, "forward", [], True, "sm_90")
