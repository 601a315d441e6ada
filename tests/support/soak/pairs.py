"""Pairs of options: a random cell of the matrix, on a random model of its source."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from support.pairs.cells import false_cell
from support.pairs.covering import complete
from support.pairs.models import is_installed
from support.pairs.options import OPTIONS, forbidden

from .case import Case

_DEFAULT = 0.4  # share of options that have their default if they may


def pairs(rng: random.Random) -> Case:
    """A cell that is not refused, of a source whose packages are installed."""
    options = {}
    for name, values in OPTIONS.items():
        known = [v for v in values if name != "source" or is_installed(v)]
        drawn = rng.sample(known, len(known))
        plain = name not in ("source", "use") and rng.random() < _DEFAULT
        options[name] = tuple(sorted(drawn, key=lambda v: v != values[0]) if plain else drawn)
    cell = complete(options, {}, forbidden())
    assert cell is not None
    number = rng.randrange(10**9)
    lines = (f"cell = {cell!r}", f"finds = false_cell(cell, {number}, Path(mkdtemp()))")

    def false() -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            finds = false_cell(cell, number, Path(folder))
        return [f"assert finds == []  # {' '.join(find.split())[-300:]}" for find in finds]

    return Case(lines, false)
