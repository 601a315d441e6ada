"""Local search on a schedule: CP-SAT solves windows of it again, within the memory limit.

This is for schedules too long for one model. A window of some dozens of runs is solved in a
fraction of a second; the runs found replace the window if they cost less.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from cpplan.model.costs import sum_costs
from cpplan.model.errors import InputError
from cpplan.model.remat_problem import RematProblem
from cpplan.remat.search.cp_sat_remat import BASE
from cpplan.remat.search.outcome import RematOutcome
from cpplan.remat.search.window import remat_window
from cpplan.remat.tuning import active
from cpplan.runtime.budget import Budget
from cpplan.runtime.cp_sat_run import improve_by_model

NAME = "CP-SAT windows"


def improve_windows(
    problem: RematProblem,
    limit: int,
    start: Sequence[int],
    budget: Budget,
    *,
    bound: tuple[int | float, str] | None = None,
    searches: int | None = None,
    report: Callable[[RematOutcome], None] = lambda outcome: None,
) -> RematOutcome:
    """Solve windows of a schedule again until time is up or the cost meets the bound.

    Parameters
    ----------
    problem
        Units and storages.
    limit
        Limit on the peak, bytes.
    start
        A schedule within the limit.
    budget
        When its deadline passes, the best schedule so far is returned. Its seed is that of the
        windows and of CP-SAT's random choices.
    bound
        A proved bound on the cost of every schedule, and the name of its proof.
    searches
        Most windows to solve; ``None`` for no limit.
    report
        Called at every improvement.

    Raises
    ------
    InputError
        If ``start`` exceeds the limit.

    Examples
    --------
    >>> from cpplan.model.small_graphs import forward_and_back
    >>> from cpplan.remat.problem import remat_problem
    >>> from cpplan.runtime.deadline import Deadline
    >>> problem = remat_problem(forward_and_back())
    >>> start = [0, 1, 0, 1, 2, 3, 0, 4]
    >>> improve_windows(problem, 24, start, Budget(Deadline(60)), searches=1).cost
    6
    """
    peak = problem.peak(start)
    if peak > limit:
        raise InputError(f"start takes {peak} bytes: expected at most {limit}")
    proved, proved_by = bound or (sum_costs(problem.cost), BASE)
    cost = problem.total_cost(start)
    best = RematOutcome(tuple(start), peak, cost, min(proved, cost), "given", proved_by)
    chance, done = random.Random(budget.seed), 0
    while best.cost > best.bound and done != searches and not budget.deadline.expired():
        length = min(active().window_runs, len(best.schedule))
        begin = chance.randint(0, len(best.schedule) - length)
        schedule = improve_window(
            problem, limit, best.schedule, begin, begin + length, budget.reseeded(done)
        )
        done += 1
        if schedule != best.schedule:
            best = best._replace(
                schedule=schedule,
                peak=problem.peak(schedule),
                cost=problem.total_cost(schedule),
                found_by=NAME,
            )
            report(best)
    return best


def improve_window(
    problem: RematProblem,
    limit: int,
    schedule: tuple[int, ...],
    begin: int,
    end: int,
    budget: Budget,
) -> tuple[int, ...]:
    """The schedule with the window ``[begin, end)`` solved again, if that costs less.

    For the parameters see :func:`improve_windows`.
    """
    from formulations.rematerialization import build

    window = remat_window(problem, schedule, begin, end)
    tuning = active()
    most = max(tuning.window_copies, *(window.runs.count(unit) for unit in window.runs))
    best, cost = schedule, problem.total_cost(schedule)

    def found(runs: tuple[int, ...]) -> None:
        nonlocal best, cost
        inside = tuple(window.units[unit] for unit in runs)
        changed = schedule[:begin] + inside + schedule[end:]
        less = problem.total_cost(changed)
        if less < cost:
            best, cost = changed, less

    improve_by_model(
        lambda: build(window.problem, memory_limit=limit, copies=most, done=window.done),
        window.runs,
        budget.on_one_thread(),
        found=found,
        proved=lambda bound: None,
        work=tuning.window_work,
    )
    return best
