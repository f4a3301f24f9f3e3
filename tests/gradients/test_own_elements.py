"""Gradients of a thread's own elements, and of others: the same numbers as plain torch's, whatever the compiler saw.

Memory that nobody has cleared is NaN here: a thread writes each element that it claims, or somebody clears it.
"""

import functools
import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from cases import FOLDER, nvrtc_is_here
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from long_tests import LONG, dear_file, dear_test, sampled, some_cases, some_tests
from own_cases import CASES, SIGNED, agree, gradients, leaves, listed, misaligned, operator, same, seeds_for
from torch import Tensor

import torch_slang
from torch_slang import testing

pytestmark = [pytest.mark.usefixtures("poisoned_memory"), some_tests(10), dear_file]


def expanded(t: Tensor) -> Tensor:
    return t.flatten()[:1].reshape([1] * t.dim()).expand(t.shape) if t.numel() else t


def transposed(t: Tensor) -> Tensor:
    order = tuple(reversed(range(t.dim())))
    return t.permute(order).contiguous().permute(order)


def strided(t: Tensor) -> Tensor:
    room = t.new_full([2 * size for size in t.shape] or [1], float("nan"))
    return room[tuple(slice(None, None, 2) for _ in t.shape)].copy_(t)


LAYOUTS = [lambda t: t.clone(), expanded, transposed, strided, misaligned]
# A gradient's elements are found by its strides, whatever the kernel does with them: some kernels go through all
# layouts (in 1, 2 and 3 dimensions, of vectors and structs), the others take turns.
IN_ALL_LAYOUTS = {"own", "neighbours", "triples_loop", "three_axes", "vectors", "structs"}


def layouts_for(name: str) -> list[Callable[[Tensor], Tensor]]:
    if LONG or name in IN_ALL_LAYOUTS:
        return LAYOUTS
    return [LAYOUTS[0], LAYOUTS[1 + list(CASES).index(name) % (len(LAYOUTS) - 1)]]


@some_cases(1)
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_plain_torch(name: str, device: torch.device) -> None:
    """For output gradients of several layouts, one after the other over one graph, none of which is changed."""
    case = CASES[name]
    args, expected_args = case.args(device), case.args(device)
    results, expected = listed(operator(name)(*args)), listed(case.reference(*expected_args))
    same(results, expected)
    layouts = layouts_for(name)
    for one_after_the_other in (layouts, layouts[1::-1]):
        for layout in one_after_the_other:
            seeds = [layout(seed) for seed in seeds_for(results)]
            before = [(seed.clone(), seed._version) for seed in seeds]
            same(gradients(results, args, seeds), gradients(expected, expected_args, seeds))
            for seed, (values, version) in zip(seeds, before, strict=True):
                assert torch.equal(seed, values)
                assert seed._version == version


# Of what `somewhere` does not show, test_gradients_are_those_of_plain_torch shows the rest: the layouts.
@dear_test
@pytest.mark.parametrize(
    "name", sampled(["neighbours", "somewhere", "triples_partly"], lambda name: name == "somewhere")
)
def test_kernel_is_a_proper_operator(name: str, device: torch.device) -> None:
    case = CASES[name]
    args = case.args(device)
    testing.check(operator(name), args, reference=case.reference, nondet_tol=1e-12, **case.options, order=1)


@functools.cache
def unchecked() -> torch_slang.Module:
    """Without checks of indices, which compilers see through less well."""
    return torch_slang.load(FOLDER / "own_elements.slang", namespace="test_own_elements_unchecked", debug=False)


def kept(module: torch_slang.Module, name: str, args: list[Any]) -> dict[str, str]:
    """How the backward keeps the gradient of each argument."""
    results = listed(getattr(module, name).op(*args))
    gradients(results, args, seeds_for(results))
    device = next(a.device.type for a in args if isinstance(a, Tensor))
    (backward,) = (k for k in module.explain(name) if k.kind == "backward" and k.device.startswith(device))
    return {gradient.argument.replace(".", "_"): gradient.kept for gradient in backward.gradients}


# Contexts of one iteration, or of a branch, that NVRTC takes for possibly another's.
NOT_SEEN_BY_NVRTC = {"own_in_loop", "triples_loop", "triples_so_many", "one_column"}
BY_ADDRESS = {"by_index", "by_address", "by_typed_address"}  # their own derivatives add, without atomics
CLAIMED = [name for name, case in CASES.items() if case.own or case.shared]


@some_cases(1)
@pytest.mark.parametrize("name", CLAIMED)
def test_registers_are_for_own_elements_alone(name: str, device: torch.device) -> None:
    case = CASES[name]
    found = kept(unchecked(), name, case.args(device))
    assert {argument for argument in case.shared.split() if found[argument] == "registers"} == set()
    # Compilers differ in what they see through: what is not seen is added atomically, which is as right.
    if device.type == "cpu" or name not in NOT_SEEN_BY_NVRTC:
        assert {argument for argument in case.own.split() if found[argument] != "registers"} == set()


HAS_ATOMICS = [name for name, case in CASES.items() if case.shared and name not in BY_ADDRESS]
HAS_NONE = [
    name
    for name, case in CASES.items()
    if case.own and not case.shared and name not in NOT_SEEN_BY_NVRTC | {"value"}  # the sums of values may share places
]


@dear_test
@some_cases(4)
@pytest.mark.parametrize("name", HAS_ATOMICS + HAS_NONE)
def test_compiled_code_has_atomics_where_gradients_are_shared_alone(name: str) -> None:
    """What NVRTC makes for a GPU, on any machine."""
    if not nvrtc_is_here():
        pytest.skip("NVRTC is not installed")
    handle = unchecked()._handle
    types = ["float64" for _ in handle.describe(name)["type_parameters"]]
    ptx = handle.cubin(name, "backward", types, True, "compute_90").decode()
    atomics = re.findall(r"^\s*(?:red|atom)\.[\w.]+", ptx, re.MULTILINE)
    if name in HAS_ATOMICS:
        assert atomics
    else:
        assert not atomics
        assert re.search(r"\bst\.(global\.)?(v\d\.)?[fbu]\d", ptx)


def test_deterministic_mode_refuses_atomics_alone(device: torch.device) -> None:
    for name, refused in (("one_row", False), ("neighbours", True), ("three_axes", True), ("surplus", True)):
        args = CASES[name].args(device)
        results = listed(operator(name)(*args))
        torch.use_deterministic_algorithms(True)
        if refused:
            with pytest.raises(RuntimeError, match="added up atomically"):
                gradients(results, args, seeds_for(results))
        else:
            gradients(results, args, seeds_for(results))


@dear_test
@some_cases(1)
@pytest.mark.parametrize("name", ["own", "three_axes", "somewhere", "own_accesses_asr"])
def test_every_mask(name: str, device: torch.device) -> None:
    case = CASES[name]
    args = case.args(device)
    full = gradients(results := listed(operator(name)(*args)), args, seeds_for(results))
    differentiable = [i for i, a in enumerate(args) if isinstance(a, Tensor) and a.requires_grad]
    for mask in range(1, 2 ** len(differentiable) - 1):
        chosen = [k for k in range(len(differentiable)) if mask >> k & 1]
        frozen = leaves(args)
        for k, i in enumerate(differentiable):
            frozen[i].requires_grad_(k in chosen)
        results = listed(operator(name)(*frozen))
        some = [(r, s) for r, s in zip(results, seeds_for(results), strict=True) if r.requires_grad]
        found = gradients([r for r, _ in some], frozen, [s for _, s in some])
        same(found, [full[k] for k in chosen])


@pytest.mark.parametrize("name", ["own", "somewhere"])
def test_output_gradient_may_be_an_input(name: str, device: torch.device) -> None:
    """The memory of the output's gradient is an input's, or the output's own."""
    case = CASES[name]
    args, others = case.args(device), case.args(device)
    results, expected = listed(operator(name)(*args)), listed(case.reference(*others))
    for seeds in ([args[0].detach()] * len(results), [r.detach() for r in results]):
        copies = [seed.clone() for seed in seeds]
        same(gradients(results, args, seeds), gradients(expected, others, copies))
        same(seeds, copies)


def test_inputs_may_share_memory(device: torch.device) -> None:
    """One tensor twice; tensors that overlap; tensors whose elements are one."""
    x = SIGNED.make(device, torch.float64, torch.Generator().manual_seed(1))
    pairs: list[Callable[[Tensor], tuple[Tensor, Tensor]]] = [
        lambda t: (t, t),
        lambda t: (t[:-1], t[1:]),
        lambda t: (t[:1].expand(70), t),
        lambda t: (t[::2], t[:35].flip(0)),
    ]
    for name, case in (("own", CASES["own"]), ("neighbours", CASES["neighbours"])):
        for views in pairs:
            result, expected = operator(name)(*views(x)), case.reference(*views(x))
            seeds = seeds_for([result])
            same(gradients([result], [x], seeds), gradients([expected], [x], seeds))


@pytest.mark.parametrize("name", ["somewhere", "two"])
def test_undefined_output_gradients(name: str, device: torch.device) -> None:
    """Through autograd and by a direct call: as if they were zero."""
    case = CASES[name]
    for chosen in (0, 1):
        args, others = case.args(device), case.args(device)
        result, expected = operator(name)(*args)[chosen], case.reference(*others)[chosen]
        seeds = seeds_for([result])
        found = gradients([result], args, seeds)
        same(found, gradients([expected], others, seeds))
        given = [seeds[0] if k == chosen else None for k in range(2)]
        backward = getattr(torch.ops.test_own_elements, f"{name}_backward")
        same(list(backward(*given, *(a.detach() for a in args), [True, True])), found)


def test_elements_that_no_thread_touches_have_no_gradient(device: torch.device) -> None:
    x, w = CASES["early"].args(device)
    operator("early")(x, w).sum().backward()
    untouched = torch.arange(70, device=device) % 3 != 2
    assert (x.grad[untouched] == 0).all()
    assert (w.grad[untouched] == 0).all()
    long, short = (
        torch.ones(70, dtype=torch.float64, device=device, requires_grad=True),
        torch.ones(0, dtype=torch.float64, device=device, requires_grad=True),
    )
    operator("few_threads")(long, short).sum().backward()
    assert (long.grad == 0).all()


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 255, 256, 257, 1023, 1024, 1025])
@pytest.mark.parametrize("name", ["own", "neighbours", "surplus", "tall_block", "one_row", "twice", "early"])
def test_sizes_of_one_dimension(name: str, size: int, device: torch.device) -> None:
    agree(name, [(size,)] * len(CASES[name].inputs), torch.float64, device)


@some_cases(6)
@pytest.mark.parametrize("size", [100_003, 4 * 256 * 800 - 1, 4 * 256 * 800, 1_000_003, 2_200_003])
@pytest.mark.parametrize("name", ["own", "neighbours", "twice", "surplus", "triples_loop"])
def test_large_launches(name: str, size: int, device: torch.device) -> None:
    """On a GPU a thread runs several threads of such a launch."""
    if device.type == "cpu" and size != 100_003:
        pytest.skip("nothing depends on the size")
    shapes: list[tuple[int, ...]] = [(size,)] * len(CASES[name].inputs)
    agree(name, [(size, 3), (2, size)] if name == "triples_loop" else shapes, torch.float32, device)


@some_cases(5)
@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("square", [(1, 1)] * 3),
        ("square", [(37, 37)] * 3),
        ("rows_along_x", [(257, 3), (257,)]),
        ("rows_along_x", [(1, 1000), (1,)]),
        ("rows_along_x", [(1000, 1), (1000,)]),
        ("rows_along_x", [(0, 5), (0,)]),
        ("three_axes", [(9, 13, 17), (17, 9, 13), (13, 17)]),
        ("three_axes", [(1, 33, 1), (1, 1, 33), (33, 1)]),
        ("three_axes", [(33, 1, 1), (1, 33, 1), (1, 1)]),
        ("three_axes", [(2, 1, 65), (65, 2, 1), (1, 65)]),
        ("shared_rows", [(1, 3)]),
        ("shared_rows", [(1025, 3)]),
        ("one_column", [(257,), (1, 257)]),
        ("triples_loop", [(257, 3), (2, 257)]),
        ("three_by_three", [(3, 257, 3), (33, 257)]),
    ],
)
def test_sizes_of_several_dimensions(name: str, shapes: list[tuple[int, ...]], device: torch.device) -> None:
    agree(name, shapes, torch.float64, device)


@pytest.mark.parametrize(
    "shapes", [[(1201, 1201)] * 3, [(3, 400_001)] * 3, [(101, 103, 107), (107, 101, 103), (103, 107)]], ids=str
)
def test_large_launches_of_several_dimensions(shapes: list[tuple[int, ...]], device: torch.device) -> None:
    if device.type == "cpu":
        pytest.skip("nothing depends on the size")
    if len(shapes[0]) == 3:
        agree("three_axes", shapes, torch.float32, device)
    elif shapes[0][0] == shapes[0][1]:
        agree("square", shapes, torch.float32, device)
    else:
        agree("rows_along_x", [shapes[0], shapes[0][:1]], torch.float32, device)


IN_HALVES = ["own", "neighbours", "own_in_loop", "triples_loop", "any_shape", "own_accesses_asr"]
HALVES = [torch.float16, torch.bfloat16]


@some_cases(1)
@pytest.mark.parametrize(  # kernels take turns: the two types differ in their conversions alone
    ("name", "dtype"),
    sampled(itertools.product(IN_HALVES, HALVES), lambda name, dtype: HALVES[IN_HALVES.index(name) % 2] is dtype),
    ids=str,
)
def test_halves(name: str, dtype: torch.dtype, device: torch.device) -> None:
    case = CASES[name]
    args = [a.detach().to(dtype).requires_grad_() if isinstance(a, Tensor) else a for a in case.args(device)]
    exact = [a.detach().float().requires_grad_() if isinstance(a, Tensor) else a for a in args]
    results, expected = listed(operator(name)(*args)), listed(case.reference(*exact))
    seeds = seeds_for(results)
    found = gradients(results, args, seeds)
    wide = gradients(expected, exact, [s.float() for s in seeds])
    tolerance = 32 * torch.finfo(dtype).eps
    for one, other in zip([*results, *found], [*expected, *wide], strict=True):
        assert one.dtype == dtype
        same([one.float()], [other], rtol=tolerance, atol=4 * tolerance)


def test_gradients_of_own_elements_are_rounded_once(device: torch.device) -> None:
    """A sum of many small amounts beside a large one, in the type itself, would stay the large one."""
    x, w = (torch.ones(70, dtype=torch.bfloat16, device=device, requires_grad=True) for _ in range(2))
    operator("own_in_loop")(x, w, 6).sum().backward()
    assert (w.grad == 7).all()


ACCESSES = {
    "i": lambda i, n, at: i,
    "max(i, 1) - 1": lambda i, n, at: (i - 1).clamp(min=0),
    "min(i + 1, n - 1)": lambda i, n, at: (i + 1).clamp(max=n - 1),
    "uint(at[i])": lambda i, n, at: at[i],
    "i + 0 * uint(zero)": lambda i, n, at: i,
    "(i * 2) / 2": lambda i, n, at: i,
    "n - 1 - i": lambda i, n, at: n - 1 - i,
    "(i ^ 3) % n": lambda i, n, at: (i ^ 3) % n,
    "uint(at[uint(at[i])])": lambda i, n, at: at[at[i]],
}
LAUNCHES = ["N", "N, 1", "1, N", "N + 7", "2 * N", "cdiv(N, 64) * 64"]
COUNTS = st.integers(1, 40)


@some_cases(1)
@settings(max_examples=50 if LONG else 5, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    terms=st.lists(
        st.tuples(st.sampled_from("xw"), st.sampled_from(list(ACCESSES)), st.booleans()), min_size=1, max_size=4
    ),
    target=st.sampled_from(["i", "n - 1 - i", "uint(at[i])"]),
    launch=st.sampled_from(LAUNCHES),
    block=st.sampled_from(["", "[BlockSize(32, 1, 1)]", "[BlockSize(8, 2, 1)]"]),
    guard=st.sampled_from(["i >= n", "i >= x.size(0)", "!(i < w.size(0))"]),
    count=COUNTS,
)
@pytest.mark.parametrize("checked", [None, False], ids=["default", "unchecked"])
def test_random_kernels(
    terms: list[tuple[str, str, bool]],
    target: str,
    launch: str,
    block: str,
    guard: str,
    count: int,
    checked: bool | None,
    device: torch.device,
) -> None:
    axis = "y" if launch == "1, N" else "x"
    # Threads that do the same add twice: only the first along the other axis goes on.
    alone = "cudaGlobalIdx().x > 0" if axis == "y" else "cudaGlobalIdx().y > 0"
    body = "double sum = 1;"
    for view, index, conditional in terms:
        body += f"\n    {'if (i % 2 == 0) ' if conditional else ''}sum = sum * {view}[{index}] + {view}[{index}];"
    source = f"""
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel] {block} [LaunchTotal("{launch}")]
void random([Shape("N")] DiffTensorView<double> x, [Shape("N")] DiffTensorView<double> w,
            [Shape("N")] TensorView<int64_t> at, int zero, [Out("N")] DiffTensorView<double> y)
{{
    uint i = cudaGlobalIdx().{axis}, n = x.size(0);
    if ({guard} || {alone}) return;
    {body}
    y[{target}] = sum;
}}
"""
    module = torch_slang.load(source=source, name="random.slang", namespace=f"own_random_{checked}", debug=checked)
    generator = torch.Generator().manual_seed(count)
    x, w = (torch.randn(count, dtype=torch.float64, generator=generator).to(device).requires_grad_() for _ in range(2))
    at = torch.randperm(count, generator=generator).to(device)
    i = torch.arange(count, device=device)
    total: Tensor = torch.ones_like(x)
    for view, index, conditional in terms:
        values = {"x": x, "w": w}[view][ACCESSES[index](i, count, at)]
        total = torch.where(i % 2 == 0, total * values + values, total) if conditional else total * values + values
    expected = torch.zeros_like(x).index_put((ACCESSES[target](i, count, at),), total)
    result = module.random(x, w, at, 0)
    same([result], [expected])
    seeds = seeds_for([result])
    same(gradients([result], [x, w], seeds), gradients([expected], [x, w], seeds))
