"""The disk cache of compiled Programs and device binaries."""

from __future__ import annotations

from torch_slang._library import _C

__all__ = ["clear", "path", "stats"]


def path() -> str:
    """The cache's folder.

    ``TORCH_SLANG_CACHE_DIR``, else ``$XDG_CACHE_HOME/torch_slang``, else ``~/.cache/torch_slang``.
    """
    return _C.cache_path()


def clear() -> int:
    """Removes every entry from the folder and returns how many there were. What is loaded stays usable."""
    return _C.cache_clear()


def stats() -> dict[str, int]:
    """Counters of this process.

    ``hits``, ``misses``, ``writes`` and ``damaged`` count cache entries; ``slang_runs``, ``host_runs`` and
    ``nvrtc_runs`` count compilers started.
    """
    return _C.cache_stats()
