"""Host functions, ``[TorchEntryPoint]`` in Slang: they allocate tensors and dispatch their module's kernels."""

from pathlib import Path
from typing import Any

import pytest
import torch
from cases import FOLDER

import torch_slang


@pytest.fixture(scope="module")
def host() -> Any:
    return torch_slang.load(FOLDER / "host_functions.slang", namespace="test_host_functions")


def load_source(source: str, name: str, **options: Any) -> Any:
    return torch_slang.load(source=source, name=name, namespace=f"test_{name}", **options)


def test_a_host_function_allocates_and_dispatches(host: Any, device: torch.device) -> None:
    x = torch.randn(1000, device=device)
    y = host.scale(x, 3.0)
    assert y.device.type == device.type
    assert torch.equal(y, x * 3)
    assert torch.equal(host.scale(factor=2, x=x), x * 2)


def test_strided_tensors_are_taken_as_they_are(host: Any, device: torch.device) -> None:
    x = torch.randn(50, 4, device=device)[:, 1]
    assert torch.equal(host.scale(x, 2.0), x * 2)


def test_expanded_tensors_are_taken(host: Any, device: torch.device) -> None:
    x = torch.tensor([3.0], device=device).expand(40)
    assert torch.equal(host.scale(x, 2.0), torch.full((40,), 6.0, device=device))


def test_structs_go_in_and_come_out(host: Any, device: torch.device) -> None:
    weights = torch.randn(3, dtype=torch.float64, device=device)
    first, second = (
        torch.arange(12, dtype=torch.int32, device=device).view(3, 4)[:, 1:],
        torch.ones(5).int().to(device),
    )
    config = {"inner": (weights, True), "offset": [0.5, 1, 2], "counts": torch.tensor([7, 8]), "big": 2**64 - 2}
    answer = host.echo(config, [first, second])
    assert answer.weights is weights
    assert answer.inner.weights is weights
    assert answer.inner.flip is False
    assert answer.offset == (2.0, 4.0, 7.0)
    assert answer.counts == (8, -2)
    assert answer.big == 2**64 - 1
    assert answer.dims == 204
    assert answer.h == 1.0
    assert answer[3] == answer.counts
    assert type(answer).__name__ == "Answer"
    again = host.echo(config | {"inner": answer.inner}, [first, second])
    assert again.inner.flip is True


def test_a_dispatch_hands_over_every_kind_of_argument(host: Any, device: torch.device) -> None:
    x = torch.tensor([0.5], device=device)
    got = host.hand_over(x, (-1, 2, 3), ((10, 20), (30, 40)), True, 1.25, -(2**40))
    expected = [20, 1, 2, 3, 30, 5, 6, -1, 2, 3, 60000, 7, 1, 0.25, 1.25, -(2.0**40)]
    assert torch.equal(got.cpu(), torch.tensor(expected) + 0.5)


def test_generic_kernels_are_dispatched_by_the_tensors_type(host: Any, device: torch.device) -> None:
    x = torch.randn(5, dtype=torch.float64, device=device)
    assert torch.equal(host.add_double(x, 1e-12), x + 1e-12)


def test_vectors_barriers_differentiable_kernels_and_helpers(host: Any, device: torch.device) -> None:
    v = torch.randint(-3, 4, (20, 3), device=device).float()
    got = host.total_norm(v, 0.5)
    assert torch.equal(got, ((v * v).sum() + 0.5).reshape(1))


def test_dispatched_kernels_are_operators_as_well(host: Any) -> None:
    v = torch.randn(4, 3, requires_grad=True)
    host.norm(v).sum().backward()
    assert torch.allclose(v.grad, 2 * v.detach())


def test_vector_elements_are_allocated_and_filled(host: Any, device: torch.device) -> None:
    got = host.allocate(2, (1, 2, 3), device=device)
    assert got.device.type == device.type
    assert torch.equal(got.cpu(), torch.tensor([1.0, 2, 3]).expand(2, 2, 3))


def test_without_tensors_the_gpu_is_where_new_ones_are(host: Any) -> None:
    assert host.allocate(1, (0, 0, 0)).is_cuda == torch.cuda.is_available()


def test_names_may_be_any(host: Any, device: torch.device) -> None:
    x = torch.zeros(1, device=device)
    assert host.enter(x, 4.0) is None
    assert x.item() == 4


def test_void_functions_return_none(host: Any) -> None:
    assert host.nothing(torch.zeros(1)) is None


def test_early_returns(host: Any) -> None:
    a, b = torch.zeros(3), torch.zeros(4)
    assert host.first_long(a, b) is b
    assert host.first_long(b, a) is b


def test_results_and_temporaries_are_freed(host: Any, device: torch.device) -> None:
    x = torch.ones(1 << 16, device=device)
    for _ in range(3):
        assert torch.equal(host.scale_often(x, 10), x * 1024)
    if device.type == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        host.scale_often(x, 10)
        assert torch.cuda.memory_allocated() == before
        assert torch.cuda.max_memory_allocated() - before <= 3 * x.nbytes
    assert x._use_count() == 1
    y = host.scale_often(x, 0)
    assert y is x
    del y
    with pytest.raises(torch_slang.LaunchError):
        load_big_block().go(x)
    assert x._use_count() == 1


def load_big_block() -> Any:
    return load_source(
        """
        [CudaKernel] void empty(TensorView<float> x, TensorView<float> y) { }
        [TorchEntryPoint] void go(TorchTensor<float> x)
        {
            var y = TorchTensor<float>.emptyLike(x);
            __dispatch_kernel(empty, uint3(1, 1, 1), uint3(2048, 1, 1))(x, y);
        }
        """,
        "host_big_block",
    )


def test_a_launch_error_inside_comes_through_as_it_is(host: Any, device: torch.device) -> None:
    with pytest.raises(torch_slang.LaunchError, match=r"test_host_big_block::empty_launch: .*x from 1 to 1024.*2048"):
        load_big_block().go(torch.zeros(1, device=device))


def test_nothing_is_recorded_for_autograd(host: Any) -> None:
    x = torch.randn(5, requires_grad=True)
    y = host.scale(x, 2.0)
    assert not y.requires_grad
    assert torch.equal(y, x.detach() * 2)


def test_arguments_keep_their_version(host: Any) -> None:
    x = torch.zeros(5)
    version = x._version
    host.scale(x, 2.0)
    assert x._version == version


X = torch.zeros(4)
WRONG_CALLS = [
    (("scale", X), {}, TypeError, r"scale\(x: TorchTensor<float>, factor: float\): .*factor is missing"),
    (("scale", X, 1.0, 2.0), {}, TypeError, r"expected 2 arguments, but got 3"),
    (("scale", X, 1.0), {"x": X}, TypeError, r"two values for x"),
    (("scale", X, 1.0), {"z": 1}, TypeError, r"no argument z"),
    (("scale", [1.0], 1.0), {}, TypeError, r"expected x \(TorchTensor<float>\) to be a tensor, but got list"),
    (("scale", X, "much"), {}, TypeError, r"expected factor to be a number of type float, but got 'much'"),
    (("scale", X.double(), 1.0), {}, RuntimeError, r"::scale: expected x to have dtype float32 .*, but got float64"),
    (("scale", X.to_sparse(), 1.0), {}, RuntimeError, r"expected x to be a strided tensor"),
    (("scale_often", X, 1.5), {}, TypeError, r"expected times to be a number of type int, but got 1.5"),
    (("scale_often", X, 2**31), {}, RuntimeError, r"expected times \(int\) to be between -2147483648 and 2147483647"),
    (("first_long", X, X.to("meta")), {}, RuntimeError, r"same device, but a is on cpu and b is on meta"),
    (("total_norm", X.view(2, 2), 1.0), {}, RuntimeError, r"last dimension of v .* size 3, but got shape \[2, 2\]"),
    (("allocate", 1, (1, 2)), {}, TypeError, r"expected value \(.*float,3.*\) to have 3 values, but got 2 values"),
    (("echo", {"inner": 1}, []), {}, TypeError, r"config \(Config\) lacks field offset, counts, big"),
    (("echo", {"a": 1}, []), {}, TypeError, r"config \(Config\) has no field a"),
    (("partly_set", X.double(), False), {}, RuntimeError, r"partly_set: its result's weights was never given a value"),
    (("scale", torch.tensor(1.0), 1.0), {}, RuntimeError, r"scale: asks for dimension 0 of a tensor of shape \[\]"),
]


@pytest.mark.parametrize(("call", "keywords", "error", "message"), WRONG_CALLS)
def test_wrong_calls_say_what_is_wrong(
    host: Any, call: tuple[Any, ...], keywords: dict[str, Any], error: type[Exception], message: str
) -> None:
    name, *arguments = call
    with pytest.raises(error, match=message):
        getattr(host, name)(*arguments, **keywords)


REFUSED = {
    "matrix<float,3,2>": "TorchTensor<float> f(TorchTensor<float> x, float3x2 m) { return x; }",
    "cannot return matrices": "float2x2 f(TorchTensor<float> x) { return float2x2(1, 2, 3, 4); }",
    "unsigned": "TorchTensor<uint> f(TorchTensor<uint> x) { return x; }",
}
# What Slang itself refuses leaves no host function of the file.
REFUSED_BY_SLANG = {
    "return a struct": "void f(TorchTensor<float> x, out float y) { y = 1; }",
    r"parameter x has the type TensorView<float>": "void f(TensorView<float> x) { }",
}


def load_refused(function: str, name: str) -> Any:
    one = "[TorchEntryPoint] int one(TorchTensor<float> x) { return int(x.size(0)); }"
    return load_source(f"{one}\n[TorchEntryPoint] {function}", name)


@pytest.mark.parametrize("reason", REFUSED)
def test_what_slang_gets_wrong_is_refused_with_the_reason(reason: str) -> None:
    name = f"host_refused_{list(REFUSED).index(reason)}"
    module = load_refused(REFUSED[reason], name)
    with pytest.raises(RuntimeError, match=rf"test_{name}::f \({name}:2\) cannot be called: .*{reason}"):
        module.f(X)
    assert module.one(X) == 4  # the others are there


@pytest.mark.parametrize("reason", REFUSED_BY_SLANG)
def test_what_slang_refuses_is_told_to_all_functions_of_the_file(reason: str) -> None:
    name = f"host_refused_by_slang_{list(REFUSED_BY_SLANG).index(reason)}"
    module = load_refused(REFUSED_BY_SLANG[reason], name)
    with pytest.raises(RuntimeError, match=rf"test_{name}::f \({name}:2\) cannot be called: .*{reason}"):
        module.f(X)
    with pytest.raises(
        torch_slang.CompileError, match=rf"(?s)::one: .*of {name} do not compile.*f is refused: .*{reason}"
    ):
        module.one(X)


def test_functions_that_do_not_compile_say_what_to_write_instead() -> None:
    source = """
        [CudaKernel] void k(TensorView<uint> x) { }
        [TorchEntryPoint] void f(TorchTensor<float> x)
        {
            var y = TorchTensor<uint>.alloc(3);
            __dispatch_kernel(k, uint3(1, 1, 1), uint3(1, 1, 1))(y);
        }
        """
    module = load_source(source, "host_unsigned")
    with pytest.raises(
        torch_slang.CompileError, match=r"(?s)::f: the host functions .* \(f\).*kernel with \[Out\].*unsigned"
    ):
        module.f(torch.zeros(1))


def test_kernels_of_imported_modules_are_dispatched(tmp_path: Path) -> None:
    (tmp_path / "part.slang").write_text("module part; [CudaKernel] public void far(TensorView<float> x) { x[0] = 3; }")
    main = tmp_path / "main.slang"
    main.write_text(
        "import part; [TorchEntryPoint] void f(TorchTensor<float> x)"
        "{ __dispatch_kernel(far, uint3(1, 1, 1), uint3(1, 1, 1))(x); }"
    )
    module = torch_slang.load(main, namespace="test_host_imported")
    x = torch.zeros(1)
    module.f(x)
    assert x.item() == 3


def test_equal_names_in_two_namespaces_are_refused() -> None:
    source = """
        namespace a { [CudaKernel] void k(TensorView<float> x) { } }
        namespace b { [CudaKernel] void k(TensorView<float> x) { } }
        [TorchEntryPoint] void f(TorchTensor<float> x)
        {
            __dispatch_kernel(a.k, uint3(1, 1, 1), uint3(1, 1, 1))(x);
        }
        namespace a { [TorchEntryPoint] int g(TorchTensor<float> x) { return 1; } }
        namespace b { [TorchEntryPoint] int g(TorchTensor<float> x) { return 2; } }
        """
    module = load_source(source, "host_equal_names")
    with pytest.raises(RuntimeError, match=r"::f: dispatches k, but its module has several kernels of that name"):
        module.f(X)
    with pytest.raises(RuntimeError, match=r"::b_g .* cannot be called: there are several host functions g"):
        module.b_g(X)


def test_an_edit_changes_what_runs(tmp_path: Path) -> None:
    path = tmp_path / "edited.slang"
    text = "[TorchEntryPoint] int f(TorchTensor<float> x) {{ return {}; }}"
    path.write_text(text.format(1))
    first = torch_slang.load(path, namespace="test_host_edited")
    assert first.f(X) == 1
    path.write_text(text.format(2))
    second = torch_slang.load(path, namespace="test_host_edited")
    assert (first.f(X), second.f(X)) == (1, 2)


def test_compiled_host_functions_come_from_the_disk_cache(tmp_path: Path) -> None:
    source = "[TorchEntryPoint] int f(TorchTensor<float> x) { return 41 + int(x.size(0)); }"
    assert load_source(source, "host_cached").f(X) == 45
    before = torch_slang.cache.stats()["host_runs"]
    again = torch_slang.load(source=source, name="host_cached", namespace="test_host_cached_again")
    assert again.f(X) == 45
    assert torch_slang.cache.stats()["host_runs"] == before


def test_functions_and_structs_in_namespaces_and_nested_arrays(host: Any) -> None:
    result = host.deep_turned((((1, 2, 3), (4, 5, 6)),), ((10, 20, 30), (40, 50, 60)), X)
    assert result.cells == ((16, 25, 34), (43, 52, 61))
