"""Messages quote lines of the user's own files, and of no others that a source includes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import torch_slang

SECRET = "superuser:$6$HUSH:19000:0:99999:7:::\nhush_hush\n"
OWN = "float f(float x) { return nothing_there; }\n"


@pytest.fixture
def foreign() -> Iterator[Path]:
    """A file in none of the module's folders, which are in tmp_path."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shadow"
        path.write_text(SECRET)
        yield path


def message_of(path: Path, text: str, **options: object) -> str:
    path.write_text(text)
    with pytest.raises(torch_slang.CompileError) as caught:
        torch_slang.load(path, namespace="never", **options)  # type: ignore[arg-type]
    return str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        '#include "{}"\n',
        "#include <{}>\n",
        '[TorchOp] float f(float x) {{ return x +\n#include "{}"\n; }}\n',
        '#define TWICE(x) x x\n#include "{}"\nTWICE(;)\n',
        '#line 1 "own.slang"\n#include "{}"\n',
    ],
)
def test_lines_of_an_included_file_elsewhere_are_not_shown(text: str, foreign: Path, tmp_path: Path) -> None:
    message = message_of(tmp_path / "m.slang", text.format(foreign))
    assert "HUSH" not in message.upper()
    assert "superuser" not in message
    assert f"{foreign}:1:" in message  # the place is
    assert "not shown: the file is in none of the module's folders" in message


def test_a_link_in_the_modules_folder_makes_a_file_no_users(foreign: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.h").symlink_to(foreign)
    message = message_of(tmp_path / "m.slang", '#include "mine.h"\n')
    assert "HUSH" not in message


@pytest.mark.parametrize("where", ["beside", "below", "include_dirs", "working folder"])
def test_lines_of_the_users_own_files_are_shown(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, other = tmp_path / "module", tmp_path / "other"
    for folder in (module / "below", other):
        folder.mkdir(parents=True)
    included = {"beside": module, "below": module / "below"}.get(where, other) / "part.slang"
    included.write_text(OWN)
    if where == "working folder":
        monkeypatch.chdir(other)
    dirs = [other] if where == "include_dirs" else []
    message = message_of(module / "m.slang", f'#include "{included}"\n', include_dirs=dirs)
    assert OWN.strip() in message
    assert "undefined identifier 'nothing_there'" in message


def test_a_mistake_of_the_users_is_told_in_full_beside_what_is_hidden(foreign: Path, tmp_path: Path) -> None:
    foreign.write_text("int hidden_name = hush_hush;\n")
    message = message_of(tmp_path / "m.slang", f'#include "{foreign}"\n{OWN}')
    assert OWN.strip() in message
    assert "hush" not in message
    assert "hidden" not in message


def test_what_a_device_compiler_says_of_it_is_not_shown(foreign: Path) -> None:
    text = f'[TorchOp] float f(float x) {{ __requirePrelude("#include \\"{foreign}\\"\\n"); return x + 1; }}'
    module = torch_slang.load(source=text, namespace="quoted_host")
    with pytest.raises(torch_slang.CompileError) as caught:
        module.f(torch.ones(2))
    message = str(caught.value)
    assert "HUSH" not in message
    assert f"{foreign}:1:" in message


def test_what_nvrtc_says_of_it_is_not_shown(foreign: Path) -> None:
    kernel = """
    [PyBindCUDA(Auto)] [CudaKernel]
    void kernel([Shape("N")] TensorView<float> x)
    {
        __requirePrelude("#include \\"FOREIGN\\"\\n");
        x[0] = 1;
    }
    """
    module = torch_slang.load(source=kernel.replace("FOREIGN", str(foreign)), namespace="quoted_nvrtc")
    with pytest.raises(RuntimeError) as caught:
        module._handle.cubin("kernel", "launch", [])
    if "needs NVRTC" in str(caught.value):
        pytest.skip("there is no NVRTC here")
    assert "rejects the kernel" in str(caught.value)
    assert "HUSH" not in str(caught.value)
    assert "superuser" not in str(caught.value)
