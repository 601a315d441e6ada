"""Lower bounds on the cost of every schedule, from the storages retained at first runs of units.

The model is ``formulations.retained_at_cuts``; a *cut* is the first run of a unit. First every unit
is tried as the only cut: those with the most bytes live in every order, and those that access the
most, in turn. Then the cuts are the best unit, and two, four,
… units of the path of most weight: first by linear relaxation, then in integers by CP-SAT.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from cpplan.model.certificates import (
    MOST_COLUMNS,
    MOST_ROWS,
    MOST_TERMS,
    RULES,
    CutDuals,
    DualRow,
)
from cpplan.model.costs import sum_costs
from cpplan.model.remat_problem import RematProblem
from cpplan.ordering.bounds import order_bounds, topological_order
from cpplan.remat.footprint import accessed_bytes
from cpplan.runtime.budget import Budget
from cpplan.runtime.build_in_time import build_in_time
from cpplan.runtime.cp_sat_run import run_model
from cpplan.runtime.deadline import Deadline

if TYPE_CHECKING:
    from formulations.integer_rows import Relaxed
    from formulations.retained_at_cuts import CutModel

# Bound from cuts: share of its time for each unit as the only cut.
_SINGLE_CUT_SHARE = 0.3
# Bound from cuts: share for the best single cut in integers.
_FIRST_CUT_SHARE = 0.15
# Bound from cuts: share for relaxations of more cuts; the rest is for integers.
_RELAXED_CUTS_SHARE = 0.5
# Units up to which cuts are used: precedences are stored as a matrix.
CUT_UNITS = 10_000
# Rows of a model up to which CP-SAT keeps the time limit during its relaxation.
_CUT_ROWS = 20_000
# Approximate factor by which twice the cuts make a relaxation slower.
_CUT_GROWTH = 5.0

# Approximate seconds to build a model for each term of its rows.
_SECONDS_PER_TERM = 8e-6

RUNS_ONCE, RELAXED, INTEGRAL = "every op once", "linear bound at cuts", "CP-SAT at cuts"


@dataclass(frozen=True, slots=True)
class CutBound:
    """A lower bound on the cost of every schedule within a limit.

    Attributes
    ----------
    cost
        The lower bound.
    name
        Name of its proof.
    cuts
        The units whose first runs are the cuts of the proof, in order.
    infeasible
        True if it is proved that no schedule is within the limit; ``cost`` is then an earlier
        bound. If false, there may still be no schedule.
    extra
        The bound less the cost of every unit once, exactly.
    certificate
        Duals that prove the bound, or that no schedule is within the limit; ``None`` unless the
        proof is linear.
    """

    cost: int | float
    name: str
    cuts: tuple[int, ...]
    infeasible: bool = False
    extra: Fraction = field(default=Fraction(0), compare=False, repr=False)
    certificate: CutDuals | None = field(default=None, compare=False, repr=False)


def cut_bound(
    problem: RematProblem,
    limit: int,
    budget: Budget,
    *,
    order: Sequence[int] | None = None,
    target: float | None = None,
    only: int | None = None,
) -> CutBound:
    """A lower bound on the cost of every schedule within a limit, with any number of repetitions.

    Linear bounds are computed again from their duals in integers, so that rounding errors cannot
    make them wrong. For integer programs, CP-SAT's bound is used.

    Parameters
    ----------
    problem
        A problem whose precedences have no cycle.
    limit
        Limit on the peak, bytes.
    budget
        When its deadline passes, the best bound so far is returned: at least the cost of every unit
        once.
    order
        All units in the order of their first runs, if only such schedules count.
    target
        A bound that is good enough: the cost of a known schedule.
    only
        The unit that is tried as the only cut, by linear relaxation alone.
    """
    search = CutSearch(problem, limit, budget, order, target)
    search.run() if only is None else search.try_alone(only)
    return search.certified()


class CutSearch:
    """The best bound so far, and the steps that raise it."""

    def __init__(
        self,
        problem: RematProblem,
        limit: int,
        budget: Budget,
        order: Sequence[int] | None,
        target: float | None = None,
        before: np.ndarray | None = None,
    ):
        self.problem, self.limit, self.budget, self.target = problem, limit, budget, target
        self.given = None if order is None else tuple(order)
        self.best = CutBound(sum_costs(problem.cost), RUNS_ONCE, ())
        # Precedences between first runs, found when they are first needed.
        self.before = before
        # The model and the duals of the best linear bound.
        self._proof: tuple[CutModel, Relaxed] | None = None

    def run(self) -> None:
        """Try single cuts, then sets of cuts that double in size, then the same in integers."""
        alone: dict[int, float] = {}
        path = self.weighted_path(alone)
        if not path:
            return
        chosen = [heaviest(path, alone, 1)]
        self._solve(chosen[0], self.budget.share(_FIRST_CUT_SHARE))
        slot = self.budget.deadline.share(_RELAXED_CUTS_SHARE)
        while len(chosen[-1]) < len(path):
            count, left = 2 ** len(chosen), slot.remaining()
            ways = [heaviest(path, alone, count), spread(path, alone, count)]
            proved = [self.relax(cuts, slot) or 0 for cuts in dict.fromkeys(ways)]
            chosen.append(ways[proved.index(max(proved))])
            if _CUT_GROWTH * (left - slot.remaining()) > slot.remaining():
                break
        for place, cuts in enumerate(chosen[1:], 1):
            self._solve(cuts, self.budget.share(1 / (len(chosen) - place)))

    def try_alone(self, unit: int) -> None:
        """Try one unit as the only cut."""
        self.relax((unit,), self.budget.deadline)

    def weighted_path(self, weight: dict[int, float]) -> list[int]:
        """The path of units that bound the cost most as the only cut; adds to the weights known.

        Empty if there are too many units, or no time. A weight is the extra cost proved with this
        cut, plus a little for bytes.
        """
        deadline = self.budget.deadline
        if len(self.problem) > CUT_UNITS or deadline.expired():
            return []
        slot = deadline.share(_SINGLE_CUT_SHARE)
        needs = self._retained_bytes()
        most = float(needs.max(initial=0)) or 1.0
        base = sum_costs(self.problem.cost)
        for unit in _fullest_in_turn(needs, accessed_bytes(self.problem)):
            if self._settled() or slot.expired():
                break
            if unit not in weight:
                cost = self.relax((unit,), slot)
                extra = 0.0 if cost is None else float(cost - base)
                # No schedule is better than any cost.
                extra = float(base) if self.best.infeasible else extra
                weight[unit] = extra + 1e-3 * float(needs[unit]) / most
        return self._heaviest_path(weight) if weight else []

    def _retained_bytes(self) -> np.ndarray:
        """Bytes live at each unit if nothing runs twice, in the given order or in every order."""
        if self.given is None:
            return order_bounds(self.problem.ordering).forced
        needs = np.zeros(len(self.problem), np.int64)
        needs[list(self.given)] = self.problem.pressure(self.given)
        return needs

    def _heaviest_path(self, weight: dict[int, float]) -> list[int]:
        """The path of units, each before the next, with the largest total weight."""
        if self.given is not None:
            return list(self.given)
        ordering = self.problem.ordering
        best = [weight.get(unit, 0.0) for unit in range(len(self.problem))]
        previous: list[int | None] = [None] * len(best)
        order = topological_order(ordering)
        for unit in order:
            for other in ordering.predecessors[unit]:
                through = best[other] + weight.get(unit, 0.0)
                if through > best[unit]:
                    best[unit], previous[unit] = through, other
        step: int | None = max(order, key=lambda unit: best[unit])
        path: list[int] = []
        while step is not None:
            path.append(step)
            step = previous[step]
        return path[::-1]

    def relax(self, cuts: tuple[int, ...], deadline: Deadline) -> int | float | None:
        """The linear bound at some cuts, or ``None`` if there is none."""
        if self._settled() or deadline.expired():
            return None
        model = self._model(cuts, deadline)
        if model is None:
            return None
        relaxed = model.rows.relaxed(deadline.remaining(), deterministic=deadline.deterministic)
        deadline.spend(relaxed.seconds)
        if _too_long(model, relaxed):
            return None
        if relaxed.infeasible:
            self.best = replace(self.best, name=RELAXED, cuts=cuts, infeasible=True)
            self._proof = model, relaxed
        if relaxed.bound is None:
            return None
        cost = model.cost_of(relaxed.bound)
        if self._proved(model, relaxed.bound, RELAXED):
            self._proof = model, relaxed
        return cost

    def _solve(self, cuts: tuple[int, ...], budget: Budget) -> None:
        """Raise the bound by CP-SAT, in integers, at some cuts."""
        if self._settled() or budget.deadline.expired():
            return
        model = self._model(cuts, budget.deadline)
        if model is None or len(model.rows.rows) > _CUT_ROWS:
            return
        run_model(
            model,
            budget,
            found=lambda solution: None,
            proved=lambda bound: self._proved(model, bound, INTEGRAL),
            linearization=2,
        )

    def _model(self, cuts: tuple[int, ...], deadline: Deadline) -> CutModel | None:
        from formulations.retained_at_cuts import build, precedence

        if self.before is None:
            self.before = precedence(self.problem, self.given)
        before = self.before
        model = build_in_time(
            lambda: build(self.problem, memory_limit=self.limit, cuts=cuts, before=before),
            deadline,
        )
        if model is not None:
            deadline.spend(_SECONDS_PER_TERM * model.rows.terms)
        return model

    def _proved(self, model: CutModel, bound: int, name: str) -> bool:
        """Keep a bound of a model if it is better than the best; returns true if it is."""
        cost = model.cost_of(bound)
        better = cost > self.best.cost
        if better:
            self.best = CutBound(cost, name, model.cuts, extra=model.extra_of(bound))
        return better

    def price_of_a_byte(self) -> float:
        """Cost by which the best linear bound falls for each byte more, while its duals hold."""
        assert self._proof is not None
        model, relaxed = self._proof
        priced = sum(
            dual
            for (rule, _), dual in zip(model.rows.labels, relaxed.duals, strict=True)
            if rule in ("at cut", "between")
        )
        return float(model.cost_unit) * priced / model.unit

    def certified(self) -> CutBound:
        """The best bound, with its certificate if it is linear."""
        if self._proof is None or self.best.name != RELAXED:
            return self.best
        return replace(self.best, certificate=_duals(*self._proof, given=self.given is not None))

    def _settled(self) -> bool:
        best = self.best
        return best.infeasible or (self.target is not None and best.cost >= self.target)


def _fullest_in_turn(*rankings: np.ndarray) -> list[int]:
    """All units, those with the most bytes of each ranking in turn.

    An op that accesses much leaves little room for all else, also where little is live in every
    order: what waits to be read may run before it, or after.
    """
    by_bytes = [np.argsort(-ranking, kind="stable").tolist() for ranking in rankings]
    return list(dict.fromkeys(chain.from_iterable(zip(*by_bytes, strict=True))))


def _too_long(model: CutModel, relaxed: Relaxed) -> bool:
    """True if a certificate of a relaxation would be longer than a plan may carry."""
    cited = zip(model.rows.rows, relaxed.duals, strict=False)
    lengths = [len(row[0]) for row, dual in cited if dual > 0]
    # The rows of the model leave out columns of a known value.
    terms, columns = 2 * sum(lengths), 2 * len(model.rows.upper)
    return len(lengths) > MOST_ROWS or terms > MOST_TERMS or columns > MOST_COLUMNS


def _duals(model: CutModel, relaxed: Relaxed, *, given: bool) -> CutDuals:
    """The certificate of a linear bound."""
    ordering = model.problem.ordering
    places, multipliers = model.rows.multipliers(relaxed)
    ops: dict[int, int] = {}
    storages: dict[int, int] = {}
    rows = []
    for row, multiplier in multipliers.items():
        rule, indices = model.rows.labels[row]
        cited = []
        for kind, index in zip(RULES[rule], indices, strict=True):
            table = {"v": ops, "s": storages}.get(kind)
            cited.append(index if table is None else table.setdefault(index, len(table)))
        rows.append(DualRow(rule, tuple(cited), multiplier))
    rows.sort()
    return CutDuals(
        cuts=tuple(ordering.names[unit] for unit in model.cuts),
        given_order=given,
        cost_unit=model.cost_unit.as_integer_ratio(),
        places=places,
        ops=tuple(ordering.names[unit] for unit in ops),
        storages=tuple(ordering.storages[storage] for storage in storages),
        rows=tuple(rows),
    )


def heaviest(path: Sequence[int], weight: dict[int, float], count: int) -> tuple[int, ...]:
    """The ``count`` heaviest units of a path, in its order; all if there are fewer."""
    by_weight = sorted(range(len(path)), key=lambda place: -weight.get(path[place], 0.0))
    return tuple(path[place] for place in sorted(by_weight[:count]))


def spread(path: Sequence[int], weight: dict[int, float], count: int) -> tuple[int, ...]:
    """The heaviest unit of each of ``count`` parts of a path; all parts have equal weight."""
    if count >= len(path):
        return tuple(path)
    heavy = np.array([weight.get(unit, 0.0) for unit in path])
    reached = np.cumsum(heavy) - heavy / 2
    part = (reached * count / heavy.sum()).astype(np.int64)
    best: dict[int, int] = {}
    for place, which in enumerate(part.tolist()):
        if which not in best or heavy[place] > heavy[best[which]]:
            best[which] = place
    return tuple(path[place] for place in best.values())
