"""The size of the disk cache: a limit, and what goes when it is reached."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

import torch_slang

KERNEL = "[TorchOp] float added(float x) { return x + NUMBER; }"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TORCH_SLANG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TORCH_SLANG_CACHE_SIZE", raising=False)
    return tmp_path / "cache"


def compile_one(number: int) -> None:
    module = torch_slang.load(source=KERNEL.replace("NUMBER", str(number)), namespace=f"size_{number}_{os.getpid()}")
    assert module.added(torch.ones(2)).tolist() == [number + 1.0] * 2


def compiled(folder: Path) -> list[Path]:
    return sorted(path for kind in ("program", "object") for path in (folder / kind).glob("*"))


def size_of(paths: list[Path]) -> int:
    return sum(path.stat().st_size for path in paths)


def use_long_ago(paths: list[Path], second: int) -> None:
    for path in paths:
        os.utime(path, (second, second))


def fill(folder: Path, numbers: list[int]) -> list[list[Path]]:
    """Compiles them; the files of each, the first the least recently used."""
    files: list[list[Path]] = []
    for number in numbers:
        before = set(compiled(folder))
        compile_one(number)
        files.append(sorted(set(compiled(folder)) - before))
        use_long_ago(files[-1], 1000 + number)
    return files


def test_trim_removes_the_least_recently_used(folder: Path) -> None:
    files = fill(folder, [1, 2, 3])
    everything = [path for one in files for path in one]
    assert torch_slang.cache.trim(size_of(everything)) == 0
    assert torch_slang.cache.trim(size_of(everything) - 1) == 1
    assert torch_slang.cache.trim(size_of(files[2])) == len(everything) - len(files[2]) - 1
    assert compiled(folder) == sorted(files[2])
    assert torch_slang.cache.trim(0) == len(files[2])
    assert compiled(folder) == []
    assert torch_slang.cache.trim(0) == 0


def test_a_use_counts_and_not_when_it_was_made(folder: Path) -> None:
    first, _ = fill(folder, [4, 5])
    module = torch_slang.load(source=KERNEL.replace("NUMBER", "4"), namespace=f"again_{os.getpid()}")
    module.added(torch.ones(2))
    torch_slang.cache.trim(size_of(first))
    assert compiled(folder) == sorted(first)


def test_what_is_loaded_stays_usable_when_its_entry_goes(folder: Path) -> None:
    module = torch_slang.load(source=KERNEL.replace("NUMBER", "6"), namespace=f"kept_{os.getpid()}")
    module.added(torch.ones(2))
    assert torch_slang.cache.trim("0") > 0
    assert module.added(torch.ones(3)).tolist() == [7.0] * 3


def test_the_limit_is_kept_when_something_is_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (first,) = fill(folder, [7])
    limit = 2 * size_of(first) + size_of(first) // 2
    monkeypatch.setenv("TORCH_SLANG_CACHE_SIZE", str(limit))
    for number in (8, 9, 10):
        fill(folder, [number])
        assert size_of(compiled(folder)) <= limit
    assert not any(path.exists() for path in first)
    compile_one(10)  # the newest is there


@pytest.mark.parametrize("size", ["off", "0"])
def test_there_may_be_no_limit(size: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_SLANG_CACHE_SIZE", size)
    files = fill(folder, [11])
    assert torch_slang.cache.trim() == 0
    assert compiled(folder) == files[0]


@pytest.mark.parametrize(
    ("size", "bytes_"),
    [("1000", 1000), ("3k", 3072), ("1.5 KiB", 1536), ("500M", 500 << 20), ("2GB", 2 << 30), ("1T", 1 << 40)],
)
def test_sizes_have_units(size: str, bytes_: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "object").mkdir(parents=True, mode=0o700)
    folder.chmod(0o700)
    for name, length in (("a" * 64, bytes_), ("b" * 64, 1)):
        with (folder / "object" / name).open("wb") as file:
            file.truncate(length)  # which takes no place
        (folder / "object" / name).chmod(0o600)
    use_long_ago([folder / "object" / ("b" * 64)], 1)
    assert torch_slang.cache.trim(size) == 1
    assert [path.name for path in compiled(folder)] == ["a" * 64]
    monkeypatch.setenv("TORCH_SLANG_CACHE_SIZE", size)
    assert torch_slang.cache.trim() == 0
    assert torch_slang.cache.trim(bytes_ - 1) == 1


@pytest.mark.parametrize("size", ["lots", "12Q", "-3", "G", "1e400", ""])
def test_what_is_no_size_is_refused(size: str, folder: Path) -> None:
    with pytest.raises(ValueError, match=r"torch_slang\.cache\.trim: expected size to be"):
        torch_slang.cache.trim(size)


def test_a_negative_size_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="at least 0, but got -1"):
        torch_slang.cache.trim(-1)


def test_a_wrong_limit_names_the_variable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_SLANG_CACHE_SIZE", "lots")
    with pytest.raises(
        RuntimeError, match="TORCH_SLANG_CACHE_SIZE to be a size such as 500M or 2G, or off, but got 'lots'"
    ):
        torch_slang.cache.trim()


def test_what_writers_left_behind_goes_once_it_is_old(folder: Path) -> None:
    fill(folder, [12])
    old = [folder / "object" / ".tmp-1-2-3-4", folder / "program" / ("c" * 64 + ".lock")]
    young = folder / "object" / ".tmp-5-6-7-8"
    mine = folder / "object" / "notes.txt"
    for path in (*old, young, mine):
        path.touch()
    use_long_ago([*old, mine], 1)
    assert torch_slang.cache.trim(1 << 30) == 0
    assert [path.exists() for path in (*old, young, mine)] == [False, False, True, True]
