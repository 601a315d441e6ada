"""A run ends where no search can lower the peak, also in counted time."""

from __future__ import annotations

import random
from dataclasses import replace

import cpplan
from cpplan.model.problem import Gap
from cpplan.packing.portfolio import PartSearch
from cpplan.zoo.packing import random_lifespans


def with_parts_free(seed: int):
    """Random lifespans; three in ten buffers hold only some of their bytes at some steps."""
    problem, rng = random_lifespans(80, seed=seed, live=20), random.Random(seed)
    gaps = {}
    for row in range(len(problem)):
        lower, upper = int(problem.lower[row]), int(problem.upper[row])
        size = int(problem.size[row])
        if upper - lower > 2 and size > 1 and rng.random() < 0.3:
            first = rng.randint(lower, upper - 2)
            begin = rng.randint(0, size - 1)
            last = rng.randint(first + 1, upper - 1)
            gaps[row] = (Gap(first, last, begin, rng.randint(begin + 1, size)),)
    return replace(problem, gaps=gaps)


def test_gaps_of_parts_of_too_many_buffers_for_cp_sat_end_the_run(monkeypatch):
    turns, turn = [], PartSearch.turn
    monkeypatch.setattr(
        PartSearch, "turn", lambda self, *given: (turns.append(self), turn(self, *given))[1]
    )
    plan = cpplan.solve(
        with_parts_free(0),
        time_limit=3,
        deterministic=True,
        workers=1,
        tuning={"packing": {"section_entries": 0}},
    )
    assert plan.status == "feasible"
    assert len(turns) == 1
