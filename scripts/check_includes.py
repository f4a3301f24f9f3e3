"""Checks that includes of csrc and ops go one way: between folders as LAYERS says, and without a circle of modules.

    python scripts/check_includes.py [csrc]

A module is a .h and a .cpp of one name. Exit status 1 if something is wrong, with a line for each.
"""

from __future__ import annotations

import graphlib
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

# The run-time above the back ends: each folder may include those in front of it.
RUNTIME = (
    "texts",
    "operators",
    "gradients",
    "specialise",
    "tuning",
    "kernels",
    "functions",
    "tuned",
    "audit",
    "dispatch",
    "module",
)
# torch-slangc, in the same way.
COMPILER = (
    *("compiler/text", "compiler/ctext", "compiler/slang", "compiler/ir", "compiler/source", "compiler/reflect"),
    *("compiler/wrap", "compiler/emit", "compiler/host", "compiler"),
)
BELOW = {"common", "cache", "program", "source", "backend"}

# Each folder, and those that its files may include: the picture in docs/architecture.md. All may include their own, the
# public headers, and prelude/abi.h and its kin, which device texts share with the run-time.
LAYERS: dict[str, set[str]] = {
    "torch_slang": set(),
    "common": set(),
    "cache": {"common"},
    "program": {"common"},
    **{folder: {"common", "program", *COMPILER[:i]} for i, folder in enumerate(COMPILER)},
    "source": {"common", "program"},
    "foreign": {"common"},
    "device_compilers/host": {"common", "cache", "program", "source"},
    "device_compilers/nvrtc": {"common", "cache", "program", "source", "foreign"},
    "backend": {"common", "program", "source"},
    "backend/cpu": {"common", "cache", "program", "source", "device_compilers/host", "backend"},
    "backend/cuda": {"common", "cache", "program", "source", "foreign", "device_compilers/nvrtc", "backend"},
    **{folder: {*BELOW, *RUNTIME[:i]} for i, folder in enumerate(RUNTIME)},
    "python": {*BELOW, *RUNTIME},
    # Operators that a kernel of ops/ is not enough for, beside csrc: they are made as the run-time's own are.
    "ops": {*BELOW, *RUNTIME},
}
# Kernels and plain functions are two slices above one ground, and know nothing of each other.
LAYERS["functions"] -= {"kernels", "tuning"}
# What a launch on the CPU can be stopped by, and whether a GPU's compiler is there.
LAYERS["operators"] |= {"backend/cpu"}
LAYERS["module"] |= {"backend/cpu", "device_compilers/nvrtc"}
# What torch-slangc is made of, or can be: no headers of torch but c10's.
WITHOUT_TORCH = {
    "torch_slang",
    "common",
    "cache",
    "program",
    "source",
    "foreign",
    "device_compilers/host",
    "device_compilers/nvrtc",
}
WITHOUT_TORCH |= set(COMPILER)
SHARED = {"prelude", "torch_slang"}
OTHERS = {"prelude", "stubs"}  # device texts, and what host compilers see in place of CUDA's headers

Graph = Mapping[str, set[str]]


def sources(root: Path) -> Iterator[tuple[str, Path]]:
    """The headers and sources of csrc, and of ops beside it, each with its module."""
    for file in sorted(file for pattern in ("*.h", "*.cpp") for file in root.rglob(pattern)):
        yield file.relative_to(root).with_suffix("").as_posix(), file
    for file in sorted(file for pattern in ("*.h", "*.cpp") for file in (root.parent / "ops").glob(pattern)):
        yield f"ops/{file.stem}", file


def includes(root: Path) -> Graph:
    """By module ("kernels/launch"): the modules that its files include."""
    modules = {f"{module}{file.suffix}": module for module, file in sources(root)}
    graph: dict[str, set[str]] = {}
    for own, file in sources(root):
        if folder_of(own) in OTHERS:
            continue
        found = graph.setdefault(own, set())
        for name in re.findall(r'^#include "([^"]+)"', file.read_text(), re.MULTILINE):
            beside = f"ops/{name}" if folder_of(own) == "ops" else name
            found.update(modules[path] for path in (name, beside) if path in modules)
        found.discard(own)
    return graph


def folder_of(module: str) -> str:
    return module.rpartition("/")[0]


def wrong_directions(graph: Graph) -> Iterator[str]:
    for module, found in graph.items():
        folder = folder_of(module)
        if folder not in LAYERS:
            yield f"{module}: its folder is not in the table LAYERS of scripts/check_includes.py"
            continue
        for other in sorted(found):
            there = folder_of(other)
            if there not in {folder, *SHARED, *LAYERS[folder]}:
                allowed = ", ".join(sorted(LAYERS[folder])) or "nothing"
                yield f"{module} includes {other}, but {folder} may include {allowed}"


def torch_includes(root: Path) -> Iterator[str]:
    for module, file in sources(root):
        if folder_of(module) not in WITHOUT_TORCH:
            continue
        for name in re.findall(r"^#include <((?:ATen|torch)/[^>]+)>", file.read_text(), re.MULTILINE):
            yield f"{module} includes {name}, but {folder_of(module)} does without torch"


def circles(graph: Graph) -> Iterator[str]:
    """The first that is found."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        yield f"a circle of includes: {' <- '.join(error.args[1])}"


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "csrc"
    graph = includes(root)
    problems = [*wrong_directions(graph), *torch_includes(root), *circles(graph)]
    print("\n".join(problems) or f"includes {len(graph)} modules of {len(LAYERS)} folders, without a circle")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
