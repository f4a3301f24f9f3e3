"""The thirty kernels and functions of the matrix of derivatives (docs/derivatives.md), each with the same thing in plain torch.

They were chosen before any derivative beyond the first was there: group-shared memory, the three ways to gather a
gradient, structs of views, loops with [MaxIters], derivatives of the user's own, generics, values, several outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import function_references
import torch
from cases import BY_NAME, Case, Index, Input, kernels, shares
from own_cases import window

Tensor = torch.Tensor


@dataclass(frozen=True)
class Derived:
    name: str
    get_op: Callable[[], Any]
    get_args: Callable[[torch.device | str], list[Any]]
    reference: Callable[..., Any]

    @property
    def op(self) -> Any:
        return self.get_op()

    def args(self, device: torch.device | str = "cpu") -> list[Any]:
        return self.get_args(device)

    def __str__(self) -> str:
        return self.name


def _of(case: Case) -> Derived:
    return Derived(case.kernel, lambda: case.op, lambda device: case.args(device, torch.float64), case.reference)


def _kernel(file: str, name: str, inputs: tuple[Any, ...], reference: Callable[..., Any]) -> Derived:
    return _of(Case(file, name, inputs, reference))


def _function(name: str) -> Derived:
    """Arguments of outer shapes that broadcast to [2, 3]."""
    case = function_references.BY_NAME[name]
    outers = ((2, 1), (3,), (), (1, 3))
    return Derived(
        f"{name}()", lambda: case.op, lambda device: case.make(outers, torch.float64, device), case.reference
    )


def _stencil(x: Tensor) -> Tensor:
    a, b, c = (x.roll(-k) for k in (1, 2, 3))
    return x * a + a * b + b * c


def _by_matrices(x: Tensor, m: Tensor, a: Tensor) -> Tensor:
    return x @ m.mT + (a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0])


THIRTY = [
    *(
        _of(BY_NAME[name])
        for name in (
            "branching", "polar", "parts", "stencil", "gather", "product", "twist", "along", "place", "stored_twice",
            "running_product", "wave_share",
        )
    ),
    _kernel("accumulation", "stencil_r", (Input((7,)),), _stencil),
    _kernel("accumulation", "gather_asr", (Input((5,)), Index((9,), below=5)), lambda t, i: t[i] ** 2),
    _kernel("accumulation", "once_aa", (Input((6, 2)),), lambda x: x[:, 0] * x[:, 1]),
    _kernel("accumulation", "fixed_r", (Input((9,)), Input((2,))), lambda x, w: x * w[0] + w[1]),
    _kernel(
        "accumulation",
        "layered_asr",
        (Input((5,)), Index((9,), below=5), Input((1,)), Input((5,))),
        lambda x, i, scale, shift: x[i] * scale + shift[i],
    ),
    _kernel("value_gradients", "by_matrices", (Input((4, 4)), Input((3, 4)), Input((2, 2))), _by_matrices),
    _kernel(
        "value_gradients",
        "polynomial",
        (Input((6,)), Input((4,))),
        lambda x, a: a[0] + x * (a[1] + x * (a[2] + x * a[3])),
    ),
    _kernel("own_elements", "window", (Input((9,), (0.5, 2)), Input((9,), (0.5, 2))), window),
    _kernel("derivatives", "cubes", (Input((6,)), Input((6,))), lambda x, w: x**3 * w),
    _kernel("derivatives", "block_part", (Input((70,), (0.5, 2)),), lambda x: shares(x, 64)),
    *(
        _function(name)
        for name in (
            "polynomial", "branched", "series", "cast_ray", "everything", "bezier", "sum_of_squares", "quantized",
        )
    ),
]  # fmt: skip
