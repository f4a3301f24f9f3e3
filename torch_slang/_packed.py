"""The lists that an operator takes in place of more than 64 arguments (csrc/operators/packed_arguments.h)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch_slang._descriptor import Descriptor

__all__ = ["Packing", "packing_of"]


class Packing:
    """Which of an operator's arguments stand in which list."""

    def __init__(self, lists: list[tuple[str, list[str]]], names: list[str]) -> None:
        self._lists = lists
        self._names = names

    def packed(
        self, given: Mapping[str, Any], defaults: Mapping[str, Any], error: Callable[[str], Exception]
    ) -> dict[str, Any]:
        """The operator's arguments by name, of arguments by name. `defaults`: of those that may be left out."""
        rest = dict(given)
        result: dict[str, Any] = {}
        for list_name, members in self._lists:
            items: list[Any] = []
            for name in members:
                if name not in rest and name not in defaults:
                    raise error(f"missing {name}")
                value = rest.pop(name) if name in rest else defaults[name]
                items.extend(value) if isinstance(value, list | tuple) else items.append(value)
            result[list_name] = items
        return result | rest  # the operator reports what it does not know

    def called_by_place(self, op: Any) -> Callable[..., Any]:
        """The operator with its arguments one by one."""

        def call(*arguments: Any) -> Any:
            return op(**self.packed(dict(zip(self._names, arguments, strict=True)), {}, TypeError))

        return call


def packing_of(about: Descriptor, kind: str) -> Packing | None:
    """That of one operator of a kernel or function. None: it takes its arguments one by one."""
    added = about.added.get(kind)
    return None if added is None or added.packed is None else Packing(added.packed, added.names)
