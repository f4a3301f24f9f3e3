"""The disk cache of compiled Programs and device binaries."""

from __future__ import annotations

from torch_slang._library import _C

__all__ = ["clear", "path", "stats", "trim"]


def path() -> str:
    """The cache's folder.

    ``TORCH_SLANG_CACHE_DIR``, else ``$XDG_CACHE_HOME/torch_slang``, else ``~/.cache/torch_slang``.
    """
    return _C.cache_path()


def clear() -> int:
    """Removes every entry from the folder and returns how many there were. Loaded kernels stay usable."""
    return _C.cache_clear()


def trim(size: int | str | None = None) -> int:
    """Removes the least recently used compiled entries until the rest has at most ``size`` bytes.

    ``size`` is a number of bytes or a text with a unit (``"500M"``, ``"2G"``; powers of 1024); 0 removes all of them.
    Without it the limit is ``TORCH_SLANG_CACHE_SIZE`` (1 GiB if that is not set, none if it is ``off`` or 0), which is
    kept to anyway whenever something is written. Choices of tuning are small and stay. Other processes may use the
    folder meanwhile, and loaded kernels stay usable.

    Returns how many entries went.
    """
    return _C.cache_trim(size)


def stats() -> dict[str, int]:
    """Counters of this process.

    ``hits``, ``misses``, ``writes`` and ``damaged`` count cache entries; ``slang_runs``, ``host_runs`` and
    ``nvrtc_runs`` count compilers started.
    """
    return _C.cache_stats()
