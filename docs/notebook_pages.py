"""Pages of the site that are made from notebooks, and a gallery of them.

The notebooks lie in the folder that the environment variable ``CPPLAN_NOTEBOOKS`` names, where CI
has executed them; by default in ``notebooks/``, where they have no outputs. Their pages are written
to ``docs/gallery`` before the site is built.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
INDEX = """# Gallery

Studies that can be run: each answers one question, with the figures that its code drew. They lie in
the folder `notebooks` of the repository.
"""


def setup(app: Any) -> dict[str, bool]:
    """Write the pages when Sphinx has read its settings."""
    app.connect("config-inited", lambda app, config: write_pages(DOCS / "gallery"))
    return {"parallel_read_safe": True}


def write_pages(folder: Path) -> None:
    """Write a page for each notebook, its pictures, and the index, into a folder made anew."""
    import nbformat
    from nbconvert import MarkdownExporter

    notebooks = Path(os.environ.get("CPPLAN_NOTEBOOKS", DOCS.parent / "notebooks"))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    cards: list[str] = []
    names: list[str] = []
    for path in sorted(notebooks.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        resources = {"unique_key": path.stem, "output_files_dir": "."}
        text, made = MarkdownExporter().from_notebook_node(notebook, resources=resources)
        (folder / f"{path.stem}.md").write_text(text, encoding="utf-8")
        for name, data in made["outputs"].items():
            (folder / name).write_bytes(data)
        pictures = [name for name in made["outputs"] if name.endswith((".png", ".svg"))]
        cards.append(card(notebook.cells[0].source, path.stem, pictures))
        names.append(path.stem)
    tree = "\n".join(("```{toctree}", ":hidden:", "", *names, "```"))
    (folder / "index.md").write_text("\n".join((INDEX, *cards, tree, "")), encoding="utf-8")


def card(first_cell: str, page: str, pictures: list[str]) -> str:
    """Heading with a link, question and first picture of a notebook.

    The heading of a notebook is ``# Topic: question?``, and its first paragraph follows.
    """
    heading, _, text = first_cell.partition("\n")
    topic, _, question = heading.removeprefix("# ").partition(": ")
    shown = f"\n[![{topic}]({Path(pictures[0]).name})]({page}.md)\n" if pictures else ""
    paragraph = text.strip().split("\n\n")[0]
    asked = question[:1].upper() + question[1:]
    return f"## [{topic}]({page}.md)\n\n**{asked}**\n\n{paragraph}\n{shown}"
