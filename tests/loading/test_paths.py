"""Odd names of files and modules, compilers named with quotes, and temporary folders that are full."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from long_tests import some_cases, some_tests
from slow_compilers import HOST, KERNEL, Project

import torch_slang

pytestmark = some_tests(5)

NAMES = [
    'quo"te.slang',
    "line\nbreak.slang",
    "back\\slash.slang",
    "both\\n\"'.slang",
    'fol"der/a\nb.slang',
    "return\r.slang",
]


def namespace_of(request: pytest.FixtureRequest) -> str:
    return f"paths_{abs(hash(request.node.name))}"


def check(module: torch_slang.Module) -> None:
    x = torch.ones(3, requires_grad=True)
    y = module.doubled(x)
    y.sum().backward()
    assert y.tolist() == [2, 2, 2]
    assert x.grad is not None
    assert x.grad.tolist() == [2, 2, 2]


@some_cases(2)
@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_file_may_have_any_name(name: str, debug: bool, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(KERNEL)
    check(torch_slang.load(path, namespace=namespace_of(request), debug=debug))


@some_cases(3)
@pytest.mark.parametrize("name", NAMES)
def test_a_text_may_have_any_name(name: str, request: pytest.FixtureRequest) -> None:
    check(torch_slang.load(source=KERNEL, name=name, namespace=namespace_of(request)))


@pytest.mark.parametrize("name", NAMES)
def test_such_a_file_compiles_for_a_gpu(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    module = torch_slang.load(source=KERNEL, name=name, namespace=namespace_of(request))
    try:
        assert module._handle.cubin("doubled", "forward", [])
    except RuntimeError as error:
        if "needs NVRTC" not in str(error):
            raise
        pytest.skip("there is no NVRTC here")


@pytest.mark.parametrize(("name", "shown"), [('quo"te.slang', 'quo"te.slang:6'), ("a\nb.slang", "a\\nb.slang:6")])
def test_errors_name_the_file_and_the_line(name: str, shown: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(KERNEL.replace("2 * x[i]", "none"))
    with pytest.raises(torch_slang.CompileError) as caught:
        torch_slang.load(tmp_path / name, namespace="never")
    assert f"{tmp_path}/{shown}:" in str(caught.value)


# --- TORCH_SLANG_CXX and TORCH_SLANG_CXXFLAGS


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In a folder with a space in its name; notes its arguments, each on a line."""
    monkeypatch.setenv("TORCH_SLANG_CACHE_DIR", str(tmp_path / "cache"))
    script = tmp_path / "my tools" / "c++"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> "{tmp_path}/arguments"\nexec {HOST} "$@"\n')
    script.chmod(0o755)
    return script


@pytest.mark.parametrize("form", ['"{}"', "'{}'", "{}", '"{}" "-DONE TWO"'])
def test_a_compilers_path_may_have_spaces(
    form: str, compiler: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("TORCH_SLANG_CXX", form.format(compiler))
    check(torch_slang.load(source=KERNEL, namespace=namespace_of(request)))
    arguments = (compiler.parent.parent / "arguments").read_text().splitlines()
    assert ("-DONE TWO" in arguments) == ("ONE" in form)


def test_flags_are_split_as_a_shell_splits(
    compiler: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("TORCH_SLANG_CXX", f"'{compiler}'")
    monkeypatch.setenv("TORCH_SLANG_CXXFLAGS", r"""-DA='1 2'   "-DB=\"x y\"" -DC=\ \'  -D'D E'="$HOME" '' """.rstrip())
    module = torch_slang.load(source=KERNEL, namespace=namespace_of(request))
    with pytest.raises(torch_slang.CompileError):  # the empty word is no file
        module.doubled(torch.ones(2))
    arguments = (compiler.parent.parent / "arguments").read_text().splitlines()
    begin = arguments.index("-DA=1 2")
    assert arguments[begin : begin + 5] == ["-DA=1 2", '-DB="x y"', "-DC= '", "-DD E=$HOME", ""]


@pytest.mark.parametrize("variable", ["TORCH_SLANG_CXX", "TORCH_SLANG_CXXFLAGS"])
@pytest.mark.parametrize("value", ["c++ 'a", 'c++ "a', "c++ \\"])
def test_an_open_quote_is_an_error(
    variable: str, value: str, compiler: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    module = torch_slang.load(source=KERNEL, namespace=namespace_of(request))
    monkeypatch.setenv(variable, value)
    with pytest.raises(torch_slang.CompileError) as caught:
        module.doubled(torch.ones(2))
    assert f"{variable} has a quote that is not closed, or ends in a backslash: {value}" in str(caught.value)


# --- Full disks

FULL = """
import sys, torch, torch_slang
module = torch_slang.load(sys.argv[1])
try:
    module.doubled(torch.ones(3))
except torch_slang.CompileError as error:
    print(error)
"""


def test_a_compiler_that_finds_no_space_is_told_by_the_folder(tmp_path: Path) -> None:
    project = Project(tmp_path)
    script = tmp_path / "c++"
    script.write_text("#!/bin/sh\necho 'ld: final link failed: No space left on device' >&2\nexit 1\n")
    script.chmod(0o755)
    output, said = project.start(FULL, TORCH_SLANG_CXX=str(script)).communicate(timeout=60)
    assert output.startswith(
        "slang::doubled: cannot be compiled for the CPU: there is no space left in the temporary folder "
        f"{project.temporary}: TMPDIR chooses another\nld: final"
    ), said


@pytest.mark.parametrize("size", ["4k", "64k"])  # too small for a folder, and for what the compiler makes
def test_a_full_temporary_folder_is_named(size: str, tmp_path: Path) -> None:
    project = Project(tmp_path)
    mount = f'mount -t tmpfs -o size={size} tmpfs "{project.temporary}" && exec "$@"'
    isolated = ["unshare", "-m", "sh", "-c", mount, "sh"]
    if subprocess.run([*isolated, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no file system may be mounted here")
    environment = {**os.environ, "TORCH_SLANG_CACHE_DIR": str(project.cache), "TMPDIR": str(project.temporary)}
    command = [*isolated, sys.executable, "-c", FULL, str(project.source)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{project.temporary}" in done.stdout
    assert "TMPDIR chooses another" in done.stdout
    assert "o space left" in done.stdout


def test_a_temporary_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.temporary = tmp_path / "nowhere"
    program = FULL.replace("torch_slang.CompileError", "RuntimeError")
    output, said = project.start(program).communicate(timeout=60)
    assert f"cannot make a temporary folder in {project.temporary}: No such file or directory" in output, said


def test_an_include_in_angle_brackets_is_found_beside_the_source(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "beside.h").write_text("float thrice(float x) { return 3 * x; }\n")
    (tmp_path / "elsewhere" / "both.h").write_text("#define FOUND 5\n")
    (tmp_path / "both.h").write_text("#define FOUND 7\n")
    (tmp_path / "inner" / "part.slang").write_text("#include <two.h>\nfloat twice(float x) { return TWO * x; }\n")
    (tmp_path / "inner" / "two.h").write_text("#define TWO 2\n")
    path = tmp_path / "angles.slang"
    path.write_text(
        "#include <beside.h>\n#include <inner/part.slang>\n#include <both.h>\n"
        "float f(float x) { return thrice(x) + twice(x) + FOUND; }\n"
    )
    module = torch_slang.load(path, include_dirs=[tmp_path / "elsewhere"])  # which Slang searches first
    assert module.f(torch.ones(1)).item() == 10
