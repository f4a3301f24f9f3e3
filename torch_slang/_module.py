"""What :func:`torch_slang.load` returns: a module whose attributes are its kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

from torch_slang._library import _C

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

    @property
    def namespace(self) -> str:
        """Where the operators are: ``torch.ops.<namespace>``."""
        return str(self._handle.namespace)

    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels that are operators."""
        return self._names

    def funcinfo(self, name: str) -> FunctionInfo:
        """Argument names and types of a kernel as written in Slang, and the names of its derivatives (None if absent)."""
        about = self._handle.describe(name)
        return FunctionInfo(
            name=name,
            arguments=tuple(parameter["name"] for parameter in about["parameters"]),
            types=tuple(parameter["type"] for parameter in about["parameters"]),
            forward_derivative=f"{name}_jvp" if about["has_forward_derivative"] else None,
            backward_derivative=f"{name}_backward" if about["has_backward"] else None,
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        kernel = self._kernels.get(name)
        if kernel is not None:
            return kernel
        for suffix in _SUFFIXES:
            base = name.removesuffix(suffix)
            if base != name and base in self._names and name not in self._names:
                return getattr(getattr(torch.ops, self.namespace), name)
        try:
            kernel = Kernel(self._handle, name)
        except RuntimeError as error:
            raise AttributeError(str(error)) from None
        self._kernels[name] = kernel
        return kernel

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._names]

    def __repr__(self) -> str:
        return f"<torch_slang.Module {self.namespace}: {', '.join(self._names)}>"

    def _retire(self, name: str) -> None:
        """The global name now runs another Program: the callable here must not go through it unpinned."""
        if name in self._names:
            getattr(self, name)._is_current = False


class Kernel:
    """A kernel as a function: positional or keyword arguments in the order of the Slang source, outputs left out.

    A struct parameter takes a mapping, a named tuple or a tuple of its fields (or its fields under their flat names, as
    the operator has them); a differentiable scalar takes a number or a 0-dimensional tensor.
    """

    def __init__(self, handle: Any, name: str) -> None:
        about = handle.describe(name)
        self.__name__ = name
        self._handle = handle
        self._is_current = True
        self._leaves: list[dict[str, Any]] = about["leaves"]
        self._parameters: list[dict[str, Any]] = [p for p in about["parameters"] if not self._is_output(p)]
        self._namespace = str(handle.namespace)
        self._has_forward = about["forward"] is not None
        # Views alone need no conversion: the arguments go to the operator as they are.
        self._plain = all(p["leaf"] >= 0 and self._leaves[p["leaf"]]["is_view"] for p in self._parameters)

    @property
    def op(self) -> Callable[..., Any]:
        """The operator ``torch.ops.<namespace>.<name>``."""
        if not self._has_forward:
            raise RuntimeError(
                f"{self._namespace}::{self.__name__} has no output ([Out]), so it only has the operator "
                f"{self.__name__}_launch"
            )
        packet = getattr(getattr(torch.ops, self._namespace), self.__name__)
        operator: Callable[..., Any] = packet.default
        return operator

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._plain:
            args, kwargs = (), self._flatten(args, kwargs)
        if self._is_current:
            return self.op(*args, **kwargs)
        with _C.Pin(self._handle, self.__name__):
            return self.op(*args, **kwargs)

    def __repr__(self) -> str:
        arguments = ", ".join(f"{p['name']}: {p['type']}" for p in self._parameters)
        return f"<torch_slang kernel {self._namespace}::{self.__name__}({arguments})>"

    def _is_output(self, parameter: dict[str, Any]) -> bool:
        if parameter["leaf"] >= 0:
            return bool(self._leaves[parameter["leaf"]]["is_output"])
        return all(self._is_output(field) for field in parameter["fields"])

    @staticmethod
    def _takes_tensor_value(leaf: dict[str, Any]) -> bool:
        return not leaf["is_view"] and bool(leaf["differentiable"])

    def _error(self, message: str) -> TypeError:
        signature = ", ".join(f"{p['name']}: {p['type']}" for p in self._parameters)
        return TypeError(f"{self._namespace}::{self.__name__}({signature}): {message}")

    def _flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        if len(args) > len(self._parameters):
            raise self._error(f"expected at most {len(self._parameters)} arguments, but got {len(args)}")
        flat: dict[str, Any] = {}
        remaining = dict(kwargs)
        for index, parameter in enumerate(self._parameters):
            name = parameter["name"]
            if index < len(args):
                if name in remaining:
                    raise self._error(f"got two values for {name}")
                self._put(flat, parameter, args[index])
            elif name in remaining:
                self._put(flat, parameter, remaining.pop(name))
        flat.update(remaining)  # flat names of struct fields; the operator names what is missing or unknown
        self._convert_numbers(flat)
        return flat

    def _put(self, flat: dict[str, Any], parameter: dict[str, Any], value: Any) -> None:
        if parameter["leaf"] >= 0:
            flat[self._leaves[parameter["leaf"]]["name"]] = value
            return
        fields = [field for field in parameter["fields"] if not self._is_output(field)]
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
                raise self._error(f"{parameter['name']} ({parameter['type']}) has fields {names}, but got {len(value)} values")
            values = list(value)
        else:
            raise self._error(
                f"expected {parameter['name']} ({parameter['type']}) to be a mapping or a tuple, but got {type(value).__name__}"
            )
        for field, item in zip(fields, values, strict=True):
            self._put(flat, field, item)

    def _convert_numbers(self, flat: dict[str, Any]) -> None:
        """Numbers for differentiable values become tensors; tensors that require grad are refused where a number is meant."""
        generic = next((v.dtype for v in flat.values() if isinstance(v, torch.Tensor) and v.is_floating_point()), None)
        for leaf in self._leaves:
            name = leaf["name"]
            value = flat.get(name, leaf["default"] if self._takes_tensor_value(leaf) else None)
            if value is None or leaf["is_view"]:
                continue
            if self._takes_tensor_value(leaf):
                if not isinstance(value, torch.Tensor):
                    own = getattr(torch, leaf["dtype"])
                    dtype = generic if leaf["type_parameter"] >= 0 and generic is not None else own
                    flat[name] = torch.tensor(value, dtype=dtype)
            elif isinstance(value, torch.Tensor):
                if value.requires_grad:
                    raise self._error(f"{name} ({leaf['type']}) is a constant, but got a tensor that requires grad")
                flat[name] = value.tolist()
