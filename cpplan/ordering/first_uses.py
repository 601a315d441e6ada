"""The smallest uses of the searches that reach every compiled loop, with their real types."""

from __future__ import annotations

import numpy as np

from cpplan.model.order_problem import OrderProblem
from cpplan.ordering import heuristics
from cpplan.ordering.search.downset_search import search_downsets
from cpplan.runtime.deadline import Deadline

_ENDLESS = Deadline(float("inf"))


def use_beam() -> None:
    """Order two chains of two ops by the beam."""
    heuristics.get("beam")(_two_chains(), _ENDLESS)


def use_downsets() -> None:
    """Order two chains of two ops exactly."""
    search_downsets(_two_chains(), [0, 1, 2, 3], _ENDLESS, level=0, states=100)


def _two_chains() -> OrderProblem:
    return OrderProblem(
        predecessors=((), (), (0,), (1,)),
        extra=np.zeros(4, np.int64),
        size=np.array([8, 8, 1, 1]),
        accessed_by=((0, 2), (1, 3), (2,), (3,)),
        present=np.zeros(4, bool),
        kept=np.array([False, False, True, True]),
    )
