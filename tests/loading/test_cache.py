"""The disk cache as users meet it: in processes of their own, whose counters tell what was compiled."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from long_tests import dear_test, some_cases, some_tests

import torch_slang

pytestmark = some_tests(2)

KERNEL = """
import torch_slang;
#include "factor.h"
[PyBindCUDA(Auto)] [Differentiable] [CudaKernel]
void scaled([Shape("N")] DiffTensorView<float> x, [Out("N")] DiffTensorView<float> y)
{
    uint i = cudaGlobalIdx().x;
    if (i < y.size(0)) y[i] = FACTOR_ * x[i];
}
"""
PROGRAM = """
import json, sys, torch, torch_slang
module = torch_slang.load(sys.argv[1], include_dirs=sys.argv[2:])
x = torch.ones(2, requires_grad=True)
y = module.scaled(x)
y.sum().backward()
answer = {"y": y.tolist(), "grad": x.grad.tolist(), "path": torch_slang.cache.path()}
print(json.dumps(answer | torch_slang.cache.stats()))
"""


class Project:
    """A kernel in a folder, with a cache of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        self.source = folder / "scaled.slang"
        self.source.write_text(KERNEL)
        (folder / "includes").mkdir()
        (folder / "includes" / "factor.h").write_text("#define FACTOR_ 2\n")
        self.said = ""

    def start(self, program: str = PROGRAM, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", program, str(self.source), str(self.folder / "includes")],
            env={**os.environ, "TORCH_SLANG_CACHE_DIR": str(self.cache), "TORCH_SLANG_LOG": "warning", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        output, self.said = process.communicate(timeout=120)
        assert process.returncode == 0, self.said
        answer: dict[str, Any] = json.loads(output)
        assert answer["y"] == answer["grad"]
        return answer

    def run(self, program: str = PROGRAM, **environment: str) -> dict[str, Any]:
        return self.finish(self.start(program, **environment))

    def entries(self) -> list[Path]:
        return sorted(path for path in self.cache.rglob("*") if path.is_file())

    def warnings(self) -> list[str]:
        """Of the last run; lines about slow compiles are no warnings."""
        lines = re.findall(r"^torch_slang: .*$", self.said, re.MULTILINE)
        return [line for line in lines if not re.search(r"( in [\d.]+ s| \.\.\.)$", line)]


def compiled(answer: dict[str, Any]) -> tuple[int, int]:
    """How often the two compilers of the CPU were started."""
    return answer["slang_runs"], answer["host_runs"]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Whose cache has what a run needs; tests copy it."""
    project = Project(tmp_path_factory.mktemp("filled"))
    first = project.run()
    assert first["y"] == [2, 2]
    assert compiled(first) == (1, 2)  # one Program; forward and backward
    assert (first["writes"], first["damaged"]) == (3, 0)
    return project


@pytest.fixture
def copy(filled: Project, tmp_path: Path) -> Project:
    """The same source, and a copy of the cache to do harm to."""
    copied = Project.__new__(Project)
    copied.__dict__.update(filled.__dict__, cache=tmp_path / "cache", said="")
    shutil.copytree(filled.cache, copied.cache)
    return copied


def test_a_second_process_starts_no_compiler(copy: Project) -> None:
    answer = copy.run()
    assert answer["y"] == [2, 2]
    assert compiled(answer) == (0, 0)
    assert (answer["misses"], answer["writes"]) == (0, 0)
    assert answer["hits"] == len(copy.entries()) == 3
    assert answer["path"] == str(copy.cache)
    assert copy.warnings() == []


def test_a_kernel_and_its_backward_in_another_type_take_one_run(project: Project) -> None:
    generic = KERNEL.replace("scaled(", "scaled<T : __BuiltinFloatingPointType>(").replace("<float>", "<T>")
    project.source.write_text(generic.replace("FACTOR_", "T(FACTOR_)"))
    first = project.run()
    double = PROGRAM.replace("torch.ones(2,", "torch.ones(2, dtype=torch.float64,")
    assert compiled(project.run(double)) == (1, 2)  # the Program is there; forward and backward
    assert compiled(project.run(double)) == (0, 0)
    assert first["y"] == [2, 2]


def test_entries_are_the_users_alone(copy: Project) -> None:
    for path in copy.entries():
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


DAMAGES = {
    "truncated": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "one bit": lambda content: content[:100] + bytes([content[100] ^ 1]) + content[101:],
    "other version": lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    "longer": lambda content: content + b"tail",
}


def test_damaged_entries_are_compiled_again(copy: Project) -> None:
    for path in copy.entries():
        path.write_bytes(DAMAGES["one bit"](path.read_bytes()))
    answer = copy.run()
    assert answer["y"] == [2, 2]
    assert compiled(answer) == (1, 2)
    assert answer["damaged"] == answer["writes"] == 3
    assert compiled(copy.run()) == (0, 0)


@some_cases(2)
@pytest.mark.parametrize("damage", DAMAGES)
def test_each_kind_of_damage_is_noticed(copy: Project, damage: str) -> None:
    (program,) = (copy.cache / "program").iterdir()
    program.write_bytes(DAMAGES[damage](program.read_bytes()))
    answer = copy.run()
    assert answer["y"] == [2, 2]
    assert compiled(answer) == (1, 0)
    assert answer["damaged"] == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_folder_is_read_and_one_warning_says_so(copy: Project) -> None:
    for folder in (copy.cache, *copy.cache.iterdir()):
        folder.chmod(0o500)
    try:
        assert compiled(copy.run()) == (0, 0)
        copy.source.touch()
        (copy.cache / "program").chmod(0o700)
        next((copy.cache / "program").iterdir()).unlink()
        (copy.cache / "program").chmod(0o500)
        assert compiled(copy.run()) == (1, 0)
        assert len(copy.warnings()) == 1
        assert "cannot write to the cache folder" in copy.warnings()[0]
    finally:
        for folder in (copy.cache, *copy.cache.iterdir()):
            folder.chmod(0o700)


def test_a_folder_that_cannot_be_there_costs_one_warning(project: Project) -> None:
    (project.folder / "a file").write_text("")
    project.cache = project.folder / "a file" / "cache"
    answer = project.run()
    assert answer["y"] == [2, 2]
    assert compiled(answer) == (1, 2)
    assert len(project.warnings()) == 1
    assert f"the cache folder {project.cache} is not used: Not a directory" in project.warnings()[0]


def test_a_folder_that_others_may_write_to_is_never_read(copy: Project) -> None:
    copy.cache.chmod(0o777)
    before = {path: path.read_bytes() for path in copy.entries()}
    answer = copy.run()
    assert answer["y"] == [2, 2]
    assert compiled(answer) == (1, 2)
    assert (answer["hits"], answer["writes"]) == (0, 0)
    assert {path: path.read_bytes() for path in copy.entries()} == before
    assert len(copy.warnings()) == 1
    assert f"the cache folder {copy.cache} is not used: other users may write to it" in copy.warnings()[0]


def test_an_entry_that_others_may_write_to_is_not_read(copy: Project) -> None:
    for path in copy.entries():
        path.chmod(0o666)
    answer = copy.run()
    assert answer["y"] == [2, 2]
    assert compiled(answer) == (1, 2)


@dear_test
def test_two_processes_at_once(project: Project) -> None:
    processes = [project.start() for _ in range(2)]
    assert [project.finish(process)["y"] for process in processes] == [[2, 2], [2, 2]]
    assert compiled(project.run()) == (0, 0)
    assert len(project.entries()) == 3  # and nothing temporary


def test_a_new_file_that_shadows_an_included_one_is_noticed(project: Project) -> None:
    assert project.run()["y"] == [2, 2]
    shadow = project.folder / "factor.h"
    shadow.write_text("#define FACTOR_ 5\n")
    assert project.run()["y"] == [5, 5]
    assert compiled(project.run()) == (0, 0)
    shadow.unlink()
    assert project.run()["y"] == [2, 2]
    (project.folder / "includes" / "factor.h").write_text("#define FACTOR_ 3\n")
    assert project.run()["y"] == [3, 3]


def test_another_compiler_is_noticed(copy: Project, tmp_path: Path) -> None:
    wrapper = tmp_path / "c++"
    wrapper.write_text('#!/bin/sh\nexec c++ "$@"\n')
    wrapper.chmod(0o755)
    assert compiled(copy.run(TORCH_SLANG_CXX=str(wrapper))) == (0, 2)
    assert compiled(copy.run(TORCH_SLANG_CXX=str(wrapper))) == (0, 0)
    os.utime(wrapper, (1, 1))
    assert compiled(copy.run(TORCH_SLANG_CXX=str(wrapper))) == (0, 2)
    assert compiled(copy.run(TORCH_SLANG_CXXFLAGS="-DANOTHER")) == (0, 2)
    installed = Path(torch_slang.__file__).parent / "bin" / "torch-slangc"
    slang = tmp_path / "torch-slangc"
    slang.write_text(f'#!/bin/sh\nexec {installed} "$@"\n')
    slang.chmod(0o755)
    assert compiled(copy.run(TORCH_SLANG_COMPILER=str(slang))) == (1, 0)
    assert compiled(copy.run(TORCH_SLANG_COMPILER=str(slang))) == (0, 0)


def test_clear_removes_the_entries_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filled: Project
) -> None:
    folder = tmp_path / "cache"
    shutil.copytree(filled.cache, folder)
    (folder / "notes.txt").write_text("mine")
    monkeypatch.setenv("TORCH_SLANG_CACHE_DIR", str(folder))
    assert torch_slang.cache.path() == str(folder)
    assert torch_slang.cache.clear() == 3
    assert torch_slang.cache.clear() == 0
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["notes.txt"]


def test_the_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    monkeypatch.setenv("TORCH_SLANG_CACHE_DIR", "/chosen")
    assert torch_slang.cache.path() == "/chosen"
    monkeypatch.delenv("TORCH_SLANG_CACHE_DIR")
    assert torch_slang.cache.path() == "/caches/torch_slang"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert torch_slang.cache.path() == "/home/somebody/.cache/torch_slang"


# --- The log


@dear_test
def test_the_log_tells_what_is_compiled_for_what_and_in_how_long(project: Project) -> None:
    project.run(TORCH_SLANG_LOG="info")
    seconds = r"in \d+\.\d\d s"
    for what in (
        rf"compiled {project.source} .*{seconds}",
        rf"compiled slang::scaled for CPU {seconds}",
        rf"compiled slang::scaled_backward for CPU {seconds}",
    ):
        assert len(re.findall(what, project.said)) == 1, project.said
    project.run(TORCH_SLANG_LOG="info")
    assert re.search(rf"{project.source}: Program from the cache", project.said)
    assert "compiled" not in project.said


@dear_test
def test_the_log_has_levels(copy: Project) -> None:
    copy.run(TORCH_SLANG_LOG="debug")
    assert len(re.findall("cache hit", copy.said)) == 3
    copy.run(TORCH_SLANG_LOG="warning")
    assert copy.said == ""
    (program,) = (copy.cache / "program").iterdir()
    program.unlink()
    copy.cache.chmod(0o777)
    copy.run(TORCH_SLANG_LOG="off")
    assert copy.said == ""
    copy.run(TORCH_SLANG_LOG="loud")
    assert (
        copy.said.count(
            "expected the environment variable TORCH_SLANG_LOG to be off, warning, info or debug, but got 'loud'"
        )
        == 1
    )


SLOW = """
import os, sys, torch, torch_slang
os.environ["TORCH_SLANG_CXX"] = sys.argv[2]
torch_slang.load(sys.argv[1]).quick(torch.ones(1))
"""


def test_a_slow_compile_says_so_by_itself(tmp_path: Path) -> None:
    source = tmp_path / "quick.slang"
    source.write_text(
        textwrap.dedent(KERNEL).replace("scaled", "quick").replace('#include "factor.h"', "").replace("FACTOR_", "2")
    )
    slow = tmp_path / "c++"
    slow.write_text('#!/bin/sh\nsleep 1.1\nexec c++ "$@"\n')
    slow.chmod(0o755)
    environment = {**os.environ, "TORCH_SLANG_CACHE_DIR": str(tmp_path / "cache")}
    environment.pop("TORCH_SLANG_LOG", None)
    run = subprocess.run(
        [sys.executable, "-c", SLOW, str(source), str(slow)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.search(r"^torch_slang: compiled slang::quick for CPU in \d+\.\d\d s$", run.stderr, re.MULTILINE)
