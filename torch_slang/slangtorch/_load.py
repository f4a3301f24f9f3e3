"""``loadModule``, with slangtorch's arguments."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch_slang import cache
from torch_slang._descriptor import describe
from torch_slang._load import load
from torch_slang._module import Module, members_of
from torch_slang.slangtorch._launchables import functions_of
from torch_slang.slangtorch._types import DiffTensorView, struct_types

# Needless here: there is no ninja, lines of the source are always known, and NVRTC compiles for the GPU that is there.
_NEEDLESS = (
    "-line-directive-mode",
    "-lineinfo",
    "--generate-line-info",
    "-g",
    "-G",
    "-O",
    "-std",
    "--std",
    "-arch",
    "--gpu-architecture",
    "-gencode",
    "--generate-code",
    "-U__CUDA_NO_",
    "-D SLANG_CUDA_ENABLE_",
    "--expt-relaxed-constexpr",
    "--expt-extended-lambda",
)

_noted: set[str] = set()
_wrapped: dict[Module, SlangtorchModule] = {}


_DESCRIBE = " describe"  # among a module's attributes: no name in Slang has a space


class SlangtorchModule:
    """A loaded module: its kernels, its host functions and its structs are attributes."""

    DiffTensorView = DiffTensorView

    def __init__(self, name: str, module: Module) -> None:
        self.__name__ = name
        members = members_of(module)
        vars(self)[_DESCRIBE] = members.handle.describe
        described = {kernel: describe(members.handle, kernel) for kernel in members.names}
        for about in described.values():
            vars(self).update(struct_types(about.parameters))
        for kernel, about in described.items():  # derivatives leave their names to kernels that have them
            functions = functions_of(module, kernel, about).items()
            vars(self).update((one, function) for one, function in functions if one == kernel or one not in described)
        for host in members.host_names:
            vars(self)[host] = members.host_function(host)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            try:
                vars(self)[_DESCRIBE](name)
            except RuntimeError as error:  # why there is none: the kernel is refused, or unknown
                raise AttributeError(str(error)) from None
        raise AttributeError(name)

    def __repr__(self) -> str:
        names = (name for name in vars(self) if not name.startswith(("_", " ")))
        return f"<slangtorch module {self.__name__}: {', '.join(names)}>"


# The arguments, their names and their order are slangtorch's.
def loadModule(  # noqa: PLR0917
    fileName: str | os.PathLike[str],
    skipSlang: bool | None = None,
    verbose: bool = False,
    defines: Mapping[str, Any] | Iterable[tuple[str, Any]] | None = None,
    includePaths: Iterable[str | os.PathLike[str]] | None = None,
    skipNinjaCheck: bool = False,
    slangGenLineInfo: bool = True,
    cudaFastMath: bool = True,
    cudaGenLineInfo: bool = True,
    extraSlangFlags: Iterable[str] | None = None,
    extraCudaFlags: Iterable[str] | None = None,
) -> SlangtorchModule:
    """Compiles a ``.slang`` file and returns its kernels.

    Args:
        fileName: the file.
        skipSlang: deprecated, as in slangtorch.
        verbose: writes to stderr which module is loaded, and its time.
        defines: preprocessor macros; ``%NAME%`` in the text stands for the value too, where ``%`` is no operator.
        includePaths: searched by ``import`` and ``#include`` after the file's own folder.
        skipNinjaCheck: nothing: there is no ninja here.
        slangGenLineInfo: nothing: diagnostics always name the line.
        cudaFastMath: lets the device compilers trade accuracy for speed, on the CPU too.
        cudaGenLineInfo: nothing.
        extraSlangFlags: ``-D`` and ``-I`` do what they say.
        extraCudaFlags: ``-I`` and ``--use_fast_math`` do what they say. Of other flags a warning says, once, that they
            are ignored.

    Raises:
        RuntimeError: there is no such file, or it does not compile; the compiler's diagnostics are in the message.
    """
    del skipNinjaCheck, slangGenLineInfo, cudaGenLineInfo
    if skipSlang is not None:
        warnings.warn("loadModule: skipSlang is deprecated and does nothing", DeprecationWarning, stacklevel=2)
    start = time.perf_counter()
    path = Path(fileName).absolute()
    options = _Options(dict(defines or {}), [Path(folder).absolute() for folder in includePaths or ()], cudaFastMath)
    options.add_flags("extraSlangFlags", extraSlangFlags)
    options.add_flags("extraCudaFlags", extraCudaFlags)
    module = load(
        path,
        namespace=_namespace(path, options),
        defines=options.defines,
        include_dirs=options.folders,
        fast_math=options.fast_math,
    )
    if module not in _wrapped:
        _wrapped[module] = SlangtorchModule(path.stem, module)
    if verbose:
        print(f"slangtorch: loaded {path} in {time.perf_counter() - start:.3f} s", file=sys.stderr)
    return _wrapped[module]


def clearSessionShaderCache() -> None:
    """Forgets the loaded modules; those in use stay usable."""
    _wrapped.clear()


def clearPersistentShaderCache() -> None:
    """Empties the disk cache, which all programs that use torch_slang share."""
    cache.clear()


def clearShaderCaches() -> None:
    """Both."""
    clearSessionShaderCache()
    clearPersistentShaderCache()


@dataclass
class _Options:
    defines: dict[str, Any]
    folders: list[Path]
    fast_math: bool

    def add_flags(self, argument: str, flags: Iterable[str] | None) -> None:
        """Takes from flags of slangc or nvcc what has a meaning here; a warning says which have none."""
        if isinstance(flags, str):
            raise TypeError(f"loadModule: expected {argument} to be a list of flags, but got one string")
        for flag, value in _split([str(flag) for flag in flags or ()]):
            if flag == "-D" and argument == "extraSlangFlags":
                name, has_value, text = value.partition("=")
                self.defines.setdefault(name, text if has_value else "1")
            elif flag == "-I":
                self.folders.append(Path(value).absolute())
            elif flag in ("-use_fast_math", "--use_fast_math"):
                self.fast_math = True
            else:
                _note_ignored(argument, f"{flag} {value}".strip())


def _split(words: list[str]) -> Iterator[tuple[str, str]]:
    """Flags with their values: what follows -D and -I, and any word that does not begin with a dash."""
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word[:2] in ("-D", "-I") and len(word) > 2:
            yield word[:2], word[2:]
        elif at < len(words) and not words[at].startswith("-"):
            yield word, words[at]
            at += 1
        else:
            yield word, ""


def _note_ignored(argument: str, flag: str) -> None:
    if flag.startswith(_NEEDLESS) or flag in _noted:
        return
    _noted.add(flag)
    warnings.warn(f"loadModule: {flag} in {argument} is ignored: it has no meaning here", UserWarning, stacklevel=4)


def _namespace(path: Path, options: _Options) -> str:
    """Each module's operators have a namespace of their own, so that equal names meet nowhere.

    The text is part of it: a module stays as it was when its file is edited and loaded again.
    """
    text = path.read_bytes() if path.is_file() else b""
    shown = repr((str(path), sorted(options.defines.items()), options.folders, options.fast_math))
    digest = hashlib.sha256(shown.encode() + text).hexdigest()[:16]
    return f"slangtorch_{re.sub(r'[^A-Za-z0-9]', '_', path.stem)}_{digest}"
