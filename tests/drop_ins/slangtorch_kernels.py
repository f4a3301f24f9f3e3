"""What the tests of the drop-in share: kernels as slangtorch writes them, launches, numbers."""

import functools
from typing import Any

import torch
from cases import FOLDER as KERNELS

import torch_slang.slangtorch as slangtorch

BLOCK = (32, 1, 1)
ONE = (1, 1, 1)


@functools.cache
def module(name: str) -> Any:
    """``kernels/slangtorch_<name>.slang``, loaded."""
    return slangtorch.loadModule(str(KERNELS / f"slangtorch_{name}.slang"))


def numbers(count: int, device: torch.device, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.linspace(-1.5, 2, count, device=device).to(dtype)
