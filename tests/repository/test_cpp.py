"""Runs the C++ tests of tests/cpp, a suite for each file; `make test` builds them and says where they are."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from long_tests import dear_test

SOURCES = sorted(Path(__file__).parents[1].joinpath("cpp").glob("*_test.cpp"))


DEAR = {"compiler_functions_test", "compiler_test", "cpu_backend_test", "cuda_compile_test", "op_test"}  # run compilers


@pytest.mark.parametrize(
    "name", [pytest.param(source.stem, marks=[dear_test] if source.stem in DEAR else []) for source in SOURCES]
)
def test_cpp(name: str) -> None:
    folder = os.environ.get("TORCH_SLANG_CPP_TESTS")
    if folder is None:
        pytest.skip("the C++ tests are built and run by `make test`")
    command = [Path(folder) / "torch_slang_tests", f"--run_test={name}", "--color_output=no"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
