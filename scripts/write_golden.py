"""Writes tests/golden anew: what Slang emits for the sources there, and how often each pass of compiler/emit applied.

    python scripts/write_golden.py          # once values and gradients are right with what a new Slang writes

test_golden.py compares. A golden file has a line for each entry point with the counts of the passes that applied,
behind which stands Slang's text as it was before them. Where a Slang other than the first that was tested has another
text, that has a file of its own, NAME.VERSION.emitted. (Lines of Slang's own files, which move, are left out.)
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "tests" / "golden"
LINE = re.compile(r'#line \d+(?: "(.*)")?$')


def sources() -> list[Path]:
    return sorted(FOLDER.glob("*.slang"))


def first_tested_slang() -> str:
    header = (ROOT / "csrc/compiler/slang/library.h").read_text()
    return header.partition('kTestedSlang[] = {"')[2].partition('"')[0]


def golden_file(source: Path) -> Path:
    """Of the first Slang that was tested."""
    return source.with_suffix(".emitted")


def golden_file_of(source: Path, version: str) -> Path:
    own = source.with_suffix(f".{version}.emitted")
    return own if own.exists() else golden_file(source)


def emitted(source: Path) -> tuple[str, str]:
    """Slang's version, and what it gives torch-slangc of this source, without the folders of files."""
    import torch_slang

    compiler = os.environ.get("TORCH_SLANG_COMPILER", Path(torch_slang.__file__).parent / "bin" / "torch-slangc")
    command = [str(compiler), "--emitted", str(source)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{source.name} does not compile:\n{result.stderr}")
    first, *lines = result.stdout.replace(f"{source.parent}/", "").splitlines()
    kept = without_slangs_lines(line.rstrip() for line in lines if line.strip())
    return first.removeprefix("@slang "), "\n".join(kept) + "\n"


def without_slangs_lines(lines: Iterator[str]) -> Iterator[str]:
    """The lines of a text; `#line`s that say a line of a file of Slang's say 0."""
    file = ""
    for line in lines:
        if line.startswith("@entry"):
            file = ""
        said = LINE.match(line)
        file = said[1] or file if said else file
        is_slangs = file.endswith(".meta.slang") or file == "core"
        yield re.sub(r"\d+", "0", line, count=1) if said and is_slangs else line


def passes(text: str) -> dict[str, dict[str, int]]:
    """The counts in a golden file, by entry point."""
    found: dict[str, dict[str, int]] = {}
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "@entry":
            entry = rest
        elif word == "@passes":
            counts = (item.rpartition("=") for item in rest.split(";") if item.strip())
            found[entry] = {name.strip(): int(count) for name, _, count in counts}
    return found


def main() -> int:
    first = first_tested_slang()
    for source in sources():
        version, text = emitted(source)
        own = source.with_suffix(f".{version}.emitted")
        if version == first:
            golden_file(source).write_text(text)
        elif text != golden_file(source).read_text():
            own.write_text(text)
        else:
            own.unlink(missing_ok=True)
    print(f"wrote {len(sources())} files in {FOLDER}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
