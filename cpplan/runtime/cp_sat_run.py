"""One run of CP-SAT on a model that minimises a peak; Ctrl-C and the deadline end it.

The solver works in a thread of its own. Its solutions and bounds are passed on at once, in the
calling thread, so that none is lost when the run is cut short.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from cpplan.runtime.budget import Budget
from cpplan.runtime.build_in_time import build_in_time

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    from formulations.positions import Solved

# One unit of CP-SAT's deterministic time is about this many seconds on models of orders.
SECONDS_PER_WORK = 4.0
# Seconds that every run takes to start; counted if time is deterministic.
_TO_BEGIN = 0.02

T = TypeVar("T", covariant=True)
U = TypeVar("U")


class Formulation(Protocol[T]):
    """A model under ``formulations`` that minimises a number of bytes or of other units."""

    @property
    def model(self) -> cp_model.CpModel: ...

    def extract(self, solver: Solved) -> T:
        """Solution that the solver has found."""

    def in_bytes(self, objective: float) -> int:
        """Bytes of peak for a value of the objective or a bound on it."""


class Hinted(Formulation[U], Protocol[U]):
    """A formulation that can start from a solution."""

    def hint(self, start: U, /) -> object:
        """Set this solution as the hint; every variable gets a value."""


def improve_by_model(
    build: Callable[[], Hinted[U]],
    start: U,
    budget: Budget,
    *,
    found: Callable[[U], object],
    proved: Callable[[int], object],
    work: float | None = None,
    linearization: int = 0,
) -> bool:
    """Build a model and solve it from a solution; returns False if there was no time to build it.

    ``build`` makes the model; for the other parameters see :func:`run_model`.
    """
    formulation = build_in_time(build, budget.deadline)
    if formulation is None:
        return False
    formulation.hint(start)
    run_model(
        formulation, budget, found=found, proved=proved, work=work, linearization=linearization
    )
    return True


def run_model(
    formulation: Formulation[U],
    budget: Budget,
    *,
    found: Callable[[U], object],
    proved: Callable[[int], object],
    work: float | None = None,
    linearization: int = 0,
) -> None:
    """Solve a model until its solution is proved optimal, or time or work are spent."""
    run = _Run(formulation, budget, found, proved, work, linearization)
    try:
        run.watch()
    finally:
        run.stop()
    # Pass on news that arrived while the run was being stopped.
    run.drain()


@dataclass(frozen=True, slots=True)
class _News(Generic[U]):
    """Message from the solver's thread: a solution, a bound, the end, or an error."""

    solution: U | None = None
    bound: int | None = None
    ended: bool = False
    error: BaseException | None = None


class _Run(Generic[U]):
    def __init__(
        self,
        formulation: Formulation[U],
        budget: Budget,
        found: Callable[[U], object],
        proved: Callable[[int], object],
        work: float | None,
        linearization: int,
    ):
        from ortools.sat.python import cp_model

        self.formulation, self.found, self.proved = formulation, found, proved
        deadline = self.deadline = budget.deadline
        self.news: queue.SimpleQueue[_News[U]] = queue.SimpleQueue()
        self.solver = cp_model.CpSolver()
        parameters = self.solver.parameters
        parameters.num_workers = budget.workers
        parameters.random_seed = budget.seed
        parameters.linearization_level = linearization
        parameters.catch_sigint_signal = False
        # google/or-tools#5293: this presolve step can prove falsehoods on large coefficients.
        parameters.presolve_inclusion_work_limit = 0
        if deadline.deterministic:
            left = deadline.remaining() / SECONDS_PER_WORK
            work = left if work is None else min(work, left)
            # CP-SAT then interleaves its workers in an order that does not depend on the clock.
            parameters.interleave_search = budget.workers > 1
        else:
            parameters.max_time_in_seconds = deadline.remaining()
        if work is not None:
            parameters.max_deterministic_time = work
        # Not a daemon thread: if Python ended while the solver's thread runs, it would abort.
        self.thread = threading.Thread(target=self._solve)
        self.thread.start()

    def watch(self) -> None:
        """Pass on news as they arrive, until the run has ended or time is up."""
        news = self._wait()
        while news is not None and not self._hand_on(news):
            news = self._wait()

    def _wait(self) -> _News[U] | None:
        """The next news, or ``None`` when time is up."""
        try:
            return self.news.get(timeout=self.deadline.patience())
        except queue.Empty:
            return None

    def stop(self) -> None:
        self.solver.stop_search()
        # Presolve may react late: a thread that takes longer than the grace period is abandoned.
        self.thread.join(timeout=self.deadline.grace())

    def drain(self) -> None:
        while not self.news.empty():
            self._hand_on(self.news.get())

    def _solve(self) -> None:
        """Solve the model and queue the news; runs in the solver's thread."""
        try:
            from ortools.sat.python import cp_model

            formulation, news = self.formulation, self.news

            class Report(cp_model.CpSolverSolutionCallback):
                def on_solution_callback(self) -> None:
                    news.put(_News(formulation.extract(self)))

            def report_bound(objective: float) -> None:
                news.put(_News(bound=formulation.in_bytes(objective)))

            self.solver.best_bound_callback = report_bound
            model = formulation.model
            status = self.solver.solve(model, Report())
            if status == cp_model.MODEL_INVALID:
                raise AssertionError(f"the model is invalid: {model.validate()}")
            # Without a solution, the solver's bound is not used.
            settled = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
            bound = formulation.in_bytes(self.solver.best_objective_bound) if settled else None
            news.put(_News(bound=bound, ended=True))
        except BaseException as error:  # passed to the calling thread, which raises it
            self.news.put(_News(ended=True, error=error))

    def _hand_on(self, news: _News[U]) -> bool:
        """Pass on news; returns True if they were the last."""
        if news.error is not None:
            raise news.error
        if news.solution is not None:
            self.found(news.solution)
        if news.bound is not None:
            self.proved(news.bound)
        if news.ended:
            used = self.solver.response_proto.deterministic_time
            self.deadline.spend(_TO_BEGIN + used * SECONDS_PER_WORK)
        return news.ended
