"""Our exact searches on one problem, in turns: neither is always the quicker one."""

from __future__ import annotations

from collections.abc import Callable

from cpplan.model.problem import Problem
from cpplan.packing.search import canonical_search, niche_search
from cpplan.packing.search.canonical_search import CanonicalSearch
from cpplan.packing.search.niche_search import NicheSearch
from cpplan.packing.search.outcome import Outcome
from cpplan.packing.tuning import active
from cpplan.runtime.deadline import Deadline


def applies_to(problem: Problem) -> bool:
    """True if any of the exact searches can represent the problem.

    Examples
    --------
    >>> applies_to(Problem(("a", "b"), lower=[0, 1], upper=[2, 3], size=[4, 8]))
    True
    """
    return canonical_search.applies_to(problem)


class ExactSearch:
    """A search that can be continued.

    Parameters
    ----------
    problem
        A reduced part to which one of the searches applies.
    seed
        Of their perturbed orders.

    Examples
    --------
    >>> import numpy as np
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 4])
    >>> start = Outcome(np.array([0, 4, 12]), 16, 12)
    >>> search = ExactSearch(problem, seed=0)
    >>> search.run(start, nodes=100, goal=0, ceiling=None, deadline=Deadline(60)).peak
    12
    """

    def __init__(self, problem: Problem, seed: int):
        self._turns: list[tuple[NicheSearch | CanonicalSearch, float]] = []
        if niche_search.applies_to(problem):
            self._turns.append((NicheSearch(problem, seed), 1 - active().canonical_share))
        share = active().canonical_share if self._turns else 1.0
        self._turns.append((CanonicalSearch(problem, seed), share))

    def run(
        self,
        state: Outcome,
        *,
        nodes: int,
        goal: int,
        ceiling: int | None,
        deadline: Deadline,
        report: Callable[[Outcome], object] = lambda outcome: None,
    ) -> Outcome:
        """Continue for ``nodes`` nodes; see :meth:`NicheSearch.run`."""
        for search, share in self._turns:
            state = search.run(
                state,
                nodes=max(1, int(share * nodes)),
                goal=goal,
                ceiling=ceiling,
                deadline=deadline,
                report=report,
            )
        return state
