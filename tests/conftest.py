"""A disk cache of the session's own, which the processes of pytest-xdist share: nothing comes from an earlier run."""

import os
import shutil
import signal
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

# Threads of PyTorch that wait leave their core to others: tests run in as many processes as there are cores.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import pytest
import torch
from costs import Costs
from devices import DEVICES, needs_cuda
from long_tests import EVERY_CASE, LONG, SEED, cases_left_out, long_test, seed_of_this_commit, share_of
from slow_compilers import Project

_FOLDER = "TORCH_SLANG_CACHE_DIR"
# "on" or "off": whether a GPU's lanes sum what they add to the same elements, whatever a call would choose.
_WAVE_SUMS = "TORCH_SLANG_TEST_WAVE_SUMS"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", type=int, metavar="N", help="show the N tests that take most of the processor's time")
    parser.addoption("--share", metavar="K/N", help="run the K-th of N shares of the tests: every N-th test")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # workers inherit the variable
        os.environ[_FOLDER] = tempfile.mkdtemp(prefix="torch_slang_tests_")
        os.environ[SEED] = seed_of_this_commit()
        os.environ.setdefault(
            "TORCH_SLANG_AUDIT", "off"
        )  # tests/gradients/test_audit.py has them; "first" audits the whole suite
        os.environ["TORCH_SLANG_CHECK_TEXTS"] = "1"  # csrc/compiler/emit/known_forms.h
    for mark in ("some_cases", "some_tests", "dear_test", "dear_file"):
        config.addinivalue_line("markers", f"{mark}(count): tests/helpers/long_tests.py")
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as a shell's background jobs have it; processes inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if _WAVE_SUMS in os.environ:
        from torch_slang import _C  # not before the folder of its cache is known

        _C.set_wave_sums({"on": True, "off": False}[os.environ[_WAVE_SUMS]])
    if config.getoption("--costs"):
        config.pluginmanager.register(Costs(config.getoption("--costs")))


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ[_FOLDER], ignore_errors=True)


def _is_left_out(item: pytest.Item) -> bool:
    """By one of the two marks that most skipped tests have, which nothing but the machine decides."""
    return any(mark in (needs_cuda.mark, long_test.mark) and mark.args[0] for mark in item.iter_markers())


def _is_named(config: pytest.Config) -> bool:
    """Whether the command line names cases, or words of their names."""
    return bool(config.option.keyword) or any("[" in name for name in config.args)


@pytest.hookimpl(trylast=True)  # after -k and -m have chosen
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Thousands of tests need a GPU: to skip them one by one takes a minute."""
    left_out = {item for item in items if _is_left_out(item)}
    if not LONG and os.environ[SEED] != EVERY_CASE and not _is_named(config):
        left_out |= cases_left_out([item for item in items if item not in left_out], os.environ[SEED])
    if len(left_out) < len(items):
        _deselect(config, items, left_out)
    if config.getoption("--share"):
        _deselect(config, items, set(items) - set(share_of(items, config.getoption("--share"))))


def _deselect(config: pytest.Config, items: list[pytest.Item], left_out: set[pytest.Item]) -> None:
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def pytest_report_header() -> list[str]:
    marks = [mark for mark in (needs_cuda.mark, long_test.mark) if mark.args[0]]
    reasons = [f"deselected, not skipped one by one: {mark.kwargs['reason']}" for mark in marks]
    some = [] if LONG else [f"cases that are run of some tests: {SEED}={os.environ[SEED]}; make test-long runs all"]
    return [*reasons, *some]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> torch.device:
    return torch.device(request.param)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def the_first_tile() -> Iterator[None]:
    """All tiles of matrix products are tried by test_mma.py; elsewhere each class of sizes would time them."""
    import torch_slang  # not before the folder of its cache is known

    before = torch_slang.tuning.mode("off")
    yield
    torch_slang.tuning.mode(before)


@pytest.fixture
def seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def poisoned_memory() -> Iterator[None]:
    """In deterministic mode torch fills new memory with NaN; what has no order is a warning."""
    before = torch.utils.deterministic.fill_uninitialized_memory
    torch.utils.deterministic.fill_uninitialized_memory = True
    torch.use_deterministic_algorithms(True, warn_only=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(deterministic|CUBLAS)")
        yield
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = before


@pytest.fixture(params=[True, False], ids=["summed", "apart"])
def sums(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether a GPU's lanes sum what they add to the same elements."""
    from torch_slang import _C  # not before the folder of its cache is known

    before = _C.set_wave_sums(request.param)
    yield request.param
    _C.set_wave_sums(before)


@pytest.fixture
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def quick_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """For random programs: numbers count there, not speed. Inlining takes most of GCC's time, unoptimised too."""
    monkeypatch.setenv("TORCH_SLANG_CXXFLAGS", "-O0 -Dalways_inline=unused")
