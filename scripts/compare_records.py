"""Whether two versions of torch_slang make the same of the same programs: texts for both targets, launches, schemas.

    python scripts/compare_records.py record FOLDER [pytest's arguments]     # in each of two checkouts that are built
    python scripts/compare_records.py compare FOLDER OTHER

`record` runs the tests (all of tests/ if no arguments name some) with TORCH_SLANG_RECORD (csrc/source/record.h) and
an empty cache: what is compiled and launched is written down. Of every module that a test loads the texts for CUDA are
written too, for each kind of operator, all its types, contiguous tensors and others, whether there is a GPU or not; and
its schemas. Tests of one file run in one process, one after the other, so that names which they count out are the same
each time.

`compare` takes folders' names out of the texts (tests write into new ones), and lists what only one side has; exit
status 1 if there is something. What is chosen by the clock (threads, tuned variants) may differ from run to run by
itself: records of two runs of one version show it.
"""

from __future__ import annotations

import argparse
import difflib
import itertools
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch

KINDS = ("forward", "backward", "launch", "fwd", "bwd")


def record(folder: Path, arguments: list[str]) -> int:
    folder.mkdir(parents=True)
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "TORCH_SLANG_RECORD": str(folder),
        "TORCH_SLANG_CACHE_DIR": str(folder / "cache"),
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
    }
    tests = arguments or ["-n", "2", "tests"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "compare_records", "--dist", "loadfile", *tests]
    return subprocess.run(command, env=environment, check=False).returncode


# --- What pytest runs, for `-p compare_records`

_seen: set[str] = set()


def pytest_runtest_teardown(item: Any) -> None:
    del item
    if not (folder := os.environ.get("TORCH_SLANG_RECORD")):
        return
    from torch_slang._load import _modules
    from torch_slang._module import members_of

    lines: list[str] = []
    for identity, module in list(_modules.items()):
        handle = members_of(module).handle  # a kernel may be called _handle
        for name in handle.operators():
            if (known := f"{identity}::{name}") not in _seen:
                _seen.add(known)
                lines += record_operator(handle, name)
    with (Path(folder) / f"schemas.{os.getpid()}").open("a") as file:
        file.writelines(line + "\n" for line in lines)


def record_operator(handle: Any, name: str) -> list[str]:
    """Its texts; its schemas and what is told of it."""
    about = handle.describe(name)
    combinations = list(itertools.product(*(types for _, types in about["type_parameters"])))
    for kind, types, dense in itertools.product(KINDS, combinations, (True, False)):
        try:
            handle.cuda_text(name, kind, list(types), dense)
        except RuntimeError as reason:
            if "has no op of this kind" not in str(reason):
                about[f"{kind} of {types}"] = str(reason)
    names = sorted({about[kind] for kind in KINDS if isinstance(about.get(kind), str)})
    schemas = [
        schema for one in names for schema in torch._C._jit_get_schemas_for_operator(f"{handle.namespace}::{one}")
    ]
    return [f"{handle.namespace}::{name} {sorted(about.items())}", *map(str, schemas)]


# --- Comparing


def compare(folder: Path, other: Path) -> int:
    different = 0
    for what, read in (("texts", texts), ("launches", lines_of("launches")), ("operators", lines_of("schemas"))):
        mine, theirs = read(folder), read(other)
        here, there = mine - theirs, theirs - mine
        counts = mine.total(), theirs.total(), here.total(), there.total()
        print("{}: {} and {}; only in one: {} and {}".format(what, *counts))
        different += here.total() + there.total()
        show(here, there)
    return 1 if different else 0


def texts(folder: Path) -> Counter[str]:
    return Counter(plain(path.read_text()) for path in folder.iterdir() if path.suffix in (".cpu", ".cuda"))


def lines_of(prefix: str) -> Any:
    def read(folder: Path) -> Counter[str]:
        found = {plain(line) for path in folder.glob(f"{prefix}.*") for line in path.read_text().splitlines()}
        return Counter(found)

    return read


def plain(text: str) -> str:
    """Without the folders of paths, and the numbers that tests give to files and namespaces which they make."""
    return re.sub(r"(/[\w.+-]+)+/", "", text)


def show(mine: Counter[str], theirs: Counter[str], most: int = 5) -> None:
    for text, near in itertools.islice(itertools.zip_longest(sorted(mine), sorted(theirs), fillvalue=""), most):
        changes = difflib.unified_diff(text.splitlines(), near.splitlines(), "first", "second", lineterm="", n=1)
        print(*itertools.islice((line[:200] for line in changes), 30), sep="\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["record", "compare"])
    parser.add_argument("folder", type=Path)
    arguments, rest = parser.parse_known_args()
    if arguments.what == "record":
        return record(arguments.folder.absolute(), rest)
    if len(rest) != 1:
        parser.error("compare: expected two folders")
    return compare(arguments.folder, Path(rest[0]))


if __name__ == "__main__":
    sys.exit(main())
