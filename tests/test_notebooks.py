"""Notebooks as they are committed: readable as text, valid, one question and one table each.

CI runs them; here is what can be told without that.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent / "notebooks"
NAMES = sorted(path.name for path in FOLDER.glob("*.ipynb"))


@pytest.fixture(params=NAMES)
def notebook(request: pytest.FixtureRequest) -> dict[str, Any]:
    return json.loads((FOLDER / request.param).read_text(encoding="utf-8"))


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def test_there_is_a_study_of_each_subject() -> None:
    subjects = [name.split("_", 1)[1].removesuffix(".ipynb") for name in NAMES]
    expected = ["baselines", "ordering", "storage", "rematerialization", "packing"]
    expected += ["symbolic_shapes", "batch", "splitting", "training", "spilling", "tvm"]
    assert subjects == expected


def test_outputs_are_not_committed(notebook: dict[str, Any]) -> None:
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in code)
    assert all(cell["execution_count"] is None for cell in code)


def test_sources_are_lines(notebook: dict[str, Any]) -> None:
    """One line of text a line of the file, so that differences can be read."""
    for cell in notebook["cells"]:
        assert isinstance(cell["source"], list)
        assert all("\n" not in line[:-1] for line in cell["source"])


def test_cells_have_ids_that_stay(notebook: dict[str, Any]) -> None:
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    found = [cell["id"] for cell in notebook["cells"]]
    assert found == [f"cell-{k:02d}" for k in range(len(found))]


def test_title_is_a_question_and_the_last_cell_a_table(notebook: dict[str, Any]) -> None:
    title = source(notebook["cells"][0]).splitlines()[0]
    assert re.fullmatch(r"# [A-Z][\w ]+: [a-z].*\?", title)
    before, last = notebook["cells"][-2:]
    assert "## In one table" in source(before)
    assert "## What was learned" in "".join(map(source, notebook["cells"]))
    assert last["cell_type"] == "code"
    shown = ast.parse(source(last)).body[-1]
    assert isinstance(shown, ast.Expr), "the last line is what is shown"


def test_no_path_is_absolute(notebook: dict[str, Any]) -> None:
    for cell in notebook["cells"]:
        assert not re.search(r"""["'`(]/[a-z]""", source(cell))


def test_notebook_draws_a_figure(notebook: dict[str, Any]) -> None:
    code = [source(cell) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert any("plt.subplots" in text for text in code)


def test_pages_are_written_with_the_pictures_of_executed_notebooks(tmp_path, monkeypatch) -> None:
    nbformat = pytest.importorskip("nbformat", reason="cpplan[notebooks] is not installed")
    pytest.importorskip("nbconvert", reason="cpplan[notebooks] is not installed")
    monkeypatch.syspath_prepend(str(FOLDER.parent / "docs"))
    picture = {"output_type": "display_data", "data": {"image/png": "iVBORw0KGgo="}, "metadata": {}}
    cells = [
        nbformat.v4.new_markdown_cell("# Order: what does it save?\n\nA paragraph\nof two lines."),
        nbformat.v4.new_code_cell("1 + 1", outputs=[nbformat.from_dict(picture)]),
    ]
    (tmp_path / "executed").mkdir()
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbformat.write(notebook, tmp_path / "executed" / "01_order.ipynb")
    monkeypatch.setenv("CPPLAN_NOTEBOOKS", str(tmp_path / "executed"))
    from notebook_pages import write_pages

    sys.modules.pop("notebook_pages")
    write_pages(tmp_path / "gallery")
    index = (tmp_path / "gallery" / "index.md").read_text(encoding="utf-8")
    assert (
        "## [Order](01_order.md)\n\n**What does it save?**\n\nA paragraph\nof two lines." in index
    )
    (name,) = re.findall(r"!\[Order\]\((.*?)\)", index)
    assert (tmp_path / "gallery" / name).read_bytes() == b"\x89PNG\r\n\x1a\n"
    assert name in (tmp_path / "gallery" / "01_order.md").read_text(encoding="utf-8")
