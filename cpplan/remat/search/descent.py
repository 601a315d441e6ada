"""Least peak within a cost: local search for lower and lower limits.

A search for the cheapest schedule within a limit starts best from a schedule that almost fits, or
from one that fits and costs little too much. So the limit falls in steps from the best peak. Steps
are longer after a success and shorter after a failure; once they cannot be shorter, they begin
again with more moves.

Before local search, values are dropped below a limit and others retained up to it, again and again
(strategic oscillation: Glover, 1989).
"""

from __future__ import annotations

from contextlib import suppress
from random import Random

from cpplan.remat.heuristics.dropping import NAME as DROPPING
from cpplan.remat.heuristics.dropping import drop, without_unread_runs
from cpplan.remat.known_schedules import KnownSchedules, RematOutcome
from cpplan.remat.search.local_search import search_schedules
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline, TimeUpError

# Steps of the descent to the least peak, as shares of the peak: the first, the first with more
# moves, the longest and the shortest.
_DESCENT_STEP = 0.1
_DESCENT_AGAIN = 0.016
_DESCENT_LONGEST = 0.15
_DESCENT_SHORTEST = 0.002
# Factors of a step after a success and after a failure.
_DESCENT_LONGER = 1.5
_DESCENT_SHORTER = 0.4
# Moves for each unit in a step: at first and at most; their growth after the shortest step
# failed.
_DESCENT_MOVES = 1000
_DESCENT_MOST_MOVES = 60_000
_DESCENT_GROWTH = 2
# Share of the time of a descent for one step, and of a step's for dropping values.
_DESCENT_STEP_SHARE, _DROPPING_SHARE = 0.25, 0.3
# Tries in a row that find no lower peak; how far below the best peak their limits are, as a part of
# it; and the least bytes down to which they drop values, as a part of the limit.
_TRIES, _NEAR, _LEAST_AIM = 12, 0.03, 0.6

NAME = "descent"


class Descent:
    """A search for the schedule of least peak that costs at most ``most``; it can be continued.

    Parameters
    ----------
    known
        Record of schedules: those that the search begins with, and those that it finds.
    most
        The most that the schedule may cost; a known one costs no more.
    joint
        True if the order may change; else first runs keep the order of the schedules known.
    seed
        Seed of the random moves.
    """

    def __init__(self, known: KnownSchedules, most: float, *, joint: bool = True, seed: int = 0):
        self._known, self._problem, self._most = known, known.problem, most
        self._joint, self._seed = joint, seed
        self._step, self._moves = _DESCENT_STEP, _DESCENT_MOVES
        self._random = Random(seed)

    @property
    def best(self) -> RematOutcome:
        """The schedule of least peak so far."""
        return self._known.smallest(self._most)

    @property
    def exhausted(self) -> bool:
        """True if many moves at the shortest step found nothing."""
        return self._moves > _DESCENT_MOST_MOVES

    def run(self, deadline: Deadline, *, target: int = 0) -> None:
        """Lower the peak until it is at most ``target``, time is up or the search is exhausted."""
        while self.best.peak > target and not (self.exhausted or deadline.expired()):
            self._go_down(target, deadline)

    def _go_down(self, target: int, deadline: Deadline) -> None:
        """Take one step: search below the best peak, and adapt the step or the moves."""
        peak = self.best.peak
        limit = max(target, min(int(peak * (1 - self._step)), peak - 1))
        slot = deadline.share(_DESCENT_STEP_SHARE)
        with suppress(TimeUpError):
            dropping = slot.share(_DROPPING_SHARE)
            for start in (self.best.schedule, tuple(dict.fromkeys(self.best.schedule))):
                self._add(drop(self._problem, start, limit, dropping), DROPPING)
                if self.best.peak <= limit:
                    break
            self._oscillate(limit, dropping)
        found = search_schedules(
            self._problem,
            limit,
            self._known.best(limit).schedule,
            Budget(slot, seed=self._seed),
            target_cost=self._most,
            joint=self._joint,
            moves=self._moves * len(self._problem),
        )
        self._add(found.schedule, NAME)
        self._seed += 1
        if self.best.peak < peak:
            self._step = min(_DESCENT_LONGEST, self._step * _DESCENT_LONGER)
        elif self._step > _DESCENT_SHORTEST and int(peak * self._step) > 1:
            self._step *= _DESCENT_SHORTER
        elif not slot.expired():
            self._moves, self._step = self._moves * _DESCENT_GROWTH, _DESCENT_AGAIN

    def _oscillate(self, least: int, deadline: Deadline) -> None:
        """Drop values below limits drawn at random, and retain others up to them.

        What is dropped first decides what is dropped later, so that each try leads to quite another
        schedule, also where annealing takes too long to change one of thousands of runs.
        """
        failed = 0
        while failed < _TRIES and self.best.peak > least:
            before = self.best
            start = tuple(dict.fromkeys(before.schedule)) if failed % 2 else before.schedule
            low = max(least, min(int(before.peak * (1 - _NEAR)), before.peak - 1))
            limit = self._random.randint(low, before.peak - 1)
            aim = self._random.uniform(_LEAST_AIM, 1.0)
            self._add(drop(self._problem, start, limit, deadline, aim=aim), DROPPING)
            failed = 0 if self.best.peak < before.peak else failed + 1

    def _add(self, schedule: tuple[int, ...], name: str) -> None:
        """Record a schedule without runs that nothing reads."""
        shorter = without_unread_runs(self._problem, schedule, joint=self._joint)
        self._known.add(self._known.measure(shorter, name))
