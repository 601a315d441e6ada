"""Spilling: the plan that moves the fewest bytes, at the given order or over several orders."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cpplan.model.pool import Pool
from cpplan.model.residency import Residency
from cpplan.packing.tuning import PackingTuning
from cpplan.program.anf import Program
from cpplan.runtime.budget import Budget, make_budget, tuned
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.spilling import heuristics as evictions
from cpplan.spilling.bounds import MovedBound
from cpplan.spilling.cp_sat_gaps import make_model
from cpplan.spilling.crowded_ops import live_problem
from cpplan.spilling.every_order import bound_of_peak
from cpplan.spilling.outcome import Spilled, find_shortfall
from cpplan.spilling.problem import spill_problem
from cpplan.spilling.search.every_choice import ALL_ORDERS, Ordered
from cpplan.spilling.search.one_order import (
    EVERY_CHOICE_SHARE,
    EVERY_ORDER_SHARE,
    SEARCH_SHARE,
    SpillSearch,
    try_every_choice,
)
from cpplan.spilling.tuning import active
from cpplan.verification.bound_table import NOTHING

if TYPE_CHECKING:
    from cpplan.model.order_problem import OrderProblem

# If orders are searched: the eviction rule that ranks those of heuristics; shares of the time left
# for quick heuristics, before the search at the given order, and for the others, after it.
_EVICTION, _QUICK_SHARE, _RULES_SHARE = "belady", 0.03, 0.15
# The given order comes first, unless moves at another one seem to cost at most this part. Share of
# the time left for the other one.
_GIVEN, _FEWER, _FIRST_SHARE = "given order", 0.99, 0.7
# If the slow pool has a copy engine: share of the time for running copies beside ops.
_HIDING_SHARE = 0.15


def spill(
    program: Program,
    residency: Residency,
    pools: tuple[Pool, Pool],
    budget: Budget,
    *,
    share: bool = False,
    order: bool = False,
    time: bool = False,
    places: Mapping[str, int] | None = None,
    report: Callable[[int | None, int, str], None] = lambda paid, bound, source: None,
) -> Spilled:
    """The plan found within the budget that moves the fewest bytes."""
    begin = budget.deadline.elapsed()
    search = SpillSearch(program, residency, pools, share=share, time=time, report=report)
    search.known = places or {}
    if len(program.order) >= tuned(PackingTuning).many_buffers:
        search.expect(budget.deadline.elapsed() - begin)
    if order and program.may_reorder:
        return _search_orders(search, budget)
    _run(search, budget)
    return search.outcome()


def _run(search: SpillSearch, budget: Budget) -> None:
    """Run a search until it ends or the time is up."""
    with suppress(TimeUpError):
        search.run(budget.share(1 - _HIDING_SHARE) if _hides(search) else budget)
        _hide(search, budget)


def _hides(search: SpillSearch) -> bool:
    """True if copies may run beside ops, and time counts."""
    return search.time and search.pools[1].engine


def _hide(search: SpillSearch, budget: Budget) -> None:
    """Let copies run beside ops, if they may."""
    if _hides(search) and search.layout is not None:
        search.hide(budget)


def _search_orders(given: SpillSearch, budget: Budget) -> Spilled:
    """The best plan over the orders tried; its bound holds for every order.

    The given order comes first, and may take all of the time, unless moves at another one seem to
    cost less.
    """
    deadline = budget.deadline
    given.searches_orders = True
    quick = budget.share(_QUICK_SHARE).deadline
    # To rank the orders of many ops takes more than this share.
    paid = 0.0 if given.many else _estimated(given, quick)
    orders = _Orders(given, paid)
    if paid > 0:
        orders.add_heuristics(quick)
    another = orders.least < _FEWER * paid and given.allows(8, deadline)
    if another:
        orders.add_least_live(budget)
        orders.run(orders.left[0], budget.share(_FIRST_SHARE))
    else:
        orders.run(_GIVEN, budget)
    orders.raise_bound(given.bound_every_order(budget.share(EVERY_ORDER_SHARE).deadline))
    if not orders.settled:
        orders.try_every_choice(budget.share(EVERY_CHOICE_SHARE))
    if not orders.settled and given.allows(4, deadline) and not deadline.expired():
        if not another:
            orders.add_least_live(budget)
        orders.add_heuristics(budget.share(_RULES_SHARE).deadline)
        while orders.left and not orders.settled and not deadline.expired():
            orders.run(orders.left[0], budget.share(SEARCH_SHARE))
    return orders.outcome()


class _Orders:
    """Searches at several orders, and the best plan of all.

    Parameters
    ----------
    given, paid
        The search at the given order, and the cost of a quick choice of gaps there.
    """

    def __init__(self, given: SpillSearch, paid: float):
        self._given = self._best = given
        self._found_by, self._exhausted = _GIVEN, False
        self._bound = MovedBound(0, NOTHING)
        # Name of an order -> cost of a quick choice of gaps, which is not packed, and the search.
        self._ranked: dict[str, tuple[float, SpillSearch]] = {_GIVEN: (paid, given)}
        self._tried: set[tuple[int, ...]] = set()

    @property
    def settled(self) -> bool:
        """True if no plan is better than the best one."""
        choice = self._best.choice
        return self._exhausted or (choice is not None and choice.paid <= self._bound.value)

    @property
    def least(self) -> float:
        """The least cost of a quick choice of gaps at any order."""
        return min(paid for paid, _ in self._ranked.values())

    @property
    def left(self) -> list[str]:
        """Orders that were not tried, the one with the cheapest quick choice of gaps first."""
        left = [k for k, (_, one) in self._ranked.items() if one.program.order not in self._tried]
        return sorted(left, key=lambda name: self._ranked[name][0])

    def add_heuristics(self, deadline: Deadline) -> None:
        """Add the orders of heuristics, as far as time allows."""
        from cpplan.ordering import heuristics

        live = self._live_problem()
        for name in heuristics.names():
            if name not in self._ranked and not deadline.expired():
                with suppress(TimeUpError):  # also of loops that are not compiled in time
                    search = self._search(heuristics.get(name)(live, deadline).tolist())
                    paid = _estimated(search, deadline)
                    if not deadline.expired():  # else the heuristic may have ended early
                        self._ranked[name] = paid, search

    def add_least_live(self, budget: Budget) -> None:
        """Add the order of fewest live bytes, and take the bound that its search proves."""
        from cpplan.ordering.solve import search_order

        order = np.array(self._given.program.order, np.int64)
        low = search_order(self._live_problem(), order, budget.share(active().order_share))
        self.raise_bound(bound_of_peak(self._given.problem, low.bound))
        search = self._search(low.order.tolist())
        self._ranked[low.found_by] = _estimated(search, budget.share(_QUICK_SHARE).deadline), search

    def run(self, name: str, budget: Budget) -> None:
        """Search for the best plan at an order."""
        search = self._ranked[name][1]
        self._tried.add(search.program.order)
        search.every_order, search.below = self._bound, self._best.most
        _run(search, budget)
        best = self._best.choice
        if best is None or (search.choice is not None and search.choice.paid < best.paid):
            self._best, self._found_by = search, name

    def try_every_choice(self, budget: Budget) -> None:
        """Try every order with every choice of gaps, if they are few."""

        def place(choice: Ordered) -> bool | None:
            search = self._search(choice.order)
            search.every_order = self._bound
            fits = search.place_choice(budget, choice)
            if fits:
                self._best, self._found_by = search, ALL_ORDERS
                _hide(search, budget)
            return fits

        self._given.below = self._best.most
        with suppress(TimeUpError):
            least = try_every_choice(self._given, place, budget.deadline, any_order=True)
            self._exhausted = least is None
            self.raise_bound(MovedBound(least or 0, ALL_ORDERS))

    def raise_bound(self, bound: MovedBound) -> None:
        """Take a bound that holds for every order, if it is higher than the one known."""
        self._bound = max(self._bound, bound, key=lambda one: one.value)

    def outcome(self) -> Spilled:
        """The best plan, the bound, and the op that does not fit in any order."""
        found = self._best.outcome()
        alone = None if found.shortfall is None else find_shortfall(self._given.problem, alone=True)
        return replace(
            found, bound=self._bound, every_order=True, order_by=self._found_by, shortfall=alone,
            exhausted=self._exhausted,
        )  # fmt: skip

    def _search(self, order: Sequence[int]) -> SpillSearch:
        given = self._given
        return SpillSearch(
            Program(given.program.graph, tuple(order)), given.residency, given.pools,
            share=given.share, time=given.time, report=given.report,
        )  # fmt: skip

    def _live_problem(self) -> OrderProblem:
        given = self._given
        graph, order = given.program.graph, given.program.order
        return live_problem(graph, given.problem, order, share=given.share)


def _estimated(search: SpillSearch, deadline: Deadline) -> float:
    """Least cost of moves of two quick choices of gaps: an eviction rule's, and by prices of room.

    Infinite if the rule finds no gaps that fit, or has no time.
    """
    with suppress(TimeUpError):
        kept = evictions.get(_EVICTION)(search.problem, deadline)
        if kept is not None:
            paid = int(search.problem.paid(kept).sum())
            return float(min(paid, search.priced(deadline).paid))
    return math.inf


def room_price(
    program: Program,
    residency: Residency,
    pools: tuple[Pool, Pool],
    *,
    share: bool = False,
    seconds: float = 10.0,
) -> float | None:
    """Bytes of moves saved by one more byte of the fast pool, by the linear relaxation.

    Returns ``None`` if an op does not fit, or the relaxation is not solved in time.
    """
    from formulations.spilling_prices import relaxed_prices

    problem = spill_problem(program, residency, pools, share=share)
    model = None if find_shortfall(problem) else make_model(problem, make_budget(seconds))
    prices = None if model is None else relaxed_prices(model, seconds)
    return None if prices is None else float(sum(prices.values()))
