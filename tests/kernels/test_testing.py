"""torch_slang.testing.check finds the faults that it claims to find, each planted in an operator right otherwise."""

import pytest
import torch
from long_tests import dear_test, some_tests
from torch.autograd.gradcheck import GradcheckError

import torch_slang
from torch_slang import testing
from torch_slang._descriptor import describe
from torch_slang._module import members_of
from torch_slang.checks.arguments import draw_arguments

pytestmark = some_tests(4)

Tensor = torch.Tensor


def as_if_contiguous(tensor: Tensor) -> Tensor:
    """What an operator sees that never looks at strides."""
    if tensor.is_meta:
        return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
    strides = torch.empty(tensor.shape, device="meta").stride()
    beyond = sum((size - 1) * stride for size, stride in zip(tensor.shape, strides, strict=True))
    room = torch.zeros(tensor.storage_offset() + beyond + 1, dtype=tensor.dtype)
    stored = tensor.detach().as_strided((tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,), 0)
    room[: stored.numel()] = stored[: room.numel()]
    return room.as_strided(tensor.shape, strides, tensor.storage_offset()).clone()


def product_and_sum(fault: str) -> torch._ops.OpOverload:
    """a * b and a + b, with one fault."""

    @torch.library.custom_op(f"test_testing::{fault}", mutates_args=())
    def op(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        if fault == "changes_argument":
            a.data[0] = 0
        if fault == "refuses_empty" and a.numel() == 0:
            raise RuntimeError("no elements")
        if fault == "ignores_strides":
            a = as_if_contiguous(a)
        product = a * b
        if fault == "shuffles_strides":
            product = product.t().contiguous().t()
        return product * (2 if fault == "wrong_value" else 1), a + b

    @op.register_fake
    def _(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return torch.empty(a.shape, dtype=a.dtype, device=a.device), torch.empty_like(a)

    def setup(ctx, inputs, output) -> None:
        ctx.save_for_backward(*inputs)
        ctx.set_materialize_grads(False)

    def backward(ctx, grad_product: Tensor | None, grad_sum: Tensor | None) -> tuple[Tensor | None, ...]:
        a, b = ctx.saved_tensors
        if grad_sum is None:
            grad_sum = torch.full_like(a, 1.0 if fault == "undefined_is_one" else 0.0)
        if grad_product is None:
            grad_product = torch.zeros_like(a)
        if fault == "changes_gradient":
            grad_product.data.mul_(2)
        if fault == "ignores_strides_of_gradients":
            grad_product = as_if_contiguous(grad_product)
        grad_a = grad_product * b + grad_sum
        if fault == "wrong_gradient":
            grad_a = grad_a + a * grad_product
        if fault == "needs_both" and not all(ctx.needs_input_grad):
            grad_a = torch.zeros_like(grad_a)
        return grad_a, grad_product * a + grad_sum

    op.register_autograd(backward, setup_context=setup)
    return op._opoverload


def arguments() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(2, 3, dtype=torch.float64, generator=generator).requires_grad_() for _ in range(2)]


def reference(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    return a * b, a + b


def test_right_operator_passes() -> None:
    testing.check(product_and_sum("none"), arguments(), reference=reference)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("wrong_value", "differs from the reference: result or gradient 0"),
        ("changes_argument", r"changes a\b"),
        ("changes_gradient", "changes gradient of result 0"),
        ("ignores_strides", "depends on the layout: strided a"),
        ("shuffles_strides", "on the meta device, results and gradients are foretold as"),
        ("refuses_empty", "no elements"),
        ("ignores_strides_of_gradients", "depends on the layout of output gradients: strided"),
        ("needs_both", "where only a require grad"),
        ("undefined_is_one", r"where only results \(0,\) have a gradient"),
    ],
)
def test_fault_is_found(fault: str, message: str) -> None:
    given = reference if fault == "wrong_value" else None
    with pytest.raises((AssertionError, RuntimeError), match=message):
        testing.check(product_and_sum(fault), arguments(), reference=given)


def test_wrong_gradient_is_found_with_and_without_a_reference() -> None:
    op = product_and_sum("wrong_gradient")
    with pytest.raises(AssertionError, match="differs from the reference: result or gradient 2"):
        testing.check(op, arguments(), reference=reference)
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        testing.check(op, arguments())


def test_wrong_call_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"arguments missing: \['x'\], unknown: \['z'\]"):
        testing.check(torch.ops.slang.sqr, (), {"z": torch.ones(2)})
    with pytest.raises(TypeError, match="takes 1 arguments, but got 2"):
        testing.check(torch.ops.slang.sqr, (1, 2))


MODULE = """
import torch_slang;
[Differentiable] double wave(double a, double b) { return sin(a) * b; }
[BackwardDerivative(cubed_bwd)] double cubed(double a) { return a * a * a; }
void cubed_bwd(inout DifferentialPair<double> a, double d) { a = diffPair(a.p, 3 * a.p * a.p * d); }
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void rows<T : IFloat>([Shape("N, M")] DiffTensorView<T> x, [Shape("N")] TensorView<int64_t> index,
                      [Shape("2 * M")] DiffTensorView<T> s, [Out("N, M")] DiffTensorView<T> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= y.size(0)) return;
    [MaxIters(8)] for (uint k = 0; k < y.size(1); ++k) y[i, k] = x[uint(index[i]), k] * x[i, k] * s[k];
}
[PyBindCUDA(Auto)] [CudaKernel]
void anything(TensorView<float> x, [Out("1")] TensorView<float> y) { y[0] = x[0]; }
"""


@dear_test
def test_a_module_is_checked_and_the_report_says_what_is_refused() -> None:
    module = torch_slang.load(source=MODULE, name="checked.slang", namespace="test_testing_module")
    with pytest.raises(TypeError, match="draw their arguments"):
        testing.check(module, (torch.ones(2),))
    report = testing.check(module, nondet_tol=1e-12, empty=False)
    assert not report.failed
    refused = {(finding.op, finding.check): finding.reason for finding in report.refused}
    assert "x has no Shape" in refused.pop(("test_testing_module.anything", "arguments"))
    twice = refused.pop(("test_testing_module.cubed.default", "double backward"))
    assert "needs a forward derivative of the function too" in twice
    assert {check for _, check in refused} <= {"forward mode", "batched gradients", "batched tangents"}
    passed = {(finding.op.split(".")[1], finding.check) for finding in report.passed}
    for check in ("backward", "double backward", "forward mode", "batched gradients", "batched tangents", "vmap"):
        assert {("wave", check), ("rows", check)} <= passed
    assert "refused double backward: " in str(report)


def test_arguments_are_drawn_with_leading_dimensions() -> None:
    source = """
[PyBindCUDA(Auto)] [CudaKernel]
void led([Shape("..., N")] TensorView<float2> x, [Shape("...")] TensorView<float> s, [Out("...")] TensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < y.size(0)) y[i] = x[i, 0].x * s[i];
}
"""
    module = torch_slang.load(source=source, name="led.slang", namespace="test_testing_led")
    x, s = draw_arguments(describe(members_of(module).handle, "led"), "cpu")
    assert x.shape == (*s.shape, 3, 2)
    assert module.led(x, s).shape == s.shape == (2, 3)


def test_all_checks_run_and_the_error_has_the_report() -> None:
    with pytest.raises(AssertionError) as caught:
        testing.check(product_and_sum("wrong_value"), arguments(), reference=reference)
    (report,) = caught.value.__notes__
    assert "failed  the reference's results and gradients: " in report
    assert "passed  layouts of arguments" in report


@pytest.mark.parametrize("mode", ["background", "off"])
def test_derivatives_are_audited_unless_audits_are_off(mode: str) -> None:
    source = "[Differentiable] double mixed(double a, double b) { return sin(a) * b * b; }"
    module = torch_slang.load(source=source, namespace=f"test_testing_audit_{mode}")
    before = torch_slang.audit.mode(mode)
    try:
        report = testing.check(module)
        assert torch_slang.audit.mode() == mode
    finally:
        torch_slang.audit.mode(before)
    assert not report.failed
    assert [one.outcome for one in report.audits[f"{module.namespace}.mixed.default"]] == (
        [] if mode == "off" else ["agrees", "agrees"]
    )
    assert ("backward audited: agrees with the forward derivative" in str(report)) == (mode != "off")
