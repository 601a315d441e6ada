"""The covering arrays: every combination that may be is in a row, and every row may be."""

from __future__ import annotations

import random
from itertools import combinations, product

import pytest
from support.cases import seeds
from support.pairs.covering import cover
from support.pairs.options import OPTIONS, exists, forbidden, refused_by


@pytest.mark.parametrize("seed", seeds(20))
def test_rows_have_every_combination_that_is_in_a_possible_row(seed: int) -> None:
    rng = random.Random(seed)
    options = {name: tuple(range(rng.randint(1, 3))) for name in "abcde"}
    clauses = [
        {name: rng.choice(options[name]) for name in rng.sample("abcde", rng.randint(1, 3))}
        for _ in range(rng.randint(0, 8))
    ]
    rows = [dict(zip(options, values, strict=True)) for values in product(*options.values())]
    may_be = [row for row in rows if not any(c.items() <= row.items() for c in clauses)]
    strength = rng.randint(1, 3)
    found = cover(options, strength, clauses)
    assert all(row in may_be for row in found.rows)
    wanted = {c for row in may_be for c in combinations(row.items(), strength)}
    assert {c for row in found.rows for c in combinations(row.items(), strength)} == wanted
    assert found.covered == len(wanted)
    assert wanted.isdisjoint(found.impossible)


def test_all_pairs_of_options_are_covered_by_cells_that_are_not_refused() -> None:
    found = cover(OPTIONS, 2, forbidden())
    assert all(exists(cell) and refused_by(cell) is None for cell in found.rows)
    assert {(name, v) for name in OPTIONS for v in OPTIONS[name]} == {
        item for cell in found.rows for item in cell.items()
    }
    assert found.covered > 2500
    assert len(found.rows) < 200
