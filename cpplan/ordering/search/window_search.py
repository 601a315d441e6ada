"""Local search on an order: windows of it are searched anew for a peak below a target.

The windows are long (up to a few hundred ops), the searches short: a downset search that counts all
pressures up to the target as equal goes through such a window almost without branching, or gives
up. The order found is put back if it lowers the window's peak. The target comes closer to the best
peak when searches fail, and moves away when they succeed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from cpplan.model.order_problem import OrderProblem
from cpplan.model.problem import Ints
from cpplan.ordering.search.cp_sat_ordering import improve_window
from cpplan.ordering.search.downset_search import search_downsets
from cpplan.ordering.search.order_window import OrderWindows
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline

# Number of ops in the shortest window.
_SHORTEST_WINDOW = 20
# Number of ops in the longest window.
_LONGEST_WINDOW = 250
# Number of ops in a window for CP-SAT.
_CP_SAT_WINDOW = 80
# Largest and smallest distance from the peak down to the target of a window search, as a share of
# the peak.
_WIDEST_SLACK = 0.02
_NARROWEST_SLACK = 1e-4

NAME = "window search"


class WindowSearch:
    """A local search by windows that keeps its order and can be continued.

    Parameters
    ----------
    problem
        Ops and storages.
    order
        A valid order to start from.
    seed
        Seed of the random choice of windows.
    """

    def __init__(self, problem: OrderProblem, order: Sequence[int] | Ints, seed: int):
        self.problem = problem
        self._windows = OrderWindows(problem, order)
        self._random = random.Random(seed)
        self._slack = _WIDEST_SLACK / 2
        self.peak = problem.peak(self.order)

    @property
    def order(self) -> Ints:
        """The present order, shape ``(ops,)``."""
        return np.array(self._windows.order, np.int64)

    def restart(self, order: Ints) -> None:
        """Go on from another order."""
        self._windows = OrderWindows(self.problem, order)
        self.peak = self.problem.peak(order)

    def run(self, searches: int, *, target: int, states: int, deadline: Deadline) -> None:
        """Search ``searches`` windows, or until the peak is at most ``target`` or time is up."""
        for _ in range(searches):
            if self.peak <= target or deadline.expired():
                return
            self._search_one(target, states, deadline)

    def run_cp_sat(self, searches: int, *, target: int, budget: Budget) -> None:
        """Search ``searches`` shorter windows by CP-SAT, which can see further than downsets."""
        ops = len(self.problem)
        for _ in range(searches):
            if self.peak <= target or budget.deadline.expired():
                return
            pressure = self._pressure()
            centre = self._random.choice(np.flatnonzero(pressure == self.peak).tolist())
            width = min(_CP_SAT_WINDOW, ops)
            begin = max(0, min(ops - width, centre - self._random.randrange(width)))
            improve_window(self._windows, begin, begin + width, budget, target=target)
            self.peak = self.problem.peak(self.order)

    def _pressure(self) -> Ints:
        """Bytes live at each step of the present order, shape ``(ops,)``."""
        pressure = np.array(self._windows.live) + self.problem.extra[self._windows.order]
        pressure[0] += self.problem.entry
        return pressure

    def _search_one(self, target: int, states: int, deadline: Deadline) -> None:
        windows, ops = self._windows, len(self.problem)
        pressure = self._pressure()
        level = max(target, int(self.peak * (1 - self._slack)))
        centre = self._random.choice(np.flatnonzero(pressure > level).tolist())
        width = self._random.randint(min(_SHORTEST_WINDOW, ops), min(_LONGEST_WINDOW, ops))
        begin = max(0, min(ops - width, centre - self._random.randrange(width)))
        window = windows.window(begin, begin + width)
        found = search_downsets(window, range(width), deadline, level=level, states=states)
        if found.peak < int(pressure[begin : begin + width].max()):
            windows.put_back(begin, begin + width, found.order)
            self.peak = self.problem.peak(windows.order)
            self._slack = min(_WIDEST_SLACK, 1.3 * self._slack)
        else:
            self._slack = max(_NARROWEST_SLACK, 0.9 * self._slack)
