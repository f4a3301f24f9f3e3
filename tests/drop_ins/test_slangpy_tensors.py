"""`import slangpy;` in Slang: SlangPy's tensors and their interfaces, on torch tensors."""

from collections.abc import Callable

import pytest
import torch
from cases import kernels
from long_tests import some_cases, some_tests
from torch import Tensor

import torch_slang
from torch_slang import slangpy, testing

pytestmark = some_tests(4)


@pytest.fixture(scope="module")
def module() -> torch_slang.Module:
    return kernels("slangpy_tensors")


def places(*shape: int) -> list[Tensor]:
    return list(torch.meshgrid(*(torch.arange(n, dtype=torch.int32) for n in shape), indexing="ij"))


def test_each_index_names_the_same_element(module: torch_slang.Module, device: torch.device) -> None:
    t = torch.rand(3, 5, device=device)
    i, j = (place.to(device) for place in places(3, 5))
    backwards = torch.stack([j, i], -1)
    for result in (
        module.by_integers(i, j, t),
        module.by_array(i, j, t),
        module.by_vector(backwards, t),
        module.by_unsigned(backwards.to(torch.uint32), t),
    ):
        torch.testing.assert_close(result, 11 * t)


def test_four_dimensions_and_shapes(module: torch_slang.Module, device: torch.device) -> None:
    t = torch.rand(2, 3, 4, 5, device=device)
    at = torch.stack([place.to(device) for place in reversed(places(2, 3, 4, 5))], -1)
    assert not module.by_four(at, t).any()
    assert module.sizes(t[0]) == 345


def test_stores(module: torch_slang.Module, device: torch.device) -> None:
    t, to = torch.rand(4, device=device), torch.ones(4, device=device)
    i = torch.arange(4, device=device, dtype=torch.int32)
    torch.testing.assert_close(module.through_interface(i, t, to), t)
    torch.testing.assert_close(to, 1 + t)
    assert module.copy(i, t, to) is None
    torch.testing.assert_close(to, t)
    module.double_in_place(i, to)
    torch.testing.assert_close(to, 2 * t)
    torch.library.opcheck(module.through_interface.op, (i, t, to))


def test_strided_tensors(module: torch_slang.Module, device: torch.device) -> None:
    a, b = torch.rand(5, 3, device=device).t(), torch.rand(1, 5, device=device).expand(3, 5)
    res = torch.zeros(5, 3, device=device).t()
    module.add_tensors(a, b, res)
    torch.testing.assert_close(res, a + b)


def test_atomic_additions(module: torch_slang.Module, device: torch.device) -> None:
    v = torch.randint(64, (2001, 3), device=device) / 64.0  # whose sums are exact in any order
    sums = torch.zeros(2, 3, device=device)
    module.add_to(torch.arange(2001, device=device, dtype=torch.int32), v, sums)
    torch.testing.assert_close(sums, torch.stack([v[::2].sum(0), v[1::2].sum(0)]))


def test_structs_as_elements_and_arrays_of_tensors(module: torch_slang.Module, device: torch.device) -> None:
    particles, moved = torch.rand(4, 6, device=device), torch.zeros(4, 6, device=device)
    module.move(torch.arange(4, device=device, dtype=torch.int32), particles, 0.5, moved)
    torch.testing.assert_close(moved[:, :3], particles[:, :3] + 0.5 * particles[:, 3:])
    torch.testing.assert_close(moved[:, 3:], particles[:, 3:])
    tensors = [torch.full((2,), float(k), device=device) for k in range(3)]
    assert module.sum_of(tuple(tensors)) == 3


@some_cases(1)
@pytest.mark.parametrize(
    ("name", "arguments", "reference"),
    [
        ("squares", lambda: [torch.tensor([0, 2, 2]), torch.rand(3)], lambda i, t: t[i] ** 2),
        (
            "interfaces",
            lambda: [torch.tensor([[0, 1], [2, 1], [2, 1]]), torch.rand(2, 3, 2)],
            lambda at, t: t[at[:, 1], at[:, 0]] * t[at[:, 1], at[:, 0], :1],
        ),
        ("once", lambda: [torch.tensor([2, 0]), torch.rand(3)], lambda i, t: 3 * t[i]),
        ("uniform", lambda: [torch.arange(5), torch.rand(5), torch.rand(3)], lambda i, x, t: x * t[1]),
        ("net", lambda: [torch.tensor([0, 1, 1]), torch.rand(3), torch.rand(2, 2), torch.rand(())],
         lambda i, x, w, b: w[i, 0] * x + w[i, 1] + b),
    ],
)  # fmt: skip
def test_gradients(
    module: torch_slang.Module,
    device: torch.device,
    name: str,
    arguments: Callable[[], list[Tensor]],
    reference: Callable[..., Tensor],
) -> None:
    torch.manual_seed(0)
    values = [
        tensor.to(device).requires_grad_() if tensor.is_floating_point() else tensor.to(device, torch.int32)
        for tensor in arguments()
    ]
    op = getattr(module, name).register().forward
    testing.check(op, values, reference=reference, gradcheck_dtype=None, empty=False, rtol=1e-5, atol=1e-6, order=1)


def test_gradients_in_float64(module: torch_slang.Module, device: torch.device) -> None:
    t = torch.rand(3, dtype=torch.float64, device=device, requires_grad=True)
    i = torch.tensor([2, 0, 2], device=device, dtype=torch.int32)
    torch.autograd.gradcheck(lambda t: module.of_any_type(i, t), (t,), nondet_tol=1e-12)


@pytest.mark.parametrize("name", ["constant", "constant_interface"])
def test_tensors_without_gradients(module: torch_slang.Module, name: str) -> None:
    x = torch.rand(3, requires_grad=True)
    t = torch.rand(3)
    i = torch.arange(3, dtype=torch.int32)
    function = getattr(module, name)
    torch.testing.assert_close(torch.autograd.grad(function(i, x, t).sum(), x)[0], t)
    with pytest.raises(RuntimeError, match=r"expected t to be a constant.*declare it I?DiffTensor<float, ?1>"):
        function(i, x, t.requires_grad_())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.by_integers(0, 0, torch.zeros(3)), r"::by_integers: expected t \(Tensor<float, ?2>\) to have 2 dimensions, but got shape \[3\]"),  # noqa: E501
        (lambda m: m.add_to(0, torch.zeros(3), torch.zeros(2, 2, 3)), r"::add_to: expected sums \(AtomicTensor<vector<float,3>, ?1>\) to have 2 dimensions, its elements' included, but got shape \[2, 2, 3\]"),  # noqa: E501
        (lambda m: m.by_integers(0, 0, torch.zeros(3, 3).double()), r"expected t to have dtype float32 \(Tensor<float, ?2>\), since a tensor that is seen whole is not converted"),  # noqa: E501
    ],
)  # fmt: skip
def test_refusals(module: torch_slang.Module, call: Callable[[torch_slang.Module], object], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call(module)


REFUSED = """
import slangpy;
struct Bag { ITensor<float, 1> t; float gain; }
struct Nested { Bag bags[2]; }
float five(Tensor<float, 5> t) { return t.shape[0]; }
float five_interface(ITensor<float, 5> t) { return t.shape[0]; }
float none(RWTensor<float, 0> t) { return 0; }
float generic<let D : int>(DiffTensor<float, D> t) { return t.shape[0]; }
float in_struct(int i, Bag bag) { return bag.t[i] * bag.gain; }
float nested(int i, Nested all) { return all.bags[0].t[i]; }
float in_array(int i, IRWTensor<float, 2> all[2]) { return all[0][i, i]; }
Tensor<float, 1> returned(Tensor<float, 1> t) { return t; }
void changed(inout RWTensor<float, 1> t) { t[0] = 1; }
"""
FROM_1_TO_4 = "but the number of its dimensions must be a number from 1 to 4"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("five", rf"parameter t is a Tensor<float, ?5>, {FROM_1_TO_4}"),
        ("five_interface", rf"parameter t is a ITensor<float, ?5>, {FROM_1_TO_4}"),
        ("none", rf"parameter t is a RWTensor<float, ?0>, {FROM_1_TO_4}"),
        ("generic", rf"parameter t is a DiffTensor<float, ?D>, {FROM_1_TO_4}"),
        ("in_struct", r"parameter bag.t is a ITensor<float, ?1>, but in structs .* declare it Tensor<float, ?1>"),
        ("nested", r"parameter all.bags\[0\].t is a ITensor<float, ?1>, .* declare it Tensor<float, ?1>"),
        ("in_array", r"parameter all\[0\] is a IRWTensor<float, ?2>, .* declare it RWTensor<float, ?2>"),
        ("returned", r"its result result is a Tensor<float, ?1>, but results are values"),
        ("changed", r"its result t is a RWTensor<float, ?1>, but results are values"),
    ],
)
def test_declarations_that_are_refused(name: str, message: str) -> None:
    loaded = torch_slang.load(source=REFUSED, name="refused_tensors", namespace="refused_tensors")
    with pytest.raises(AttributeError, match=rf"{name} is not available: {message}"):
        getattr(loaded, name)


IN_STRUCTS = """
import slangpy;
struct Bag<T : __BuiltinFloatingPointType> { Tensor<T, 1> t; T gain; }
struct Weights : IDifferentiable { DiffTensor<double, 1> t; double gain; }
struct Sink { RWTensor<float, 1> to; }
static const int kRank = 1;
T scaled<T : __BuiltinFloatingPointType>(int i, Bag<T> bag) { return bag.t[i] * bag.gain; }
[Differentiable] double weighed(int i, Weights w) { return w.t[i] * w.gain; }
void sink(int i, float x, Sink s) { s.to[i] = x; }
float summed(int i, int j, Tensor<float, kRank> all[2], Tensor<float, kRank + 1> t)
{
    return all[0][i] + all[1][j] + t[i, j];
}
"""


def test_tensors_in_structs_and_arrays() -> None:
    loaded = torch_slang.load(source=IN_STRUCTS, name="tensors_in_structs", namespace="tensors_in_structs")
    i = torch.arange(4, dtype=torch.int32)
    x = torch.rand(4)
    for dtype in (torch.float32, torch.float64):
        torch.testing.assert_close(loaded.scaled(i, {"t": x.to(dtype), "gain": 2}), x.to(dtype) * 2)
    to = torch.zeros(4)
    loaded.sink(i, x, {"to": to})
    assert torch.equal(to, x)
    t = torch.rand(4, 4)
    torch.testing.assert_close(loaded.summed(*places(4, 4), [x, to * 2], t), x[:, None] + 2 * x + t)
    t = torch.rand(4, dtype=torch.float64, requires_grad=True)
    gain = torch.rand(4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t, gain: loaded.weighed(i, {"t": t, "gain": gain}), (t, gain))


STORING = """
import slangpy;
[Differentiable] void cube(int i, double x, RWDiffTensor<double, 1> y) { y[i] = x * x * x; }
[Differentiable] double both(int i, double x, IWDiffTensor<double, 1> y) { y[i] = x * x * x; return 3 * x; }
[Differentiable] void square_in_place(int i, RWDiffTensor<double, 1> y) { y[i] = y[i] * y[i]; }
[Differentiable] double constant(int i, double x, RWTensor<double, 1> y) { y[i] = x; return x * x; }
"""


def storing() -> torch_slang.Module:
    return torch_slang.load(source=STORING, name="storing", namespace="storing")


@pytest.mark.parametrize("name", ["cube", "both"])
def test_bwds_reads_the_gradient_of_what_is_stored(name: str) -> None:
    function = getattr(storing(), name)
    i = torch.tensor([0, 3, 1], dtype=torch.int32)
    x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    start = torch.rand(5, dtype=torch.float64, requires_grad=True)
    weights = torch.rand(5, dtype=torch.float64)
    y = start * 1
    returned = function(i, x, y)
    loss = (y * weights).sum() + (0 if returned is None else (returned * 2).sum())
    by_x, by_start = torch.autograd.grad(loss, [x, start])
    after = y.detach().clone()
    after.grad = weights.clone()
    given = {}
    if returned is not None:
        given["_result"] = returned.detach()
        given["_result"].grad = torch.full_like(returned, 2)
    x.grad = torch.ones_like(x)
    function.bwds(i, x, after, **given)
    torch.testing.assert_close(x.grad, by_x + 1)
    torch.testing.assert_close(after.grad, by_start)
    assert torch.equal(after, y)
    function.bwds(i, x, after, **given)  # zero where the call stores, by now
    torch.testing.assert_close(x.grad, by_x + 1 + (0 if returned is None else 6))


def test_bwds_writes_into_the_gradient_of_a_pair() -> None:
    module = slangpy.Module.load_from_source(slangpy.create_torch_device(), "storing", STORING)
    x, y = torch.full((2,), 3.0, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    by_x, by_y = torch.zeros_like(x), torch.ones_like(y)
    i = torch.arange(2, dtype=torch.int32)
    module.cube.bwds(i, slangpy.diff_pair(x, by_x), slangpy.diff_pair(y, by_y))
    assert by_x.tolist() == [27, 27]
    assert by_y.tolist() == [0, 0, 1]


def test_what_bwds_of_stores_wants() -> None:
    module = storing()
    i = torch.arange(2, dtype=torch.int32)
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    y = torch.zeros(2, dtype=torch.float64)
    with pytest.raises(RuntimeError, match=r"cube\(.*: bwds reads y.grad, which is None: set it first"):
        module.cube.bwds(i, x, y)
    y.grad = torch.ones_like(y)
    with pytest.raises(TypeError, match=r"both\(.*: bwds wants _result"):
        module.both.bwds(i, x, y)
    with pytest.raises(RuntimeError, match=r"both\(.*: bwds reads result.grad of _result, which is None"):
        module.both.bwds(i, x, y, _result=torch.zeros(2, dtype=torch.float64))
    with pytest.raises(RuntimeError, match=r"the gradient depends on what the function reads from y"):
        module.square_in_place.bwds(i, y)
    assert y.grad.tolist() == [1, 1]
    result = torch.zeros(2, dtype=torch.float64)
    result.grad = torch.ones_like(result)
    module.constant.bwds(i, x, y, _result=result)
    assert x.grad.tolist() == [2, 2]
    assert y.grad.tolist() == [1, 1]


def test_whole_tensors_beside_a_map() -> None:
    module = storing()
    i = torch.arange(3, dtype=torch.int32)
    x = torch.rand(3, dtype=torch.float64)
    y = torch.zeros(3, dtype=torch.float64)
    assert module.constant.map(i=(0,), x=(0,))(i, x, y).shape == (3,)
    assert torch.equal(y, x)
    assert module.constant.map(i=(0,), x=(1,))(i[:1], x, y).shape == (1, 3)
    with pytest.raises(TypeError, match=r"map: y \(RWTensor<double, ?1>\) has no map, since .* sees the tensor whole"):
        module.constant.map(y=(0,))


@pytest.mark.parametrize("name", ["cube", "cube_interface"])
def test_stores_have_gradients(module: torch_slang.Module, device: torch.device, name: str) -> None:
    x = torch.rand(5, device=device, requires_grad=True)
    y = torch.ones(6, device=device)
    i = torch.arange(5, device=device).to(torch.uint32)
    assert getattr(module, name)(i, x, y) is None
    assert y.requires_grad
    weights = torch.rand(6, device=device)
    (y * weights).sum().backward()
    torch.testing.assert_close(y.detach()[:5], x.detach() ** 3)
    torch.testing.assert_close(x.grad, 3 * x.detach() ** 2 * weights[:5])


def test_what_was_there_before_keeps_its_gradient_where_nothing_is_stored(
    module: torch_slang.Module, device: torch.device
) -> None:
    start = torch.rand(4, device=device, requires_grad=True)
    x = torch.rand(2, device=device, requires_grad=True)
    y = start * 2
    result = module.and_returns(torch.tensor([3, 1], device=device, dtype=torch.int32), x, y)
    by_start, by_x = torch.autograd.grad(y.sum() + result.sum(), [start, x])
    assert by_start.tolist() == [2, 0, 2, 0]
    torch.testing.assert_close(by_x, 2 * x.detach() + 3)


def test_in_place_stores(module: torch_slang.Module, device: torch.device) -> None:
    start = torch.rand(3, device=device, requires_grad=True)
    x = torch.rand(3, device=device, requires_grad=True)
    i = torch.arange(3, device=device, dtype=torch.int32)
    y = start * 2
    module.add_in_place(i, x, y)
    torch.testing.assert_close(y.detach(), 2 * start.detach() + x.detach())
    by_start, by_x = torch.autograd.grad(y.sum(), [start, x])
    assert by_start.tolist() == [2, 2, 2]
    assert by_x.tolist() == [1, 1, 1]
    y = start * 2
    module.square_in_place(i, y)
    with pytest.raises(
        RuntimeError, match=r"square_in_place_backward: the gradient depends on what the function reads from y"
    ):
        y.sum().backward()


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (lambda: torch.zeros(3, requires_grad=True), r"::cube: the function stores to y, but got a leaf of the graph"),
        (lambda: (torch.zeros(2, 3).requires_grad_() * 1)[0], r"::cube: the function stores to y, but got a view"),
    ],
)
def test_what_a_recorded_call_cannot_change(module: torch_slang.Module, y: Callable[[], Tensor], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        module.cube(torch.arange(3).to(torch.uint32), torch.rand(3, requires_grad=True), y())


def test_stores_in_a_compiled_program(module: torch_slang.Module, fresh_dynamo: None) -> None:
    def program(x: Tensor) -> Tensor:
        y = torch.zeros_like(x)
        module.cube(torch.arange(4, dtype=torch.int32).to(torch.uint32), x, y)
        return (y * x).sum()

    x = torch.rand(4, requires_grad=True)
    expected = torch.autograd.grad(program(x), x)[0]
    compiled = torch.compile(program, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(torch.autograd.grad(compiled(x), x)[0], expected)
