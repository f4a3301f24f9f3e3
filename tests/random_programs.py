"""Counts random programs on a device: right, refused (with each text), wrong (with the difference). Each has its seed.

python tests/random_programs.py aggregates --count 1000 --seed 0 --device cuda
"""

from __future__ import annotations

import argparse
import os
import random
from collections import Counter
from collections.abc import Callable

import test_aggregate_gradients
import test_random_derivatives
import test_random_expressions
import test_random_magnitudes
import torch
from aggregate_programs import draw_program, is_refused


def gradients_of_aggregates(seed: int, device: torch.device) -> None:
    test_aggregate_gradients.compare([draw_program(seed, f"f{seed}")], f"gradients_{seed}", device)


def derivatives_of_aggregates(seed: int, device: torch.device) -> None:
    test_random_derivatives.compare(draw_program(seed, f"f{seed}"), device)


KINDS: dict[str, Callable[[int, torch.device], None]] = {
    "aggregates": gradients_of_aggregates,
    "derivatives": derivatives_of_aggregates,  # forward mode and second derivatives
    "expressions": lambda seed, device: test_random_expressions.compare(seed, 1, device),
    "magnitudes": test_random_magnitudes.compare,
}


def outcome(kind: str, seed: int, device: torch.device) -> tuple[str, str]:
    try:
        KINDS[kind](seed, device)
        return "right", ""
    except AssertionError as error:
        return "wrong", str(error)
    except RuntimeError as error:
        return "refused" if is_refused(error) else "does not compile", str(error)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(10**7), help="of the first program")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    os.environ["TORCH_SLANG_CXXFLAGS"] = "-O0 -Dalways_inline=unused"
    counts: Counter[str] = Counter()
    for seed in range(options.seed, options.seed + options.count):
        result, text = outcome(options.kind, seed, torch.device(options.device))
        counts[result] += 1
        if text:
            print(f"{seed}: {result}: {text}\n", flush=True)
    print(f"{options.kind} {options.seed} to {options.seed + options.count - 1} on {options.device}: {dict(counts)}")


if __name__ == "__main__":
    main()
