"""Writes tests/golden anew: what Slang emits for the sources there, and how often each pass of compiler/emit applied.

    python scripts/write_golden.py          # once values and gradients are right with what a new Slang writes

tests/test_golden.py compares. A golden file has a line for each entry point with the counts of the passes that applied,
behind which stands Slang's text as it was before them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "tests" / "golden"


def sources() -> list[Path]:
    return sorted(FOLDER.glob("*.slang"))


def golden_file(source: Path) -> Path:
    return source.with_suffix(".emitted")


def emitted(source: Path) -> str:
    """What torch-slangc is given of this source by Slang, without the folders of files."""
    import torch_slang

    compiler = Path(torch_slang.__file__).parent / "bin" / "torch-slangc"
    command = [str(compiler), "--emitted", str(source)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{source.name} does not compile:\n{result.stderr}")
    lines = result.stdout.replace(f"{source.parent}/", "").splitlines()
    return "\n".join(line.rstrip() for line in lines if line.strip()) + "\n"


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
    for source in sources():
        golden_file(source).write_text(emitted(source))
    print(f"wrote {len(sources())} files in {FOLDER}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
