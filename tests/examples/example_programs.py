"""Programs of examples/ as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def load_program(path: str, *packages: str) -> ModuleType:
    """examples/`path`; skips the test where a package that the program imports is missing."""
    for package in packages:
        pytest.importorskip(package)
    spec = importlib.util.spec_from_file_location(path.removesuffix(".py").replace("/", "_"), EXAMPLES / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module
