"""Forward mode and double backward of random functions of aggregates, beside PyTorch's of the same statements."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import pytest
import torch
from aggregate_programs import Program, draw_program, module_text
from long_tests import LONG

import torch_slang

Tensor = torch.Tensor
BATCHES = 28 if LONG else 1  # one test each, so that workers share them: 504 programs in all
PROGRAMS = 18 if LONG else 3  # of a batch
AT_ONCE = 3  # in one module
ROWS = 4  # of arguments, for each program
# Other programs each time in long runs: the seed is in a program's name.
SEED = int(os.environ.get("TORCH_SLANG_SEED", int(time.time()) % 10_000_000 if LONG else 20000))


@pytest.fixture
def quick_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_SLANG_CXXFLAGS", "-O0")


class Rows:
    """Arguments of each program, tangents of them, and weights of the gradient."""

    def __init__(self, programs: Sequence[Program]) -> None:
        generator = torch.Generator().manual_seed(len(programs))
        shape = (len(programs), ROWS, max(program.scalars for program in programs))
        self.numbers, self.tangents, self.weights = (
            2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1 for _ in range(3)
        )
        self.integers = torch.randint(0, 6, (*shape[:2], 2), generator=generator, dtype=torch.int32)
        self.which = torch.arange(shape[0], dtype=torch.int32)[:, None].expand(-1, ROWS)


def expected_of(
    program: Program, numbers: Tensor, tangents: Tensor, weights: Tensor, integers: list[int]
) -> list[Tensor]:
    """The tangent of the value, and the gradient of the gradient's weighted sum."""
    inputs = numbers[: program.scalars].clone().requires_grad_()
    nothing = torch.zeros_like(inputs)
    value = program.run(inputs, integers)
    (gradient,) = (
        torch.autograd.grad(value, inputs, create_graph=True, allow_unused=True) if value.requires_grad else (None,)
    )
    if gradient is None:
        return [nothing.sum(), nothing]
    second = None
    if gradient.requires_grad:
        weighted = (gradient * weights[: program.scalars]).sum()
        (second,) = torch.autograd.grad(weighted, inputs, allow_unused=True)
    return [(gradient * tangents[: program.scalars]).sum().detach(), nothing if second is None else second]


def compare(programs: Sequence[Program], device: torch.device) -> None:
    name = f"{programs[0].name}_{len(programs)}"
    module = torch_slang.load(source=module_text(programs), name=name, namespace=f"derivatives_of_{name}")
    rows = Rows(programs)
    which, integers = rows.which.to(device), rows.integers.to(device)

    def run(numbers: Tensor) -> Tensor:
        return module.run(which, numbers, integers[..., 0], integers[..., 1])

    numbers = rows.numbers.to(device).requires_grad_()
    values, tangents = torch.func.jvp(run, (numbers.detach(),), (rows.tangents.to(device),))
    alone = run(numbers.detach())
    if device.type == "cpu":
        assert torch.equal(values, alone)
    else:  # a GPU's assembler may fuse a product with a sum here and not there
        torch.testing.assert_close(values, alone, rtol=1e-12, atol=1e-12)
    (gradients,) = torch.autograd.grad(run(numbers).sum(), numbers, create_graph=True)
    (seconds,) = torch.autograd.grad((gradients * rows.weights.to(device)).sum(), numbers)
    for n, program in enumerate(programs):
        for row in range(ROWS):
            given = [part[n, row] for part in (rows.numbers, rows.tangents, rows.weights)]
            expected = expected_of(program, *given, rows.integers[n, row].tolist())
            actual = [tangents[n, row].cpu(), seconds[n, row, : program.scalars].cpu()]
            for what, one, other in zip(("tangent", "second derivative"), actual, expected, strict=True):
                scale = 1e-9 * (1 + float(other.abs().max()))
                message = f"{what} of {program.name}, row {row}: {one} != {other}\n{program.text}"
                torch.testing.assert_close(one, other, rtol=1e-8, atol=scale, msg=message)


def refused_among(programs: Sequence[Program], device: torch.device) -> list[str]:
    """Compares all; the names of those that the compiler refuses, or is ended by."""
    try:
        compare(programs, device)
        return []
    except RuntimeError as error:
        if not any(words in str(error) for words in (" is refused: ", "Slang compilation aborted", "was ended by")):
            raise
        if len(programs) == 1:
            return [f"{programs[0].name}: {str(error).splitlines()[-1]}"]
    half = len(programs) // 2
    return refused_among(programs[:half], device) + refused_among(programs[half:], device)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_programs_to_second_order(quick_compiles: None, batch: int, device: torch.device) -> None:
    refused = []
    start = SEED + batch * PROGRAMS
    for first in range(start, start + PROGRAMS, AT_ONCE):
        refused += refused_among([draw_program(seed, f"f{seed}") for seed in range(first, first + AT_ONCE)], device)
    print(f"{len(refused)} of {PROGRAMS} programs are refused:", *refused, sep="\n  ")
    assert len(refused) <= PROGRAMS * 4 // 5, refused
