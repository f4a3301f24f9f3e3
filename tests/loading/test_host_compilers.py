"""Which C++ compiler is taken, and what happens where it takes too long."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from slow_compilers import HOST, KERNEL

import torch_slang

PROGRAM = """
import torch, torch_slang
module = torch_slang.load(source=SOURCE, name="doubled")
x = torch.ones(3, requires_grad=True)
module.doubled(x).sum().backward()
assert x.grad.tolist() == [2, 2, 2]
"""


@pytest.mark.parametrize("name", ["g++-1", "/nowhere/g++ -m64"])
def test_a_missing_compiler_of_others_is_passed_over_with_one_warning(name: str, tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "TORCH_SLANG_CXX"}
    environment |= {"CXX": name, "TORCH_SLANG_CACHE_DIR": str(tmp_path)}
    program = PROGRAM.replace("SOURCE", repr(KERNEL))
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("CXX names") == 1
    program = name.split(maxsplit=1)[0]
    assert f"CXX names {program}, which is not there, and kernels for the CPU are compiled by /" in done.stderr
    assert "TORCH_SLANG_CXX chooses another" in done.stderr


def test_what_takes_too_long_is_compiled_with_less_optimisation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "c++"
    made = tmp_path / "made.so"
    # First it keeps what it makes, so that afterwards -O1 gives that at once. All else then takes a minute.
    script.write_text(
        f"""#!/usr/bin/env python3
import os, shutil, subprocess, sys, time
output = sys.argv[sys.argv.index("-o") + 1]
if not os.path.exists({str(made)!r}):
    code = subprocess.call([{HOST!r}, *sys.argv[1:]])
    shutil.copy(output, {str(made)!r})
    sys.exit(code)
if "-O1" not in sys.argv:
    time.sleep(60)
shutil.copy({str(made)!r}, output)
"""
    )
    script.chmod(0o755)
    monkeypatch.setenv("TORCH_SLANG_CXX", str(script))
    x = torch.ones(3)
    for folder, limit in (("first", "600"), ("second", "2")):
        monkeypatch.setenv("TORCH_SLANG_CACHE_DIR", str(tmp_path / folder))
        monkeypatch.setenv("TORCH_SLANG_COMPILE_TIMEOUT", limit)
        module = torch_slang.load(source=KERNEL, name=folder, namespace=f"too_long_{folder}")
        assert module.doubled(x).tolist() == [2, 2, 2]
    said = capfd.readouterr().err
    assert "did not finish in 2 s and was killed: compiled with -O1, it may be slower" in said
