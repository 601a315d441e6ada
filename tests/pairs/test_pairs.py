"""Every pair of options on random models, and every triple in the slow run."""

from __future__ import annotations

import shutil
import traceback
from functools import cache
from pathlib import Path

import pytest
from support.cases import FACTOR
from support.pairs.cells import Run
from support.pairs.covering import cover
from support.pairs.models import is_installed, make_model
from support.pairs.options import OPTIONS, Cell, changed, forbidden

BLOCKS, SLOW_BLOCKS = 12, 24


@cache
def cells(strength: int) -> list[Cell]:
    return cover(OPTIONS, strength, forbidden()).rows


def false_cells(strength: int, block: int, blocks: int, folder: Path) -> list[str]:
    """Everything false about every ``blocks``-th cell."""
    finds = []
    for round_ in range(FACTOR):
        for number, cell in enumerate(cells(strength)):
            if number % blocks == block and is_installed(cell["source"]):
                finds += false_cell(cell, number + round_ * len(cells(strength)), folder)
    return finds


def false_cell(cell: Cell, number: int, folder: Path) -> list[str]:
    """Everything false about a cell on the model with a number."""
    folder = folder / str(number)
    folder.mkdir()
    try:
        if cell["source"] == "executorch":
            from support.pairs.lowered import false_program

            found = false_program(cell, number)
        else:
            model = make_model(cell["source"], cell["sizes"], number, folder)
            found = Run(model, folder).check(cell)
    except Exception:  # any error at all is a find
        found = [traceback.format_exc()]
    shutil.rmtree(folder)
    return [f"model {number}, {changed(cell)}: {find}" for find in found]


@pytest.mark.parametrize("block", range(BLOCKS))
def test_all_pairs_of_options_keep_every_rule(block: int, tmp_path: Path) -> None:
    assert false_cells(2, block, BLOCKS, tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("block", range(SLOW_BLOCKS))
def test_all_triples_of_options_keep_every_rule(block: int, tmp_path: Path) -> None:
    assert false_cells(3, block, SLOW_BLOCKS, tmp_path) == []
