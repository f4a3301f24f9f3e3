"""find_package(torch_slang): examples/cpp builds against the package as it is installed, and runs without Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from long_tests import dear_test

import torch_slang

PACKAGE = Path(torch_slang.__file__).parent
EXAMPLES = Path(__file__).parents[2] / "examples"
CMAKE = shutil.which("cmake", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@dear_test
@pytest.mark.skipif(
    CMAKE is None or not (PACKAGE / "share" / "cmake").is_dir(), reason="no cmake, or no installed CMake files"
)
def test_the_cpp_example_builds_and_runs(tmp_path: Path) -> None:
    assert CMAKE is not None
    found = f"-Dtorch_slang_DIR={PACKAGE}/share/cmake/torch_slang"
    run(CMAKE, "-S", EXAMPLES / "cpp", "-B", tmp_path, found, f"-DTORCH_DIR={Path(torch.__file__).parent}")
    run(CMAKE, "--build", tmp_path)
    assert run(tmp_path / "cube", EXAMPLES / "cube.slang") == "cube root of 27: 3\n"
    failed = subprocess.run([tmp_path / "cube", "/nowhere/cube.slang"], capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert failed.stderr == "torch_slang.load: no such file: /nowhere/cube.slang\n"
