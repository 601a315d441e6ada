"""Spilling: the plan that moves the fewest bytes, at the given order or over several orders."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace

import numpy as np

from cpplan.model.order_problem import OrderProblem
from cpplan.model.pool import Pool
from cpplan.model.residency import Residency
from cpplan.packing.search.outcome import OrderOutcome
from cpplan.packing.tuning import PackingTuning
from cpplan.program.anf import Program
from cpplan.runtime.budget import Budget, make_budget, tuned
from cpplan.runtime.deadline import TimeUpError
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

# If orders are searched: share of the time for the given order; share of the time left for the
# orders of heuristics, and the eviction rule that ranks them.
_GIVEN_SHARE, _RULES_SHARE, _EVICTION = 0.25, 0.3, "belady"
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
    """Run a search until it ends, the time is up, or the user interrupts it."""
    with _until_interrupted(budget):
        search.run(budget.share(1 - _HIDING_SHARE) if _hides(search) else budget)
        _hide(search, budget)


@contextmanager
def _until_interrupted(budget: Budget) -> Iterator[None]:
    """Context that ends when the time is up, or with the whole run when the user interrupts it."""
    try:
        yield
    except TimeUpError:
        return
    except KeyboardInterrupt:
        budget.deadline.cancel()


def _hides(search: SpillSearch) -> bool:
    """True if copies may run beside ops, and time counts."""
    return search.time and search.pools[1].engine


def _hide(search: SpillSearch, budget: Budget) -> None:
    """Let copies run beside ops, if they may."""
    if _hides(search) and search.layout is not None:
        search.hide(budget)


def _search_orders(given: SpillSearch, budget: Budget) -> Spilled:
    """The best plan over the orders tried; its bound holds for every order."""
    from cpplan.ordering.solve import search_order

    program = given.program
    graph, share = program.graph, given.share
    given.searches_orders = True
    several = given.allows(8, budget.deadline)
    _run(given, budget.share(_GIVEN_SHARE if several else 1.0))
    bound = given.bound_every_order(budget.share(EVERY_ORDER_SHARE).deadline)
    best, found_by, exhausted = given, "given order", False

    def settled() -> bool:
        return exhausted or (best.choice is not None and best.choice.paid <= bound.value)

    def search_at(order: tuple[int, ...]) -> SpillSearch:
        other = SpillSearch(
            Program(graph, order), given.residency, given.pools, share=share, time=given.time,
            report=given.report,
        )  # fmt: skip
        other.every_order = bound
        return other

    def place(choice: Ordered) -> bool | None:
        nonlocal best, found_by
        other = search_at(choice.order)
        fits = other.place_choice(turn, choice)
        if fits:
            best, found_by = other, ALL_ORDERS
            _hide(best, turn)
        return fits

    if not settled():
        turn = budget.share(EVERY_CHOICE_SHARE)
        with _until_interrupted(budget):
            least = try_every_choice(given, place, turn.deadline, any_order=True)
            exhausted = least is None
            bound = max(bound, MovedBound(least or 0, ALL_ORDERS), key=lambda one: one.value)
    if not settled() and given.allows(4, budget.deadline) and not budget.deadline.expired():
        live = live_problem(graph, given.problem, program.order, share=share)
        low = search_order(
            live, np.array(program.order, np.int64), budget.share(active().order_share)
        )
        proved = bound_of_peak(given.problem, low.bound)
        bound = max(bound, proved, key=lambda one: one.value)
        for other, name in _orders(given, live, low, search_at, budget):
            if settled() or budget.deadline.expired():
                break
            other.below = best.most
            _run(other, budget.share(SEARCH_SHARE))
            if best.choice is None or (
                other.choice is not None and other.choice.paid < best.choice.paid
            ):
                best, found_by = other, name
    found = best.outcome()
    short = None if found.shortfall is None else find_shortfall(given.problem, alone=True)
    return replace(
        found, bound=bound, every_order=True, order_by=found_by, shortfall=short,
        exhausted=exhausted,
    )  # fmt: skip


def _orders(
    given: SpillSearch,
    live: OrderProblem,
    low: OrderOutcome,
    search_at: Callable[[tuple[int, ...]], SpillSearch],
    budget: Budget,
) -> Iterator[tuple[SpillSearch, str]]:
    """Yield searches at other orders: that of least live bytes, then those of heuristics.

    Of these, the one where an eviction rule moves the fewest bytes comes first.
    """
    from cpplan.ordering import heuristics

    first = tuple(low.order.tolist())
    seen = {given.program.order}
    if first not in seen:
        seen.add(first)
        yield search_at(first), low.found_by
    share, evict = budget.share(_RULES_SHARE).deadline, evictions.get(_EVICTION)
    found: list[tuple[float, SpillSearch, str]] = []
    for name in heuristics.names():
        with suppress(TimeUpError):  # also of loops that are not compiled in time
            order = tuple(heuristics.get(name)(live, share).tolist())
            if order not in seen:
                seen.add(order)
                search = search_at(order)
                kept = evict(search.problem, share)
                paid = math.inf if kept is None else int(search.problem.paid(kept).sum())
                found.append((paid, search, name))
    for _, search, name in sorted(found, key=lambda one: one[0]):
        yield search, name


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
