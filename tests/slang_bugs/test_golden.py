"""Slang's text has the form that the passes of csrc/compiler/emit know: tests/golden, by scripts/write_golden.py."""

from __future__ import annotations

import difflib
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

import torch_slang

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from write_golden import emitted, golden_file, golden_file_of, passes, sources

# They refuse texts, or meet names that no file here has.
WITHOUT_COUNTS = {"lost parts", "lost values", "misplaced tangents", "line names"}
OF_HOST_FUNCTIONS = {"left-out definitions", "launches", "structs"}  # tests/kernels/test_host_functions.py


@pytest.mark.parametrize("source", sources(), ids=lambda source: source.stem)
def test_slang_writes_what_the_passes_know(source: Path) -> None:
    version, now = emitted(source)
    kept = golden_file_of(source, version).read_text()
    changes = difflib.unified_diff(kept.splitlines(), now.splitlines(), "tested", "now", lineterm="", n=1)
    assert now == kept, (
        "Slang, or a pass, gives something else for this source than what was tested; see that values and gradients "
        "are right (make test-long), then run scripts/write_golden.py:\n" + "\n".join(islice(changes, 40))
    )


def test_each_pass_applies_to_a_source() -> None:
    counted = {
        name for source in sources() for counts in passes(golden_file(source).read_text()).values() for name in counts
    }
    folder = Path(__file__).parents[2] / "csrc" / "compiler" / "emit"
    table = (folder / "passes.cpp").read_text().partition("kPasses[] = {")[2].partition("\n};")[0]
    rows = [line.strip() for line in table.splitlines()]
    names = {row.split('"')[1] for row in rows if row.startswith(('{.name = "', 'repair("'))}
    assert len(names) > 10
    assert counted == names - WITHOUT_COUNTS - OF_HOST_FUNCTIONS


FAKE = """#!{python}
import json, subprocess, sys
real = subprocess.run([{real!r}, *sys.argv[1:]], stdin=sys.stdin, stdout=subprocess.PIPE)
program = json.loads(real.stdout.splitlines()[-1])  # before it stands the description
program["cautions"] = ["Slang 2099.1 was not tested"]
print(json.dumps(program))
"""
LOADS = """
import torch_slang
for k in range(3):
    torch_slang.load(source="float f(float x) { return x + %d; }" % k, name=f"m{k}.slang", namespace=f"m{k}")
"""


def test_a_caution_of_the_compiler_is_logged_once_in_a_process(tmp_path: Path) -> None:
    fake = tmp_path / "torch-slangc"
    real = Path(torch_slang.__file__).parent / "bin" / "torch-slangc"
    fake.write_text(FAKE.format(python=sys.executable, real=str(real)))
    fake.chmod(0o755)
    environment = {**os.environ, "TORCH_SLANG_COMPILER": str(fake), "TORCH_SLANG_CACHE_DIR": str(tmp_path / "cache")}
    result = subprocess.run([sys.executable, "-c", LOADS], env=environment, capture_output=True, text=True, check=True)
    assert result.stderr.count("Slang 2099.1 was not tested") == 1
