"""The best packing and bound of a run, part by part."""

from __future__ import annotations

import numpy as np

from cpplan.model.problem import Problem
from cpplan.packing.incumbent import Incumbent
from cpplan.packing.search.outcome import Outcome
from cpplan.packing.shortfall import explain_shortfall


def test_a_bound_that_another_part_proves_is_explained_by_that_part():
    # Two parts: 12 bytes are live at step 1, but the second part is proved to need 13.
    problem = Problem(
        ("a", "b", "c", "d", "e"),
        lower=[0, 1, 10, 11, 11],
        upper=[2, 3, 12, 13, 12],
        size=[4, 8, 4, 6, 1],
    )
    incumbent = Incumbent(problem, limit=12)
    assert incumbent.bound.step == 1
    part = int(incumbent.reduction.part[incumbent.reduction.rows == 2][0])
    _, rows = incumbent.reduction.part_problem(part)
    state = incumbent.part_state(part, rows)
    incumbent.offer_part(part, rows, state._replace(bound=13, bound_by="search"))
    assert incumbent.bound == (13, "search", 11)
    message = explain_shortfall(problem, incumbent.bound, 16, 12)
    assert message.endswith("live at step 11: d (6 B), c (4 B), e (1 B)")


def test_a_part_that_proves_no_more_leaves_the_bound_as_it_is():
    problem = Problem(("a", "b"), lower=[0, 5], upper=[2, 7], size=[8, 4])
    incumbent = Incumbent(problem)
    before = incumbent.bound
    _, rows = incumbent.reduction.part_problem(1)
    incumbent.offer_part(1, rows, Outcome(np.zeros(1, np.int64), 4, 8, "search", "search"))
    assert incumbent.bound == before
