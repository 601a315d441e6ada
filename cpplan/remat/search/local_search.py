"""Simulated annealing over schedules: order and repetitions change together.

A move computes a value again before one of its readers (perhaps with the values that this needs),
removes a repetition, exchanges one repetition for another, or moves consecutive units. Bytes beyond
the limit have a price, so that the path between two good schedules may lead through a schedule that
does not fit (strategic oscillation: Glover, 1989; annealing: Kirkpatrick et al., 1983).

Temperatures of an annealing round that ends after a number of moves or when time is up.

A round that ends while it is hot gains nothing. So it cools by its moves or, if time would end it
first, by the time: on a busy machine, rounds are shorter but still complete.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from cpplan.model.problem import Ints
from cpplan.model.remat_problem import RematProblem
from cpplan.remat.heuristics.dropping import drop
from cpplan.remat.known_schedules import RematOutcome
from cpplan.remat.loops import SCHEDULES
from cpplan.remat.search.flat_problem import flatten
from cpplan.remat.search.schedule_kernel import anneal, space_for
from cpplan.remat.tuning import active
from cpplan.runtime.budget import Budget
from cpplan.runtime.compiled import prepare
from cpplan.runtime.deadline import Deadline, TimeUpError

# Temperatures at the start and at the end of a round, in mean costs of a unit.
_LOCAL_HEATS = (1.0, 0.003)
# Runs of a start, as a multiple of the units, above which local search first begins with its
# order alone.
_LONG_START = 1.2
# Moves of local search for each position of the start: of the first round and of all rounds;
# their growth from round to round.
_LOCAL_FIRST_MOVES = 300
_LOCAL_MOST_MOVES = 300_000
_LOCAL_GROWTH = 1.5
# Positions visited in all rounds if there is no time limit: some minutes.
_LOCAL_MOST_WORK = 1e10
# Price of twice the limit at one position, in mean costs of a unit; other excesses cost in
# proportion.
_LOCAL_PRICE = 100.0
# Factors of the price after a call without a schedule within the limit, and after a call with
# one.
_LOCAL_PRICE_FACTORS = (1.1, 0.95)

NAME = "local search"
ONCE = "every op once"
# Positions visited in one call of the compiled loop, about; a round has several calls.
_CALL = 1e6


def search_schedules(
    problem: RematProblem,
    limit: int,
    start: Iterable[int],
    budget: Budget,
    *,
    target_cost: float = 0,
    joint: bool = True,
    moves: int | None = None,
    report: Callable[[RematOutcome], None] = lambda outcome: None,
) -> RematOutcome:
    """The cheapest schedule found within ``limit`` bytes.

    If no schedule within the limit is found, the one of least peak is returned. The result is never
    worse than the start.

    Parameters
    ----------
    problem
        The rematerialization problem.
    limit
        Limit on the peak, bytes.
    start
        A valid schedule, which need not fit.
    budget
        When its deadline passes, the best schedule so far is returned. Its seed is that of the
        moves.
    target_cost
        A cost that is good enough for a schedule that fits.
    joint
        True if first runs may change places.
    moves
        Most moves to try; if ``None``, moves end with the deadline, or after some minutes.
    report
        Called at every better schedule.
    """
    deadline, schedule = budget.deadline, tuple(int(unit) for unit in start)
    least = problem.total_cost(range(len(problem)))
    best = RematOutcome(
        schedule, problem.peak(schedule), problem.total_cost(schedule), least, NAME, ONCE
    )
    target = max(target_cost, least)
    if (best.peak <= limit and best.cost <= target) or len(problem) < 2:
        return best
    if not prepare(SCHEDULES, deadline):
        return best
    walk = _Walk(problem, limit, best, budget.seed, joint=joint)
    left = moves
    if left is None:
        left = min(_LOCAL_MOST_MOVES * len(schedule), int(_LOCAL_MOST_WORK / len(schedule)))
    size = _LOCAL_FIRST_MOVES * len(problem)
    from_order = len(schedule) > _LONG_START * len(problem)
    while left > 0 and not deadline.expired():
        if best.peak <= limit and best.cost <= target:
            break
        tried = min(left, size)
        found = walk.round(tried, deadline, from_order=from_order)
        left, size = left - tried, int(size * _LOCAL_GROWTH)
        if found is None:
            from_order = not from_order
        else:
            best = found
            report(best)
    return best


class _Walk:
    """Annealing rounds from the best schedule so far, or from its order of first runs alone.

    From the order alone, a round can find other repetitions.
    """

    def __init__(
        self, problem: RematProblem, limit: int, best: RematOutcome, seed: int, *, joint: bool
    ):
        self._joint, self._tuning = joint, active()
        self._random = np.random.default_rng(seed)
        self._problem, self._limit, self._best = problem, limit, best
        self._flat = flatten(problem)
        self._mean = float(self._flat.cost.mean()) or 1.0
        self._price = _LOCAL_PRICE
        self._kept: Ints = np.empty(0, np.int64)
        self._make_room(best.schedule)

    def _make_room(self, schedule: tuple[int, ...]) -> None:
        """Keep a schedule, with room for twice its number of runs."""
        self._kept = np.empty(2 * max(len(schedule), len(self._problem)) + 64, np.int64)
        self._kept[: len(schedule)] = schedule
        self._space = space_for(self._flat, len(self._kept))

    def round(self, moves: int, deadline: Deadline, *, from_order: bool) -> RematOutcome | None:
        """Outcome of one round if it is better than the best so far, else ``None``."""
        best = self._best
        begin = tuple(dict.fromkeys(best.schedule)) if from_order else best.schedule
        length = len(begin)
        now = self._kept.copy()
        now[:length] = begin
        result = np.array([len(best.schedule), best.peak, best.cost, 0, 0, 0], np.float64)
        calls = max(1, int(moves * length / _CALL))
        hot, cold = (heat * self._mean for heat in _LOCAL_HEATS)
        cooling = Cooling(hot, cold, calls, deadline)
        for call in range(calls):
            if deadline.expired():
                break
            hot, cold = cooling.step(call)
            length = anneal(
                self._flat, self._limit, now, length, self._kept, result, moves // calls,
                self._price * self._mean, hot, cold,
                float(len(self._problem)), not self._joint, self._random, self._space,
            )  # fmt: skip
            deadline.spend(result[3])
            result[3] = 0
            raising, lowering = _LOCAL_PRICE_FACTORS
            self._price *= raising if result[4] == 0 else lowering
        found = tuple(self._kept[: int(result[0])].tolist())
        if result[1] > self._limit:
            # The end of the walk mostly exceeds the limit only a little.
            try:
                dropped = drop(self._problem, now[:length].tolist(), self._limit, deadline)
            except TimeUpError:
                dropped = found
            if self._problem.peak(dropped) < result[1]:
                found = dropped
                self._make_room(found)
        if found == best.schedule:
            return None
        self._best = best._replace(
            schedule=found,
            peak=self._problem.peak(found),
            cost=self._problem.total_cost(found),
            found_by=NAME,
        )
        return self._best


class Cooling:
    """Temperatures from ``hot`` to ``cold`` over a number of calls, or over the time left.

    Parameters
    ----------
    hot, cold
        The first temperature and the last.
    calls
        Number of calls of the loop that makes the moves.
    deadline
        Ends the round.
    """

    def __init__(self, hot: float, cold: float, calls: int, deadline: Deadline):
        self._hot, self._fall, self._calls = hot, cold / hot, calls
        self._deadline, self._time = deadline, deadline.remaining()

    def step(self, call: int) -> tuple[float, float]:
        """Temperatures at the begin and at the end of a call; calls count from 0."""
        begin = call / self._calls
        if call and 0 < self._time < math.inf:
            begin = max(begin, 1 - self._deadline.remaining() / self._time)
        # Expect the call to take as long as the mean of the calls before.
        end = min(1.0, begin + max(1 / self._calls, begin / max(1, call)))
        return self._hot * self._fall**begin, self._hot * self._fall**end
