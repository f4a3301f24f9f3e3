"""Tensors that functions take whole, where SlangPy's rules are wider than PyTorch's.

SlangPy gives a ``Tensor<float, 2>`` each matrix of a tensor of more dimensions: the call goes over the others, which is
`torch.vmap`. It takes tensors that require grad as constants, where the type says so, and writes into leaves of the
graph.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from torch_slang.functions.arguments import FunctionArguments
from torch_slang.functions.leaf import FunctionLeaf
from torch_slang.generators import Generator

__all__ = ["as_constants", "call_over", "element_name", "has_tensors", "leaves_written"]

_TYPE = re.compile(r"^\w*Tensor<(.+), ?(\d+)>$")


def has_tensors(arguments: FunctionArguments) -> bool:
    """Whether a parameter is one of SlangPy's tensors."""
    return any(element_name(tree.type) for tree in arguments.trees)


def element_name(slang_type: str) -> str:
    """``"Particle"`` of ``"Tensor<Particle, 1>"``; empty for another type."""
    match = _TYPE.match(slang_type)
    return match[1] if match else ""


def _tensors(arguments: FunctionArguments, given: Mapping[str, Any]) -> Iterator[tuple[str, FunctionLeaf, int | None]]:
    """The arguments that are tensors: by name, and how many dimensions the function sees of a whole one."""
    for name, tree in zip(arguments.names, arguments.trees, strict=True):
        if tree.leaf < 0 or not isinstance(given.get(name), torch.Tensor):
            continue
        leaf = arguments.leaves[tree.leaf]
        match = _TYPE.match(tree.type)
        yield name, leaf, int(match[2]) if leaf.is_whole and match else None


def as_constants(arguments: FunctionArguments, given: Mapping[str, Any]) -> dict[str, Any]:
    """`given`, without gradients where the type is one of SlangPy's that has none (``Tensor``, ``RWTensor``, ...)."""
    changed = dict(given)
    for name, leaf, rank in _tensors(arguments, given):
        if rank is not None and not leaf.differentiable:
            changed[name] = given[name].detach()
    return changed


@contextmanager
def leaves_written(arguments: FunctionArguments, given: Mapping[str, Any]) -> Iterator[None]:
    """Lets a function write into leaves of the graph, which then are results, and keep their ``.grad``.

    One that shares memory with another argument stays a leaf, which operators refuse.
    """
    tensors = list(_tensors(arguments, given))
    memory = [given[name].untyped_storage().data_ptr() for name, _, _ in tensors]
    leaves = [
        given[name]
        for (name, leaf, rank), own in zip(tensors, memory, strict=True)
        if rank is not None and leaf.is_written and leaf.differentiable and given[name].requires_grad
        if given[name].is_leaf and torch.is_grad_enabled() and memory.count(own) == 1
    ]
    for one in leaves:
        one.requires_grad_(False)
    try:
        yield
    finally:
        for one in leaves:
            one.requires_grad_()
            one.retain_grad()


def call_over(
    arguments: FunctionArguments, given: Mapping[str, Any], function: Callable[[Mapping[str, Any]], Any]
) -> Any:
    """Calls the function for each of the dimensions that whole tensors have before those that it sees.

    They are the last dimensions of the call, with which other arguments broadcast.
    """
    tensors = list(_tensors(arguments, given))
    before = {name: given[name].dim() - rank - len(leaf.shape) for name, leaf, rank in tensors if rank is not None}
    levels = max(before.values(), default=0)
    if levels <= 0 or min(before.values()) < 0:
        return function(given)
    unknown = _unknown(arguments, given)
    if unknown:
        name = next(name for name, count in before.items() if count > 0)
        what = next(tree.what for tree in arguments.trees if tree.name == name)
        raise arguments.error(
            f"expected {what} to have just the dimensions that the function sees, but got shape "
            f"{list(given[name].shape)}: a call goes over others only where all arguments are tensors or numbers, and "
            f"{unknown}"
        )
    calls = {name: tuple(given[name].shape[: given[name].dim() - _own(leaf, rank)]) for name, leaf, rank in tensors}
    try:
        shape = torch.broadcast_shapes(*calls.values())
    except RuntimeError:
        shown = ", ".join(f"{name}: {list(one)}" for name, one in calls.items())
        raise arguments.error(f"the dimensions of the call do not broadcast, {shown}") from None
    front = len(shape) - levels
    values, mapped = [], []
    for name, leaf, rank in tensors:
        own = given[name].shape[given[name].dim() - _own(leaf, rank) :]
        dims = shape if rank is None else shape[len(shape) - before[name] :]
        values.append(given[name] if leaf.is_written else given[name].expand(*dims, *own))
        mapped.append((front, levels) if rank is None else (0, before[name]))
    gives_results = True

    def call(*given_now: torch.Tensor) -> Any:
        nonlocal gives_results
        results = function({**given, **dict(zip(calls, given_now, strict=True))})
        gives_results = results is not None
        return results if gives_results else torch.zeros((1,) * front)  # vmap wants a tensor

    over: Callable[..., Any] = call
    for level in range(levels):  # the innermost first
        over = torch.vmap(over, tuple(dim if count > level else None for dim, count in mapped), front)
    results = over(*values)
    return results if gives_results else None


def _own(leaf: FunctionLeaf, rank: int | None) -> int:
    """Dimensions that belong to one call."""
    return len(leaf.shape) + (rank or 0)


def _unknown(arguments: FunctionArguments, given: Mapping[str, Any]) -> str:
    """Which argument is neither a number, nor one of SlangPy's tensors, nor a tensor that broadcasts."""
    for name, tree in zip(arguments.names, arguments.trees, strict=True):
        value = given.get(name)
        if isinstance(value, Generator):
            return f"{name} is a generator"
        if tree.leaf < 0 or not isinstance(value, (torch.Tensor, bool, int, float)):
            return f"{name} is a {tree.type}"
        if arguments.leaves[tree.leaf].is_whole and not element_name(tree.type):
            return f"{name} is a {tree.type}"
    return ""
