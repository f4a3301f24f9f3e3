"""Writes the table of Slang's errors into docs/derivatives.md, from the programs in tests/slang_bugs.

    python scripts/write_ledger.py [--check]

`--check` writes nothing; exit status 1 if the table is not that of the programs.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs/derivatives.md"
FOLDER = ROOT / "tests/slang_bugs"
BEGIN, END = "<!-- ledger -->\n", "<!-- end of ledger -->\n"


def facts_of(path: Path) -> dict[str, str]:
    """The first lines of a program: tests/slang_bugs.py says which there are."""
    lines = [line.removeprefix("// ") for line in path.read_text().splitlines() if line.startswith("// ")]
    return {"what": lines[0], **dict(line.split(": ", 1) for line in lines[1:] if ": " in line)}


def row_of(path: Path) -> str:
    facts = facts_of(path)
    issues = facts.get("issues", "")
    how = "refused" if "refusal" in facts else "mended"
    return (
        f"| {facts['what'].removesuffix('.')} | {issues} | {facts['seen']} | {how}: {facts['repair']} | {path.name} |\n"
    )


def table() -> str:
    rows = [row_of(path) for path in sorted(FOLDER.glob("*.slang"))]
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
