"""Backward operators: masks, memory, versions, and what autograd does around them."""

import itertools
import weakref

import pytest
import torch
from cases import BY_NAME, kernels
from long_tests import sampled, some_cases, some_tests

from torch_slang import testing

pytestmark = some_tests(4)

SIZE = 5000  # elements; nothing else in a call allocates as much


def along_backward() -> torch._ops.OpOverload:
    assert BY_NAME["along"].op is not None  # loaded
    return torch.ops.test_vectors.along_backward.default


def large_allocations(call, device: torch.device) -> int:
    """How many times the call allocates memory for SIZE doubles or more."""
    call()  # what is compiled or cached is not of interest
    if device.type == "cuda":
        before = torch.cuda.memory_stats()["allocation.all.allocated"]
        call()
        return torch.cuda.memory_stats()["allocation.all.allocated"] - before
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        call()
    return sum(
        event.name() == "[memory]" and event.nbytes() >= 8 * SIZE for event in profile.profiler.kineto_results.events()
    )


@some_cases(4)
@pytest.mark.parametrize("mask", list(itertools.product([False, True], repeat=3)))
def test_unwanted_gradients_have_no_memory(mask: tuple[bool, ...], device: torch.device) -> None:
    backward = along_backward()
    grad, x, slope, start = (torch.randn(SIZE, dtype=torch.float64, device=device) for _ in range(4))
    expected = (grad * slope, grad * x, grad * 2 * start)
    results = backward(grad, x, slope, start, mask)
    for wanted, result, value in zip(mask, results, expected, strict=True):
        assert (result is not None) == wanted
        if wanted:
            torch.testing.assert_close(result, value)
    # None for the output's gradient, which is only read: each thread has an element of its own.
    assert large_allocations(lambda: backward(grad, x, slope, start, mask), device) == sum(mask)


def test_autograd_masks_what_nobody_asks_for(device: torch.device) -> None:
    op = BY_NAME["along"].op
    x, slope, start = (torch.randn(SIZE, dtype=torch.float64, device=device) for _ in range(3))
    y = op(x, slope.requires_grad_(), start)
    grad = torch.ones_like(y)

    def backward() -> None:
        torch.autograd.grad(y, slope, grad, retain_graph=True)

    assert large_allocations(backward, device) == 1


def test_backward_op_leaves_its_arguments_alone(device: torch.device) -> None:
    arguments = [torch.randn(6, dtype=torch.float64, device=device) for _ in range(4)]
    before = [(tensor.clone(), tensor._version) for tensor in arguments]
    along_backward()(*arguments, [True] * 3)
    for tensor, (values, version) in zip(arguments, before, strict=True):
        assert torch.equal(tensor, values)
        assert tensor._version == version


# Backward operators take views and values, and give several gradients: `parts` and `place` have it all.
@pytest.mark.parametrize(
    "name", sampled(["along", "polar", "parts", "gather", "place"], lambda name: name in ("parts", "place"))
)
def test_backward_op_is_a_proper_operator(name: str, device: torch.device) -> None:
    case = BY_NAME[name]
    backward = getattr(getattr(torch.ops, f"test_{case.file}"), f"{name}_backward").default if case.op else None
    inputs = [v.detach() if isinstance(v, torch.Tensor) else v for v in case.args(device)]
    with torch.no_grad():
        outputs = case.op(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    grads = [torch.randn_like(y) for y in outputs if y.is_floating_point()]
    wanted = sum(isinstance(v, torch.Tensor) and v.requires_grad for v in case.args())
    testing.check(backward, [*grads, *inputs, [True] * wanted], empty=name != "gather", order=1)


def test_backward_op_names_a_wrong_mask() -> None:
    x = torch.ones(3, dtype=torch.float64)
    with pytest.raises(RuntimeError, match=r"along_backward: expected mask to have 3 elements.*but got 2"):
        along_backward()(x, x, x, x, [True, True])


def test_backward_op_names_a_gradient_of_the_wrong_shape() -> None:
    x = torch.ones(3, dtype=torch.float64)
    with pytest.raises(RuntimeError, match=r"expected grad_y to have the output's shape \[3\], but got \[4\]"):
        along_backward()(torch.ones(4, dtype=torch.float64), x, x, x, [True] * 3)


def test_saved_tensors_pass_through_hooks(device: torch.device) -> None:
    case = BY_NAME["polar"]
    radius, angle = case.args(device)
    packed, unpacked = [], []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append(tensor)
        return tensor.detach().cpu()

    def unpack(tensor: torch.Tensor) -> torch.Tensor:
        unpacked.append(tensor)
        return tensor.to(device)

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        x, y = case.op(radius, angle)
    grads = torch.autograd.grad(x.sum() + 2 * y.sum(), [radius, angle])
    assert len(packed) == len(unpacked) == 2
    x, y = case.reference(radius, angle)
    torch.testing.assert_close(grads, torch.autograd.grad(x.sum() + 2 * y.sum(), [radius, angle]))


def test_inputs_that_the_backward_ignores_are_not_kept_alive(device: torch.device) -> None:
    op = BY_NAME["total"].op
    x, z = BY_NAME["total"].args(device)
    op(x, z).sum().backward()  # compiles the backward, which shows what it looks at
    kept, unused = x * 1, x * 2
    reference = weakref.ref(unused)
    y = op(unused, kept)
    del unused
    assert reference() is None
    torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], torch.full_like(x, 4))


def test_inputs_changed_in_place_are_noticed(device: torch.device) -> None:
    x = torch.randn(4, device=device, requires_grad=True)
    inner = x * 1
    y = torch.ops.slang.sqr(inner)
    inner.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_results_may_be_changed_in_place(device: torch.device) -> None:
    x = torch.randn(4, device=device, requires_grad=True)
    y = torch.ops.slang.sqr(x)
    y.mul_(3)
    y.sum().backward()
    torch.testing.assert_close(x.grad, 6 * x.detach())


def test_graph_is_retained_on_request_only(device: torch.device) -> None:
    x = torch.randn(4, device=device, requires_grad=True)
    y = torch.ops.slang.sqr(x).sum()
    (first,) = torch.autograd.grad(y, x, retain_graph=True)
    (second,) = torch.autograd.grad(y, x)
    assert torch.equal(first, second)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        torch.autograd.grad(y, x)


def test_a_gradient_has_a_gradient(device: torch.device) -> None:
    x = torch.randn(4, device=device, requires_grad=True)
    y = torch.ops.slang.sqr(x).sum()
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    torch.testing.assert_close(first, 2 * x)
    (second,) = torch.autograd.grad((first * x.detach()).sum(), x)
    torch.testing.assert_close(second, 2 * x.detach())


def test_gradients_of_leaves_accumulate(device: torch.device) -> None:
    x = torch.randn(4, device=device, requires_grad=True)
    for _ in range(3):
        torch.ops.slang.sqr(x).sum().backward()
    torch.testing.assert_close(x.grad, 6 * x.detach())


@pytest.mark.filterwarnings("ignore:Anomaly Detection", "ignore:Error detected in Slang_sqr_Backward")
def test_anomaly_mode_names_the_operator(device: torch.device) -> None:
    x = torch.tensor([float("nan")], device=device, requires_grad=True)
    with torch.autograd.detect_anomaly(check_nan=True), pytest.raises(RuntimeError, match="Slang_sqr_Backward"):
        torch.ops.slang.sqr(x).sum().backward()


def test_kernel_without_derivative_refuses_what_requires_grad(device: torch.device) -> None:
    steps = kernels("plain").steps
    x = torch.randn(4, device=device, requires_grad=True)
    with pytest.raises(RuntimeError, match="::steps: x requires grad, but the kernel has no derivative"):
        steps(x)
    with torch.no_grad():
        assert torch.equal(steps(x), (x > 0).to(x.dtype))
    with torch.inference_mode():
        assert torch.equal(steps(x), (x > 0).to(x.dtype))


def test_constant_view_gets_no_gradient(device: torch.device) -> None:
    x, weight = BY_NAME["parts"].args(device)
    weight.requires_grad_()
    size, sign = BY_NAME["parts"].op(x, weight)
    assert size.requires_grad
    assert not sign.requires_grad
    size.sum().backward()
    assert weight.grad is None
    size, _ = BY_NAME["parts"].op(x.detach(), weight)
    assert not size.requires_grad


def test_value_may_be_a_number_or_stay_on_the_cpu(device: torch.device) -> None:
    place = kernels("vectors").place
    x, scale, shift, turn, fixed = BY_NAME["place"].args(device)
    expected = place(x, scale, shift, turn, fixed)
    torch.testing.assert_close(place(x, scale.item(), shift, turn, fixed), expected)
    on_cpu = scale.detach().cpu().requires_grad_()
    result = place(x, on_cpu, shift, turn, fixed)
    torch.testing.assert_close(result, expected)
    (grad,) = torch.autograd.grad(result.sum(), on_cpu)
    assert grad.device.type == "cpu"
    torch.testing.assert_close(grad, torch.autograd.grad(expected.sum(), scale)[0].cpu())


def test_struct_fields_are_given_as_a_mapping_or_a_tuple() -> None:
    along = kernels("vectors").along
    x, slope, start = BY_NAME["along"].args()
    flat = BY_NAME["along"].op(x, slope, start)
    assert torch.equal(along(x, {"start": start, "slope": slope}), flat)
    assert torch.equal(along(x, line=(slope, start)), flat)
