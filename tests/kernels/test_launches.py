"""Launches: a kernel, or its derivative, on memory of the caller's with blocks and threads of the caller's."""

from pathlib import Path
from typing import Any

import pytest
import torch
from cases import CASES, Case, kernels
from long_tests import some_cases, some_tests

import torch_slang

pytestmark = some_tests(9)

Tensor = torch.Tensor
LAUNCH = {"block_size": (64,), "grid_size": (2, 8)}  # enough threads for every case, in blocks that all of them take
# Of kernels that read back what they store: several threads of one element would take what another has just put there.
ALONE = {"block_size": (64,), "grid_size": (2,)}
READ_BACK = {"read_back", "running_product"}
CRASHES = "scaled"  # libslang does (tests/gradients/test_gradients.py)
LEAVES_OUT = "stored_somewhere"  # elements, which keep what the caller has put there
ONLY_BACKWARD = "meetings"  # functions with a [BackwardDerivative] and no other
SQR = Path(torch_slang.__file__).with_name("ops") / "sqr.slang"


def module_of(case: Case) -> torch_slang.Module:
    return kernels(case.file) if case.file else torch_slang.load(SQR, namespace="test_launched")


def with_derivative(kind: str) -> list[Case]:
    return [
        case
        for case in CASES
        if case.kernel != CRASHES
        and not (kind == "fwd" and case.file == ONLY_BACKWARD)
        and module_of(case)._handle.describe(case.kernel)[kind] is not None
    ]


def launch_of(case: Case) -> dict[str, tuple[int, ...]]:
    return ALONE if case.kernel in READ_BACK else LAUNCH


def as_tuple(results: Any) -> tuple[Tensor, ...]:
    return results if isinstance(results, tuple) else (results,)


def flat_arguments(case: Case, kind: str, device: torch.device) -> tuple[dict[str, Any], list[str], list[str]]:
    """A launch's arguments by name, inputs as in the case, outputs as zeros; the names of inputs and of outputs."""
    values = case.args(device)
    results = iter(as_tuple(case.op(*[v.detach() if isinstance(v, Tensor) else v for v in values])))
    given = iter(v.detach() if isinstance(v, Tensor) else v for v in values)
    leaves = module_of(case)._handle.describe(case.kernel)["leaves"]
    flat = {leaf["name"]: torch.zeros_like(next(results)) if leaf["is_output"] else next(given) for leaf in leaves}
    inputs = [leaf["name"] for leaf in leaves if not leaf["is_output"]]
    return flat, inputs, [leaf["name"] for leaf in leaves if leaf["is_output"]]


def differentiable_arguments(case: Case, kind: str) -> set[str]:
    prefix = {"bwd": "grad_", "fwd": "tangent_"}[kind]
    schema = getattr(module_of(case), f"{case.kernel}_{kind}").op._schema
    return {a.name.removeprefix(prefix) for a in schema.arguments if a.name.startswith(prefix)}


@some_cases(4)
@pytest.mark.parametrize("case", with_derivative("bwd"), ids=str)
def test_a_launched_backward_adds_to_gradients_and_takes_those_of_outputs(case: Case, device: torch.device) -> None:
    flat, inputs, outputs = flat_arguments(case, "bwd", device)
    differentiable = differentiable_arguments(case, "bwd")
    gradients = {name: torch.randn_like(flat[name]) for name in differentiable}
    before = {name: gradient.clone() for name, gradient in gradients.items()}
    launch = getattr(module_of(case), f"{case.kernel}_bwd")
    launch.op(**flat, **{f"grad_{name}": gradient for name, gradient in gradients.items()}, **launch_of(case))

    leaves = {name: flat[name].requires_grad_() for name in inputs if name in differentiable}
    results = dict(zip(outputs, as_tuple(case.reference(*[flat[name] for name in inputs])), strict=True))
    taken = [name for name in outputs if name in differentiable]
    expected = torch.autograd.grad(
        [results[name] for name in taken], list(leaves.values()), [before[name] for name in taken]
    )
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if case.dtype == torch.float32 else {}
    for name, gradient in zip(leaves, expected, strict=True):
        torch.testing.assert_close(gradients[name], before[name] + gradient, **tolerance)
    if case.kernel != LEAVES_OUT:
        assert all(not gradients[name].any() for name in taken)


@some_cases(3)
@pytest.mark.parametrize("case", with_derivative("fwd"), ids=str)
def test_a_launched_forward_derivative_is_the_jacobian_times_the_tangents(case: Case, device: torch.device) -> None:
    flat, inputs, outputs = flat_arguments(case, "fwd", device)
    differentiable = differentiable_arguments(case, "fwd")
    tangents = {name: torch.randn_like(flat[name]) for name in inputs if name in differentiable}
    filled = {name: torch.full_like(flat[name], 7) for name in outputs if name in differentiable}
    launch = getattr(module_of(case), f"{case.kernel}_fwd")
    launch.op(**flat, **{f"tangent_{name}": value for name, value in (tangents | filled).items()}, **launch_of(case))

    def reference(*values: Tensor) -> Any:
        given = flat | dict(zip(tangents, values, strict=True))
        return case.reference(*[given[name] for name in inputs])

    primals = tuple(flat[name] for name in tangents)
    results, expected = torch.func.jvp(reference, primals, tuple(tangents.values()))
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if case.dtype == torch.float32 else {}
    if case.kernel == LEAVES_OUT:
        flat["y"][flat["y"] == 0], filled["y"][filled["y"] == 7] = 3, 0
    for name, result, tangent in zip(outputs, as_tuple(results), as_tuple(expected), strict=True):
        torch.testing.assert_close(flat[name], result.to(flat[name].dtype), **tolerance)
        if name in filled:
            torch.testing.assert_close(filled[name], tangent, **tolerance)


@pytest.mark.parametrize("kind", ["bwd", "fwd"])
def test_gradients_that_nobody_wants_are_none(kind: str, device: torch.device) -> None:
    x, slope, start, y, seed = torch.randn(5, 6, dtype=torch.float64, device=device)
    wanted = torch.zeros_like(x)
    launch = getattr(kernels("vectors"), f"along_{kind}")
    launch(
        x=x,
        line=((slope, wanted if kind == "bwd" else seed), start),
        y=(y, seed if kind == "bwd" else wanted),
        **LAUNCH,
    )
    if kind == "bwd":
        assert (seed.any().item(), wanted.any().item()) == (False, True)
    else:
        torch.testing.assert_close(wanted, seed * x)


@pytest.mark.parametrize("pair", [tuple, list])
def test_pairs_stand_in_structs_by_name_or_position(pair: type, device: torch.device) -> None:
    x, slope, start = torch.randn(3, 6, dtype=torch.float64, device=device)
    pairs = [pair((v, torch.zeros_like(v))) for v in (x, slope, start)]
    for line in [(pairs[1], pairs[2]), {"start": pairs[2], "slope": pairs[1]}]:
        seed = torch.ones_like(x)
        kernels("vectors").along_bwd(pairs[0], line, (torch.zeros_like(x), seed), launchBlockSize=8, launchGridSize=1)
    for (_, gradient), expected in zip(pairs, (slope, x, 2 * start), strict=True):
        torch.testing.assert_close(gradient, 2 * expected)


def test_a_call_with_a_launch_is_a_launch(device: torch.device) -> None:
    x = torch.randn(70, device=device)
    y = torch.zeros_like(x)
    sqr = torch_slang.load(SQR, namespace="test_launched").sqr
    assert sqr(x, y, launchBlockSize=(32, 1, 1), launchGridSize=(2, 1, 1)) is None
    assert torch.equal(y[:64], x[:64] ** 2)
    assert not y[64:].any()
    sqr(x=x, y=y, launchBlockSize=35, launchGridSize=2)
    assert torch.equal(y, x**2)


def test_funcinfo_names_arguments_and_the_launches_of_derivatives() -> None:
    module = torch_slang.load(SQR, namespace="test_launched")
    info = module.funcinfo("sqr")
    assert (info.arguments, info.forward_derivative, info.backward_derivative) == (("x", "y"), "sqr_fwd", "sqr_bwd")
    assert module.funcinfo("sqr_bwd")[1:] == (info.arguments, info.types, None, None)
    plain = kernels("plain").funcinfo("add_scaled")
    assert (plain.arguments, plain.forward_derivative, plain.backward_derivative) == (("y", "x", "scale"), None, None)
    with pytest.raises(AttributeError, match="has no operator add_scaled_bwd"):
        kernels("plain").funcinfo("add_scaled_bwd")


@pytest.mark.parametrize(
    ("attributes", "derivatives"),
    [
        ("", (True, True)),
        ("[PyBindCUDAFwdDiff(Auto)]", (True, False)),
        ("[PyBindCUDABwdDiff(Auto)]", (False, True)),
        ("[PyBindCUDAFwdDiff(Auto)] [PyBindCUDABwdDiff(Auto)]", (True, True)),
    ],
)
def test_attributes_choose_the_derivatives_that_are_linked(attributes: str, derivatives: tuple[bool, bool]) -> None:
    name = f"linked_{derivatives[0]:d}{derivatives[1]:d}{len(attributes)}"
    module = torch_slang.load(source=f"[PyBindCUDA(Auto)] {attributes} {TWICE.replace('NAME', name)}", name=name)
    info = module.funcinfo(name)
    assert (info.forward_derivative is not None, info.backward_derivative is not None) == derivatives
    assert tuple(hasattr(torch.ops.slang, name + suffix) for suffix in ("_fwd", "_bwd")) == derivatives


TWICE = """[Differentiable] [CudaKernel]
void NAME([Shape("N")] DiffTensorView<float> x, [Out("N")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < x.size(0)) y[i] = 2 * x[i];
}
"""


def test_a_kernel_keeps_its_name_from_the_launches_of_others() -> None:
    source = "".join(f"[PyBindCUDA(Auto)] {TWICE.replace('NAME', name)}" for name in ("mine", "mine_bwd"))
    module = torch_slang.load(source=source, name="mine", namespace="test_mine")
    assert module.mine_bwd(torch.ones(3)).tolist() == [2.0] * 3
    assert module.funcinfo("mine").backward_derivative == "mine_bwd_"


def test_only_backward_derivatives_refuse_forward_mode() -> None:
    """Slang would give a forward derivative of zeros."""
    module = kernels("meetings")
    with pytest.raises(
        torch_slang.CompileError,
        match=r"jvp of wave_share.* would be wrong: \w+ has a \[BackwardDerivative\] and no \[Forward",
    ):
        module.wave_share_fwd(torch.ones(4).double(), torch.zeros(4).double(), **LAUNCH)
    source = f"""
    void own_backward(inout DifferentialPair<float> v, float d) {{ v = diffPair(v.p, d); }}
    [BackwardDerivative(own_backward)] float own(float v) {{ return v; }}
    [PyBindCUDA(Auto)] {TWICE.replace("NAME", "beside")}"""
    beside = torch_slang.load(source=source, name="beside", namespace="test_beside")
    tangent = torch.zeros(4)
    beside.beside_fwd((torch.ones(4), torch.ones(4)), (torch.zeros(4), tangent), **LAUNCH)
    assert tangent.tolist() == [2.0] * 4


def test_parameters_may_have_the_names_of_extents(device: torch.device) -> None:
    source = """
    [PyBindCUDA(Auto)] [CudaKernel] [LaunchTotal("N")]
    void extents([Shape("N")] TensorView<float> x, int block_size, int self, [Out("N")] TensorView<float> y)
    {
        uint i = cudaGlobalIdx().x;
        if (i < x.size(0)) y[i] = x[i] * block_size + self;
    }
    """
    module = torch_slang.load(source=source, name="extents", namespace="test_extents")
    x, y = torch.ones(4, device=device), torch.zeros(4, device=device)
    assert module.extents(x, block_size=3, self=1).tolist() == [4.0] * 4
    module.extents(x, 2, 0, y, launchBlockSize=4, launchGridSize=1)
    assert y.tolist() == [2.0] * 4
    torch.ops.test_extents.extents_launch(x, 5, 0, y, launch_block_size=[4], grid_size=[1])
    assert y.tolist() == [5.0] * 4


class TestDerivativesOfALaunch:
    @pytest.fixture
    def arguments(self, device: torch.device) -> list[Tensor]:
        x, y, seed = (torch.randn(5, device=device) for _ in range(3))
        return [x, torch.zeros_like(x), y, seed]

    @pytest.mark.parametrize("kind", ["bwd", "fwd"])
    def test_pass_opcheck(self, kind: str, arguments: list[Tensor]) -> None:
        op = getattr(torch.ops.slang, f"sqr_{kind}").default
        torch.library.opcheck(op, (*arguments, [32], [1]))
        torch.library.opcheck(op, (arguments[0], None, *arguments[2:], [32], [1]))

    @pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
    def test_are_functionalised_by_torch_compile(self, backend: str, arguments: list[Tensor]) -> None:
        def step(x: Tensor, grad_x: Tensor, y: Tensor, seed: Tensor) -> Tensor:
            taken = seed.clone()
            torch.ops.slang.sqr_bwd(x, grad_x, y, taken, [32], [1])
            return grad_x * 2 + taken

        x, _, y, seed = arguments
        grad_x = torch.ones_like(x)
        result = torch.compile(step, backend=backend, fullgraph=True)(x, grad_x, y, seed)
        torch.testing.assert_close(grad_x, 1 + 2 * x * seed)
        torch.testing.assert_close(result, 2 * grad_x)

    def test_bump_the_versions_of_what_they_write(self, arguments: list[Tensor]) -> None:
        versions = [t._version for t in arguments]
        torch.ops.slang.sqr_bwd(*arguments, [32], [1])
        assert [t._version for t in arguments] == [v + 1 for v in versions]

    def test_refuse_expanded_gradients(self, arguments: list[Tensor]) -> None:
        x, grad_x, y, _ = arguments
        one = torch.ones(1, device=x.device).expand(5)
        with pytest.raises(
            RuntimeError, match=r"^slang::sqr_bwd: expected the elements of grad_y to have memory of their"
        ):
            torch.ops.slang.sqr_bwd(x, grad_x, y, one, [32], [1])

    def test_write_through_strides(self, arguments: list[Tensor]) -> None:
        x, _, y, seed = arguments
        room = torch.zeros(10, device=x.device)
        expected = 2 * x * seed
        torch.ops.slang.sqr_bwd(x, room[::2], y, seed, [32], [1])
        torch.testing.assert_close(room[::2], expected)
        assert not room[1::2].any()

    def test_refuse_gradients_of_another_shape_dtype_or_device(self, arguments: list[Tensor]) -> None:
        x, _, y, seed = arguments
        for wrong, message in [
            (torch.zeros(4, device=x.device), r"expected grad_x to have the shape of x \[5\], but got \[4\]"),
            (torch.zeros_like(x, dtype=torch.float64), "expected grad_x to have dtype float32"),
            (torch.zeros_like(x).requires_grad_(), "grad_x requires grad, but a launch op is not differentiable"),
        ]:
            with pytest.raises(RuntimeError, match=f"^slang::sqr_bwd: {message}"):
                torch.ops.slang.sqr_bwd(x, wrong, y, seed, [32], [1])

    @pytest.mark.parametrize("kind", ["launch", "fwd", "bwd"])
    @pytest.mark.parametrize(
        ("block", "grid", "error", "message"),
        [
            ([0], [1], RuntimeError, "expected block_size to be positive"),
            ([32], [-1], RuntimeError, "expected grid_size to be positive"),
            ([2048], [1], torch_slang.LaunchError, "the block's x from 1 to 1024"),
            ([32, 64], [1], torch_slang.LaunchError, "at most 1024 threads a block"),
            ([32], [1, 70_000], torch_slang.LaunchError, "the grid's y from 1 to 65535"),
        ],
    )
    def test_have_limits(
        self, kind: str, block: list[int], grid: list[int], error: type, message: str, arguments: list[Tensor]
    ) -> None:
        if kind == "launch":
            del arguments[1], arguments[2]
        with pytest.raises(error, match=f"^slang::sqr_{kind}: .*{message}"):
            getattr(torch.ops.slang, f"sqr_{kind}")(*arguments, block, grid)


class TestLaunch:
    @pytest.fixture
    def launch(self):
        return kernels("plain").add_scaled_launch

    def test_changes_its_argument_and_bumps_its_version(self, launch, device: torch.device) -> None:
        x, y = torch.randn(2, 100, device=device)
        y = y.clone()
        expected = y + 3 * x
        versions = x._version, y._version
        assert launch(y, x, 3.0, [32], [4]) is None
        torch.testing.assert_close(y, expected)
        assert (x._version, y._version) == (versions[0], versions[1] + 1)

    def test_reaches_only_the_threads_asked_for(self, launch, device: torch.device) -> None:
        y = torch.zeros(100, device=device)
        launch(y, torch.ones_like(y), 1.0, [16, 1, 1], [2, 1, 1])
        assert y.sum().item() == 32

    def test_writes_through_strides(self, launch, device: torch.device) -> None:
        room = torch.zeros(10, device=device)
        launch(room[::2], torch.ones(5, device=device), 1.0, [32], [1])
        assert room.tolist() == [1.0, 0.0] * 5

    def test_takes_one_tensor_twice(self, launch, device: torch.device) -> None:
        y = torch.arange(70.0, device=device)
        launch(y, y, 1.0, [32], [3])
        torch.testing.assert_close(y, 2 * torch.arange(70.0, device=device))

    def test_takes_one_tensor_twice_that_is_copied_in(self, device: torch.device) -> None:
        add = torch_slang.load(
            source="""
            [PyBindCUDA(Auto)] [CudaKernel]
            void add([Shape("...")] TensorView<float> y, [Shape("...")] TensorView<float> x)
            {
                uint i = cudaGlobalIdx().x;
                if (i < x.size(0)) y[i] = y[i] + x[i];
            }
            """,
            name="aliases",
            namespace="test_aliases",
        ).add_launch
        y = torch.arange(6.0, device=device).view(2, 3)
        add(y.t(), y.t(), [32], [1])  # not to be flattened as a view
        assert torch.equal(y, 2 * torch.arange(6.0, device=device).view(2, 3))

    def test_refuses_what_requires_grad(self, launch, device: torch.device) -> None:
        x, y = torch.ones(4, device=device), torch.zeros(4, device=device)
        for arguments in [(y, x.clone().requires_grad_()), (y.clone().requires_grad_(), x)]:
            with pytest.raises(RuntimeError, match="requires grad, but a launch op is not differentiable"):
                launch(*arguments, 1.0, [32], [1])
        with torch.no_grad():
            launch(y, x.requires_grad_(), 1.0, [32], [1])
        assert y.tolist() == [1.0] * 4

    def test_is_noticed_by_graphs_that_saved_its_argument(self, launch, device: torch.device) -> None:
        x = torch.ones(4, device=device, requires_grad=True)
        saved = torch.full((4,), 2.0, device=device)
        y = (x * saved).sum()
        launch(saved, torch.ones(4, device=device), 1.0, [32], [1])
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()

    def test_passes_opcheck(self, launch, device: torch.device) -> None:
        y, x = torch.zeros(5, device=device), torch.ones(5, device=device)
        torch.library.opcheck(torch.ops.test_plain.add_scaled_launch.default, (y, x, 2.0, [32], [1]))

    def test_needs_sensible_extents(self, launch) -> None:
        y = torch.zeros(4)
        with pytest.raises(RuntimeError, match="expected block_size to be positive"):
            launch(y, y, 1.0, [0], [1])
        with pytest.raises(RuntimeError, match="expected grid_size to have 1 to 3 elements"):
            launch(y, y, 1.0, [32], [1, 1, 1, 1])
