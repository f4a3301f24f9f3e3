"""Checks that imports in torch_slang go one way: between packages as LAYERS says, and without a circle of modules.

    python scripts/check_imports.py [torch_slang]

Imports in functions count, those for type checkers alone do not. Exit status 1 if something is wrong, with a line for
each.
"""

from __future__ import annotations

import ast
import graphlib
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "torch_slang"
# Each folder, and those that its modules may import beside the package's own modules.
LAYERS: dict[str, set[str]] = {
    "kernels": set(),
    "functions": set(),
    "products": set(),
    "checks": set(),
    "slangtorch": {"kernels"},
    "slangpy": {"functions"},
}


def modules(folder: Path) -> dict[str, Path]:
    """The modules of a package by their dotted names."""
    found = {}
    for file in sorted(folder.rglob("*.py")):
        name = ".".join((PACKAGE, *file.relative_to(folder).with_suffix("").parts))
        found[name.removesuffix(".__init__")] = file
    return found


def imported(tree: ast.AST) -> Iterator[str]:
    """The dotted names of what a module imports, of `from a import b` both a.b and a."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            yield node.module
        yield from imported(node)


def folder_of(module: str) -> str:
    """The package in torch_slang that a module is of, or nothing."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in LAYERS else ""


def main() -> int:
    known = modules(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / PACKAGE)
    graph: dict[str, set[str]] = {}
    for name, file in known.items():
        # The package itself is what users import; `from torch_slang import audit` names a module of it.
        graph[name] = {one for one in imported(ast.parse(file.read_text())) if one in known} - {PACKAGE, name}
    problems = [
        f"{name} imports {other}: {folder_of(name)} may not import {folder_of(other)}"
        for name, others in graph.items()
        for other in sorted(others)
        if folder_of(name) and folder_of(other) not in {"", folder_of(name), *LAYERS[folder_of(name)]}
    ]
    try:
        tuple(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as error:
        problems.append(f"a circle of imports: {' -> '.join(reversed(error.args[1]))}")
    print(*problems, sep="\n", end="\n" * bool(problems))
    print(f"imports {len(known)} Python modules" + (", without a circle" if not problems else ""))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
