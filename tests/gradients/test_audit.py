"""Audits: a backward that is not the transpose of its forward derivative is found, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from audits import KERNEL, RESULT, found_of, gradients, leaf
from long_tests import dear_test, some_cases
from slang_bugs import BUGS, LEAVE_OUT, Bug

import torch_slang

Tensor = torch.Tensor
GATHERED = '[Shape("M")] TensorView<int> n, [Out("M")] DiffTensorView<float> y'


@pytest.fixture(autouse=True)
def audits_first() -> Iterator[None]:
    before = torch_slang.audit.mode("first")
    yield
    torch_slang.audit.mode(before)


@dear_test
def test_functions_and_kernels_agree_in_both_orders() -> None:
    source = f"""
    [Differentiable] float3 bent(float a, float3 x) {{ return a * x * sin(x); }}
    [Differentiable] T scaled<T : __BuiltinFloatingPointType>(T a, T x) {{ return a * x * x; }}
    {KERNEL} climbed([Shape("N")] DiffTensorView<float> x, {RESULT})
    {{ uint i = cudaGlobalIdx().x; if (i < x.size(0)) y[i] = max(x[i], 0.0f) * x[i]; }}
    """
    module = torch_slang.load(source=source, namespace="audit_agree")
    gradients(module.bent, leaf(100), leaf(100, 3), order=2)
    gradients(module.scaled, leaf(7, 1), leaf(5), order=2)
    gradients(module.climbed, leaf(100), order=2)
    for name in ("bent", "scaled", "climbed"):
        found = found_of(f"audit_agree::{name}")
        assert [found[order].outcome for order in (1, 2)] == ["agrees", "agrees"], found
        assert "audited: agrees with the forward derivative" in str(module.explain(name))
    assert found_of("audit_agree::scaled")[1].types == "float32"


# What an audit finds of the ledger where Slang's error is not mended; and what it cannot find, and why.
NOT_FOUND = {
    "constant_call": "the user asks for a constant, and both orders have another",
    "no_diff_call": "the user asks for a constant, and both orders have none",
    "quotient": "both orders square the divisor, which overflows in float32 alone",
    "constants_as_inout": "memory that was never set may hold the right number",
}
SILENT = [bug for bug in BUGS if bug.facts.get("derivative") != "value" and bug.name not in NOT_FOUND]


def unmended(bug: Bug, namespace: str) -> Any:
    return torch_slang.load(bug.path, namespace=namespace, defines={LEAVE_OUT: bug.facts["repair"]})


def inputs_of(bug: Bug) -> list[Tensor]:
    return [x.requires_grad_(x.is_floating_point()) for x in bug.inputs(torch.device("cpu"))]


def differentiate(bug: Bug, namespace: str) -> None:
    """Without Slang's error being mended."""
    gradients(unmended(bug, namespace).f, *inputs_of(bug))
    if bug.is_forward:
        bug.found(torch.device("cpu"), without_repair=True, namespace=namespace)


@some_cases(4)
@pytest.mark.parametrize("bug", SILENT, ids=lambda bug: bug.name)
def test_an_error_of_slang_that_is_not_mended_is_found(bug: Bug) -> None:
    """Or does not compile."""
    with pytest.raises(RuntimeError, match=r"does not compile|is wrong: along|give .*, central differences"):
        differentiate(bug, f"audit_{bug.name}")


WRONG = next(bug for bug in BUGS if bug.name == "left_by_break")


def test_the_message_names_operator_argument_numbers_and_remedy() -> None:
    module = unmended(WRONG, "audit_message")
    message = (
        r"audit_message::f_backward: the gradient of \w+ is wrong: along a random direction the backward gives "
        r"[-\d.e]+, the forward derivative [-\d.e]+, central differences [-\d.e]+ .*\[ForceUnroll\].*"
        r'torch_slang.audit.accept\("audit_message::f"\)'
    )
    for _ in range(2):  # each call
        with pytest.raises(RuntimeError, match=message):
            gradients(module.f, *inputs_of(WRONG))
    torch_slang.audit.accept("audit_message.f")
    gradients(module.f, *inputs_of(WRONG))
    found = found_of("audit_message::f")[1]
    assert found.outcome == "wrong"
    assert "WRONG (accepted)" in str(found)


def test_beside_the_work_a_wrong_gradient_is_warned_of_and_raises_later(capfd: pytest.CaptureFixture[str]) -> None:
    torch_slang.audit.mode("background")
    module = unmended(WRONG, "audit_background")
    torch_slang.cache.clear()
    gradients(module.f, *inputs_of(WRONG))
    assert found_of("audit_background::f")[1].outcome == "waiting"
    assert "not audited yet" in str(module.explain("f"))
    assert not torch_slang.audit.wait(0)  # it only asks: audits begin two seconds behind the backward
    assert torch_slang.audit.wait(120)
    said = capfd.readouterr().err
    assert "gradients that this process has computed so far with audit_background::f may be wrong" in said
    with pytest.raises(RuntimeError, match="is wrong"):
        gradients(module.f, *inputs_of(WRONG))


def test_off() -> None:
    torch_slang.audit.mode("off")
    gradients(unmended(WRONG, "audit_off").f, *inputs_of(WRONG))
    assert not found_of("audit_off::f")
    with pytest.raises(RuntimeError, match="expected off, background or first, but got 'of'"):
        torch_slang.audit.mode("of")


# Functions and kernels whose derivatives are right, and that an audit must leave alone: source, arguments, outcome.
INDEX = torch.tensor([3, 0, 0, 2], dtype=torch.int32)
RIGHT: dict[str, tuple[str, Callable[[], list[Any]], str]] = {
    "ties": (
        "[Differentiable] float f(float x, float y) { return max(x, y) * min(x, 0.0f) + abs(x) + clamp(y, 0, 1); }",
        lambda: [torch.zeros(50).requires_grad_(), torch.zeros(50).requires_grad_()],
        "agrees",
    ),
    "steps": (
        "[Differentiable] float f(float x) { return (x > 0 ? x * x : 3) + floor(x) + frac(x) * 2; }",
        lambda: [leaf(50)],
        "agrees",
    ),
    "the sine of a large number": (
        "[Differentiable] float f(float x, float y) { return x * tanh(8 * y) + sin(x); }",
        lambda: [leaf(50).detach().mul_(1e7).requires_grad_(), leaf(50).detach().mul_(1e7).requires_grad_()],
        "agrees",
    ),
    "singular": (
        "[Differentiable] float f(float x) { return sqrt(x) + log(x) + 1 / x; }",
        lambda: [torch.tensor([0.0, -1, 0, 2]).requires_grad_()],
        "agrees",
    ),
    "nowhere finite": (
        "[Differentiable] float f(float x) { return sqrt(-1 - x * x); }",
        lambda: [torch.full((4,), -1.0).requires_grad_()],
        "not audited",
    ),
    "constants": (
        "float g(float x) { return x * x; } [Differentiable] float f(float x) { return x * no_diff g(x) + detach(x); }",
        lambda: [leaf(50)],
        "agrees",
    ),
    "zero": ("[Differentiable] float f(float x) { return x * 0 + 1; }", lambda: [leaf(50)], "agrees"),
    "half": (
        "[Differentiable] half f(half x, float y) { return x * x * half(y); }",
        lambda: [leaf(50).half(), leaf(50)],
        "agrees",
    ),
    "bits": (
        "[Differentiable] float f(float x) { return x * x * float(1 + (no_diff asuint(x) & 0)); }",
        lambda: [leaf(50)],
        "agrees",
    ),
    "one number": (
        "[Differentiable] float f(float x) { return x * x; }",
        lambda: [torch.tensor(2.0).requires_grad_()],
        "agrees",
    ),
    "by hand": (
        """[BackwardDerivative(back)] [ForwardDerivative(ahead)] float step(float x) { return x > 0 ? 1.0f : 0.0f; }
        void back(inout DifferentialPair<float> x, float g) { x = diffPair(x.p, g); }
        DifferentialPair<float> ahead(DifferentialPair<float> x) { return diffPair(step(x.p), 2 * x.d); }
        [Differentiable] float f(float x) { return step(x) * x; }""",
        lambda: [leaf(50)],
        "not audited",
    ),
    "whole tensors": (
        """[Differentiable] float f(DiffTensorView<float> w, int i, float x) { return w[i] * x * x; }""",
        lambda: [leaf(6), torch.arange(50, dtype=torch.int32) % 6, leaf(50)],
        "agrees",
    ),
    "gathered": (
        f"""{KERNEL} f([Shape("N")] DiffTensorView<float> x, {GATHERED})
        {{ uint i = cudaGlobalIdx().x; if (i < n.size(0)) y[i] = x[n[i]] * x[n[i]]; }}""",
        lambda: [leaf(5), INDEX],
        "agrees",
    ),
    "unwritten": (
        f"""{KERNEL} f([Shape("N")] DiffTensorView<float> x, {RESULT})
        {{ uint i = cudaGlobalIdx().x; if (i < x.size(0) && i % 2 == 0) y[i] = x[i] * x[i]; }}""",
        lambda: [leaf(9)],
        "agrees",
    ),
    "reads what it stored": (
        f"""{KERNEL} f([Shape("N")] DiffTensorView<float> x, {RESULT})
        {{ uint i = cudaGlobalIdx().x; if (i < x.size(0)) {{ y[i] = x[i]; y[i] = y[i] * sin(y[i]); }} }}""",
        lambda: [leaf(9)],
        "agrees",
    ),
    "counts calls": (
        f"""{KERNEL} f([Shape("N")] DiffTensorView<float> x, [Out("1")] [Fill(0)] TensorView<int> n, {RESULT})
        {{
            uint i = cudaGlobalIdx().x;
            if (i >= x.size(0)) return;
            int old;
            n.InterlockedAdd(0u, 1, old);
            y[i] = x[i] * 3;
        }}""",
        lambda: [leaf(9)],
        "agrees",
    ),
    "replicas": (
        f"""{KERNEL} f([Shape("N")] DiffTensorViewR<float, 4> x, {GATHERED})
        {{ uint i = cudaGlobalIdx().x; if (i < n.size(0)) y[i] = x[n[i]] * x[n[i]]; }}""",
        lambda: [leaf(5), INDEX],
        "agrees",
    ),
    "records": (
        f"""{KERNEL} f([Shape("N")] DiffTensorViewASR<float, 4> x, {GATHERED})
        {{ uint i = cudaGlobalIdx().x; if (i < n.size(0)) y[i] = x[n[i]] * x[n[i]] + x[0]; }}""",
        lambda: [leaf(5), INDEX],
        "agrees",
    ),
    "atomics in any order": (
        f"""{KERNEL} f([Shape("N")] DiffTensorView<float> x, {GATHERED})
        {{ uint i = cudaGlobalIdx().x; if (i < n.size(0)) y[i] = x[n[i]] * x[n[i]]; }}""",
        lambda: [leaf(5), torch.arange(1 << 18, dtype=torch.int32) % 5],
        "agrees",
    ),
    "many terms in float32": (  # a million, as the bits of a float have no float64
        f"""{KERNEL} f([Shape("N")] DiffTensorView<float> x, {GATHERED})
        {{
            uint i = cudaGlobalIdx().x;
            if (i >= n.size(0)) return;
            y[i] = x[n[i]] * x[n[i]] * float(1 + (no_diff asuint(x[n[i]]) & 0)) + 1000;
        }}""",
        lambda: [leaf(5), torch.arange(1 << 20, dtype=torch.int32) % 5],
        "agrees",
    ),
    "writes integers": (
        f"""{KERNEL} f([Shape("N")] DiffTensorView<float> x, [Out("N")] TensorView<int> n, {RESULT})
        {{
            uint i = cudaGlobalIdx().x;
            if (i >= x.size(0)) return;
            n[i] = x[i] > 0 ? 2 : 3;
            y[i] = x[i] * x[i] * n[i];
        }}""",
        lambda: [leaf(50)],
        "agrees",
    ),
    "comparisons and infinities": (
        """[Differentiable] float f(float x, float y)
        { return x < y ? x / y : (x > 1e30 ? x : y * y) + (isnan(x) ? 0.0f : exp(x)); }""",
        lambda: [torch.tensor([0.0, float("inf"), float("nan"), 200, 1, -3]).requires_grad_(), leaf(6)],
        "agrees",
    ),
    "always 0": (  # but for rounding, which differs in the two derivatives
        """[Differentiable] double f(double3 v, int k)
        {
            v = (v[k % 3] - v.y) - v;
            return v.x * v.y - v.y * v.x + (v.x - v.y) * (v.x - v.y) - v.x * v.x + v.x * v.y + v.y * v.x - v.y * v.y;
        }""",
        lambda: [leaf(200, 3, dtype=torch.float64), torch.arange(200, dtype=torch.int32)],
        "agrees",
    ),
    "bfloat16": (
        f"""{KERNEL} f([Shape("N")] DiffTensorView<BFloat16> x, [Out("N")] DiffTensorView<float> y)
        {{ uint i = cudaGlobalIdx().x; if (i < x.size(0)) y[i] = x[i].toFloat() * x[i].toFloat(); }}""",
        lambda: [leaf(50).detach().bfloat16().requires_grad_()],
        "not audited",
    ),
    "a value": (
        f"""{KERNEL} f([Shape("N")] DiffTensorView<float> x, float s, {RESULT})
        {{ uint i = cudaGlobalIdx().x; if (i < x.size(0)) y[i] = x[i] * s * s; }}""",
        lambda: [leaf(9), torch.tensor(2.0).requires_grad_()],
        "agrees",
    ),
    "large": (
        f"""{KERNEL} f([Shape("B, N")] DiffTensorView<float2> x, [Shape("2 * N")] TensorView<int> n,
            [Out("B, N")] DiffTensorView<float> y)
        {{
            uint i = cudaGlobalIdx().x;
            if (i >= y.size(0) * y.size(1)) return;
            uint2 at = uint2(i / y.size(1), i % y.size(1));
            float2 a = x[at], b = x[at.x, n[2 * at.y]];
            y[at] = a.x * b.y;
        }}""".replace("[CudaKernel]", '[CudaKernel] [LaunchTotal("B * N")]'),
        lambda: [leaf(3, 1 << 20, 2), torch.arange(1 << 21, dtype=torch.int32).flip(0) // 2],
        "agrees",
    ),
    "a large whole tensor": (
        """[Differentiable] float f(DiffTensorView<float> w, int i, float x) { return w[i, 1] * x * x; }""",
        lambda: [leaf(1 << 22, 2), torch.arange(1 << 22, dtype=torch.int32), leaf(1 << 22)],
        "agrees",
    ),
    "too large": (
        f"""{KERNEL} f([Shape("1 << 23")] DiffTensorView<float> x, {RESULT.replace("N", "1 << 23")})
        {{ uint i = cudaGlobalIdx().x; if (i < x.size(0)) y[i] = x[i] * x[i]; }}""".replace("1 << 23", str(1 << 23)),
        lambda: [torch.zeros(1 << 23).requires_grad_()],
        "not audited",
    ),
    "an index beyond a part": (
        f"""{KERNEL} f([Shape("N")] DiffTensorView<float> x, {RESULT})
        {{
            uint i = cudaGlobalIdx().x;
            if (i < x.size(0)) y[i] = x[i] * x[x.size(0) % {1 << 23} < 99 ? i : {1 << 23}];
        }}""",
        lambda: [torch.ones(1 << 23).requires_grad_()],
        "not audited",
    ),
}


@some_cases(6)
@pytest.mark.parametrize("name", RIGHT)
def test_no_alarm(name: str) -> None:
    source, arguments, outcome = RIGHT[name]
    namespace = f"audit_{name.replace(' ', '_')}"
    module = torch_slang.load(source=source, namespace=namespace)
    gradients(module.f, *arguments())
    found = found_of(f"{namespace}::f")[1]
    assert found.outcome == outcome, found


def test_a_second_derivative_of_constants_is_no_alarm(capfd: pytest.CaptureFixture[str]) -> None:
    source = """
    double g(double x) { return x * x; }
    [Differentiable] double f(double x) { return x * x * no_diff g(x); }
    [Differentiable] double h(double x) { return x * x + 0 * no_diff g(x); }
    """
    module = torch_slang.load(source=source, namespace="audit_second_constants")
    gradients(module.f, leaf(50, dtype=torch.float64), order=2)
    gradients(module.h, leaf(50, dtype=torch.float64), order=2)
    assert [found_of("audit_second_constants::f")[order].outcome for order in (1, 2)] == ["agrees", "differs"]
    assert [found_of("audit_second_constants::h")[order].outcome for order in (1, 2)] == ["agrees", "agrees"]
    assert "constants (no_diff, detach) may be the reason" in capfd.readouterr().err


def test_the_first_call_of_which_a_part_can_be_taken_is_audited() -> None:
    source, arguments, _ = RIGHT["an index beyond a part"]
    module = torch_slang.load(source=source, namespace="audit_small_later")
    gradients(module.f, *arguments())
    assert "its run for the audit failed" in str(module.explain("f"))
    gradients(module.f, leaf(9))
    assert found_of("audit_small_later::f")[1].outcome == "agrees"
