"""``SpillSearch``: gaps, moves and offsets of fewest bytes moved, under one budget.

At one order: keep everything, if that fits; eviction rules; the linear relaxation, whose prices
bound the bytes moved and lead to a choice; CP-SAT on the gaps. The best choice is packed. Where its
bytes fit at every step but its offsets do not, gaps are dropped, or CP-SAT runs again with less
room there, until a packing fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from cpplan.model.pool import Pool
from cpplan.model.residency import Residency
from cpplan.program.anf import Program
from cpplan.runtime.budget import Budget, make_budget
from cpplan.runtime.deadline import TimeUpError
from cpplan.spilling import heuristics
from cpplan.spilling.bounds import (
    SEARCHED,
    MovedBound,
    bound_by_prices,
    bound_of_every_order,
)
from cpplan.spilling.cp_sat_gaps import make_model, search_gaps
from cpplan.spilling.heuristics.eviction import drop_cost, drop_gaps
from cpplan.spilling.loads import Loads
from cpplan.spilling.packed import Layout, lay_out
from cpplan.spilling.problem import Flags, SpillProblem, spill_problem
from cpplan.spilling.tuning import active
from cpplan.verification.bound_table import NOTHING

if TYPE_CHECKING:
    from formulations.spilling import SpillModel

# The eviction rule that is tried with less and less room.
_QUICK = "cost per byte and step"
# Attempts to pack for which time must be left to go on with the next larger margin.
_ATTEMPTS_LEFT = 3
# Seconds that stand for no limit.
_ENDLESS = 3600.0


@dataclass(frozen=True, slots=True)
class Choice:
    """Gaps kept, the bytes that they move, and who chose them."""

    kept: Flags
    moved: int
    found_by: str


@dataclass(frozen=True, slots=True)
class Shortfall:
    """An op whose operands do not fit: its name, the bytes it needs, and those that are missing."""

    op: str
    needed: int
    missing: int


@dataclass(frozen=True, slots=True)
class Spilled:
    """The outcome of a search.

    Attributes
    ----------
    program
        The model in the order chosen.
    problem
        Its spilling problem.
    choice, layout
        The best choice that could be packed, and its packing; ``None`` if there is none.
    bound
        On the bytes moved.
    shortfall
        The op that does not fit, if there is one.
    every_order
        True if the bound holds for every order.
    order_by
        The search that found the order, if one did.
    """

    program: Program
    problem: SpillProblem
    choice: Choice | None
    layout: Layout | None
    bound: MovedBound
    shortfall: Shortfall | None = None
    every_order: bool = False
    order_by: str | None = None

    @property
    def found_by(self) -> str | None:
        """Names of the searches that found order, gaps and offsets."""
        packed = self.layout.found_by if self.layout is not None else None
        chosen = self.choice.found_by if self.choice is not None else None
        names = dict.fromkeys(name for name in (self.order_by, chosen, packed) if name is not None)
        return ", ".join(names) or None


class SpillSearch:
    """A search for the choice of gaps that moves the fewest bytes at one order.

    Parameters
    ----------
    program, residency
        The model in its order.
    pools
        The fast and the slow pool.
    share
        True if ops may write over what they are the last to read.
    report
        Called at each improvement with the bytes moved, their bound, and the source.
    """

    def __init__(
        self,
        program: Program,
        residency: Residency,
        pools: tuple[Pool, Pool],
        *,
        share: bool = False,
        report: Callable[[int | None, int, str], None] = lambda moved, bound, source: None,
    ):
        self.program, self.residency, self.pools, self.share = program, residency, pools, share
        self.problem = spill_problem(program, residency, pools, share=share)
        self.bound = MovedBound(0, NOTHING)
        self.choice: Choice | None = None
        self.layout: Layout | None = None
        self.shortfall: Shortfall | None = None
        # Part of the fast pool that was left empty when a choice could be packed quickly.
        self.margin = active().margins[0]
        # Only plans that move fewer bytes than this are wanted.
        self.below: int | None = None
        self.report = report

    @property
    def done(self) -> bool:
        """True if the best plan moves no more bytes than the bound, or none can be good enough."""
        if self.below is not None and self.bound.value >= self.below:
            return True
        return self.choice is not None and self.choice.moved <= self.bound.value

    def run(self, budget: Budget) -> None:
        """Search until the deadline, or until the best plan is proved optimal."""
        problem, tuning = self.problem, active()
        short = find_shortfall(problem)
        if short is not None:
            self.shortfall = short
            return
        if (problem.load(problem.all_kept()) <= problem.capacity).all():
            everything = self._made(problem.all_kept(), "everything kept")
            if everything.moved == 0:
                self._place(everything, budget.share(tuning.still_share))
        if not self.done:
            self._search(budget)

    def _search(self, budget: Budget) -> None:
        problem, tuning = self.problem, active()
        best = min(self._by_rules(problem, budget), key=lambda choice: choice.moved)
        few = len(problem.gap_lower) <= tuning.cp_sat_gaps
        model = make_model(problem, budget) if few else None
        prices: dict[int, float] = {}
        if model is not None:
            prices = self._relax(model, budget)
            best = min(best, self._by_prices(problem, prices), key=lambda choice: choice.moved)
        if not self._place(best, budget.share(tuning.first_share), quick=True):
            self._with_margin(prices, budget.share(tuning.margin_share))
        if best.moved > self.bound.value and few and not budget.deadline.expired():
            share = budget.share(tuning.search_share)
            kept = search_gaps(problem, best.kept, share, proved=self._proved)
            if kept is not None and int(problem.moved(kept).sum()) < best.moved:
                best = self._made(kept, SEARCHED)
        if not self._better(best):
            return
        if not self._place(best, budget.share(tuning.packing_share)):
            self._repair(best, budget.share(tuning.repairs_share))
            if few and self._better(best):
                self._again(prices, budget)

    def _better(self, choice: Choice) -> bool:
        if self.below is not None and choice.moved >= self.below:
            return False
        return self.choice is None or choice.moved < self.choice.moved

    def _relax(self, model: SpillModel, budget: Budget) -> dict[int, float]:
        """Prices of room from the linear relaxation, whose bound is taken; none if time is up."""
        from formulations.spilling_prices import relaxed_prices

        share = budget.share(active().relaxation_share).deadline
        prices = relaxed_prices(model, _ENDLESS if share.endless else share.remaining())
        if prices is None:
            return {}
        self.raise_bound(bound_by_prices(self.problem, prices))
        return prices

    def _with_margin(self, prices: dict[int, float], budget: Budget) -> None:
        """Choices that leave more and more of the pool empty, until one can be packed quickly.

        When time is left for few more, the rest is skipped but the last.
        """
        margins = active().margins
        before, longest = budget.deadline.remaining(), 0.0
        for margin in margins:
            left = budget.deadline.remaining()
            longest, before = max(longest, before - left), left
            if left < _ATTEMPTS_LEFT * longest and margin != margins[-1]:
                continue
            choice = self._quick_choice(self._smaller(margin), prices, budget)
            if self._place(choice, budget, quick=True):
                self.margin = margin
                return
        self._place(self._made(self.problem.gap_fixed == 1, "everything dropped"), budget)

    def _quick_choice(self, part: SpillProblem, prices: dict[int, float], budget: Budget) -> Choice:
        """The better of the choice by prices and that of the cheapest evictions."""
        choices = [self._by_prices(part, prices)]
        with suppress(TimeUpError):
            kept = heuristics.get(_QUICK)(part, budget.deadline)
            if kept is not None:
                choices.append(self._made(kept, _QUICK))
        return min(choices, key=lambda choice: choice.moved)

    def _again(self, prices: dict[int, float], budget: Budget) -> None:
        """CP-SAT with less room where packing its best choice did not fit.

        First with the room with which a quick choice could be packed; then the least part of the
        pool that must be left empty is told by halving.
        """
        tuning = active()
        low, high = 0.0, min(1.0, 2 * self.margin)
        while high - low > tuning.finest_margin and not (self.done or budget.deadline.expired()):
            margin = (low + high) / 2
            part = self._smaller(margin)
            start = self._quick_choice(part, prices, budget)
            kept = search_gaps(part, start.kept, budget.share(tuning.again_share))
            choice = start if kept is None else self._made(kept, SEARCHED)
            # If nothing better was found with so much left empty, no more need be.
            if not self._better(choice) or self._place(choice, budget.share(tuning.packing_share)):
                high = margin
            else:
                low = margin

    def _smaller(self, margin: float) -> SpillProblem:
        """The problem with this part of the fast pool left empty at each step, if the op fits."""
        problem = self.problem
        left = problem.capacity - problem.least_load()
        taken = np.minimum(left, int(problem.capacity * margin))
        return replace(problem, base=problem.base + taken)

    def _by_rules(self, problem: SpillProblem, budget: Budget) -> Iterator[Choice]:
        """Choices of the eviction rules for which there is time, and the one that keeps no gap."""
        share = budget.share(active().rules_share).deadline
        with suppress(TimeUpError):
            for name in heuristics.names():
                kept = heuristics.get(name)(problem, share)
                if kept is not None:
                    yield self._made(kept, name)
        yield self._made(problem.gap_fixed == 1, "everything dropped")

    def _by_prices(self, problem: SpillProblem, prices: dict[int, float]) -> Choice:
        """Gaps kept in the order of what they save for the price of their room."""
        price = np.array([prices.get(step, 0.0) for step in range(problem.steps)])
        summed = np.concatenate([[0.0], np.cumsum(price)])
        room = problem.room[problem.gap_storage]
        paid = room * (summed[problem.gap_upper] - summed[problem.gap_lower])
        dropped = problem.gap_fixed == 1
        loads = Loads(problem, dropped)
        saved = drop_cost(problem, Loads(problem, problem.all_kept()), np.arange(len(dropped)))
        for gap in np.argsort(paid - saved, kind="stable").tolist():
            alone = problem.stay[problem.gap_storage[gap]]
            if problem.gap_fixed[gap] < 0 and not alone and loads.fits_with(gap):
                loads.keep(gap)
        return self._made(loads.kept, "room prices")

    def _place(self, choice: Choice, budget: Budget, *, quick: bool = False) -> bool:
        """True if the choice could be packed within the budget, and is taken if it is better."""
        if not self._better(choice):
            return True
        layout = self._lay_out(choice, budget, quick=quick)
        if not layout.fits:
            return False
        self._take(choice, layout)
        return True

    def _lay_out(self, choice: Choice, budget: Budget, *, quick: bool) -> Layout:
        return lay_out(
            self.program,
            self.residency,
            self.problem,
            choice.kept,
            self.pools,
            budget,
            share=self.share,
            quick=quick,
        )

    def _take(self, choice: Choice, layout: Layout) -> None:
        self.choice, self.layout = choice, layout
        self.report(choice.moved, self.bound.value, choice.found_by)

    def _repair(self, choice: Choice, budget: Budget) -> None:
        """Drop one gap after another of a choice whose packing does not fit, until it does."""
        for _ in range(active().repairs):
            if budget.deadline.expired() or not self._better(choice):
                return
            layout = self._lay_out(choice, budget, quick=True)
            if layout.fits:
                self._take(choice, layout)
                return
            repaired = self._repaired(choice, layout) if layout.excess else None
            if repaired is None:
                return
            choice = repaired

    def _repaired(self, choice: Choice, layout: Layout) -> Choice | None:
        """The choice with gaps dropped at the steps of buffers that end above the fast pool.

        Half of the excess becomes free there, at the least bytes moved for each byte of room.
        """
        problem = self.problem
        held = self._steps_above(layout)
        loads = Loads(problem, choice.kept)
        free = problem.gap_fixed < 0
        target = problem.capacity - max(1, layout.excess // 2)
        limit = np.maximum(np.minimum(loads.load, target), problem.least_load())
        dropped = 0
        while True:
            over = np.flatnonzero(held & (loads.load > limit))
            gaps = np.zeros(0, np.int64)
            if len(over):
                step = int(over[np.argmax(loads.load[over])])
                here = (problem.gap_lower <= step) & (step < problem.gap_upper)
                gaps = np.flatnonzero(loads.kept & free & here)
                if not len(gaps):
                    held[step] = False
                    continue
            if not len(gaps):
                break
            cost = drop_cost(problem, loads, gaps)
            gap = int(gaps[np.argmin(cost / problem.room[problem.gap_storage[gaps]])])
            drop_gaps(loads, [gap])
            dropped += 1
        if not dropped:
            # Gaps of no length still tie two accesses to one address.
            gaps = np.flatnonzero(loads.kept & free)
            if not len(gaps):
                return None
            cost = drop_cost(problem, loads, gaps)
            drop_gaps(loads, [int(gaps[np.argmin(cost)])])
        return self._made(loads.kept, choice.found_by)

    def _steps_above(self, layout: Layout) -> Flags:
        """Steps of the ops at which a buffer lives that ends above the fast pool."""
        buffers, capacity = layout.problem, layout.problem.pools[0].capacity
        assert capacity is not None
        above = (layout.pool == 0) & (layout.offset + buffers.size > capacity)
        op_steps = np.cumsum([name in self.program.graph.op for name in layout.order])
        held: Flags = np.zeros(self.problem.steps, bool)
        for row in np.flatnonzero(above).tolist():
            lower, upper = int(buffers.lower[row]), int(buffers.upper[row])
            held[max(0, int(op_steps[lower]) - 1) : int(op_steps[upper - 1])] = True
        return held

    def _made(self, kept: Flags, found_by: str) -> Choice:
        return Choice(kept, int(self.problem.moved(kept).sum()), found_by)

    def _proved(self, bound: int) -> None:
        if bound > self.bound.value:
            self.raise_bound(MovedBound(bound, SEARCHED))

    def raise_bound(self, bound: MovedBound) -> None:
        """Take a bound that is higher than the one known."""
        if bound.value > self.bound.value:
            self.bound = bound
            self.report(None if self.choice is None else self.choice.moved, bound.value, bound.name)

    def outcome(self) -> Spilled:
        """The best plan so far, the bound, and the op that does not fit."""
        return Spilled(
            self.program, self.problem, self.choice, self.layout, self.bound, self.shortfall
        )


def find_shortfall(problem: SpillProblem) -> Shortfall | None:
    """The op whose operands exceed the capacity by most, or ``None`` if all fit.

    Examples
    --------
    >>> from cpplan.model.graph import Graph, Op, Tensor
    >>> from cpplan.program.anf import to_anf
    >>> tensors = Tensor("x", 8, kind="input"), Tensor("y", 8, kind="output")
    >>> program = to_anf(Graph("g", tensors, (Op("f", inputs=("x",), outputs=("y",)),)))
    >>> find_shortfall(spill_problem(program, Residency(), (Pool("fast", 12), Pool("slow"))))
    Shortfall(op='f', needed=16, missing=4)
    """
    least = problem.least_load()
    step = int(np.argmax(least))
    missing = int(least[step]) - problem.capacity
    if missing <= 0:
        return None
    return Shortfall(problem.ops[step] if problem.ops else "", int(least[step]), missing)


def spill(
    program: Program,
    residency: Residency,
    pools: tuple[Pool, Pool],
    budget: Budget,
    *,
    share: bool = False,
    order: bool = False,
    report: Callable[[int | None, int, str], None] = lambda moved, bound, source: None,
) -> Spilled:
    """The plan of fewest bytes moved that is found within the budget.

    Parameters
    ----------
    program, residency
        The model in its given order.
    pools
        The fast and the slow pool.
    budget
        For all of it.
    share
        True if ops may write over what they are the last to read.
    order
        True to search the order, too, unless there is only one.
    report
        Called at each improvement with the bytes moved, their bound, and the source.

    Examples
    --------
    >>> from cpplan.model.graph import Graph, Op, Tensor
    >>> from cpplan.program.anf import to_anf
    >>> from cpplan.runtime.budget import make_budget
    >>> tensors = Tensor("a", 8), Tensor("b", 8), Tensor("c", 8)
    >>> ops = (
    ...     Op("f", outputs=("a",)),
    ...     Op("g", outputs=("b",)),
    ...     Op("h", inputs=("b",), outputs=("c",)),
    ...     Op("k", inputs=("a", "c")),
    ... )
    >>> pools = Pool("fast", 16), Pool("slow")
    >>> found = spill(to_anf(Graph("g", tensors, ops)), Residency(), pools, make_budget(10))
    >>> found.choice.moved, found.bound.value, found.layout.order
    (16, 16, ('f', 'spill a', 'g', 'h', 'reload a', 'k'))
    """
    search = SpillSearch(program, residency, pools, share=share, report=report)
    order_of, before = program.order, program.graph.predecessors
    free = any(one not in before[two] for one, two in pairwise(order_of))
    if order and free:
        return _search_orders(search, budget)
    _run(search, budget)
    return search.outcome()


def _run(search: SpillSearch, budget: Budget) -> None:
    """Run a search until it or the time ends, or the user ends it."""
    try:
        search.run(budget)
    except TimeUpError:
        return
    except KeyboardInterrupt:
        budget.deadline.cancel()


def _search_orders(given: SpillSearch, budget: Budget) -> Spilled:
    """The best plan over the orders tried; its bound holds for every order."""
    program, tuning = given.program, active()
    graph, share = program.graph, given.share
    bound = bound_of_every_order(graph, given.problem, program.order, share=share)
    given.below = None
    _run(given, budget.share(tuning.given_share))
    best, found_by = given, "given order"

    def settled() -> bool:
        return best.choice is not None and best.choice.moved <= bound.value

    if not settled() and not budget.deadline.expired():
        for order, name in _orders(given, budget):
            if settled() or budget.deadline.expired():
                break
            other = SpillSearch(
                Program(graph, order), given.residency, given.pools, share=share,
                report=given.report,
            )  # fmt: skip
            if best.choice is not None:
                other.below = best.choice.moved
            _run(other, budget.share(tuning.search_share))
            if best.choice is None or (
                other.choice is not None and other.choice.moved < best.choice.moved
            ):
                best, found_by = other, name
    found = best.outcome()
    short = found.shortfall
    if short is not None and not _needs_alone(given.problem, short):
        short = None
    return replace(found, bound=bound, every_order=True, order_by=found_by, shortfall=short)


def _orders(given: SpillSearch, budget: Budget) -> Iterator[tuple[tuple[int, ...], str]]:
    """Orders that promise to move fewer bytes, the best first, each once."""
    from cpplan.ordering.problem import order_problem
    from cpplan.ordering.solve import search_order
    from cpplan.spilling.search.orders import NAME, climb_orders, flatten

    program, tuning = given.program, active()
    start = np.array(program.order, np.int64)
    turn = budget.share(tuning.order_share)
    least = search_order(order_problem(program.graph, given.residency), start, turn)
    starts = list(dict.fromkeys((tuple(program.order), tuple(least.order.tolist()))))
    flat = flatten(program.graph, given.problem, program.order, share=given.share)
    climbed = climb_orders(flat, starts, budget.share(tuning.climb_share).deadline, budget.seed)
    seen = {tuple(program.order)}
    for value, order in climbed:
        if order not in seen and value < 1 << 59:
            seen.add(order)
            yield order, NAME
    if starts[-1] not in seen:
        yield starts[-1], least.found_by


def _needs_alone(problem: SpillProblem, short: Shortfall) -> bool:
    """True if the op's own operands do not fit, so that no order helps."""
    step = problem.ops.index(short.op) if short.op in problem.ops else 0
    return int(problem.least_load()[step] - problem.base[step]) > problem.capacity


def room_price(
    program: Program,
    residency: Residency,
    pools: tuple[Pool, Pool],
    *,
    share: bool = False,
    seconds: float = 10.0,
) -> float | None:
    """Bytes moved that one more byte of the fast pool saves, by the linear relaxation.

    ``None`` if an op does not fit, or the relaxation is not solved in time.

    Examples
    --------
    >>> from cpplan.model.graph import Graph, Op, Tensor
    >>> from cpplan.program.anf import to_anf
    >>> tensors = Tensor("x", 8, kind="input"), Tensor("y", 8, kind="output")
    >>> program = to_anf(Graph("g", tensors, (Op("f", inputs=("x",), outputs=("y",)),)))
    >>> room_price(program, Residency(), (Pool("fast", 16), Pool("slow")))
    0.0
    """
    from formulations.spilling_prices import relaxed_prices

    problem = spill_problem(program, residency, pools, share=share)
    model = None if find_shortfall(problem) else make_model(problem, make_budget(seconds))
    prices = None if model is None else relaxed_prices(model, seconds)
    return None if prices is None else float(sum(prices.values()))
