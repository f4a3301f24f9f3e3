"""Words that mean something somewhere as names of kernels, functions, arguments, fields and outputs.

Each works, with right values and gradients, or is refused by a message that names it. The words are a sample unless
TORCH_SLANG_LONG_TESTS=1.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from cases import nvrtc_is_here
from long_tests import some_cases, some_tests

import torch_slang
import torch_slang.slangtorch as slangtorch
from torch_slang._module import members_of

pytestmark = some_tests(3)

Tensor = torch.Tensor

POOLS = {
    "C++": "auto char class const default delete float32 int long new operators register signed template union",
    "CUDA": "threadIdx blockDim warpSize __half __syncthreads_mine _waveSum _getLaneId_mine atomicAdd __ldg",
    "types of Slang": "float float3 uint half vector matrix Optional Ptr Texture2D int64_t bool void TensorView",
    "functions of Slang": "exp min max dot abs clamp lerp length asint countbits detach diffPair bwd_diff printf",
    "other names of Slang": "reinterpret dzero dadd AtomicAdd cudaGlobalIdx Auto CudaKernel property T this",
    "prelude": "multiply multiplied gradient accumulate_fixed data_ptr data_ptr_at Kernel Own own args views slots",
    "emitted text": "tsl_multiply tsl_p0 tsl_r __tsl_view words i0 s_bwdProp_x _S1 TSL_LANES tsl x_0",
    "Python": "lambda def is None True print len self cls kwargs list type __init__ __class__ __getattr__ __dict__",
    "named tuples": "_result result results count index fields _fields _asdict __call__",
    "torch": "name _dir mm matmul add default op loads Tensor Scalar SymInt dtype device out grad requires_grad",
    "modules": "explain functions kernels funcinfo namespace _handle _members flatten launch_flat gradients",
    "launcher": "ENTRY ARGS VECTORS SHARED GROUPS AXIS REPEATS BOUNDS IS_BOUNDED LAUNCH_BOUNDS TSL_ENTRY",
    "others": "launch TensorView_2 main",
    "kernels": "bwd fwd launchRaw argnames register_autograd DiffTensorView",
    "operators": "mask grad_y grad_x grad_result tangent_x block_size grid_size launch_block_size launchBlockSize",
    "suffixes": "launchGridSize x_launch x_backward x_bwd x_fwd f_out launch_total x_out backward_mask launch_grad_x",
}
WORDS = sorted({word for pool in POOLS.values() for word in pool.split()})
SAMPLE = len(WORDS) if os.environ.get("TORCH_SLANG_LONG_TESTS") == "1" else 4
BLOCK, GRID = (32, 1, 1), (1, 1, 1)
VALUES = torch.tensor([0.5, 1.5, -0.25, 3.0])
HEAD = "[PyBindCUDA(Auto)] [Differentiable] [CudaKernel] void"
BODY = "uint n = cudaThreadIdx().x; if (n >= {x}.size(0)) return; {real} v = {x}[n]; {y}[n] = v * v * {real}({factor});"

_numbers = itertools.count()


def kernel_text(name: str, x: str, y: str, factor: int, generic: bool = False) -> str:
    real, parameters = ("T", "<T : __BuiltinFloatingPointType>") if generic else ("float", "")
    view = f"DiffTensorView<{real}>"
    body = BODY.format(x=x, y=y, real=real, factor=factor)
    return f'{HEAD} {name}{parameters}([Shape("N")] {view} {x}, [Out("N")] {view} {y}) {{ {body} }}\n'


def check(call: Callable[[Tensor], Tensor], factor: int) -> None:
    x = VALUES.clone().requires_grad_()
    y = call(x)
    torch.testing.assert_close(y, factor * VALUES * VALUES)
    torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], 2 * factor * VALUES)


def check_launches(launch: Callable[..., Any], backward: Callable[..., Any], factor: int) -> None:
    """Of a kernel: `launch(x, y)`, `backward((x, grad_x), (y, grad_y))`."""
    y, grad_x = torch.zeros_like(VALUES), torch.zeros_like(VALUES)
    launch(VALUES, y)
    torch.testing.assert_close(y, factor * VALUES * VALUES)
    backward((VALUES, grad_x), (y, torch.ones_like(VALUES)))
    torch.testing.assert_close(grad_x, 2 * factor * VALUES)


# --- What a word may be the name of: the text, and the check of one that was loaded


def function_text(word: str, factor: int) -> str:
    return f"[Differentiable] float {word}(float a) {{ return a * a * {factor}; }}\n"


def generic_function_text(word: str, factor: int) -> str:
    return f"[Differentiable] Z {word}<Z : __BuiltinFloatingPointType>(Z a) {{ return a * a * Z({factor}); }}\n"


def check_function(module: Any, word: str, factor: int) -> None:
    check(getattr(module, word), factor)
    check(lambda x: getattr(module, word)(a=x), factor)


def check_kernel(module: Any, word: str, factor: int) -> None:
    check(getattr(module, word), factor)
    check(getattr(getattr(torch.ops, members_of(module).handle.namespace), word), factor)


def check_function_argument(module: Any, word: str, factor: int) -> None:
    check(lambda x: getattr(module, f"fun{factor}")(**{word: x}), factor)


def check_kernel_argument(module: Any, word: str, factor: int) -> None:
    kernel = f"ker{factor}"
    check(lambda x: getattr(module, kernel)(**{word: x}), factor)
    launch = {"launchBlockSize": BLOCK, "launchGridSize": GRID}
    if word in launch:  # the kernel's own: then by position
        check_launches(
            lambda x, y: getattr(module, f"{kernel}_launch")(x, y, BLOCK, GRID),
            lambda x, y: getattr(module, f"{kernel}_bwd")(x, y, BLOCK, GRID),
            factor,
        )
    else:
        check_launches(
            lambda x, y: getattr(module, f"{kernel}_launch")(**{word: x, "zz": y}, **launch),
            lambda x, y: getattr(module, f"{kernel}_bwd")(**{word: x, "zz": y}, **launch),
            factor,
        )


def check_output(module: Any, word: str, factor: int) -> None:
    kernel = f"ker{factor}"
    check(getattr(module, kernel), factor)
    check_launches(
        lambda x, y: getattr(module, f"{kernel}_launch")(x, y, BLOCK, GRID),
        lambda x, y: getattr(module, f"{kernel}_bwd")(x, y, BLOCK, GRID),
        factor,
    )


def field_text(word: str, factor: int) -> str:
    struct = f"struct S{factor} : IDifferentiable {{ float {word}; float zz; }};\n"
    body = f"S{factor} r; r.{word} = s.{word} * s.{word} * {factor}; r.zz = 0; return r;"
    return f"{struct}[Differentiable] S{factor} fun{factor}(S{factor} s) {{ {body} }}\n"


def check_field(module: Any, word: str, factor: int) -> None:
    check(lambda x: getattr(module, f"fun{factor}")({word: x, "zz": 1.0})[0], factor)
    check(lambda x: getattr(module, f"fun{factor}")(s=(x, 1.0))[0], factor)


def check_drop_in(module: Any, word: str, factor: int) -> None:
    kernel = getattr(module, word)
    check_launches(
        lambda x, y: kernel(a=x, zz=y).launchRaw(blockSize=BLOCK, gridSize=GRID),
        lambda x, y: kernel.bwd(a=x, zz=y).launchRaw(blockSize=BLOCK, gridSize=GRID),
        factor,
    )


def check_drop_in_argument(module: Any, word: str, factor: int) -> None:
    kernel = getattr(module, f"ker{factor}")
    check_launches(
        lambda x, y: kernel(**{word: x, "zz": y}).launchRaw(blockSize=BLOCK, gridSize=GRID),
        lambda x, y: kernel.bwd(**{word: x, "zz": y}).launchRaw(blockSize=BLOCK, gridSize=GRID),
        factor,
    )


ROLES: dict[str, tuple[Callable[[str, int], str], Callable[[Any, str, int], None]]] = {
    "function": (function_text, check_function),
    "generic function": (generic_function_text, check_function),
    "kernel": (lambda word, k: kernel_text(word, "a", "zz", k), check_kernel),
    "generic kernel": (lambda word, k: kernel_text(word, "a", "zz", k, generic=True), check_kernel),
    "argument of a function": (
        lambda word, k: f"[Differentiable] float fun{k}(float {word}) {{ return {word} * {word} * {k}; }}\n",
        check_function_argument,
    ),
    "argument of a kernel": (lambda word, k: kernel_text(f"ker{k}", word, "zz", k), check_kernel_argument),
    "output of a kernel": (lambda word, k: kernel_text(f"ker{k}", "y", word, k), check_output),
    "field": (field_text, check_field),
    "kernel of the drop-in": (lambda word, k: kernel_text(word, "a", "zz", k), check_drop_in),
    "argument of the drop-in": (lambda word, k: kernel_text(f"ker{k}", word, "zz", k), check_drop_in_argument),
}


class Names:
    """Loads words in one role: all in one module, or those that this has to be refused for in smaller ones."""

    def __init__(self, role: str, folder: Path) -> None:
        self.text, self.check = ROLES[role]
        self.is_drop_in = "drop-in" in role
        self.folder = folder
        self.wrong: dict[str, str] = {}

    def try_all(self, words: Sequence[str]) -> None:
        factors = {word: k + 2 for k, word in enumerate(words)}
        try:
            module = self.load("".join(self.text(word, k) for word, k in factors.items()))
        except Exception as error:
            if len(words) == 1:
                self.note_refusal(words[0], error)
                return
            middle = len(words) // 2
            self.try_all(words[:middle])
            self.try_all(words[middle:])
            return
        for word, factor in factors.items():
            try:
                self.check(module, word, factor)
            except Exception as error:
                if isinstance(error, AssertionError):
                    self.wrong[word] = str(error)
                else:
                    self.note_refusal(word, error)

    def load(self, text: str) -> Any:
        number = next(_numbers)
        if not self.is_drop_in:
            return torch_slang.load(source=text, name=f"names{number}.slang", namespace=f"names{number}")
        path = self.folder / f"names{number}.slang"
        path.write_text(text)
        return slangtorch.loadModule(str(path))

    def note_refusal(self, word: str, error: Exception) -> None:
        """A refusal names the word; or Slang has refused the user's text, and shows the line."""
        named = isinstance(error, (RuntimeError, AttributeError, TypeError)) and word in str(error)
        slangs = isinstance(error, torch_slang.CompileError) and any(
            words in str(error) for words in (".slang does not compile", "the Slang compiler was ended by signal")
        )
        if not (named or slangs) or "has no attribute" in str(error):
            self.wrong[word] = f"{type(error).__name__}: {error}"


@some_cases(1)
@pytest.mark.parametrize("role", ROLES)
def test_names_work_or_are_refused(role: str, tmp_path: Path) -> None:
    names = Names(role, tmp_path)
    names.try_all(random.Random(f"{role} 21").sample(WORDS, SAMPLE))
    assert names.wrong == {}


# --- What the words above stand for


def load(text: str) -> torch_slang.Module:
    number = next(_numbers)
    return torch_slang.load(source=text, name=f"names{number}.slang", namespace=f"names{number}")


@some_cases(1)
@pytest.mark.parametrize(
    "name", ["multiply", "multiply_add", "accumulate_fixed", "_waveSum", "__shfl_all", "__syncthreads_"]
)
def test_a_name_that_begins_like_one_of_the_prelude_is_a_name(name: str, device: torch.device) -> None:
    text = f"[Differentiable] float {name}(float a) {{ if (a > 9) return a; return a * a * 3; }}\n"
    module = load(text + kernel_text("multiply_it", "a", "b", 3).replace("v * v", f"{name}(v) / 3"))
    x = VALUES.to(device, copy=True).requires_grad_()
    y = module.multiply_it(x)
    torch.testing.assert_close(y, 3 * x * x)
    torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], 6 * x)
    assert not module.explain("multiply_it")[0].meets


# Attributes, intrinsics and directives, as far as comments and strings go.
WORDS_IN_PASSING = " ".join(
    f"[{name}]"
    for name in (
        *("PreferRecompute", "PreferCheckpoint", "BackwardDerivativeOf(f)", "BackwardDerivative(f)", "ForceInline"),
        *("ForwardDerivative(f)", "MaxIters(2)", "BlockSize(7)", "TorchEntryPoint", "CudaHost", "NoDiffThis", "Shape"),
        *(
            "Tune",
            "__unsafeForceInlineEarly",
            "tsl_multiply",
            "TSL_AT(0, 3)",
            "data_ptr",
            "__half",
            "GroupMemoryBarrier()",
        ),
    )
)
# Kernels and functions of the user's whose names something else has: in Slang, in the prelude, in emitted text.
TAKEN = """
// WORDS
#define ODD 1  // WORDS
/* WORDS
   [ForceInline] */
struct Own : IDifferentiable { float load; float data_ptr; };
[Differentiable] float gradient(float half_, Own own) { return half_ * own.load; }
[Differentiable] float launch(Own own[2], int k)
{
    Own dzero = own[k];
    return gradient(dzero.data_ptr, dzero) + own[1].load;
}
[Differentiable] float TensorView_2(float tsl_x) { float TSL_LANES = tsl_x * 2; return TSL_LANES; }
[Differentiable] float DiffTensorView_load(float words) { return words; }
[Differentiable] float tsl_x(float args) { return args; }
// What it is: 2 x.
[BackwardDerivative(doubled_backward)] float doubled(float x) { return 2 * x; }
void doubled_backward(inout DifferentialPair<float> x, float d) { x = diffPair(x.p, 2 * d); }
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void multiply([Shape("N")] DiffTensorView<float> x, [Out("N")] DiffTensorView<float> data_ptr)
{
    uint main = cudaGlobalIdx().x;  // WORDS
    static_assert(true, "WORDS");
    if (main >= x.size(0)) return;
    Own own[2];
    for (int k = 0; k < 2; ++k) { own[k].load = x[main]; own[k].data_ptr = 1; }
    data_ptr[main] = launch(own, int(main % 2)) * TensorView_2(x[main]) + DiffTensorView_load(tsl_x(x[main]));
}
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void main([Shape("N")] DiffTensorView<float> x, [Out("N")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < x.size(0)) y[i] = doubled(x[i]) * x[i];
}
""".replace("WORDS", WORDS_IN_PASSING)


def test_names_that_something_else_has_and_words_in_comments_and_strings(device: torch.device) -> None:
    module = load(TAKEN)
    x = VALUES.to(device, copy=True).requires_grad_()
    # launch is x + x, times 2 x, plus x.
    for call, value, slope in ((module.multiply, 4 * x * x + x, 8 * x + 1), (module.main, 2 * x * x, 4 * x)):
        y = call(x)
        torch.testing.assert_close(y, value)
        torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], slope.detach())
    assert not module.explain("multiply")[0].meets
    # multiply calls no function with a [BackwardDerivative]: words in comments do not make it one that may.
    tangent, result = torch.full_like(x, 2.0), (torch.zeros_like(x), torch.zeros_like(x))
    module.multiply_fwd((x.detach(), tangent), result, launchBlockSize=BLOCK, launchGridSize=GRID)
    torch.testing.assert_close(result[1], (2 * (8 * x + 1)).detach())
    with pytest.raises(torch_slang.CompileError, match=r"doubled has a \[BackwardDerivative\]"):
        module.main_fwd((x.detach(), tangent), result, launchBlockSize=BLOCK, launchGridSize=GRID)


@pytest.mark.parametrize("name", ["multiply", "main"])
def test_names_that_something_else_has_compile_for_a_gpu(name: str) -> None:
    if not nvrtc_is_here():
        pytest.skip("NVRTC is not installed")
    handle = members_of(load(TAKEN)).handle
    for kind in ("forward", "backward"):
        assert handle.cubin(name, kind, [], True, "sm_90").startswith(b"\x7fELF")


@some_cases(2)
@pytest.mark.parametrize("name", ["gradient", "launch", "TensorView_2", "half", "tsl_x"])
def test_kernels_whose_names_something_else_has(name: str, device: torch.device) -> None:
    if name in ("half", "tsl_x"):
        with pytest.raises((RuntimeError, AttributeError), match=name):
            getattr(load(kernel_text(name, "a", "b", 3)), name)(VALUES)
        return
    x = VALUES.to(device, copy=True).requires_grad_()
    y = getattr(load(kernel_text(name, "a", "b", 3)), name)(x)
    torch.testing.assert_close(y, 3 * x * x)
    torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], 6 * x.detach())


@some_cases(3)
@pytest.mark.parametrize("name", ["uint", "half", "float3", "double", "int16_t", "matrix"])
@pytest.mark.parametrize("generic", [False, True])
def test_the_name_of_a_type_is_refused_or_a_function(name: str, generic: bool) -> None:
    module = load((generic_function_text if generic else function_text)(name, 3) + function_text("other", 2))
    assert module.other(VALUES).equal(2 * VALUES * VALUES)
    if name == "matrix" and not generic:
        assert module.matrix(VALUES).equal(3 * VALUES * VALUES)
        return
    with pytest.raises(AttributeError, match=f"{name} is not available: {name} is the name of a type too"):
        getattr(module, name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("uint countbits(uint a) { return a * 3; }", lambda a: a * 3),
        ("int countbits(int a) { return a * 3; }", lambda a: a * 3),
        ("int asint(int a) { return a + 5; }", lambda a: a + 5),
        ("int min(int a, int b = 7) { return a + b; }", lambda a: a + 7),
        ("T abs<T : __BuiltinIntegerType>(T a) { return a * a; }", lambda a: a * a),
    ],
)
def test_a_function_goes_before_one_of_slang(text: str, expected: Callable[[Tensor], Tensor]) -> None:
    module = load(text)
    a = torch.tensor([1, 2, 11], dtype=torch.uint32 if "uint" in text else torch.int32)
    (name,) = module.functions()
    assert getattr(module, name)(a).tolist() == expected(a.to(torch.int64)).tolist()


def test_methods_of_a_module_stay_within_reach() -> None:
    names = ("explain", "functions", "kernels", "funcinfo", "namespace", "_handle")
    module = load("".join(function_text(name, k + 2) for k, name in enumerate(names)))
    for k, name in enumerate(names):
        assert getattr(module, name)(VALUES).equal((k + 2) * VALUES * VALUES)
    assert torch_slang.Module.functions(module) == names
    assert torch_slang.Module.kernels(module) == ()
    assert torch_slang.Module.funcinfo(module, "explain").arguments == ("a",)


def test_arguments_of_the_operators_leave_their_names_to_those_of_the_kernel(device: torch.device) -> None:
    text = """
    [PyBindCUDA(Auto)] [Differentiable]
    void f([Shape("N")] DiffTensorView<float> mask, [Shape("N")] DiffTensorView<float> grad_y,
           [Out("N")] DiffTensorView<float> y, no_diff float block_size, int launch_block_size)
    {
        uint i = cudaGlobalIdx().x;
        if (i >= mask.size(0)) return;
        y[i] = mask[i] * grad_y[i] * block_size;
    }"""
    module = load(text)
    x, g = (values.to(device, copy=True).requires_grad_() for values in (VALUES, VALUES.flip(0)))
    y = module.f(mask=x, grad_y=g, block_size=2.0, launch_block_size=1)
    torch.testing.assert_close(torch.autograd.grad(y.sum(), (x, g)), (2 * g, 2 * x))
    schema = str(getattr(torch.ops, module.namespace).f_backward.default._schema)
    assert "Tensor backward_grad_y, Tensor mask, Tensor grad_y" in schema
    assert "bool[] backward_mask" in schema
    x, g, result = x.detach(), g.detach(), torch.zeros_like(x)
    gradients = [torch.zeros_like(x), torch.zeros_like(x)]
    arguments = [(x, gradients[0]), (g, gradients[1]), (result, torch.ones_like(x)), 2.0, 1]
    module.f_bwd(*arguments, launchBlockSize=BLOCK, launchGridSize=GRID)
    torch.testing.assert_close(gradients, [2 * g, 2 * x])
    module.f_launch(x, g, result, 3.0, 1, launch_launch_block_size=BLOCK, grid_size=GRID)
    torch.testing.assert_close(result, 3 * x * g)


class TestKernelsNamedAsOperatorsOfAnother:
    FACTORS: ClassVar = {
        name: k + 2 for k, name in enumerate(["k", "k_launch", "k_bwd", "k_bwd_diff", "k_fwd", "k_backward"])
    }
    TEXT = "".join(kernel_text(name, "a", "b", k).replace('[Out("N")]', "") for name, k in FACTORS.items())

    def test_keep_their_names_and_the_others_have_an_underscore(self) -> None:
        module = load(self.TEXT)
        for name in ("k", "k_launch", "k_bwd"):
            about = module.funcinfo(name)
            launch, backward = (getattr(module, f"{name}{suffix}") for suffix in ("_launch", "_bwd"))
            if name == "k":
                launch, backward = module.k_launch_, module.k_bwd_
                assert about.backward_derivative == "k_bwd_"
            check_launches(
                lambda x, y, launch=launch: launch(x, y, BLOCK, GRID),
                lambda x, y, backward=backward: backward(x, y, BLOCK, GRID),
                self.FACTORS[name],
            )

    def test_run_in_the_drop_in(self, tmp_path: Path) -> None:
        path = tmp_path / "named.slang"
        path.write_text(self.TEXT)
        module = slangtorch.loadModule(str(path))
        for name in ("k", "k_launch", "k_bwd", "k_bwd_diff"):
            kernel = getattr(module, name)
            check_launches(
                lambda x, y, kernel=kernel: kernel(x, y).launchRaw(blockSize=BLOCK, gridSize=GRID),
                lambda x, y, kernel=kernel: kernel.bwd(x, y).launchRaw(blockSize=BLOCK, gridSize=GRID),
                self.FACTORS[name],
            )


class TestFunctionsNamedAsOperatorsOfAnother:
    @some_cases(1)
    @pytest.mark.parametrize("suffix", ["_launch", "_bwd", "_fwd"])
    def test_keep_their_names_beside_a_kernel(self, suffix: str) -> None:
        module = load(kernel_text("k", "a", "b", 2) + function_text(f"k{suffix}", 3))
        check(module.k, 2)
        check(getattr(module, f"k{suffix}"), 3)
        check_launches(
            lambda x, y: getattr(module, "k_launch_" if suffix == "_launch" else "k_launch")(x, y, BLOCK, GRID),
            lambda x, y: getattr(module, "k_bwd_" if suffix == "_bwd" else "k_bwd")(x, y, BLOCK, GRID),
            2,
        )

    def test_keep_their_names_beside_a_function(self) -> None:
        for first, second in itertools.permutations([("f", 2), ("f_out", 3)]):
            module = load(function_text("f", 2) + function_text("f_out", 3))
            for name, factor in (first, second):
                check(getattr(module, name), factor)
            result = torch.empty_like(VALUES)
            module.f(VALUES, _result=result)
            torch.testing.assert_close(result, 2 * VALUES * VALUES)

    def test_are_refused_where_a_derivative_has_the_name(self) -> None:
        module = load(function_text("f", 2) + function_text("f_backward", 3))
        check(module.f, 2)
        with pytest.raises(RuntimeError, match=r"::f_backward is registered already, by \w+::f: rename one, or load"):
            module.f_backward(VALUES)


def test_names_of_torch_ops_are_refused_where_operators_would_have_them() -> None:
    with pytest.raises(RuntimeError, match=r"the kernel .*::name cannot be an operator, since its name, 'name', is an"):
        load(kernel_text("name", "a", "b", 2))
    module = load(kernel_text("name", "a", "b", 2).replace('[Out("N")]', "") + function_text("_dir", 2))
    y = torch.zeros_like(VALUES)
    module.name_launch(VALUES, y, BLOCK, GRID)  # no operator is called `name`
    torch.testing.assert_close(y, 2 * VALUES * VALUES)
    with pytest.raises(AttributeError, match="_dir is not available: its name, '_dir', is an attribute of"):
        module._dir  # noqa: B018


@pytest.mark.parametrize("text", [function_text("__init__", 2), kernel_text("__class__", "a", "b", 2)])
def test_names_that_are_special_in_python_are_refused(text: str) -> None:
    with pytest.raises(RuntimeError, match=r"since its name, '__\w+__', has a meaning of its own in Python: rename it"):
        load(text)


def test_names_of_our_own_are_refused() -> None:
    module = load(function_text("tsl_anything", 2))
    with pytest.raises(AttributeError, match="names that begin with tsl_ or __tsl_, as tsl_anything does, are torch"):
        module.tsl_anything  # noqa: B018
