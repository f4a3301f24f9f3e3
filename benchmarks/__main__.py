"""``python -m benchmarks [name...]``: all benchmarks, or those named; docs/benchmarks.md says what they mean.

Values are checked before anything is timed: what is wrong is reported, left out, and makes the exit status 1.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import benchmarks
from benchmarks import report
from benchmarks.plots import write_plots
from benchmarks.report import as_data, markdown, problem, replace_generated, write_json

DOCUMENT = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"which of {', '.join(benchmarks.ALL)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="small sizes: checks the harness, not the speed")
    parser.add_argument("--output", type=Path, metavar="DIR", help="write results.json, results.md and plots there")
    parser.add_argument(
        "--markdown",
        nargs="+",
        type=Path,
        metavar="RESULTS.json",
        help="run nothing: put the results of earlier runs into the document, and plots beside the files",
    )
    parser.add_argument("--document", type=Path, default=DOCUMENT, help="the document (default: docs/benchmarks.md)")
    arguments = parser.parse_args(given)
    if unknown := [name for name in arguments.names if name not in benchmarks.ALL]:
        parser.error(f"no benchmark is called {unknown[0]}; there are {', '.join(benchmarks.ALL)}")
    if arguments.markdown:
        return document(arguments.markdown, arguments.document)
    return run(arguments.names or list(benchmarks.ALL), arguments.quick, arguments.output)


def document(files: list[Path], target: Path) -> int:
    results: list[dict[str, Any]] = [json.loads(file.read_text()) for file in files]
    target.write_text(replace_generated(target.read_text(), results))
    for file, data in zip(files, results, strict=True):
        write_plots(data, file.parent)
    return 0


def run(names: list[str], quick: bool, output: Path | None) -> int:
    from benchmarks.machine import description

    current = report.RUN
    current.quick = quick
    current.machine = description()
    print(", ".join(f"{name} {value}" for name, value in current.machine.items()), flush=True)
    for name in names:
        begin = time.perf_counter()
        current.benchmark = name
        try:
            module, function = benchmarks.ALL[name].split(".")
            current.module = module
            getattr(importlib.import_module(f"benchmarks.{module}"), function)(quick)
        except Exception as reason:  # the other benchmarks still count
            traceback.print_exc()
            problem(f"{type(reason).__name__}: {str(reason).strip()[:500]}")
        current.seconds[name] = time.perf_counter() - begin
        print(f"  [{name} took {current.seconds[name]:.1f} s]", flush=True)
        if output:  # after each, so that a run that is cut short leaves what it has
            write_json(current, output / "results.json")
            (output / "results.md").write_text(markdown(as_data(current)))
    if output:
        write_plots(as_data(current), output)
    for text in current.problems:
        print(f"PROBLEM in {text}")
    return 1 if current.problems else 0


if __name__ == "__main__":
    sys.exit(main())
