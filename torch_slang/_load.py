"""``torch_slang.load``: from a ``.slang`` file to operators."""

from __future__ import annotations

import json
import linecache
import os
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from torch_slang._library import _C, forget_cached_op, speed_up_calls
from torch_slang._module import Module
from torch_slang._numbers import SLANG_TYPES

_TAG = " torch_slang:"

_modules: dict[str, Module] = {}  # the latest load of each, by identity


def load(
    path: str | os.PathLike[str] | None = None,
    *,
    source: str | None = None,
    name: str | None = None,
    namespace: str = "slang",
    defines: Mapping[str, Any] | None = None,
    include_dirs: Iterable[str | os.PathLike[str]] | None = None,
    annotations: Mapping[str, Any] | None = None,
    fast_math: bool = False,
    debug: bool | None = None,
) -> Module:
    """Compiles a Slang module and registers its kernels as ``torch.ops.<namespace>.<kernel>``.

    Its plain functions are operators too: those with ``[TorchOp]`` at once, others when they are first used.

    Args:
        path: the ``.slang`` file. Give either this or ``source``.
        source: Slang text; ``name`` then is its identity and what diagnostics call it. Edited text under the same name
            is a reload, as of a file: give one to what a notebook's cell loads.
        namespace: of the operators.
        defines: preprocessor macros. Integers may be named in shape expressions too; ``True`` and ``False`` become 1
            and 0, a ``torch.dtype`` Slang's name of the type. A list or tuple of values is a search space: kernels are
            compiled with each and the fastest is chosen at the first call (docs/tuning.md).
        include_dirs: searched by ``import`` and ``#include`` after the file's own folder.
        annotations: shapes and launches for kernels whose source must stay as it is:
            ``{"kernel": {"x": "Shape(N)", "y": "Out(N)", "launch_total": ["N"], "block_size": [256]}}``.
        fast_math: lets the device compilers trade accuracy for speed.
        debug: checks indices and the promises of ``loadFixed`` and its kin, and fills new outputs with NaN. False
            checks nothing; None: ``TORCH_SLANG_DEBUG``, else indices on the CPU alone.

    Loading the same module with the same options again does nothing while its text is unchanged, and reloads it after
    an edit. Other options with the same operator names need another ``namespace``.

    A reload that changes an operator's arguments changes ``torch.ops.<namespace>.<kernel>`` for all who hold it. Script
    TorchScript functions that call it anew: the old ones pass the arguments that they were compiled with, and PyTorch
    does not check how many an operator takes by then.

    Raises:
        CompileError: the source does not compile; Slang's diagnostics are in the message. Nothing was registered.
        RuntimeError: a shape expression is wrong, or a name is taken. Nothing was registered.
    """
    handle, changed, is_new = _C.load(
        options_of(
            path,
            source=source,
            name=name,
            namespace=namespace,
            defines=defines,
            include_dirs=include_dirs,
            annotations=annotations,
            fast_math=fast_math,
            debug=debug,
        )
    )
    known = _modules.get(handle.identity)
    if known is not None and not is_new:
        return known
    if source is not None:
        # For whoever shows lines of it: tracebacks of the standard library do, and so does Module.explain.
        linecache.cache[handle.path] = (len(source), None, source.splitlines(keepends=True), handle.path)
    module = Module(handle, known)
    _modules[handle.identity] = module
    speed_up_calls(handle.namespace)
    for qualified in changed:
        forget_cached_op(qualified)
    if (changed or known is not None) and "torch._dynamo" in sys.modules:  # no cache entry outlives its module
        torch.compiler.reset()
    _tag_compile_caches()
    return module


def options_of(
    path: str | os.PathLike[str] | None,
    *,
    source: str | None,
    name: str | None,
    namespace: str,
    defines: Mapping[str, Any] | None,
    include_dirs: Iterable[str | os.PathLike[str]] | None,
    annotations: Mapping[str, Any] | None,
    fast_math: bool,
    debug: bool | None,
) -> _C.LoadOptions:
    """The arguments of :func:`load`, checked, as the native module takes them."""
    if source is not None and not isinstance(source, str):
        raise TypeError(f"torch_slang.load: expected source to be a string, but got {type(source).__name__}")
    if source is not None:
        _refuse_invalid_text(source, name)
    if isinstance(include_dirs, str | os.PathLike):
        raise TypeError("torch_slang.load: expected include_dirs to be a list of folders, but got one path")
    given = sorted((defines or {}).items())
    return _C.LoadOptions(
        path=None if path is None else os.fspath(path),
        source=source,
        name=name,
        namespace=namespace,
        defines=[(key, _define(value)) for key, value in given if not isinstance(value, list | tuple)],
        tuned=[(key, [_define(one) for one in value]) for key, value in given if isinstance(value, list | tuple)],
        include_dirs=[os.fspath(folder) for folder in include_dirs or ()],
        annotations="" if annotations is None else json.dumps(annotations, sort_keys=True),
        fast_math=fast_math,
        debug=debug,
    )


def _define(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, torch.dtype):
        if value not in SLANG_TYPES:
            raise TypeError(f"torch_slang.load: Slang has no type for {value}, which a define has as its value")
        return SLANG_TYPES[value]
    if isinstance(value, list | tuple | Mapping | set):
        raise TypeError(
            f"torch_slang.load: expected the values of defines to be numbers, strings or dtypes, but got {value!r}"
        )
    return str(value)


def _refuse_invalid_text(source: str, name: str | None) -> None:
    """A string may hold surrogates, which UTF-8 cannot encode, and a zero, at which Slang stops reading."""
    wrong = re.search("[\0\ud800-\udfff]", source)
    if wrong is None:
        return
    before = source[: wrong.start()]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    raise _C.CompileError(
        f"torch_slang: {name or 'source'}:{line}:{column}: character U+{ord(wrong[0]):04X} is no text"
    )


def _tag_compile_caches() -> None:
    """Makes torch.compile's disk caches depend on the loaded modules.

    What they keep under an operator's name is stale once a shape rule changes.
    """
    config = torch.compiler.config
    own = config.cache_key_tag.split(_TAG)[0]  # what the user has set stays
    config.cache_key_tag = f"{own}{_TAG}{_C.descriptors_digest()}"


_tag_compile_caches()  # for the operators of ops/
