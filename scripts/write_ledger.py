"""Writes the table of Slang's errors into docs/derivatives.md, from the programs in tests/slang_bugs.

    python scripts/write_ledger.py [--check]

`--check` writes nothing; exit status 1 if the table is not that of the programs.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs/derivatives.md"
FOLDER = ROOT / "tests/slang_bugs"
BEGIN, END = "<!-- ledger -->\n", "<!-- end of ledger -->\n"


def programs() -> list[Path]:
    return sorted(FOLDER.glob("*.slang"))


def read_program(path: Path) -> tuple[str, dict[str, str]]:
    """What is wrong, and the facts by their keys, of the comment that a program begins with: helpers/slang_bugs.py."""
    comment = itertools.takewhile(lambda line: line.startswith("// "), path.read_text().splitlines())
    what, *facts = [line.removeprefix("// ") for line in comment]
    return what, dict(fact.split(": ", 1) for fact in facts)


def row_of(path: Path) -> str:
    what, facts = read_program(path)
    issues = facts.get("issues", "")
    how = "refused" if "refusal" in facts else "mended"
    return f"| {what.removesuffix('.')} | {issues} | {facts['seen']} | {how}: {facts['repair']} | {path.name} |\n"


def table() -> str:
    rows = [row_of(path) for path in programs()]
    head = "| error | Slang's issues | seen in | here | program |\n|---|---|---|---|---|\n"
    return head + "".join(rows)


def main() -> int:
    docs = DOCS.read_text()
    before, _, rest = docs.partition(BEGIN)
    _, _, behind = rest.partition(END)
    written = before + BEGIN + table() + END + behind
    if "--check" in sys.argv:
        return int(written != docs)
    DOCS.write_text(written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
