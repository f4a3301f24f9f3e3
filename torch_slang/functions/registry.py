"""Plain functions by numbers, as text: what a trace calls takes constants, no objects, and integers may be symbols."""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch_slang.functions.function import Function

__all__ = ["add", "function_of"]

_functions: weakref.WeakValueDictionary[str, Function] = weakref.WeakValueDictionary()
_numbers = itertools.count()


def add(function: Function) -> str:
    """Gives the function a number."""
    number = str(next(_numbers))
    _functions[number] = function
    return number


def function_of(number: str) -> Function:
    """The function with this number."""
    return _functions[number]
