"""``module.f.map(...)``: which dimension of a call each dimension of an argument goes along."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from torch_slang._library import _C
from torch_slang.functions.arguments import FunctionArguments
from torch_slang.functions.instance import GenericArguments, check_type
from torch_slang.functions.leaf import FunctionLeaf, Tree
from torch_slang.generators import Generator

__all__ = ["DimensionMap", "generic_arguments"]

_Dimensions = tuple[int, ...]


class DimensionMap:
    """For each tensor of an operator the dimensions of the call that the tensor's own go along.

    A negative dimension counts from the call's last. A tensor without a map broadcasts as ever: from the right. All is
    done with views, so gradients come back through PyTorch's own.
    """

    def __init__(self, arguments: FunctionArguments, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self._arguments = arguments
        self._leaves: list[FunctionLeaf] = arguments.leaves
        self._dimensions: list[_Dimensions | None] = [None] * len(arguments.leaves)
        self._outputs: dict[str, _Dimensions] = {}  # of `out` parameters
        for tree, given in _by_parameter(arguments, args, kwargs):
            self._read(tree, given)

    def place(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Views of the tensors that broadcast from the right to the call's shape."""
        rank = self._rank(tensors)
        places = self._places(tensors, rank)
        return [
            tensor if place is None else _placed(tensor, place, rank)
            for tensor, place in zip(tensors, places, strict=True)
        ]

    def place_written(self, name: str, target: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """The given argument of an `inout` parameter, or a field of it ("camera.focus"), as the call sees it."""
        if name in self._outputs:
            output = self._arguments.output_leaves[self._arguments.output_trees[name].leaf]
            return torch.as_tensor(self._place_output(name, target, value.dim() - len(output.shape)))
        leaf = next((one for one in self._leaves if one.what.split(" ", maxsplit=1)[0] == name), None)
        given = None if leaf is None else self._dimensions[self._leaves.index(leaf)]
        if leaf is None or given is None:
            return target
        rank = value.dim() - len(leaf.shape)
        return _placed(target, tuple(dimension % rank for dimension in given), rank)

    def place_outputs(self, outputs: Mapping[str, Any], tensors: Sequence[torch.Tensor]) -> dict[str, Any]:
        """Views of the given arguments of `out` parameters, as the call sees them."""
        rank = self._rank(tensors)
        return {name: self._place_output(name, target, rank) for name, target in outputs.items()}

    def place_output_gradients(self, outputs: Mapping[str, Any], tensors: Sequence[torch.Tensor]) -> dict[str, Any]:
        """The same for a backward, which reads their `.grad`."""
        placed = self.place_outputs(outputs, tensors)
        gradients = {name: _C.gradient_of(outputs[name]) for name in self._outputs if name in outputs}
        for name, gradient in self.place_outputs(gradients, tensors).items():
            placed[name] = placed[name].detach()
            placed[name].grad = gradient
        return placed

    def _place_output(self, name: str, target: Any, rank: int) -> Any:
        given = self._outputs.get(name)
        if given is None or target is None:
            return target
        target = torch.as_tensor(target)
        place = tuple(dimension % rank for dimension in given if -rank <= dimension < rank)
        if sorted(place) != list(range(rank)) or len(given) != rank or target.dim() < rank:
            raise self._error(
                f"expected {name}, which is written, to name each of the call's {rank} dimensions once, but got "
                f"{given} for shape {list(target.shape)}"
            )
        return _placed(target, place, rank)

    def take_back(self, gradients: Sequence[Any], tensors: Sequence[torch.Tensor]) -> list[Any]:
        """From gradients of the views, None where there is none, to gradients of the tensors."""
        rank = self._rank(tensors)
        return [
            gradient if gradient is None or place is None else _taken_back(gradient, place, rank)
            for gradient, place in zip(gradients, self._places(tensors, rank), strict=True)
        ]

    @property
    def given(self) -> list[_Dimensions | None]:
        """What the map says of each leaf."""
        return self._dimensions

    def __str__(self) -> str:
        pairs = zip(self._leaves, self._dimensions, strict=True)
        return f"map({', '.join(f'{leaf.name}={place}' for leaf, place in pairs if place is not None)})"

    def _read(self, tree: Tree, given: Any) -> None:
        if given is None:
            return
        if isinstance(given, str):
            check_type(tree.what, tree.type, given, (), self._error)
        elif tree.leaf < 0:
            self._read_fields(tree, given)
        elif tree.leaf < len(self._leaves) and self._leaves[tree.leaf].is_whole:
            raise self._error(f"{tree.what} has no map, since the function sees the tensor whole")
        elif isinstance(given, tuple | list) and all(type(dimension) is int for dimension in given):
            if len(set(given)) != len(given):
                raise self._error(f"expected {tree.what} to name each dimension once, but got {tuple(given)}")
            if tree.leaf < len(self._leaves):
                self._dimensions[tree.leaf] = tuple(given)
            elif tree.name in self._arguments.outputs:
                self._outputs[tree.name] = tuple(given)
            else:
                raise self._error(f"{tree.what} has no map, since it is a field of an out parameter")
        else:
            raise self._error(f"expected {tree.what} to be a tuple of dimensions or a type's name, but got {given!r}")

    def _read_fields(self, tree: Tree, given: Any) -> None:
        if not isinstance(given, Mapping):
            raise self._error(
                f"expected {tree.what} to be a mapping of its fields to their dimensions, but got {given!r}"
            )
        unknown = [str(name) for name in given if name not in tree.names]
        if unknown:
            raise self._error(f"{tree.what} has no field {', '.join(unknown)}")
        for name, field in zip(tree.names, tree.fields, strict=True):
            self._read(field, given.get(name))

    def _rank(self, tensors: Sequence[torch.Tensor]) -> int:
        """How many dimensions the call has: as many as the map names, and as arguments without a map have."""
        rank = 0
        for leaf, place, tensor in zip(self._leaves, self._dimensions, tensors, strict=True):
            if isinstance(tensor, Generator) or leaf.is_whole:
                continue
            if place is None:
                rank = max(rank, tensor.dim() - len(leaf.shape))
                continue
            for dimension in place:
                rank = max(rank, dimension + 1 if dimension >= 0 else -dimension)
        return rank

    def _places(self, tensors: Sequence[torch.Tensor], rank: int) -> list[_Dimensions | None]:
        """The map without negative dimensions, once it is known to fit these tensors."""
        places: list[_Dimensions | None] = []
        with_size: set[int] = set()
        for leaf, given, tensor in zip(self._leaves, self._dimensions, tensors, strict=True):
            if leaf.is_whole:
                places.append(None)
                continue
            if isinstance(tensor, Generator):
                if given is not None:
                    raise self._error(f"expected {leaf.what} to be a tensor, since it has a map, but got a generator")
                places.append(None)
                continue
            own = tensor.dim() - len(leaf.shape)
            if given is None:
                places.append(None)
                with_size.update(range(rank - own, rank))
                continue
            if own != len(given):
                raise self._error(
                    f"expected {leaf.what} to have {len(given)} dimensions before its elements' {len(leaf.shape)}, for "
                    f"{given}, but got shape {list(tensor.shape)}"
                )
            place = tuple(dimension % rank for dimension in given)
            if len(set(place)) != len(place):
                raise self._error(
                    f"expected {leaf.what} to name each of the call's {rank} dimensions once, but got {given}"
                )
            places.append(place)
            with_size.update(place)
        without_size = next((dimension for dimension in range(rank) if dimension not in with_size), None)
        if without_size is not None:
            raise self._error(f"no argument has dimension {without_size} of the call's {rank}")
        return places

    def _error(self, message: str) -> TypeError:
        return self._arguments.error(f"map: {message}")


def generic_arguments(
    arguments: FunctionArguments, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> GenericArguments | None:
    """What the types among a map's values say of a function's generic arguments. None if nothing. Raises TypeError."""

    def error(message: str) -> TypeError:
        return arguments.error(f"map: {message}")

    found: dict[str, tuple[str, str]] = {}
    for tree, name in _typed(_by_parameter(arguments, args, kwargs)):
        for generic, word in check_type(tree.what, tree.type, name, arguments.generics, error).items():
            known, where = found.setdefault(generic, (word, tree.what))
            if known != word:
                raise error(f"{generic} is {known} by the type of {where}, but {word} by that of {tree.what}")
    if not found:
        return None
    sizes = [found[name][0] if name in found else "" for name in arguments.size_parameters]
    wrong = next((size for size in sizes if size and not size.isdigit()), None)
    if wrong is not None:
        raise error(f"expected sizes to be numbers, but got {wrong!r}")
    types = tuple(found[name][0] if name in found else "" for name in arguments.type_parameters)
    return types, tuple(int(size) if size else None for size in sizes)


def _typed(given: Sequence[tuple[Tree, Any]]) -> Iterator[tuple[Tree, str]]:
    """The parameters and fields for which a map has a type."""
    for tree, value in given:
        if isinstance(value, str):
            yield tree, value
        elif isinstance(value, Mapping):
            fields = zip(tree.names, tree.fields, strict=True)
            yield from _typed([(field, value[name]) for name, field in fields if name in value])


def _by_parameter(
    arguments: FunctionArguments, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[tuple[Tree, Any]]:
    """What a map says of each parameter. `out` ones count where all are given, as in calls."""
    trees = {**dict(zip(arguments.names, arguments.trees, strict=True)), **arguments.output_trees}
    names: Sequence[str] = arguments.names
    if len(args) > len(names):
        names = arguments.order
    if len(args) > len(names):
        raise arguments.error(f"map: expected at most {len(names)} arguments, but got {len(args)}")
    for name in kwargs:
        if name not in trees:
            raise arguments.error(f"map: there is no argument {name}")
        if name in names[: len(args)]:
            raise arguments.error(f"map: got two values for {name}")
    return [(trees[name], given) for name, given in (*zip(names, args, strict=False), *kwargs.items())]


def _placed(tensor: torch.Tensor, place: _Dimensions, rank: int) -> torch.Tensor:
    order = sorted(range(len(place)), key=place.__getitem__)
    view = tensor.permute((*order, *range(len(place), tensor.dim())))
    for dimension in range(rank):
        if dimension not in place:
            view = view.unsqueeze(dimension)
    return view


def _taken_back(gradient: torch.Tensor, place: _Dimensions, rank: int) -> torch.Tensor:
    """Undoes what `_placed` did."""
    view = gradient.permute((*place, *(d for d in range(rank) if d not in place), *range(rank, gradient.dim())))
    for _ in range(rank - len(place)):
        view = view.squeeze(len(place))
    return view
