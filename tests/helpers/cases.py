"""Calls of the operators in kernels/ and of the built-in ones, each with the same thing in plain torch."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import torch_slang

Tensor = torch.Tensor
FOLDER = Path(__file__).with_name("kernels")
SLANGTORCH_ANNOTATIONS = {
    "bumps": {"input": "Shape(R, C)", "weight": "Shape(C)", "output": "Out(R, C)", "launch_total": ["R", "C"]}
}


@functools.cache
def kernels(file: str) -> torch_slang.Module:
    annotations = SLANGTORCH_ANNOTATIONS if file == "slangtorch_style" else None
    return torch_slang.load(FOLDER / f"{file}.slang", namespace=f"test_{file}", annotations=annotations)


NOTHING = """
[PyBindCUDA(Auto)] [CudaKernel]
void nothing([Shape("N")] TensorView<float> x, [Out("N")] TensorView<float> y) { }
"""


@functools.cache
def nvrtc_is_here() -> bool:
    """Whether kernels can be compiled for a GPU, which need not be there."""
    try:
        handle = torch_slang.load(source=NOTHING, name="nothing.slang", namespace="test_nothing")._handle
        handle.cubin("nothing", "forward", [])
    except RuntimeError as error:
        if "NVRTC" not in str(error):
            raise
        return False
    return True


@dataclass(frozen=True)
class Input:
    """A tensor of random numbers; `between` bounds them."""

    shape: tuple[int, ...]
    between: tuple[float, float] = (-2.0, 2.0)
    differentiable: bool = True

    def make(self, device: torch.device, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
        low, high = self.between
        values = torch.rand(self.shape, dtype=torch.float64, generator=generator) * (high - low) + low
        return values.to(device, dtype).requires_grad_(self.differentiable)


@dataclass(frozen=True)
class Index:
    shape: tuple[int, ...]
    below: int

    def make(self, device: torch.device, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
        return torch.randint(self.below, self.shape, generator=generator).to(device)


@dataclass(frozen=True)
class Case:
    file: str  # in kernels/; empty: a built-in operator
    kernel: str
    inputs: tuple[Any, ...]  # Input, Index, or a value
    reference: Callable[..., Any]
    dtype: torch.dtype = torch.float64
    options: dict[str, Any] = field(default_factory=dict)  # of torch_slang.testing.check

    @property
    def op(self) -> Any:
        if not self.file:
            return getattr(torch.ops.slang, self.kernel).default
        return getattr(kernels(self.file), self.kernel).op

    def args(self, device: torch.device | str = "cpu", dtype: torch.dtype | None = None) -> list[Any]:
        generator = torch.Generator().manual_seed(7)
        device = torch.device(device)
        dtype = dtype or self.dtype
        return [i.make(device, dtype, generator) if isinstance(i, Input | Index) else i for i in self.inputs]

    def __str__(self) -> str:
        return self.kernel


def branching(x: Tensor, terms: int) -> Tensor:
    series = power = torch.ones_like(x)
    for k in range(1, terms + 1):
        power = power * x / k
        series = series + power
    return torch.where(x > 0, series, x * x.sin() + x.exp())


def polar(radius: Tensor, angle: Tensor) -> tuple[Tensor, Tensor]:
    return radius * angle.cos(), radius * angle.sin()


def parts(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    return x.abs() * weight, x.sign().to(torch.int32)


def stencil(x: Tensor) -> Tensor:
    if x.numel() < 3:
        return x.clone()
    return torch.cat([x[:1], x[:-2] * x[1:-1] + x[2:] ** 2, x[-1:]])


def twist(a: Tensor, b: Tensor) -> Tensor:
    return torch.linalg.cross(a, b) + a * (a * b).sum(-1, keepdim=True)


def place(x: Tensor, scale: Tensor, shift: Tensor, turn: Tensor, fixed: float) -> Tensor:
    return x @ turn.mT * scale**2 + shift * fixed


def stored_somewhere(x: Tensor) -> Tensor:
    kept = torch.arange(len(x), device=x.device) % 3 == 1
    return torch.where(kept, torch.full_like(x, 3), x.exp())


def shares(x: Tensor, group: int) -> Tensor:
    return torch.cat([part / (part * part).sum() for part in x.split(group)]) if len(x) else x.clone()


UNORDERED = {"nondet_tol": 1e-12}

CASES = [
    Case("", "sqr", (Input((3, 5)),), torch.square),
    Case("pointwise", "branching", (Input((2, 4)), 4), branching),
    Case("pointwise", "polar", (Input((5,)), Input((5,))), polar),
    Case("pointwise", "parts", (Input((5,)), Input((5,), differentiable=False)), parts),
    Case("pointwise", "total", (Input((5,)), Input((5,))), lambda x, z: x + 2 * z),
    Case("overlaps", "stencil", (Input((7,)),), stencil, options=UNORDERED),
    Case(
        "overlaps",
        "gather",
        (Input((4, 3)), Index((6,), below=4)),
        lambda table, index: table[index] ** 2,
        options={**UNORDERED, "empty": False},
    ),
    Case("overlaps", "product", (Input((2, 3)), Input((3, 4))), torch.matmul, options=UNORDERED),
    Case("vectors", "twist", (Input((4, 3)), Input((4, 3))), twist),
    Case(
        "vectors",
        "directions",
        (Input((5, 3)),),
        lambda a: a / a.norm(dim=-1, keepdim=True),
        dtype=torch.float32,
        options={"gradcheck_dtype": None},
    ),
    Case("vectors", "along", (Input((5,)),) * 3, lambda x, slope, start: slope * x + start**2),
    Case(
        "vectors",
        "place",
        (Input((4, 3)), Input(()), Input((3,)), Input((3, 3)), 0.5),
        place,
        options=UNORDERED,
    ),
    Case("vectors", "scaled", (Input((4, 3)), Input(())), torch.mul, options=UNORDERED),
    Case("stores", "stored_twice", (Input((6,)),), lambda x: torch.where(x > 0, x**3, x**2)),
    Case("stores", "stored_somewhere", (Input((7,)),), stored_somewhere),
    Case("stores", "read_back", (Input((5,)),), lambda x: x**5),
    Case("stores", "running_product", (Input((2, 4)),), lambda x: x.cumprod(1)),
    Case("meetings", "block_share", (Input((70,), (0.5, 2)),), lambda x: shares(x, 64), options=UNORDERED),
    Case("meetings", "wave_share", (Input((70,), (0.5, 2)),), lambda x: shares(x, 32), options=UNORDERED),
    Case(
        "slangtorch_style",
        "bumps",
        (Input((3, 4)), Input((4,))),
        lambda x, weight: weight * (-(x**2)).exp(),
        dtype=torch.float32,
        options={"gradcheck_dtype": None},
    ),
]
BY_NAME = {case.kernel: case for case in CASES}
