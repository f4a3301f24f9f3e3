"""Derivatives to second order of every operation of Slang's core, of operands of every type, wherever it may stand.

Beside PyTorch in float64. `make test` tries a sample; `make test-long` every operation with every combination of
operand types, and every operation at every position, drawn anew (language_table.py tries any part of the table).
"""

from __future__ import annotations

import re

import pytest
import torch
from language_operations import NOT_DIFFERENTIABLE
from language_programs import BINDINGS, Placed
from language_table import compiler_flags, groups, outcomes, pairs, sample
from long_tests import LONG, PROGRAM_SEED, dear_test, seed_of_this_commit, some_cases

import torch_slang

PARTS = 64 if LONG else 1  # of the table, one test each, so that workers share them
SAMPLES = dict.fromkeys(BINDINGS, 4) | {"functions": 6}
REFUSED = 0.25  # at most: Slang's compiler ends on some second derivatives, and on some loops


def check(several: list[Placed], binding: str, device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_SLANG_CXXFLAGS", compiler_flags(binding))
    every = [outcome for group in groups(several, binding) for outcome in outcomes(group, binding, device)]
    print(*(line for outcome in every for line in outcome.lines), sep="\n")
    wrong = [line for outcome in every if outcome.wrong for line in outcome.lines]
    assert not wrong, "\n".join(wrong)
    refused = [line for outcome in every for line in outcome.lines]
    assert sum(bool(outcome.refused) for outcome in every) <= REFUSED * len(every), "\n".join(refused)


def part(binding: str, number: int) -> list[Placed]:
    if LONG:
        return pairs(binding, PROGRAM_SEED)[number::PARTS]
    return sample(binding, SAMPLES[binding], seed_of_this_commit())


@dear_test
@pytest.mark.parametrize("number", range(PARTS))
def test_operations_in_functions(number: int, device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    check(part("functions", number), "functions", device, monkeypatch)


@dear_test
@some_cases(1)
@pytest.mark.parametrize("number", range(PARTS))
@pytest.mark.parametrize("binding", [name for name in BINDINGS if name != "functions"])
def test_operations_of_other_arguments(
    binding: str, number: int, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(part(binding, number), binding, device, monkeypatch)


def test_what_has_no_derivative_is_refused_with_its_line() -> None:
    """None gives zeros without a word. `no_diff` says that this is meant."""
    text = "import torch_slang;\n"
    for k, call in enumerate(NOT_DIFFERENTIABLE):
        text += f"[Differentiable] float f{k}(float x, float y) {{ return {call}; }}\n"
    with pytest.raises(RuntimeError) as raised:
        torch_slang.load(source=text, name="not_differentiable.slang", namespace="not_differentiable")
    lines = {
        int(line) for line in re.findall(r"E41022[^\n]*\n\s*--> not_differentiable\.slang:(\d+)", str(raised.value))
    }
    missing = [call for k, call in enumerate(NOT_DIFFERENTIABLE) if k + 2 not in lines]
    assert not missing
