"""Plain functions that take tensors whole: values, gradients by every accumulation, stores, and what is refused."""

from collections.abc import Callable

import pytest
import torch
from cases import kernels
from long_tests import dear_test, some_cases, some_tests
from torch import Tensor
from torch.autograd import forward_ad

import torch_slang
from torch_slang import testing

pytestmark = some_tests(7)

WAYS = ["shade", "shade_atomic", "shade_replicas", "shade_records"]


@pytest.fixture(scope="module")
def module() -> torch_slang.Module:
    return kernels("whole_tensors")


def ids(count: int, device: torch.device | str = "cpu") -> Tensor:
    return torch.arange(count, dtype=torch.int32, device=device)


def shade(u: Tensor, texture: Tensor, shift: Tensor, gain: Tensor) -> Tensor:
    at = u + shift
    left = at.detach().floor()
    share = (at - left)[..., None]
    i = left.long()
    return gain[..., None] * (texture[i] * (1 - share) + texture[i + 1] * share)


def shade_arguments(device: torch.device, dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator().manual_seed(3)

    def random(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, dtype=torch.float64).to(device, dtype)

    # Several elements between two texels, so that gradients meet.
    u = (torch.arange(14).view(7, 2) / 3.1).to(device, dtype)
    return [u, random(9, 3), random(7, 1) / 5, random(2)]


@dear_test
@some_cases(1)
@pytest.mark.parametrize("way", WAYS)
def test_operator_is_as_any_other(module: torch_slang.Module, device: torch.device, way: str) -> None:
    function = getattr(module, way)
    arguments = [tensor.requires_grad_() for tensor in shade_arguments(device, torch.float64)]
    u, texture, shift, gain = arguments
    flat = function.flatten(u, texture, {"shift": shift, "gain": gain})
    testing.check(function.op, list(flat.values()), reference=shade, nondet_tol=1e-12, empty=False, order=1)


@some_cases(2)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("way", WAYS)
def test_gradients_have_the_tensors_type(
    module: torch_slang.Module, device: torch.device, way: str, dtype: torch.dtype
) -> None:
    arguments = [tensor.requires_grad_() for tensor in shade_arguments(device, dtype)]
    wide = [tensor.detach().double().requires_grad_() for tensor in arguments]
    u, texture, shift, gain = arguments
    results = [getattr(module, way)(u, texture, {"shift": shift, "gain": gain}), shade(*wide)]
    grad = torch.rand(results[1].shape, dtype=torch.float64).to(device)
    gradients = torch.autograd.grad(results[0], arguments, grad.to(dtype))
    expected = torch.autograd.grad(results[1], wide, grad)
    tolerance = 2e-2 if dtype == torch.float16 else 1e-5
    torch.testing.assert_close(results[0].double(), results[1], rtol=tolerance, atol=tolerance)
    for one, other in zip(gradients, expected, strict=True):
        assert one.dtype == dtype
        torch.testing.assert_close(one.double(), other, rtol=tolerance, atol=tolerance)


@dear_test
@some_cases(1)
@pytest.mark.parametrize(
    ("name", "arguments", "reference"),
    [
        ("sums", lambda: [torch.rand(6, 5), torch.rand(3)], lambda x, w: x * w[0] + w[1] * w[2]),
        (
            "lit",
            lambda: [torch.arange(4), torch.rand(3, 1), torch.rand(5, 2), torch.rand(5), torch.rand(4)],
            lambda i, x, albedo, table, offset: albedo[i] * (x * table[i] + offset.detach())[..., None],
        ),
        ("together", lambda: [torch.rand(7), torch.rand(3)], lambda x, w: x * w[1]),
        ("pair", lambda: [torch.arange(3).repeat(4), torch.rand(3), torch.rand(4)], lambda i, a, b: a[i] * b[i + 1]),
        (
            "square_at",
            lambda: [torch.arange(3)[:, None], torch.arange(4), torch.rand(3, 4)],
            lambda i, j, m: m[i, j] ** 2,
        ),
        ("row", lambda: [torch.tensor([0, 2, 2]), torch.rand(3, 4)], lambda i, rows: rows[i]),
    ],
)
def test_forms(
    module: torch_slang.Module,
    device: torch.device,
    name: str,
    arguments: Callable[[], list[Tensor]],
    reference: Callable[..., Tensor],
) -> None:
    torch.manual_seed(0)
    without = {"lit": [3, 4]}.get(
        name, []
    )  # the table is a TensorView, the offset in a struct that is no IDifferentiable
    values = []
    for number, tensor in enumerate(arguments()):
        value = tensor.to(device, torch.float64 if tensor.is_floating_point() else torch.int32)
        values.append(value.requires_grad_(value.is_floating_point() and number not in without))
    function = getattr(module, name)
    op = function.register().forward
    testing.check(op, values, reference=reference, nondet_tol=1e-12, empty=False, order=1)


def test_views_of_one_tensor_share_its_gradient(module: torch_slang.Module, device: torch.device) -> None:
    w = torch.rand(5, dtype=torch.float64, device=device, requires_grad=True)
    i = ids(4, device)
    module.pair(i, w, w).sum().backward()
    expected = torch.autograd.grad((w[i] * w[i + 1]).sum(), w)[0]
    torch.testing.assert_close(w.grad, expected)


def test_no_diff_view_has_no_gradient(module: torch_slang.Module, device: torch.device) -> None:
    w, x, v = (torch.rand(3, device=device) for _ in range(3))
    i = ids(3, device)
    result = module.constant(i, x.requires_grad_(), w.requires_grad_(), v)
    by_x, by_w = torch.autograd.grad(result.sum(), [x, w], allow_unused=True)
    torch.testing.assert_close(by_x, (w * v).detach())
    assert by_w is None


def test_tensors_alone_are_one_element(module: torch_slang.Module, device: torch.device) -> None:
    result = module.area(torch.zeros(4, 7, device=device))
    assert result.shape == ()
    assert result == 28
    assert result.device.type == device.type


def test_calls_of_no_elements_have_zero_gradients(module: torch_slang.Module, device: torch.device) -> None:
    w = torch.rand(3, device=device, requires_grad=True)
    module.sums(torch.rand(0, 4, device=device), w).sum().backward()
    assert w.grad is not None
    assert not w.grad.any()


def test_integers_of_every_width(module: torch_slang.Module, device: torch.device) -> None:
    table = torch.tensor([1, 2**40, -3], device=device)
    assert module.lookup(torch.tensor([2, 1], device=device, dtype=torch.int32), table).tolist() == [-3, 2**40]


def test_stores_change_the_tensor(module: torch_slang.Module, device: torch.device) -> None:
    to = torch.zeros(5, device=device)
    version = to._version
    x = torch.tensor([1.0, 2.0, 3.0], device=device)
    i = torch.tensor([4, 0, 2], device=device, dtype=torch.int32)
    result = module.scatter(i, x, to)
    assert to.tolist() == [4, 0, 6, 0, 2]
    assert result.tolist() == [2, 3, 4]
    assert to._version > version
    assert "Tensor(a0!) to" in str(module.scatter.op._schema)
    torch.library.opcheck(module.scatter.op, (i, x, to))


def test_stores_to_strided_and_misaligned_memory(module: torch_slang.Module, device: torch.device) -> None:
    base = torch.zeros(12, device=device)
    to = base[1::3]
    module.fill(ids(4, device), to, torch.arange(4.0, device=device))
    assert to.tolist() == [1, 2, 3, 4]
    assert base.sum() == 10


def test_function_without_results(module: torch_slang.Module, device: torch.device) -> None:
    bins = torch.zeros(3, dtype=torch.int32, device=device)
    i = ids(3001, device) % 3
    assert module.count(i, bins) is None
    assert bins.tolist() == [1001, 1000, 1000]
    torch.library.opcheck(module.count.op, (i, bins))


def test_in_place(module: torch_slang.Module, device: torch.device) -> None:
    values = torch.arange(5000.0, device=device)
    module.fill(ids(5000, device), values, values)
    torch.testing.assert_close(values, torch.arange(5000.0, device=device) + 1)


def test_stores_are_not_repeated_in_the_backward(module: torch_slang.Module, device: torch.device) -> None:
    x = torch.tensor([2.0, 3.0], device=device, requires_grad=True)
    to = torch.zeros(2, device=device)
    result = module.logged(ids(2, device), x, to)
    assert to.tolist() == [2, 3]
    to.zero_()
    result.sum().backward()
    assert to.tolist() == [0, 0]
    torch.testing.assert_close(x.grad, 2 * x.detach())


def test_compiled(module: torch_slang.Module, fresh_dynamo: None) -> None:
    def program(u: Tensor, texture: Tensor, to: Tensor) -> Tensor:
        module.fill(ids(3), to, to)
        return module.shade(u, texture, {"shift": 0.25, "gain": 2.0}).square().sum() + to.sum()

    u = torch.rand(6, requires_grad=True)
    texture = torch.rand(4, 3, requires_grad=True)
    outcomes = []
    for function in (program, torch.compile(program, fullgraph=True, dynamic=True, backend="aot_eager")):
        to = torch.zeros(3)
        value = function(u, texture, to)
        outcomes.append([value, to, *torch.autograd.grad(value, [u, texture])])
    for one, other in zip(*outcomes, strict=True):
        torch.testing.assert_close(one, other)


def test_deterministic_mode(module: torch_slang.Module, poisoned_memory: None) -> None:
    u, texture, shift, gain = shade_arguments(torch.device("cpu"), torch.float32)
    torch.use_deterministic_algorithms(True)
    texture.requires_grad_()
    result = module.shade(u, texture, {"shift": shift, "gain": gain}).sum()
    with pytest.raises(RuntimeError, match=r"::shade_backward.*the gradient of texture is added up atomically"):
        result.backward()
    module.shade_records(u, texture, {"shift": shift, "gain": gain}).sum().backward()
    expected = torch.autograd.grad(shade(u, texture, shift, gain).sum(), texture)[0]
    torch.testing.assert_close(texture.grad, expected)


def test_explain_says_how_gradients_are_gathered(module: torch_slang.Module) -> None:
    u, texture, shift, gain = shade_arguments(torch.device("cpu"), torch.float32)
    module.shade_replicas(u, texture.requires_grad_(), {"shift": shift, "gain": gain}).sum().backward()
    assert "replicas" in str(module.explain("shade_replicas"))


def test_index_out_of_bounds_is_an_error(module: torch_slang.Module) -> None:
    with pytest.raises(IndexError, match=r"::lookup: table\[3\]: index 3 is outside dimension 0.*whole_tensors.slang:"):
        module.lookup(ids(4), torch.zeros(3, dtype=torch.int64))
    with pytest.raises(IndexError, match=r"table\[-1\]"):
        module.lookup(torch.tensor([-1], dtype=torch.int32), torch.zeros(3, dtype=torch.int64))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.lookup(0, torch.zeros(3)), r"::lookup: expected table to have dtype int64 \(TensorView<int64_t>\), since a tensor that is seen whole is not converted, but got float32; .*table.to\(torch.int64\)"),  # noqa: E501
        (lambda m: m.pair(0, torch.zeros(2), torch.zeros(2).double()), r"::pair: expected b to have dtype float32 \(DiffTensorView<T>\)"),  # noqa: E501
        (lambda m: m.shade(torch.zeros(2), torch.zeros(4, 2), {"shift": 0, "gain": 1}), r"::shade: expected the shape of texture \(DiffTensorView<vector<T,3>>\) to end in \[3\], but got \[4, 2\]"),  # noqa: E501
        (lambda m: m.shade(torch.zeros(2), torch.zeros(4, 3), {"shift": 0}), r"camera \(Camera<T>\) lacks field gain"),
        (lambda m: m.shade(torch.zeros(2), torch.zeros(4, 3), {"shift": 0, "gain": 1, "more": 2}), r"more"),
        (lambda m: m.lookup(0, 3), r"expected table \(TensorView<int64_t>\) to be a tensor, which the function sees whole, but got 3"),  # noqa: E501
        (lambda m: m.lookup(0, torch.zeros(1, 1, 1, 1, 1, 1, dtype=torch.int64)), r"table has 6 dimensions, but kernels see at most 5"),  # noqa: E501
        (lambda m: m.lookup(ids(2), torch.zeros(3, dtype=torch.int64, device="meta")), r"::lookup: expected all tensors to be on the same device"),  # noqa: E501
        (lambda m: m.scatter(0, 1.0, torch.zeros(1).expand(4)), r"::scatter: expected to, which the function stores to, to have memory of its own"),  # noqa: E501
        (lambda m: m.scatter(0, 1.0, torch.zeros(4, requires_grad=True)), r"::scatter: the function stores to to, a TensorView<float>, which has no derivative, but got a tensor that requires grad"),  # noqa: E501
        (lambda m: m.fill(0, torch.zeros(4), torch.zeros(4, requires_grad=True)), r"::fill: source requires grad, but the function returns nothing that could have a gradient"),  # noqa: E501
        (lambda m: m.constant(0, torch.ones(1), torch.ones(1), torch.ones(1, requires_grad=True)), r"::constant: expected v to be a constant, since it is a TensorView<T>, which has no gradient, .*declare it DiffTensorView<T>, or detach"),  # noqa: E501
        (lambda m: m.read_back(0, torch.ones(1, requires_grad=True), torch.zeros(1)).backward(), r"::read_back_backward: the gradient depends on what the function reads from to"),  # noqa: E501
        (lambda m: m.stores(0, torch.zeros(1)), r"::stores: the function stores to to, a DiffTensorView<float>, but its differentiable results are what it returns"),  # noqa: E501
        (lambda m: m.nothing(0, torch.zeros(1)), r"it gives nothing: it returns void, has no out parameters and stores to no tensor"),  # noqa: E501
    ],
)  # fmt: skip
def test_refusals(module: torch_slang.Module, call: Callable[[torch_slang.Module], object], message: str) -> None:
    with pytest.raises((RuntimeError, TypeError, AttributeError), match=message):
        call(module)


def test_forward_mode_and_second_derivatives_are_refused(module: torch_slang.Module) -> None:
    u, texture, shift, gain = shade_arguments(torch.device("cpu"), torch.float64)
    camera = {"shift": shift, "gain": gain}
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(texture, torch.ones_like(texture))
        with pytest.raises(NotImplementedError, match=r"::shade: texture has a tangent, but functions that see"):
            module.shade(u, dual, camera)
    texture.requires_grad_()
    (gradient,) = torch.autograd.grad(module.shade(u, texture, camera).sum(), texture, create_graph=True)
    with pytest.raises(RuntimeError, match=r"::shade_backward: functions that see tensors whole have no second deriv"):
        gradient.sum().backward()


def test_in_is_never_written(module: torch_slang.Module) -> None:
    assert "!" not in str(module.declared.op._schema if module.declared(0, torch.ones(2)) == 1 else "")


def test_debug_mode_finds_broken_promises() -> None:
    source = """
    [Differentiable] float once(int i, DiffTensorView<float> w) { return w.loadOnce(uint(i)); }
    """
    debugged = torch_slang.load(source=source, name="whole_promises", namespace="whole_promises", debug=True)
    w = torch.ones(3, requires_grad=True)
    debugged.once(ids(3), w).sum().backward()
    with pytest.raises(RuntimeError, match=r"w\[0\].*promised"):
        debugged.once(ids(3) // 2, w).sum().backward()


def test_more_elements_than_one_block(module: torch_slang.Module, device: torch.device) -> None:
    count = 100_003
    w = torch.rand(97, dtype=torch.float64, device=device, requires_grad=True)
    i = ids(count, device) % 96
    grad = torch.rand(count, dtype=torch.float64, device=device)
    ours = torch.autograd.grad(module.pair(i, w, w), w, grad)[0]
    theirs = torch.autograd.grad(w[i] * w[i + 1], w, grad)[0]
    torch.testing.assert_close(ours, theirs)
