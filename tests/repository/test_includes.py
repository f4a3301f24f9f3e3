"""The check of csrc's includes, which `make lint` runs, finds what it is there for."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ROOT / "csrc", tmp_path / "csrc"))


def verdict(folder: Path) -> tuple[int, str]:
    command = [sys.executable, str(ROOT / "scripts" / "check_includes.py"), str(folder)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return ran.returncode, ran.stdout


def add_include(file: Path, name: str) -> None:
    file.write_text(f'#include "{name}"\n{file.read_text()}')


def test_ours_go_one_way() -> None:
    status, said = verdict(ROOT / "csrc")
    assert status == 0, said
    assert "without a circle" in said


def test_a_lower_folder_may_not_include_an_upper_one(copy: Path) -> None:
    add_include(copy / "common" / "hash.cpp", "cache/kind.h")
    status, said = verdict(copy)
    assert status == 1
    assert "common/hash includes cache/kind, but common may include nothing" in said


def test_a_circle_inside_a_folder_is_found(copy: Path) -> None:
    add_include(copy / "operators" / "signature.cpp", "kernels/call.h")
    status, said = verdict(copy)
    assert status == 1
    assert "a circle of includes: " in said
    assert "kernels/call" in said


def test_a_folder_must_be_in_the_table(copy: Path) -> None:
    (copy / "elsewhere").mkdir()
    (copy / "elsewhere" / "new.h").write_text("#pragma once\n")
    status, said = verdict(copy)
    assert status == 1
    assert "elsewhere/new: its folder is not in the table LAYERS" in said


def test_what_torch_slangc_may_use_is_free_of_torch(copy: Path) -> None:
    file = copy / "device_compilers" / "host" / "host_compiler.cpp"
    file.write_text(f"#include <ATen/Parallel.h>\n{file.read_text()}")
    status, said = verdict(copy)
    assert status == 1
    assert "includes ATen/Parallel.h, but device_compilers/host does without torch" in said
