"""Local search on a schedule: CP-SAT solves windows of it again, within the memory limit.

This is for schedules too long for one model. A window of some dozens of runs is solved in a
fraction of a second; the runs found replace the window if they cost less.

A window of a schedule as a separate rematerialization problem.

The runs at the positions ``begin <= position < end`` may be replaced, the others stay. Values read
in the window or after it are live at its beginning; values read after it are kept to its end. Units
that have run before the window may run again in it, but need not.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cpplan.model.costs import sum_costs
from cpplan.model.errors import InputError
from cpplan.model.order_problem import OrderProblem
from cpplan.model.remat_problem import RematProblem
from cpplan.remat.known_schedules import RematOutcome
from cpplan.remat.search.cp_sat_remat import BASE
from cpplan.runtime.budget import Budget
from cpplan.runtime.cp_sat_run import improve_by_model

# Runs in a window that CP-SAT solves again.
_WINDOW_RUNS = 40
# Most runs of a unit in a window that CP-SAT solves again, and CP-SAT's deterministic time.
_WINDOW_COPIES = 2
_WINDOW_WORK = 0.5

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
    """
    peak = problem.peak(start)
    if peak > limit:
        raise InputError(f"start takes {peak} bytes: expected at most {limit}")
    proved, proved_by = bound or (sum_costs(problem.cost), BASE)
    cost = problem.total_cost(start)
    best = RematOutcome(tuple(start), peak, cost, min(proved, cost), "given", proved_by)
    chance, done = random.Random(budget.seed), 0
    while best.cost > best.bound and done != searches and not budget.deadline.expired():
        length = min(_WINDOW_RUNS, len(best.schedule))
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
    most = max(_WINDOW_COPIES, *(window.runs.count(unit) for unit in window.runs))
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
        work=_WINDOW_WORK,
    )
    return best


@dataclass(frozen=True, eq=False, slots=True)
class RematWindow:
    """A stretch of a schedule.

    Attributes
    ----------
    problem
        Units and storages of the window, renumbered. Storages live throughout count in its base.
    units
        For every unit of the window, its number in the whole problem.
    done
        Units of the window that have run before.
    runs
        Present runs of the window, as units of the window.
    """

    problem: RematProblem
    units: tuple[int, ...]
    done: frozenset[int]
    runs: tuple[int, ...]


def remat_window(
    problem: RematProblem, schedule: Sequence[int], begin: int, end: int, *, others: int = 40
) -> RematWindow:
    """The window ``[begin, end)`` of a schedule. O(accesses).

    Besides the units that run in the window, up to ``others`` earlier units may run in it: those
    that write values live at the ends of the window, and the writers of their inputs in turn.

    Raises
    ------
    InputError
        If the window is empty or reaches beyond the schedule.
    """
    if not 0 <= begin < end <= len(schedule):
        raise InputError(f"[{begin}, {end}) is no window of {len(schedule)} runs")
    there, wanted = _ends(problem, schedule, begin, end)
    before = set(schedule[:begin])
    units = _units(problem, schedule[begin:end], before, there | wanted, others)
    number = {unit: k for k, unit in enumerate(units)}
    accessed: dict[int, list[int]] = {}
    for unit in units:
        for storage in sorted({*problem.reads[unit], *problem.writes[unit]}):
            accessed.setdefault(storage, []).append(number[unit])
    rows = {storage: k for k, storage in enumerate(sorted(accessed))}
    ordering = problem.ordering
    idle = sorted((there & wanted) - rows.keys())
    inside = OrderProblem(
        predecessors=tuple(
            tuple(number[other] for other in ordering.predecessors[unit] if other in number)
            for unit in units
        ),
        extra=ordering.extra[units],
        size=ordering.size[list(rows)],
        accessed_by=tuple(tuple(accessed[storage]) for storage in rows),
        present=np.array([storage in there for storage in rows], bool),
        kept=np.array([storage in wanted for storage in rows], bool),
        base=ordering.base + int(ordering.size[idle].sum()),
        entry=ordering.entry if begin == 0 else 0,
    )
    return RematWindow(
        replace(
            problem,
            units=tuple(problem.units[unit] for unit in units),
            ordering=inside,
            reads=tuple(tuple(rows[s] for s in problem.reads[unit]) for unit in units),
            writes=tuple(tuple(rows[s] for s in problem.writes[unit]) for unit in units),
            cost=tuple(problem.cost[unit] for unit in units),
            repeatable=problem.repeatable[units],
            overwrites=((),) * len(units),
        ),
        tuple(units),
        frozenset(number[unit] for unit in units if unit in before),
        tuple(number[unit] for unit in schedule[begin:end]),
    )


def _ends(
    problem: RematProblem, schedule: Sequence[int], begin: int, end: int
) -> tuple[set[int], set[int]]:
    """Storages live at the beginning of the window, and storages live after it."""
    there, wanted = set[int](), set[int]()
    for storage, first, stop in problem.retentions(schedule):
        if stop > begin and (first < begin or (begin == 0 and problem.ordering.present[storage])):
            there.add(storage)
        if first < end < stop:
            wanted.add(storage)
    if end == len(schedule):
        wanted.update(np.flatnonzero(problem.ordering.kept).tolist())
    return there, wanted


def _units(
    problem: RematProblem,
    runs: Sequence[int],
    before: set[int],
    live: set[int],
    others: int,
) -> list[int]:
    """Units that run in the window or may run again in it, ascending."""
    writer = {
        storage: unit
        for unit, written in enumerate(problem.writes)
        if unit in before and problem.repeatable[unit]
        for storage in written
    }
    units = dict.fromkeys(runs)
    queue = [s for unit in units for s in problem.reads[unit]] + sorted(live)
    room = len(units) + others
    for storage in queue:
        unit = writer.get(storage)
        if unit is not None and unit not in units and len(units) < room:
            units[unit] = None
            queue += problem.reads[unit]
    return sorted(units)
