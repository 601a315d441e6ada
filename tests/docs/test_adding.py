"""Pages that say how to extend cpplan, followed to the letter."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest
from support.pages import ROOT, Block, blocks_of, carry_out, copy_project

PAGES = sorted(path for path in (ROOT / "docs/adding").glob("*.md") if path.stem != "index")


def test_every_kind_of_addition_has_a_page() -> None:
    assert [page.stem for page in PAGES] == ["constraint", "heuristic", "objective", "reader"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_index_says_how_many_files_a_page_touches(page: Path) -> None:
    touched = {
        block.path or block.text.splitlines()[0].removeprefix("--- ")
        for block in blocks_of(page.read_text(encoding="utf-8"))
        if block.path is not None or block.language == "diff"
    }
    index = (ROOT / "docs/adding/index.md").read_text(encoding="utf-8")
    row = next(line for line in index.splitlines() if f"({page.name})" in line)
    count = sum(not path.startswith("tests/") for path in touched)
    assert re.findall(r"\d+", row) == [str(count)]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_followed_to_the_letter_works(page: Path, tmp_path: Path) -> None:
    blocks = blocks_of(page.read_text(encoding="utf-8"))
    assert any(block.path is not None for block in blocks)
    assert any(block.language == "console" for block in blocks)
    copy_project(tmp_path)
    for block in blocks:
        carry_out(block, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_sessions_of_a_page_print_what_it_shows(page: Path, monkeypatch) -> None:
    monkeypatch.chdir(ROOT)
    blocks = blocks_of(page.read_text(encoding="utf-8"))
    session = "\n".join(block.text for block in blocks if block.language == "pycon")
    examples = doctest.DocTestParser().get_doctest(session, {}, page.stem, str(page), 0)
    told: list[str] = []
    doctest.DocTestRunner(verbose=False).run(examples, out=told.append)
    assert not told, "".join(told)


def test_change_that_does_not_fit_its_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\ny = 2\n")
    with pytest.raises(AssertionError, match="0 places have the lines"):
        carry_out(Block("diff", None, "--- a.py\n@@\n x = 3\n+z = 4\n"), tmp_path)
    carry_out(Block("diff", None, "--- a.py\n@@\n x = 1\n+z = 4\n-y = 2\n"), tmp_path)
    assert (tmp_path / "a.py").read_text() == "x = 1\nz = 4\n"


def test_command_that_prints_something_else_is_refused(tmp_path: Path) -> None:
    block = Block("console", None, "$ python -c 'print(1)'\n2\n")
    with pytest.raises(AssertionError):
        carry_out(block, tmp_path)
