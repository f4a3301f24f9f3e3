"""From what a user passes to a plain function to the tensors that its operator takes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torch_slang._arguments import field_values
from torch_slang._numbers import kind_of, number_of, result_type, tensor_of

__all__ = ["FunctionArguments", "FunctionLeaf"]

_PLAIN = {torch.Tensor, torch.nn.Parameter}
_Tree = dict[str, Any]  # a parameter or result: a leaf, or a struct of such


@dataclass(frozen=True, slots=True)
class FunctionLeaf:
    """One tensor of an operator."""

    name: str
    what: str  # for messages: "camera.exposure (float)"
    dtype: torch.dtype | None  # None: a type parameter's
    type_parameter: int
    shape: tuple[int, ...]  # of one element; negative where the tensors decide
    differentiable: bool
    is_output: bool
    default: Any

    @classmethod
    def of(cls, about: dict[str, Any]) -> FunctionLeaf:
        type_parameter = about["type_parameter"]
        dtype = getattr(torch, about["dtype"])
        default = about["default"]
        return cls(
            name=about["name"],
            what=f"{about['path']} ({about['type']})",
            dtype=dtype if type_parameter < 0 else None,
            type_parameter=type_parameter,
            shape=tuple(about["element_shape"]),
            differentiable=about["differentiable"],
            is_output=about["is_output"],
            default=bool(default) if default is not None and dtype == torch.bool else default,
        )


class FunctionArguments:
    """The parameters of a plain function, in the order of the Slang source: `out` ones are results, not arguments."""

    def __init__(self, about: dict[str, Any], qualified: str) -> None:
        self.qualified = qualified
        self.parameters: list[_Tree] = about["parameters"]
        self.names: list[str] = [parameter["name"] for parameter in self.parameters]
        self.leaves = [leaf for leaf in map(FunctionLeaf.of, about["leaves"]) if not leaf.is_output]
        self._has_structs = any(parameter["leaf"] < 0 for parameter in self.parameters)
        self._type_parameters = [
            (name, {getattr(torch, dtype) for dtype in allowed}) for name, allowed in about["type_parameters"]
        ]
        self.defaults: dict[str, Any] = {
            parameter["name"]: self.leaves[parameter["leaf"]].default
            for parameter in self.parameters
            if parameter["leaf"] >= 0 and self.leaves[parameter["leaf"]].default is not None
        }
        self._signature = self._written(about)

    def __str__(self) -> str:
        return self._signature

    def error(self, message: str) -> TypeError:
        return TypeError(f"{self._signature}: {message}")

    def signature(self) -> inspect.Signature:
        """As Python has it. Raises ValueError for a name that is a keyword there."""
        return inspect.Signature(
            [
                inspect.Parameter(
                    parameter["name"],
                    inspect.Parameter.POSITIONAL_OR_KEYWORD,
                    default=self.defaults.get(parameter["name"], inspect.Parameter.empty),
                    annotation=parameter["type"],
                )
                for parameter in self.parameters
            ]
        )

    def flatten(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Sequence[torch.Tensor]:
        """One tensor for each leaf. Raises TypeError or OverflowError with the signature for what does not fit."""
        values: Sequence[Any] = args if not kwargs and len(args) == len(self.names) else self._bound(args, kwargs)
        if self._has_structs:
            leaves: list[Any] = []
            for parameter, value in zip(self.parameters, values, strict=True):
                self._put(leaves, parameter, parameter["name"], value)
            values = leaves
        for value in values:
            if not isinstance(value, torch.Tensor):
                return self._with_numbers(values)
        return values

    def _bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        if len(args) > len(self.names):
            raise self.error(f"expected at most {len(self.names)} arguments, but got {len(args)}")
        values = list(args)
        missing = []
        for name in self.names[len(args) :]:
            if name in kwargs:
                values.append(kwargs[name])
            elif name in self.defaults:
                values.append(self.defaults[name])
            else:
                missing.append(name)
        for name in kwargs:
            if name not in self.names:
                raise self.error(f"there is no argument {name}")
            if name in self.names[: len(args)]:
                raise self.error(f"got two values for {name}")
        if missing:
            raise self.error(f"missing {', '.join(missing)}")
        return values

    def _put(self, leaves: list[Any], tree: _Tree, path: str, value: Any) -> None:
        if tree["leaf"] >= 0:
            leaves.append(value)
            return
        names = [field["name"] for field in tree["fields"]]
        values = field_values(f"{path} ({tree['type']})", names, value, self.error)
        for field, item in zip(tree["fields"], values, strict=True):
            self._put(leaves, field, f"{path}.{field['name']}", item)

    def _with_numbers(self, values: Sequence[Any]) -> list[torch.Tensor]:
        types = [self._chosen_type(k, values) for k in range(len(self._type_parameters))]
        # Compiled functions are compiled again for a second value of a number that is an argument of theirs, once: from
        # then on torch.compile has the number as an input.
        may_share = not torch.compiler.is_compiling() and _are_plain(values)
        return [
            value
            if isinstance(value, torch.Tensor)
            else self._tensor(leaf, value, leaf.dtype or types[leaf.type_parameter], may_share)
            for leaf, value in zip(self.leaves, values, strict=True)
        ]

    def _chosen_type(self, k: int, values: Sequence[Any]) -> torch.dtype:
        """What the type parameter will be; numbers weigh least. Note [mapped types] in mapped.h."""
        strong = weak = None
        kind = -1
        for leaf, value in zip(self.leaves, values, strict=True):
            if leaf.type_parameter != k:
                continue
            if not isinstance(value, torch.Tensor):
                kind = max(kind, *map(kind_of, _numbers(value)), -1)
            elif value.dim() > len(leaf.shape):
                strong = value.dtype if strong is None else torch.promote_types(strong, value.dtype)
            else:
                weak = value.dtype if weak is None else torch.promote_types(weak, value.dtype)
        default = torch.get_default_dtype()
        chosen = result_type(strong, weak, kind, default) or default
        is_integral = not (chosen.is_floating_point or chosen.is_complex)
        return default if is_integral and chosen not in self._type_parameters[k][1] else chosen

    def _tensor(self, leaf: FunctionLeaf, value: Any, dtype: torch.dtype, may_share: bool) -> torch.Tensor:
        try:
            if leaf.shape:
                return torch.tensor(self._numbers_of(leaf, value, leaf.shape, dtype), dtype=dtype, device="cpu")
            tensor = tensor_of(value, dtype, may_share)
        except OverflowError:
            fits = "" if dtype.is_floating_point else f" [{torch.iinfo(dtype).min}, {torch.iinfo(dtype).max}]"
            raise OverflowError(
                f"{self._signature}: expected {leaf.what} to be within the range{fits} of its type, but got {value!r}"
            ) from None
        if tensor is None:
            raise self._misfit(leaf, value, dtype)
        return tensor

    def _numbers_of(self, leaf: FunctionLeaf, value: Any, shape: tuple[int, ...], dtype: torch.dtype) -> Any:
        """The numbers of a vector, matrix or array, in lists as deep as `shape`."""
        if not shape:
            number = number_of(value, dtype)
            if number is None:
                raise self._misfit(leaf, value, dtype)
            return number
        if not isinstance(value, list | tuple):
            raise self._misfit(leaf, value, dtype)
        if shape[0] >= 0 and len(value) != shape[0]:
            raise self.error(f"expected {leaf.what} to have shape {list(leaf.shape)}, but got {value!r}")
        return [self._numbers_of(leaf, item, shape[1:], dtype) for item in value]

    def _misfit(self, leaf: FunctionLeaf, value: Any, dtype: torch.dtype) -> TypeError:
        number = "a bool" if dtype == torch.bool else "a number" if dtype.is_floating_point else "an integer"
        if leaf.shape:
            number = f"a list of numbers, of shape {[size if size >= 0 else '*' for size in leaf.shape]}"
        got = repr(value) if kind_of(value) >= 0 else f"a {type(value).__name__}"
        hint = "; torch.stack makes one tensor of several" if leaf.shape and isinstance(value, torch.Tensor) else ""
        return self.error(f"expected {leaf.what} to be a tensor or {number}, but got {got}{hint}")

    def _written(self, about: dict[str, Any]) -> str:
        generics = [name for name, _ in about["type_parameters"]] + list(about["size_parameters"])
        parameters = [
            f"{p['name']}: {p['type']}" + (f" = {self.defaults[p['name']]}" if p["name"] in self.defaults else "")
            for p in self.parameters
        ]
        results = [f"{r['name']}: {r['type']}" for r in about["results"]]
        if [r["name"] for r in about["results"]] == ["result"]:
            returned = about["results"][0]["type"]
        else:
            returned = f"({', '.join(results)})"
        generic = f"<{', '.join(generics)}>" if generics else ""
        return f"{self.qualified}{generic}({', '.join(parameters)}) -> {returned}"


def _are_plain(values: Sequence[Any]) -> bool:
    """There are tensors, and no modes' or users' own ones: what is computed is computed here and now."""
    types = {value.__class__ for value in values if isinstance(value, torch.Tensor)}
    return bool(types) and types <= _PLAIN


def _numbers(value: Any) -> Iterator[Any]:
    """Those of a vector, or of a matrix by rows."""
    if not isinstance(value, list | tuple):
        yield value
        return
    for item in value:
        yield from _numbers(item)
