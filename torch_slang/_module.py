"""What :func:`torch_slang.load` returns: a module whose attributes are its kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch

from torch_slang._library import _C

_KINDS = {"": "forward", "_backward": "backward", "_launch": "launch"}  # how the operators of a kernel are named
_SUFFIXES = ("_backward", "_launch")


class FunctionInfo(NamedTuple):
    """What a kernel takes, and which derivatives it has."""

    name: str
    arguments: tuple[str, ...]
    types: tuple[str, ...]
    forward_derivative: str | None
    backward_derivative: str | None


class Module:
    """The kernels of one loaded Slang module, as attributes.

    They stay bound to the Program that this load made, whatever a later load puts behind ``torch.ops``.
    """

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._names: tuple[str, ...] = tuple(handle.operators())
        self._kernels: dict[str, Kernel] = {}
        self._retired: set[str] = set()  # names that a later load took

    @property
    def namespace(self) -> str:
        """Where the operators are: ``torch.ops.<namespace>``."""
        return str(self._handle.namespace)

    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels that are operators."""
        return self._names

    def funcinfo(self, name: str) -> FunctionInfo:
        """Argument names and types of a kernel as written in Slang, and its derivatives' names (None if absent)."""
        about = self._handle.describe(name)
        return FunctionInfo(
            name=name,
            arguments=tuple(parameter["name"] for parameter in about["parameters"]),
            types=tuple(parameter["type"] for parameter in about["parameters"]),
            forward_derivative=about.get("jvp"),
            backward_derivative=about["backward"],
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        kernel = self._kernels.get(name)
        if kernel is not None:
            return kernel
        base, suffix = name, ""
        if name not in self._names:
            suffix = next((s for s in _SUFFIXES if name.removesuffix(s) in self._names), "")
            base = name.removesuffix(suffix)
        try:
            kernel = Kernel(self._handle, base, suffix, self._retired)
        except RuntimeError as error:
            raise AttributeError(str(error)) from None
        self._kernels[name] = kernel
        return kernel

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._names]

    def __repr__(self) -> str:
        return f"<torch_slang.Module {self.namespace}: {', '.join(self._names)}>"

    def _retire(self, name: str) -> None:
        """The global name now runs another Program: the callables here must not go through it unpinned."""
        self._retired.add(name)


class Kernel:
    """A kernel as a function: positional or keyword arguments in the order of the Slang source, outputs left out.

    Its ``_launch`` takes the outputs too, and then ``block_size`` and ``grid_size``; its ``_backward`` what the
    operator of that name takes.

    A struct parameter takes a mapping, a named tuple or a tuple of its fields (or its fields under their flat names, as
    the operator has them); a differentiable scalar takes a number or a 0-dimensional tensor.
    """

    def __init__(self, handle: Any, name: str, suffix: str, retired: set[str]) -> None:
        about = handle.describe(name)
        self.__name__ = name + suffix
        self._handle = handle
        self._base = name
        self._retired = retired
        self._namespace = str(handle.namespace)
        self._is_launch = suffix == "_launch"
        self._exists = about[_KINDS[suffix]] is not None
        self._leaves: list[dict[str, Any]] = about["leaves"]
        self._parameters: list[dict[str, Any]] = [p for p in about["parameters"] if self._is_given(p)]
        self._names = [p["name"] for p in self._parameters] + (["block_size", "grid_size"] if self._is_launch else [])
        # Views alone need no conversion: the arguments go to the operator as they are.
        views = all(p["leaf"] >= 0 and self._leaves[p["leaf"]]["is_view"] for p in self._parameters)
        self._plain = views or suffix == "_backward"

    @property
    def op(self) -> Callable[..., Any]:
        """The operator ``torch.ops.<namespace>.<name>``."""
        if not self._exists:
            reason = "output ([Out])" if self.__name__ == self._base else "derivative"
            raise RuntimeError(
                f"{self._namespace}::{self._base} has no {reason}, so there is no operator {self.__name__}; "
                f"there is {self._base}_launch"
            )
        packet = getattr(getattr(torch.ops, self._namespace), self.__name__)
        operator: Callable[..., Any] = packet.default
        return operator

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._plain:
            args, kwargs = (), self._flatten(args, kwargs)
        if self._base not in self._retired:
            return self.op(*args, **kwargs)
        with _C.Pin(self._handle, self._base):
            return self.op(*args, **kwargs)

    def __repr__(self) -> str:
        arguments = ", ".join(f"{p['name']}: {p['type']}" for p in self._parameters)
        return f"<torch_slang kernel {self._namespace}::{self.__name__}({arguments})>"

    def _is_given(self, parameter: dict[str, Any]) -> bool:
        """Something of this parameter is an argument; outputs are allocated, except by a launch."""
        if parameter["leaf"] >= 0:
            return self._is_launch or not self._leaves[parameter["leaf"]]["is_output"]
        return any(self._is_given(field) for field in parameter["fields"])

    @staticmethod
    def _takes_tensor_value(leaf: dict[str, Any]) -> bool:
        return not leaf["is_view"] and bool(leaf["differentiable"])

    def _error(self, message: str) -> TypeError:
        signature = ", ".join(f"{p['name']}: {p['type']}" for p in self._parameters)
        return TypeError(f"{self._namespace}::{self.__name__}({signature}): {message}")

    def _flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        if len(args) > len(self._names):
            raise self._error(f"expected at most {len(self._names)} arguments, but got {len(args)}")
        remaining = dict(kwargs)
        for name, value in zip(self._names, args, strict=False):
            if name in remaining:
                raise self._error(f"got two values for {name}")
            remaining[name] = value
        flat: dict[str, Any] = {}
        for parameter in self._parameters:
            if parameter["name"] in remaining:
                self._put(flat, parameter, remaining.pop(parameter["name"]))
        flat.update(remaining)  # flat names of struct fields; the operator names what is missing or unknown
        self._convert_numbers(flat)
        return flat

    def _put(self, flat: dict[str, Any], parameter: dict[str, Any], value: Any) -> None:
        if parameter["leaf"] >= 0:
            flat[self._leaves[parameter["leaf"]]["name"]] = value
            return
        fields = [field for field in parameter["fields"] if self._is_given(field)]
        names = [field["name"] for field in fields]
        if hasattr(value, "_asdict"):
            value = value._asdict()
        if isinstance(value, Mapping):
            unknown = [str(key) for key in value if key not in names]
            if unknown:
                raise self._error(f"{parameter['name']} ({parameter['type']}) has no field {', '.join(unknown)}")
            missing = [name for name in names if name not in value]
            if missing:
                raise self._error(f"{parameter['name']} ({parameter['type']}) lacks field {', '.join(missing)}")
            values = [value[name] for name in names]
        elif isinstance(value, (tuple, list)):
            if len(value) != len(fields):
                raise self._error(
                    f"{parameter['name']} ({parameter['type']}) has fields {names}, but got {len(value)} values"
                )
            values = list(value)
        else:
            raise self._error(
                f"expected {parameter['name']} ({parameter['type']}) to be a mapping or a tuple, "
                f"but got {type(value).__name__}"
            )
        for field, item in zip(fields, values, strict=True):
            self._put(flat, field, item)

    def _tensor(self, value: Any, dtype: torch.dtype, leaf: dict[str, Any]) -> torch.Tensor:
        try:
            return torch.tensor(value, dtype=dtype)
        except (TypeError, ValueError, RuntimeError):
            raise self._error(
                f"expected {leaf['name']} ({leaf['type']}) to be a number or a tensor, but got {value!r}"
            ) from None

    def _convert_numbers(self, flat: dict[str, Any]) -> None:
        """Numbers for differentiable values become tensors; tensors with gradients are refused for numbers."""
        generic = next((v.dtype for v in flat.values() if isinstance(v, torch.Tensor) and v.is_floating_point()), None)
        for leaf in self._leaves:
            name = leaf["name"]
            value = flat.get(name)
            if value is None:
                value = leaf["default"]
            if value is None or leaf["is_view"]:
                continue
            if self._takes_tensor_value(leaf):
                if not isinstance(value, torch.Tensor):
                    own = getattr(torch, leaf["dtype"])
                    dtype = generic if leaf["type_parameter"] >= 0 and generic is not None else own
                    flat[name] = self._tensor(value, dtype, leaf)
                continue
            if isinstance(value, torch.Tensor):
                if value.requires_grad:
                    raise self._error(f"{name} ({leaf['type']}) is a constant, but got a tensor that requires grad")
                value = value.tolist()
            flat[name] = list(_numbers(value)) if leaf["element_shape"] else value


def _numbers(value: Any) -> Iterator[Any]:
    """Those of a vector, or of a matrix by rows."""
    if not isinstance(value, list | tuple):
        yield value
        return
    for item in value:
        yield from _numbers(item)
