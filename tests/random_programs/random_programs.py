"""Counts random programs on a device: right, refused (with each text), wrong (with the difference). Each has its seed.

python tests/random_programs/random_programs.py aggregates --count 1000 --seed 0 --device cuda
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "helpers"))

import test_aggregate_gradients
import test_random_derivatives
import test_random_expressions
import test_random_magnitudes
import torch
from aggregate_programs import Program, draw_program, is_refused

Comparison = Callable[[Sequence[int], torch.device], None]  # of the programs of these seeds, in one module


def of_aggregates(compare: Callable[[list[Program], str, torch.device], None]) -> Comparison:
    return lambda seeds, device: compare([draw_program(seed, f"f{seed}") for seed in seeds], _name(seeds), device)


def _name(seeds: Sequence[int]) -> str:
    return f"programs_{seeds[0]}_{len(seeds)}"


@dataclass(frozen=True)
class Kind:
    compare: Comparison
    at_once: int  # in one module, for a CPU; NVRTC takes longer for one of several than for several of one


KINDS = {
    "aggregates": Kind(of_aggregates(test_aggregate_gradients.compare), 8),
    "derivatives": Kind(  # forward mode and second derivatives
        of_aggregates(lambda programs, _, device: test_random_derivatives.compare(programs[0], device)), 1
    ),
    "expressions": Kind(test_random_expressions.compare, 16),
    "magnitudes": Kind(test_random_magnitudes.compare, 16),
}


def outcomes(kind: str, seeds: Sequence[int], device: torch.device) -> list[tuple[int, str, str]]:
    """Of each seed: right, refused, wrong or "does not compile", and the text.

    Where a module of several programs has no numbers, or wrong ones, halves of it are tried, until single programs are
    known.
    """
    try:
        KINDS[kind].compare(seeds, device)
        return [(seed, "right", "") for seed in seeds]
    except AssertionError as error:
        result, text = "wrong", str(error)
    except RuntimeError as error:
        result, text = "refused" if is_refused(error) else "does not compile", str(error)
    if len(seeds) == 1:
        return [(seeds[0], result, text)]
    half = len(seeds) // 2
    return outcomes(kind, seeds[:half], device) + outcomes(kind, seeds[half:], device)


def modules(kind: str, seed: int, count: int, device: str) -> list[range]:
    """The seeds of `count` programs from `seed` on, those of one module together."""
    size = KINDS[kind].at_once if torch.device(device).type == "cpu" else 1
    return [range(first, min(first + size, seed + count)) for first in range(seed, seed + count, size)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(10**7), help="of the first program")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    os.environ["TORCH_SLANG_CXXFLAGS"] = "-O0 -Dalways_inline=unused"
    counts: Counter[str] = Counter()
    for seeds in modules(options.kind, options.seed, options.count, options.device):
        for seed, result, text in outcomes(options.kind, seeds, torch.device(options.device)):
            counts[result] += 1
            if text:
                print(f"{seed}: {result}: {text}\n", flush=True)
    print(f"{options.kind} {options.seed} to {options.seed + options.count - 1} on {options.device}: {dict(counts)}")


if __name__ == "__main__":
    main()
