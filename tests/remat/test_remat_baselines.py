"""Named baselines of rematerialization."""

from __future__ import annotations

import pytest
from remat_oracle import remat_chain

from cpplan.deadline import Deadline
from cpplan.errors import InputError
from cpplan.remat import baselines
from cpplan.remat.problem import remat_problem


@pytest.mark.parametrize("name", ["chen", "dtr", "farthest_use"])
def test_within_the_limit(name):
    """n = 16 in 10 slots: the optimum costs 41."""
    problem = remat_problem(remat_chain(16))
    sequence = baselines.get(name)(problem, 10, Deadline(60))
    assert sequence is not None
    assert problem.is_sequence(sequence)
    assert problem.peak(sequence) <= 10
    assert problem.total_cost(sequence) >= 41


def test_unknown_name_lists_the_known():
    with pytest.raises(InputError, match=r"'checkmate' is not understood.*chen, dtr, farthest_use"):
        baselines.get("checkmate")
    with pytest.raises(InputError, match="'checkmate' is not understood"):
        baselines.unregister("checkmate")


def test_a_taken_name():
    with pytest.raises(InputError, match="'chen' is already registered"):
        baselines.register("chen")(baselines.get("dtr"))
