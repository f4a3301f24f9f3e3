"""CUDA's functions of numbers by name, `__intrinsic_asm "log1p($0)"`, which math_names.h has for the CPU."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import pytest
import torch
from long_tests import dear_file

import torch_slang

pytestmark = dear_file

INTRINSIC = '{result} {own}({parameters}) {{ __intrinsic_asm "{name}({arguments})"; }}\n'
KERNEL = """import torch_slang;
[PyBindCUDA(Auto)] [CudaKernel]
void all([Shape("N")] TensorView<{T}> a, [Shape("N")] TensorView<{T}> b, [Shape("N")] TensorView<{T}> c,
         [Shape("N")] TensorView<int> k, [Out("{count}, N")] TensorView<{R}> results)
{{
    uint i = cudaGlobalIdx().x;
    if (i >= a.size(0)) return;
    {T} x = a[i], y = b[i], z = c[i];
    int n = k[i];
    {calls}
}}
"""
ROWS = 7


def special(name: str) -> Callable[[float], float]:
    function = getattr(torch.special, name)
    return lambda x: float(function(torch.tensor(x, dtype=torch.float64)))


J0, J1, Y0, Y1 = (special(f"bessel_{name}") for name in ("j0", "j1", "y0", "y1"))


def rounded(x: float) -> float:
    """Half away from zero."""
    return math.copysign(math.floor(abs(x) + 0.5), x)


# Of x, y, z between 0.1 and 3 and n from -3 to 3: arguments, then the same in Python.
LIBRARY: dict[str, tuple[str, Callable[..., float]]] = {
    **{name: ("x / 4", getattr(math, name)) for name in ("acos", "asin", "atanh")},
    **{
        name: ("x", getattr(math, name))
        for name in (
            *("asinh", "atan", "cbrt", "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1", "fabs"),
            *("lgamma", "log", "log10", "log1p", "log2", "sin", "sinh", "sqrt", "tanh"),
        )
    },
    "acosh": ("x + 1", math.acosh),
    "tan": ("x / 4", math.tan),
    "tgamma": ("x", math.gamma),
    "exp10": ("x", lambda x: 10.0**x),
    **{name: ("x * n", reference) for name, reference in [("ceil", math.ceil), ("floor", math.floor)]},
    **dict.fromkeys(("rint", "nearbyint"), ("x * n", round)),
    **{name: ("x * n", reference) for name, reference in [("round", rounded), ("trunc", math.trunc)]},
    "logb": ("x", lambda x: math.frexp(x)[1] - 1),
    **{name: ("x", reference) for name, reference in [("j0", J0), ("j1", J1), ("y0", Y0), ("y1", Y1)]},
    "jn": ("2, x", lambda _, x: 2 / x * J1(x) - J0(x)),
    "yn": ("2, x", lambda _, x: 2 / x * Y1(x) - Y0(x)),
    **{name: ("x, -y", getattr(math, name)) for name in ("atan2", "copysign", "fmod", "remainder", "hypot")},
    "fdim": ("x, y", lambda x, y: max(x - y, 0)),
    "fmax": ("x, y", max),
    "fmin": ("x, y", min),
    "pow": ("x, y", math.pow),
    "fma": ("x, y, z", lambda x, y, z: x * y + z),
    "ldexp": ("x, n", math.ldexp),
    "scalbn": ("x, n", math.ldexp),
    "rsqrt": ("x", lambda x: x**-0.5),
    "rcbrt": ("x", lambda x: 1 / math.cbrt(x)),
    "normcdf": ("x * n", lambda x: 0.5 * math.erfc(-x / math.sqrt(2))),
    "sinpi": ("x * n / 5", lambda x: math.sin(math.pi * x)),
    "cospi": ("x * n / 5", lambda x: math.cos(math.pi * x)),
    "rhypot": ("x, y", lambda x, y: 1 / math.hypot(x, y)),
    "norm3d": ("x, y, z", math.hypot),
    "norm4d": ("x, y, z, x", math.hypot),
    "rnorm3d": ("x, y, z", lambda *v: 1 / math.hypot(*v)),
    "rnorm4d": ("x, y, z, x", lambda *v: 1 / math.hypot(*v)),
}
OF_FLOAT: dict[str, tuple[str, Callable[..., float]]] = {
    **{
        f"__{name}f": ("x / 4", reference)
        for name, reference in [
            *((name, getattr(math, name)) for name in ("sin", "cos", "tan", "tanh", "exp", "log", "log2", "log10")),
            ("exp10", lambda x: 10.0**x),
        ]
    },
    "__powf": ("x, y", math.pow),
    "__fdividef": ("x, y", lambda x, y: x / y),
    "fdividef": ("x, y", lambda x, y: x / y),
    "__saturatef": ("x * n", lambda x: min(max(x, 0), 1)),
    "__frsqrt_rn": ("x", lambda x: x**-0.5),
}


def rounded_to_nearest(prefix: str, fma: str) -> dict[str, tuple[str, Callable[..., float]]]:
    return {
        f"__{prefix}add_rn": ("x, y", lambda x, y: x + y),
        f"__{prefix}sub_rn": ("x, y", lambda x, y: x - y),
        f"__{prefix}mul_rn": ("x, y", lambda x, y: x * y),
        f"__{prefix}div_rn": ("x, y", lambda x, y: x / y),
        f"__{prefix}rcp_rn": ("x", lambda x: 1 / x),
        f"__{prefix}sqrt_rn": ("x", math.sqrt),
        fma: ("x, y, z", lambda x, y, z: x * y + z),
    }


def run(entries: list[tuple[str, str, str]], number: str, result: str, numbers: list[torch.Tensor], device: Any) -> Any:
    """Results of all entries: what is called, its result's type, its arguments as text of x, y, z and n."""
    functions, calls = "", ""
    for index, (name, its_result, arguments) in enumerate(entries):
        types = ["int" if one.strip() in ("n", "2") else number for one in arguments.split(",")]
        parameters = ", ".join(f"{one} p{i}" for i, one in enumerate(types))
        places = ", ".join(f"${i}" for i in range(len(types)))
        own = f"own{index}"
        functions += INTRINSIC.format(result=its_result, own=own, parameters=parameters, name=name, arguments=places)
        given = ", ".join(f"{one}({part})" for one, part in zip(types, arguments.split(","), strict=True))
        calls += f"results[{index}, i] = {result}({own}({given}));\n    "
    text = KERNEL.format(T=number, R=result, count=len(entries), calls=calls).replace(
        "[PyBind", functions + "[PyBind", 1
    )
    module = torch_slang.load(source=text, name=f"math_names_{len(text)}", namespace=f"math_names_{len(text)}")
    return module.all(*(tensor.to(device) for tensor in numbers)).cpu()


def inputs(dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    numbers = [0.1 + 2.9 * torch.rand(ROWS, generator=generator, dtype=dtype) for _ in range(3)]
    return [*numbers, torch.arange(ROWS, dtype=torch.int32) - 3]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_functions_of_numbers(dtype: torch.dtype, device: torch.device) -> None:
    number = "float" if dtype == torch.float32 else "double"
    table = dict(LIBRARY)
    if number == "float":
        table |= {f"{name}f": entry for name, entry in LIBRARY.items()} | OF_FLOAT
        table |= rounded_to_nearest("f", "__fmaf_rn")
    else:
        table |= rounded_to_nearest("d", "__fma_rn")
    numbers = inputs(dtype)
    results = run([(name, number, entry[0]) for name, entry in table.items()], number, number, numbers, device)
    tolerance = 2e-5 if number == "float" else 1e-11  # torch.special.bessel_j0 has no more
    for values, (name, (arguments, reference)) in zip(results, table.items(), strict=True):
        for row in range(ROWS):
            known = dict(zip("xyzn", (tensor[row].item() for tensor in numbers), strict=True))
            given = [eval(one, {}, known) for one in arguments.split(",")]
            expected = float(reference(*given))
            error = abs(values[row].item() - expected)
            assert error <= tolerance * max(1, abs(expected)), (name, given, values[row].item(), expected)


def test_sums_and_products_by_name_are_not_merged(device: torch.device) -> None:
    """a * a + c, where the product loses what a merged operation would keep."""
    text = """import torch_slang;
float product(float a, float b) { __intrinsic_asm "__fmul_rn($0, $1)"; }
float f(float a, float c) { return product(a, a) + c; }"""
    module = torch_slang.load(source=text, name="not_merged", namespace="not_merged")
    a = 1 + torch.arange(1, 100, dtype=torch.float32, device=device) * 2**-20
    square = a * a
    assert torch.equal(module.f(a, -square), torch.zeros_like(a))


ODD = [0.5, -0.5, 1.5, -2.5, 3e9, -3e9, 1e20, -1e20, math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("source", ["float", "double"])
def test_conversions_round_as_asked_and_keep_to_their_type(source: str, device: torch.device) -> None:
    ways = {"rn": round, "rz": math.trunc, "ru": math.ceil, "rd": math.floor}
    types = {"int": (-(2**31), 2**31 - 1), "uint": (0, 2**32 - 1), "ll": (-(2**63), 2**63 - 1), "ull": (0, 2**64 - 1)}
    slang = {"int": "int", "uint": "uint", "ll": "int64_t", "ull": "uint64_t"}
    names = [(to, way) for to in types for way in ways]
    dtype = torch.float32 if source == "float" else torch.float64
    given = torch.tensor(ODD, dtype=dtype)
    numbers = [given, given, given, torch.zeros(len(ODD), dtype=torch.int32)]
    entries = [(f"__{source}2{to}_{way}", slang[to], "x") for to, way in names]
    results = run(entries, source, "int64_t", numbers, device)
    for values, (to, way) in zip(results, names, strict=True):
        least, most = types[to]
        for number, value in zip(given.tolist(), values.tolist(), strict=True):
            if math.isnan(number):
                bits = 64 if most > 2**32 else 32
                expected = 0 if bits == 32 and source == "float" else 2 ** (bits - 1)
                if to == "int":
                    expected = -expected
            else:
                expected = int(min(max(ways[way](number) if math.isfinite(number) else number, least), most))
            assert value % 2**64 == expected % 2**64, (to, way, number, value)


def test_functions_of_whole_numbers(device: torch.device) -> None:
    pairs = [(5, 7), (-1, 3), (2**31 - 1, 2**31 - 1), (-(2**31), -(2**31)), (123456789, -987654321), (0, 0)]

    def signed(value: int, bits: int = 32) -> int:
        return (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)

    def permuted(x: int, y: int) -> int:
        data = struct.pack("<II", x % 2**32, y % 2**32)
        picked = [data[1], data[4], data[0], data[7]]
        return int(struct.unpack("<I", bytes(picked))[0])

    table: dict[str, tuple[str, Callable[[int, int], int]]] = {
        "__mul24($0, $1)": ("int", lambda x, y: signed(signed(x, 24) * signed(y, 24))),
        "__umul24($0, $1)": ("uint", lambda x, y: (x % 2**24) * (y % 2**24)),
        "__mulhi($0, $1)": ("int", lambda x, y: x * y >> 32),
        "__umulhi($0, $1)": ("uint", lambda x, y: (x % 2**32) * (y % 2**32) >> 32),
        "__mul64hi(int64_t($0) << 32, int64_t($1) << 32)": ("int64_t", lambda x, y: x * y),
        "__umul64hi(uint64_t(uint($0)) << 32, uint64_t(uint($1)))": (
            "int64_t",
            lambda x, y: (x % 2**32) * (y % 2**32) >> 32,
        ),
        "__sad($0, $1, 3)": ("uint", lambda x, y: abs(x - y) + 3),
        "__usad($0, $1, 3)": ("uint", lambda x, y: abs(x % 2**32 - y % 2**32) + 3),
        "__hadd($0, $1)": ("int", lambda x, y: (x + y) >> 1),
        "__rhadd($0, $1)": ("int", lambda x, y: (x + y + 1) >> 1),
        "__uhadd($0, $1)": ("uint", lambda x, y: (x % 2**32 + y % 2**32) >> 1),
        "__urhadd($0, $1)": ("uint", lambda x, y: (x % 2**32 + y % 2**32 + 1) >> 1),
        "__funnelshift_l($0, $1, 5)": ("uint", lambda x, y: ((y % 2**32) << 32 | x % 2**32) << 5 >> 32),
        "__funnelshift_r($0, $1, 37)": ("uint", lambda x, y: ((y % 2**32) << 32 | x % 2**32) >> 5),
        "__byte_perm($0, $1, 0x7841)": ("uint", permuted),
        "min($0, $1)": ("int", min),
        "max($0, $1)": ("int", max),
        "abs($0)": ("int", lambda x, _: signed(abs(x))),
    }
    text = "import torch_slang;\n"
    for index, (call, (result, _)) in enumerate(table.items()):
        text += f"int64_t own{index}(int x, int y) {{ return as{index}(x, y); }}\n"
        text += f'{result} as{index}(int x, int y) {{ __intrinsic_asm "{call}"; }}\n'
    calls = " ".join(f"r[{index}] = own{index}(x, y);" for index in range(len(table)))
    text += f"int64_t[{len(table)}] all(int x, int y) {{ int64_t r[{len(table)}]; {calls} return r; }}"
    module = torch_slang.load(source=text, name="whole_names", namespace="whole_names")
    x, y = torch.tensor(pairs, dtype=torch.int32).T.contiguous().to(device)
    results = module.all(x, y).cpu()
    for row, (a, b) in enumerate(pairs):
        for value, (call, (_, reference)) in zip(results[row].tolist(), table.items(), strict=True):
            assert (value - reference(a, b)) % 2**32 == 0, (call, a, b, value, reference(a, b))
