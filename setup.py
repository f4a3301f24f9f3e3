"""Builds the native part with CMake; everything else about the package stands in pyproject.toml.

Environment: MAX_JOBS (compilers at once), TORCH_SLANG_BUILD_DIR (default build/<Python's tag>),
TORCH_SLANG_CMAKE_ARGS (further arguments for CMake); TORCH_DIR, SLANG_DIR and BOOST_DIR (cmake/FindDependencies.cmake).
"""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import ClassVar

from setuptools import Command, Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent


def tool(name: str) -> str:
    """The program beside this Python (PyPI's cmake and ninja live there), else the one on the PATH."""
    folders = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    found = shutil.which(name, path=folders)
    if found is None:
        raise SystemExit(f"torch_slang: {name} is needed to build; install the Python package {name}")
    return found


def run_cmake(*arguments: str, quiet: bool = False) -> None:
    output = subprocess.DEVNULL if quiet else None
    try:
        subprocess.check_call([tool("cmake"), *arguments], stdout=output)
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"torch_slang: the build failed: {shlex.join(error.cmd)}") from None


def build(*targets: str) -> Path:
    """Configures and builds (the default targets if none are named); returns the build folder."""
    folder = Path(os.environ.get("TORCH_SLANG_BUILD_DIR", ROOT / "build" / str(sys.implementation.cache_tag)))
    arguments = shlex.split(os.environ.get("TORCH_SLANG_CMAKE_ARGS", ""))
    folder.mkdir(parents=True, exist_ok=True)
    lock = (folder / ".lock").open("w")  # released when this process ends: two builds in one folder spoil each other
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"torch_slang: waiting for another build in {folder}", file=sys.stderr)
        fcntl.flock(lock, fcntl.LOCK_EX)
    run_cmake(
        *("-S", str(ROOT), "-B", str(folder), "-G", "Ninja", "--log-level=NOTICE"),
        *(f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}", f"-DPython_EXECUTABLE={sys.executable}"),
        *arguments,
        quiet=True,
    )
    jobs = os.environ.get("MAX_JOBS") or str(os.cpu_count() or 1)
    run_cmake("--build", str(folder), "--parallel", jobs, *(["--target", *targets] if targets else []))
    return folder


class BuildPackage(build_ext):
    """One CMake project makes all native files: libtorch_slang, torch-slangc and the module _C."""

    def run(self) -> None:
        in_place = self.inplace or self.editable_mode
        package = (ROOT if in_place else Path(self.build_lib).resolve()) / "torch_slang"
        run_cmake("--install", str(build()), "--prefix", str(package), quiet=True)


class PlainCommand(Command):
    user_options: ClassVar[list[tuple[str, str, str]]] = []

    def initialize_options(self) -> None:
        pass

    def finalize_options(self) -> None:
        pass


class BuildCppTests(PlainCommand):
    """The programs of tests/cpp, into the build folder's tests/."""

    def run(self) -> None:
        build("torch_slang_tests")


class UseInPlace(PlainCommand):
    """Lets this environment use the package and torch-slangc where they stand, before and after every build."""

    def run(self) -> None:
        Path(sysconfig.get_path("purelib"), "torch_slang_in_place.pth").write_text(f"{ROOT}\n")
        program = Path(sysconfig.get_path("scripts"), "torch-slangc")
        program.unlink(missing_ok=True)
        program.symlink_to(ROOT / "torch_slang" / "bin" / "torch-slangc")


setup(
    ext_modules=[Extension("torch_slang._C", sources=[])],
    cmdclass={"build_ext": BuildPackage, "build_cpp_tests": BuildCppTests, "use_in_place": UseInPlace},
    scripts=["scripts/torch-slangc"],
)
