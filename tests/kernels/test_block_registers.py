"""Launches of more threads a block than registers suffice for, if a kernel is compiled for blocks of any size."""

from __future__ import annotations

import struct

import pytest
import torch
from cases import FOLDER, nvrtc_is_here
from long_tests import dear_test, some_cases, some_tests

import torch_slang

pytestmark = some_tests(2)

Tensor = torch.Tensor
FILE = FOLDER / "many_registers.slang"
COUNT = 96
KERNELS = [("many_values", "launch"), ("many_values", "bwd"), ("many_values_of_a_block", "launch")]
BLOCKS = [(1024, 1, 1), (32, 32, 1), (128, 1, 1)]


@pytest.fixture(scope="module")
def module() -> torch_slang.Module:
    return torch_slang.load(FILE, namespace="many_registers")


@pytest.fixture(autouse=True)
def quick_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers count here, not speed; on the CPU, whose compiler takes long to schedule so many of them."""
    monkeypatch.setenv("TORCH_SLANG_CXXFLAGS", "-O1")


def mixed(values: list[Tensor]) -> Tensor:
    """`values`: COUNT tensors."""
    values = list(values)
    for _ in range(2):
        for k in range(COUNT):
            values[k] = values[k] * values[(7 * k + 3) % COUNT] + 0.5
    return torch.stack(values).sum(0)


def many_values(x: Tensor) -> Tensor:
    return mixed([x * (k / COUNT) for k in range(COUNT)])


def many_values_of_a_block(x: Tensor, threads: int) -> Tensor:
    blocks = torch.nn.functional.pad(x, (0, -len(x) % threads)).reshape(-1, threads)
    return mixed([blocks.roll(-k, 1) * (k / COUNT) for k in range(COUNT)]).flatten()[: len(x)]


def registers(cubin: bytes) -> int:
    """Of a thread, as the attribute EIATTR_REGCOUNT of its section .nv.info says."""
    found: int = struct.unpack_from("<I", cubin, cubin.index(b"\x04\x2f\x08\x00") + 8)[0]
    return found


@dear_test
@some_cases(1)
@pytest.mark.skipif(not nvrtc_is_here(), reason="NVRTC is not installed")
@pytest.mark.parametrize(("kernel", "kind"), KERNELS)
def test_a_kernel_for_blocks_of_one_size_keeps_to_their_registers(
    kernel: str, kind: str, module: torch_slang.Module
) -> None:
    assert registers(module._handle.cubin(kernel, kind, [])) > 64
    assert registers(module._handle.cubin(kernel, kind, [], block=(32, 32, 1))) <= 64  # of 65,536 for 1024 threads


# Kernels look at x alone, so each row of a block computes the same.
def launch_of(count: int, block: tuple[int, int, int]) -> dict[str, tuple[int, int, int]]:
    return {"launchBlockSize": block, "launchGridSize": (-(-count // block[0]), 1, 1)}


@pytest.mark.parametrize("block", BLOCKS)
def test_blocks_of_any_size_are_launched(
    block: tuple[int, int, int], module: torch_slang.Module, device: torch.device
) -> None:
    x = torch.rand(1500, device=device)
    expected = many_values(x.double())
    y = torch.zeros_like(x)
    module.many_values(x, y, **launch_of(len(x), block))
    torch.testing.assert_close(y.double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("threads", [1024, 128])
def test_threads_of_large_blocks_share_memory(threads: int, module: torch_slang.Module, device: torch.device) -> None:
    x = torch.rand(1500, device=device)
    y = torch.zeros_like(x)
    module.many_values_of_a_block(x, y, **launch_of(len(x), (threads, 1, 1)))
    expected = many_values_of_a_block(x.double(), threads)
    torch.testing.assert_close(y.double(), expected, rtol=1e-4, atol=1e-4)


@dear_test
@some_cases(1)
@pytest.mark.parametrize("threads", [1024, 128])
def test_derivatives_of_large_blocks(threads: int, module: torch_slang.Module, device: torch.device) -> None:
    x, seed = torch.rand(1500, device=device), torch.randn(1500, device=device)
    leaf = x.double().requires_grad_()
    (expected,) = torch.autograd.grad(many_values(leaf), leaf, seed.double())
    gradient, y = torch.zeros_like(x), torch.zeros_like(x)
    launch = launch_of(len(x), (threads, 1, 1))
    module.many_values_bwd((x, gradient), (y, seed.clone()), **launch)
    torch.testing.assert_close(gradient.double(), expected, rtol=1e-3, atol=1e-3)
    tangent = torch.zeros_like(x)
    module.many_values_fwd((x, seed), (y, tangent), **launch)
    torch.testing.assert_close(tangent.double(), expected, rtol=1e-3, atol=1e-3)


def test_explain_names_the_block_that_a_kernel_was_compiled_for(device: torch.device) -> None:
    module = torch_slang.load(FILE, namespace="many_registers_explained")
    x = torch.rand(1500, device=device)
    module.many_values(x, torch.zeros_like(x), **launch_of(len(x), (1024, 1, 1)))
    *_, last = module.explain("many_values")
    assert last.threads == 2048
    if device.type == "cuda":
        assert last.block == (1024, 1, 1)
        assert last.registers <= 64
        assert "for blocks of [1024, 1, 1] alone" in str(last)
    else:
        assert last.block == ()


def test_blocks_that_no_device_has_are_refused(module: torch_slang.Module, device: torch.device) -> None:
    x = torch.rand(10, device=device)
    with pytest.raises(torch_slang.LaunchError, match=r"many_values_launch: .*at most 1024 threads a block"):
        module.many_values(x, torch.zeros_like(x), **launch_of(len(x), (32, 64, 1)))
