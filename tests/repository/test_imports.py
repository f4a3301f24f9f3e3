"""scripts/check_imports.py finds circles of imports, and imports between packages that LAYERS does not allow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "check_imports.py"
FILES = {
    "__init__.py": "from torch_slang.kernels.kernel import Kernel",
    "kernels/__init__.py": "",
    "kernels/kernel.py": "from torch_slang._module import x",
    "functions/function.py": "import torch",
    "_module.py": "import re",
}


def check(folder: Path, changed: dict[str, str]) -> subprocess.CompletedProcess[str]:
    for name, text in (FILES | changed).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return subprocess.run([sys.executable, str(SCRIPT), str(folder)], capture_output=True, text=True, check=False)


def test_one_way_is_right(tmp_path: Path) -> None:
    types_alone = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from torch_slang.kernels.kernel import Kernel\n"
    )
    assert check(tmp_path, {"_module.py": types_alone}).returncode == 0


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"_module.py": "from torch_slang.kernels import kernel"}, "a circle of imports: "),
        ({"_module.py": "def f():\n    import torch_slang.kernels.kernel"}, "a circle of imports: "),
        (
            {"kernels/kernel.py": "from torch_slang.functions.function import g"},
            "torch_slang.kernels.kernel imports torch_slang.functions.function: kernels may not import functions",
        ),
    ],
)
def test_what_is_wrong_is_named(changed: dict[str, str], said: str, tmp_path: Path) -> None:
    run = check(tmp_path, changed)
    assert run.returncode == 1
    assert said in run.stdout
