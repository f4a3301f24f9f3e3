"""The table of operations, operand types, positions and bindings: what is wrong or refused of each case.

`python tests/random_programs/language_table.py --operation "operator *" --count 100` tries a part of it.
"""

from __future__ import annotations

import argparse
import os
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from language_cases import Case
from language_operations import cases
from language_positions import INLINE, POSITIONS
from language_programs import BINDINGS, KINDS, Named, Placed

TOLERANCES = {"half": 3e-2, "float": 3e-5, "double": 1e-7}  # some of Slang's constants are floats
AT_ONCE = {"functions": 20, "rows": 8, "whole tensors": 8, "views": 8, "values": 8, "wide values": 8, "epilogues": 4}


@dataclass
class Outcome:
    placed: Placed
    binding: str
    wrong: dict[str, str] = field(default_factory=dict)  # by kind of numbers
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def lines(self) -> list[str]:
        what = f"{self.placed.name}, of {self.binding}"
        wrong = [f"WRONG {kind} | {what} | {text}" for kind, text in self.wrong.items()]
        return wrong + [
            f"REFUSED {kind} | {what} | {' ~ '.join(text.splitlines())}" for kind, text in self.refused.items()
        ]


def placed_cases(binding: str) -> list[Placed]:
    """Every case at every position, in the program itself too."""
    return [Placed(case, position) for case in cases() for position in (INLINE, *POSITIONS) if position.fits(case)]


def pairs(binding: str, seed: object) -> list[Placed]:
    """Every case once, and every operation once at every position; what is free is drawn."""
    rng = random.Random(f"{seed} {binding}")
    every = defaultdict(list)
    for placed in placed_cases(binding):
        every["case", placed.case].append(placed)
        every["position", placed.case.operation.name, placed.position.name].append(placed)
    kept = every.values() if binding == "functions" else rng.sample(list(every.values()), len(every) // 10)
    chosen = list(dict.fromkeys(rng.choice(several) for several in kept))
    return rng.sample(chosen, len(chosen))


def groups(several: Sequence[Placed], binding: str) -> list[list[Placed]]:
    """Of one domain each, and small enough for one program."""
    by_domain = defaultdict(list)
    for placed in several:
        by_domain[placed.case.operation.domain].append(placed)
    size = AT_ONCE[binding]
    return [some[i : i + size] for some in by_domain.values() for i in range(0, len(some), size)]


def tolerance(case: Case) -> float:
    return max(TOLERANCES[t.element] for t in (*case.operands, case.result) if t.differentiable)


def difference(case: Case, kind: str, actual: Named, wanted: Named) -> str | None:
    scale = max([1.0, *(float(value.abs().max()) for value in wanted.values())])
    limit = tolerance(case) * (4 if kind == "second" else 1)
    for name, other in wanted.items():
        one = actual[name].double()
        if not torch.allclose(one, other, rtol=limit, atol=limit * scale):
            return f"by {name}: {one.flatten().tolist()[:4]} instead of {other.flatten().tolist()[:4]}"
    return None


def outcomes(
    group: Sequence[Placed], binding: str, device: torch.device, kinds: Sequence[str] = KINDS
) -> list[Outcome]:
    """Where a program as a whole is refused, halves of it are tried, until single cases are known."""
    results = [Outcome(placed, binding) for placed in group]
    _try(results, binding, device, [kind for kind in kinds if kind in BINDINGS[binding].kinds])
    return results


def _try(results: list[Outcome], binding: str, device: torch.device, kinds: Sequence[str]) -> None:
    refused: dict[str, str] = {}
    try:
        program = BINDINGS[binding]([outcome.placed for outcome in results], device)
    except RuntimeError as error:
        refused = dict.fromkeys(kinds, str(error))
    for kind in kinds if not refused else ():
        try:
            actual = program.numbers(kind)
        except RuntimeError as error:
            refused[kind] = str(error)
            continue
        for k, outcome in enumerate(results):
            problem = difference(outcome.placed.case, kind, actual[k], program.expected(k, kind))
            if problem:
                outcome.wrong[kind] = problem
    if len(results) == 1:
        results[0].refused.update(refused)
    elif refused:
        middle = len(results) // 2
        _try(results[:middle], binding, device, list(refused))
        _try(results[middle:], binding, device, list(refused))


def sample(binding: str, count: int, seed: object) -> list[Placed]:
    return random.Random(f"{seed} {binding}").sample(placed_cases(binding), count)


def compiler_flags(binding: str) -> str:
    """The quickest to compile. How a kernel uses its views is read from optimised code alone."""
    return "-O0 -Dalways_inline=unused" if binding in ("functions", "rows") else "-O1"


def main() -> None:
    """Tries a part of the table, and prints what is wrong or refused, and counts."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--binding", choices=BINDINGS, default="functions")
    parser.add_argument("--count", type=int, help="so many cases, drawn by the seed; otherwise all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--operation", default="", help="a part of the name of operations, with their operands' types")
    parser.add_argument("--position", default="", help="a part of the name of positions")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    os.environ["TORCH_SLANG_CXXFLAGS"] = compiler_flags(options.binding)
    several = [
        placed
        for placed in placed_cases(options.binding)
        if options.operation in placed.case.name and options.position in placed.position.name
    ]
    several = random.Random(options.seed).sample(several, min(options.count or len(several), len(several)))
    counts: Counter[str] = Counter()
    for group in groups(several, options.binding):
        for outcome in outcomes(group, options.binding, torch.device(options.device), options.kinds.split(",")):
            counts["wrong" if outcome.wrong else "refused" if outcome.refused else "right"] += 1
            print(*outcome.lines, sep="\n", end="\n" * bool(outcome.lines), flush=True)
        print(f"seed {options.seed}: {dict(counts)}", flush=True)


if __name__ == "__main__":
    main()
