"""Lower bounds on the live bytes of every schedule within a limit on the cost.

If every schedule within a limit on the bytes costs more than allowed, the limit is too small. The
cost is bounded from the storages retained at some cuts (``cut_bounds``). The units that bound it
most as the only cut are chosen once, for a limit halfway; then one of them, two, four, … raise the
limit in turn. From a limit that is too small, Newton's method leads to the next: with the same
duals, the bound on the cost falls by the price of a byte, so that a limit is too small as long as
the bound exceeds the cost allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from cpplan.model.certificates import CutDuals
from cpplan.model.remat_problem import RematProblem
from cpplan.remat.cut_bounds import CUT_UNITS, CutSearch, heaviest, spread
from cpplan.runtime.budget import Budget

# The part of the peak that is not worth another limit.
_PRECISION = 0.001
# The part of the gap that is not worth another limit with the same cuts.
_GAP_STEP = 1 / 16
# Part of Newton's step that is taken: with less room, more storages are known not to fit.
_STEP = 0.99


class PeakBound(NamedTuple):
    """Bytes that every schedule within a limit on the cost needs, and the duals that prove it.

    ``any_cost`` is true if they prove it of schedules of any cost.
    """

    bytes: int
    certificate: CutDuals
    any_cost: bool


def is_near(least: int, peak: int) -> bool:
    """True if a peak is so near a bound that no limit between them is worth a proof."""
    return peak - least <= _PRECISION * peak


class PeakSearch:
    """A search for a bound on the live bytes of every schedule that costs at most ``most``.

    Linear bounds alone are used, which certificates prove.

    Parameters
    ----------
    problem
        A problem whose precedences have no cycle.
    most
        The most that a schedule may cost.
    order
        All units in the order of their first runs, if only such schedules count.
    exceeds
        Tells whether a cost beyond that of every unit once is too much, exactly as the caller's
        sums are rounded.
    """

    def __init__(
        self,
        problem: RematProblem,
        most: int | float,
        *,
        order: Sequence[int] | None = None,
        exceeds: Callable[[Fraction], bool] | None = None,
    ):
        base = sum(map(Fraction, problem.cost), Fraction(0))
        self._problem, self._order, self._extra = problem, order, float(most - base)
        self._too_much = exceeds or (lambda extra: base + extra > most)
        # Precedences between first runs, found when they are first needed.
        self._before: np.ndarray | None = None
        # Weights of the units that were tried as the only cut, and the limit of the first of them.
        self._weight: dict[int, float] = {}
        self._weighed_at = 0
        self._low = self._peak = 0

    def run(self, least: int, peak: int, budget: Budget) -> PeakBound | None:
        """The best bound found before the deadline; another call continues the search.

        ``None`` if nothing above ``least``, a bound known, was proved. ``peak`` has the live bytes
        of a schedule known.
        """
        self._low, self._peak = max(self._low, least), peak
        self._budget = budget
        self._found: PeakBound | None = None
        before = -1
        while before < self._low < peak and not budget.deadline.expired():
            before = self._low
            middle = peak - 1 if is_near(self._low, peak) else (self._low + peak) // 2
            for cuts in self._sets(middle):
                self._raise(cuts, self._low if len(cuts) > 1 else middle)
                if self._low >= peak or budget.deadline.expired():
                    break
        return self._found

    def _search(self, limit: int) -> CutSearch:
        """A search for the bound on the cost within a limit."""
        if self._before is None and len(self._problem) <= CUT_UNITS:
            from formulations.retained_at_cuts import precedence

            self._before = precedence(self._problem, self._order)
        return CutSearch(self._problem, limit, self._budget, self._order, before=self._before)

    def _sets(self, limit: int) -> Iterator[tuple[int, ...]]:
        """Sets of cuts: the heaviest units of the heaviest path, and heavy ones all along it."""
        last = limit == self._peak - 1
        if len(self._weight) == len(self._problem) or (last and limit != self._weighed_at):
            self._weight.clear()
            self._weighed_at = limit
        weight, count = self._weight, 1
        path = self._search(limit).weighted_path(weight)
        while path:
            yield from dict.fromkeys((heaviest(path, weight, count), spread(path, weight, count)))
            if count >= len(path):
                break
            count *= 2

    def _raise(self, cuts: tuple[int, ...], limit: int) -> None:
        """Raise the bound as far as these cuts do, from a limit on."""
        high = self._peak
        if is_near(self._low, high):
            # Of a gap too small for steps, all of it or nothing.
            limit = high - 1
        while self._low <= limit < high and not self._budget.deadline.expired():
            step = self._try(limit, cuts)
            if step is None and limit == self._low:
                return
            if step is None:
                high = limit
            else:
                self._low = limit + 1
                limit += step
            if is_near(self._low, self._peak):
                limit = self._peak - 1
            elif min(limit, high) - self._low <= _GAP_STEP * (self._peak - self._low):
                return
            elif limit >= high:
                limit = (self._low + high) // 2

    def _try(self, limit: int, cuts: tuple[int, ...]) -> int | None:
        """Bytes by which a limit may rise, by its duals, if it is too small; else ``None``."""
        search = self._search(limit)
        search.relax(cuts, self._budget.deadline)
        proof = search.certified()
        if proof.certificate is None or not (proof.infeasible or self._too_much(proof.extra)):
            return None
        self._found = PeakBound(limit + 1, proof.certificate, proof.infeasible)
        price = search.price_of_a_byte()
        if proof.infeasible or not price:
            return (self._peak - limit) // 2
        return int(min(_STEP * (float(proof.extra) - self._extra) / price, self._peak - limit))
