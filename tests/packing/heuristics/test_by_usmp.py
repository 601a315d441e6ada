"""USMP's algorithms by name: what they answer, and that what is wrong with it is said."""

from __future__ import annotations

import numpy as np
import pytest

import cpplan
from cpplan import Problem
from cpplan.model.errors import VerificationError
from cpplan.packing import heuristics
from cpplan.runtime.deadline import Deadline, TimeUpError

NAMES = ("usmp_greedy_by_size", "usmp_greedy_by_conflicts", "usmp_hill_climb")


def test_usmp_heuristics_are_marked_as_published():
    assert set(heuristics.names()) - set(heuristics.names(as_published=False)) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_stack_of_all_that_is_live_together(name: str):
    problem = Problem(("a", "b", "c"), lower=[0, 0, 1], upper=[1, 2, 2], size=[4, 8, 4])
    plan = cpplan.solve(problem, algorithm=name)
    assert (plan.found_by, plan.peak) == (name, 12)


def test_room_between_two_is_not_looked_for_by_the_greedy_ones():
    # Largest first: z (60) lies at 0, x (40) above it at 60; y (39) meets only x, and would fit
    # below it, but goes above it.
    problem = Problem(("x", "y", "z"), lower=[0, 1, 0], upper=[2, 2, 1], size=[40, 39, 60])
    offsets = heuristics.get("usmp_greedy_by_size")(problem, Deadline(10))
    assert offsets.tolist() == [60, 100, 0]
    assert heuristics.get("greedy_by_size")(problem, Deadline(10)).tolist() == [60, 0, 0]


def test_the_neighbour_s_alignment_makes_an_invalid_layout_which_is_named():
    # b (4 B, aligned to 16) lies above a (10 B, aligned to 1): at 10, by a's alignment.
    problem = Problem(("a", "b"), [0, 0], [1, 1], [10, 4], alignment=[1, 16])
    with pytest.raises(VerificationError, match=r"'usmp_greedy_by_size': buffer 'b'.* offset 10"):
        cpplan.solve(problem, algorithm="usmp_greedy_by_size")
    table = cpplan.compare(problem, algorithms=["usmp_greedy_by_size", "greedy_by_size"])
    rows = {row.algorithm: row for row in table.itertuples()}
    assert rows["usmp_greedy_by_size"].status == "invalid"
    assert np.isnan(rows["usmp_greedy_by_size"].bytes)
    assert rows["greedy_by_size"].bytes == 20  # b at 16


@pytest.mark.parametrize("name", NAMES)
def test_the_deadline_holds(name: str):
    problem = Problem(("a", "b"), [0, 0], [1, 1], [10, 4])
    deadline = Deadline(10)
    deadline.cancel()
    with pytest.raises(TimeUpError):
        heuristics.get(name)(problem, deadline)
