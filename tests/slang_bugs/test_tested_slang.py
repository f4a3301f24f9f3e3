"""A build with a Slang that the ledger of its errors was not run with is an error that says so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CMAKE = shutil.which("cmake", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")

pytestmark = pytest.mark.skipif(CMAKE is None, reason="no cmake")
CHECK = """
cmake_minimum_required(VERSION 3.24)
include({module})
torch_slang_check_version({library} {header})
message(STATUS "accepted")
"""


def configured(folder: Path, library: str, *options: str) -> tuple[int, str]:
    script = folder / "check.cmake"
    header = ROOT / "csrc/compiler/slang/library.h"
    script.write_text(CHECK.format(module=ROOT / "cmake/TestedSlang.cmake", library=library, header=header))
    done = subprocess.run([str(CMAKE), *options, "-P", str(script)], capture_output=True, text=True, check=False)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize("version", ["2026.12", "2026.14.1"])
def test_tested_versions_build(version: str, tmp_path: Path) -> None:
    code, said = configured(tmp_path, f"libslang-compiler.so.0.{version}")
    assert (code, "accepted" in said) == (0, True), said


@pytest.mark.parametrize(
    "library", ["libslang-compiler.so.0.2026.13", "libslang-compiler.so.0.2026.1", "libslang-compiler.so"]
)
def test_another_is_an_error_unless_it_is_accepted(library: str, tmp_path: Path) -> None:
    code, said = configured(tmp_path, library)
    assert code != 0
    assert f"{library} is no Slang that its derivatives were tested with (2026.12, 2026.14.1)" in said
    assert "-DTORCH_SLANG_ANY_SLANG=ON" in said
    code, said = configured(tmp_path, library, "-DTORCH_SLANG_ANY_SLANG=ON")
    assert (code, "accepted" in said, "was tested" in said or "were tested" in said) == (0, True, True), said
