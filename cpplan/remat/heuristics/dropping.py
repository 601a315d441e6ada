"""Greedy dropping: values are freed where most bytes are live, and computed again when read.

At the fullest position, every value that is not used there may be freed until its next reader. With
it, what its writer reads must be there again: kept from its last use on where that fits, computed
again where not. Of all these, the one is taken that saves the most bytes beyond the limit, added up
over all positions, for its cost. So nothing is freed that is dear to compute again, as eviction
along an order does: there it is known too late what a freed value costs.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from cpplan.remat.loops import SCHEDULES
from cpplan.remat.problem import RematProblem
from cpplan.remat.search.flat_problem import flatten
from cpplan.remat.search.schedule_kernel import drop_values, space_for
from cpplan.remat.tuning import active
from cpplan.runtime.compiled import prepare
from cpplan.runtime.deadline import Deadline, TimeUpError

NAME = "greedy dropping"
# Values freed from one look at the deadline to the next.
_STEPS = 20


def drop(
    problem: RematProblem, start: Iterable[int], limit: int, deadline: Deadline
) -> tuple[int, ...]:
    """A schedule made from another by dropping values until it is within ``limit`` bytes.

    It exceeds the limit where no value is left whose dropping helps. O(units × storages) for each
    value dropped at worst.

    Parameters
    ----------
    start
        A valid schedule; first runs keep its order.

    Raises
    ------
    TimeUpError
        If the deadline passes.

    Examples
    --------
    >>> from cpplan.model.graph import Graph, Op, Tensor
    >>> from cpplan.remat.problem import remat_problem
    >>> tensors = Tensor("a", 4), Tensor("b", 8), Tensor("c", 2), Tensor("y", 1, kind="output")
    >>> ops = (
    ...     Op("f", outputs=("a",)),
    ...     Op("g", inputs=("a",), outputs=("b",)),
    ...     Op("h", inputs=("b",), outputs=("c",)),
    ...     Op("k", inputs=("a", "c"), outputs=("y",)),
    ... )
    >>> drop(remat_problem(Graph("g", tensors, ops)), range(4), 12, Deadline(600))
    (0, 1, 2, 0, 3)
    """
    if not prepare(SCHEDULES, deadline):
        raise TimeUpError
    units = np.fromiter(start, np.int64)
    length = len(units)
    schedule = np.zeros(active().dropping_longest * len(problem) + length + 16, np.int64)
    schedule[:length] = units
    flat, random = flatten(problem), np.random.default_rng(0)
    going, space = np.array([1.0, 0.0]), space_for(flat, len(schedule))
    while length and going[0]:
        deadline.check()
        length = drop_values(flat, limit, schedule, length, _STEPS, going, random, space)
        deadline.spend(going[1])
    return tuple(schedule[:length].tolist())
