"""Texts that go too deep, and texts that are no Programs."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from long_tests import some_cases

import torch_slang

KERNEL = """
[PyBindCUDA(Auto)] [CudaKernel]
void filled([Shape("N")] TensorView<float> x, [Out("SHAPE")] TensorView<float> y) { y[0] = 1; }
"""
DEEP = {
    "parentheses": ("(" * 20000 + "N" + ")" * 20000, "more than 200 levels of parentheses"),
    "open parentheses": ("(" * 20000, "more than 200 levels of parentheses"),
    "signs": ("-" * 20000 + "N", "more than 200 levels of parentheses and signs"),
    "calls": ("max(N, " * 20000 + "N" + ")" * 20000, "more than 200 levels of parentheses"),
    "terms": (" + ".join(["N"] * 30000), "more than 1000 operators"),
    "factors": (" * ".join(["1"] * 30000), "more than 1000 operators"),
    "arguments": ("max(" + ", ".join(["N"] * 30000) + ")", "more than 1000 operators"),
}


@pytest.mark.parametrize("deep", DEEP)
def test_a_shape_that_is_too_deep_is_an_error(deep: str) -> None:
    shape, message = DEEP[deep]
    with pytest.raises(RuntimeError, match=re.escape(message)) as caught:
        torch_slang.load(source=KERNEL.replace("SHAPE", shape), namespace="never")
    assert "::filled" in str(caught.value)
    assert len(str(caught.value)) < 1000  # the text is not repeated


@pytest.mark.parametrize("deep", ["parentheses", "terms"])
def test_an_annotation_that_is_too_deep_is_an_error(deep: str) -> None:
    shape, message = DEEP[deep]
    text = KERNEL.replace('[Out("SHAPE")]', "")
    with pytest.raises(RuntimeError, match=re.escape(message)):
        torch_slang.load(source=text, namespace="never", annotations={"filled": {"y": f"Out({shape})"}})


@pytest.mark.parametrize(
    "shape", ["(" * 100 + "N" + ")" * 100, " + ".join(["N"] * 500) + " - 499 * N", "-" * 100 + "N"]
)
def test_what_people_write_is_not_too_deep(shape: str) -> None:
    module = torch_slang.load(source=KERNEL.replace("SHAPE", shape), namespace=f"deep_{len(shape)}")
    assert module.filled(torch.ones(3)).shape == (3,)


# --- JSON that is no Program

FOREIGN = [
    "{}",
    "[]",
    "null",
    "3",
    '{"functions": []}',
    '{"torch_slang_program": 0}',
    '{"torch_slang_program": "1"}',
    "[" * 100000,
]

PROGRAM = """
import sys, torch, torch_slang
from torch_slang import _C
_C.load_builtin(sys.argv[1])
"""


@some_cases(1)
@pytest.mark.parametrize("text", FOREIGN)
def test_a_file_of_an_operator_folder_that_is_no_program_is_an_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text(text)
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"RuntimeError: {tmp_path}/mine.json cannot be loaded: " in done.stderr


def test_an_answer_of_a_compiler_that_is_no_program_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "torch-slangc"
    script.write_text("#!/bin/sh\ncat > /dev/null\necho '{}'\n")
    script.chmod(0o755)
    monkeypatch.setenv("TORCH_SLANG_COMPILER", str(script))
    monkeypatch.setenv("TORCH_SLANG_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(torch_slang.CompileError, match=r"answer .* is no Program"):
        torch_slang.load(source=KERNEL.replace("SHAPE", "N"), namespace="never")
    assert not list((tmp_path / "cache").rglob("?" * 64))


def sealed(key: str, payload: bytes) -> bytes:
    """As an entry of the cache: Note [cache entry] in csrc/cache/cache.h."""
    digest = hashlib.sha256()
    for field in (b"program", key.encode(), payload):
        digest.update(len(field).to_bytes(8, "little") + field)
    trailer = b"tslcache" + (1).to_bytes(8, "little") + len(payload).to_bytes(8, "little")
    return payload + trailer + digest.hexdigest().encode()


@some_cases(3)
@pytest.mark.parametrize("text", FOREIGN)
def test_a_cached_text_that_is_no_program_is_compiled_again(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_SLANG_CACHE_DIR", str(tmp_path))
    source = KERNEL.replace("SHAPE", "N")
    torch_slang.load(source=source, namespace="foreign_0").filled(torch.ones(2))  # whose texts are there then
    (entry,) = (tmp_path / "program").iterdir()
    whole = entry.read_bytes()
    assert sealed(entry.name, whole[: whole.index(b"tslcache")]) == whole  # so the next is believed to be whole
    entry.write_bytes(sealed(entry.name, text.encode()))
    before = torch_slang.cache.stats()
    module = torch_slang.load(source=source, namespace=f"foreign_{abs(hash(text))}")
    assert module.filled(torch.ones(2)).shape == (2,)
    after = torch_slang.cache.stats()
    assert after["slang_runs"] == before["slang_runs"] + 1
    assert entry.read_bytes() == whole
