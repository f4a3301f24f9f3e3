"""Plain functions as operators: every differentiable intrinsic and form of the language against plain PyTorch."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from cases import kernels
from function_references import BY_NAME, CASES, INTRINSICS, LANGUAGE, Case
from long_tests import LONG, dear_file, dear_test, sampled, some_cases, some_tests

import torch_slang
from torch_slang import testing

pytestmark = [some_tests(8), dear_file]

Tensor = torch.Tensor
OWN_DERIVATIVE = {"quantized"}  # its derivative is not that of its values
# What the run-time does with arguments and results depends on their number and kinds alone: one function of each goes
# through every layout, frozen argument and empty tensor. The others are called once for each precision.
OF_EACH_KIND = [
    BY_NAME[name]
    for name in (
        "polynomial", "weighed", "chosen", "with_constants", "cast_ray", "focused", "running_sum", "polar", "turned",
        "everything", "adjusted", "remainder_of", "inside", "normalize_of", "determinants",
    )
]  # fmt: skip
HALF = [BY_NAME[name] for name in ("polynomial", "damped", "lerp_of", "bounds", "matrix_times_vector")]
# In float64 as near as Slang's constants of single precision allow, which are in the derivatives of logarithms.
ACCURACY = {torch.float64: 5e-8, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def functions() -> torch_slang.Module:
    return kernels("functions")


def outcome(function: Callable[..., Any], values: Sequence[Tensor]) -> list[Tensor]:
    """Results, then the gradients of those arguments that require grad, for random gradients of the results."""
    returned = function(*values)
    results = [returned] if isinstance(returned, Tensor) else list(returned)
    inputs = [value for value in values if value.requires_grad]
    if not inputs:
        return results
    generator = torch.Generator().manual_seed(1)
    random = [torch.randn(r.shape, generator=generator, dtype=torch.float64).to(r.device, r.dtype) for r in results]
    pairs = [(result, grad) for result, grad in zip(results, random, strict=True) if result.requires_grad]
    outputs, grads = zip(*pairs, strict=True)
    return [*results, *torch.autograd.grad(outputs, inputs, grads)]


def assert_agrees(case: Case, values: Sequence[Tensor]) -> None:
    """Results and gradients are those of the formula in float64, as near as the coarsest type around allows."""
    wide = [v.detach().double().requires_grad_(v.requires_grad) if v.is_floating_point() else v for v in values]
    ours, theirs = outcome(case.op, values), outcome(case.reference, wide)
    assert [one.shape for one in ours] == [other.shape for other in theirs]
    given = [value for value in values if value.requires_grad]
    assert [g.dtype for g in ours[len(ours) - len(given) :]] == [value.dtype for value in given]
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        accuracy = scale = 0.0
        if one.is_floating_point():
            accuracy, scale = ACCURACY[one.dtype], max(1.0, other.detach().abs().max().item())
        error = (one.detach().double() - other.detach().double()).abs().max().item()
        assert error <= accuracy * scale, f"{case}: result or gradient {number} is off by {error} of {scale}"


def has_exact_derivative(case: Case) -> bool:
    return case.dtypes[0] == torch.float64 and case.is_differentiable and case.name not in OWN_DERIVATIVE


@dear_test
@some_cases(2)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_function_is_the_formula_with_its_gradients(case: Case, device: torch.device) -> None:
    values = case.mixed(case.dtypes[0], device)
    assert_agrees(case, values)
    if LONG:  # schemas and registrations are those of each kind: see OF_EACH_KIND
        torch.library.opcheck(case.op, tuple(values), rtol=1e-4, atol=1e-4)
    if has_exact_derivative(case):
        wanted = [i for i, value in enumerate(values) if value.requires_grad]

        def differentiable_results(*inputs: Tensor) -> tuple[Tensor, ...]:
            called = [inputs[wanted.index(i)] if i in wanted else value for i, value in enumerate(values)]
            returned = case.op(*called)
            return tuple(r for r in ([returned] if isinstance(returned, Tensor) else returned) if r.requires_grad)

        inputs = tuple(values[i].double().detach().requires_grad_() for i in wanted)
        torch.autograd.gradcheck(differentiable_results, inputs)


# Every intrinsic in single precision: test_intrinsics.py.
@some_cases(3)
@pytest.mark.parametrize("case", sampled(CASES, lambda case: case in OF_EACH_KIND), ids=str)
def test_single_precision(case: Case, device: torch.device) -> None:
    assert_agrees(case, case.make([(1003,)], torch.float32, device))


@dear_test
@some_cases(2)
@pytest.mark.parametrize("case", OF_EACH_KIND, ids=str)
def test_every_layout_frozen_argument_and_empty_tensor(case: Case) -> None:
    dtype = case.dtypes[0]
    testing.check(
        case.op,
        case.mixed(dtype),
        reference=case.reference,
        gradcheck_dtype=torch.float64 if has_exact_derivative(case) else None,
        **({} if dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-4}),
        order=1,
    )


@dear_test
@pytest.mark.parametrize("case", sampled(OF_EACH_KIND, lambda case: OF_EACH_KIND.index(case) % 3 == 0), ids=str)
def test_no_dimensions_give_none(case: Case, device: torch.device) -> None:
    assert_agrees(case, case.make([()], case.dtypes[0], device))


@some_cases(1)
@pytest.mark.parametrize("case", HALF, ids=str)
def test_half_precision(case: Case, device: torch.device) -> None:
    assert_agrees(case, case.make([(9, 5)], torch.float16, device))
    assert_agrees(case, case.mixed(torch.float16, device))


def test_functions_of_real_numbers_take_bfloat16(device: torch.device) -> None:
    case = BY_NAME["damped"]
    assert_agrees(case, case.make([(9, 5)], torch.bfloat16, device))
    assert_agrees(case, case.mixed(torch.bfloat16, device))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32, torch.bool])
def test_fixed_types_widen_narrower_arguments(dtype: torch.dtype, device: torch.device) -> None:
    x = torch.randint(0, 2, (6,), device=device).to(dtype)
    weight = torch.rand(6, device=device, requires_grad=True)
    y = functions().weighed(x, weight)
    assert y.dtype == torch.float32
    torch.testing.assert_close(y, x.float() ** 2 * weight + weight)
    (gradient,) = torch.autograd.grad(y.sum(), weight)
    torch.testing.assert_close(gradient, x.float() ** 2 + 1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gradients_of_widened_arguments_have_their_dtype(dtype: torch.dtype, device: torch.device) -> None:
    x = torch.randn(5, device=device).to(dtype).requires_grad_()
    weight = torch.randn(3, 1, device=device).to(dtype).requires_grad_()
    functions().weighed(x, weight).sum().backward()
    wide = [v.detach().float().requires_grad_() for v in (x, weight)]
    BY_NAME["weighed"].reference(*wide).sum().backward()
    for narrow, expected in zip((x, weight), wide, strict=True):
        assert narrow.grad is not None
        assert narrow.grad.dtype == dtype
        torch.testing.assert_close(narrow.grad, expected.grad.to(dtype))  # type: ignore[union-attr]


def test_fixed_types_never_narrow() -> None:
    with pytest.raises((TypeError, RuntimeError), match=r"weighed.*x.*float.*(float64|Double|double)"):
        functions().weighed(torch.ones(3, dtype=torch.float64), torch.ones(3))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (torch.float32, torch.float64, torch.float64),
        (torch.float16, torch.float32, torch.float32),
        (torch.int64, torch.float16, torch.float16),
        (torch.int64, torch.uint8, torch.float32),
    ],
    ids=str,
)
def test_generic_types_are_promoted_as_in_pytorch(
    one: torch.dtype, other: torch.dtype, expected: torch.dtype, device: torch.device
) -> None:
    x, y = torch.tensor([1, 2, 3], device=device).to(one), torch.tensor([3, 1, 2], device=device).to(other)
    result = functions().late(x=x, y=y)
    assert result.dtype == expected
    torch.testing.assert_close(result, (x.to(expected) * y.to(expected) + y.to(expected)))


def test_numbers_without_dimensions_do_not_widen_tensors(device: torch.device) -> None:
    x = torch.rand(4, dtype=torch.float16, device=device)
    assert functions().late(x, torch.tensor(2.0, dtype=torch.float64)).dtype == torch.float16
    assert functions().late(x, 2.5).dtype == torch.float16


@pytest.mark.parametrize("size", [2, 3, 4])
def test_size_parameters_come_from_the_tensors(size: int, device: torch.device) -> None:
    v = torch.randn(5, size, dtype=torch.float64, device=device, requires_grad=True)
    y = functions().sum_of_squares(v)
    torch.testing.assert_close(y, (v * v).sum(-1))
    (gradient,) = torch.autograd.grad(y.sum(), v)
    torch.testing.assert_close(gradient, 2 * v)


CONVERTED = [
    "T(0.5)",
    "T(0.1)",
    "T(-0.25f)",
    "-T(3)",
    "(T) 2",
    "(T)(-1.5)",
    "__realCast<T>(0.1)",
    "T(1e-3)",
]
UNKNOWN = [
    "T(0.1lf)",
    "T(1) / T(3)",
    "T(kScale)",
    "T(010)",
    "T(4294967296)",
    "T(int(2.7))",
    "T(0.5) * T(2)",
    "T(1.0 / 3)",
    "T(0x10)",
]


def with_default(default: str, constraint: str, number: int) -> torch_slang.Module:
    source = f"""
    static const float kScale = 1;
    T scaled<T : {constraint}>(T x, T y = {default}) {{ return x * y; }}
    T called<T : {constraint}>(T x) {{ return scaled(x); }}
    """
    return torch_slang.load(
        source=source, name="defaults", namespace=f"test_defaults_{constraint.strip('_')}{number}".lower()
    )


@some_cases(2)
@pytest.mark.parametrize("default", CONVERTED)
def test_defaults_of_a_type_parameter_are_what_slang_passes(default: str) -> None:
    module = with_default(default, "__BuiltinFloatingPointType", CONVERTED.index(default))
    for dtype in (torch.float64, torch.float32):
        x = torch.tensor([1.0, -3.0, 7.0], dtype=dtype)
        torch.testing.assert_close(module.scaled(x), module.called(x), rtol=1e-14, atol=0)  # Slang prints 15 digits


@pytest.mark.parametrize("default", UNKNOWN)
def test_other_defaults_of_a_type_parameter_are_required(default: str) -> None:
    module = with_default(default, "__BuiltinFloatingPointType", 100 + UNKNOWN.index(default))
    with pytest.raises(TypeError, match="missing y"):
        module.scaled(torch.ones(3))


def test_a_default_that_an_integer_would_round_is_required() -> None:
    x = torch.tensor([100], dtype=torch.int32)
    with pytest.raises(TypeError, match="missing y"):
        with_default("T(2.5)", "__BuiltinArithmeticType", 0).scaled(x)
    module = with_default("T(3)", "__BuiltinArithmeticType", 1)
    result = module.scaled(x)
    assert result.dtype == torch.int32
    assert torch.equal(result, module.called(x))


def test_shapes_that_do_not_broadcast_are_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)late.*\[2, 3\].*\[4\]"):
        functions().late(torch.ones(2, 3), torch.ones(4))
    with pytest.raises(RuntimeError, match=r"(?s)cross_of.*x.*3.*\[5, 2\]"):
        BY_NAME["cross_of"].op(torch.ones(5, 2), torch.ones(3))


@pytest.mark.parametrize("call", ["frexp(x, exponent)", "nextafter(x, T(1))"])
def test_intrinsics_without_derivative_are_refused_in_differentiable_functions(call: str) -> None:
    intrinsic = call.partition("(")[0]
    source = f"[Differentiable] T f<T : __BuiltinFloatingPointType>(T x) {{ int exponent; return x * {call}; }}"
    with pytest.raises(torch_slang.CompileError, match=rf"non-\S*differentiable.*{intrinsic}"):
        torch_slang.load(source=source, name=f"refused_{intrinsic}.slang", namespace="refused")


def test_functions_that_are_not_differentiable_say_so() -> None:
    at = torch.ones(3, 2, requires_grad=True)
    result = functions().checkered(at)
    assert result.tolist() == [3, 3, 3]
    with pytest.raises(RuntimeError, match=r"checkered.*Differentiable"):
        result.sum().backward()


def test_table_is_whole() -> None:
    """Each function of the files stands in the table, but for those that other tests call."""
    elsewhere = {"late", "bucket", "rounded", "squared_plus", "scale_by", "split"}
    assert len(CASES) >= 45
    for file, cases in (("functions_intrinsics", INTRINSICS), ("functions", LANGUAGE)):
        assert set(kernels(file).functions()) - elsewhere == {case.name for case in cases}
