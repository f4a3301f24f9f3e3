"""torch.vmap against a loop over the samples, for torch_slang.testing.check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

_SAMPLES = 3


def has_batching_rule(op: Any) -> bool:
    """Whether an operator of the dispatcher has one, or else PyTorch's loop runs it."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "FuncTorchBatched"))


def check_vmap(
    op: Any, values: Sequence[Any], *, rtol: float | None = None, atol: float | None = None, samples: int = _SAMPLES
) -> None:
    """Raises AssertionError where an operator under torch.vmap differs from a loop over the samples.

    Compares results, and under ``torch.func.vjp`` the gradients of the tensors that require grad. All tensors are
    mapped over, in front and at their last dimension, then each alone, then one of them by an outer vmap and the others
    by an inner one.

    Args:
        op: an operator of the dispatcher.
        values: one good call's arguments, in the order of the schema.
    """
    tensors = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
    wanted = [i for i in tensors if values[i].requires_grad]
    tolerance = {"rtol": rtol, "atol": atol}
    outcome = _Outcome(op, [v.detach() if isinstance(v, Tensor) else v for v in values], wanted)
    for mapped in _in_dims([values[i] for i in tensors]):
        arguments = [
            values[i].detach() if dim is None else _samples(values[i].detach(), samples).movedim(0, dim)
            for i, dim in zip(tensors, mapped, strict=True)
        ]
        of_tensors = outcome.of(tensors)
        _same(
            f"{op} with in_dims {mapped}",
            torch.vmap(of_tensors, in_dims=mapped),
            of_tensors,
            arguments,
            mapped,
            tolerance=tolerance,
        )
    if len(tensors) > 1:
        _check_nested(op, outcome.of(tensors), [values[i].detach() for i in tensors], samples, tolerance)


class _Outcome:
    """Results of a call, and gradients for the same random gradients of the results."""

    def __init__(self, op: Any, values: list[Any], wanted: list[int]) -> None:
        self.op, self.values, self.wanted = op, values, wanted
        self.gradients = [_gradient(r, k) for k, r in enumerate(_tuple(op(*values))) if r.is_floating_point()]

    def of(self, tensors: list[int]) -> Callable[..., tuple[Tensor, ...]]:
        def outcome(*given: Tensor) -> tuple[Tensor, ...]:
            called = list(self.values)
            for i, tensor in zip(tensors, given, strict=True):
                called[i] = tensor
            if not self.wanted:
                return _tuple(self.op(*called))
            kept: tuple[Tensor, ...] = ()

            def differentiable(*inputs: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
                for i, tensor in zip(self.wanted, inputs, strict=True):
                    called[i] = tensor
                results = _tuple(self.op(*called))
                return (
                    tuple(r for r in results if r.is_floating_point()),
                    tuple(r for r in results if not r.is_floating_point()),
                )

            results, pull, kept = torch.func.vjp(differentiable, *(called[i] for i in self.wanted), has_aux=True)
            return (*results, *kept, *pull(tuple(self.gradients)))

        return outcome


def _gradient(result: Tensor, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(result.shape, generator=generator, dtype=torch.float64).to(result.device, result.dtype)


def _samples(tensor: Tensor, count: int) -> Tensor:
    """Indices are the same in all; numbers stay near the given ones, so that positive numbers remain positive."""
    if not tensor.is_floating_point():
        return tensor.expand(count, *tensor.shape).contiguous()
    return torch.stack([tensor * (1 - 0.15 * k) for k in range(count)])


def _in_dims(tensors: list[Tensor]) -> Iterator[tuple[int | None, ...]]:
    yield tuple(0 for _ in tensors)
    yield tuple(tensor.dim() for tensor in tensors)
    if len(tensors) == 1:
        return
    for chosen in range(len(tensors)):
        yield tuple(0 if k == chosen else None for k in range(len(tensors)))


def _check_nested(
    op: Any,
    outcome: Callable[..., tuple[Tensor, ...]],
    tensors: list[Tensor],
    samples: int,
    tolerance: dict[str, float | None],
) -> None:
    """The first tensor is mapped over by the outer vmap, the others by the inner one."""
    first, *others = tensors[0], *(_samples(tensor, samples) for tensor in tensors[1:])

    def inner(tensor: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        results: tuple[Tensor, ...] = torch.vmap(lambda *one: outcome(tensor, *one))(*rest)
        return results

    def loop(tensor: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        rows = [outcome(tensor, *(t[k] for t in rest)) for k in range(samples)]
        return tuple(torch.stack(row) for row in zip(*rows, strict=True))

    in_dims = (0, *(None for _ in others))
    arguments = [_samples(first, samples), *others]
    _same(f"{op} in nested vmaps", torch.vmap(inner, in_dims=in_dims), loop, arguments, in_dims, tolerance=tolerance)


def _same(
    what: str,
    mapped: Callable[..., tuple[Tensor, ...]],
    one: Callable[..., tuple[Tensor, ...]],
    arguments: list[Tensor],
    in_dims: tuple[int | None, ...],
    *,
    tolerance: dict[str, float | None],
) -> None:
    count = next(a.shape[d] for a, d in zip(arguments, in_dims, strict=True) if d is not None)
    rows = [
        one(*(a if d is None else a.select(d, k) for a, d in zip(arguments, in_dims, strict=True)))
        for k in range(count)
    ]
    for i, (actual, expected) in enumerate(zip(mapped(*arguments), zip(*rows, strict=True), strict=True)):
        torch.testing.assert_close(
            actual,
            torch.stack(expected),
            **tolerance,
            equal_nan=True,
            msg=lambda text, i=i: f"{what}: result or gradient {i} differs from a loop over the samples\n{text}",
        )


def _tuple(results: Any) -> tuple[Tensor, ...]:
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)
