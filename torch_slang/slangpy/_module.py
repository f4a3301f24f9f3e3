"""SlangPy's ``Module``, and the device that loads it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch_slang
from torch_slang._load import load

__all__ = ["Device", "Module", "create_torch_device"]

_PathLike = str | os.PathLike[str]


class Device:
    """What loads modules. It is no device: tensors say where their functions run."""

    def __init__(self, include_paths: Iterable[_PathLike] = ()) -> None:
        self._include_paths = [Path(folder).absolute() for folder in include_paths]

    def load_module(self, path: _PathLike) -> torch_slang.Module:
        """A file, with or without ``.slang``, found in the working folder or else in the include paths."""
        found = self._found(Path(path))
        return load(found, namespace=_namespace(str(found)), include_dirs=self._include_paths)

    def load_module_from_source(self, name: str, source: str) -> torch_slang.Module:
        """Slang text under a name."""
        namespace = _namespace(f"{name}\0{source}")
        return load(source=source, name=name, namespace=namespace, include_dirs=self._include_paths)

    def _found(self, path: Path) -> Path:
        for folder in (Path.cwd(), *self._include_paths):
            for candidate in (folder / path, folder / f"{path}.slang"):
                if candidate.is_file():
                    return candidate
        folders = ", ".join(map(str, (Path.cwd(), *self._include_paths)))
        raise FileNotFoundError(f"slangpy: there is no module {path} in {folders}")


def create_torch_device(
    type: Any = None, torch_device: Any = None, *, include_paths: Sequence[_PathLike] = (), **settings: Any
) -> Device:
    """A device as programs make one. Only its include paths mean something here."""
    del type, torch_device, settings
    return Device(include_paths)


class Module:
    """A loaded module, whose plain functions are its attributes."""

    def __init__(
        self, device_module: torch_slang.Module, options: Mapping[str, Any] | None = None, link: Any = ()
    ) -> None:
        if link:
            raise TypeError("slangpy.Module: there is no link here: import the other module in the Slang source")
        if options:
            raise TypeError(f"slangpy.Module: expected no options, but got {', '.join(options)}")
        self.device_module = device_module

    @staticmethod
    def load_from_file(
        device: Device, path: _PathLike, options: Mapping[str, Any] | None = None, link: Any = ()
    ) -> Module:
        return Module(device.load_module(path), options, link)

    @staticmethod
    def load_from_source(
        device: Device, name: str, source: str, options: Mapping[str, Any] | None = None, link: Any = ()
    ) -> Module:
        return Module(device.load_module_from_source(name, source), options, link)

    @staticmethod
    def load_from_module(
        device: Device, module: torch_slang.Module, options: Mapping[str, Any] | None = None, link: Any = ()
    ) -> Module:
        del device
        return Module(module, options, link)

    def find_function(self, name: str) -> torch_slang.Function | None:
        """The function of that name, or None."""
        return getattr(self.device_module, name) if name in self.device_module.functions() else None

    def require_function(self, name: str) -> torch_slang.Function:
        """The function of that name. Raises ValueError where there is none."""
        function = self.find_function(name)
        if function is None:
            raise ValueError(f"slangpy: there is no function {name}: {self.device_module!r}")
        return function

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "device_module":
            raise AttributeError(name)
        return getattr(self.device_module, name)

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __repr__(self) -> str:
        return f"<slangpy module of {self.device_module!r}>"


def _namespace(identity: str) -> str:
    """One of its own for each module, since modules may have functions of the same names."""
    return f"slangpy_{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
