"""With weights by fullness, insertion meets limits where memory is full for long."""

from __future__ import annotations

import numpy as np
import pytest
from support.packing_turns import endless, stacked

from cpplan.model.problem import Problem
from cpplan.packing.reduction import reduce_problem
from cpplan.packing.search.insertion_search import InsertionSearch
from cpplan.packing.search.local_search import LocalSearch, tightness
from cpplan.packing.search.staged_insertion import StagedInsertion
from cpplan.zoo.packing import random_lifespans


@pytest.mark.parametrize(
    ("search", "moves"), [(InsertionSearch, 20_000), (StagedInsertion, 10_000)]
)
def test_it_lowers_peaks_of_flat_profiles(
    monkeypatch: pytest.MonkeyPatch, search: type[LocalSearch], moves: int
) -> None:
    problem = reduce_problem(random_lifespans(800, seed=1, live=150)).problem
    state, above = stacked(problem), []
    for weights in (tightness, lambda problem: np.ones(len(problem))):
        for module in ("insertion_search", "staged_insertion"):
            monkeypatch.setattr(f"cpplan.packing.search.{module}.tightness", weights)
        found = search(problem, 0).run(state, moves=moves, target=state.bound, deadline=endless())
        above.append(found.peak - state.bound)
    assert above[0] < above[1] / 2


def test_a_problem_without_bytes_has_equal_weights() -> None:
    assert tightness(Problem((), [], [], [])).shape == (0,)
    assert tightness(Problem(("a",), [0], [1], [0])).tolist() == [1.0]
