"""Forward mode and double backward of random functions of aggregates, beside PyTorch's of the same statements."""

from __future__ import annotations

import pytest
import torch
from aggregate_programs import Program, draw_program, is_moderate, is_refused, module_text
from devices import with_memory_for_frames
from long_tests import LONG, PROGRAM_SEED

import torch_slang

Tensor = torch.Tensor
BATCHES = 28 if LONG else 1  # one test each, so that workers share them: 504 programs in all
PROGRAMS = 18 if LONG else 2  # of a batch
ROWS = 4  # of arguments


def expected_of(
    program: Program, numbers: Tensor, tangents: Tensor, weights: Tensor, integers: list[int]
) -> list[Tensor]:
    """The tangent of the value, and the gradient of the gradient's weighted sum."""
    inputs = numbers.clone().requires_grad_()
    nothing = torch.zeros_like(inputs)
    value = program.run(inputs, integers)
    (gradient,) = (
        torch.autograd.grad(value, inputs, create_graph=True, allow_unused=True) if value.requires_grad else (None,)
    )
    if gradient is None:
        return [nothing.sum(), nothing]
    second = None
    if gradient.requires_grad:
        weighted = (gradient * weights).sum()
        (second,) = torch.autograd.grad(weighted, inputs, allow_unused=True)
    return [(gradient * tangents).sum().detach(), nothing if second is None else second]


def compare(program: Program, device: torch.device) -> None:
    name = f"derivatives_of_{program.name}"
    module = torch_slang.load(source=module_text([program]), name=name, namespace=name)
    generator = torch.Generator().manual_seed(0)
    shape = (ROWS, program.scalars)
    rows, directions, weights = (2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1 for _ in range(3))
    integers = torch.randint(0, 6, (ROWS, 2), generator=generator, dtype=torch.int32)
    which, given_integers = torch.zeros(ROWS, dtype=torch.int32, device=device), integers.to(device)

    def run(numbers: Tensor) -> Tensor:
        return module.run(which, numbers, given_integers[:, 0], given_integers[:, 1])

    numbers = rows.to(device).requires_grad_()
    values, tangents = torch.func.jvp(run, (numbers.detach(),), (directions.to(device),))
    alone = run(numbers.detach())
    if device.type == "cpu":
        assert torch.equal(values.nan_to_num(), alone.nan_to_num())
    else:  # a GPU's assembler may fuse a product with a sum here and not there
        torch.testing.assert_close(values, alone, rtol=1e-9, atol=1e-9, equal_nan=True)
    (gradients,) = torch.autograd.grad(run(numbers).sum(), numbers, create_graph=True)
    (seconds,) = torch.autograd.grad((gradients * weights.to(device)).sum(), numbers)
    for row in range(ROWS):
        expected = expected_of(program, rows[row], directions[row], weights[row], integers[row].tolist())
        if not is_moderate(program.run(rows[row], integers[row].tolist()), *expected):
            continue
        actual = [tangents[row].cpu(), seconds[row].cpu()]
        for what, one, other in zip(("tangent", "second derivative"), actual, expected, strict=True):
            scale = 1e-9 * (1 + float(other.abs().max()))
            message = f"{what} of {program.name}, row {row}: {one} != {other}\n{program.text}"
            torch.testing.assert_close(one, other, rtol=1e-8, atol=scale, msg=message)


def refusal(program: Program, device: torch.device) -> str | None:
    """Compares the program's derivatives. Why the compiler refuses it, or is ended by it."""
    try:
        with_memory_for_frames(lambda: compare(program, device))
        return None
    except RuntimeError as error:
        if not is_refused(error):
            raise
        return f"{program.name}: {str(error).splitlines()[-1]}"


@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_programs_to_second_order(quick_compiles: None, batch: int, device: torch.device) -> None:
    seeds = range(PROGRAM_SEED + batch * PROGRAMS, PROGRAM_SEED + (batch + 1) * PROGRAMS)
    reasons = [refusal(draw_program(seed, f"f{seed}"), device) for seed in seeds]
    refused = [reason for reason in reasons if reason is not None]
    print(f"{len(refused)} of {PROGRAMS} programs are refused:", *refused, sep="\n  ")
    assert len(refused) <= PROGRAMS / 2, refused
