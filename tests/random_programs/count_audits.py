#!/usr/bin/env python3
"""How many errors, planted in the emitted backwards of random programs, audits find; and how many alarms are false.

    python tests/random_programs/count_audits.py --count 200 --seed 0 --jobs 2 --json x.json

Each program (aggregate_programs.py) is loaded as it is, which must raise no alarm, and again by a compiler that changes
one statement of the backward's text: an assignment for an addition, a dropped assignment, another index or component,
another sign. What changes the gradient at random points is to be found. With --unchanged programs are loaded as they
are, and no more. Programs are shared out to processes.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "helpers"))

AT_ONCE = 10  # programs of a process
SECONDS = 60  # that a program may take
SEED = "TORCH_SLANG_PLANTED"  # of what this file changes when it runs as a compiler
Result = tuple[int, str, str]  # the seed; what became of the program; the change and the audit's words

# What a change makes of a statement: of a sum its first part, an index 0 for 1, a minus for a plus.
CHANGES = {
    "an assignment for an addition": (re.compile(r"^(\s*[^=;]+ = [^=;+]+) \+ [^;]*;$"), r"\1;"),
    "a dropped assignment": (re.compile(r"^\s*(?!\w+\s+[_\w]+ =)[(*&]*[\w(][^=;]* = [^;]*;$"), ";"),
    "another index": (re.compile(r"^(.*)\[int\(0\)\](.*);$"), r"\1[int(1)]\2;"),
    "another sign": (re.compile(r"^(\s*[^=;]+ = [^=;]*[\w)]) \+ ([^;]*;)$"), r"\1 - \2"),
    "another component": (re.compile(r"^(.*)\.x\b(.*);$"), r"\1.y\2;"),
}


def changed(body: str, seed: int) -> tuple[str, str]:
    """The text with one statement of a backward function changed, and the change; the same text if there is none."""
    rng = random.Random(seed)
    lines = body.split("\n")
    found, is_backward = [], False
    for n, line in enumerate(lines):
        if re.match(r"^\S.*\)$", line):
            is_backward = "s_bwdProp_" in line or "_backward_" in line
        if is_backward:
            found += [(name, n) for name, (form, _) in CHANGES.items() if form.match(line)]
    if not found:
        return body, ""
    name = rng.choice(sorted({name for name, _ in found}))
    n = rng.choice([n for other, n in found if other == name])
    form, replacement = CHANGES[name]
    before, lines[n] = lines[n], form.sub(replacement, lines[n])
    return "\n".join(lines), f"{name}: {before.strip()} -> {lines[n].strip()}"


def be_a_compiler() -> int:
    """torch-slangc, whose backwards have one change where SEED says so. What it said of a request is kept in a file."""
    request = sys.stdin.buffer.read()
    cache = Path(os.environ["TORCH_SLANG_CACHE_DIR"])
    said = cache.parent / f"said.{hashlib.sha256(request).hexdigest()}"
    if not said.exists():
        real = Path(__file__).parents[2] / "torch_slang" / "bin" / "torch-slangc"
        run = subprocess.run([real, *sys.argv[1:]], input=request, stdout=subprocess.PIPE, check=False)
        if run.returncode:
            return run.returncode
        said.write_bytes(run.stdout)
    for line in said.read_text().splitlines():
        program = json.loads(line)
        for text in program.get("texts", []):
            if SEED in os.environ and text.get("direction") == "backward":
                text["body"], change = changed(text["body"], int(os.environ[SEED]))
                if change:
                    Path(cache, "planted").write_text(change)
        print(json.dumps(program))
    return 0


def verdict(name: str) -> Any:
    import torch_slang

    return next((one for one in torch_slang.audit.report() if one.name == name), None)


def outcome(seed: int, plants: bool) -> Result:
    """Of a process whose TORCH_SLANG_CACHE_DIR is a new folder's "right"."""
    import torch
    from aggregate_programs import draw_program, is_refused, module_text

    import torch_slang

    program = draw_program(seed, f"f{seed}")
    generator = torch.Generator().manual_seed(seed)
    numbers = 2 * torch.rand(64, program.scalars, generator=generator, dtype=torch.float64) - 1
    integers = torch.randint(0, 6, (64, 2), generator=generator, dtype=torch.int32)

    def gradients(namespace: str) -> torch.Tensor:
        module = torch_slang.load(source=module_text([program]), name=f"p{seed}", namespace=namespace)
        given = numbers.clone().requires_grad_()
        which = torch.zeros(64, dtype=torch.int32)
        values = module.run(which, given, integers[:, 0].contiguous(), integers[:, 1].contiguous())
        return torch.autograd.grad(values.sum(), given)[0]

    torch_slang.audit.mode("first")
    try:
        right = gradients(f"right{seed}")
    except RuntimeError as error:
        is_alarm = "torch_slang.audit.accept" in str(error)
        return seed, "false alarm" if is_alarm else "refused" if is_refused(error) else "error", str(error)[:600]
    first = verdict(f"right{seed}::run")
    if first is None or first.outcome != "agrees":
        return seed, f"not planted: {first and first.outcome}", first.text if first else ""
    if not plants:
        return seed, "agrees", ""
    with with_planted_error(seed) as planted:
        torch_slang.audit.mode("off")
        try:
            wrong = gradients(f"planted{seed}")
        except RuntimeError as error:
            return seed, "does not compile", str(error)[:300]
        if not planted.exists():
            return seed, "nothing to change", ""
        change = planted.read_text()
        rows = int(((wrong - right).abs() > 1e-6 * (1 + right.abs())).any(1).sum())
        torch_slang.audit.mode("first")
        try:
            gradients(f"planted{seed}")
            second = verdict(f"planted{seed}::run")
            said, is_found = (second.text if second else "none"), False
        except RuntimeError as error:
            said, is_found = str(error), "torch_slang.audit.accept" in str(error)
    kind = "changes nothing" if rows == 0 else "changes the gradient"
    return seed, f"{kind}, {'found' if is_found else 'not found'}", f"{rows} rows; {change} | {said[:300]}"


@contextmanager
def with_planted_error(seed: int) -> Iterator[Path]:
    """The file that says which; the programs' cache is empty, and objects of the same text are not compiled again."""
    right = Path(os.environ["TORCH_SLANG_CACHE_DIR"])
    folder = right.parent / f"planted{seed}"
    folder.mkdir()
    (folder / "object").symlink_to(right / "object")
    os.environ |= {SEED: str(seed), "TORCH_SLANG_CACHE_DIR": str(folder)}
    try:
        yield folder / "planted"
    finally:
        os.environ["TORCH_SLANG_CACHE_DIR"] = str(right)
        del os.environ[SEED]


def run_some(seeds: list[int], end: float, processor: int, plants: bool) -> list[Result]:
    """In a process on one processor, as its compilers are; where it ends at a program, the rest go to another."""
    from language_table import compiler_flags

    results: list[Result] = []
    while len(results) < len(seeds) and time.monotonic() < end:
        with tempfile.TemporaryDirectory() as folder:
            variables = {"TORCH_SLANG_CACHE_DIR": f"{folder}/right", "OMP_NUM_THREADS": "1"}
            variables |= {"TORCH_SLANG_CXXFLAGS": compiler_flags("functions"), "TORCH_SLANG_COMPILER": __file__}
            command = ["taskset", "-c", str(processor), sys.executable, __file__]
            command += ["--some", *map(str, seeds[len(results) :]), "--seconds", str(end - time.monotonic())]
            command += [] if plants else ["--unchanged"]
            run = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)
        results += [tuple(json.loads(line)) for line in run.stdout.splitlines() if line.startswith("[")]
        if run.returncode == -signal.SIGALRM:  # a loop whose counter is not changed, for one
            results.append((seeds[len(results)], "does not end", ""))
        elif run.returncode:
            results.append((seeds[len(results)], "error", run.stderr[-400:]))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=1e9, help="no program begins after so many")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--unchanged", action="store_true", help="plants no errors")
    parser.add_argument("--some", type=int, nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    if options.some:
        for seed in options.some:
            if time.monotonic() < end:
                signal.alarm(SECONDS)
                print(json.dumps(outcome(seed, not options.unchanged)), flush=True)
        return
    processors: SimpleQueue[int] = SimpleQueue()
    for processor in itertools.islice(itertools.cycle(sorted(os.sched_getaffinity(0))), options.jobs):
        processors.put(processor)

    def run(part: list[int]) -> list[Result]:
        processor = processors.get()
        try:
            return run_some(part, end, processor, not options.unchanged)
        finally:
            processors.put(processor)

    with ThreadPoolExecutor(options.jobs) as pool:
        seeds = range(options.seed, options.seed + options.count)
        parts = [list(seeds[k : k + AT_ONCE]) for k in range(0, len(seeds), AT_ONCE)]
        results = [one for some in pool.map(run, parts) for one in some]
    for kind, count in Counter(result for _, result, _ in results).most_common():
        print(f"{count} {kind}")
    for seed, result, text in results:
        if result in ("false alarm", "changes the gradient, not found", "error"):
            print(f"{seed}: {result}: {text}")
    if options.json:
        options.json.write_text(json.dumps(results))


if __name__ == "__main__":
    if any(argument.startswith("--serve") for argument in sys.argv):
        sys.exit(be_a_compiler())
    main()
