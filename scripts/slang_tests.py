"""Runs Slang's own tests of derivatives through torch_slang and compares with the numbers that they expect.

    python scripts/slang_tests.py FOLDER [--device cpu|cuda] [--only PATTERN] [--jobs N] [--functions] [--no-nvrtc]
        [--limit SECONDS] [--json FILE] [--other FILE] [--write]

FOLDER is tests/autodiff of shader-slang/slang, of tag v2026.16: `git archive v2026.16 tests/autodiff | tar -x`.

Each compute test's entry becomes a kernel: the text is rewritten so that the buffers of its `//TEST_INPUT` lines are
TensorViews, which the entry gets as parameters, and its thread comes from CUDA's indices. What it writes is compared
with `X.slang.expected.txt` or with the numbers of its `CHECK` lines, and what a test of Slang's interpreter prints with
those. Kernels of tests of the target torch are called from PyTorch (slang_torch_kernels.py). Of a test of emitted text
its entry, kernels and functions must compile and run; of a test that expects an error, there must be one. Without a GPU
NVRTC compiles it for sm_90 as well.

--functions: also differentiates each `[Differentiable]` function of numbers and vectors, in a copy of the text in which
float is double, and compares with central differences in float64.

Of each file: right; refused (an error that names what it is about); wrong; not applicable (and why). It ends with 1 if
any is wrong. Each file runs in a process of its own, since a wrong program may end it, and has --limit seconds. --json
keeps results after each file, and begins with those that it has. --write puts the table into docs/derivatives.md, with
the counts of another device beside it, of which --other is the file that --json has written there.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from threading import Lock
from typing import Any

from marked_tables import write_table
from slang_test_runs import ELSEWHERE, OWN, REFUSED, RIGHT, WRONG, Result, run_file
from slang_test_texts import Claim

Results = dict[str, Result]  # by file


def in_own_process(path: Path, options: argparse.Namespace) -> Result:
    context = get_context("forkserver")
    context.set_forkserver_preload(["torch_slang"])
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sending, path, options))
    process.start()
    sending.close()
    found = None
    try:
        if receiving.poll(options.limit):
            found = receiving.recv()
        else:
            process.kill()
    except EOFError:
        pass
    process.join(10)
    if process.is_alive():  # it has sent its result, and waits for something
        process.kill()
        process.join()
    if found is not None:
        return found
    ending = process.exitcode or 0
    said = signal.Signals(-ending).name if ending < 0 else f"exit {ending}"
    why = f"no end after {options.limit} s" if ending == -signal.SIGKILL else f"the process ended: {said}"
    return Result(name_of(path, options), WRONG, why)


def _send(sending: Any, path: Path, options: argparse.Namespace) -> None:
    sending.send(run_file(path, options.folder, options.device, options.functions, not options.no_nvrtc))


def name_of(path: Path, options: argparse.Namespace) -> str:
    return str(path.relative_to(options.folder))


def read(path: Path | None) -> Results:
    return {name: Result(**one) for name, one in json.loads(path.read_text()).items()} if path else {}


def write(results: Results, path: Path) -> None:
    unfinished = path.with_name(path.name + ".new")
    unfinished.write_text(json.dumps({name: vars(one) for name, one in sorted(results.items())}, indent=1))
    unfinished.replace(path)


def run(paths: list[Path], options: argparse.Namespace) -> Results:
    kept = read(options.json if options.json and options.json.exists() else None)
    lock = Lock()

    def one(path: Path) -> tuple[str, Result]:
        name = name_of(path, options)
        if name not in kept:
            start = time.monotonic()
            found = in_own_process(path, options)
            with lock:
                kept[name] = found
                if options.json:
                    write(kept, options.json)
            print(f"{name}: {found.outcome}: {found.why} ({time.monotonic() - start:.0f} s)", flush=True)
        return name, kept[name]

    with ThreadPoolExecutor(options.jobs) as pool:
        return dict(pool.map(one, paths))


# --- The table


def wrong_functions(results: Results) -> list[str]:
    return [
        f"{name}: {function}: {said}"
        for name, one in results.items()
        for function, said in one.functions.items()
        if said not in {"right", OWN} and not said.startswith("refused")
    ]


def counts(results: Results) -> dict[str, str]:
    of = Counter((one.outcome, one.why if one.outcome == RIGHT else "") for one in results.values())
    found = {f"right: {claim.value}": str(of[RIGHT, claim.value]) for claim in Claim}
    found |= {outcome: str(of[outcome, ""]) for outcome in (WRONG, REFUSED, ELSEWHERE)}
    compiled = Counter(one.nvrtc == "compiles" for one in results.values() if one.nvrtc)
    said = [said for one in results.values() for said in one.functions.values()]
    found["compiled by NVRTC for sm_90"] = f"{compiled[True]} of {compiled.total()}" if compiled else ""
    refused = sum(one.startswith("refused") for one in said)
    found["their functions, against central differences"] = (
        f"{said.count('right')} right, {len(wrong_functions(results))} wrong, {refused} refused, {said.count(OWN)} of "
        "another derivative that the source has written"
        if said
        else ""
    )
    return found


def table(of_devices: dict[str, Results]) -> Iterator[str]:
    results = next(iter(of_devices.values()))
    yield f"{len(results)} files."
    yield ""
    yield f"| outcome | {' | '.join(of_devices)} |"
    yield f"|---|{'---|' * len(of_devices)}"
    columns = [counts(one) for one in of_devices.values()]
    yield from (f"| {row} | {' | '.join(column[row] for column in columns)} |" for row in columns[0])
    for outcome in (WRONG, REFUSED, ELSEWHERE):
        yield from reasons(outcome, told(of_devices, outcome))
    said = [(one, name) for name, result in results.items() for one in result.functions.values()]
    yield from reasons("function refused", ((one[9:], name) for one, name in said if one.startswith("refused")))


def told(of_devices: dict[str, Results], outcome: str) -> Iterator[tuple[str, str]]:
    """Why a file has the outcome; of another device where that differs."""
    (first, results), *others = of_devices.items()
    yield from ((one.why, name) for name, one in results.items() if one.outcome == outcome)
    for device, found in others:
        for name, one in found.items():
            if one.outcome == outcome and (name not in results or results[name].outcome != outcome):
                yield f"on {device}, not on {first}: {one.why}", name


def reasons(title: str, all_told: Iterable[tuple[str, str]]) -> Iterator[str]:
    files: dict[str, list[str]] = {}
    for why, name in all_told:
        files.setdefault(cell(why), []).append(name.removesuffix(".slang"))
    if files:
        yield from ("", f"| {title}: why | files |", "|---|---|")
    for why, names in sorted(files.items(), key=lambda item: -len(item[1])):
        yield f"| {why} | {len(names)}: {', '.join(names[:6])}{', ...' * (len(names) > 6)} |"


def cell(text: str) -> str:
    return text.replace("|", "\\|")[:300]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", default="", help="a regular expression of files' names")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--functions", action="store_true")
    parser.add_argument("--no-nvrtc", action="store_true")
    parser.add_argument("--limit", type=float, default=300, help="seconds of one file")
    parser.add_argument("--json", type=Path, help="the results; those that it has already are kept")
    parser.add_argument("--other", type=Path, help="results of another device, for the table")
    parser.add_argument("--write", action="store_true", help="the table into docs/derivatives.md")
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    options.no_nvrtc |= options.device == "cuda"
    paths = [p for p in sorted(options.folder.rglob("*.slang")) if re.search(options.only, name_of(p, options))]
    results = run(paths, options)
    of_devices = {options.device: results}
    if options.other:
        of_devices["cpu" if options.device == "cuda" else "cuda"] = read(options.other)
    lines = list(table(of_devices))
    print("\n".join([*lines, *wrong_functions(results)]))
    if options.write:
        write_table("slang_tests", lines)
    return 1 if wrong_functions(results) or any(one.outcome == WRONG for one in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
