"""The rival slangtorch: the same formula, launched as its manual does it, one element a thread."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

KERNEL = Path(__file__).parent.parent / "kernels" / "sqr_slangtorch.slang"
BLOCK = 256


def missing() -> str | None:
    """Why there is no slangtorch on this machine."""
    if not torch.cuda.is_available():
        return "no GPU"
    return None if importlib.util.find_spec("slangtorch") else "slangtorch is not installed"


class Sqr:
    """`forward` and `backward` of one-dimensional tensors. The folder holds what slangtorch leaves beside a kernel."""

    def __init__(self, slangtorch: ModuleType | Any) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._module = slangtorch.loadModule(shutil.copy(KERNEL, self._folder.name))
        self._y: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        y = torch.empty_like(x)
        self._module.sqr(x=x, y=y).launchRaw(blockSize=(BLOCK, 1, 1), gridSize=_blocks(x))
        return y

    def backward(self, grad: Tensor, x: Tensor) -> Tensor:
        if self._y is None:  # a launch stores y again, and takes its gradient and leaves zero: not in what others read
            self._y = torch.empty_like(x), grad.clone()
        grad_x = torch.zeros_like(x)
        backward = self._module.sqr.bwd(x=(x, grad_x), y=self._y)
        backward.launchRaw(blockSize=(BLOCK, 1, 1), gridSize=_blocks(x))
        return grad_x


def _blocks(x: Tensor) -> tuple[int, int, int]:
    return (-(-x.numel() // BLOCK), 1, 1)
