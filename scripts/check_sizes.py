"""Checks that csrc's functions and files stay small: 60 lines a function, 450 a file.

    python scripts/check_sizes.py [csrc]

Reads clang-format's output: a function ends with a `}` that stands as far to the right as its first line. Exit status 1
if something is too long, with a line for each.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

MOST_LINES_OF_FUNCTION = 60
MOST_LINES_OF_FILE = 450


def code_lines(text: str) -> Iterator[tuple[int, str]]:
    """Line numbers and lines, without preprocessor lines and the insides of raw strings."""
    ending = ""
    for number, line in enumerate(text.splitlines(), 1):
        if ending:
            if ending in line:
                ending = ""
            continue
        if not line.startswith("#"):
            yield number, line
        start = line.rfind('R"')
        if start >= 0 and "(" in line[start:]:
            delimiter = ")" + line[start + 2 : line.index("(", start)] + '"'
            ending = "" if delimiter in line[start:] else delimiter


def functions(text: str) -> Iterator[tuple[int, int]]:
    """First and last line of each function, and of other blocks that end with a `}` alone."""
    lines = [(number, line, len(line) - len(line.lstrip())) for number, line in code_lines(text) if line.strip()]
    for i, (last, line, indent) in enumerate(lines):
        if line.strip() == "}":
            begin = next((j for j in range(i - 1, -1, -1) if lines[j][2] <= indent), i)
            yield lines[begin][0], last


def too_long(root: Path) -> Iterator[str]:
    for file in sorted([*root.rglob("*.h"), *root.rglob("*.cpp")]):
        name = file.relative_to(root).as_posix()
        text = file.read_text()
        if (count := len(text.splitlines())) > MOST_LINES_OF_FILE:
            yield f"{name} has {count} lines, more than {MOST_LINES_OF_FILE}"
        for first, last in functions(text):
            if (count := last - first + 1) > MOST_LINES_OF_FUNCTION:
                yield f"{name}:{first}: {count} lines to {last}, more than {MOST_LINES_OF_FUNCTION}"


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "csrc"
    problems = list(too_long(root))
    print("\n".join(problems) or "no function or file is too long")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
