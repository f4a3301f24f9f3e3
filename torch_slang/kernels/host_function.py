"""Host functions: ``[TorchEntryPoint]`` in Slang, which allocate tensors and dispatch kernels of their module."""

from __future__ import annotations

import functools
import operator
from collections import namedtuple
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from torch_slang._struct_values import field_values

_HALF = 1 << 63


@dataclass(frozen=True, slots=True)
class _Tree:
    """A parameter or result: a tensor, a value, or a struct (or an array) of such."""

    name: str
    type: str
    kind: str  # "tensor", "value" or "struct"
    shape: tuple[int, ...]  # of a value
    dtype: str
    fields: tuple[_Tree, ...]

    @classmethod
    def of(cls, told: dict[str, Any]) -> _Tree:
        return cls(
            name=told["name"],
            type=told["type"],
            kind=told["kind"],
            shape=told.get("shape", ()),
            dtype=told.get("dtype", ""),
            fields=tuple(map(cls.of, told["fields"])),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Of the fields."""
        return tuple(field.name for field in self.fields)


class HostFunction:
    """A host function as a Python function: positional or keyword arguments in the order of the Slang source.

    A struct is given as a mapping, a named tuple, or a tuple or list of its fields, and comes back as a named tuple;
    vectors and arrays are sequences of numbers. Not differentiable. New tensors are made where the arguments' tensors
    are; a function that is given none makes them on ``device``, by default on the GPU if there is one.
    """

    def __init__(self, handle: Any, name: str) -> None:
        about = handle.describe_host_function(name)
        self.__name__ = name
        self._handle = handle
        self._qualified: str = about["name"]
        self._place = f"{about['file']}:{about['line']}"
        self._parameters = [_Tree.of(told) for told in about["parameters"]]
        self._result = None if about["result"] is None else _Tree.of(about["result"])
        self._refusal: str = about["refusal"]

    def __call__(self, *args: Any, device: torch.device | str | None = None, **kwargs: Any) -> Any:
        if self._refusal:
            raise RuntimeError(f"{self._qualified} ({self._place}) cannot be called: {self._refusal}")
        components: list[Any] = []
        for parameter, value in zip(self._parameters, self._bind(args, kwargs), strict=True):
            self._flatten(parameter, value, parameter.name, components)
        results = self._handle.call_host_function(self.__name__, components, None if device is None else str(device))
        return None if self._result is None else self._build(self._result, iter(results))

    def __repr__(self) -> str:
        return f"<torch_slang host function {self._signature()} of {self._place}>"

    def _signature(self) -> str:
        parameters = ", ".join(f"{p.name}: {p.type}" for p in self._parameters)
        return f"{self._qualified}({parameters})"

    def _error(self, message: str) -> TypeError:
        return TypeError(f"{self._signature()}: {message}")

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        names = [parameter.name for parameter in self._parameters]
        if len(args) > len(names):
            raise self._error(f"expected {len(names)} arguments, but got {len(args) + len(kwargs)}")
        given = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in names:
                raise self._error(f"there is no argument {name}")
            if name in given:
                raise self._error(f"got two values for {name}")
            given[name] = value
        missing = [name for name in names if name not in given]
        if missing:
            raise self._error(f"expected {len(names)} arguments, but {', '.join(missing)} is missing")
        return [given[name] for name in names]

    def _flatten(self, tree: _Tree, value: Any, path: str, components: list[Any]) -> None:
        if tree.kind == "tensor":
            if not isinstance(value, torch.Tensor):
                raise self._error(f"expected {path} ({tree.type}) to be a tensor, but got {type(value).__name__}")
            components.append(value)
        elif tree.kind == "value":
            components.extend(self._numbers(tree, value, tree.shape, path))
        else:
            values = field_values(f"{path} ({tree.type})", tree.names, value, self._error)
            for field, item in zip(tree.fields, values, strict=True):
                self._flatten(field, item, f"{path}.{field.name}", components)

    def _numbers(self, tree: _Tree, value: Any, shape: tuple[int, ...], path: str) -> Iterator[Any]:
        if isinstance(value, torch.Tensor):
            value = value.tolist()
        if not shape:
            yield self._number(tree, value, path)
            return
        if not isinstance(value, tuple | list) or len(value) != shape[0]:
            got = f"{len(value)} values" if isinstance(value, tuple | list) else repr(value)
            raise self._error(f"expected {path} ({tree.type}) to have {shape[0]} values, but got {got}")
        for item in value:
            yield from self._numbers(tree, item, shape[1:], path)

    def _number(self, tree: _Tree, value: Any, path: str) -> Any:
        try:
            if tree.dtype == "bool":
                return bool(operator.index(value))
            if "float" in tree.dtype:
                return float(value)
            number = operator.index(value)
        except (TypeError, ValueError):
            raise self._error(f"expected {path} to be a number of type {tree.type}, but got {value!r}") from None
        # A component has 64 bits, with a sign; the run-time checks narrower types.
        least = 0 if tree.dtype == "uint64" else -_HALF
        if not least <= number < least + 2 * _HALF:
            raise self._error(f"expected {path} ({tree.type}) to be of that type, but got {number}")
        return number - 2 * _HALF if number >= _HALF else number

    def _build(self, tree: _Tree, components: Iterator[Any]) -> Any:
        if tree.kind == "tensor":
            return next(components)
        if tree.kind == "value":
            return _shaped(components, tree.shape, tree.dtype == "uint64")
        fields = [self._build(field, components) for field in tree.fields]
        is_array = tree.names[0].isdigit()
        return tuple(fields) if is_array else _struct(tree.type.split(".")[-1], tree.names)._make(fields)


@functools.cache
def _struct(name: str, fields: tuple[str, ...]) -> Any:
    """The type of a struct's values."""
    make: Any = namedtuple  # whose checkers want names known in advance
    return make(name, fields, rename=True)


def _shaped(components: Iterator[Any], shape: tuple[int, ...], is_unsigned: bool) -> Any:
    if not shape:
        number = next(components)
        return number % (2 * _HALF) if is_unsigned else number
    return tuple(_shaped(components, shape[1:], is_unsigned) for _ in range(shape[0]))
