"""Packing by CP-SAT: many short runs under different search orders.

A run may take minutes under one preorder and a tenth of a second under another, and it is not known
beforehand which is quick (see ``formulations.packing``). So a round gives each combination of
preorder and limit the same amount of work. The limits are the target, where a solution ends the
search, a peak halfway, and the peak just below the best one. A solution lowers the best peak, and
an infeasible limit raises the bound.

Work is measured in CP-SAT's deterministic time; with one worker, the clock can only end the round.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cpplan.packing.heuristics.by_lowest_offset import preorder
from cpplan.packing.reduction import address_unit
from cpplan.packing.search.outcome import Outcome
from cpplan.packing.tuning import active
from cpplan.runtime.budget import Budget
from cpplan.runtime.build_in_time import build_in_time

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    from cpplan.model.problem import Ints, Problem

_logger = logging.getLogger(__name__)

# None: CP-SAT's own search from the incumbent; it settles small instances at once.
STRATEGIES = (None, "TWA", "WAT", "TAW", "ATW")
# One unit of CP-SAT's deterministic time is about this many seconds on these models.
SECONDS_PER_WORK = 50.0
# Seconds between two exchanges with other searches.
_LOOK = 0.05


def applies_to(problem: Problem) -> bool:
    """True if the model is not too large to be presolved."""
    return int((problem.spans.upper - problem.spans.lower).sum()) <= active().section_entries


def run_round(
    problem: Problem,
    state: Outcome,
    budget: Budget,
    *,
    work: float,
    target: int = 0,
    limit: int | None = None,
    report: Callable[[Outcome], object] = lambda outcome: None,
    exchange: Callable[[Outcome], Outcome] | None = None,
) -> Outcome:
    """Run one round; it ends early if the peak is good enough or proved smallest, or time is up."""
    if not applies_to(problem):
        _logger.info("CP-SAT skipped: the model of %d buffers would be too large", len(problem))
        return state
    portfolio = _Portfolio(problem, state, budget, target, limit, report, exchange)
    try:
        portfolio.run(work)
    finally:
        portfolio.stop_all()
    return portfolio.state


@dataclass(eq=False, slots=True)
class _Task:
    """One CP-SAT run: find a packing within ``limit`` bytes, or minimise the peak below it."""

    strategy: str | None
    limit: int
    minimise: bool
    solver: cp_model.CpSolver


class _Answer(NamedTuple):
    task: _Task
    offsets: Ints | None
    bound: int
    work: float = 0.0
    """Deterministic time spent; 0.0 if the deadline passed while the model was built."""
    error: BaseException | None = None


class _Portfolio:
    """The current runs and the state they improve; only the calling thread changes it."""

    def __init__(
        self,
        problem: Problem,
        state: Outcome,
        budget: Budget,
        target: int,
        limit: int | None,
        report: Callable[[Outcome], object],
        exchange: Callable[[Outcome], Outcome] | None,
    ):
        self.problem, self.state, self.deadline = problem, state, budget.deadline
        self.target, self.limit = target, limit
        self.workers, self.seed = budget.workers, budget.seed
        self.report, self.exchange = report, exchange
        self.unit = address_unit(problem)
        self.orders = {word: preorder(problem, word) for word in STRATEGIES if word is not None}
        self.running: dict[_Task, threading.Thread] = {}
        self.answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()

    @property
    def low(self) -> int:
        """The smallest peak still worth seeking."""
        return max(self.target, self.state.bound)

    @property
    def high(self) -> int:
        """The largest peak that improves on the best one within the limit."""
        best = self.state.peak - 1
        return best if self.limit is None else min(best, self.limit)

    def run(self, work: float) -> None:
        tasks = self._tasks(work)
        while self.low <= self.high and not self.deadline.expired():
            while len(self.running) < self.workers and (task := next(tasks, None)) is not None:
                self._start(task)
            if not self.running:
                return
            patience = self.deadline.patience()
            if self.exchange is not None:
                self._learn(self.exchange(self.state))
                patience = _LOOK if patience is None else min(patience, _LOOK)
            try:
                answer = self.answers.get(timeout=patience)
            except queue.Empty:
                continue
            del self.running[answer.task]
            self._take(answer)

    def stop_all(self) -> None:
        for task in self.running:
            task.solver.stop_search()
        # Presolve may react late: do not wait longer than the grace for a thread.
        for thread in self.running.values():
            thread.join(timeout=self.deadline.grace())
        self.running.clear()

    def _tasks(self, work: float) -> Iterator[_Task]:
        """Tasks with every strategy for every limit; the limits follow the state."""
        if self.low < self.high:
            # The hint is the incumbent, which must be within the limit to be feasible.
            hinted = self.limit is None or self.state.peak <= self.limit
            yield self._task(None, self.state.peak if hinted else self.high, work)
        for share in (0.0, 0.5, 1.0):
            for strategy in STRATEGIES[1:]:
                limit = self.low + int(share * (self.high - self.low))
                if share == 0.0 or limit > self.low:
                    yield self._task(strategy, limit, work)

    def _task(self, strategy: str | None, limit: int, work: float) -> _Task:
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        parameters = solver.parameters
        parameters.num_workers = 1
        parameters.random_seed = self.seed
        parameters.max_deterministic_time = work
        parameters.catch_sigint_signal = False
        # google/or-tools#5293: this presolve step can prove falsehoods on large coefficients.
        parameters.presolve_inclusion_work_limit = 0
        if strategy is not None:
            parameters.search_branching = cp_model.FIXED_SEARCH
        if not self.deadline.endless:
            parameters.max_time_in_seconds = self.deadline.remaining()
        return _Task(strategy, limit, strategy is None and self.low < self.high, solver)

    def _start(self, task: _Task) -> None:
        # Not a daemon: Python cannot end while a solver's thread still runs, but aborts.
        thread = threading.Thread(target=self._solve, args=(task, self.state))
        self.running[task] = thread
        thread.start()

    def _solve(self, task: _Task, state: Outcome) -> None:
        """Build and solve in the run's thread, and put the answer in the queue."""
        try:
            from ortools.sat.python import cp_model

            from formulations.packing import build

            order = None if task.strategy is None else self.orders[task.strategy]
            packing = build_in_time(
                lambda: build(
                    self.problem,
                    unit=self.unit,
                    upper=task.limit,
                    lower=min(state.bound, task.limit),
                    minimise=task.minimise,
                    preorder=order,
                ),
                self.deadline,
            )
            if packing is None:
                self.answers.put(_Answer(task, None, state.bound))
                return
            if task.minimise:
                packing.hint(state.offsets)
            status = task.solver.solve(packing.model)
            offsets, bound = None, state.bound
            if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
                offsets = packing.extract(task.solver)
                if task.minimise:
                    bound = max(bound, packing.proved_bound(task.solver))
            elif status == cp_model.INFEASIBLE:
                # Peaks are multiples of the grain: the bound is the next one above the limit.
                bound = (task.limit // packing.grain + 1) * packing.grain
            elif status == cp_model.MODEL_INVALID:
                raise AssertionError(f"packing model is invalid: {packing.model.validate()}")
            work = task.solver.response_proto.deterministic_time
            self.answers.put(_Answer(task, offsets, bound, work))
        except BaseException as error:  # handed to the calling thread, which raises it
            self.answers.put(_Answer(task, None, 0, error=error))

    def _take(self, answer: _Answer) -> None:
        if answer.error is not None:
            raise answer.error
        self.deadline.spend(answer.work * SECONDS_PER_WORK)
        name = _name(answer.task.strategy)
        # Later limits must be at least the bound; runs for smaller limits are useless.
        found = self.state._replace(bound=answer.bound, bound_by=name)
        if answer.offsets is not None:
            peak = int((answer.offsets + self.problem.size).max(initial=0))
            found = found._replace(offsets=answer.offsets, peak=peak, found_by=name)
        self._learn(found)

    def _learn(self, found: Outcome) -> None:
        state = self.state.merged(found)
        if (state.peak, state.bound) != (self.state.peak, self.state.bound):
            self.state = state
            self.report(state)
            for task in self.running:
                if not task.minimise and not self.low <= task.limit <= self.high:
                    task.solver.stop_search()


def _name(strategy: str | None) -> str:
    return "CP-SAT" if strategy is None else f"CP-SAT {strategy}"
