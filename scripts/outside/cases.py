"""What a case is, how its results are compared, and what stands in for the packages that a checkout wants."""

from __future__ import annotations

import importlib
import os
import sys
import types
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import torch

Tensor = torch.Tensor

VALUES = 2e-5  # largest errors, as parts of the reference's largest element: kernels are in float32, with fast math
GRADIENTS = 2e-4


@dataclass
class Check:
    """One tensor of one kernel beside its reference. Those of whole numbers are to be equal."""

    name: str
    got: Tensor
    expected: Tensor
    tolerance: float

    @property
    def error(self) -> float:
        got, expected = self.got.detach().cpu(), self.expected.detach().cpu()
        if got.shape != expected.shape:
            return float("inf")
        return difference(got, expected)

    @property
    def agrees(self) -> bool:
        return self.error <= self.tolerance


def difference(got: Tensor, expected: Tensor) -> float:
    """Of numbers: the largest, as a part of the largest of the reference. Of whole numbers: how many differ."""
    if got.numel() == 0:
        return 0.0
    if not expected.is_floating_point():
        return float((got.long() != expected.long()).sum())
    error = (got.double() - expected.double()).abs().max() / expected.double().abs().max().clamp(min=1e-30)
    return float(error.nan_to_num(nan=float("inf")))


@dataclass
class Row:
    """A kernel, or its backward, with everything that was compared."""

    file: str
    kernel: str
    backward: bool
    reference: str = ""
    checks: list[Check] = field(default_factory=list)
    seconds: float | None = None  # of processors, for the first launch, compiling included
    failure: str = ""


class Table:
    """The rows of one process, in the order in which they are met."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.rows: dict[tuple[str, str, bool], Row] = {}

    def row(self, file: str, kernel: str, backward: bool = False) -> Row:
        return self.rows.setdefault((file, kernel, backward), Row(file, kernel, backward))

    def values(self, file: str, kernel: str, reference: str, tolerance: float = VALUES, **pairs: Any) -> None:
        """Each pair is a result and what it should be; `backward` kernels have rows of their own."""
        self._add(self.row(file, kernel), reference, tolerance, pairs)

    def gradients(self, file: str, kernel: str, reference: str, tolerance: float = GRADIENTS, **pairs: Any) -> None:
        self._add(self.row(file, kernel, backward=True), reference, tolerance, pairs)

    def _add(self, row: Row, reference: str, tolerance: float, pairs: dict[str, tuple[Tensor, Tensor]]) -> None:
        row.reference = reference
        for name, (got, expected) in pairs.items():
            row.checks.append(Check(name, got, expected, tolerance if expected.is_floating_point() else 0.0))


Case = Callable[[Table, Path], None]


def processor_seconds() -> float:
    """Of this process and of the compilers that it ran: what a busy machine leaves as it is."""
    return sum(os.times()[:4])


class Random:
    """Numbers that are the same on every device."""

    def __init__(self, seed: int, device: torch.device) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.device = device

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        return (torch.rand(shape, generator=self.generator) * (high - low) + low).to(self.device)

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator).to(self.device)

    def below(self, limit: int, *shape: int) -> Tensor:
        return torch.randint(0, limit, shape, generator=self.generator, dtype=torch.int32).to(self.device)

    def like(self, *tensors: Tensor) -> list[Tensor]:
        """Gradients to send back."""
        return [self.normal(*tensor.shape) for tensor in tensors]


def float64(*tensors: Tensor) -> list[Tensor]:
    """Copies on the CPU, for references."""
    return [tensor.detach().cpu().double() for tensor in tensors]


def grad(outputs: list[Tensor], inputs: list[Tensor], weights: list[Tensor]) -> list[Tensor]:
    """Of `weights` copies are sent back: the backward of a store leaves zeros there, in slangtorch as here."""
    weights = [w.to(o.device, o.dtype, copy=True) for w, o in zip(weights, outputs, strict=True)]
    found = torch.autograd.grad(outputs, inputs, weights, allow_unused=True, retain_graph=True)
    return [torch.zeros_like(i) if g is None else g for g, i in zip(found, inputs, strict=True)]


# --- The checkout's surroundings


def redirect(implementation: str) -> None:
    """`import slangtorch` gives torch_slang's, or what is installed under that name."""
    name = "torch_slang.slangtorch" if implementation == "torch_slang" else implementation
    sys.modules["slangtorch"] = importlib.import_module(name)


def stand_in_for_packages() -> None:
    """Printing and annotations, which do nothing here; real ones are used if they are there."""
    for name in ("icecream", "jaxtyping"):
        with suppress(ImportError):
            importlib.import_module(name)
            continue
        sys.modules[name] = MagicMock()


def module_of(name: str, **members: Any) -> None:
    """A module in place of one that is compiled from CUDA sources."""
    module = types.ModuleType(name)
    vars(module).update(members)
    sys.modules[name] = module


class Loads:
    """Notes what `slangtorch.loadModule` loads, and how many processor seconds loads and first launches take."""

    def __init__(self, table: Table, folders: list[Path]) -> None:
        self.table, self.folders = table, folders
        self.modules: list[tuple[str, Any]] = []  # (file, the module)
        self.load_seconds: dict[str, float] = {}
        self._names: dict[int, tuple[str, str]] = {}  # by a function's identity
        self._launched: dict[int, float] = defaultdict(float)

    def relative(self, path: str | Path) -> str:
        path = Path(path).resolve()
        return next(str(path.relative_to(folder)) for folder in self.folders if path.is_relative_to(folder))

    def watch(self) -> None:
        """Of torch_slang's alone: slangtorch is only asked for its results."""
        import torch_slang.slangtorch as ours
        from torch_slang.slangtorch._launchables import Function

        load, launch = ours.loadModule, Function._launch

        def loads(path: str | Path, *args: Any, **kwargs: Any) -> Any:
            start = processor_seconds()
            module = load(path, *args, **{**kwargs, "verbose": False})
            file = self.relative(path)
            self.load_seconds.setdefault(file, processor_seconds() - start)
            self.modules.append((file, module))
            for member in vars(module).values():
                if isinstance(member, Function):
                    self._names[id(member)] = (file, member.__name__)
                    if (backward := member._backward) is not None:
                        self._names[id(backward)] = (file, backward.__name__)
            return module

        def launches(function: Function, *args: Any) -> None:
            start = processor_seconds()
            try:
                launch(function, *args)
                if self.table.device.type == "cuda":
                    torch.cuda.synchronize()
            finally:
                self._note(function, processor_seconds() - start)

        ours.loadModule = loads
        Function._launch = launches  # type: ignore[method-assign]

    def _note(self, function: Any, seconds: float) -> None:
        if id(function) in self._names:
            file, name = self._names[id(function)]
            backward = name.endswith("_bwd_diff")
            row = self.table.row(file, name.removesuffix("_bwd_diff"), backward)
            row.seconds = seconds if row.seconds is None else row.seconds
