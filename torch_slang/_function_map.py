"""``module.f.map(...)``: which dimension of a call each dimension of an argument goes along."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from torch_slang._function_arguments import FunctionArguments, FunctionLeaf, Tree
from torch_slang.generators import Generator

__all__ = ["DimensionMap", "short_name"]

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
        for tree, given in self._bound(args, kwargs):
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
        """What is given for an `inout` parameter, or a field of it ("camera.focus"), as the call sees it."""
        leaf = next((one for one in self._leaves if one.what.split(" ", maxsplit=1)[0] == name), None)
        given = None if leaf is None else self._dimensions[self._leaves.index(leaf)]
        if leaf is None or given is None:
            return target
        rank = value.dim() - len(leaf.shape)
        return _placed(target, tuple(dimension % rank for dimension in given), rank)

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

    def _bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[tuple[Tree, Any]]:
        names = self._arguments.names
        if len(args) > len(names):
            raise self._error(f"expected at most {len(names)} arguments, but got {len(args)}")
        for name in kwargs:
            if name not in names:
                raise self._error(f"there is no argument {name}")
            if name in names[: len(args)]:
                raise self._error(f"got two values for {name}")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        return ((tree, given.get(name)) for name, tree in zip(names, self._arguments.trees, strict=True))

    def _read(self, tree: Tree, given: Any) -> None:
        if given is None:
            return
        if isinstance(given, str):
            if given not in {tree.type, short_name(tree.type)}:
                raise self._error(f"expected the type of {tree.what} as Slang has it, but got {given!r}")
        elif tree.leaf < 0:
            self._read_fields(tree, given)
        elif self._leaves[tree.leaf].is_whole:
            raise self._error(f"{tree.what} has no map, since the function sees the tensor whole")
        elif isinstance(given, tuple | list) and all(type(dimension) is int for dimension in given):
            if len(set(given)) != len(given):
                raise self._error(f"expected {tree.what} to name each dimension once, but got {tuple(given)}")
            self._dimensions[tree.leaf] = tuple(given)
        else:
            raise self._error(f"expected {tree.what} to be a tuple of dimensions, but got {given!r}")

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


def short_name(slang_type: str) -> str:
    """`float3` of `vector<float,3>`, `float2x3` of `matrix<float,2,3>`."""
    name = re.sub(r"^vector<(\w+),(\d)>$", r"\1\2", slang_type)
    return re.sub(r"^matrix<(\w+),(\d),(\d)>$", r"\1\2x\3", name)


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
