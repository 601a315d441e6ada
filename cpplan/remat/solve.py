"""The search for schedules that run ops again: within a limit, and packed into it.

Schedules are searched for by their live bytes. If packing needs more than the limit, schedule and
offsets are searched for together, and schedules of as many bytes less are tried; if shared bytes
make it need less, schedules of as many bytes more are tried.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from cpplan.aliasing.alias_candidates import AliasCandidate
from cpplan.aliasing.packed import Packed
from cpplan.model.errors import InputError
from cpplan.model.problem import Ints
from cpplan.model.residency import Residency
from cpplan.program.anf import Program
from cpplan.remat.cut_bounds import RUNS_ONCE
from cpplan.remat.problem import RematProblem, remat_problem
from cpplan.remat.schedules import ScheduleSearch
from cpplan.remat.search.outcome import RematOutcome
from cpplan.remat.search.packed_search import NAME as TOGETHER
from cpplan.remat.search.packed_search import PackedSchedule, search_packed
from cpplan.remat.search.short_schedules import MOST_UNITS, short_schedules
from cpplan.remat.search.short_schedules import NAME as SHORT
from cpplan.remat.trials import Least, Trial, Trials
from cpplan.remat.tuning import active
from cpplan.runtime.deadline import Deadline, TimeUpError

# Why a run may end early.
ENDED = "the searches for schedules have ended, and short schedules were packed one by one"
ENDED_LARGE = "the searches for schedules, and for schedules with offsets, have ended"
ENDED_CHEAP = (
    "the searches for schedules of this cost have ended, and the bound holds for those of any cost"
)
NOTHING_AGAIN = (
    "nothing can run again at this cost, the search for orders has ended, and the bound holds for "
    "schedules of any cost"
)


class Packer(Protocol):
    """A function that packs a program within a deadline."""

    def __call__(self, program: Program, deadline: Deadline, /) -> Packed: ...


class Placer(Protocol):
    """A function that takes offsets found for a program."""

    def __call__(self, program: Program, offsets: Ints, name: str, /) -> Packed: ...


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
    joint
        False if first runs keep the given order.
    """

    packed: Packed
    outcome: RematOutcome
    limit: int | None
    least: int
    least_by: str
    least_op: str | None
    joint: bool = True


class OrderSearch(Protocol):
    """A function that packs the best order without repetitions, and names the search that found it.

    Ctrl-C cancels the deadline.
    """

    def __call__(self, deadline: Deadline, /) -> tuple[Packed, str]: ...


class RematSearch:
    """A search for schedules of one program, and packings of them.

    Parameters
    ----------
    program
        A program that runs every op once.
    residency
        Inputs, outputs and constants that the arena holds.
    joint
        True if the order may change; else first runs keep the program's order.
    order
        A search for orders in which nothing runs again, if the order may change.
    pack, place
        Functions that pack a program and that take offsets found for it; ``place`` is ``None``
        where such offsets are not valid: with several pools, or shared bytes.
    candidates
        Alias candidates, if storages may share bytes.
    workers, seed
        For the searches.
    report
        Called with a line about everything found.
    stop_early
        Called with the reason where a search ends without a proof.
    """

    def __init__(
        self,
        program: Program,
        residency: Residency,
        *,
        joint: bool,
        order: OrderSearch | None = None,
        pack: Packer,
        place: Placer | None = None,
        candidates: Sequence[AliasCandidate] = (),
        workers: int,
        seed: int,
        report: Callable[[str], None] = lambda text: None,
        stop_early: Callable[[str], None] = lambda reason: None,
    ):
        if len(program.order) > len(program.graph.ops):
            raise InputError("remat=True needs a program that runs every op once")
        self.program, self._pack, self._place, self._candidates = program, pack, place, candidates
        self._residency, self._joint, self._seed = residency, joint, seed
        self._order = order
        in_place = any(candidate.in_place for candidate in candidates)
        self.problem = remat_problem(program, residency, in_place=in_place)
        self.schedules = ScheduleSearch(
            self.problem,
            _units(self.problem, program),
            joint=joint,
            candidates=candidates,
            workers=workers,
            seed=seed,
            report=lambda outcome: report(self._line(outcome)),
        )
        self._report, self._stop_early = report, stop_early

    @property
    def base(self) -> int | float:
        """Cost of running every op once."""
        return self.schedules.base

    def within(self, limit: int, deadline: Deadline) -> Rematerialized:
        """The cheapest schedule found whose packing has at most ``limit`` bytes, in all pools."""
        search = self.schedules
        if search.least.bytes > limit:
            return self._judged(self._try(search.best(limit), deadline), limit)
        trials, first = Trials(limit, search.least.bytes, sharing=bool(self._candidates)), True
        try:
            if self._candidates:
                # What sharing saves where every op runs once, it may save elsewhere.
                trials.add(self._try(search.once, deadline.share(active().packing_share)))
            small = len(self.problem) <= MOST_UNITS
            work = deadline.share(active().small_share if small else 1 - active().proof_share)
            while trials.cost != search.cost_bound(limit)[0] and not work.expired():
                target, slot = trials.target, work.share(active().schedule_share)
                outcome = search.within(target, slot)
                if outcome.peak > target:
                    if search.none_within(target) or not slot.expired():
                        break
                    if trials.cost is None and outcome.peak <= active().together_near * limit:
                        self._search_together(
                            limit, outcome, work.share(active().together_share), trials.keep
                        )
                elif trials.knows(outcome):
                    # Asked again, a search that had no time left goes on.
                    if not slot.expired():
                        break
                else:
                    # An order in which nothing runs twice is worth more effort to pack.
                    share = (
                        active().once_share if outcome.cost <= self.base else active().packing_share
                    )
                    trial = self._try(outcome, work.share(share))
                    trials.add(trial)
                    if trials.cost is None and self._place is not None:
                        self._fall_back(trials, work.share(active().fall_back_share))
                    dearer = trials.cost is None or trials.cost > outcome.cost
                    if trial.over(limit) > 0 and dearer:
                        part = active().first_together_share if first else active().together_share
                        self._search_together(limit, outcome, work.share(part), trials.keep)
                        first = False
            if trials.cost != search.cost_bound(limit)[0]:
                search.bound_cost(limit, deadline)
            self._finish(limit, trials, deadline)
        except KeyboardInterrupt:
            deadline.cancel()
        if trials.best is None:
            rest = Deadline(active().grace) if deadline.cancelled else deadline
            trials.add(self._try(search.best(limit), rest))
        assert trials.best is not None
        return self._judged(trials.best, limit)

    def _finish(self, limit: int, trials: Trials, deadline: Deadline) -> None:
        """Try short schedules, then other seeds, after all searches ended without a proof."""
        search = self.schedules
        most = search.cost_bound(limit)[0]

        def settled() -> bool:
            return trials.cost == most or search.none_within(limit)

        live = math.inf if self._candidates else limit
        for outcome in self._short(live, lambda: trials.cost, deadline):
            if settled():
                return
            if not trials.knows(outcome):
                trials.keep(self._try(outcome, deadline.share(active().short_share)))
        if settled():
            return
        start = search.best(limit)
        for _ in range(
            active().more_turns
            if self._place is not None and start.peak <= active().together_near * limit
            else 0
        ):
            if settled() or deadline.expired():
                return
            self._search_together(limit, start, deadline.share(0.5), trials.keep)
        if not settled():
            self._stop_early(ENDED if len(self.problem) <= MOST_UNITS else ENDED_LARGE)

    def _short(
        self, live: float, dearest: Callable[[], float | None], deadline: Deadline
    ) -> Iterator[RematOutcome]:
        """Yield short schedules of a small problem, while there is time and they may be of use."""
        problem = self.problem
        if len(problem) > MOST_UNITS:
            return
        cost = dearest()
        found = short_schedules(
            problem,
            live,
            math.inf if cost is None else cost,
            deadline,
            order=None if self._joint else self.schedules.given,
        )
        try:
            for schedule in itertools.islice(found, active().most_short):
                cost = problem.total_cost(schedule)
                known = dearest()
                if known is None or cost <= known:
                    yield RematOutcome(
                        schedule, problem.peak(schedule), cost, self.base, SHORT, RUNS_ONCE
                    )
        except TimeUpError:
            return

    def cheap(self, most: float, deadline: Deadline) -> Rematerialized:
        """The smallest packing found of a schedule that costs at most ``most``."""
        least = Least(most, self._once(most, deadline))
        if not self.schedules.affords(most):
            self._stop_early(NOTHING_AGAIN)
            return self._judged(least.best, None)
        try:
            self._bisect(least, deadline.share(active().first_bisection_share))
            self._descend(least, deadline.share(active().descending_share))
            while not deadline.expired():
                before = least.best
                self._bisect(least, deadline)
                if least.best is before:
                    break
            for outcome in self._short(math.inf, lambda: most, deadline):
                if least.best.packed.value <= (self.schedules.least.bytes,):
                    break
                may = self._candidates or (outcome.peak,) < least.best.packed.value
                if may or least.best.packed.pooled is not None:
                    least.keep(self._try(outcome, deadline.share(active().short_share)))
        except KeyboardInterrupt:
            deadline.cancel()
        self._stop_early(ENDED_CHEAP)
        return self._judged(least.best, None)

    def _once(self, most: float, deadline: Deadline) -> Trial:
        """The best packing found of an order in which nothing runs again."""
        search = self.schedules
        if self._order is None:
            return self._try(search.once, deadline.share(1 / active().bisections))
        part = active().free_order_share if search.affords(most) else 1
        slot = deadline.share(active().order_share if search.affords(most, free=False) else part)
        packed, name = self._order(slot)
        if slot.cancelled:
            deadline.cancel()
        assert isinstance(packed.source, Program)
        return Trial(search.take_order(_units(self.problem, packed.source), name), packed)

    def _descend(self, least: Least, deadline: Deadline) -> None:
        """Pack the schedules found on the way down to fewer and fewer live bytes."""
        search, tried = self.schedules, {least.best.outcome.schedule}
        if search.descends and not deadline.expired():
            # As regular as the order that it was made from, it often packs best.
            start = search.start_below(least.most, deadline.share(active().begin_share))
            if start.schedule not in tried:
                tried.add(start.schedule)
                least.keep(self._try(start, deadline.share(active().packing_share)))
        while search.descends and not deadline.expired():
            before = least.best
            outcome = search.below(least.most, deadline.share(active().descent_share))
            if outcome.schedule not in tried:
                tried.add(outcome.schedule)
                least.keep(self._try(outcome, deadline.share(active().descent_share)))
            elif search.few:
                break
            if self._place is not None and least.best.packed.peak > outcome.peak:
                # Halfway between what is live and what packing made of it.
                limit = (outcome.peak + least.best.packed.peak) // 2
                slot = deadline.share(active().descent_share)
                if slot.remaining() >= active().together_least * deadline.seconds:
                    self._search_together(limit, outcome, slot, least.keep, target=least.most)
            if least.best is before and search.ended(least.most):
                break

    def _bisect(self, least: Least, deadline: Deadline) -> None:
        """Pack schedules within limits halfway between the bound and the best packing."""
        search, most = self.schedules, least.most
        low, high = search.least.bytes, least.best.outcome.peak
        for left in range(active().bisections, 0, -1):
            if low >= high or deadline.expired():
                break
            limit = (low + high) // 2
            slot = deadline.share(1 / left)
            outcome = search.within(limit, slot.share(active().schedule_share), target=most)
            if outcome.peak > limit or outcome.cost > most:
                low = limit + 1
                continue
            high = outcome.peak
            least.keep(self._try(outcome, slot))

    def _try(self, outcome: RematOutcome, deadline: Deadline) -> Trial:
        program = Program(self.program.graph, self.problem.expand(outcome.schedule))
        deadline.spend(active().pack_work)
        return Trial(outcome, self._pack(program, deadline))

    def _fall_back(self, trials: Trials, deadline: Deadline) -> None:
        """Something that fits, at whatever cost: what needs far fewer live bytes packs at once."""
        for left, part in zip(
            range(len(active().fall_back), 0, -1), active().fall_back, strict=True
        ):
            target = int(part * trials.limit)
            if trials.cost is not None or deadline.expired() or self.schedules.none_within(target):
                break
            slot = deadline.share(1 / left)
            start = self.schedules.lower(target, slot.share(0.5))
            if start.peak > target:
                start = self.schedules.start(target, slot)
            if start.peak <= target:
                trials.keep(self._try(start, slot))

    def _search_together(
        self,
        limit: int,
        start: RematOutcome,
        deadline: Deadline,
        keep: Callable[[Trial], None],
        target: float = 0,
    ) -> None:
        """Search for schedule and offsets at once, within a limit, until the cost is ``target``."""
        place = self._place
        if place is None or len(self.problem) > active().together_units:
            return

        def add(found: PackedSchedule) -> None:
            program = Program(self.program.graph, self.problem.expand(found.schedule))
            outcome = start._replace(
                schedule=found.schedule,
                peak=self.problem.peak(found.schedule),
                cost=found.cost,
                found_by=TOGETHER,
            )
            keep(Trial(outcome, place(program, found.offsets, TOGETHER)))
            self._report(f"{TOGETHER}: {found.peak} B, cost +{self._extra(found.cost):.2%}")

        search_packed(
            self.problem,
            limit,
            start.schedule,
            deadline,
            residency=self._residency,
            target_cost=target,
            joint=self._joint,
            seed=self._seed,
            report=add,
        )
        self._seed += 1

    def _judged(self, best: Trial, limit: int | None) -> Rematerialized:
        """Result for the best trial, with the bounds proved so far."""
        search, outcome = self.schedules, best.outcome
        if limit is not None:
            bound, name = search.cost_bound(limit)
            if isinstance(outcome.cost, float):
                # A sum of rounded numbers may come out below what is exact.
                bound = min(bound, outcome.cost)
            outcome = outcome._replace(bound=bound, bound_by=name)
        unit = search.least.unit
        op = None if unit is None else self.problem.ordering.names[unit]
        return Rematerialized(
            best.packed, outcome, limit, search.least.bytes, search.least_by, op, self._joint
        )

    def _line(self, outcome: RematOutcome) -> str:
        extra = self._extra(outcome.cost)
        return f"{outcome.found_by}: {outcome.peak} B live, cost +{extra:.2%}"

    def _extra(self, cost: int | float) -> float:
        return cost / self.base - 1 if self.base else 0.0


def _units(problem: RematProblem, program: Program) -> list[int]:
    """The program's order as units."""
    unit_of = {op: unit for unit, ops in enumerate(problem.units) for op in ops}
    return list(dict.fromkeys(unit_of[op] for op in program.order))
