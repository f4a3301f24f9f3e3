"""From the tensors of a plain function's operator to what a user gets, and from a given `_result` to tensors."""

from __future__ import annotations

import functools
import itertools
import keyword
import re
import sys
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torch_slang._descriptor import Descriptor, Parameter
from torch_slang._writable import obstacle_to_writing
from torch_slang.functions.leaf import FunctionLeaf, Tree

__all__ = ["FunctionResults", "copy_results", "is_array_type", "is_tensor_type", "no_result_type"]


class FunctionResults:
    """One result as it is; several as a named tuple: the returned value is `result`, others have parameters' names.

    A struct is a named tuple of its fields, an array of structs a tuple.
    """

    def __init__(self, about: Descriptor, error: Callable[[str], TypeError]) -> None:
        self._error = error
        leaves = [FunctionLeaf.of(leaf) for leaf in about.leaves]
        self.leaves = [leaf for leaf in leaves if leaf.is_output]
        trees = about.results
        self._names = [tree.name for tree in trees]
        self._type = f"{about.name}_results"
        if len(trees) > 1:
            trees = (Parameter("_result", self._type, -1, trees),)
        self.tree = Tree.of(trees[0], "_result") if trees else Tree("_result (void)", "_result", "void", -1, (), ())
        self.is_tensor = self.tree.leaf >= 0 or not trees
        self._inputs = len(leaves) - len(self.leaves)
        self._maker = _Maker.of(self.tree, self._inputs)

    def build(self, tensors: Any) -> Any:
        """What the function gives for what its operator gave."""
        if self.is_tensor:
            return tensors
        return self._maker.build([tensors] if isinstance(tensors, Tensor) else tensors)

    def by_name(self, built: Any) -> dict[str, Any]:
        """What `build` gave, by the names of the results."""
        return dict(zip(self._names, built if len(self._names) > 1 else [built], strict=True))

    def arrays(self, tensors: Sequence[Tensor]) -> Any:
        """The same with NumPy's arrays."""
        return self._maker.build([tensor.numpy(force=True) for tensor in tensors])

    def flatten(self, result: Any) -> Sequence[Tensor]:
        """The tensors of a `_result`, one for each leaf. NumPy's arrays lend their memory."""
        given: list[Any] = []
        self.tree.take_apart(result, given, self._error)
        return [self._tensor(leaf, value) for leaf, value in zip(self.leaves, given, strict=True)]

    def has_arrays(self, result: Any) -> bool:
        """Whether a `_result` is one of NumPy's arrays, or has some."""
        given: list[Any] = []
        self.tree.take_apart(result, given, self._error)
        return any(map(_is_array, given))

    def differentiable(self, tensors: Sequence[Tensor]) -> list[tuple[str, Tensor]]:
        """Those that have gradients, with their names."""
        pairs = zip(self.leaves, tensors, strict=True)
        return [(leaf.name, tensor) for leaf, tensor in pairs if leaf.differentiable]

    def others(self, outputs: Mapping[str, Any]) -> list[str]:
        """The results that no `out` parameter takes: the returned value, and `inout` parameters."""
        return [name for name in self._names if name not in outputs]

    def whole(self, outputs: Mapping[str, Any], result: Any) -> Any:
        """The `_result` of all: `out` parameters' values, and that of the returned value."""
        if len(self._names) == 1:
            return outputs.get(self._names[0], result)
        return tuple(outputs.get(name, result) for name in self._names)

    def pairs(self, outputs: Mapping[str, Any]) -> list[tuple[FunctionLeaf, Tensor]]:
        """The tensors given for `out` parameters, with their leaves."""
        return [
            (self.leaves[index], self._tensor(self.leaves[index], value))
            for name, given in outputs.items()
            for index, value in self._flattened(name, given)
        ]

    def deal(
        self, qualified: str, computed: Sequence[Tensor], outputs: Mapping[str, Any], others: Sequence[str], result: Any
    ) -> Any:
        """Copies what `out` parameters give into their tensors, and gives the other results as `result` says."""
        indices, targets = [], []
        for name, given in outputs.items():
            for index, value in self._flattened(name, given):
                indices.append(index)
                targets.append(self._tensor(self.leaves[index], value))
        names = [self.leaves[index].name for index in indices]
        copy_results(qualified, names, targets, [computed[index] for index in indices])
        built = self.arrays(computed) if is_array_type(result) else self._maker.build(computed)
        left = [built[self._names.index(name)] for name in others]
        return left[0] if len(left) == 1 else _named_tuple(self._type, tuple(others))._make(left)

    def _flattened(self, name: str, given: Any) -> list[tuple[int, Any]]:
        """The indices of one result's leaves, with the values given for them."""
        tree = self.tree if len(self._names) == 1 else self.tree.fields[self._names.index(name)]
        values: list[Any] = []
        tree.take_apart(given, values, self._error)
        return list(zip(_leaves_of(tree, self._inputs), values, strict=True))

    def _tensor(self, leaf: FunctionLeaf, value: Any) -> Tensor:
        if isinstance(value, Tensor):
            return value
        if _is_array(value):
            return torch.from_numpy(value)
        raise self._error(f"expected {leaf.what} of _result to be a tensor, but got a {type(value).__name__}")


@dataclass(frozen=True, slots=True)
class _Maker:
    """How a result is made of tensors."""

    index: int  # negative: a struct
    make: Callable[[Any], Any]  # from the fields' values
    fields: tuple[_Maker, ...]

    @classmethod
    def of(cls, tree: Tree, inputs: int) -> _Maker:
        is_array = tree.leaf < 0 and tree.names[:1] != () and tree.names[0].isdigit()
        make = tuple if tree.leaf >= 0 or is_array else _named_tuple(_simple_name(tree.type), tree.names)._make
        return cls(tree.leaf - inputs, make, tuple(cls.of(field, inputs) for field in tree.fields))

    def build(self, tensors: Sequence[Any]) -> Any:
        return tensors[self.index] if self.index >= 0 else self.make([field.build(tensors) for field in self.fields])


def is_tensor_type(result: Any) -> bool:
    """Whether this asks for tensors, which a function gives anyway."""
    return result is torch.Tensor or (isinstance(result, str) and result == "tensor")


def is_array_type(result: Any) -> bool:
    """Whether this asks for NumPy's arrays."""
    if isinstance(result, str):
        return result == "numpy"
    return isinstance(result, type) and (result.__module__, result.__name__) == ("numpy", "ndarray")


def no_result_type(result: Any) -> str:
    """Says that a result cannot be that."""
    given = repr(result) if isinstance(result, (str, type)) else f"a {type(result).__name__}"
    return (
        "results are tensors or arrays: torch.Tensor, 'tensor', 'numpy', or tensors to write into, but the result was "
        f"to be {given}"
    )


def copy_results(qualified: str, names: Sequence[str], outputs: Sequence[Tensor], results: Sequence[Tensor]) -> None:
    """Copies results into tensors that must be like them, and apart."""
    for name, output, value in zip(names, outputs, results, strict=True):
        _check_like(f"{qualified}: expected {name}", output, value)
        obstacle = obstacle_to_writing(output)
        if obstacle:
            given = "_result" if name == "result" else name
            raise RuntimeError(f"{qualified}: expected {given} to be a tensor to write into, but got {obstacle}")
    _check_apart(qualified, names, outputs)
    for output, value in zip(outputs, results, strict=True):
        output.copy_(value)


def _check_like(expected: str, output: Tensor, result: Tensor) -> None:
    if output.shape != result.shape:
        raise RuntimeError(f"{expected} to have the result's shape {list(result.shape)}, but got {list(output.shape)}")
    for what in ("dtype", "device"):
        if getattr(output, what) != getattr(result, what):
            raise RuntimeError(
                f"{expected} to have the result's {what} {getattr(result, what)}, but got {getattr(output, what)}"
            )


def _check_apart(qualified: str, names: Sequence[str], outputs: Sequence[Tensor]) -> None:
    for (name, output), (later, other) in itertools.combinations(zip(names, outputs, strict=True), 2):
        if output is other:
            raise RuntimeError(f"{qualified}: expected {name} and {later} to be tensors apart, but they share memory")


def _leaves_of(tree: Tree, inputs: int) -> list[int]:
    if tree.leaf >= 0:
        return [tree.leaf - inputs]
    return [index for field in tree.fields for index in _leaves_of(field, inputs)]


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


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
