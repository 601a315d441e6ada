"""Lower bounds on the live bytes of every schedule within a limit on the cost.

If every schedule within a limit on the bytes costs more than allowed, the limit is too small. The
cost is bounded from the storages retained at some cuts (``cut_bounds``). Cuts are chosen for a
limit between the bound and the best peak known, and then raise the bound as far as they can. From a
limit that is too small, Newton's method leads to the next: with the same duals, the bound on the
cost falls by the price of a byte, so that a limit is too small as long as the bound exceeds the
cost allowed. If the cuts chosen do not prove that a limit is too small, the next one is nearer to
the bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cpplan.model.certificates import CutDuals
from cpplan.model.remat_problem import RematProblem
from cpplan.remat.cut_bounds import CutSearch
from cpplan.runtime.budget import Budget

if TYPE_CHECKING:
    from formulations.retained_at_cuts import Rounding

# The part of the peak that is not worth another limit.
_PRECISION = 0.001
# The part of the gap that is not worth another limit with the same cuts.
_GAP_STEP = 1 / 32
# Limits for which cuts are chosen, as parts of the gap above the bound: the first, the least, and
# their ratio after a failure.
_FIRST_STEP, _LEAST_STEP, _STEP_GROWTH = 0.25, 0.02, 2.0
# Share of the time left for the choice of cuts at one limit.
_CHOICE_SHARE = 0.8
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
        base = problem.exact_base
        self._problem, self._order, self._extra = problem, order, float(most - base)
        self._too_much = exceeds or (lambda extra: base + extra > most)
        # Precedences of first runs, once they are known.
        self._before: np.ndarray | None = None
        self._rounded: dict[int, list[Rounding]] = {}
        self._low = self._peak = 0
        self._schedule: Sequence[int] = ()

    def run(
        self, least: int, peak: int, budget: Budget, *, schedule: Sequence[int] = ()
    ) -> PeakBound | None:
        """The best bound found before the deadline; another call continues the search.

        ``None`` if nothing above ``least``, a bound known, was proved. ``peak`` has the live bytes
        of the best schedule known, which shows where cuts may be.
        """
        self._low, self._peak, self._schedule = max(self._low, least), peak, schedule
        self._budget = budget
        self._found: PeakBound | None = None
        step = _FIRST_STEP
        while self._low < self._peak and step > _LEAST_STEP and not budget.deadline.expired():
            gap = self._peak - self._low
            near = is_near(self._low, self._peak)
            limit = self._peak - 1 if near else self._low + int(step * gap)
            if self._prove(limit):
                step = min(_STEP_GROWTH * step, _FIRST_STEP)
            elif near:
                break
            else:
                step /= _STEP_GROWTH
        return self._found

    def _prove(self, limit: int) -> bool:
        """Choose cuts at a limit, and raise the bound with them; true if the limit is too small."""
        cuts: tuple[int, ...] = ()
        search = self._at(limit)
        for tried in search.grow(self._budget.deadline.share(_CHOICE_SHARE)):
            first, cuts, self._before = not cuts, tried.cuts, search.before
            if self._raised(search):
                break
            if first and self._found is None:
                # The bound so far, if no time is left for more.
                self._raise(cuts, self._following(search))
        if cuts:
            self._raise(cuts, self._following(search))
        return self._raised(search)

    def _raise(self, cuts: tuple[int, ...], limit: int) -> None:
        """Raise the bound as far as these cuts do, from a limit on."""
        high, limit, deadline, took = self._peak, max(limit, self._low), self._budget.deadline, 0.0
        if limit - self._low <= _GAP_STEP * (self._peak - self._low):
            return
        while self._low <= limit < high and (left := deadline.remaining()) > took:
            search = self._at(limit)
            search.relax(cuts, deadline)
            took = left - deadline.remaining()
            if self._raised(search):
                limit = self._following(search)
            elif limit > self._low:
                high = limit
            else:
                return
            if is_near(self._low, self._peak):
                limit = self._peak - 1
            elif min(limit, high) - self._low <= _GAP_STEP * (self._peak - self._low):
                return
            elif limit >= high:
                limit = (self._low + high) // 2

    def _at(self, limit: int) -> CutSearch:
        """A search for the bound on the cost within a limit."""
        return CutSearch(
            self._problem,
            limit,
            self._budget,
            self._order,
            before=self._before,
            schedule=self._schedule,
            rounded=self._rounded,
        )

    def _raised(self, search: CutSearch) -> bool:
        """True if a search's limit is too small, which raises the bound."""
        if not (search.best.infeasible or self._too_much(search.best.extra)):
            return False
        proof = search.certified()
        if proof.certificate is None:
            return False
        if search.limit >= self._low:
            self._low = search.limit + 1
            self._found = PeakBound(search.limit + 1, proof.certificate, proof.infeasible)
        return True

    def _following(self, search: CutSearch) -> int:
        """The limit at which a search's duals bound the cost by just what is allowed."""
        limit, price = search.limit, search.price_of_a_byte()
        if search.best.infeasible:
            return (limit + self._peak) // 2
        if not price:
            return self._low
        step = (float(search.best.extra) - self._extra) / price
        # Upwards a little less: with less room, more storages are known not to fit.
        step *= _STEP if step > 0 else 1.0
        return math.floor(max(self._low, min(limit + step, self._peak)))
