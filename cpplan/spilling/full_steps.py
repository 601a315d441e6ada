"""Prices of room at the fullest steps, by dual ascent: a bound where a linear program takes long.

All that may be kept is kept at first. At the step that exceeds the fast pool by the most, the price
of room rises until the gaps there that are cheapest to drop, by byte, make enough room. A gap that
has paid what dropping it costs counts as dropped; then the next step follows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cpplan.model.problem import Ints
from cpplan.model.spill_problem import Flags, SpillProblem
from cpplan.runtime.deadline import Deadline
from cpplan.spilling.loads import Loads
from cpplan.spilling.tuning import active

Floats = NDArray[np.float64]
# Prices below which loads are summed up for each price; gaps above which they are begun anew.
_FEW_PRICES, _MANY_GAPS = 40, 1000
# Relative room for sums of floating-point prices.
_ROUNDING = 1e-9


def prices_of_full_steps(problem: SpillProblem, deadline: Deadline) -> dict[int, float]:
    """Price of a byte of room at each step that has one, as far as the deadline allows."""
    ascent = _Ascent(problem)
    for _ in range(active().full_steps):
        excess = ascent.excess()
        step = int(excess.argmax())
        if excess[step] <= 0 or deadline.expired():
            break
        ascent.raise_price(step, int(excess[step]))
    return {step: price for step, price in sorted(ascent.prices.items()) if price > 0}


class _Ascent:
    """Prices so far, and what each gap still has to pay for a byte of room until it is dropped."""

    def __init__(self, problem: SpillProblem):
        self.problem = problem
        self.free = problem.gap_fixed < 0
        self.room = np.maximum(problem.room[problem.gap_storage], 1)
        self.left = np.where(self.free, _drop_costs(problem) / self.room, np.inf)
        self.prices: dict[int, float] = {}
        # Steps that no price makes fit.
        self.closed = np.zeros(problem.steps, bool)
        self.before, self.after = _sides(problem)
        # Kept up to date once there are some prices: to begin takes as long as many sums.
        self.loads: Loads | None = None

    def excess(self) -> Ints:
        """Bytes by which each step exceeds the fast pool while what has not paid is kept."""
        load = self.problem.load(self._unpaid()) if self.loads is None else self.loads.load
        excess: Ints = load - self.problem.capacity
        excess[self.closed] = 0
        return excess

    def _unpaid(self) -> Flags:
        """Gaps that are kept because they have not paid what dropping them costs."""
        unpaid: Flags = (self.left > 0) & (self.problem.gap_fixed != 0)
        return unpaid

    def _drop_paid(self) -> None:
        """Drop the gaps that have paid. O(length) for each, or O(gaps) for all if they are many."""
        if self.loads is None and len(self.prices) < _FEW_PRICES:
            return
        unpaid = self._unpaid()
        paid = [] if self.loads is None else np.flatnonzero(self.loads.kept & ~unpaid).tolist()
        if self.loads is None or len(paid) > _MANY_GAPS:
            self.loads = Loads(self.problem, unpaid)
            return
        for gap in paid:
            self.loads.drop(gap)

    def raise_price(self, step: int, excess: int) -> None:
        """Raise the price at a step until so much room is free there."""
        problem, left = self.problem, self.left
        gaps = self.free & (left > 0) & (problem.gap_lower <= step) & (step < problem.gap_upper)
        across = np.flatnonzero(gaps)
        at = np.flatnonzero((problem.access_step == step) & ~problem.access_near)
        slack_at = self._left(self.before[at]) + self._left(self.after[at])
        at, slack_at = at[slack_at > 0], slack_at[slack_at > 0]
        slack = np.concatenate([left[across], slack_at])
        rooms = np.concatenate([self.room[across], problem.room[problem.access_storage[at]]])
        rank = np.argsort(slack, kind="stable")
        rank = rank[np.isfinite(slack[rank])]
        enough = int(np.searchsorted(np.cumsum(rooms[rank]), excess))
        self.closed[step] = enough >= len(rank)
        if not len(rank):
            return
        price = float(slack[rank[min(enough, len(rank) - 1)]])
        self.prices[step] = self.prices.get(step, 0.0) + price
        paid = price * (1 + _ROUNDING)
        left[across] = np.maximum(0.0, left[across] - paid)
        first = np.minimum(paid, self._left(self.before[at]))
        for sides, amount in ((self.before[at], first), (self.after[at], paid - first)):
            some = sides >= 0
            left[sides[some]] = np.maximum(0.0, left[sides[some]] - amount[some])
        self._drop_paid()

    def _left(self, gaps: Ints) -> Floats:
        """Price that these gaps still have to pay; nothing where there is none."""
        found: Floats = np.where(gaps >= 0, self.left[gaps], 0.0)
        return found


def _drop_costs(problem: SpillProblem) -> Floats:
    """Cost of dropping each gap; gaps of one storage at full steps divide that of its spill."""
    after = problem.gap_after
    reload = problem.reload_cost[problem.gap_storage]
    if not len(problem.access_cost):
        return reload.astype(np.float64)
    near = problem.access_near[after]
    read = np.where(near, reload, np.minimum(reload, problem.access_cost[after]))
    read = np.where(after >= 0, read, 0)
    full = problem.load(problem.all_kept()) > problem.capacity
    upto = np.concatenate([[0], np.cumsum(full)])
    crosses = upto[problem.gap_upper] > upto[problem.gap_lower]
    # Without steps and accesses after it, a gap only says where the result is written.
    writes = (after < 0) & (problem.gap_lower == problem.gap_upper)
    crosses |= writes & full[problem.access_step[problem.gap_before]]
    counts = (problem.gap_fixed < 0) & crosses
    several = np.bincount(problem.gap_storage[counts], minlength=len(problem.names))
    spill = np.where(problem.written, problem.spill_cost / np.maximum(several, 1), 0.0)
    costs: Floats = read + np.where(counts, spill[problem.gap_storage], 0.0)
    return costs


def _sides(problem: SpillProblem) -> tuple[Ints, Ints]:
    """Gap before each access and gap after it, or -1."""
    before: Ints = np.full(len(problem.access_step), -1, np.int64)
    after: Ints = before.copy()
    number = np.arange(len(problem.gap_storage))
    begins, ends = problem.gap_before >= 0, problem.gap_after >= 0
    after[problem.gap_before[begins]] = number[begins]
    before[problem.gap_after[ends]] = number[ends]
    return before, after
