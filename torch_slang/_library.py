"""Loads the native library, tells it where the compiler is, and registers the operators of ops/."""

from __future__ import annotations

from pathlib import Path

import torch  # the native library links torch's, which this loads

__all__ = ["_C", "CompileError", "LaunchError", "forget_cached_op"]

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

_NAMESPACE = torch.ops.torch_slang_names  # any that has no operators
for _name in {*dir(type(_NAMESPACE)), *vars(_NAMESPACE)}:
    _C.reserve_name(_name, "an attribute of every namespace in torch.ops, by which it could not be called")

_C.set_compiler_path(str(_FOLDER / "bin" / "torch-slangc"))
_C.load_builtin(str(_FOLDER / "ops"))


def forget_cached_op(qualified: str) -> None:
    """Makes torch.ops, which keeps what it looked up, with its schema, look again."""
    namespace, name = qualified.split("::")
    operators = getattr(torch.ops, namespace)
    if name in vars(operators):
        delattr(operators, name)
        listed = vars(operators).get("_dir", [])
        if name in listed:
            listed.remove(name)
