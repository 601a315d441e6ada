"""Whole storages one above the other."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from cpplan.model.problem import Problem
from cpplan.packing import heuristics
from cpplan.packing.storage_ids.by_size import shared_objects
from cpplan.packing.storage_ids.tokens import storage_tokens
from cpplan.runtime.deadline import Deadline

ASSIGNED = {"storage_tokens": storage_tokens, "shared_objects": shared_objects}


@pytest.mark.parametrize("name", ASSIGNED)
@pytest.mark.parametrize("seed", range(20))
def test_each_storage_begins_aligned_above_the_one_before(name, seed):
    chance = random.Random(seed)
    count = chance.randrange(12)
    lower = [chance.randrange(6) for _ in range(count)]
    problem = Problem(
        [f"b{k}" for k in range(count)],
        lower,
        [low + chance.randrange(1, 5) for low in lower],
        [chance.randrange(9) for _ in range(count)],
        alignment=[chance.choice((1, 2, 4, 6)) for _ in range(count)],
    )
    storage = ASSIGNED[name](problem, np.zeros(count, np.int64), Deadline(math.inf))
    top, expected = 0, [0] * count
    for number in range(max(storage.tolist(), default=-1) + 1):
        rows = np.flatnonzero(storage == number).tolist()
        unit = math.lcm(*(int(problem.alignment[row]) for row in rows))
        top = math.ceil(top / unit) * unit
        for row in rows:
            expected[row] = top
        top += max(int(problem.size[row]) for row in rows)
    assert heuristics.get(name)(problem, Deadline(math.inf)).tolist() == expected


def test_storages_lie_above_fixed_buffers():
    problem = Problem(
        ("a", "b", "c"), [0, 0, 0], [2, 2, 2], [4, 8, 2], alignment=[1, 4, 1], fixed={0: 3}
    )
    offset = heuristics.get("shared_objects")(problem, Deadline(math.inf))
    assert offset.tolist() == [3, 8, 16]
