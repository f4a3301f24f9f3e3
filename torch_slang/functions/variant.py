"""A plain function with a map of dimensions, or another kind of result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch_slang.functions.map import DimensionMap

if TYPE_CHECKING:
    from torch_slang.functions.function import Function
    from torch_slang.functions.overloads import OverloadedFunction

__all__ = ["FunctionVariant"]


class FunctionVariant:
    """A function whose arguments' dimensions go where its map says, instead of broadcasting from the right, and whose
    results are what ``return_type`` said.

    It is called as the function itself, with ``_result=`` too, and has its ``bwds``, ``map`` and ``return_type``.
    """

    def __init__(
        self,
        function: Function | OverloadedFunction,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        result: Any = None,
    ) -> None:
        self._function = function.with_types(args, kwargs or {})
        self._given = (args, kwargs or {})
        self._result = result
        self._maps: dict[Function, DimensionMap] = {}
        functions = self._function.candidates
        if len(functions) == 1:
            self.map_of(functions[0])  # soon, for its errors

    def __call__(self, /, *args: Any, _result: Any = None, **kwargs: Any) -> Any:
        function = self._function.choose(args, kwargs, self.map_of)
        return function.call(args, kwargs, self._result if _result is None else _result, self.map_of(function))

    def bwds(self, /, *args: Any, _result: Any = None, **kwargs: Any) -> None:
        """As the function's own ``bwds``. Gradients have the shapes of the arguments as they were passed."""
        function = self._function.choose(args, kwargs, self.map_of)
        function.add_gradients(args, kwargs, _result, self.map_of(function))

    def map(self, /, *args: Any, **kwargs: Any) -> FunctionVariant:
        """The function with this map, in place of the one that it has."""
        return FunctionVariant(self._function, args, kwargs, self._result)

    def return_type(self, result: Any) -> FunctionVariant:
        """The function with this kind of result, as the function's own ``return_type``."""
        self._function.check_return_type(result)
        return FunctionVariant(self._function, *self._given, result)

    def as_func(self) -> FunctionVariant:
        """The function itself, for programs that tell functions from structs."""
        return self

    def map_of(self, function: Function) -> DimensionMap | None:
        """The map, as this function has it."""
        args, kwargs = self._given
        if not args and not kwargs:
            return None
        if function not in self._maps:
            self._maps[function] = DimensionMap(function.arguments, args, kwargs)
        return self._maps[function]

    def __repr__(self) -> str:
        maps = "".join(f" with {one}" for one in self._maps.values())
        return f"<torch_slang function {self._function!r}{maps}>"
