"""Values for a module's own declarations, written into its text."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["with_values"]

_TYPE = re.compile(r"^(bool|half|float|double|u?int(?:\d+_t)?|float(?:16|32|64)_t)([234]?)$")


def with_values(text: str, values: Mapping[str, Any], pattern: str, what: str) -> str:
    """`text`, whose declarations of these names become constants. `pattern` has the type as its only group."""
    for name, value in values.items():
        found = re.search(pattern.replace("{name}", re.escape(name)), text)
        if found is None:
            raise ValueError(f"slangpy: there is no {what} {name} in the module's own text")
        written = _written(name, found[1], value)
        text = f"{text[: found.start()]}static const {found[1]} {name} = {written};{text[found.end() :]}"
    return text


def _written(name: str, slang_type: str, value: Any) -> str:
    """A value as Slang writes it. Raises TypeError where it does not fit the type, which Slang would make it do."""
    if type(value).__module__ == "numpy":
        value = value.tolist()
    match = _TYPE.match(re.sub(r"^vector<(\w+),\s*(\d)>$", r"\1\2", slang_type))
    if isinstance(value, Sequence) and not isinstance(value, str):
        if match and len(value) != int(match[2] or 1):
            raise _misfit(name, slang_type, value)
        return "{" + ", ".join(_written(name, match[1] if match else "", item) for item in value) + "}"
    if not isinstance(value, (bool, int, float)):
        raise TypeError(
            f"slangpy: expected the value of {name} to be a number or a vector of numbers, but got a "
            f"{type(value).__name__}: pass it as an argument"
        )
    number = match[1] if match else ""
    if not math.isfinite(value) or ("int" in number and value != int(value)) or (number[:1] == "u" and value < 0):
        raise _misfit(name, slang_type, value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(int(value) if "int" in number else value)


def _misfit(name: str, slang_type: str, value: Any) -> TypeError:
    return TypeError(f"slangpy: expected the value of {name} to be a finite {slang_type}, but got {value!r}")
