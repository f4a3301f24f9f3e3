"""The manual names files and pages that exist, and each answer of docs/architecture.md is two files at most."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
OF_OTHERS = {"tests/triangle_rasterization/test_composite.py"}  # of another repository
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), TESTS / "README.md"]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
FILE = re.compile(r"[\w./-]*\w\.(?:h|cpp|py|slang)\b")
FOLDERS = ["csrc", "csrc/compiler", "docs", "examples", "ops", "scripts", "slang", "tests", "torch_slang"]
FILES = {
    str(path.relative_to(ROOT))
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".h", ".cpp", ".py", ".slang"}
}


def is_there(name: str) -> bool:
    return any(path == name or path.endswith(f"/{name}") for path in FILES)


def test_files_in_the_architecture_exist() -> None:
    # `torch.ops.slang` is no file, and a row of a table may stand for several.
    named = {name for name in FILE.findall(ARCHITECTURE) if not name.startswith("torch.ops")}
    assert len(named) > 50
    assert sorted(name for name in named if not is_there(name)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_headings(page: Path) -> None:
    wrong = []
    for link, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text()):
        target = page.parent / link if link else page
        headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
        if anchor not in anchors:
            wrong.append(f"{link}#{anchor}")
    assert wrong == []


def test_an_answer_is_two_files_at_most() -> None:
    rows = ARCHITECTURE.split("## Where is ...")[1].split("\n## ")[0].splitlines()
    answers = [row.split("|")[2] for row in rows if row.startswith("| ") and row.strip("| ")]
    assert len(answers) >= 8
    assert [answer for answer in answers if not 1 <= len(FILE.findall(answer)) <= 2] == []


def test_tests_stand_in_the_folders_that_their_page_lists_and_no_two_have_one_name() -> None:
    files = list(TESTS.rglob("test_*.py"))
    listed = re.findall(r"^\| (\w+) \| .*\.md", (TESTS / "README.md").read_text(), re.MULTILINE)
    assert {path.parent.relative_to(TESTS).as_posix() for path in files} == set(listed)
    assert len({path.name for path in files}) == len(files)


# A changelog names what was there then.
@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: page.name)
def test_tests_that_pages_name_exist(page: Path) -> None:
    named = set(re.findall(r"(?<![\w/])(?:tests/[\w/]*)?test_\w+\.py", page.read_text())) - OF_OTHERS
    assert sorted(name for name in named if not is_there(name)) == []
