"""Loading: identity, reload, options, and what a module offers."""

from __future__ import annotations

import collections
import io
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from long_tests import dear_test, some_tests

import torch_slang

pytestmark = some_tests(4)

# Elementwise, so that any change of the factor or of the shape shows.
ELEMENTWISE = """
import torch_slang;
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void NAME([Shape("SHAPE")] DiffTensorView<float> x, PARAMETERS [Out("OUT")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= y.size(0)) return;
    float v = x[i % x.size(0)];
    y[i] = (FACTOR) * v * v;
}
"""


def elementwise(name: str, factor: Any = 1, *, parameters: str = "", out: str = "N") -> str:
    changes = {"NAME": name, "FACTOR": str(factor), "PARAMETERS": parameters, "SHAPE": "N", "OUT": out}
    text = ELEMENTWISE
    for old, new in changes.items():
        text = text.replace(old, new)
    return text


TWO = torch.tensor([2.0])


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], Path]:
    """Writes the test's one file."""
    path = tmp_path / "module.slang"

    def write(text: str) -> Path:
        path.write_text(text)
        return path

    return write


# --- Identity


def test_loading_the_same_again_does_nothing(file: Callable[[str], Path]) -> None:
    path = file(elementwise("same"))
    module = torch_slang.load(path)
    operator = torch.ops.slang.same.default
    file(elementwise("same"))  # written again, same text
    assert torch_slang.load(str(path)) is module
    assert torch_slang.load(path.parent / "." / "module.slang") is module
    assert torch.ops.slang.same.default is operator


def test_an_edit_is_a_reload(file: Callable[[str], Path]) -> None:
    first = torch_slang.load(file(elementwise("edited", 1)))
    second = torch_slang.load(file(elementwise("edited", 3)))
    assert second is not first
    assert torch.ops.slang.edited(TWO).tolist() == [12]
    assert second.edited(TWO).tolist() == [12]
    back = torch_slang.load(file(elementwise("edited", 1)))
    assert torch.ops.slang.edited(TWO).tolist() == back.edited(TWO).tolist() == [4]


def test_callables_of_a_module_keep_their_program(file: Callable[[str], Path]) -> None:
    first = torch_slang.load(file(elementwise("bound", 1)))
    held = first.bound
    second = torch_slang.load(file(elementwise("bound", 3)))
    x = TWO.clone().requires_grad_()
    for module, factor in ((first, 1), (second, 3)):
        assert module.bound(x).tolist() == [4 * factor]
        assert torch.autograd.grad(module.bound(x).sum(), x)[0].tolist() == [4 * factor]
        y = torch.zeros(1)
        module.bound_launch(TWO, y, block_size=[1], grid_size=[1])
        assert y.tolist() == [4 * factor]
        assert module.bound_backward(torch.ones(1), TWO, [True]).tolist() == [4 * factor]
    assert held(TWO).tolist() == [4]


def test_edited_text_of_a_name_is_a_reload() -> None:
    """As a notebook's cell has it that is run again."""
    for factor in (2, 3):
        text = f"import torch_slang;\n[Differentiable] float of_a_cell(float x) {{ return x * {factor}; }}\n"
        text += f"""[PyBindCUDA(Auto)] [CudaKernel]
        void kernel_of_a_cell([Shape("N")] TensorView<float> x, [Out("N")] TensorView<float> y)
        {{ uint i = cudaGlobalIdx().x; if (i < x.size(0)) y[i] = x[i] * {factor}; }}"""
        module = torch_slang.load(source=text, name="a cell")
        assert module.of_a_cell(torch.ones(1)).item() == factor
        assert torch.ops.slang.of_a_cell(torch.ones(1)).item() == factor
        assert torch.ops.slang.kernel_of_a_cell(torch.ones(1)).item() == factor


@pytest.mark.parametrize("parameters", ["", "no_diff float c,"])
def test_a_graph_recorded_before_a_reload_runs_its_own_backward(parameters: str, file: Callable[[str], Path]) -> None:
    name = "recorded" + ("_other_schema" if parameters else "")
    x = TWO.clone().requires_grad_()
    torch_slang.load(file(elementwise(name, 1)))
    y = getattr(torch.ops.slang, name)(x)
    torch_slang.load(file(elementwise(name, 3, parameters=parameters)))
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4]


def test_derivatives_of_a_backward_whose_operator_was_reloaded_with_other_arguments_are_refused(
    file: Callable[[str], Path],
) -> None:
    x = TWO.clone().requires_grad_()
    torch_slang.load(file(elementwise("twice")))
    y = torch.ops.slang.twice(x)
    torch_slang.load(file(elementwise("twice", 3, parameters="no_diff float c,")))
    with pytest.raises(RuntimeError, match=r"twice_backward: .*slang::twice was reloaded with other arguments"):
        torch.autograd.grad(y.square().sum(), x, create_graph=True)
    assert torch.autograd.grad(torch.ops.slang.twice(x, 1.0).sum(), x, create_graph=True)[0].requires_grad


def test_a_reload_may_change_the_arguments(file: Callable[[str], Path]) -> None:
    first = torch_slang.load(file(elementwise("resized")))
    assert torch.ops.slang.resized(TWO).tolist() == [4]
    second = torch_slang.load(file(elementwise("resized", "c", parameters="no_diff float c,")))
    assert torch.ops.slang.resized(TWO, 5.0).tolist() == [20]
    assert second.resized(TWO, c=0.5).tolist() == [2]
    assert "resized" in dir(torch.ops.slang)
    with pytest.raises(
        RuntimeError, match="slang::resized was reloaded with other arguments: use the module that the reload"
    ):
        first.resized(TWO)


def test_a_reload_may_add_and_remove_kernels(file: Callable[[str], Path]) -> None:
    first = torch_slang.load(file(elementwise("stays")))
    second = torch_slang.load(file(elementwise("stays") + elementwise("comes", 2).replace("import torch_slang;", "")))
    assert second.kernels() == ("comes", "stays")
    assert torch.ops.slang.comes(TWO).tolist() == [8]
    third = torch_slang.load(file(elementwise("stays", 5)))
    assert third.kernels() == ("stays",)
    assert second.comes(TWO).tolist() == [8]
    assert [m.stays(TWO).item() for m in (first, second, third)] == [4, 4, 20]


def test_names_are_pinned_for_those_who_hold_them(file: Callable[[str], Path]) -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.slang.pinned(x)

    def call_of_four(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.slang.pinned(x, 1.0, 2.0, 3.0)

    torch_slang.load(file(elementwise("pinned", 1)))
    overload = torch.ops.slang.pinned.default
    scripted = torch.jit.script(call)
    assert scripted(TWO).tolist() == [4]
    saved = io.BytesIO()
    torch.jit.save(scripted, saved)
    torch_slang.load(file(elementwise("pinned", 3)))
    assert overload(TWO).tolist() == scripted(TWO).tolist() == [12]
    saved.seek(0)
    x = TWO.clone().requires_grad_()
    torch.jit.load(saved)(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [12]
    # With other arguments the overload raises. A scripted function is not asked: it passes the arguments that it was
    # compiled with, and PyTorch's dispatcher reads as many as the new schema has.
    torch_slang.load(
        file(elementwise("pinned", "a * b * c", parameters="no_diff float a, no_diff float b, no_diff float c,"))
    )
    with pytest.raises(RuntimeError, match="argument"):
        overload(TWO)
    assert torch.jit.script(call_of_four)(TWO).tolist() == [24]
    assert torch.ops.slang.pinned(TWO, 1, 2, 3).tolist() == [24]


def test_threads_may_load_and_reload_at_once() -> None:
    def work(thread: int) -> None:
        for factor in (1, 2, 3):
            own = torch_slang.load(source=elementwise(f"own{thread}", factor), name=f"own{thread}")
            x = TWO.clone().requires_grad_()
            y = getattr(own, f"own{thread}")(x)
            assert (y.item(), torch.autograd.grad(y, x)[0].item()) == (4 * factor, 4 * factor)
            shared = torch_slang.load(source=elementwise("shared", factor), name="shared")
            assert shared.shared(TWO).item() == 4 * factor

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(work, thread) for thread in range(3)]:
            done.result()


def test_imported_and_included_files_are_part_of_the_text(tmp_path: Path) -> None:
    (tmp_path / "factors.slang").write_text("module factors; public static const float FACTOR = 2;")
    (tmp_path / "more.h").write_text("#define MORE 1\n")
    text = elementwise("composed", "FACTOR * MORE").replace(
        "import torch_slang;", 'import torch_slang;\nimport factors;\n#include "more.h"'
    )
    path = tmp_path / "composed.slang"
    path.write_text(text)
    module = torch_slang.load(path)
    assert module.composed(TWO).tolist() == [8]
    assert torch_slang.load(path) is module
    (tmp_path / "factors.slang").write_text("module factors; public static const float FACTOR = 3;")
    assert torch_slang.load(path).composed(TWO).tolist() == [12]
    (tmp_path / "more.h").write_text("#define MORE 10\n")
    assert torch_slang.load(path).composed(TWO).tolist() == [120]


def test_other_options_are_another_module(file: Callable[[str], Path]) -> None:
    path = file(elementwise("optional", "FACTOR_"))
    module = torch_slang.load(path, defines={"FACTOR_": 2})
    message = r"slang::optional is already defined by another module .*load this one with namespace="
    for options in ({"FACTOR_": 3}, {"FACTOR_": 2, "OTHER": 1}):
        with pytest.raises(RuntimeError, match=message):
            torch_slang.load(path, defines=options)
    with pytest.raises(RuntimeError, match=message):
        torch_slang.load(path, defines={"FACTOR_": 2}, fast_math=True)
    with pytest.raises(RuntimeError, match=message):
        torch_slang.load(path, defines={"FACTOR_": 2}, include_dirs=[path.parent])
    other = torch_slang.load(path, defines={"FACTOR_": 3}, namespace="other_options")
    assert torch.ops.slang.optional(TWO).tolist() == module.optional(TWO).tolist() == [8]
    assert torch.ops.other_options.optional(TWO).tolist() == other.optional(TWO).tolist() == [12]


def test_source_text_is_known_by_its_name() -> None:
    first = torch_slang.load(source=elementwise("texted", 1), name="texted")
    assert torch_slang.load(source=elementwise("texted", 1), name="texted") is first
    second = torch_slang.load(source=elementwise("texted", 2), name="texted")
    assert (first.texted(TWO).item(), second.texted(TWO).item()) == (4, 8)


def test_defines_take_numbers_truths_and_text() -> None:
    module = torch_slang.load(
        source=elementwise("defined", "A + (B ? 0.5 : 0) + (C ? 100 : 0) + D", out="N * A"),
        name="defined",
        defines={"A": 2, "B": True, "C": False, "D": "float(0.25)"},
    )
    assert module.defined(torch.ones(1, device="meta")).shape == (2,)
    assert module.defined(TWO)[0].item() == 4 * 2.75


def test_include_dirs_are_searched_after_the_files_own_folder(tmp_path: Path) -> None:
    for folder, factor in (("near", 1), ("first", 2), ("second", 3)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "factor.h").write_text(f"#define FACTOR_ {factor}\n")
    path = tmp_path / "near" / "searching.slang"
    path.write_text('#include "factor.h"\n' + elementwise("searching", "FACTOR_"))
    folders = [tmp_path / "first", str(tmp_path / "second")]
    assert torch_slang.load(path, include_dirs=folders).searching(TWO).tolist() == [4]
    (tmp_path / "near" / "factor.h").unlink()
    assert torch_slang.load(path, include_dirs=folders).searching(TWO).tolist() == [8]
    (tmp_path / "first" / "factor.h").unlink()
    assert torch_slang.load(path, include_dirs=folders).searching(TWO).tolist() == [12]
    (tmp_path / "near" / "factor.h").write_text("#define FACTOR_ 4\n")  # shadows the others again
    assert torch_slang.load(path, include_dirs=folders).searching(TWO).tolist() == [16]


def test_annotations_stand_for_attributes_of_unmodified_source(tmp_path: Path) -> None:
    source = """
    [AutoPyBindCUDA] [Differentiable] [CUDAKernel]
    void plain(DiffTensorView x, DiffTensorView y)
    {
        uint i = cudaThreadIdx().x + cudaBlockIdx().x * cudaBlockDim().x;
        if (i < x.size(0)) y[i] = x[i] * x[i];
    }
    """
    path = tmp_path / "plain.slang"
    path.write_text(source)
    module = torch_slang.load(
        path, annotations={"plain": {"x": "Shape(N)", "y": "Out(2 * N), Fill(7)", "launch_total": ["N"]}}
    )
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = module.plain(x)
    assert y.tolist() == [1, 4, 7, 7]
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2, 4]
    launched = torch.zeros(2)
    torch_slang.load(path, namespace="unannotated").plain_launch(x.detach(), launched, block_size=[32], grid_size=[1])
    assert launched.tolist() == [1, 4]


# --- What a module offers


STRUCTS = """
import torch_slang;
struct Range { float low; float high; };
struct Settings { no_diff float gain; no_diff int power; Range range; };
struct Pair { [Shape("N")] DiffTensorView<float> a; [Shape("N")] DiffTensorView<float> b; };

[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void structs(Pair pair, no_diff Settings settings, [Out("N")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= y.size(0)) return;
    float v = pair.a[i] * pair.b[i] * settings.gain + settings.power;
    y[i] = clamp(v, settings.range.low, settings.range.high);
}

[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void defaults([Shape("N")] DiffTensorView<float> x, [Out("N")] DiffTensorView<float> y,
              no_diff float a = 0.5, int b = 3, float c = -1)
{
    uint i = cudaGlobalIdx().x;
    if (i < y.size(0)) y[i] = c * (x[i] * a + b);
}

[PyBindCUDA(Auto)] [CudaKernel]
void transform([Shape("2, N")] TensorView<float> x, float2x2 m, float2 v, [Out("2, N")] TensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i >= x.size(1)) return;
    float2 r = mul(m, float2(x[0, i], x[1, i])) + v;
    y[0, i] = r.x;
    y[1, i] = r.y;
}

[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void both([Shape("N")] DiffTensorView<float> x, float s, [Out("N")] DiffTensorView<float> y,
          [Out("N")] DiffTensorView<float> z)
{
    uint i = cudaGlobalIdx().x;
    if (i >= y.size(0)) return;
    y[i] = s * x[i];
    z[i] = x[i];
}
"""


@pytest.fixture(scope="module")
def offers() -> torch_slang.Module:
    return torch_slang.load(source=STRUCTS, name="offers", namespace="offers")


Settings = collections.namedtuple("Settings", ["gain", "power", "range"])
AS_DICT = {"gain": 2.0, "power": 1, "range": {"low": 0.0, "high": 9.0}}


@pytest.mark.parametrize(
    "settings",
    [AS_DICT, Settings(2.0, 1, (0.0, 9.0)), (2.0, 1, [0.0, 9.0])],
    ids=["mapping", "named tuple", "tuple"],
)
def test_structs_are_mappings_or_tuples(offers: torch_slang.Module, settings: Any) -> None:
    a, b = torch.tensor([1.0, 2.0, 9.0]), torch.tensor([3.0, -1.0, 9.0])
    expected = (2 * a * b + 1).clamp(0, 9)
    torch.testing.assert_close(offers.structs((a, b), settings), expected)
    torch.testing.assert_close(offers.structs(settings=settings, pair={"b": b, "a": a}), expected)
    y = torch.zeros(3)
    offers.structs_launch((a, b), settings, y, [4], [1])
    torch.testing.assert_close(y, expected)


def test_structs_are_flat_for_the_operator(offers: torch_slang.Module) -> None:
    a, b = torch.ones(2), torch.full((2,), 3.0)
    flat = {"settings_gain": 1.0, "settings_power": 0, "settings_range_low": 0.0, "settings_range_high": 9.0}
    assert torch.ops.offers.structs(a, b, **flat).tolist() == [3, 3]
    assert offers.structs(pair_a=a, pair_b=b, **flat).tolist() == [3, 3]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gain": 1.0, "power": 0}, r"settings \(Settings\) lacks field range"),
        ({**AS_DICT, "colour": 1}, r"settings \(Settings\) has no field colour"),
        ((1.0, 0), r"settings \(Settings\) has fields \['gain', 'power', 'range'\], but got 2 values"),
        (3.0, r"expected settings \(Settings\) to be a mapping or a tuple, but got float"),
    ],
)
def test_structs_that_do_not_fit(offers: torch_slang.Module, settings: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        offers.structs((torch.ones(2), torch.ones(2)), settings)


def test_defaults_and_keywords(offers: torch_slang.Module) -> None:
    x = torch.tensor([4.0])
    assert offers.defaults(x).tolist() == [-5]
    assert offers.defaults(x, 1.0).tolist() == [-7]
    assert offers.defaults(x, b=0).tolist() == [-2]
    assert offers.defaults(c=2, x=x).tolist() == [10]
    # A differentiable number is a tensor to the operator, and tensors have no defaults.
    assert (
        str(torch.ops.offers.defaults.default._schema)
        == "offers::defaults(Tensor x, float a, int b, Tensor c) -> Tensor"
    )


def test_matrices_are_numbers_by_rows(offers: torch_slang.Module) -> None:
    x, m, v = torch.randn(2, 5), torch.tensor([[1.0, 2.0], [-3.0, 4.0]]), torch.tensor([0.5, -0.5])
    expected = m @ x + v[:, None]
    for matrix in (m, m.tolist(), (1, 2, -3, 4)):
        torch.testing.assert_close(offers.transform(x, matrix, v), expected)
    torch.testing.assert_close(torch.ops.offers.transform(x, [1, 2, -3, 4], [0.5, -0.5]), expected)
    with pytest.raises(RuntimeError, match=r"expected m .* to have 4 numbers, but got 6"):
        offers.transform(x, torch.ones(2, 3), v)


def test_several_outputs_are_a_tuple(offers: torch_slang.Module) -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    s = torch.tensor(3.0, requires_grad=True)
    y, z = offers.both(x, s)
    assert (y.tolist(), z.tolist()) == ([3, 6], [1, 2])
    y.sum().backward()
    assert x.grad is not None
    assert s.grad is not None
    assert (x.grad.tolist(), s.grad.item()) == ([3, 3], 3)


def test_a_module_tells_what_it_has(offers: torch_slang.Module) -> None:
    assert offers.kernels() == ("both", "defaults", "structs", "transform")
    assert offers.namespace == "offers"
    assert set(offers.kernels()) < set(dir(offers))
    assert repr(offers) == "<torch_slang.Module offers: both, defaults, structs, transform>"
    assert "offers::both(x: DiffTensorView<float" in repr(offers.both)
    assert "offers::both_launch(x: " in repr(offers.both_launch)
    assert offers.both.__name__ == "both"
    assert offers.both.op is torch.ops.offers.both.default
    assert offers.both is offers.both
    assert not hasattr(offers, "nobody")


def test_funcinfo(offers: torch_slang.Module) -> None:
    info = offers.funcinfo("structs")
    assert info.name == "structs"
    assert info.arguments == ("pair", "settings", "y")
    assert info.types[:2] == ("Pair", "Settings")
    assert info.backward_derivative == "structs_bwd"
    with pytest.raises(RuntimeError, match="no kernel or function named 'nobody'"):
        offers.funcinfo("nobody")


# --- torch.compile


@pytest.fixture
def fresh_compiler() -> Any:
    yield
    torch.compiler.reset()


def test_compiled_functions_use_the_program_of_the_reload(file: Callable[[str], Path], fresh_compiler: Any) -> None:
    torch_slang.load(file(elementwise("compiled", 1)))

    @torch.compile(fullgraph=True, backend="aot_eager")
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.slang.compiled(x) + 1

    x = TWO.clone().requires_grad_()
    assert function(x).tolist() == [5]
    torch_slang.load(file(elementwise("compiled", 3)))
    assert function(x).tolist() == [13]
    torch_slang.load(file(elementwise("compiled", 3, out="2 * N")))
    assert function(x).shape == (2,)
    function(x)[0].sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [12]


COMPILED_THRICE = """
import sys, torch, torch_slang
from pathlib import Path
from torch._dynamo.utils import counters

def run():
    torch.compiler.reset()
    torch_slang.load(path)
    function = torch.compile(lambda x: torch.ops.slang.tagged(x), fullgraph=True)
    print(tuple(function(torch.ones(4)).shape), counters["aot_autograd"]["autograd_cache_hit"])

path = Path(sys.argv[1])
run()
run()
path.write_text(path.read_text().replace('Out("N")', 'Out("N + 1")'))
run()
"""


@dear_test
def test_compile_caches_on_disk_know_the_shape_rules(file: Callable[[str], Path], tmp_path: Path) -> None:
    # Inductor, since "aot_eager" keeps no disk cache; with nothing to do but to call the operator.
    run = subprocess.run(
        [sys.executable, "-c", COMPILED_THRICE, str(file(elementwise("tagged")))],
        env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split("\n")[:3] == ["(4,) 0", "(4,) 1", "(5,) 1"]


@pytest.fixture
def own_tag() -> Iterator[None]:
    # Not monkeypatch: it deletes what it finds to be no attribute of the instance, and torch then has no such setting.
    before = torch.compiler.config.cache_key_tag
    torch.compiler.config.cache_key_tag = "mine"
    yield
    torch.compiler.config.cache_key_tag = before


@pytest.mark.usefixtures("own_tag")
def test_a_tag_of_the_users_own_stays() -> None:
    torch_slang.load(source=elementwise("tag_one"), name="tag_one")
    first = torch.compiler.config.cache_key_tag
    torch_slang.load(source=elementwise("tag_two"), name="tag_two")
    second = torch.compiler.config.cache_key_tag
    assert first.startswith("mine torch_slang:")
    assert second.startswith("mine torch_slang:")
    assert first != second


# --- The import


def test_the_import_is_light() -> None:
    program = """
    import sys, time, torch
    known = set(sys.modules)
    before = time.perf_counter()
    import torch_slang
    elapsed = time.perf_counter() - before
    slow = [name for name in set(sys.modules) - known if not name.startswith("torch_slang")]
    stats = torch_slang.cache.stats()
    print(elapsed < 0.3 or elapsed, slow, [stats[k] for k in ("slang_runs", "host_runs", "nvrtc_runs")])
    print(torch.ops.slang.sqr(torch.ones(2, device="meta")).shape, torch_slang.cache.stats() == stats)
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)
    assert run.stdout == "True [] [0, 0, 0]\ntorch.Size([2]) True\n"
