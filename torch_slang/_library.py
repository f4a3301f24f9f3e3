"""Loads the native library, tells it where the compiler is, and registers the operators of ops/."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch  # the native library links torch's, which this loads

__all__ = ["_C", "CompileError", "LaunchError", "forget_cached_op", "speed_up_calls"]

_FOLDER = Path(__file__).resolve().parent

try:
    from torch_slang import _C
except ImportError as error:
    raise ImportError(
        f"torch_slang's native library does not load: {error}. Likely causes: it was not built (run `make build` or "
        "`pip install --no-build-isolation .`), it was built for another Python, or for another version of torch."
    ) from error

CompileError = _C.CompileError
LaunchError = _C.LaunchError

_some_namespace = torch.ops.torch_slang_names  # any that has no operators
_Namespace = type(_some_namespace)
for _name in {*dir(_Namespace), *vars(_some_namespace)}:
    _C.reserve_name(_name, "an attribute of every namespace in torch.ops, by which it could not be called")

_C.set_compiler_path(str(_FOLDER / "bin" / "torch-slangc"))
_C.load_builtin(str(_FOLDER / "ops"))


class _Operators(_Namespace):  # type: ignore[misc, valid-type]  # PyTorch does not export it
    """A namespace of ``torch.ops`` whose operators are called without its general conversion of arguments.

    See Note [operator calls] in csrc/python/operator_call.cpp. ``torch.ops`` asks for a name once and keeps the answer.
    """

    def __getattr__(self, name: str) -> Any:
        packet = super().__getattr__(name)
        if packet.overloads() == ["default"]:
            for operator in (packet, packet.default):
                operator._op = _C.operator_call(f"{self.name}::{name}", operator._op)
            # TorchScript knows an operator by the id of its packet's function, which is a new one here.
            torch.jit._builtins._register_builtin(packet._op, f"{self.name}::{name}")
        return packet


def speed_up_calls(namespace: str) -> None:
    """Makes calls of ``torch.ops.<namespace>.<name>`` cheap: of operators that were not yet looked up."""
    operators = getattr(torch.ops, namespace)
    if type(operators) is _Namespace:  # else it is another thing of torch.ops, or was done
        operators.__class__ = _Operators
        operators.__module__ = _Namespace.__module__  # what operators say is their module, and graphs' code imports


speed_up_calls("slang")


def forget_cached_op(qualified: str) -> None:
    """Makes torch.ops, which keeps what it looked up, with its schema, look again."""
    namespace, name = qualified.split("::")
    operators = getattr(torch.ops, namespace)
    if name in vars(operators):
        delattr(operators, name)
        listed = vars(operators).get("_dir", [])
        if name in listed:
            listed.remove(name)
