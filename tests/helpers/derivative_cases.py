"""The thirty kernels and functions of the matrix of docs/derivatives.md, each with the same in plain torch.

They were chosen before any derivative beyond the first was there: group-shared memory, the three ways to gather a
gradient, structs of views, loops with [MaxIters], derivatives of the user's own, generics, values, several outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import function_references
import pytest
import torch
from cases import BY_NAME, Case, Index, Input, shares
from own_cases import window

Tensor = torch.Tensor
Function = Callable[..., tuple[Tensor, ...]]
# Those with a hand-written backward alone, and what the message names.
REFUSED = {
    "wave_share": r"wave_sum has a \[BackwardDerivative\] and no",
    "quantized()": r"rounded has a \[BackwardDerivative\] and no",
}


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


def of_case(case: Case) -> Derived:
    return Derived(case.kernel, lambda: case.op, lambda device: case.args(device, torch.float64), case.reference)


def _kernel(file: str, name: str, inputs: tuple[Any, ...], reference: Callable[..., Any]) -> Derived:
    return of_case(Case(file, name, inputs, reference))


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
        of_case(BY_NAME[name])
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


def listed(results: Any) -> list[Tensor]:
    return list(results) if isinstance(results, tuple | list) else [results]


def of_differentiable_ones(
    case: Derived, op: Callable[..., Any], device: torch.device
) -> tuple[Function, list[Tensor]]:
    """The operator as a function of those arguments that require grad, and these."""
    args = case.args(device)
    wanted = [i for i, a in enumerate(args) if isinstance(a, Tensor) and a.requires_grad]

    def function(*inputs: Tensor) -> tuple[Tensor, ...]:
        called = [a.detach() if isinstance(a, Tensor) else a for a in args]
        for i, tensor in zip(wanted, inputs, strict=True):
            called[i] = tensor
        return tuple(r for r in listed(op(*called)) if r.is_floating_point())

    return function, [args[i].detach() for i in wanted]


def random_like(tensors: list[Tensor], seed: int) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(t.shape, dtype=t.dtype, generator=generator).to(t.device) for t in tensors)


def backward(function: Function, inputs: list[Tensor]) -> Any:
    return torch.func.vjp(function, *inputs)[1](random_like(list(function(*inputs)), 2))


def jvp(function: Function, inputs: list[Tensor]) -> Any:
    return torch.func.jvp(function, tuple(inputs), random_like(inputs, 1))[1]


def with_gradients(function: Function, inputs: list[Tensor]) -> tuple[Function, list[Tensor]]:
    """The backward as a function of inputs and output gradients, and these."""
    gradients = random_like(list(function(*inputs)), 2)

    def backward(*both: Tensor) -> tuple[Tensor, ...]:
        return torch.func.vjp(function, *both[: len(inputs)])[1](both[len(inputs) :])

    return backward, [*inputs, *gradients]


def double_backward(function: Function, inputs: list[Tensor]) -> Any:
    backward, both = with_gradients(function, inputs)
    return torch.func.vjp(backward, *both)[1](random_like(inputs, 3))


def jvp_of_vjp(function: Function, inputs: list[Tensor]) -> Any:
    backward, both = with_gradients(function, inputs)
    return torch.func.jvp(backward, tuple(both), random_like(both, 4))[1]


def vjp_of_jvp(function: Function, inputs: list[Tensor]) -> Any:
    def forward(*both: Tensor) -> tuple[Tensor, ...]:
        return torch.func.jvp(function, both[: len(inputs)], both[len(inputs) :])[1]

    results = list(function(*inputs))
    return torch.func.vjp(forward, *inputs, *random_like(inputs, 1))[1](random_like(results, 2))


def hessian(function: Function, inputs: list[Tensor]) -> Any:
    """Of a weighted sum of all results."""
    weights = random_like(list(function(*inputs)), 5)

    def scalar(*inputs: Tensor) -> Tensor:
        return sum((w * r).sum() for w, r in zip(weights, function(*inputs), strict=True))  # type: ignore[return-value]

    blocks = torch.func.hessian(scalar, argnums=tuple(range(len(inputs))))(*inputs)
    return tuple(block for row in blocks for block in row)


def of_samples(inputs: list[Tensor], in_dims: tuple[int | None, ...]) -> list[Tensor]:
    """Three of those that are mapped over, near the given one, so that what is above zero remains so."""
    return [
        t if d is None else torch.stack([t, 0.85 * t, 0.7 * t]).movedim(0, d)
        for t, d in zip(inputs, in_dims, strict=True)
    ]


def alternating(inputs: list[Tensor]) -> tuple[int | None, ...]:
    """The second argument, the fourth and so on are the same for all samples."""
    return tuple(None if k % 2 else 0 for k in range(len(inputs)))


def vmap(function: Function, inputs: list[Tensor]) -> Any:
    return torch.vmap(function)(*of_samples(inputs, (0,) * len(inputs)))


def vmap_of_grad(function: Function, inputs: list[Tensor]) -> Any:
    gradients, in_dims = random_like(list(function(*inputs)), 2), alternating(inputs)

    def of_one(*inputs: Tensor) -> tuple[Tensor, ...]:
        return torch.func.vjp(function, *inputs)[1](gradients)

    return torch.vmap(of_one, in_dims)(*of_samples(inputs, in_dims))


def grad_of_vmap(function: Function, inputs: list[Tensor]) -> Any:
    in_dims = alternating(inputs)
    return backward(torch.vmap(function, in_dims), of_samples(inputs, in_dims))


def _blocks(jacobian: Callable[..., Any], function: Function, inputs: list[Tensor]) -> list[Tensor]:
    return [block for row in jacobian(function, tuple(range(len(inputs))))(*inputs) for block in row]


def jacrev(function: Function, inputs: list[Tensor]) -> Any:
    return _blocks(torch.func.jacrev, function, inputs)


def jacfwd(function: Function, inputs: list[Tensor]) -> Any:
    return _blocks(torch.func.jacfwd, function, inputs)


BATCHED = {f.__name__: f for f in (vmap, vmap_of_grad, grad_of_vmap, jacrev, jacfwd)}
DERIVATIVES = {f.__name__: f for f in (backward, jvp, double_backward, jvp_of_vjp, vjp_of_jvp, hessian)} | BATCHED


def assert_right_or_refused(case: Derived, derivative: str, device: torch.device, reason: str | None) -> None:
    """The derivative is that of plain torch, or an error that matches the reason if there is one."""
    ours, inputs = of_differentiable_ones(case, case.op, device)
    if reason is not None:
        with pytest.raises(RuntimeError, match=reason):
            DERIVATIVES[derivative](ours, inputs)
        return
    theirs, _ = of_differentiable_ones(case, case.reference, device)
    actual, expected = (listed(DERIVATIVES[derivative](f, inputs)) for f in (ours, theirs))
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-8)
