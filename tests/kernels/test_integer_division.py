"""Integer division by zero, and of the smallest number by -1: what a GPU gives, everywhere; in debug mode an error."""

import functools

import pytest
import torch
from cases import nvrtc_is_here

import torch_slang

Tensor = torch.Tensor

# Slang's type, torch's, and its bits. What torch has no arithmetic for travels as the signed type.
TYPES = {
    "int8_t": (torch.int8, 8),
    "uint8_t": (torch.uint8, 8),
    "int16_t": (torch.int16, 16),
    "uint16_t": (torch.uint16, 16),
    "int": (torch.int32, 32),
    "uint": (torch.uint32, 32),
    "int64_t": (torch.int64, 64),
    "uint64_t": (torch.uint64, 64),
}
SIGNED = [name for name in TYPES if not name.startswith("u")]

# Kernels apart: a GPU that has the quotient at hand makes the remainder of it, and then x % 0 is x.
KERNEL = """
[PyBindCUDA(Auto)] [CudaKernel]
void divide_TYPE(
    [Shape("N")] TensorView<TYPE> a, [Shape("N")] TensorView<TYPE> b, [Out("N")] TensorView<TYPE> quotient)
{
    uint i = cudaGlobalIdx().x;
    if (i >= a.size(0)) return;
    quotient[i] = a[i] / b[i];
}
[PyBindCUDA(Auto)] [CudaKernel]
void remain_TYPE([Shape("N")] TensorView<TYPE> a, [Shape("N")] TensorView<TYPE> b, [Out("N")] TensorView<TYPE> rest)
{
    uint i = cudaGlobalIdx().x;
    if (i >= a.size(0)) return;
    rest[i] = a[i] % b[i];
}
"""
FUNCTIONS = """
int quotient(int a, int b) { return a / b; }
int rest(int a, int b) { return a % b; }
uint unsigned_quotient(uint a, uint b) { return a / b; }
int64_t long_quotient(int64_t a, int64_t b) { return a / b; }
int in_place(int a, int b) { int c = a; c /= b; return c; }
int rest_in_place(int a, int b) { int c = a; c %= b; return c; }
int3 of_vectors(int3 a, int3 b) { return a / b; }
int3 rest_of_vectors(int3 a, int3 b) { return a % b; }
int3 by_a_number(int3 a, int b) { return a / b; }
uint2 of_unsigned_vectors(uint2 a, uint2 b) { return a / b; }
int2x2 of_matrices(int2x2 a, int2x2 b) { return a / b; }
int precedence(int a, int b, int c) { return 1 + a * b / c % 7 - a / (b - c) * 2; }
int by_literals(int a) { return a / 3 + a % 5 * (a / -2) + a / 1; }
float of_floats(float a, float b) { return a / b + 1 / a; }
"""


SOURCE = "".join(KERNEL.replace("TYPE", name) for name in TYPES) + FUNCTIONS


@functools.cache
def module(debug: bool | None = None) -> torch_slang.Module:
    return torch_slang.load(source=SOURCE, name="division.slang", namespace=f"division_{debug}".lower(), debug=debug)


def smallest(name: str) -> int:
    return -(2 ** (TYPES[name][1] - 1)) if name in SIGNED else 0


def all_bits(name: str) -> int:
    return -1 if name in SIGNED else 2 ** TYPES[name][1] - 1


def expected(name: str, a: int, b: int) -> tuple[int, int]:
    """The table of docs/functions.md."""
    if b == 0:
        either = 2**32 - 1 if TYPES[name][1] == 64 and 0 <= a < 2**32 else all_bits(name)
        return either, either
    if b == -1 and a == smallest(name):
        return a, 0
    size = abs(a) // abs(b)
    quotient = size if (a < 0) == (b < 0) else -size
    return quotient, a - quotient * b


def pairs(name: str) -> list[tuple[int, int]]:
    low, high = smallest(name), 2 ** (TYPES[name][1] - (name in SIGNED)) - 1
    numbers = sorted(
        {low, low + 1, -7, -1, 0, 1, 5, 7, 100, high // 3, high - 1, high} - ({-7, -1} if low == 0 else set())
    )
    if TYPES[name][1] == 64:
        numbers += [2**31, 2**32 - 1, 2**32]
    divisors = [n for n in (low, -7, -1, 0, 1, 2, 7, high) if n >= low]
    return [(a, b) for a in numbers for b in divisors]


@pytest.mark.parametrize("name", TYPES)
def test_every_division_gives_what_the_table_says(name: str, device: torch.device) -> None:
    of, dtype = pairs(name), TYPES[name][0]
    a, b = (torch.tensor([pair[k] for pair in of], dtype=dtype).to(device) for k in (0, 1))
    results = [getattr(module(), f"{kind}_{name}")(a, b).tolist() for kind in ("divide", "remain")]
    assert list(zip(*results, strict=True)) == [expected(name, *pair) for pair in of]


def ints(*values: object, device: torch.device) -> Tensor:
    return torch.tensor(values, dtype=torch.int32, device=device)


@pytest.mark.parametrize(
    ("name", "a", "b", "result"),
    [
        ("quotient", [7, -7, -(2**31), -(2**31)], [0, 2, -1, 0], [-1, -3, -(2**31), -1]),
        ("rest", [7, -7, -(2**31), -(2**31)], [0, 2, -1, 0], [-1, -1, 0, -1]),
        ("in_place", [7, -7, -(2**31)], [0, 2, -1], [-1, -3, -(2**31)]),
        ("rest_in_place", [7, -7, -(2**31)], [0, 2, -1], [-1, -1, 0]),
        ("of_vectors", [[7, 8, -(2**31)]], [[0, 3, -1]], [[-1, 2, -(2**31)]]),
        ("rest_of_vectors", [[7, 8, -(2**31)]], [[0, 3, -1]], [[-1, 2, 0]]),
        ("by_a_number", [[7, 8, 9], [4, 5, 6]], [0, 2], [[-1, -1, -1], [2, 2, 3]]),
        ("of_matrices", [[[7, 8], [9, -(2**31)]]], [[[0, 3], [2, -1]]], [[[-1, 2], [4, -(2**31)]]]),
    ],
)
def test_functions_divide_alike(name: str, a: list, b: list, result: list, device: torch.device) -> None:
    assert getattr(module(), name)(ints(*a, device=device), ints(*b, device=device)).tolist() == result


def test_precedence_is_that_of_the_language(device: torch.device) -> None:
    a, b, c = (ints(*values, device=device) for values in ([7, -9, 100], [5, 3, -8], [3, 4, 7]))
    divided = [torch.div(n, d, rounding_mode="trunc") for n, d in ((a * b, c), (a, b - c))]
    assert torch.equal(module().precedence(a, b, c), 1 + torch.fmod(divided[0], 7) - divided[1] * 2)


def test_division_by_literals_is_plain(device: torch.device) -> None:
    a = torch.arange(-20, 20, dtype=torch.int32, device=device)
    half, third = (torch.div(a, d, rounding_mode="trunc") for d in (-2, 3))
    assert torch.equal(module().by_literals(a), third + torch.fmod(a, 5) * half + a)


def test_floats_divide_as_ever(device: torch.device) -> None:
    a, b = torch.tensor([1.0, -2.0, 4.0], device=device), torch.tensor([0.0, 0.0, 3.0], device=device)
    torch.testing.assert_close(module(True).of_floats(a, b), a / b + 1 / a)


@pytest.mark.parametrize("name", ["int", "uint", "int64_t", "uint64_t", "int8_t", "uint16_t"])
def test_division_by_zero_is_an_error_in_debug_mode(name: str, device: torch.device) -> None:
    kernel = getattr(module(True), f"divide_{name}")
    a, b = (torch.tensor(values, dtype=TYPES[name][0]).to(device) for values in ([1, 2, 3, 4], [1, 2, 0, 3]))
    line = 1 + SOURCE[: SOURCE.index("quotient[i] =", SOURCE.index(f"divide_{name}("))].count("\n")
    where = rf"\(thread \(2, 0, 0\) of block \(0, 0, 0\), division\.slang:{line}\)$"
    with pytest.raises(RuntimeError, match=rf"::divide_{name}: an integer is divided by zero {where}"):
        kernel(a, b)
    assert kernel(a[:2], b[:2]).tolist() == [1, 1]


@pytest.mark.parametrize("name", SIGNED)
def test_the_smallest_number_by_minus_one_is_an_error_in_debug_mode(name: str, device: torch.device) -> None:
    a, b = (torch.tensor([value], dtype=TYPES[name][0], device=device) for value in (smallest(name), -1))
    with pytest.raises(RuntimeError, match="the smallest integer is divided by -1, which gives none of its type"):
        getattr(module(True), f"divide_{name}")(a, b)


@pytest.mark.parametrize("name", ["quotient", "rest", "in_place", "of_vectors", "by_a_number", "of_matrices"])
def test_functions_name_the_line_in_debug_mode(name: str, device: torch.device) -> None:
    shape = {"of_vectors": (1, 3), "by_a_number": (1, 3), "of_matrices": (1, 2, 2)}.get(name, (1,))
    a = torch.ones(shape, dtype=torch.int32, device=device)
    b = torch.zeros(shape[:1] if name == "by_a_number" else shape, dtype=torch.int32, device=device)
    with pytest.raises(RuntimeError, match=rf"::{name}: an integer is divided by zero \(division\.slang:\d+\)$"):
        getattr(module(True), name)(a, b)


@pytest.mark.parametrize("debug", [None, True])
def test_divisions_compile_for_a_gpu(debug: bool | None) -> None:
    if not nvrtc_is_here():
        pytest.skip("NVRTC is not installed")
    for name in ("divide_int", "divide_uint64_t"):
        module(debug)._handle.cubin(name, "forward", [], True, "sm_90")
