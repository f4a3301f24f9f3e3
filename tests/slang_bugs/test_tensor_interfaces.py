"""SlangPy's interfaces of differentiable tensors in functions with control flow, at which Slang alone does not end."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from long_tests import dear_file, some_cases, some_tests
from torch import Tensor

import torch_slang

pytestmark = [some_tests(3), dear_file]

SOURCE = """
import slangpy;

[Differentiable]
double polynomial(IDiffTensor<double, 1> factors, double x)
{
    double sum = 0;
    [MaxIters(8)] for (int i = factors.shape[0] - 1; i >= 0; --i) sum = sum * x + factors.load(i);
    return sum;
}
[Differentiable]
double chosen(const IDiffTensor<double, 2> t, no_diff int i, double x, IDiffTensor<double, 1> other)
{
    if (x > 0) return t[i, 1] * x;
    return other[i] * other[i];
}
[Differentiable]
double[ROWS] product<let ROWS : int, let COLUMNS : int>(IDiffTensor<double, 2> weights, double x[COLUMNS])
{
    double[ROWS] result;
    [MaxIters(ROWS)] for (int r = 0; r < ROWS; ++r)
    {
        double y = 0;
        [MaxIters(COLUMNS)] for (int c = 0; c < COLUMNS; ++c) y += weights.load(r, c) * x[c];
        result[r] = y;
    }
    return result;
}
[Differentiable]
double helped(IDiffTensor<double, 1> t, no_diff int i) { return i % 2 == 0 ? t[i] * t[i] : 3 * t[i]; }
[Differentiable]
double calls_with_struct(DiffTensor<double, 1> t, no_diff int i) { return helped(t, i) + helped(t, i + 1); }
[Differentiable]
double calls_with_interface(IDiffTensor<double, 1> t, no_diff int i)
{
    double sum = 0;
    for (int k = 0; k < 3; ++k) sum += helped(t, i + k);
    return sum;
}
struct Scale : IDifferentiable
{
    double by;
    [Differentiable]
    double at(IDiffTensor<double, 1> t, no_diff int i) { if (i > 0) return by * t[i]; return t[i] * t[i]; }
}
[Differentiable]
double overloaded(IDiffTensor<double, 1> t, double x) { if (x > 0) return t[0] * x; return t[1]; }
[Differentiable]
double overloaded(IDiffTensor<double, 1> t, double2 x) { if (x.x > 0) return t[0] * x.y; return t[1]; }
[Differentiable]
void stored(no_diff int i, double x, IWDiffTensor<double, 1> to)
{
    if (i % 2 == 0) to[i] = x * x;
    else to.store(i, 5 * x);
}
[Differentiable]
void powers(no_diff int i, double x, IRWDiffTensor<double, 1> t)
{
    double value = x;
    for (int k = 0; k < 2; ++k) value = value * value;
    if (i > 0) t[i] = value;
}
"""


@functools.cache
def module() -> torch_slang.Module:
    return torch_slang.load(source=SOURCE, name="tensor_interfaces", namespace="tensor_interfaces")


@pytest.fixture
def random(device: torch.device) -> Callable[..., Tensor]:
    return functools.partial(torch.randn, dtype=torch.float64, device=device)


def agree(ours: Callable[..., Tensor], formula: Callable[..., Tensor], *inputs: Tensor) -> None:
    leaves = [one.requires_grad_() for one in inputs]
    result, expected = ours(*leaves), formula(*leaves)
    torch.testing.assert_close(result, expected)
    grad = torch.randn_like(expected)
    torch.testing.assert_close(torch.autograd.grad(result, leaves, grad), torch.autograd.grad(expected, leaves, grad))
    assert torch.autograd.gradcheck(ours, leaves)


def test_loops(random: Callable[..., Tensor]) -> None:
    agree(
        module().polynomial,
        lambda factors, x: sum(factors[i] * x**i for i in range(5)),  # type: ignore[misc, return-value]
        random(5), random(7),
    )  # fmt: skip


def test_branches_and_two_tensors(random: Callable[..., Tensor], device: torch.device) -> None:
    i = torch.arange(6, device=device, dtype=torch.int32)
    agree(
        lambda t, x, other: module().chosen(t, i, x, other),
        lambda t, x, other: torch.where(x > 0, t[:, 1] * x, other * other),
        random(6, 2), random(6), random(6),
    )  # fmt: skip


def test_generic_functions(random: Callable[..., Tensor]) -> None:
    function = module().require_function("product<3, 4>")
    agree(function, lambda weights, x: x @ weights.mT, random(3, 4), random(5, 4))


@pytest.mark.parametrize("name", ["calls_with_struct", "calls_with_interface"])
def test_functions_that_call_each_other(random: Callable[..., Tensor], device: torch.device, name: str) -> None:
    i = torch.arange(4, device=device, dtype=torch.int32)
    more = 2 if name == "calls_with_struct" else 3

    def formula(t: Tensor) -> Tensor:
        both = torch.where(torch.arange(len(t), device=device) % 2 == 0, t * t, 3 * t)
        return sum(both[i + k] for k in range(more))  # type: ignore[return-value]

    agree(lambda t: getattr(module(), name)(t, i), formula, random(7))


def test_methods(random: Callable[..., Tensor], device: torch.device) -> None:
    i = torch.arange(3, device=device, dtype=torch.int32)
    agree(
        lambda by, t: module().Scale_at({"by": by}, t, i),
        lambda by, t: torch.where(i > 0, by * t, t * t),
        random(()), random(3),
    )  # fmt: skip


def test_overloads(random: Callable[..., Tensor]) -> None:
    agree(module().overloaded, lambda t, x: torch.where(x > 0, t[0] * x, t[1]), random(2), random(6))
    agree(
        module().overloaded,
        lambda t, x: torch.where(x[:, 0] > 0, t[0] * x[:, 1], t[1]),
        random(2), random(6, 2),
    )  # fmt: skip


def test_stores(random: Callable[..., Tensor], device: torch.device) -> None:
    i = torch.arange(4, device=device, dtype=torch.int32)

    def ours(x: Tensor) -> Tensor:
        to = torch.zeros(4, dtype=torch.float64, device=device)
        module().stored(i, x, to)
        return to

    agree(ours, lambda x: torch.where(i % 2 == 0, x * x, 5 * x), random(4))


def test_what_is_not_stored_stays(random: Callable[..., Tensor], device: torch.device) -> None:
    i = torch.arange(4, device=device, dtype=torch.int32)

    def ours(x: Tensor, before: Tensor) -> Tensor:
        to = before.clone()
        module().powers(i, x, to)
        return to

    agree(ours, lambda x, before: torch.where(i > 0, x**4, before), random(4), random(4))


def test_overloads_that_stay_decide_as_before(device: torch.device) -> None:
    """A generic function is preferred to one that takes an interface, which must not become generic beside it."""
    other = torch_slang.load(
        source="""
import slangpy;
[Differentiable] double f(IDiffTensor<double, 1> t, double x) { return t[0] * x; }
[Differentiable] double f<T : IBaseTensor<double, 1> >(T t, double x) { return 777 * x; }
[Differentiable] double user(DiffTensor<double, 1> t, double x) { return f(t, x); }
""",
        name="interface_overloads",
        namespace="interface_overloads",
    )
    x = torch.ones(2, dtype=torch.float64, device=device)
    torch.testing.assert_close(other.user(x, x), 777 * x)


HELPED = """
[Differentiable]
double helped(IDiffTensor<double, 1> t, no_diff int i)
{
    if (i % 2 == 0) return t[i] * t[i];
    return 3 * t[i];
}
"""
CALLS = """
[Differentiable]
double sums(IDiffTensor<double, 1> t, no_diff int i)
{
    double sum = 0;
    for (int k = 0; k < 3; ++k) sum += helped(t, i + k);
    return sum;
}
[Differentiable] double twice(DiffTensor<double, 1> t, no_diff int i) { return 2 * helped(t, i); }
"""
# The helper's file, and how the module has it.
PLACES = {
    "#include": ("import slangpy;\n" + HELPED, '#include "helper.slang"\n'),
    "#include of a header": (HELPED, 'import slangpy;\n#include "helper.slangh"\n'),
    "__include": ("implementing interfaces;\n" + HELPED, "module interfaces;\nimport slangpy;\n__include helper;\n"),
    "import": (
        "import slangpy;\n" + HELPED.replace("double helped", "public double helped"),
        "import slangpy;\nimport helper;\n",
    ),
}


@some_cases(1)
@pytest.mark.parametrize(
    ("place", "name"),
    [(place, name) for place in PLACES for name in ("sums", "twice")]
    + [(place, "helped") for place in PLACES if place.startswith("#")],  # the others' are no operators of this module
)
def test_functions_of_other_files(
    random: Callable[..., Tensor], device: torch.device, tmp_path: Path, place: str, name: str
) -> None:
    helper, head = PLACES[place]
    (tmp_path / ("helper.slangh" if "header" in place else "helper.slang")).write_text(helper)
    (tmp_path / "interfaces.slang").write_text(head + CALLS)
    other = torch_slang.load(tmp_path / "interfaces.slang", namespace=f"interfaces_{list(PLACES).index(place)}")
    i = torch.arange(4, device=device, dtype=torch.int32)

    def formula(t: Tensor) -> Tensor:
        both = torch.where(torch.arange(len(t), device=device) % 2 == 0, t * t, 3 * t)
        return {"sums": both[i] + both[i + 1] + both[i + 2], "twice": 2 * both[i], "helped": both[i]}[name]

    agree(lambda t: getattr(other, name)(t, i), formula, random(7))


def test_overloads_in_other_files_decide_as_before(
    random: Callable[..., Tensor], device: torch.device, tmp_path: Path
) -> None:
    """One that stays as it is stands in another file than one that would become generic."""
    (tmp_path / "helper.slangh").write_text(
        "[Differentiable] double f<T : IBaseTensor<double, 1> >(T t, double x) { return 777 * x; }"
    )
    (tmp_path / "interfaces.slang").write_text("""
import slangpy;
#include "helper.slangh"
[Differentiable] double f(IDiffTensor<double, 1> t, double x) { return t[0] * x; }
[Differentiable] double user(DiffTensor<double, 1> t, double x) { return f(t, x); }
""")
    other = torch_slang.load(tmp_path / "interfaces.slang", namespace=f"interface_overloads_apart_{device.type}")
    x = random(2)
    torch.testing.assert_close(other.user(x, x), 777 * x)
