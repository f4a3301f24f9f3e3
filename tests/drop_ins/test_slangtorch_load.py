"""``loadModule``: defines, folders, flags, imports, edits and caches."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from slangtorch_kernels import BLOCK, KERNELS, ONE, module, numbers

import torch_slang.slangtorch as slangtorch


@pytest.fixture
def derivatives() -> Any:
    return module("derivatives")


@pytest.fixture
def copied(tmp_path: Path) -> Callable[..., Path]:
    """Copies kernels to where they may be edited; gives the path of the first."""

    def copy(*names: str) -> Path:
        for name in names:
            shutil.copy(next(KERNELS.rglob(name)), tmp_path / name)
        return tmp_path / names[0]

    return copy


def scaled(module: Any, device: torch.device) -> list[float]:
    x = torch.tensor([1.0, 2.0], device=device)
    y = torch.zeros_like(x)
    module.scale(x=x, y=y).launchRaw(BLOCK, ONE)
    return y.tolist()


def test_defines_as_text_reach_imported_files(device: torch.device) -> None:
    path = KERNELS / "imports" / "slangtorch_import.slang"
    twice = slangtorch.loadModule(path, defines={"FACTOR": "2.0", "SHIFT": 1, "MODULUS": 4})
    thrice = slangtorch.loadModule(path, defines={"FACTOR": 3, "SHIFT": "0.5"})
    assert scaled(twice, device) == [3, 5]
    assert scaled(thrice, device) == [3.5, 6.5]
    assert scaled(twice, device) == [3, 5]


def test_defines_and_folders_as_flags(copied: Callable[..., Path], device: torch.device) -> None:
    path = copied("slangtorch_import.slang", "slangtorch-imported-part.slang")
    elsewhere = path.parent / "elsewhere"
    elsewhere.mkdir()
    (path.parent / "slangtorch-imported-part.slang").rename(elsewhere / "slangtorch-imported-part.slang")
    with pytest.raises(RuntimeError, match="slangtorch_imported_part"):
        slangtorch.loadModule(path, defines={"FACTOR": 2, "SHIFT": 0})
    for folder in ({"includePaths": [elsewhere]}, {"extraSlangFlags": ["-I", str(elsewhere)]}):
        options = {"defines": {"FACTOR": 2, "SHIFT": 0}, **folder}
        assert scaled(slangtorch.loadModule(path, **options), device) == [2, 4]
    flags = ["-DFACTOR=4", "-D", "SHIFT=1", f"-I{elsewhere}"]
    assert scaled(slangtorch.loadModule(path, extraSlangFlags=flags), device) == [5, 9]


def test_an_edit_makes_a_new_module_and_leaves_the_old(copied: Callable[..., Path], device: torch.device) -> None:
    path = copied("slangtorch_import.slang", "slangtorch-imported-part.slang")
    defines = {"FACTOR": 2, "SHIFT": 0}
    first = slangtorch.loadModule(path, defines=defines)
    assert slangtorch.loadModule(path, defines=defines) is first
    part = path.parent / "slangtorch-imported-part.slang"
    part.write_text(part.read_text().replace("return v *", "return 10 * v *"))
    second = slangtorch.loadModule(path, defines=defines)
    path.write_text(
        path.read_text().replace("TensorView<float> x, TensorView<float> y", "float s, TensorView<float> x")
    )
    path.write_text(path.read_text().replace("y[at.x] =", "x[at.x] = s *"))
    third = slangtorch.loadModule(path, defines=defines)
    assert scaled(second, device) == [20, 40]
    assert scaled(first, device) == [2, 4]
    x = torch.ones(2, device=device)
    third.scale(s=3.0, x=x).launchRaw(BLOCK, ONE)
    assert x.tolist() == [60, 60]


def test_a_cuda_header_is_found_in_include_paths(copied: Callable[..., Path], device: torch.device) -> None:
    path = copied("slangtorch_prelude.slang")
    x = torch.tensor([1.0, 2.0], device=device)
    y = torch.zeros_like(x)
    for folder in ({"includePaths": [KERNELS]}, {"extraCudaFlags": ["-I", str(KERNELS)]}):
        slangtorch.loadModule(path, **folder).offset(x=x, y=y).launchRaw(BLOCK, ONE)
        assert y.tolist() == [3, 4]


def test_an_edit_of_a_cuda_header_is_seen(copied: Callable[..., Path], device: torch.device) -> None:
    path = copied("slangtorch_prelude.slang", "slangtorch_prelude.cuh")
    for offset in (2, 5):
        header = path.parent / "slangtorch_prelude.cuh"
        header.write_text(header.read_text().replace("2.0f", f"{offset}.0f"))
        x = torch.tensor([1.0, 2.0], device=device)
        y = torch.zeros_like(x)
        slangtorch.loadModule(path).offset(x=x, y=y).launchRaw(BLOCK, ONE)
        assert y.tolist() == [1 + offset, 2 + offset]


def test_a_failed_load_is_a_runtime_error_and_spoils_nothing(copied: Callable[..., Path]) -> None:
    path = copied("slangtorch_import.slang", "slangtorch-imported-part.slang")
    with pytest.raises(RuntimeError, match=r"slangtorch-imported-part\.slang"):
        slangtorch.loadModule(path)
    assert scaled(slangtorch.loadModule(path, defines={"FACTOR": 1, "SHIFT": 0}), torch.device("cpu")) == [1, 2]
    with pytest.raises(RuntimeError, match="no such file"):
        slangtorch.loadModule(path.parent / "absent.slang")


def test_modules_with_equal_names_do_not_meet(
    copied: Callable[..., Path], derivatives: Any, device: torch.device
) -> None:
    other = copied("slangtorch_derivatives.slang")
    other.write_text(other.read_text().replace("input[at.x] * input[at.x]", "-input[at.x]"))
    negative = slangtorch.loadModule(other)
    x = numbers(5, device)
    y, z = torch.zeros_like(x), torch.zeros_like(x)
    negative.square(x, y).launchRaw(BLOCK, ONE)
    derivatives.square(x, z).launchRaw(BLOCK, ONE)
    torch.testing.assert_close(y, -x)
    torch.testing.assert_close(z, x * x)
    assert not hasattr(torch.ops.slang, "square_launch")


def test_flags_without_a_meaning_are_noted_once(capsys: pytest.CaptureFixture[str]) -> None:
    path = KERNELS / "slangtorch_derivatives.slang"
    flags = {"extraCudaFlags": ["-O3", "-gencode", "arch=compute_90,code=sm_90", "--maxrregcount", "64"]}
    with pytest.warns(UserWarning, match="--maxrregcount 64 in extraCudaFlags is ignored"):
        slangtorch.loadModule(path, **flags)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        slangtorch.loadModule(path, **flags, skipNinjaCheck=True, slangGenLineInfo=False, cudaGenLineInfo=False)
    assert capsys.readouterr().err == ""
    with pytest.warns(DeprecationWarning, match="skipSlang"):
        slangtorch.loadModule(path, skipSlang=True, verbose=True)
    assert "slangtorch_derivatives.slang" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["extraSlangFlags", "extraCudaFlags"])
def test_flags_are_lists(flag: str) -> None:
    with pytest.raises(TypeError, match=f"expected {flag} to be a list"):
        slangtorch.loadModule(KERNELS / "slangtorch_derivatives.slang", **{flag: "-O3"})


@pytest.mark.parametrize("fast", [True, False])
def test_fast_math_keeps_nan_and_infinity(fast: bool, tmp_path: Path, device: torch.device) -> None:
    path = tmp_path / "kinds.slang"
    path.write_text(
        """
        [AutoPyBindCUDA] [CUDAKernel] void kinds(TensorView<float> x, TensorView<int> y)
        {
            uint i = cudaThreadIdx().x;
            if (i < x.size(0)) y[i] = (isnan(x[i]) ? 1 : 0) + (isinf(x[i]) ? 2 : 0);
        }
        """
    )
    x = torch.tensor([1.0, float("nan"), float("inf"), -float("inf"), 0.0], device=device)
    y = torch.zeros(5, dtype=torch.int32, device=device)
    slangtorch.loadModule(path, cudaFastMath=fast).kinds(x=x, y=y).launchRaw(BLOCK, ONE)
    assert y.tolist() == [0, 1, 2, 2, 0]
    assert torch.tensor(1e-40).item() * 1.0 != 0.0  # denormals of the process are as they were


def test_clearing_the_caches_leaves_modules_usable(device: torch.device) -> None:
    path = KERNELS / "imports" / "slangtorch_import.slang"
    before = slangtorch.loadModule(path, defines={"FACTOR": 7, "SHIFT": 0})
    slangtorch.clearShaderCaches()
    after = slangtorch.loadModule(path, defines={"FACTOR": 7, "SHIFT": 0})
    assert after is not before
    assert scaled(before, device) == scaled(after, device) == [7, 14]


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="no second GPU")
def test_tensors_of_a_second_gpu(derivatives: Any) -> None:
    device = torch.device("cuda:1")
    x = numbers(9, device)
    y, gx = torch.zeros_like(x), torch.zeros_like(x)
    derivatives.square(x, y).launchRaw(BLOCK, ONE)
    derivatives.square.bwd((x, gx), (y, torch.ones_like(x))).launchRaw(BLOCK, ONE)
    torch.testing.assert_close(y, x * x)
    torch.testing.assert_close(gx, 2 * x)


@pytest.mark.parametrize("fast", [False, True])
def test_powers_of_zero_and_of_negative_numbers(fast: bool, tmp_path: Path, device: torch.device) -> None:
    """Bernstein polynomials take 0 to the power of 0, and signs are powers of -1."""
    path = tmp_path / "powers.slang"
    path.write_text(
        """
        [CudaKernel] void powers(TensorView<float> x, TensorView<float> e, TensorView<float> y)
        {
            uint i = cudaThreadIdx().x;
            if (i < y.size(0)) y[i] = pow(x[i], e[i]);
        }
        """
    )
    module = slangtorch.loadModule(str(path), cudaFastMath=fast)
    bases, exponents = torch.meshgrid(
        torch.tensor([0.0, 1.0, -1.0, -2.0, 0.5, 3.0]), torch.tensor([0.0, 1.0, 2.0, 3.0, -1.0, 0.5]), indexing="ij"
    )
    x, e = bases.reshape(-1).to(device), exponents.reshape(-1).to(device)
    y = torch.zeros_like(x)
    module.powers(x=x, e=e, y=y).launchRaw(blockSize=(64, 1, 1), gridSize=(1, 1, 1))
    torch.testing.assert_close(y, torch.pow(x, e), equal_nan=True)
