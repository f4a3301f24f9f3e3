"""From the tensors of a plain function's operator to what a user gets, and from a given `_result` to tensors."""

from __future__ import annotations

import functools
import keyword
import re
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_slang._arguments import field_values
from torch_slang._function_arguments import FunctionLeaf

__all__ = ["FunctionResults"]

_Tree = dict[str, Any]


class FunctionResults:
    """One result as it is; several as a named tuple: the returned value is `result`, others have parameters' names.

    A struct is a named tuple of its fields, an array of structs a tuple.
    """

    def __init__(self, about: dict[str, Any], error: Callable[[str], TypeError]) -> None:
        self._error = error
        leaves = [FunctionLeaf.of(leaf) for leaf in about["leaves"]]
        self.leaves = [leaf for leaf in leaves if leaf.is_output]
        self._inputs = len(leaves) - len(self.leaves)
        trees: list[_Tree] = about["results"]
        self._whole: _Tree = (
            trees[0]
            if len(trees) == 1
            else {"name": "_result", "type": f"{about['name']}_results", "leaf": -1, "fields": trees}
        )
        self._is_one_tensor = self._whole["leaf"] >= 0
        self._types = {} if self._is_one_tensor else _types_of(self._whole)

    def build(self, tensors: Any) -> Any:
        """What the function gives for what its operator gave."""
        return tensors if self._is_one_tensor else self._built(self._whole, tensors)

    def flatten(self, result: Any) -> Sequence[torch.Tensor]:
        """The tensors of a `_result`, one for each leaf."""
        tensors: list[torch.Tensor] = []
        self._put(tensors, self._whole, "_result", result)
        return tensors

    def differentiable(self, tensors: Sequence[torch.Tensor]) -> list[tuple[str, torch.Tensor]]:
        """Those that have gradients, with their names."""
        pairs = zip(self.leaves, tensors, strict=True)
        return [(leaf.name, tensor) for leaf, tensor in pairs if leaf.differentiable]

    def _built(self, tree: _Tree, tensors: Sequence[torch.Tensor]) -> Any:
        if tree["leaf"] >= 0:
            return tensors[tree["leaf"] - self._inputs]
        values = [self._built(field, tensors) for field in tree["fields"]]
        return self._types[_key(tree)](values)

    def _put(self, tensors: list[torch.Tensor], tree: _Tree, path: str, value: Any) -> None:
        what = f"{path} ({tree['type']})"
        if tree["leaf"] >= 0:
            if not isinstance(value, torch.Tensor):
                raise self._error(f"expected {what} to be a tensor, but got {_given(value)}")
            tensors.append(value)
            return
        if isinstance(value, torch.Tensor):
            raise self._error(f"expected {what} to be a mapping or a tuple, but got a tensor")
        values = field_values(what, [field["name"] for field in tree["fields"]], value, self._error)
        for field, item in zip(tree["fields"], values, strict=True):
            self._put(tensors, field, f"{path}.{field['name']}", item)


def _given(value: Any) -> str:
    return repr(value) if isinstance(value, str | type) else f"a {type(value).__name__}"


def _key(tree: _Tree) -> tuple[str, tuple[str, ...]]:
    return tree["type"], tuple(field["name"] for field in tree["fields"])


def _types_of(tree: _Tree) -> dict[Any, Callable[[Any], Any]]:
    """How each struct in a tree is made of its fields, which are given in a list."""
    types: dict[Any, Callable[[Any], Any]] = {}
    if tree["leaf"] < 0:
        name, fields = _key(tree)
        is_array = fields[0].isdigit()
        types[name, fields] = tuple if is_array else _named_tuple(_simple_name(name), fields)._make
        for field in tree["fields"]:
            types |= _types_of(field)
    return types


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
