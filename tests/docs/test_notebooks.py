"""Notebooks have what their pages in the gallery show: a question, and a figure."""

from __future__ import annotations

import json
import re
import sys

import pytest
from support.sources import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_begins_with_a_question_and_draws_a_figure(path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    heading = "".join(cells[0]["source"]).partition("\n")[0]
    assert re.fullmatch(r"# [A-Z][\w ]+: [a-z].*\?", heading)
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert any("plt.subplots" in text or "show_arena" in text for text in code)
    assert not any(cell.get("outputs") for cell in cells)


def test_pages_are_written_with_the_pictures_of_executed_notebooks(tmp_path, monkeypatch) -> None:
    nbformat = pytest.importorskip("nbformat", reason="cpplan[notebooks] is not installed")
    pytest.importorskip("nbconvert", reason="cpplan[notebooks] is not installed")
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
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
    assert "## [Order](01_order.md)\n\n**What does it save?**\n\nA paragraph\nof two lines." in index
    (name,) = re.findall(r"!\[Order\]\((.*?)\)", index)
    assert (tmp_path / "gallery" / name).read_bytes() == b"\x89PNG\r\n\x1a\n"
    assert name in (tmp_path / "gallery" / "01_order.md").read_text(encoding="utf-8")
