"""Greedy eviction: values are freed when memory runs out along an order, and computed on demand.

Values that can be computed again are freed by the score of a rule, the highest first. Before a unit
reads a freed value, the value is computed again, recursively, within the limit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from cpplan.model.problem import Ints
from cpplan.model.remat_problem import RematProblem
from cpplan.remat.heuristics.eviction_kernel import begin_evicting, run_evicting, scratch_for
from cpplan.remat.loops import EVICTION
from cpplan.remat.search.flat_problem import FlatProblem, flatten
from cpplan.runtime.compiled import prepare
from cpplan.runtime.deadline import Deadline, TimeUpError

# Runs, as a multiple of the units, above which these heuristics give up a schedule.
_EVICTION_LONGEST = 12

# Pairs of units and storages visited in a second, about, for deadlines that count work.
_RATE = 8e7
# Units and storages visited between two looks at the clock.
_A_TURN = 10_000_000
# Returned in place of a length by a run that has not ended.
_TO_GO_ON = -2


class Rule(NamedTuple):
    """A rule to free values: the largest score ``bytes^size × distance^time / price^cost`` first.

    The price is the cost of computing the value again, including all freed values that this needs.

    Attributes
    ----------
    size, time, cost
        Exponents of the value's bytes, distance and price.
    future
        True if the distance is the number of units of the order before the value's next use, false
        if it is the number of units run since its last one.
    """

    size: float
    time: float
    cost: float
    future: bool


# Kirisame et al., "Dynamic Tensor Rematerialization" (ICLR 2021): cost / (size × staleness).
DTR = Rule(1, 1, 1, future=False)
# Belady, "A study of replacement algorithms for a virtual-storage computer" (1966), weighted.
FARTHEST_USE = Rule(1, 1, 1, future=True)
CHEAPEST, FARTHEST, LARGEST = Rule(1, 0, 1, True), Rule(0, 1, 0, True), Rule(1, 0, 0, True)
RULES = (FARTHEST_USE, DTR, CHEAPEST, FARTHEST, LARGEST)
NAMES = ("farthest_use", "dtr", "cheapest", "farthest", "largest")


def evict(
    problem: RematProblem,
    order: Iterable[int],
    limit: int,
    deadline: Deadline,
    *,
    rule: Rule = FARTHEST_USE,
) -> tuple[int, ...] | None:
    """A schedule within ``limit`` bytes along an order of units; ``None`` if the rule finds none.

    O(units × evictions) at worst.

    Raises
    ------
    TimeUpError
        If the deadline passes.
    """
    deadline.check()
    units = tuple(order)
    if problem.peak(units) <= limit:
        return units
    found = Evictions(problem).run(units, limit, rule, deadline)
    return found if found is not None and problem.peak(found) <= limit else None


class Evictions:
    """Eviction by several rules on one problem; its arrays are made once.

    A schedule exceeds the limit if no value is left to free.
    """

    def __init__(self, problem: RematProblem):
        self._flat: FlatProblem = flatten(problem)
        self._buffer = np.empty(_EVICTION_LONGEST * len(problem) + 16, np.int64)
        self._scratch = scratch_for(self._flat)

    def run(
        self,
        order: Iterable[int],
        limit: int,
        rule: Rule,
        deadline: Deadline,
        factor: np.ndarray | None = None,
    ) -> tuple[int, ...] | None:
        """The schedule by a rule, or ``None`` if it would be too long.

        ``factor`` multiplies the score of every storage, shape ``(storages,)``.

        Raises
        ------
        TimeUpError
            If the deadline passes.
        """
        if not prepare(EVICTION, deadline):
            raise TimeUpError
        units: Ints = np.fromiter(order, np.int64)
        powers = np.array(rule, np.float64)
        if factor is None:
            factor = np.ones(len(self._flat.size))
        flat, scratch = self._flat, self._scratch
        begin_evicting(flat, units, scratch)
        length = _TO_GO_ON
        while length == _TO_GO_ON:
            deadline.check()
            length = run_evicting(
                flat, units, limit, powers, factor, self._buffer, scratch, _A_TURN
            )
        deadline.spend((max(length, 0) + len(units)) * len(self._flat.size) / _RATE)
        return None if length < 0 else tuple(self._buffer[:length].tolist())
