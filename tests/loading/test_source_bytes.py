"""Sources are UTF-8, and what is not is refused: Slang itself would lose what stands beside it."""

import re
from pathlib import Path

import pytest
import torch

import torch_slang

# What a comment swallows would change the result.
TEXT = b"""[Differentiable] float twice(float x)
{
    float y = x;  // COMMENT
    y = y * 2;
    return y;
}
"""
WRONG = {
    "latin_1": "größer".encode("latin-1"),
    "cut_short": "größe ≥".encode()[:-1],
    "overlong": b"\xc0\xaf",
    "overlong_3": b"\xe0\x80\xaf",
    "surrogate": b"\xed\xa0\x80",
    "too_large": b"\xf4\x90\x80\x80",
    "never_used": b"\xff",
    "alone": b"\x80",
    "zero": b"\x00",
}


def value(path: Path) -> float:
    module = torch_slang.load(path, namespace=f"bytes_{path.stem}")
    result: float = module.twice(torch.tensor(3.0)).item()
    return result


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_is_not_utf_8_is_refused_with_its_place(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.slang"
    path.write_bytes(TEXT.replace(b"COMMENT", WRONG[name]))
    place = TEXT[: TEXT.index(b"COMMENT")]
    right = {"latin_1": len("gr"), "cut_short": len("größe ")}.get(name, 0)
    line, column = place.count(b"\n") + 1, len(place.rsplit(b"\n", 1)[1]) + right + 1
    byte = "no text" if name == "zero" else "not UTF-8"
    with pytest.raises(torch_slang.CompileError, match=rf"{name}\.slang:{line}:{column}: byte 0x[0-9a-f]+ is {byte}"):
        value(path)


@pytest.mark.parametrize("form", ["import other;", '#include "other.slang"', '__include "other.slang";'])
def test_files_that_others_bring_along_are_looked_at_too(form: str, tmp_path: Path) -> None:
    part = "implementing main;\n" if form.startswith("__") else ""
    (tmp_path / "other.slang").write_bytes(part.encode() + b"float other() { return 1; } // \xe9\n")
    (tmp_path / "main.slang").write_text(("module main;\n" if part else "") + f"{form}\n{TEXT.decode()}")
    where = re.escape(f"other.slang:{2 if part else 1}:32: byte 0xe9 is not UTF-8")
    with pytest.raises(torch_slang.CompileError, match=where):
        value(tmp_path / "main.slang")


@pytest.mark.parametrize(("character", "code"), [("\udce9", "DCE9"), ("\0", "0000")])
def test_a_string_that_is_no_text_is_refused_with_its_place(character: str, code: str) -> None:
    with pytest.raises(torch_slang.CompileError, match=rf"strange\.slang:3:22: character U\+{code} is no text"):
        torch_slang.load(source=TEXT.decode().replace("COMMENT", character), name="strange.slang")


@pytest.mark.parametrize("comment", ["größer ≥ 𝛼", "\ufffd \U0010ffff \ud7ff\ue000"])
def test_every_character_may_stand_in_a_comment(comment: str, tmp_path: Path) -> None:
    path = tmp_path / f"comment_{len(comment)}.slang"
    path.write_text(TEXT.decode().replace("COMMENT", comment), encoding="utf-8")
    assert value(path) == 6
    path = tmp_path / f"marked_{len(comment)}.slang"
    path.write_text(TEXT.decode().replace("COMMENT", comment), encoding="utf-8-sig")  # with a byte order mark
    assert value(path) == 6
