"""Rounded rows: every set that fits satisfies them, and no better number of storages does."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from support.cases import seeds

from formulations.rounding import missed_rows, round_row


@pytest.mark.parametrize("seed", seeds(40))
def test_every_set_that_fits_satisfies_every_row(seed: int) -> None:
    rng = random.Random(seed)
    size = np.array([rng.randint(0, 12) for _ in range(rng.randint(1, 7))])
    room = rng.randint(0, int(size.sum()))
    divisor, absent = rng.randint(1, 14), np.array([rng.random() < 0.5 for _ in size])
    row = round_row(size, room, divisor, absent)
    assert 0 < row.scale <= divisor
    for live in itertools.product((0, 1), repeat=len(size)):
        if size @ live <= room:
            assert row.coefficient @ live >= row.at_least


def test_of_five_storages_of_four_bytes_three_fit_into_fifteen() -> None:
    size, live = np.full(5, 4), np.full(5, 0.75)
    (divisor, absent), *others = missed_rows(size, 15, live)
    assert (divisor, absent.tolist(), others) == (4, [True] * 5, [])
    row = round_row(size, 15, divisor, absent)
    # 15 bytes hold 3 and three quarters of one.
    assert (row.coefficient.tolist(), row.at_least, row.scale) == ([-1] * 5, -3, 1)


def test_whole_values_miss_no_row() -> None:
    assert list(missed_rows(np.array([3, 4, 5]), 8, np.array([1.0, 0.0, 1.0]))) == []
