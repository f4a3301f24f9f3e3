"""Plain functions of one name: a call takes the one that its arguments fit best."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from torch_slang._numbers import kind_of, number_of, widens
from torch_slang.functions.variant import FunctionVariant
from torch_slang.generators import Generator

if TYPE_CHECKING:
    from torch_slang.functions.arguments import FunctionArguments
    from torch_slang.functions.function import Function
    from torch_slang.functions.leaf import FunctionLeaf
    from torch_slang.functions.map import DimensionMap

__all__ = ["OverloadedFunction"]

_REMEMBERED = 256  # choices

# How well a number goes with a type, by its kind: bool, integer, other. Types that are missing here go too, but worse.
_NUMBERS = (
    {torch.bool: 0, torch.int32: 1},
    {torch.int32: 0, torch.int64: 1, torch.float32: 3},
    {torch.float32: 0, torch.float64: 1},
)
_WORSE = 4
# Of a tensor: more than what dimensions count, of which more are better.
_WIDER = 10


class OverloadedFunction:
    """Functions that share a name in the Slang source. Each is one by itself too, named after its parameters' types:
    ``module.blend`` is ``module.blend_float`` or ``module.blend_float3``.

    A function is better than another if each argument fits it as well or better. Exact types go before wider ones, then
    vectors before numbers.
    Raises TypeError where none fits, and where none is better than all others: the message lists them.
    """

    def __init__(self, name: str, functions: Sequence[Function]) -> None:
        self.__name__ = name
        self.candidates = tuple(functions)
        self._chosen: dict[Any, Function] = {}

    def __call__(self, /, *args: Any, _result: Any = None, **kwargs: Any) -> Any:
        return self.choose(args, kwargs)(*args, _result=_result, **kwargs)

    def bwds(self, /, *args: Any, _result: Any, **kwargs: Any) -> None:
        """As that of the function which the arguments fit."""
        self.choose(args, kwargs).bwds(*args, _result=_result, **kwargs)

    def map(self, /, *args: Any, **kwargs: Any) -> FunctionVariant:
        """As :meth:`Function.map`. The map says which arguments are vectors; type names choose the function."""
        return FunctionVariant(self, args, kwargs)

    def with_types(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Function | OverloadedFunction:
        """The functions that the types in a map fit, generic ones with the arguments that these say."""
        fitting, reasons = [], []
        for function in self.candidates:
            try:
                fitting.append(function.with_types(args, kwargs))
            except TypeError as reason:
                reasons.append(str(reason))
        if not fitting:
            raise TypeError(f"{self.__name__}: no overload fits the map:\n  " + "\n  ".join(reasons))
        return self if tuple(fitting) == self.candidates else OverloadedFunction(self.__name__, fitting)

    def as_func(self) -> OverloadedFunction:
        """The function itself, for programs that tell functions from structs."""
        return self

    def return_type(self, result: Any) -> FunctionVariant:
        """As :meth:`Function.return_type`."""
        return FunctionVariant(self).return_type(result)

    def check_return_type(self, result: Any) -> None:
        """Raises TypeError for what no result can be."""
        self.candidates[0].check_return_type(result)

    def choose(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        maps: Callable[[Function], DimensionMap | None] | None = None,
    ) -> Function:
        """The function that fits the arguments, each mapped as `maps` says of it."""
        key = None if maps is not None or torch.compiler.is_compiling() else _signature(args, kwargs)
        if key is not None and key in self._chosen:
            return self._chosen[key]
        fitting: list[tuple[Function, list[int]]] = []
        reasons = []
        for function in self.candidates:
            try:
                # A map may be one that the function's own arguments rule out.
                fitting.append((function, _costs(function.described(), args, kwargs, maps and maps(function))))
            except (TypeError, OverflowError) as reason:
                reasons.append(str(reason))
        if not fitting:
            raise TypeError(f"{self.__name__}: no overload fits the arguments:\n  " + "\n  ".join(reasons))
        best = [one for one, costs in fitting if not any(_is_better(other, costs) for _, other in fitting)]
        if len(best) > 1:
            candidates = "\n  ".join(str(function.described()) for function in best)
            raise TypeError(f"{self.__name__}: ambiguous for these arguments, which fit all of\n  {candidates}")
        if key is not None:
            if len(self._chosen) >= _REMEMBERED:
                self._chosen.clear()
            self._chosen[key] = best[0]
        return best[0]

    def __repr__(self) -> str:
        return f"<torch_slang overloads {', '.join(str(function.described()) for function in self.candidates)}>"


def _is_better(one: Sequence[int], other: Sequence[int]) -> bool:
    return one != other and len(one) == len(other) and all(a <= b for a, b in zip(one, other, strict=True))


def _signature(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """What a choice depends on. None where that is too much to say."""
    key: list[Any] = [len(args), *kwargs]
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            key.append((value.dtype, value.shape))
        elif isinstance(value, (bool, float)):
            key.append(type(value))
        else:
            return None
    return tuple(key)


def _costs(
    arguments: FunctionArguments, args: tuple[Any, ...], kwargs: Mapping[str, Any], dimensions: DimensionMap | None
) -> list[int]:
    """How badly each leaf fits. Raises TypeError or OverflowError where one does not."""
    values = arguments.values(*arguments.split(args, kwargs)[:2])
    places = [None] * len(values) if dimensions is None else dimensions.given
    return [
        _cost(arguments, leaf, value, place)
        for leaf, value, place in zip(arguments.leaves, values, places, strict=True)
    ]


def _cost(arguments: FunctionArguments, leaf: FunctionLeaf, value: Any, place: tuple[int, ...] | None) -> int:
    if isinstance(value, Mapping):
        value = arguments.vector(leaf, value)
    if isinstance(value, Generator):
        if leaf.dtype is None or leaf.dtype.is_floating_point != value.takes_floats:
            raise arguments.error(f"{leaf.what} does not fit its generator")
        return 0
    if isinstance(value, torch.Tensor):
        _check_shape(arguments, leaf, value, place)
        if leaf.is_whole:
            return _whole_cost(arguments, leaf, value)
        if leaf.dtype is not None and not widens(value.dtype, leaf.dtype):
            raise arguments.error(f"expected {leaf.what} to have dtype {leaf.dtype}, but got {value.dtype}")
        return (0 if value.dtype == leaf.dtype else _WIDER) - len(leaf.shape)
    numbers = list(_numbers(value, leaf.shape, arguments, leaf))
    dtype = leaf.dtype or torch.get_default_dtype()
    if any(number_of(number, dtype) is None for number in numbers):
        raise arguments.error(f"expected {leaf.what} to be of {dtype}, but got {value!r}")
    worst = 0
    for number in numbers:
        worst = max(worst, _NUMBERS[kind_of(number)].get(dtype, _WORSE))
    return worst


def _whole_cost(arguments: FunctionArguments, leaf: FunctionLeaf, tensor: torch.Tensor) -> int:
    """Of a tensor that is seen whole: how many dimensions it has more than the type says, over which a call may go."""
    if leaf.dtype is not None and tensor.dtype != leaf.dtype:
        raise arguments.error(f"expected {leaf.what} to have dtype {leaf.dtype}, but got {tensor.dtype}")
    rank = re.search(r"Tensor<.*, ?(\d+)>$", leaf.type)
    more = 0 if rank is None else tensor.dim() - len(leaf.shape) - int(rank[1])
    if more < 0:
        raise arguments.error(f"{leaf.what} does not fit shape {list(tensor.shape)}")
    return more - len(leaf.shape)


def _check_shape(
    arguments: FunctionArguments, leaf: FunctionLeaf, tensor: torch.Tensor, place: tuple[int, ...] | None
) -> None:
    outer = tensor.dim() - len(leaf.shape)
    inner = tensor.shape[max(outer, 0) :]
    fits = outer >= 0 and all(wanted < 0 or size == wanted for size, wanted in zip(inner, leaf.shape, strict=True))
    if not fits or (place is not None and outer != len(place)):
        raise arguments.error(f"{leaf.what} does not fit shape {list(tensor.shape)}")


def _numbers(value: Any, shape: tuple[int, ...], arguments: FunctionArguments, leaf: FunctionLeaf) -> Any:
    if not shape:
        if kind_of(value) < 0:
            raise arguments.error(f"expected {leaf.what} to be a tensor or a number, but got a {type(value).__name__}")
        yield value
        return
    if not isinstance(value, list | tuple) or (shape[0] >= 0 and len(value) != shape[0]):
        raise arguments.error(f"{leaf.what} does not fit {value!r}")
    for item in value:
        yield from _numbers(item, shape[1:], arguments, leaf)
