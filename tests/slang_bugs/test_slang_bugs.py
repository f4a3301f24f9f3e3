"""Each error of Slang's in the ledger is mended or refused here, and each repair is still needed."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from long_tests import some_cases
from slang_bugs import BUGS, FOLDER, LEAVE_OUT, Bug

import torch_slang


def is_right(bug: Bug, found: list[torch.Tensor]) -> bool:
    return all(
        torch.allclose(one.double().flatten(), other.flatten(), rtol=2e-4, atol=1e-7 * float(other.abs().max()))
        for one, other in zip(found, bug.expected(), strict=True)
    )


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_it_is_right_or_refused(bug: Bug, device: torch.device) -> None:
    if "refusal" not in bug.facts:
        assert is_right(bug, bug.found(device, without_repair=False)), bug.what
        return
    with pytest.raises(RuntimeError, match=bug.facts["refusal"]):
        bug.found(device, without_repair=False)


@pytest.fixture(scope="module")
def version() -> str:
    """Of Slang."""
    return torch_slang.load(source="float f(float x) { return x; }", namespace="slang_bugs_version").slang_version()


@some_cases(6)
@pytest.mark.parametrize("bug", [bug for bug in BUGS if "chance" not in bug.facts], ids=lambda bug: bug.name)
def test_slang_is_wrong_in_the_versions_that_the_ledger_names(bug: Bug, version: str) -> None:
    """Fails once Slang is right: the version goes from the ledger, and with the last one the repair and its tests."""
    said, found = "", None
    try:
        found = bug.found(torch.device("cpu"), without_repair=True)
    except RuntimeError as error:
        said = str(error)
    assert LEAVE_OUT not in said
    is_mended = found is not None and is_right(bug, found)
    said = (
        f"Slang {version} is {'right' if is_mended else 'wrong'} without the repair `{bug.facts['repair']}`: {bug.what}"
    )
    assert is_mended != (version in bug.facts["seen"].split(", ")), said


def test_a_repair_that_is_not_needed_is_named(version: str, tmp_path: Path) -> None:
    (tmp_path / "square.slang").write_text("[Differentiable] float f(float x) { return x * x; }\n")
    facts = {"repair": "lost copies", "seen": version, "inputs": '["0.5f"]'}
    said = f"Slang {version} is right without the repair `lost copies`: squares have no gradient"
    with pytest.raises(AssertionError, match=said):
        test_slang_is_wrong_in_the_versions_that_the_ledger_names(
            Bug("square", "squares have no gradient", facts, tmp_path), version
        )


def test_a_repair_that_there_is_not() -> None:
    with pytest.raises(torch_slang.CompileError, match="names none of these, which is no repair"):
        torch_slang.load(
            source="[Differentiable] float f(float x) { return x; }",
            namespace="slang_bugs_none",
            defines={LEAVE_OUT: "none of these"},
        )


def test_the_expected_gradients_are_finite() -> None:
    for bug in BUGS:
        assert all(math.isfinite(float(g.abs().max())) for g in bug.expected()), bug.name


def test_the_table_in_docs_is_that_of_the_programs() -> None:
    script = FOLDER.parents[1] / "scripts/write_ledger.py"
    assert subprocess.run([sys.executable, str(script), "--check"], check=False).returncode == 0, f"run {script}"
