"""A disk cache of the session's own, which the processes of pytest-xdist share: nothing comes from an earlier run."""

import os
import shutil
import tempfile

import pytest
import torch
from devices import DEVICES

_FOLDER = "TORCH_SLANG_CACHE_DIR"


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # workers inherit the variable
        os.environ[_FOLDER] = tempfile.mkdtemp(prefix="torch_slang_tests_")


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ[_FOLDER], ignore_errors=True)


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> torch.device:
    return torch.device(request.param)
