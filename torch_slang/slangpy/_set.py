"""Values for a module's own declarations, written into its text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from torch_slang._numbers import SLANG_TYPES, number_of
from torch_slang.functions.instance import short_name, usual_name

__all__ = ["uniform_names", "with_values"]

_SCALAR = re.compile(r"bool|half|float|double|u?int(?:\d+_t)?|float(?:16|32|64)_t")
_TYPE = re.compile(rf"^({_SCALAR.pattern})(?:([234])(?:x([234]))?)?$")

_SUFFIXES = {torch.float64: "lf", torch.int64: "ll", torch.uint64: "ull", torch.uint32: "u"}

# Comments and directives are found to be left out: what they hold is no code.
_TOKEN = re.compile(
    r"""(?P<space>\s+ | //[^\n]* | /\*.*?\*/ | ^[ \t]*\#(?:\\\n|[^\n])*) | "(?:\\.|[^"\\])*" | \w+ | :: | .""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_MODIFIERS = {"public", "internal", "private", "uniform", "extern", "export", "static", "const", "no_diff"}
_OTHERS = {"import", "using", "typealias", "typedef", "module", "implementing", "groupshared", "let", "var", "return"}
_BLOCKS = ("ParameterBlock", "ConstantBuffer")


class _Token(NamedTuple):
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class _Declaration:
    """``uniform float gain;``: `start` and `end` are those of the statement in the text."""

    type: str
    name: str
    modifiers: frozenset[str]
    is_alone: bool
    start: int
    end: int

    @property
    def is_constant(self) -> bool:
        return {"extern", "static", "const"} <= self.modifiers

    @property
    def is_uniform(self) -> bool:
        return not self.modifiers & {"extern", "export", "static", "const"}


def uniform_names(text: str) -> list[str]:
    """The names of the uniforms that a text declares at file scope."""
    declared = _declarations(text, _statements(_tokens(text)))
    return list(dict.fromkeys(one.name for one in declared if one.is_uniform))


def with_values(text: str, uniforms: Mapping[str, Any], constants: Mapping[str, Any]) -> str:
    """`text`, whose declarations of these names become constants.

    Raises ValueError for a name that is not declared at file scope, and TypeError for a value that does not fit.
    """
    structs = dict(_structs(text))
    declared = list(_declarations(text, _statements(_tokens(text))))
    changes: list[tuple[_Declaration, str]] = []
    for what, values, of_kind in (
        ("uniform", uniforms, [one for one in declared if one.is_uniform]),
        ("extern static const", constants, [one for one in declared if one.is_constant]),
    ):
        for name, value in values.items():
            found = [one for one in of_kind if one.name == name]  # several where preprocessor branches choose
            if not found:
                known = ", ".join(dict.fromkeys(one.name for one in of_kind)) or "none"
                raise ValueError(f"slangpy: there is no {what} {name} in the module's own text, which has: {known}")
            changes += _definitions(found, value, structs)
    for one, definition in sorted(changes, key=lambda change: -change[0].start):
        lines = "\n" * text.count("\n", one.start, one.end)  # so that diagnostics name the same ones
        text = text[: one.start] + definition + lines + text[one.end :]
    return text


def _definitions(
    declared: Sequence[_Declaration], value: Any, structs: Mapping[str, list[_Declaration]]
) -> list[tuple[_Declaration, str]]:
    """What stands in place of each declaration whose type the value fits: preprocessor branches may differ in it."""
    changes: list[tuple[_Declaration, str]] = []
    reasons: list[TypeError] = []
    for one in declared:
        try:
            changes.append((one, _definition(one, value, structs)))
        except TypeError as reason:
            reasons.append(reason)
    if not changes:
        raise reasons[0]
    return changes


def _definition(declaration: _Declaration, value: Any, structs: Mapping[str, list[_Declaration]]) -> str:
    if not declaration.is_alone:
        raise TypeError(f"slangpy: {declaration.name} is declared with others in one statement: give it one of its own")
    written = _written(declaration.name, declaration.type, value, structs)
    public = "public " if "public" in declaration.modifiers else ""
    return f"{public}static const {declaration.type} {declaration.name} = {written};"


def _tokens(text: str) -> list[_Token]:
    return [_Token(found[0], *found.span()) for found in _TOKEN.finditer(text) if found["space"] is None]


def _statements(tokens: Sequence[_Token]) -> Iterator[list[_Token]]:
    """Those of one scope: up to a semicolon, or to the end of a block."""
    statement: list[_Token] = []
    depth = 0
    for token in tokens:
        statement.append(token)
        depth += (token.text in "([{") - (token.text in ")]}")
        if depth == 0 and token.text in {";", "}"}:
            yield statement
            statement = []


def _declarations(text: str, statements: Iterator[list[_Token]]) -> Iterator[_Declaration]:
    """The variables among statements: a type and names, perhaps a value."""
    for statement in statements:
        rest = _without_attributes(statement)
        modifiers = []
        while rest and rest[0].text in _MODIFIERS:
            modifiers.append(rest.pop(0).text)
        words = [token.text for token in rest]
        if statement[-1].text != ";":
            continue
        end = _end_of_names(words)
        names = _names(words[:end])
        first = end - 2 * len(names) + 1  # with the commas between them
        if first < 1 or {"(", "{"} & set(words[:end]) or words[0] in _OTHERS:
            continue
        slang_type = text[rest[0].start : rest[first - 1].end]
        for name in names:
            yield _Declaration(
                type=_block_type(slang_type),
                name=name,
                modifiers=frozenset(modifiers),
                is_alone=len(names) == 1,
                start=statement[0].start,
                end=statement[-1].end,
            )


def _end_of_names(words: Sequence[str]) -> int:
    """Where a value, a semantic or nothing more follows."""
    depth = 0
    for place, word in enumerate(words):
        depth += (word in "<[(") - (word in ">])")
        if depth == 0 and word in {"=", ";", ":"}:
            return place
    return 0


def _names(words: Sequence[str]) -> list[str]:
    """`a` and `b` of `float a, b`."""
    names: list[str] = []
    for word, before in zip(words[::-2], words[-2::-2], strict=False):
        if not re.match(r"[^\W\d]", word):
            break
        names.insert(0, word)
        if before != ",":
            break
    return names


def _without_attributes(statement: Sequence[_Token]) -> list[_Token]:
    rest = list(statement)
    while rest and rest[0].text == "[":
        depth = 0
        for place, token in enumerate(rest):
            depth += (token.text == "[") - (token.text == "]")
            if depth == 0:
                rest = rest[place + 1 :]
                break
    return rest


def _block_type(slang_type: str) -> str:
    """`Params` of `ParameterBlock<Params>`."""
    found = re.match(rf"(?:{'|'.join(_BLOCKS)})\s*<(.+)>$", slang_type, re.DOTALL)
    return found[1].strip() if found else slang_type


def _structs(text: str) -> Iterator[tuple[str, list[_Declaration]]]:
    """The structs of file scope with their fields."""
    for statement in _statements(_tokens(text)):
        words = [token.text for token in statement]
        if "struct" in words[:4] and words[-1] == "}":
            place = words.index("struct")
            body = statement[words.index("{") + 1 : -1]
            fields = [one for one in _declarations(text, _statements(body)) if "static" not in one.modifiers]
            yield words[place + 1], fields


def _written(name: str, slang_type: str, value: Any, structs: Mapping[str, list[_Declaration]]) -> str:
    """A value as Slang writes it. Raises TypeError where it does not fit the type, which Slang would make it do."""
    if type(value).__module__ == "numpy":
        value = value.tolist()
    match = _TYPE.match(short_name(re.sub(r"\s", "", slang_type)))
    if isinstance(value, Mapping):
        return _written_struct(name, slang_type, value, structs)
    if match is None:
        raise TypeError(
            f"slangpy: {name} is a {slang_type}, but only numbers, vectors, matrices and structs of them can be given "
            "a value: pass it as an argument"
        )
    sizes = [int(size) for size in match.groups()[1:] if size]
    return _written_numbers(name, slang_type, match[1], sizes, value)


def _written_struct(
    name: str, slang_type: str, value: Mapping[str, Any], structs: Mapping[str, list[_Declaration]]
) -> str:
    fields = structs.get(slang_type)
    if fields is None:
        raise TypeError(f"slangpy: {name} is a {slang_type}, which is no struct of the module's own text")
    given = {key: item for key, item in value.items() if key != "_type"}
    names = [field.name for field in fields]
    for rule, wrong in (
        ("has no field", [str(key) for key in given if key not in names]),
        ("lacks field", [key for key in names if key not in given]),
    ):
        if wrong:
            raise TypeError(f"slangpy: the value of {name} ({slang_type}) {rule} {', '.join(wrong)}")
    items = (_written(f"{name}.{field.name}", field.type, given[field.name], structs) for field in fields)
    return "{" + ", ".join(items) + "}"


def _written_numbers(name: str, slang_type: str, number: str, sizes: Sequence[int], value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        if len(sizes) == 2 and len(value) == sizes[0] * sizes[1]:
            value = [value[row * sizes[1] : (row + 1) * sizes[1]] for row in range(sizes[0])]
        if not sizes or len(value) != sizes[0]:
            raise _misfit(name, slang_type, value)
        return "{" + ", ".join(_written_numbers(name, slang_type, number, sizes[1:], item) for item in value) + "}"
    if not isinstance(value, (bool, int, float)):
        raise TypeError(
            f"slangpy: expected the value of {name} to be a number or a vector of numbers, but got a "
            f"{type(value).__name__}: pass it as an argument"
        )
    dtype = next(dtype for dtype, known in SLANG_TYPES.items() if known == usual_name(number))
    is_whole = not dtype.is_floating_point and isinstance(value, float) and value.is_integer()
    try:
        fitting = number_of(int(value) if is_whole else value, dtype)
    except OverflowError:
        fitting = None
    if sizes or fitting is None or not math.isfinite(fitting):
        raise _misfit(name, slang_type, value)
    if isinstance(fitting, bool):
        return "true" if fitting else "false"
    return f"{fitting!r}{_SUFFIXES.get(dtype, '')}"


def _misfit(name: str, slang_type: str, value: Any) -> TypeError:
    return TypeError(f"slangpy: expected the value of {name} to be a finite {slang_type}, but got {value!r}")
