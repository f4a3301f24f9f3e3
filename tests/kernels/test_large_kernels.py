"""Kernels of hundreds of accesses, which host compilers inline at once: Note [inlined at once] in prelude/target.h."""

from pathlib import Path
from typing import Any

import pytest
import torch
from long_tests import LONG, dear_test

import torch_slang
import torch_slang.slangtorch as slangtorch

Tensor = torch.Tensor
TERMS = 120 if LONG else 60
THREADS, BLOCK = 20, 8

SOURCE = """
[Differentiable] double term(DiffTensorView<double> x, DiffTensorView<double> scale, uint i, uint k)
{
    return sin(x[uint2(i, k)]) * scale[uint2(k % 3, i)];
}

[AutoPyBindCUDA] [CUDAKernel] [Differentiable]
void large(DiffTensorView<double> x, DiffTensorView<double> scale, TensorView<int> places, DiffTensorView<double> y)
{
    uint i = cudaBlockIdx().x * cudaBlockDim().x + cudaThreadIdx().x;
    if (i >= places.size(0)) return;
    uint at = uint(no_diff places[uint(i)]);
    double sum = 0.0;
TERMS
    y[i] = sum;
}
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Any:
    file = tmp_path_factory.mktemp("large") / "large.slang"
    lines = "\n".join(f"    sum += {k + 1}.0 * term(x, scale, at, {k}u);" for k in range(TERMS))
    Path(file).write_text(SOURCE.replace("TERMS", lines))
    return slangtorch.loadModule(str(file))


def launch(launchable: Any) -> None:
    launchable.launchRaw(blockSize=(BLOCK, 1, 1), gridSize=((THREADS + BLOCK - 1) // BLOCK, 1, 1))


def arguments() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(THREADS, TERMS, dtype=torch.float64, generator=generator)
    scale = torch.randn(3, THREADS, dtype=torch.float64, generator=generator)
    return x, scale, torch.randperm(THREADS, generator=generator).int()


def reference(x: Tensor, scale: Tensor, places: Tensor) -> Tensor:
    weights = torch.arange(1, TERMS + 1, dtype=torch.float64)
    return (weights * x.sin() * scale[torch.arange(TERMS) % 3].T).sum(1)[places.long()]


@dear_test
def test_values_and_gradients_are_right(module: Any) -> None:
    x, scale, places = arguments()
    y = torch.zeros(THREADS, dtype=torch.float64)
    launch(module.large(x=x, scale=scale, places=places, y=y))
    leaves = [x.clone().requires_grad_(), scale.clone().requires_grad_()]
    expected = reference(*leaves, places)
    torch.testing.assert_close(y, expected.detach())
    seed = torch.randn(THREADS, dtype=torch.float64)
    gradients = [torch.zeros_like(x), torch.zeros_like(scale)]
    launch(module.large.bwd(x=(x, gradients[0]), scale=(scale, gradients[1]), places=places, y=(y, seed.clone())))
    for found, right in zip(gradients, torch.autograd.grad(expected, leaves, seed), strict=True):
        torch.testing.assert_close(found, right)


@dear_test
@pytest.mark.parametrize("is_backward", [False, True])
def test_a_fault_names_thread_place_and_line(module: Any, is_backward: bool) -> None:
    """In the last block, and of the second argument; the line is that of the function that loads."""
    x, scale, places = arguments()
    thread = THREADS - 2
    places[:] = 0
    places[thread] = 7
    y = torch.zeros(THREADS, dtype=torch.float64)
    where = rf"\(thread \({thread % BLOCK}, 0, 0\) of block \({thread // BLOCK}, 0, 0\), large\.slang:4\)"
    call = module.large
    values: dict[str, Any] = {"x": x[:7], "scale": scale, "places": places, "y": y}
    if is_backward:
        call = call.bwd
        values = {"x": (x[:7], torch.zeros_like(x[:7])), "scale": (scale, torch.zeros_like(scale))}
        values |= {"places": places, "y": (y, torch.ones_like(y))}
    with pytest.raises(IndexError, match=rf"x\[7, 0\]: index 7 is outside dimension 0, which has 7 elements {where}"):
        launch(call(**values))
    if not is_backward:
        with pytest.raises(IndexError, match=r"scale\[2, \d+\]: index 2 is outside dimension 0, which has 2 .*:4\)"):
            launch(module.large(x=x, scale=scale[:2].clone(), places=places, y=y))


@dear_test
def test_a_backward_with_checks_is_compiled_once(tmp_path: Path) -> None:
    """What its code shows are facts; before, the same kernel without checks was compiled for them."""
    file = tmp_path / "once.slang"
    lines = "\n".join(f"    sum += {k + 2}.0 * term(x, scale, at, {k}u);" for k in range(TERMS))
    file.write_text(SOURCE.replace("TERMS", lines))
    module = slangtorch.loadModule(str(file))
    x, scale, places = arguments()
    y = torch.zeros(THREADS, dtype=torch.float64)
    pairs = {"x": (x, torch.zeros_like(x)), "scale": (scale, torch.zeros_like(scale)), "y": (y, torch.ones_like(y))}
    before = torch_slang.cache.stats()["host_runs"]
    launch(module.large.bwd(places=places, **pairs))
    assert torch_slang.cache.stats()["host_runs"] == before + 1
