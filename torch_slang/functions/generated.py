"""The lists of numbers that an operator takes in place of generators: they need the shape that the others say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_slang.functions.leaf import FunctionLeaf
from torch_slang.generators import Generator

__all__ = ["generated", "places_of"]

_Shapes = Sequence[tuple[str, Sequence[int]]]


def places_of(values: Sequence[Any]) -> tuple[int, ...]:
    """Where the generators stand."""
    return tuple(i for i, value in enumerate(values) if isinstance(value, Generator))


def generated(
    values: Sequence[Any],
    leaves: Sequence[FunctionLeaf],
    outputs: Sequence[tuple[FunctionLeaf, torch.Tensor]],
    error: Callable[[str], TypeError],
) -> list[Any]:
    """`values` with lists in place of generators: Note [generated arguments] in csrc/functions/generated_arguments.h.

    `outputs`: tensors to write into, of the call's shape. Where no tensor says the device, it is the default one.
    """
    known = [(leaf, value) for leaf, value in zip(leaves, values, strict=True) if not isinstance(value, Generator)]
    known += outputs
    shapes = [
        (leaf.what.split(" ")[0], tensor.shape[: max(tensor.dim() - len(leaf.shape), 0)])
        for leaf, tensor in known
        if not leaf.is_whole
    ]
    shapes += [
        (leaf.what.split(" ")[0], torch.Size(value.own_shape()))
        for leaf, value in zip(leaves, values, strict=True)
        if isinstance(value, Generator)
    ]
    try:
        shape = torch.broadcast_shapes(*(one for _, one in shapes))
    except RuntimeError:
        raise error(f"the arguments' dimensions do not broadcast: {_shown(shapes)}") from None
    has_device = any(
        leaf.is_whole or tensor.dim() > len(leaf.shape) or tensor.device.type != "cpu" for leaf, tensor in known
    )
    device = None if has_device or not known else torch.empty(0).device  # the default one, in a trace too
    return [
        [len(shape), *shape, *_words(value, leaf, shape, shapes, error)]
        if isinstance(value, Generator)
        else value.to(device=device)
        for leaf, value in zip(leaves, values, strict=True)
    ]


def _shown(shapes: _Shapes) -> str:
    """Which arguments say what of the call's shape, without the dimensions of an element."""
    return ", ".join(f"{name} has {list(one)}" for name, one in shapes if one) or "no argument has dimensions"


def _words(
    generator: Generator, leaf: FunctionLeaf, shape: Sequence[int], shapes: _Shapes, error: Callable[[str], TypeError]
) -> list[int]:
    dtype = leaf.dtype
    if leaf.is_whole:
        raise error(f"expected {leaf.what} to be a tensor, which the function sees whole, but got a generator")
    if dtype is None:
        raise error(
            f"expected {leaf.what} to have a type of its own for a generator: no argument decides a generic type"
        )
    if dtype == torch.bool or (dtype.is_floating_point != generator.takes_floats):
        raise error(
            f"expected {leaf.what} to be {'floating-point' if generator.takes_floats else 'integers'} for its generator"
        )
    if len(leaf.shape) > 1 or any(size < 0 for size in leaf.shape):
        raise error(f"expected {leaf.what} to be a number, a vector or an array of numbers for its generator")
    try:
        return generator.words(len(shape), leaf.shape[0] if leaf.shape else None, leaf.is_array)
    except ValueError as reason:
        numbers = f"{leaf.shape[0]} numbers" if leaf.shape else "one number"
        raise error(
            f"{leaf.what}, which is {numbers}, does not fit its generator: {reason} (the call's shape is "
            f"{list(shape)}: {_shown(shapes)})"
        ) from None
