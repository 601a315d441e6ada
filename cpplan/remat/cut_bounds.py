"""Lower bounds on the cost of every schedule, from the storages retained at first runs of units.

The model is ``formulations.retained_at_cuts``; a *cut* is the first run of a unit. Sets of cuts
grow one by one (``cut_choice``) by linear relaxation; then some of them are tried in integers, by
CP-SAT.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from cpplan.model.certificates import (
    MOST_COLUMNS,
    MOST_ROWS,
    MOST_TERMS,
    CutDuals,
    DualRow,
    kinds_of,
)
from cpplan.model.costs import sum_costs
from cpplan.model.remat_problem import RematProblem
from cpplan.remat.cut_choice import CutChoice, Tried
from cpplan.runtime.budget import Budget
from cpplan.runtime.build_in_time import build_in_time
from cpplan.runtime.cp_sat_run import run_model
from cpplan.runtime.deadline import Deadline

if TYPE_CHECKING:
    from formulations.integer_rows import Relaxed
    from formulations.retained_at_cuts import CutModel, Rounding

# Bound from cuts: share for the best single cut in integers.
_FIRST_CUT_SHARE = 0.15
# Bound from cuts: share for relaxations of more cuts; the rest is for integers.
_RELAXED_CUTS_SHARE = 0.5
# Units up to which cuts are used: precedences are stored as a matrix.
CUT_UNITS = 10_000
# Rows of a model up to which CP-SAT keeps the time limit during its relaxation.
_CUT_ROWS = 20_000
# Approximate seconds to build a model for each term of its rows.
_SECONDS_PER_TERM = 1e-6

# Rows that limit bytes.
_OF_BYTES = frozenset({"at cut", "rounded", "between"})

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
    schedule: Sequence[int] = (),
    only: int | None = None,
) -> CutBound:
    """A lower bound on the cost of every schedule within a limit, with any number of repetitions.

    Linear bounds are computed again from their duals in integers, so that rounding errors cannot
    make them wrong. For integer programs, CP-SAT's bound is used. Cuts are also tried where
    ``schedule``, the best one known, is fullest.
    """
    search = CutSearch(problem, limit, budget, order, target, schedule=schedule)
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
        schedule: Sequence[int] = (),
        rounded: dict[int, list[Rounding]] | None = None,
    ):
        self.problem, self.limit, self.budget, self.target = problem, limit, budget, target
        self.given = None if order is None else tuple(order)
        self.schedule = schedule
        self.best = CutBound(sum_costs(problem.cost), RUNS_ONCE, ())
        # Rounded rows for each unit as a cut, found at earlier cuts and limits.
        self._rounded = {} if rounded is None else rounded
        # Precedences of first runs, made when they are first needed unless they are known.
        self._before = before
        # The model and the duals of the best linear bound.
        self._proof: tuple[CutModel, Relaxed] | None = None

    def run(self) -> None:
        """Grow a set of cuts by linear relaxation; then take its cuts in integers."""
        chosen: list[tuple[int, ...]] = []
        for tried in self.grow(self.budget.deadline.share(_RELAXED_CUTS_SHARE)):
            if not chosen:
                self._solve(tried.cuts, self.budget.share(_FIRST_CUT_SHARE))
                chosen.append(tried.cuts)
            elif len(tried.cuts) > len(chosen[-1]):
                chosen.append(tried.cuts)
            else:
                chosen[-1] = tried.cuts
        for place, cuts in enumerate(chosen[1:], 1):
            self._solve(cuts, self.budget.share(1 / (len(chosen) - place)))

    def grow(self, deadline: Deadline) -> Iterator[Tried]:
        """Sets of cuts with larger and larger linear bounds; none if there are too many units."""
        if not 0 < len(self.problem) <= CUT_UNITS or deadline.expired():
            return
        choice = CutChoice(self.problem, self.before, self.given, self.schedule)
        yield from choice.grow(self, self.limit, deadline)

    def try_alone(self, unit: int) -> None:
        """Try one unit as the only cut."""
        self.relax((unit,), self.budget.deadline)

    def relax(self, cuts: tuple[int, ...], deadline: Deadline) -> Tried | None:
        """The linear bound at some cuts, or ``None`` if there is none."""
        if self.settled or deadline.expired():
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
        self._rounded.update(model.roundings(relaxed))
        if self._proved(model, relaxed.bound, RELAXED):
            self._proof = model, relaxed
        return Tried(
            _priced(model, relaxed),
            float(model.extra_of(relaxed.bound)),
            model.runs_again(relaxed.values),
        )

    def _solve(self, cuts: tuple[int, ...], budget: Budget) -> None:
        """Raise the bound by CP-SAT, in integers, at some cuts."""
        if self.settled or budget.deadline.expired():
            return
        model = self._model(cuts, budget.deadline)
        if model is None or len(model.rows) > _CUT_ROWS:
            return
        run_model(
            model,
            budget,
            found=lambda solution: None,
            proved=lambda bound: self._proved(model, bound, INTEGRAL),
            linearization=2,
        )

    def _model(self, cuts: tuple[int, ...], deadline: Deadline) -> CutModel | None:
        from formulations.retained_at_cuts import build

        before = self.before
        rounded = [one for unit in cuts for one in self._rounded.get(unit, ())]
        model = build_in_time(
            lambda: build(
                self.problem, memory_limit=self.limit, cuts=cuts, before=before, rounded=rounded
            ),
            deadline,
        )
        if model is not None:
            deadline.spend(_SECONDS_PER_TERM * model.rows.terms)
        return model

    @property
    def before(self) -> np.ndarray:
        """Precedences of first runs."""
        from formulations.retained_at_cuts import precedence

        if self._before is None:
            self._before = precedence(self.problem, self.given)
        return self._before

    def _proved(self, model: CutModel, bound: int, name: str) -> bool:
        """Keep a bound of a model if it is better than the best; returns true if it is."""
        cost = model.cost_of(bound)
        better = cost > self.best.cost
        if better:
            self.best = CutBound(cost, name, model.cuts, extra=model.extra_of(bound))
        return better

    def price_of_a_byte(self) -> float:
        """Cost by which the best linear bound falls for each byte more, while its duals hold."""
        if self._proof is None:
            return 0.0
        model, relaxed = self._proof
        priced = sum(price for _, price in _byte_rows(model, relaxed))
        return float(model.cost_unit) * priced / model.unit

    def certified(self) -> CutBound:
        """The best bound, with its certificate if it is linear."""
        if self._proof is None or self.best.name != RELAXED:
            return self.best
        return replace(self.best, certificate=_duals(*self._proof, given=self.given is not None))

    @property
    def settled(self) -> bool:
        """True if the bound is as good as it need be."""
        best = self.best
        return best.infeasible or (self.target is not None and best.cost >= self.target)


def _priced(model: CutModel, relaxed: Relaxed) -> tuple[int, ...]:
    """The cuts at which, or after which, bytes have a price in a linear bound."""
    paid = {interval for interval, _ in _byte_rows(model, relaxed)}
    return tuple(cut for j, cut in enumerate(model.cuts, 1) if j in paid) or model.cuts


def _byte_rows(model: CutModel, relaxed: Relaxed) -> Iterator[tuple[int, float]]:
    """The interval of every row that limits bytes, and the price that its dual sets on a byte."""
    priced = np.flatnonzero(relaxed.duals > 0)
    duals = relaxed.duals[priced].tolist()
    for (rule, indices), dual in zip(model.rows.labels(priced), duals, strict=True):
        if rule in _OF_BYTES:
            yield indices[0], dual * model.weight_of_a_byte(rule, indices)


def _too_long(model: CutModel, relaxed: Relaxed) -> bool:
    """True if a certificate of a relaxation would be longer than a plan may carry."""
    lengths = np.diff(model.rows.table.start)[relaxed.duals > 0]
    # The rows of the model leave out columns of a known value.
    terms, columns = 2 * int(lengths.sum()), 2 * len(model.rows.upper)
    return len(lengths) > MOST_ROWS or terms > MOST_TERMS or columns > MOST_COLUMNS


def _duals(model: CutModel, relaxed: Relaxed, *, given: bool) -> CutDuals:
    """The certificate of a linear bound."""
    ordering = model.problem.ordering
    places, multipliers = model.rows.multipliers(relaxed)
    ops: dict[int, int] = {}
    storages: dict[int, int] = {}
    rows = []
    labels = model.rows.labels(np.array(list(multipliers), np.int64))
    for (rule, indices), multiplier in zip(labels, multipliers.values(), strict=True):
        cited = []
        for kind, index in zip(kinds_of(rule, len(indices)), indices, strict=True):
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
