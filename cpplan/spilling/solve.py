"""Spilling: the plan that moves the fewest bytes, at the given order or over several orders."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

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

# If orders are searched: the eviction rule that ranks those of heuristics; shares of the time left
# for quick heuristics, before the search at the given order, and for the others, after it.
_EVICTION, _QUICK_SHARE, _RULES_SHARE = "belady", 0.03, 0.15
# Share of the time for the given order, if the rule moves at most this part at another one.
_GIVEN_SHARE, _FEWER = 0.25, 0.99
# If the slow pool has a copy engine: share of the time for running copies beside ops.
_HIDING_SHARE = 0.15

# Cost of the eviction rule at an order, and the search there.
_Ranked = tuple[float, SpillSearch]


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

    The given order may take all of the time, unless an eviction rule moves fewer bytes at another.
    """
    from cpplan.ordering.solve import search_order

    program = given.program
    graph, share = program.graph, given.share
    given.searches_orders = True

    def search_at(order: tuple[int, ...]) -> SpillSearch:
        return SpillSearch(
            Program(graph, order), given.residency, given.pools, share=share, time=given.time,
            report=given.report,
        )  # fmt: skip

    ranked: dict[str, _Ranked] = {}
    part = _GIVEN_SHARE if given.allows(8, budget.deadline) else 1.0
    quick = budget.share(_QUICK_SHARE).deadline
    # To rank the orders of many ops takes more than this share.
    paid = 0.0 if given.many else _evicted(given, quick)
    if paid > 0:
        _rank(ranked, given, search_at, quick)
        if all(least > _FEWER * paid for least, _ in ranked.values()):
            part = 1.0
    _run(given, budget.share(part))
    bound = given.bound_every_order(budget.share(EVERY_ORDER_SHARE).deadline)
    best, found_by, exhausted = given, "given order", False

    def settled() -> bool:
        return exhausted or (best.choice is not None and best.choice.paid <= bound.value)

    def place(choice: Ordered) -> bool | None:
        nonlocal best, found_by
        other = search_at(choice.order)
        other.every_order = bound
        fits = other.place_choice(turn, choice)
        if fits:
            best, found_by = other, ALL_ORDERS
            _hide(best, turn)
        return fits

    if not settled():
        turn = budget.share(EVERY_CHOICE_SHARE)
        with suppress(TimeUpError):
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
        _rank(ranked, given, search_at, budget.share(_RULES_SHARE).deadline)
        cheapest = sorted(ranked, key=lambda name: ranked[name][0])
        others = [(low.found_by, search_at(tuple(low.order.tolist())))]
        others += [(name, ranked[name][1]) for name in cheapest]
        tried = {program.order}
        for name, other in others:
            if settled() or budget.deadline.expired():
                break
            if other.program.order in tried:
                continue
            tried.add(other.program.order)
            other.every_order, other.below = bound, best.most
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


def _evicted(search: SpillSearch, deadline: Deadline) -> float:
    """Cost of the moves of one eviction rule; infinite if it finds no gaps that fit, or no time."""
    with suppress(TimeUpError):
        kept = evictions.get(_EVICTION)(search.problem, deadline)
        if kept is not None:
            return float(search.problem.paid(kept).sum())
    return math.inf


def _rank(
    ranked: dict[str, _Ranked],
    given: SpillSearch,
    search_at: Callable[[tuple[int, ...]], SpillSearch],
    deadline: Deadline,
) -> None:
    """Add searches at the orders of heuristics, as far as time allows."""
    from cpplan.ordering import heuristics

    graph, order = given.program.graph, given.program.order
    live = live_problem(graph, given.problem, order, share=given.share)
    for name in heuristics.names():
        if name not in ranked:
            with suppress(TimeUpError):  # also of loops that are not compiled in time
                search = search_at(tuple(heuristics.get(name)(live, deadline).tolist()))
                paid = _evicted(search, deadline)
                if not deadline.expired():  # else the heuristic may have ended early
                    ranked[name] = paid, search


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
