"""``SpillSearch``: gaps, moves and offsets that move the fewest bytes at one order.

The search tries, in turn: keeping everything, if that fits; the eviction rules; the linear
relaxation, whose prices bound the cost of moves and give a choice of gaps; CP-SAT on the gaps. The
best choice is packed. If its bytes fit at every step, but no offsets are found, gaps and offsets
are changed together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from cpplan.model.pool import Pool
from cpplan.model.problem import Ints
from cpplan.model.residency import Residency
from cpplan.model.spill_problem import SpillProblem
from cpplan.program.anf import Program
from cpplan.program.timeline import run_time
from cpplan.runtime.budget import Budget
from cpplan.runtime.compiled import COMPILING_SHARE, prepare
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.spilling import heuristics
from cpplan.spilling.bounds import SEARCHED, MovedBound, bound_by_prices
from cpplan.spilling.cp_sat_gaps import make_model, search_gaps, seconds_to_begin
from cpplan.spilling.every_order import bound_of_every_order
from cpplan.spilling.full_steps import prices_of_full_steps
from cpplan.spilling.heuristics.eviction import drop_cost
from cpplan.spilling.loads import Loads
from cpplan.spilling.loops import ADDRESSES
from cpplan.spilling.outcome import Choice, Shortfall, Spilled, find_shortfall, make_choice
from cpplan.spilling.packed import Layout, lay_out, places_of
from cpplan.spilling.problem import spill_problem
from cpplan.spilling.search.addresses import NAME, AddressSearch, Placed
from cpplan.spilling.search.every_choice import ALL_GAPS, EveryChoice, Ordered
from cpplan.spilling.search.hiding import hide_copies
from cpplan.spilling.search.repacking import CHANGED, Repacking, applies_to
from cpplan.spilling.search.repacking import NAME as REPACKED
from cpplan.spilling.tuning import active
from cpplan.verification.bound_table import NOTHING

if TYPE_CHECKING:
    from formulations.spilling import SpillModel

# With many ops: time expected for a layout, as a multiple of the time to build the problem.
_MANY_LAID_OUT = 1.8
# Share of the time for packing everything into the fast pool, if its live bytes fit.
_STILL_SHARE = 0.4
# Share of the time left for packing the best choice of the eviction rules and the relaxation.
FIRST_SHARE = 0.2
# Share of the time left for packing the choices of the eviction rules, the cheapest first.
_RULES_PLACED_SHARE = 0.4
# Share of the time left for packing choices that leave a part of the pool empty.
_MARGIN_SHARE = 0.6
# Share of the time left for the linear relaxation.
_RELAXATION_SHARE = 0.3
# Share of the time left for CP-SAT on the gaps.
SEARCH_SHARE = 0.5
# Share of the time left for packing CP-SAT's solution.
_PACKING_SHARE = 0.3
# Share of the time left for placing retentions by insertion and dropping gaps that are in the
# way.
_REPACKING_SHARE = 0.8
# Fewest gaps for which insertion comes before all other packing.
_INSERTION_FIRST = 2_000
# Share of the time left after the given order for the bound that holds for every order.
EVERY_ORDER_SHARE = 0.08
# Share of the time for all eviction rules.
_RULES_SHARE = 0.2
# The same for the packing by address of the first of them, with many ops and little time.
_HURRIED_SHARE = 0.05
# Time reserved to make and check a plan: multiples of the time for a layout, and of the time for
# the bound by prices.
_CHECKED = (4.0, 1.0)
# With many ops: share of the time left for the first eviction rule.
_MANY_FIRST_RULE_SHARE = 0.6
# The same with many ops.
_MANY_CHECKED = (1.3, 9.0)
# With many ops: time for a layout and its check, as a multiple of that expected for a layout; and
# seconds by which they may end late.
_LAID_OUT_AND_CHECKED, _GRACE = 2.4, 0.8
# Share of the time left for trying all choices of gaps, or of orders and gaps.
EVERY_CHOICE_SHARE = 0.5

# Eviction rules that are tried before all others.
_EARLY = "belady", "whole tensors"
# Eviction rule for problems with a margin.
_QUICK = "cost per byte and step"
# The next margin is tried only if time is left for this number of packings.
_ATTEMPTS_LEFT = 3
# Seconds of the relaxation if there is no deadline.
_ENDLESS = 3600.0


class SpillSearch:
    """A search for the choice of gaps that moves the fewest bytes at one order.

    Parameters
    ----------
    program, residency
        The model in its order.
    pools
        The fast and the slow pool.
    share
        True if an op may write over an input that no later op reads.
    time
        True to count the cycles of moves instead of their bytes.
    report
        Function that is called at each improvement with the cost of moves, the bound on it, and
        the name of the search.
    """

    def __init__(
        self,
        program: Program,
        residency: Residency,
        pools: tuple[Pool, Pool],
        *,
        share: bool = False,
        time: bool = False,
        report: Callable[[int | None, int, str], None] = lambda paid, bound, source: None,
    ):
        self.program, self.residency, self.pools, self.share = program, residency, pools, share
        self.time = time
        self.problem = spill_problem(program, residency, pools, share=share, time=time)
        self.bound = MovedBound(0, NOTHING)
        self.choice: Choice | None = None
        self.layout: Layout | None = None
        self.shortfall: Shortfall | None = None
        # Seconds taken by the first layout and by the bound by prices; expected with many ops.
        self.layout_seconds = self.prices_seconds = 0.0
        self.many = False
        # The bound that holds for every order, if it is known.
        self.every_order: MovedBound | None = None
        # True if that bound is computed after this search, since others follow.
        self.searches_orders = False
        # True if no choice of gaps fits.
        self.exhausted = False
        # Only plans whose moves cost less than this are wanted.
        self.below: int | None = None
        # Buffer -> its offset in a plan without moves, if one is known.
        self.known: Mapping[str, int] = {}
        self.report = report

    @property
    def done(self) -> bool:
        """True if the best plan meets the bound, or the bound is not below ``below``."""
        if self.below is not None and self.bound.value >= self.below:
            return True
        return self.choice is not None and self.choice.paid <= self.bound.value

    def expect(self, built: float) -> None:
        """Expect the time for a layout of many ops, whose problem took so long to build."""
        self.many = True
        self.layout_seconds = _MANY_LAID_OUT * built

    def allows(self, layouts: int, deadline: Deadline) -> bool:
        """True unless there are many ops and too little time for layouts and a check."""
        reserved = _MANY_CHECKED[0] * self.layout_seconds
        needed = layouts * self.layout_seconds
        return not self.many or deadline.endless or deadline.remaining(reserved) >= needed

    def _ends_in_time(self, deadline: Deadline) -> bool:
        """True unless a layout of many ops, and its check, would end too long after the time."""
        needed = _LAID_OUT_AND_CHECKED * self.layout_seconds
        return not self.many or deadline.endless or deadline.remaining() + _GRACE >= needed

    def _hurries(self, deadline: Deadline) -> bool:
        """True if the time left is for one choice and its layout."""
        return not self.allows(2, deadline)

    def run(self, budget: Budget) -> None:
        """Search until the deadline, or until the best plan is proved optimal."""
        problem = self.problem
        short = find_shortfall(problem)
        if short is not None:
            self.shortfall = short
            return
        if (problem.load(problem.all_kept()) <= problem.capacity).all():
            everything = make_choice(self.problem, problem.all_kept(), "everything kept")
            if everything.paid == 0 and self.allows(2, budget.deadline):
                self._place_known(everything, budget)
                self._place(everything, budget.share(_STILL_SHARE))
        if not self.done:
            self._search(budget)

    def _search(self, budget: Budget) -> None:
        problem, tuning = self.problem, active()
        quick: dict[int, float] = {}
        if self.allows(3, budget.deadline):
            quick = prices_of_full_steps(problem, budget.deadline)
            self._bound_by(quick, budget.deadline)
        rules = sorted(self._by_rules(problem, budget), key=lambda choice: choice.paid)
        best = rules[0]
        repacking = self._repacking(budget)
        if repacking is not None:
            best = self._by_changes(best, repacking, budget)
        self._place_by_address(rules, budget)
        if not self._ends_in_time(budget.deadline):
            return
        self._place_first(rules, budget.share(_RULES_PLACED_SHARE))
        if self.choice is not None and budget.deadline.expired():
            return
        few = len(problem.gap_lower) <= tuning.cp_sat_gaps
        few &= budget.deadline.endless or budget.deadline.remaining() > seconds_to_begin(problem)
        model = make_model(problem, budget) if few else None
        prices: dict[int, float] = {}
        if model is not None:
            prices = self._relax(model, budget)
            self._keep_time(budget.deadline)
        if not prices:
            if self.every_order is not None:
                self.raise_bound(self.every_order)
            elif not self.searches_orders:
                turn = budget.share(EVERY_ORDER_SHARE).deadline
                self.raise_bound(self.bound_every_order(turn))
            prices = quick
        if self._settled(budget):
            return
        if model is not None:
            priced = (self._by_prices(problem, known) for known in (prices, quick))
            best = min(best, *priced, key=lambda choice: choice.paid)
        placed = self._place(best, budget.share(FIRST_SHARE), quick=True)
        shares = len(problem.credit_step) > 0
        if not placed and (repacking is None or self.choice is None or shares):
            self._with_margin(prices, budget.share(_MARGIN_SHARE))
        many = len(problem.gap_lower) >= _INSERTION_FIRST
        if many and not placed:
            self._by_insertion(best, repacking, budget)
        if best.paid > self.bound.value and few and not budget.deadline.expired():
            share = budget.share(SEARCH_SHARE)
            kept = search_gaps(problem, best.kept, share, proved=self._proved)
            if kept is not None and int(problem.paid(kept).sum()) < best.paid:
                best = make_choice(self.problem, kept, SEARCHED)
        if not self._better(best):
            return
        if not self._place(best, budget.share(_PACKING_SHARE)) and not many:
            self._by_insertion(best, repacking, budget)

    def _settled(self, budget: Budget) -> bool:
        """Try all choices of gaps, if they are few; true if that settles the problem."""
        share = budget.share(EVERY_CHOICE_SHARE)
        place = partial(self.place_choice, share)
        least = try_every_choice(self, place, share.deadline, any_order=False)
        self.exhausted = least is None
        self.raise_bound(MovedBound(least or 0, ALL_GAPS))
        return self.exhausted or self.done

    @property
    def most(self) -> int | None:
        """Cost below which plans are wanted."""
        costs = [self.below, None if self.choice is None else self.choice.paid]
        return min((cost for cost in costs if cost is not None), default=None)

    def place_choice(self, budget: Budget, choice: Ordered) -> bool | None:
        """Place a choice and take it if it fits; false if it cannot fit, ``None`` if unknown."""
        found = make_choice(self.problem, choice.gaps(self.problem), ALL_GAPS)
        for quick in (True, False):
            layout = self._lay_out(found, budget, quick=quick)
            if layout.fits:
                self._take(found, layout)
                return True
        return False if layout.impossible else None

    def _place_by_address(self, choices: Sequence[Choice], budget: Budget) -> None:
        """Search for a packing by address from some choices, and take the best."""
        prepare(ADDRESSES, budget.deadline.share(COMPILING_SHARE))
        fast = self.pools[0]
        assert fast.capacity is not None
        search = AddressSearch(self.problem, fast.capacity)
        hurries = self._hurries(budget.deadline)
        share = budget.share(_HURRIED_SHARE if hurries else _RULES_SHARE).deadline
        placed = search.place_best([choice.kept for choice in choices], share)
        self._take_placed(placed, budget)

    def _repacking(self, budget: Budget) -> Repacking | None:
        """The search for packings by insertion, if it applies."""
        if not applies_to(self.problem):
            return None
        fast = self.pools[0]
        assert fast.capacity is not None
        return Repacking(self.problem, fast.capacity, budget.seed)

    def _by_changes(self, best: Choice, repacking: Repacking, budget: Budget) -> Choice:
        """A cheaper choice of gaps, without offsets; the given one if none is found."""
        kept = repacking.choose(best.kept, 0.0, budget.deadline)
        if kept is None:
            return best
        return min(best, make_choice(self.problem, kept, CHANGED), key=lambda choice: choice.paid)

    def _by_insertion(self, choice: Choice, repacking: Repacking | None, budget: Budget) -> None:
        """Place the retentions of a choice by insertion, and change gaps that are in the way."""
        if repacking is None:
            return
        known = None
        # Insertion writes nothing over an input.
        apart = not len(self.problem.credit_step)
        if self.choice is not None and self.layout is not None and apart:
            kept = self.choice.kept
            places = places_of(self.layout, self.problem, kept, self.program.graph)
            known = Placed(kept, self.choice.paid, places)
        share = budget.share(_REPACKING_SHARE).deadline
        placed = repacking.run(choice.kept, known, share, self.bound.value)
        self._take_placed(placed, budget, REPACKED)

    def _take_placed(self, placed: Placed | None, budget: Budget, name: str = NAME) -> None:
        if placed is None or not self._better(
            found := make_choice(self.problem, placed.kept, name)
        ):
            return
        if not self._ends_in_time(budget.deadline):
            return
        layout = self._lay_out(found, budget, quick=True, places=placed.places)
        if layout.fits:
            self._take(found, layout)

    def _better(self, choice: Choice) -> bool:
        if self.below is not None and choice.paid >= self.below:
            return False
        return self.choice is None or choice.paid < self.choice.paid

    def _relax(self, model: SpillModel, budget: Budget) -> dict[int, float]:
        """Prices of room from the linear relaxation, whose bound is kept; empty if time is up."""
        from formulations.spilling_prices import relaxed_prices

        share = budget.share(_RELAXATION_SHARE).deadline
        prices = relaxed_prices(model, _ENDLESS if share.endless else share.remaining())
        if prices is None:
            return {}
        self._bound_by(prices, budget.deadline)
        return prices

    def _bound_by(self, prices: dict[int, float], deadline: Deadline) -> None:
        """Take the bound that prices of room prove, if it is higher than the one known."""
        if prices:
            start = deadline.elapsed()
            self.raise_bound(bound_by_prices(self.problem, prices))
            self.prices_seconds = deadline.elapsed() - start

    def bound_every_order(self, deadline: Deadline) -> MovedBound:
        """The bound that holds for every order; it is weaker if the deadline passes.

        There is none if it leaves no time for its check, which replays the program.
        """
        if not self.allows(1, deadline):
            return MovedBound(0, NOTHING)
        return bound_of_every_order(
            self.program.graph, self.problem, self.program.order,
            share=self.share, deadline=deadline,
        )  # fmt: skip

    def _keep_time(self, deadline: Deadline) -> None:
        """Reserve the time for making a plan of the best layout and for checking it."""
        layout, prices = _MANY_CHECKED if self.many else _CHECKED
        deadline.reserve(layout * self.layout_seconds + prices * self.prices_seconds)

    def _place_first(self, choices: Sequence[Choice], budget: Budget) -> None:
        """Take the cheapest of some sorted choices that heuristics can pack."""
        for choice in choices:
            if budget.deadline.expired() or self._place(choice, budget, quick=True):
                return

    def _with_margin(self, prices: dict[int, float], budget: Budget) -> None:
        """Try choices that leave ever more of the pool empty, until heuristics can pack one.

        When time is left for a few attempts only, all margins but the last are skipped.
        """
        margins = active().margins
        before, longest = budget.deadline.remaining(), 0.0
        for margin in margins:
            left = budget.deadline.remaining()
            if self.choice is not None and left <= 0.0:
                return
            longest, before = max(longest, before - left), left
            if left < _ATTEMPTS_LEFT * longest and margin != margins[-1]:
                continue
            choice = self._quick_choice(self._smaller(margin), prices, budget)
            if self._place(choice, budget, quick=True):
                return
        self._place(
            make_choice(self.problem, self.problem.gap_fixed == 1, "everything dropped"), budget
        )

    def _quick_choice(self, part: SpillProblem, prices: dict[int, float], budget: Budget) -> Choice:
        """The better of two choices: by prices, and by the quick eviction rule."""
        choices = [self._by_prices(part, prices)]
        with suppress(TimeUpError):
            kept = heuristics.get(_QUICK)(part, budget.deadline)
            if kept is not None:
                choices.append(make_choice(self.problem, kept, _QUICK))
        return min(choices, key=lambda choice: choice.paid)

    def _smaller(self, margin: float) -> SpillProblem:
        """The problem with a part of the fast pool left empty, as far as each op then fits."""
        problem, room = self.problem, int(self.problem.capacity * margin)
        left = problem.capacity - problem.least_load()
        return replace(problem, base=problem.base + np.minimum(left, room))

    def _by_rules(self, problem: SpillProblem, budget: Budget) -> Iterator[Choice]:
        """Yield the choices of the eviction rules in time, and the one that keeps no gap.

        Rules that differ most come first, in case time is up; choices come in the order registered.
        """
        names = heuristics.names()
        found: dict[str, Choice] = {}
        share = budget.share(_RULES_SHARE).deadline
        # Without any rule, all moves that are possible are made: far more to lay out and check.
        first = budget.share(_MANY_FIRST_RULE_SHARE).deadline if self.many else share
        early = [name for name in _EARLY if name in names]
        with suppress(TimeUpError):
            for name in dict.fromkeys([*early, *names]):
                if found and self._hurries(budget.deadline):
                    break
                kept = heuristics.get(name)(problem, share if found else first)
                if kept is not None:
                    found[name] = make_choice(self.problem, kept, name)
        yield from (found[name] for name in names if name in found)
        yield make_choice(self.problem, problem.gap_fixed == 1, "everything dropped")

    def priced(self, deadline: Deadline) -> Choice:
        """Choice of gaps by prices of room that take no linear program."""
        return self._by_prices(self.problem, prices_of_full_steps(self.problem, deadline))

    def _by_prices(self, problem: SpillProblem, prices: dict[int, float]) -> Choice:
        """Choice that keeps gaps greedily, by the cost saved minus the price of the room."""
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
        return make_choice(self.problem, loads.kept, "room prices")

    def _place_known(self, everything: Choice, budget: Budget) -> None:
        """Take the known offsets of a plan without moves, if they fit."""
        problem, known = self.problem, self.known
        if not all(name in known for name in problem.names):
            return
        rows = np.array([known[name] for name in problem.names], np.int64)
        layout = lay_out(
            self.program, self.residency, problem, everything.kept, self.pools, budget,
            share=self.share, places=rows[problem.access_storage],
        )  # fmt: skip
        if layout.fits:
            self._take(everything, layout)

    def _place(self, choice: Choice, budget: Budget, *, quick: bool = False) -> bool:
        """Pack a choice and take it if it fits; return false if it does not fit."""
        if not self._better(choice):
            return True
        deadline = budget.deadline
        late = not deadline.endless and deadline.remaining() < self.layout_seconds
        if (late and self.choice is not None) or not self._ends_in_time(deadline):
            return False
        layout = self._lay_out(choice, budget, quick=quick)
        if layout.fits:
            self._take(choice, layout)
        return layout.fits

    def _lay_out(
        self, choice: Choice, budget: Budget, *, quick: bool, places: Ints | None = None
    ) -> Layout:
        deadline = budget.deadline
        start = deadline.elapsed()
        layout = lay_out(
            self.program,
            self.residency,
            self.problem,
            choice.kept,
            self.pools,
            budget,
            share=self.share,
            quick=quick,
            places=places,
        )
        if quick:
            self.layout_seconds = self.layout_seconds or deadline.elapsed() - start
            self._keep_time(deadline)
        return layout

    def _take(self, choice: Choice, layout: Layout) -> None:
        self.choice, self.layout = choice, layout
        self.report(choice.paid, self.bound.value, choice.found_by)

    def _proved(self, bound: int) -> None:
        if bound > self.bound.value:
            self.raise_bound(MovedBound(bound, SEARCHED))

    def raise_bound(self, bound: MovedBound) -> None:
        """Take a bound if it is higher than the best one so far."""
        if bound.value > self.bound.value:
            self.bound = bound
            self.report(None if self.choice is None else self.choice.paid, bound.value, bound.name)

    def hide(self, budget: Budget) -> None:
        """Let as many copies run while ops run as still leave a packing that fits.

        Ever larger margins are tried, which leave more of the fast pool to the packing.
        """
        assert self.layout is not None
        assert self.choice is not None
        graph, slow = self.program.graph, self.pools[1]
        work = np.array([int(op.cost) for op in self.program.ops], np.int64)
        best = run_time(graph, self.layout.order, self.layout.moves, slow)
        for margin in (0.0, *active().margins):
            if budget.deadline.expired():
                return
            hidden = hide_copies(self.problem, self.choice.kept, work, margin)
            layout = lay_out(
                self.program, self.residency, self.problem, self.choice.kept, self.pools, budget,
                share=self.share, quick=margin > 0.0, hidden=hidden,
            )  # fmt: skip
            time = run_time(graph, layout.order, layout.moves, slow)
            if layout.fits and time < best:
                self.layout = layout
                return

    def outcome(self) -> Spilled:
        """The best plan so far, the bound, and the op that does not fit."""
        return Spilled(
            self.program, self.problem, self.choice, self.layout, self.bound, self.shortfall,
            self.exhausted,
        )  # fmt: skip


def try_every_choice(
    search: SpillSearch,
    place: Callable[[Ordered], bool | None],
    deadline: Deadline,
    *,
    any_order: bool,
) -> int | None:
    """The cost below which no plan exists, as by ``EveryChoice.settle``; 0 if ops are too many."""
    if len(search.program.order) > active().every_choice_ops:
        return 0
    graph, order = search.program.graph, search.program.order
    every = EveryChoice(graph, search.problem, order, any_order=any_order)
    return every.settle(place, search.most, deadline)
