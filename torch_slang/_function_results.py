"""From the tensors of a plain function's operator to what a user gets, and from a given `_result` to tensors."""

from __future__ import annotations

import functools
import keyword
import re
from collections import namedtuple
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torch_slang._function_arguments import FunctionLeaf, Tree

__all__ = ["FunctionResults"]


class FunctionResults:
    """One result as it is; several as a named tuple: the returned value is `result`, others have parameters' names.

    A struct is a named tuple of its fields, an array of structs a tuple.
    """

    def __init__(self, about: dict[str, Any], error: Callable[[str], TypeError]) -> None:
        self._error = error
        leaves = [FunctionLeaf.of(leaf) for leaf in about["leaves"]]
        self.leaves = [leaf for leaf in leaves if leaf.is_output]
        trees = about["results"]
        if len(trees) > 1:
            trees = [{"type": f"{about['name']}_results", "leaf": -1, "fields": trees}]
        self._whole = Tree.of(trees[0], "_result")
        self.is_tensor = self._whole.leaf >= 0
        self._maker = _Maker.of(self._whole, len(leaves) - len(self.leaves))

    def build(self, tensors: Any) -> Any:
        """What the function gives for what its operator gave."""
        if self.is_tensor:
            return tensors
        return self._maker.build([tensors] if isinstance(tensors, torch.Tensor) else tensors)

    def flatten(self, result: Any) -> Sequence[torch.Tensor]:
        """The tensors of a `_result`, one for each leaf."""
        tensors: list[torch.Tensor] = []
        self._whole.take_apart(result, tensors, self._error)
        for leaf, tensor in zip(self.leaves, tensors, strict=True):
            if not isinstance(tensor, torch.Tensor):
                raise self._error(f"expected {leaf.what} of _result to be a tensor, but got a {type(tensor).__name__}")
        return tensors

    def differentiable(self, tensors: Sequence[torch.Tensor]) -> list[tuple[str, torch.Tensor]]:
        """Those that have gradients, with their names."""
        pairs = zip(self.leaves, tensors, strict=True)
        return [(leaf.name, tensor) for leaf, tensor in pairs if leaf.differentiable]


@dataclass(frozen=True, slots=True)
class _Maker:
    """How a result is made of tensors."""

    index: int  # negative: a struct
    make: Callable[[Any], Any]  # from the fields' values
    fields: tuple[_Maker, ...]

    @classmethod
    def of(cls, tree: Tree, inputs: int) -> _Maker:
        is_array = tree.leaf < 0 and tree.names[0].isdigit()
        make = tuple if tree.leaf >= 0 or is_array else _named_tuple(_simple_name(tree.type), tree.names)._make
        return cls(tree.leaf - inputs, make, tuple(cls.of(field, inputs) for field in tree.fields))

    def build(self, tensors: Sequence[torch.Tensor]) -> Any:
        return tensors[self.index] if self.index >= 0 else self.make([field.build(tensors) for field in self.fields])


def _simple_name(slang_type: str) -> str:
    """`Linear` of `nets.Linear<16>`."""
    name = re.split(r"[.:]", slang_type.split("<", maxsplit=1)[0])[-1]
    return name if name.isidentifier() and not keyword.iskeyword(name) else "Struct"


@functools.cache
def _named_tuple(name: str, fields: tuple[str, ...]) -> Any:
    """One type for one name and fields, so that a pickle may make it again."""
    make: Any = namedtuple  # whose checkers want names known in advance
    made = make(name, fields, rename=True, module=__name__)
    made.__reduce__ = lambda self: (_restored, (name, fields, tuple(self)))
    return made


def _restored(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return _named_tuple(name, fields)._make(values)
