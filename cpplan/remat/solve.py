"""Rematerialization: the least cost within a limit on bytes, or the fewest bytes within a cost.

The search finds schedules within a limit on live bytes, and packs them. If a packing exceeds the
limit, the limit on live bytes falls by that difference. If a packing needs less because of aliases,
the limit on live bytes rises.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from cpplan.aliasing.alias_candidates import AliasCandidate
from cpplan.aliasing.packed import Packed
from cpplan.model.certificates import CutDuals, ForcedAt
from cpplan.model.errors import InputError
from cpplan.model.remat_problem import RematProblem
from cpplan.model.residency import Residency
from cpplan.program.anf import Program
from cpplan.remat.footprint import COST_AT_CUTS, CUTS, Footprint
from cpplan.remat.known_schedules import KnownSchedules, RematOutcome
from cpplan.remat.objectives import BestTrial, Halving, LeastBytes, LeastCost, MovingLimit, Trial
from cpplan.remat.peak_bounds import is_near
from cpplan.remat.portfolio import ScheduleSearch
from cpplan.remat.problem import remat_problem
from cpplan.remat.search.short_schedules import NAME as SHORT
from cpplan.remat.search.short_schedules import short_schedules
from cpplan.remat.tuning import active
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.runtime.turns import Turn, Turns

# Share of the time left for the bytes that every schedule of many units needs.
_FOOTPRINT_SHARE = 0.2
# Share of the time left for a schedule.
_SCHEDULE_SHARE = 0.3
# Share of the time left for a schedule if none within the limit was found before.
_MISSING_SHARE = 0.7
# Share of the time left for packing a schedule.
_PACKING_SHARE = 0.15
# The same within a limit on the bytes.
_WITHIN_PACKING_SHARE = 0.3
# Share of the time left for packing an order without repetitions.
_ONCE_SHARE = 0.5
# The same, if only units without cost may run again.
_FREE_ORDER_SHARE = 0.8
# Share of the whole time, at the end, for a bound on the cost.
_PROOF_SHARE = 0.08
# Small problems: share of the time before short schedules are tried one by one.
_SMALL_SHARE = 0.5
# Least peak: share of the time for a first schedule within the cost.
_BEGIN_SHARE = 0.25
# The same, above a bound just proved.
_BEGIN_AGAIN_SHARE = 0.4
# Least peak: share of the time left for a bound on the bytes.
_BOUND_SHARE = 0.37
# Least peak: share of the time left for the descent; the rest is for the bound again.
_DESCENDING_SHARE = 0.85
# Least peak: share of the time for a schedule with fewer live bytes, and for packing it.
_DESCENT_SHARE = 0.5
# Share of the time left for the proof of a peak that is near the bound.
_NEAR_SHARE = 0.15
# Seconds for packing a schedule, besides its search, for deadlines that count work.
_PACK_WORK = 0.02
# Peaks tried on the way to the least one within a cost.
_BISECTIONS = 8
# Share of the time for schedules with far fewer live bytes, which pack at once.
_FALL_BACK_SHARE = 0.4
# The same, the first time.
_FIRST_FALL_BACK_SHARE = 0.15
# Share of the time left for packing each short schedule.
_SHORT_SHARE = 0.1
# Units up to which short schedules are tried, and most repetitions in them. There are too many
# schedules beyond that.
_SHORT_UNITS = 12

# Reasons for an early end of a run.
ENDED = "the searches for schedules have ended, and short schedules were packed one by one"
ENDED_LARGE = "the searches for schedules have ended"
ENDED_CHEAP = "the searches for schedules of this cost have ended"
ENDED_CHEAP_ALL = f"{ENDED_CHEAP}, and the bound holds for those of any cost"
NOTHING_AGAIN = (
    "nothing can run again at this cost, the search for orders has ended, and the bound holds for "
    "schedules of any cost"
)


class Packer(Protocol):
    """A function that packs a program within a deadline."""

    def __call__(self, program: Program, deadline: Deadline, /) -> Packed: ...


class OrderSearch(Protocol):
    """A function that packs the best order without repetitions, and names the search that found it.

    Ctrl-C cancels the deadline.
    """

    def __call__(self, deadline: Deadline, /) -> tuple[Packed, str]: ...


@dataclass(frozen=True, slots=True)
class Rematerialized:
    """The best schedule, packed.

    Attributes
    ----------
    packed
        The program and its packing, which may exceed the limit if nothing better was found.
    outcome
        The schedule, with the bound proved on its cost.
    limit
        Limit on the bytes of all pools; ``None`` if the cost was limited instead.
    least, least_by, least_op
        Lower bound on the bytes of every schedule, its proof, and the op that needs them.
    most
        Limit on the cost of the schedules that this bound is about; ``None`` if it is of all.
    joint
        False if first runs keep the given order.
    least_certificate, cost_certificate
        Duals that prove the bounds on the bytes and on the cost, if linear programs do; or the op
        that needs the bytes, if there are many ops.
    """

    packed: Packed
    outcome: RematOutcome
    limit: int | None
    least: int
    least_by: str
    least_op: str | None
    joint: bool = True
    least_certificate: CutDuals | ForcedAt | None = None
    cost_certificate: CutDuals | None = None
    most: int | float | None = None


class RematSearch:
    """A search for schedules of one program, and packings of them.

    Parameters
    ----------
    program
        A program that runs every op once.
    residency
        Inputs, outputs and constants that the arena holds.
    deadline
        Ends the search for a bound on the bytes of many ops.
    joint
        True if the order may change; else first runs keep the program's order.
    order
        A search for orders without repetitions, if the order may change.
    pack
        Function that packs a program.
    candidates
        Alias candidates, if storages may share bytes.
    report
        Called with a line about every schedule found.
    stop_early
        Called with the reason if a search ends without a proof.
    """

    def __init__(
        self,
        program: Program,
        residency: Residency,
        deadline: Deadline,
        *,
        joint: bool,
        order: OrderSearch | None = None,
        pack: Packer,
        candidates: Sequence[AliasCandidate] = (),
        report: Callable[[str], None] = lambda text: None,
        stop_early: Callable[[str], None] = lambda reason: None,
    ):
        if len(program.order) > len(program.graph.ops):
            raise InputError("remat=True needs a program that runs every op once")
        self.program, self._pack = program, pack
        self._residency, self._joint, self._order = residency, joint, order
        self._sharing = bool(candidates)
        in_place = any(candidate.in_place for candidate in candidates)
        self.problem = remat_problem(program, residency, in_place=in_place)
        self.known = KnownSchedules(
            self.problem,
            _units(self.problem, program),
            candidates=candidates,
            report=lambda outcome: report(self._line(outcome)),
            deadline=deadline.share(_FOOTPRINT_SHARE),
        )
        self.schedules = ScheduleSearch(self.known, joint=joint)
        self._report, self._stop_early = report, stop_early
        # Least peaks that a proof was tried for.
        self._near: set[int] = set()

    @property
    def base(self) -> int | float:
        """Cost of running every op once."""
        return self.known.base

    def cheapest(self, limit: int, budget: Budget) -> Rematerialized:
        """The cheapest packed schedule found within ``limit`` bytes, all pools together."""
        known, tuning = self.known, active()
        objective = LeastCost(limit, known)
        best = BestTrial(objective)
        if known.least.bytes > limit:
            best.offer(self._try(known.best(limit), budget))
            return self._judged(best, limit)
        moving = MovingLimit(limit, known.least.bytes, sharing=self._sharing)
        if self._sharing:
            # Aliases may save as much in other schedules as in one that runs every op once.
            once = self._try(known.once, budget.share(_PACKING_SHARE))
            best.offer(once)
            moving.packed(once.outcome.peak, once.over(limit))
        small = len(self.problem) <= _SHORT_UNITS
        work = budget.share(_SMALL_SHARE if small else 1 - _PROOF_SHARE)
        self._take_turns(
            lambda effort: self._turn(best, objective, moving, effort, work), best, work
        )
        if not best.settled:
            self.schedules.bound_cost(limit, budget)
        self._pack_short(best, math.inf if self._sharing else limit, budget)
        if best.trial is None:
            rest = Deadline(tuning.grace) if budget.deadline.cancelled else budget.deadline
            best.offer(self._try(known.best(limit), budget.until(rest)))
        if not best.settled:
            self._stop_early(ENDED if len(self.problem) <= _SHORT_UNITS else ENDED_LARGE)
        return self._judged(best, limit)

    def smallest(self, most: float, budget: Budget) -> Rematerialized:
        """The smallest packing found among schedules that cost at most ``most``."""
        known = self.known
        objective = LeastBytes(most, known)
        best = BestTrial(objective, self._once(most, budget))
        if not known.affords(most):
            self._stop_early(NOTHING_AGAIN)
            return self._judged(best, None)
        if self.schedules.is_chain:
            self._take_turns(lambda _: self._halve(best, most, budget), best, budget)
            self._bound(best, most, budget)
        else:
            self._begin_below(best, most, budget)
            self._bound(best, most, budget.share(_BOUND_SHARE))
            down = budget.share(_DESCENDING_SHARE)
            # Between the new bound and the best start, limits are others.
            self._begin_below(best, most, down.share(_BEGIN_AGAIN_SHARE))
            self._take_turns(lambda _: self._go_down(best, most, down), best, down)
            self._bound(best, most, budget)
        self._pack_short(best, math.inf, budget)
        if not best.settled:
            cheap = self.known.least_by == COST_AT_CUTS
            self._stop_early(ENDED_CHEAP if cheap else ENDED_CHEAP_ALL)
        found = self._judged(best, None)
        return replace(found, most=most) if found.least_by == COST_AT_CUTS else found

    def _bound(self, best: BestTrial, most: float, budget: Budget, *, near: bool = False) -> None:
        """Prove that every schedule within the cost needs some bytes; in one pool only.

        If ``near``, only where the least peak is near the bound, and once for each such peak.
        """
        assert best.trial is not None
        if best.trial.packed.pooled is None and not best.settled:
            known = self.known
            peak = known.smallest(most).peak
            close = is_near(known.least.bytes, peak)
            if near and (peak in self._near or not close):
                return
            self._near |= {peak} if close else set()
            found = self.schedules.bound_peak(most, budget)
            if found is not None:
                name = CUTS if found.any_cost else COST_AT_CUTS
                known.prove_bytes(Footprint(found.bytes, None), name, found.certificate)
                self._report(f"{name}: at least {found.bytes} B")

    def _take_turns(self, turn: Callable[[int], Turn], best: BestTrial, budget: Budget) -> None:
        """Take turns until the objective is settled, one is the last, or time is up."""
        with suppress(TimeUpError):
            Turns(longest=2, growth=2).run(turn, lambda: best.settled, budget.deadline)

    def _turn(
        self, best: BestTrial, objective: LeastCost, moving: MovingLimit, effort: int, work: Budget
    ) -> Turn:
        """Search within a limit on live bytes, pack the schedule found, and move the limit."""
        known, limit = self.known, moving.live
        # A second search for the same limit gets more time.
        missing = self.schedules.has_begun(limit) and known.best(limit).peak > limit
        slot = work.share(_MISSING_SHARE if missing else _SCHEDULE_SHARE)
        outcome = self.schedules.within(limit, slot)
        # A search that ran out of time continues in the next turn.
        following = Turn.AGAIN if slot.deadline.expired() else Turn.LAST
        if outcome.peak > limit:
            return Turn.LAST if known.none_within(limit) else following
        if best.tried(outcome):
            return following
        # An order without repetitions is worth more effort to pack.
        once = outcome.cost <= known.base
        trial = self._try(outcome, work.share(_ONCE_SHARE if once else _WITHIN_PACKING_SHARE))
        best.offer(trial)
        moving.packed(outcome.peak, trial.over(objective.limit))
        start = self.schedules.started(limit)
        if start is not None and not (objective.fits(best.trial) or best.tried(start)):
            # The first schedule is regular, and often packs best.
            best.offer(self._try(start, work.share(_PACKING_SHARE)))
        # Briefly the first time: just above the bound, no schedule has far fewer live bytes.
        share = _FIRST_FALL_BACK_SHARE if effort == 1 else _FALL_BACK_SHARE
        self._fall_back(best, objective, work.share(share))
        if trial.over(objective.limit) <= 0 or not objective.promises(outcome, best.trial):
            return Turn.AGAIN
        return Turn.LONGER

    def _fall_back(self, best: BestTrial, objective: LeastCost, budget: Budget) -> None:
        """Find any schedule that fits, if none does: one with far fewer live bytes packs at once.

        As long as they fit, those with more live bytes follow, which cost less.
        """
        if objective.fits(best.trial):
            return
        parts, packed = active().fall_back, set[tuple[int, ...]]()
        for left, part in zip(range(len(parts), 0, -1), parts, strict=True):
            live = int(part * objective.limit)
            if budget.deadline.expired():
                break
            if self.known.none_within(live):
                continue
            slot = budget.share(1 / left)
            start = self.schedules.lower(live, slot.share(0.5))
            if start.peak > live or start.schedule in packed:
                start = self.schedules.start(live, slot)
            if start.peak <= live and start.schedule not in packed:
                packed.add(start.schedule)
                trial = self._try(start, slot)
                best.offer(trial)
                if not objective.fits(trial):
                    break

    def _once(self, most: float, budget: Budget) -> Trial:
        """The best packing found of an order without repetitions."""
        known, tuning = self.known, active()
        if self._order is None:
            return self._try(known.once, budget.share(1 / _BISECTIONS))
        part = _FREE_ORDER_SHARE if known.affords(most) else 1
        part = tuning.order_share if known.affords(most, free=False) else part
        slot = budget.deadline.share(part)
        packed, name = self._order(slot)
        assert isinstance(packed.source, Program)
        return Trial(self.schedules.take_order(_units(self.problem, packed.source), name), packed)

    def _halve(self, best: BestTrial, most: float, budget: Budget) -> Turn:
        """Pack schedules within limits halfway between the bound and the best packing."""
        before = best.trial
        assert before is not None
        self._bound(best, most, budget.share(_NEAR_SHARE), near=True)
        limits = Halving(self.known.least.bytes, before.outcome.peak, _BISECTIONS)
        for limit in limits:
            if budget.deadline.expired():
                break
            slot = budget.share(1 / limits.left)
            outcome = self.schedules.within(limit, slot.share(_SCHEDULE_SHARE), target=most)
            if outcome.peak > limit or outcome.cost > most:
                limits.missed(limit)
            else:
                limits.high = outcome.peak
                best.offer(self._try(outcome, slot))
        return Turn.LAST if best.trial is before else Turn.AGAIN

    def _begin_below(self, best: BestTrial, most: float, budget: Budget) -> None:
        """Pack the first schedule on the way down: it is regular, and often packs best."""
        start = self.schedules.start_below(most, budget.share(_BEGIN_SHARE))
        if not best.tried(start):
            best.offer(self._try(start, budget.share(_PACKING_SHARE)))

    def _go_down(self, best: BestTrial, most: float, budget: Budget) -> Turn:
        """Pack the next schedule on the way down to fewer live bytes."""
        search, before = self.schedules, best.trial
        self._bound(best, most, budget.share(_NEAR_SHARE), near=True)
        if best.settled:
            return Turn.LAST
        outcome = search.below(most, budget.share(_DESCENT_SHARE))
        slot = budget.share(_DESCENT_SHARE)
        if not best.tried(outcome, slot.deadline.remaining()):
            best.offer(self._try(outcome, slot))
        elif search.few:
            return Turn.LAST
        assert best.trial is not None
        return Turn.LAST if best.trial is before and search.ended(most) else Turn.AGAIN

    def _order_of(self, schedule: Sequence[int]) -> tuple[int, ...]:
        """Order of a Program for a schedule; first runs keep the given order, views included."""
        return self.problem.expand(schedule, None if self._joint else self.program.order)

    def _try(self, outcome: RematOutcome, budget: Budget) -> Trial:
        """Pack a schedule."""
        program = Program(self.program.graph, self._order_of(outcome.schedule))
        budget.deadline.spend(_PACK_WORK)
        seconds = budget.deadline.remaining()
        packed = self._pack(program, budget.deadline)
        proved = packed.pooled is None and packed.peak <= packed.bound.value
        return Trial(outcome, packed, math.inf if proved else seconds)

    def _pack_short(self, best: BestTrial, live: float, budget: Budget) -> None:
        """Pack the promising short schedules of a small problem until time is up."""
        if not best.settled:
            for outcome in self._short_schedules(best, live, budget.deadline):
                if best.objective.promises(outcome, best.trial) and not best.tried(outcome):
                    best.offer(self._try(outcome, budget.share(_SHORT_SHARE)))
                if best.settled:
                    break

    def _short_schedules(
        self, best: BestTrial, live: float, deadline: Deadline
    ) -> Iterator[RematOutcome]:
        if len(self.problem) > _SHORT_UNITS:
            return
        order = None if self._joint else self.schedules.given
        most = best.objective.most_cost(best.trial)
        found = short_schedules(self.problem, live, most, deadline, order=order)
        with suppress(TimeUpError):
            for schedule in itertools.islice(found, active().most_short):
                yield self.known.measure(schedule, SHORT)

    def _judged(self, best: BestTrial, limit: int | None) -> Rematerialized:
        """Result for the best trial, with the bounds proved so far."""
        assert best.trial is not None
        known, outcome, duals = self.known, best.trial.outcome, None
        if limit is not None:
            bound, name, duals = known.cost_bound(limit)
            if isinstance(outcome.cost, float):
                # A sum of floats may be slightly below the exact sum.
                bound = min(bound, outcome.cost)
            outcome = outcome._replace(bound=bound, bound_by=name)
        unit = known.least.unit
        op = None if unit is None else self.problem.ordering.names[unit]
        return Rematerialized(
            best.trial.packed, outcome, limit, known.least.bytes, known.least_by, op, self._joint,
            known.least_certificate, duals,
        )  # fmt: skip

    def _line(self, outcome: RematOutcome) -> str:
        extra = self._extra(outcome.cost)
        return f"{outcome.found_by}: {outcome.peak} B live, cost +{extra:.2%}"

    def _extra(self, cost: int | float) -> float:
        return cost / self.base - 1 if self.base else 0.0


def _units(problem: RematProblem, program: Program) -> list[int]:
    """The program's order as units."""
    unit_of = {op: unit for unit, ops in enumerate(problem.units) for op in ops}
    return list(dict.fromkeys(unit_of[op] for op in program.order))
