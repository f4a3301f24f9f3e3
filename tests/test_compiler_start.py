"""How torch-slangc is started."""

from pathlib import Path

import pytest

import torch_slang

HUGE_PAGES = "glibc.malloc.hugetlb"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (None, f"{HUGE_PAGES}=1"),
        ("glibc.malloc.arena_max=2", f"glibc.malloc.arena_max=2:{HUGE_PAGES}=1"),
        (f"{HUGE_PAGES}=0", f"{HUGE_PAGES}=0"),
    ],
)
def test_it_asks_for_huge_pages_unless_the_user_has_said_something_of_them(
    given: str | None, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted, compiler = tmp_path / "noted", tmp_path / "torch-slangc"
    compiler.write_text(f'#!/bin/sh\necho "$GLIBC_TUNABLES" > {noted}\nexit 3\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("TORCH_SLANG_COMPILER", str(compiler))
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    if given is not None:
        monkeypatch.setenv("GLIBC_TUNABLES", given)
    with pytest.raises(torch_slang.CompileError):
        torch_slang.load(source="[TorchOp] float twice(float x) { return x + x; }", name=f"twice of {told}")
    assert noted.read_text().strip() == told
