"""Every kernel of the tests and of ops/ compiles for a GPU, on machines that have none."""

from pathlib import Path
from typing import Any

import pytest
import torch
from cases import FOLDER, NOTHING, kernels, nvrtc_is_here
from long_tests import LONG, dear_test, some_cases, some_of, some_tests

import torch_slang

pytestmark = some_tests(2)

ARCHITECTURE = "sm_90"
ONLY_BACKWARD = {
    ("meetings", "block_share"),
    ("meetings", "wave_share"),
    ("slangtorch_own_backward", "norms_by_function"),
}
OWN_ELEMENTS = "own_elements"  # compiled in test_own_elements.py, which takes minutes
FILES = sorted(path.stem for path in FOLDER.glob("*.slang") if path.stem != OWN_ELEMENTS)


@pytest.fixture(scope="module", autouse=True)
def nvrtc() -> None:
    if not nvrtc_is_here():
        pytest.skip("NVRTC is not installed")


def is_cubin(image: bytes) -> bool:
    return image.startswith(b"\x7fELF") and b"tsl_entry" in image


def texts_of(name: str, number: int, about: dict[str, Any]) -> list[tuple[str, bool]]:
    """Which operators of a kernel are compiled, of packed tensors or of any.

    What the kinds differ in is the same for all kernels, so kernels take turns: each compiles its backward, which has
    the forward's text in it, and one more.
    """
    kinds = [kind for kind in ("forward", "backward", "launch", "fwd") if about[kind] is not None]
    every = [(kind, dense) for kind in kinds for dense in (True, False) if dense or kind != "fwd"]
    if LONG:
        return every
    backward = [text for text in every if text[0] == "backward"]
    others = [text for text in every if text[0] != "backward"]
    return backward[number % 2 :][:1] + others[number % len(others) :][:1]


@dear_test
@some_cases(2)
@pytest.mark.parametrize("file", FILES)
def test_kernels_compile_for_a_gpu(file: str) -> None:
    module = kernels(file)
    for number, name in enumerate(module.kernels()):
        about = module._handle.describe(name)
        types = ["float32" if "float32" in allowed else allowed[0] for _, allowed in about["type_parameters"]]
        for kind, dense in texts_of(name, number, about):
            if kind == "fwd" and (file, name) in ONLY_BACKWARD:
                with pytest.raises(
                    torch_slang.CompileError, match=r"\[BackwardDerivative\] and no \[ForwardDerivative\]"
                ):
                    module._handle.cubin(name, kind, types)
                continue
            assert is_cubin(module._handle.cubin(name, kind, types, dense, ARCHITECTURE)), (name, kind, dense)


# All views, barriers and waves, gradients of values beside them, launches of the callers own.
@some_cases(1)
@pytest.mark.parametrize("file", ["accumulation", "meetings", "value_meetings", "slangtorch_own_backward"])
def test_backwards_whose_lanes_sum_compile_for_a_gpu(file: str) -> None:
    module = kernels(file)
    for name in some_of(module.kernels(), 8):
        about = module._handle.describe(name)
        types = ["float32" if "float32" in allowed else allowed[0] for _, allowed in about["type_parameters"]]
        for kind in ("backward", "bwd"):
            if about[kind] is not None:
                image = module._handle.cubin(name, kind, types, architecture=ARCHITECTURE, wave_sums=True)
                assert is_cubin(image), (name, kind)


@some_cases(1)
@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("whole_tensors", ["shade", "shade_replicas", "shade_records", "sums", "lit", "together", "scatter", "count"]),
        ("slangpy_tensors", ["interfaces", "uniform", "add_to", "net", "cube"]),
    ],
)
def test_functions_that_see_tensors_compile_for_a_gpu(file: str, names: list[str]) -> None:
    module = kernels(file)
    for name in names:
        getattr(module, name).register()
        about = module._handle.describe(name)
        types = ["float32" for _ in about["type_parameters"]]
        for kind in ("forward", "backward"):
            if about[kind] is not None:
                assert is_cubin(module._handle.cubin(name, kind, types, True, ARCHITECTURE)), (name, kind)


# Of calls under torch.vmap: with values and records, replicas, group-shared memory, virtual threads in words.
@some_cases(3)
@pytest.mark.parametrize(
    ("file", "kernel"),
    [("vectors", "place"), ("accumulation", "gather_asr"), ("accumulation", "fixed_r"), ("meetings", "block_share"),
     ("pointwise", "polar")],
)  # fmt: skip
@pytest.mark.parametrize("sample_dims", [1, 2])
def test_kernels_for_samples_compile_for_a_gpu(file: str, kernel: str, sample_dims: int) -> None:
    handle = kernels(file)._handle
    types = ["float32" for _ in handle.describe(kernel)["type_parameters"]]
    for kind in ("forward", "backward"):
        text = handle.cubin(kernel, kind, types, architecture=ARCHITECTURE, lanes=4, sample_dims=sample_dims)
        assert is_cubin(text), kind


@some_cases(1)
@pytest.mark.parametrize(("file", "kernel"), [("vectors", "place"), ("pointwise", "polar")])
@pytest.mark.parametrize("kind", ["jvp", "jvp_backward"])
def test_second_derivatives_for_samples_compile_for_a_gpu(file: str, kernel: str, kind: str) -> None:
    handle = kernels(file)._handle
    types = ["float32" for _ in handle.describe(kernel)["type_parameters"]]
    assert is_cubin(handle.cubin(kernel, kind, types, architecture=ARCHITECTURE, sample_dims=1))


@some_cases(2)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize(("file", "kernel"), [("sqr", "sqr"), ("trilinear", "trilinear"), ("matmul", "matrix_product")])
def test_built_in_operators_compile_for_a_gpu_in_every_dtype(file: str, kernel: str, dtype: torch.dtype) -> None:
    path = Path(torch_slang.__file__).with_name("ops") / f"{file}.slang"
    handle = torch_slang.load(path, namespace="test_built_in")._handle
    about = handle.describe(kernel)
    for kind in ("forward", "backward"):
        if about[kind] is not None:
            types = [str(dtype).removeprefix("torch.")]
            assert is_cubin(handle.cubin(kernel, kind, types, True, ARCHITECTURE))


def test_kernels_may_be_named_like_anything_in_the_launcher() -> None:
    names = ["VECTORS", "SHARED", "GROUPS", "AXIS", "REPEATS", "BOUNDS", "IS_BOUNDED", "ENTRY", "ARGS"]
    source = "import torch_slang;\n" + "".join(
        f'[PyBindCUDA(Auto)] [CudaKernel] void {name}([Out("4")] TensorView<float> x) {{ x[cudaThreadIdx().x] = 1; }}\n'
        for name in names
    )
    module = torch_slang.load(source=source, name="launcher_names", namespace="launcher_names")
    for name in names:
        text = module._handle.cuda_text(name, "forward", [], True, False)
        assert f"tsl::run_tiles<Kernel, &Kernel::tsl_{name}_forward, tsl::NoVectors, tsl::NothingShared, " in text
    assert is_cubin(module._handle.cubin("VECTORS", "forward", [], True, ARCHITECTURE))


def test_an_unknown_architecture_is_named() -> None:
    module = torch_slang.load(source=NOTHING, name="nothing.slang", namespace="test_nothing")
    with pytest.raises(RuntimeError, match="sm_12345"):
        module._handle.cubin("nothing", "forward", [], True, "sm_12345")


def test_functions_with_generators_compile_for_a_gpu() -> None:
    source = """
[Differentiable] float noisy(float x, float3 noise, no_diff int2 place) { return sin(x * noise.y + place.x) * noise.z; }
uint hashed(uint v) { return v; }
"""
    module = torch_slang.load(source=source, name="generators_for_a_gpu", namespace="generators_for_a_gpu")
    noisy = module._handle.generating("noisy", [1, 2])
    for name in (noisy, f"{noisy}_jvp"):
        for kind in ("forward", "backward"):
            assert is_cubin(module._handle.cubin(name, kind, [], True, ARCHITECTURE)), (name, kind)
    hashed = module._handle.generating("hashed", [0])
    assert is_cubin(module._handle.cubin(hashed, "forward", [], True, ARCHITECTURE))
