"""``loadModule``, with slangtorch's arguments."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from torch_slang import cache
from torch_slang._load import load
from torch_slang._module import Module
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
    "-DSLANG_CUDA_ENABLE_HALF",
    "-DSLANG_CUDA_ENABLE_BF16",
    "--expt-relaxed-constexpr",
    "--expt-extended-lambda",
)
_FAST_MATH = ("-use_fast_math", "--use_fast_math")

_noted: set[str] = set()
_wrapped: dict[Module, SlangtorchModule] = {}


class SlangtorchModule:
    """A loaded module: its kernels, its host functions and its structs are attributes."""

    DiffTensorView = DiffTensorView

    def __init__(self, name: str, module: Module) -> None:
        self.__name__ = name
        for kernel in module.kernels():
            about = module._handle.describe(kernel)
            vars(self).update(struct_types(about["parameters"]))
            vars(self).update(functions_of(module, kernel, about))

    def __getattr__(self, name: str) -> Any:
        names = ", ".join(known for known in vars(self) if not known.startswith("__"))
        raise AttributeError(f"the module {self.__name__} has no {name}; it has {names or 'nothing'}")

    def __repr__(self) -> str:
        return f"<slangtorch module {self.__name__}: {', '.join(list(vars(self))[1:])}>"


# The names of the arguments are slangtorch's.
def loadModule(  # noqa: N802
    fileName: str | os.PathLike[str],  # noqa: N803
    skipSlang: bool | None = None,  # noqa: N803
    verbose: bool = False,
    defines: Mapping[str, Any] | Iterable[tuple[str, Any]] | None = None,
    includePaths: Iterable[str | os.PathLike[str]] | None = None,  # noqa: N803
    skipNinjaCheck: bool = False,  # noqa: N803
    slangGenLineInfo: bool = True,  # noqa: N803
    cudaFastMath: bool = True,  # noqa: N803
    cudaGenLineInfo: bool = True,  # noqa: N803
    extraSlangFlags: Iterable[str] | None = None,  # noqa: N803
    extraCudaFlags: Iterable[str] | None = None,  # noqa: N803
) -> SlangtorchModule:
    """Compiles a ``.slang`` file and returns its kernels.

    Args:
        fileName: the file.
        skipSlang: deprecated, as in slangtorch.
        verbose: says on stderr what is loaded and in how long.
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
    if skipSlang is not None:
        warnings.warn("loadModule: skipSlang is deprecated and does nothing", DeprecationWarning, stacklevel=2)
    start = time.perf_counter()
    macros = dict(defines or {})
    folders = [Path(folder).absolute() for folder in includePaths or ()]
    fast_math = bool(cudaFastMath)
    for flag, value in _split(extraSlangFlags, "extraSlangFlags"):
        if flag == "-D":
            macros.setdefault(*_macro(value))
        elif flag == "-I":
            folders.append(Path(value).absolute())
        else:
            _note("extraSlangFlags", flag, value)
    for flag, value in _split(extraCudaFlags, "extraCudaFlags"):
        if flag == "-I":
            folders.append(Path(value).absolute())
        elif flag in _FAST_MATH:
            fast_math = True
        else:
            _note("extraCudaFlags", flag, value)
    path = Path(fileName).absolute()
    options = {"defines": macros, "include_dirs": folders, "fast_math": fast_math}
    module = load(path, namespace=_namespace(path, options), **options)
    if module not in _wrapped:
        _wrapped[module] = SlangtorchModule(path.stem, module)
    if verbose:
        print(f"slangtorch: loaded {path} in {time.perf_counter() - start:.3f} s", file=sys.stderr)
    return _wrapped[module]


def clearSessionShaderCache() -> None:  # noqa: N802
    """Forgets what was loaded; modules in use stay usable."""
    _wrapped.clear()


def clearPersistentShaderCache() -> None:  # noqa: N802
    """Empties the disk cache, which all programs that use torch_slang share."""
    cache.clear()


def clearShaderCaches() -> None:  # noqa: N802
    """Both."""
    clearSessionShaderCache()
    clearPersistentShaderCache()


def _namespace(path: Path, options: Mapping[str, Any]) -> str:
    """Each module's operators have a namespace of their own, so that equal names meet nowhere.

    The text is part of it: a module stays as it was when its file is edited and loaded again.
    """
    text = path.read_bytes() if path.is_file() else b""
    shown = json.dumps([str(path), options], sort_keys=True, default=str)
    digest = hashlib.sha256(shown.encode() + text).hexdigest()[:16]
    return f"slangtorch_{re.sub(r'[^A-Za-z0-9]', '_', path.stem)}_{digest}"


def _split(flags: Iterable[str] | None, argument: str) -> Iterator[tuple[str, str]]:
    """Flags with their values: those of -D, -I and of what a word without a dash follows."""
    if isinstance(flags, str):
        raise TypeError(f"loadModule: expected {argument} to be a list of flags, but got one string")
    words = [str(flag) for flag in flags or ()]
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word[:2] in ("-D", "-I") and len(word) > 2 and not word.startswith(_NEEDLESS):
            yield word[:2], word[2:]
        elif at < len(words) and not words[at].startswith("-"):
            yield word, words[at]
            at += 1
        else:
            yield word, ""


def _macro(definition: str) -> tuple[str, str]:
    name, _, value = definition.partition("=")
    return name, value if "=" in definition else "1"


def _note(argument: str, flag: str, value: str) -> None:
    shown = f"{flag} {value}".strip()
    if shown.startswith(_NEEDLESS) or shown in _noted:
        return
    _noted.add(shown)
    warnings.warn(f"loadModule: {shown} in {argument} is ignored: it has no meaning here", UserWarning, stacklevel=3)
