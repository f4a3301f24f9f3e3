"""Collects what a build needs beside torch into one folder: for machines that reach no package index.

    .venv/bin/python scripts/make_sdk.py .sdk
    # on the other machine, whose Python has torch, cmake, ninja and pytest:
    SLANG_DIR=.sdk BOOST_DIR=.sdk/include make test PYTHON=python3 VENV=none

Takes Slang's header and library from the slangpy package, and of Boost's headers (180 MB) only those that we include.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"the Python package {name} is not installed here")
    return Path(next(iter(spec.submodule_search_locations)))


def boost_headers_of(source: Path, boost: Path) -> set[Path]:
    torch = package("torch") / "include"
    includes = [
        f"-I{ROOT / 'csrc'}",
        f"-I{package('slangpy') / 'include'}",
        "-isystem",
        str(torch),
        "-isystem",
        str(torch / "torch/csrc/api/include"),
    ]
    command = ["c++", "-std=c++20", "-M", *includes, "-isystem", str(boost), str(source)]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.replace("\\\n", " ").split()
    return {Path(word).relative_to(boost) for word in listed if word.startswith(str(boost))}


def main() -> None:
    target = Path(sys.argv[1])
    shutil.rmtree(target, ignore_errors=True)
    (target / "include").mkdir(parents=True)
    slang = package("slangpy")
    for header in (slang / "include").glob("slang*.h"):
        shutil.copy(header, target / "include")
    for library in slang.glob("libslang-compiler.so*"):
        shutil.copy(library, target)
    boost = package("boost_headers") / "include"
    sources = [*ROOT.glob("csrc/**/*json*.cpp"), *ROOT.glob("tests/cpp/*.cpp")]
    for header in set().union(*(boost_headers_of(source, boost) for source in sources)):
        (target / "include" / header).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(boost / header, target / "include" / header)


main()
