"""Rounds of CP-SAT on one problem."""

import numpy as np
import pytest

from cpplan.model.problem import Problem
from cpplan.packing.search import cp_sat_packing
from cpplan.packing.search.outcome import Outcome
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline


def _stacked() -> tuple[Problem, Outcome]:
    """Three buffers stacked to a peak of 12 B; the first and the last are never live together."""
    problem = Problem(("a", "b", "c"), [0, 0, 1], [1, 2, 2], [4, 4, 4])
    return problem, Outcome(np.array([0, 4, 8]), 12, 4)


def test_a_round_ends_at_the_smallest_peak() -> None:
    problem, state = _stacked()
    found = cp_sat_packing.run_round(problem, state, Budget(Deadline(60)), work=1.0)
    assert (found.peak, found.bound) == (8, 8)


def test_a_round_whose_models_are_never_built_keeps_its_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Time may be up while a model is built: its run has no answer, not an error."""
    monkeypatch.setattr(cp_sat_packing, "build_in_time", lambda build, deadline: None)
    problem, state = _stacked()
    found = cp_sat_packing.run_round(problem, state, Budget(Deadline(60)), work=1.0)
    assert found.offsets.tolist() == [0, 4, 8]
    assert (found.peak, found.bound) == (12, 4)
