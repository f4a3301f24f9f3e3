"""The tensors that generators stand for in a call: their values need the call's shape, which the others say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_slang._function_arguments import FunctionLeaf
from torch_slang.generators import Generator

__all__ = ["generated"]


def generated(
    values: Sequence[Any],
    leaves: Sequence[FunctionLeaf],
    outputs: Sequence[tuple[FunctionLeaf, torch.Tensor]],
    error: Callable[[str], TypeError],
) -> list[torch.Tensor]:
    """`values` with tensors in place of generators. `outputs`: tensors to write into, of the call's shape."""
    known = [(leaf, value) for leaf, value in zip(leaves, values, strict=True) if not isinstance(value, Generator)]
    known += outputs
    shapes = [tensor.shape[: tensor.dim() - len(leaf.shape)] for leaf, tensor in known if not leaf.is_whole]
    shapes += [torch.Size(value.own_shape()) for value in values if isinstance(value, Generator)]
    try:
        shape = torch.broadcast_shapes(*shapes)
    except RuntimeError:
        shown = ", ".join(str(list(one)) for one in shapes)
        raise error(f"the arguments' shapes {shown} do not broadcast") from None
    with_dimensions = [tensor.device for leaf, tensor in known if leaf.is_whole or tensor.dim() > len(leaf.shape)]
    device = with_dimensions[0] if with_dimensions else torch.get_default_device()
    return [
        _values(value, leaf, shape, device, error) if isinstance(value, Generator) else value
        for leaf, value in zip(leaves, values, strict=True)
    ]


def _values(
    generator: Generator,
    leaf: FunctionLeaf,
    shape: Sequence[int],
    device: torch.device,
    error: Callable[[str], TypeError],
) -> torch.Tensor:
    dtype = leaf.dtype
    if leaf.is_whole:
        raise error(f"expected {leaf.what} to be a tensor, which the function sees whole, but got a generator")
    if dtype is None:
        raise error(
            f"expected {leaf.what} to have a type of its own for a generator: nothing says what a generic one is"
        )
    if dtype == torch.bool or (dtype.is_floating_point != generator.takes_floats):
        raise error(
            f"expected {leaf.what} to be {'floating-point' if generator.takes_floats else 'integers'} for its generator"
        )
    if len(leaf.shape) > 1 or any(size < 0 for size in leaf.shape):
        raise error(f"expected {leaf.what} to be a number, a vector or an array of numbers for its generator")
    try:
        values = generator.values(shape, leaf.shape[0] if leaf.shape else None, device)
    except ValueError as reason:
        raise error(f"{leaf.what} does not fit its generator: {reason}") from None
    if leaf.shape and generator.counts_backwards and not leaf.is_array:
        values = values.flip(-1)
    return values.to(dtype)
