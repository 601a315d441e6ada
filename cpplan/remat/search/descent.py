"""Least peak within a cost: local search for lower and lower limits, each from the last result.

A search for the cheapest schedule within a limit starts best from a schedule that almost fits. So
the limit falls in steps from the best peak. Steps are longer after a success and shorter after a
failure; once they cannot be shorter, each step gets more moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cpplan.model.remat_problem import RematProblem
from cpplan.remat.known_schedules import RematOutcome
from cpplan.remat.search.local_search import ONCE, search_schedules
from cpplan.remat.tuning import active
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline

# Steps of the descent to the least peak, as shares of the peak: the first, the longest and the
# shortest.
_DESCENT_STEP = 0.1
_DESCENT_LONGEST = 0.15
_DESCENT_SHORTEST = 0.0005
# Factors of a step after a success and after a failure.
_DESCENT_LONGER = 1.5
_DESCENT_SHORTER = 0.4
# Moves for each unit in a step: at first and at most; their growth after the shortest step
# failed.
_DESCENT_MOVES = 1000
_DESCENT_MOST_MOVES = 20_000
_DESCENT_GROWTH = 1.5
# Share of the time of a descent for one step.
_DESCENT_STEP_SHARE = 0.15

NAME = "descent"

# Positions visited in a second, about.
_RATE = 5e7


class Descent:
    """A search for the schedule of least peak that costs at most ``most``; it can be continued.

    Parameters
    ----------
    problem
        The rematerialization problem.
    most
        The most that the schedule may cost.
    start
        A valid schedule that costs no more.
    joint
        True if the order may change; else first runs keep the start's order.
    seed
        Seed of the random moves.
    report
        Called at every better schedule.

    Attributes
    ----------
    best
        The schedule of least peak so far.
    """

    def __init__(
        self,
        problem: RematProblem,
        most: float,
        start: Iterable[int],
        *,
        joint: bool = True,
        seed: int = 0,
        report: Callable[[RematOutcome], None] = lambda outcome: None,
    ):
        self._problem, self._most = problem, most
        self._joint, self._seed, self._report = joint, seed, report
        schedule = tuple(int(unit) for unit in start)
        peak, cost = problem.peak(schedule), problem.total_cost(schedule)
        self.best = RematOutcome(
            schedule, peak, cost, problem.total_cost(range(len(problem))), NAME, ONCE
        )
        self._tuning = active()
        self._step, self._moves = _DESCENT_STEP, _DESCENT_MOVES
        # The last schedule below the best peak that costs more than allowed.
        self._too_costly: RematOutcome | None = None

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
        problem, best, too_costly = self._problem, self.best, self._too_costly
        limit = max(target, min(int(best.peak * (1 - self._step)), best.peak - 1))
        begin = too_costly if too_costly is not None and too_costly.peak <= limit else best
        slot = deadline.share(_DESCENT_STEP_SHARE)
        moves, fitting = self._moves * len(problem), _RATE * slot.remaining() / len(begin.schedule)
        found = search_schedules(
            problem,
            limit,
            begin.schedule,
            Budget(slot, seed=self._seed),
            target_cost=self._most,
            joint=self._joint,
            moves=max(1, int(min(moves, fitting))),
        )
        self._seed += 1
        if found.peak < best.peak and found.cost <= self._most:
            self.best, self._too_costly = found._replace(found_by=NAME), None
            self._report(self.best)
            self._step = min(_DESCENT_LONGEST, self._step * _DESCENT_LONGER)
            return
        self._too_costly = found
        if self._step > _DESCENT_SHORTEST and int(best.peak * self._step) > 1:
            self._step *= _DESCENT_SHORTER
        elif moves <= fitting:
            self._moves = int(self._moves * _DESCENT_GROWTH)
