"""Tables of docs/derivatives.md that scripts write, between a comment `<!-- NAME -->` and `<!-- end of NAME -->`."""

from __future__ import annotations

from pathlib import Path

_PAGE = Path(__file__).parents[1] / "docs" / "derivatives.md"


def _parts(name: str) -> tuple[str, str, str]:
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, rest = _PAGE.read_text().split(begin)
    table, after = rest.split(end)
    return before + begin, table, end + after


def read_table(name: str) -> list[str]:
    return _parts(name)[1].splitlines()


def write_table(name: str, lines: list[str]) -> None:
    before, _, after = _parts(name)
    _PAGE.write_text(before + "".join(f"{line}\n" for line in lines) + after)
