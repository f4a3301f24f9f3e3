"""SlangPy's ``Module``, and the device that loads it."""

from __future__ import annotations

import enum
import functools
import itertools
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch

import torch_slang
from torch_slang._descriptor import describe
from torch_slang._load import load
from torch_slang._module import members_of
from torch_slang.functions.leaf import FunctionLeaf, Tree
from torch_slang.slangpy._node import FunctionNode
from torch_slang.slangpy._refused import refuse
from torch_slang.slangpy._set import uniform_names, with_values
from torch_slang.slangpy._struct import Struct
from torch_slang.slangpy._whole import element_name

__all__ = ["Device", "DeviceType", "Module", "SlangSession", "create_torch_device"]

_PathLike = str | os.PathLike[str]
_Leaves = Sequence[FunctionLeaf]


class DeviceType(enum.Enum):
    """SlangPy's kinds of devices. None means anything: tensors say where their functions run."""

    automatic = 0
    d3d12 = 1
    vulkan = 2
    metal = 3
    wgpu = 4
    cpu = 5
    cuda = 6


class SlangSession:
    """What loads modules, with defines and include paths."""

    def __init__(self, device: Device, options: Mapping[str, Any] | None = None) -> None:
        options = {} if options is None else options
        self.device = device
        self.defines = dict(options.get("defines") or {})
        self.include_paths = [Path(folder).absolute() for folder in options.get("include_paths") or ()]
        self.desc = SimpleNamespace(
            compiler_options=SimpleNamespace(include_paths=self.include_paths, defines=self.defines)
        )

    def load_module(self, path: _PathLike) -> torch_slang.Module:
        """A file, with or without ``.slang``, found in the working folder or else in the include paths."""
        found = self._found(Path(path))
        return self._load(found, None, found.stem, str(found))

    def load_module_from_source(
        self, module_name: str, source: str, path: _PathLike | None = None
    ) -> torch_slang.Module:
        """Slang text under a name."""
        del path
        return self._load(None, source, module_name, f"{module_name}\0{source}")

    def _load(self, path: Path | None, source: str | None, name: str, identity: str) -> torch_slang.Module:
        where = sorted(self.defines.items()), self.include_paths
        module = load(
            path,
            source=source,
            name=name if path is None else None,
            namespace=_namespace(name, f"{identity}\0{where}"),
            defines=self.defines,
            include_dirs=self.include_paths,
        )
        _origins[members_of(module).handle.identity] = _Origin(self, name, path, source)
        return module

    def _found(self, path: Path) -> Path:
        for folder in (Path.cwd(), *self.include_paths):
            for candidate in (folder / path, folder / f"{path}.slang"):
                if candidate.is_file():
                    return candidate
        folders = ", ".join(map(str, (Path.cwd(), *self.include_paths)))
        raise FileNotFoundError(f"slangpy: there is no module {path} in {folders}")


class Device:
    """What loads modules, and makes :class:`Tensor` objects on ``torch_device``.

    Tensors say where their functions run.
    """

    def __init__(
        self,
        include_paths: Iterable[_PathLike] = (),
        defines: Mapping[str, Any] | None = None,
        torch_device: torch.device | None = None,
    ) -> None:
        self.torch_device = torch.device("cpu") if torch_device is None else torch_device
        self.slang_session = self.create_slang_session({"include_paths": list(include_paths), "defines": defines})

    def create_slang_session(self, compiler_options: Mapping[str, Any] | None = None, **settings: Any) -> SlangSession:
        """A session with its own ``include_paths`` and ``defines``. Other options mean nothing here."""
        del settings
        return SlangSession(self, compiler_options)

    def load_module(self, path: _PathLike) -> torch_slang.Module:
        """A file, with or without ``.slang``, found in the working folder or else in the include paths."""
        return self.slang_session.load_module(path)

    def load_module_from_source(
        self, module_name: str, source: str, path: _PathLike | None = None
    ) -> torch_slang.Module:
        """Slang text under a name."""
        return self.slang_session.load_module_from_source(module_name, source, path)

    def sync_to_cuda(self, *args: Any) -> None:
        """Nothing: functions run on PyTorch's streams."""

    sync_to_device = wait = wait_for_idle = close = sync_to_cuda

    def __getattr__(self, name: str) -> Any:
        if name.startswith("create_"):
            refuse(f"Device.{name}", "belongs to graphics, which stays SlangPy's")
        raise AttributeError(f"slangpy: a Device has no {name}: it loads modules, and graphics stays SlangPy's")


def create_torch_device(
    type: Any = None,
    torch_device: Any = None,
    *,
    include_paths: Sequence[_PathLike] = (),
    compiler_options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Device:
    """A device as programs make one.

    Its include paths and defines count, and where it makes tensors: ``torch_device``, else the GPU, if there is one and
    ``type`` is not ``DeviceType.cpu``.
    """
    del settings
    options = {} if compiler_options is None else compiler_options
    folders = [*include_paths, *(options.get("include_paths") or ())]
    if torch_device is None:
        has_gpu = torch.cuda.is_available() and type is not DeviceType.cpu
        torch_device = torch.device("cuda" if has_gpu else "cpu")
    return Device(folders, options.get("defines"), torch.device(torch_device))


class _Origin(NamedTuple):
    """What loaded a module, under which name, from what."""

    session: SlangSession
    name: str
    path: Path | None
    source: str | None

    def text(self) -> str:
        return self.path.read_text() if self.path is not None else self.source or ""


_origins: dict[str, _Origin] = {}  # by a module's identity
_namespaces: dict[str, str] = {}  # by what tells modules apart


class Module:
    """A loaded module, whose plain functions and structs are its attributes."""

    def __init__(
        self, device_module: torch_slang.Module, options: Mapping[str, Any] | None = None, link: Any = ()
    ) -> None:
        if link:
            raise TypeError("slangpy.Module: there is no link here: import the other module in the Slang source")
        if options:
            raise TypeError(f"slangpy.Module: expected no options, but got {', '.join(options)}")
        self.device_module = device_module
        self._nodes: dict[str, FunctionNode] = {}
        self._base = self  # before values were set, and the values
        self._uniforms: dict[str, Any] = {}
        self._constants: dict[str, Any] = {}

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

    def find_function(self, name: str) -> FunctionNode | None:
        """The function of that name, or None. Generic arguments may stand behind it: ``"copy_vector<4>"``."""
        if name not in self._nodes:
            try:
                function = self.device_module.require_function(name)
            except ValueError:
                return None
            self._nodes[name] = FunctionNode(self, function, name)
        return self._nodes[name]

    def require_function(self, name: str) -> FunctionNode:
        """As :meth:`find_function`. Raises ValueError where there is none."""
        node = self.find_function(name)
        if node is None:
            if "<" in name:
                self.device_module.require_function(name)  # which says why
            raise ValueError(f"slangpy: there is no function {name}: {self.device_module!r}")
        return node

    def find_struct(self, name: str) -> Struct | None:
        """The struct of that name, or None. A function must take or give it, or a tensor of it, or be its method."""
        has_methods = any(
            one.startswith(f"{name.replace('.', '_')}_") for one in members_of(self.device_module).functions
        )
        is_known = has_methods or self.layout_of(name) is not None or self.element_of(name) is not None
        return Struct(self, name) if is_known else None

    def require_struct(self, name: str) -> Struct:
        """As :meth:`find_struct`. Raises ValueError where there is none."""
        struct = self.find_struct(name)
        if struct is None:
            raise ValueError(f"slangpy: there is no struct {name}: {self.device_module!r}")
        return struct

    def find_function_in_struct(self, struct: Struct | str, name: str) -> FunctionNode | None:
        """A struct's method, or None."""
        owner = Struct(self, struct) if isinstance(struct, str) else struct
        return owner.try_get_child(name)

    def layout_of(self, struct: str) -> tuple[Tree, _Leaves] | None:
        """The fields of a struct, as a function has them that takes or gives it."""
        return self._layouts.get(struct)

    def element_of(self, struct: str) -> tuple[torch.dtype, tuple[int, ...]] | None:
        """The type and the shape of a struct's numbers, as a function has them that takes tensors of it whole."""
        return self._elements.get(struct)

    @functools.cached_property
    def _elements(self) -> dict[str, tuple[torch.dtype, tuple[int, ...]]]:
        handle = members_of(self.device_module).handle
        wholes = [
            (leaf.type, FunctionLeaf.of(leaf))
            for name in members_of(self.device_module).functions
            for leaf in describe(handle, name).leaves
            if leaf.is_whole
        ]
        return {element_name(kind): (leaf.dtype, leaf.shape) for kind, leaf in wholes if leaf.dtype is not None}

    @functools.cached_property
    def _layouts(self) -> dict[str, tuple[Tree, _Leaves]]:
        found: dict[str, tuple[Tree, _Leaves]] = {}
        handle = members_of(self.device_module).handle
        for name in members_of(self.device_module).functions:
            about = describe(handle, name)
            leaves = [FunctionLeaf.of(leaf) for leaf in about.leaves]
            for one in (*about.parameters, *about.results):
                _add_layouts(Tree.of(one, one.name), leaves, found)
        return found

    def with_constants(self, values: Mapping[str, Any]) -> Module:
        """The module with values for its ``extern static const`` declarations."""
        return self._base._derived(self._uniforms, {**self._constants, **values})

    def with_uniforms(self, values: Mapping[str, Any]) -> Module:
        """The module with values for its ``uniform`` declarations."""
        return self._base._derived({**self._uniforms, **values}, self._constants)

    def uniform_names(self) -> list[str]:
        """The names of the module's own declarations that :meth:`FunctionNode.set` gives values."""
        origin = _origins.get(members_of(self.device_module).handle.identity)
        return [] if origin is None else uniform_names(origin.text())

    def _derived(self, uniforms: Mapping[str, Any], constants: Mapping[str, Any]) -> Module:
        origin = _origins.get(members_of(self.device_module).handle.identity)
        if origin is None:
            raise ValueError("slangpy: set and constants want a module that a Device has loaded")
        session, name, path, _ = origin
        text = with_values(origin.text(), uniforms, constants)
        folders = [*session.include_paths, *([path.parent] if path is not None else [])]
        derived = SlangSession(session.device, {"defines": session.defines, "include_paths": folders})
        module = _loaded_once(derived, name, text)
        module._base, module._uniforms, module._constants = self, dict(uniforms), dict(constants)
        return module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in {"device_module", "_nodes", "_base"}:
            raise AttributeError(name)
        found = self.find_function(name) or self.find_struct(name)
        return getattr(self.device_module, name) if found is None else found

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __repr__(self) -> str:
        return f"<slangpy module of {self.device_module!r}>"


_derived_modules: dict[tuple[str, str, tuple[Path, ...], tuple[tuple[str, Any], ...]], Module] = {}


def _loaded_once(session: SlangSession, name: str, text: str) -> Module:
    key = (name, text, tuple(session.include_paths), tuple(sorted(session.defines.items())))
    if key not in _derived_modules:
        _derived_modules[key] = Module(session.load_module_from_source(name, text))
    return _derived_modules[key]


def _add_layouts(tree: Tree, leaves: _Leaves, found: dict[str, tuple[Tree, _Leaves]]) -> None:
    if tree.leaf < 0 and not tree.names[0].isdigit():
        found.setdefault(tree.type, (tree, leaves))
    for field in tree.fields:
        _add_layouts(field, leaves, found)


def _namespace(name: str, identity: str) -> str:
    """One of its own for each module, since modules may have functions of the same names. Messages show it."""
    if identity not in _namespaces:
        wanted = "slangpy_" + re.sub(r"\W", "_", name, flags=re.ASCII)
        taken = set(_namespaces.values())
        choices = itertools.chain([wanted], (f"{wanted}_{number}" for number in itertools.count(2)))
        _namespaces[identity] = next(choice for choice in choices if choice not in taken)
    return _namespaces[identity]
