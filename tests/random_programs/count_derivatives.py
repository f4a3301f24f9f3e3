"""Counts of the table of operations and of random programs: right, refused, wrong; with each refusal's text.

    python tests/random_programs/count_derivatives.py functions views aggregates --device cuda --jobs 15 --json x.json

A kind is a binding of the table (language_table.py: every operation with every combination of operand types, and at
every position) or a kind of random programs (random_programs.py). Cases go to processes in chunks; one that ends its
process is counted as a crash, and the rest of its chunk goes on.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from queue import Empty, SimpleQueue

sys.path.append(str(Path(__file__).parents[1] / "helpers"))

import torch
from language_programs import BINDINGS, Placed
from language_table import compiler_flags, groups, outcomes, pairs
from random_programs import KINDS, modules
from random_programs import outcomes as program_outcomes

Result = tuple[str, str, str]  # of a case: its name; right, refused, wrong or crash; the text
CHUNK = 8  # groups of the table
MODULES = 8  # of random programs, of a chunk


@cache
def table(kind: str, seed: int) -> list[list[Placed]]:
    return groups(pairs(kind, seed), kind)


def chunks(kind: str, seed: int, count: int, device: str) -> int:
    if kind in KINDS:
        return -(-len(modules(kind, seed, count, device)) // MODULES)
    return -(-len(table(kind, seed)) // CHUNK)


def units(kind: str, seed: int, count: int, chunk: int, device: str) -> list[list[str]]:
    """The names of the cases of each part of a chunk."""
    if kind in KINDS:
        some_modules = modules(kind, seed, count, device)[chunk * MODULES : (chunk + 1) * MODULES]
        return [[str(number) for number in module] for module in some_modules]
    some = table(kind, seed)[chunk * CHUNK : (chunk + 1) * CHUNK]
    return [[placed.name for placed in group] for group in some]


def results(kind: str, seed: int, count: int, chunk: int, begin: int, device: torch.device) -> Iterator[list[Result]]:
    """Of the parts of a chunk from `begin` on."""
    if kind in KINDS:
        for names in units(kind, seed, count, chunk, device.type)[begin:]:
            found = program_outcomes(kind, [int(name) for name in names], device)
            yield [(str(number), result, text) for number, result, text in found]
        return
    for group in table(kind, seed)[chunk * CHUNK : (chunk + 1) * CHUNK][begin:]:
        yield [
            (one.placed.name, "wrong" if one.wrong else "refused" if one.refused else "right", "\n".join(one.lines))
            for one in outcomes(group, kind, device)
        ]


def work(kind: str, seed: int, count: int, device: torch.device) -> None:
    """A process of its own: reads "chunk begin" and prints each part's results as a line of JSON."""
    os.environ["TORCH_SLANG_CXXFLAGS"] = compiler_flags(kind if kind in BINDINGS else "functions")
    # Audits would take most of the time. count_audits.py counts what they find.
    os.environ["TORCH_SLANG_AUDIT"] = "off"
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what programs print
    for line in sys.stdin:
        chunk, begin = map(int, line.split())
        for part in results(kind, seed, count, chunk, begin, device):
            print(json.dumps(part), file=output, flush=True)
        print("done", file=output, flush=True)


class Counting:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.until = time.monotonic() + options.seconds
        self.queue: SimpleQueue[tuple[str, int]] = SimpleQueue()
        self.found: dict[str, list[Result]] = {kind: [] for kind in options.kinds}
        self.running: list[subprocess.Popen[str]] = []
        every = [self._chunks(kind) for kind in options.kinds]
        for chunk in itertools.chain.from_iterable(itertools.zip_longest(*every)):
            if chunk is not None:
                self.queue.put(chunk)

    def _chunks(self, kind: str) -> list[tuple[str, int]]:
        """Those with cases that --skip's file does not have."""
        options = self.options
        every = range(chunks(kind, options.seed, options.count, options.device))
        if not options.skip:
            return [(kind, chunk) for chunk in every]
        counted = {name for name, _, _ in json.loads(options.skip.read_text()).get(kind, [])}

        def is_counted(chunk: int) -> bool:
            parts = units(kind, options.seed, options.count, chunk, options.device)
            return counted.issuperset(itertools.chain.from_iterable(parts))

        return [(kind, chunk) for chunk in every if not is_counted(chunk)]

    def run(self) -> None:
        threads = [threading.Thread(target=self._serve, args=[k]) for k in range(self.options.jobs)]
        for thread in threads:
            thread.start()
        while time.monotonic() < self.until and any(thread.is_alive() for thread in threads):
            time.sleep(1)
            self.save()
        for worker in self.running:  # what they are at is not counted
            worker.kill()
        for thread in threads:
            thread.join()

    def save(self) -> None:
        """What is known so far: a count that is killed loses nothing."""
        options = self.options
        if options.json:
            part = options.json.with_suffix(".part")
            part.write_text(json.dumps({"seed": options.seed, "device": options.device, **self.found}))
            part.replace(options.json)

    def _serve(self, number: int) -> None:
        device = self.options.device
        if device == "cuda":  # each GPU has as many
            device = f"cuda:{number % torch.cuda.device_count()}"
        processors = sorted(os.sched_getaffinity(0))
        workers: dict[str, subprocess.Popen[str]] = {}
        while time.monotonic() < self.until:
            try:
                kind, chunk = self.queue.get_nowait()
            except Empty:
                break
            self._count(workers, processors[number % len(processors)], device, kind, chunk)

    def _count(
        self, workers: dict[str, subprocess.Popen[str]], processor: int, device: str, kind: str, chunk: int
    ) -> None:
        options = self.options
        names = units(kind, options.seed, options.count, chunk, options.device)
        begin = 0
        while begin < len(names) and time.monotonic() < self.until:
            if kind not in workers or workers[kind].poll() is not None:
                # On one processor, as its compilers are: otherwise each of them starts as many processes as there are.
                command = [
                    "taskset",
                    "-c",
                    str(processor),
                    sys.executable,
                    __file__,
                    kind,
                    "--work",
                    "--device",
                    device,
                ]
                command += ["--seed", str(options.seed), "--count", str(options.count)]
                workers[kind] = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
                )
                self.running.append(workers[kind])
            worker = workers[kind]
            assert worker.stdin is not None
            assert worker.stdout is not None
            print(chunk, begin, file=worker.stdin, flush=True)
            for line in worker.stdout:
                if line == "done\n":
                    return
                self.found[kind] += [tuple(one) for one in json.loads(line)]
                begin += 1
                if time.monotonic() > self.until:
                    return
            status = worker.wait()
            if time.monotonic() > self.until:
                return
            if begin < len(names):
                self.found[kind] += [(name, "crash", f"status {status}") for name in names[begin]]
                begin += 1


def reason(text: str) -> str:
    """A refusal without what is its own: names, numbers and lines."""
    lines = [line for line in re.split(r"\n| ~ ", text) if re.search(r"refused|error|aborted|ended by|E\d{5}", line)]
    lines = [line for line in lines if " is refused: " in line] or lines
    short = re.sub(r"^.*?\| ", "", lines[-1] if lines else text[-200:])
    return re.sub(r"\b[\w.:/]*\d[\w.:/]*\b|'[^']*'|`[^`]*`", "_", short)[:200]


def summary(kind: str, found: list[Result]) -> str:
    counts = Counter(result for _, result, _ in found)
    lines = [f"{kind}: {len(found)} cases: " + ", ".join(f"{n} {result}" for result, n in counts.most_common())]
    refusals = Counter(reason(text) for _, result, text in found if result == "refused")
    return "\n".join(lines + [f"    {n} x {text}" for text, n in refusals.most_common(8)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="+", choices=[*BINDINGS, *KINDS], metavar="KIND")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000, help="of random programs of each kind")
    parser.add_argument("--seconds", type=float, default=1e9, help="no chunk begins after so many")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--skip", type=Path, help="a former count's --json, whose chunks are not counted again")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.kinds[0], options.seed, options.count, torch.device(options.device))
        return
    counting = Counting(options)
    counting.run()
    for kind, found in counting.found.items():
        print(summary(kind, found), flush=True)
    counting.save()


if __name__ == "__main__":
    main()
