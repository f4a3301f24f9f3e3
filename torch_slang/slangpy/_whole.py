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

from torch_slang._function_arguments import FunctionArguments, FunctionLeaf

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
    """Lets a function write into leaves of the graph, which then are results, and keep their ``.grad``."""
    leaves = [
        given[name]
        for name, leaf, rank in _tensors(arguments, given)
        if rank is not None and leaf.is_written and leaf.differentiable and given[name].requires_grad
        if given[name].is_leaf and torch.is_grad_enabled()
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
    """Calls the function for each of the dimensions that whole tensors have before those that it sees."""
    own = {}  # dimensions that belong to one call
    for name, leaf, rank in _tensors(arguments, given):
        if rank is not None:
            own[name] = rank + len(leaf.shape)
    before = max((given[name].dim() - dims for name, dims in own.items()), default=0)
    if before <= 0:
        return function(given)
    for name, leaf, rank in _tensors(arguments, given):
        if rank is None:
            own[name] = len(leaf.shape)
    names = list(own)

    gives_results = True

    def call(*tensors: torch.Tensor) -> Any:
        nonlocal gives_results
        results = function({**given, **dict(zip(names, tensors, strict=True))})
        gives_results = results is not None
        return results if gives_results else torch.zeros(())  # vmap wants a tensor

    mapped: Callable[..., Any] = call
    for level in range(before):  # the innermost first
        mapped = torch.vmap(mapped, tuple(0 if given[name].dim() - own[name] > level else None for name in names))
    results = mapped(*(given[name] for name in names))
    return results if gives_results else None
