"""Schedules by CP-SAT: cheaper schedules within a memory limit, and bounds on their cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from cpplan.model.costs import sum_costs
from cpplan.model.remat_problem import RematProblem
from cpplan.remat.known_schedules import RematOutcome
from cpplan.runtime.budget import Budget
from cpplan.runtime.build_in_time import build_in_time
from cpplan.runtime.cp_sat_run import run_model

NAME = "CP-SAT rematerialization"
BASE = "every op once"


class ScheduleProof(NamedTuple):
    """The cheapest schedule known within the limit, if any, and a bound.

    Attributes
    ----------
    schedule, cost
        The schedule and its cost; ``None`` if no schedule is known.
    bound
        Lower bound on the cost of every schedule *of the model*: those with a limited number of
        runs of each unit, and with the given order of first runs if there is one.
    """

    schedule: tuple[int, ...] | None
    cost: int | float | None
    bound: int | float


def improve_schedule(
    problem: RematProblem,
    limit: int,
    start: Sequence[int],
    budget: Budget,
    *,
    copies: int = 2,
    free_order: bool = True,
    report: Callable[[RematOutcome], None] = lambda outcome: None,
) -> RematOutcome | None:
    """Lower the cost of a schedule within a limit until it is proved least or time is up.

    Parameters
    ----------
    problem
        Units and storages.
    limit
        Limit on the peak, bytes.
    start
        A schedule. If it exceeds the limit, only its order of first runs is used.
    budget
        When its deadline passes, the best outcome so far is returned. With one worker and enough
        time, the same input and seed give the same schedule.
    copies
        Most runs of a unit.
    free_order
        True if first runs may change places. If false, the bound is not raised, because other
        orders are not searched.
    report
        Called in the calling thread when the schedule or the bound improves.

    Returns
    -------
    RematOutcome or None
        ``None`` if no schedule within the limit is known.
    """
    once = sum_costs(problem.cost)
    start = tuple(start)
    fits = problem.peak(start) <= limit
    beyond = cost_beyond(problem, copies) if free_order else once

    def outcome(proof: ScheduleProof) -> RematOutcome | None:
        if proof.schedule is None or proof.cost is None:
            return None
        proved, name = max((once, BASE), (min(proof.bound, beyond), NAME), key=_first)
        return RematOutcome(
            schedule=proof.schedule,
            peak=problem.peak(proof.schedule),
            cost=proof.cost,
            bound=min(proved, proof.cost),
            found_by="given" if proof.schedule == start else NAME,
            bound_by=name,
        )

    def tell(proof: ScheduleProof) -> None:
        news = outcome(proof)
        if news is not None:
            report(news)

    state = ScheduleProof(
        start if fits else None, problem.total_cost(start) if fits else None, once
    )
    if state.cost is None or state.cost > once:
        order = None if free_order else tuple(dict.fromkeys(start))
        state = prove_schedule(
            problem, limit, state, budget, copies=copies, order=order, report=tell
        )
    return outcome(state)


def prove_schedule(
    problem: RematProblem,
    limit: int,
    known: ScheduleProof,
    budget: Budget,
    *,
    copies: int = 2,
    order: Sequence[int] | None = None,
    report: Callable[[ScheduleProof], None] = lambda proof: None,
) -> ScheduleProof:
    """The cheapest schedule found with at most ``copies`` runs of each unit, and a bound.

    With ``order``, first runs keep that order. ``formulations.rematerialization`` describes the
    schedules, :func:`improve_schedule` the parameters; ``known`` is the schedule to improve.
    """
    if len(problem) == 0 or budget.deadline.expired():
        return known
    from formulations.rematerialization import build

    state = known
    remat = build_in_time(
        lambda: build(problem, memory_limit=limit, copies=copies, order=order), budget.deadline
    )
    if remat is None:
        return known
    if known.schedule is not None:
        remat.hint(known.schedule)

    def found(schedule: tuple[int, ...]) -> None:
        nonlocal state
        cost = problem.total_cost(schedule)
        if state.cost is None or cost < state.cost:
            state = state._replace(schedule=schedule, cost=cost)
            report(state)

    def proved(objective: int) -> None:
        nonlocal state
        bound = remat.cost_of(objective)
        if bound > state.bound:
            state = state._replace(bound=bound)
            report(state)

    run_model(remat, budget, found=found, proved=proved)
    return state


def cost_beyond(problem: RematProblem, copies: int) -> int | float:
    """Lower bound on the cost of a schedule in which some unit runs more than ``copies`` times.

    Only units whose repetition can pay count: a schedule without the other repetitions costs no
    more.
    """
    from formulations.rematerialization import worth_repeating

    worth = worth_repeating(problem)
    least = min((c for c, pays in zip(problem.cost, worth, strict=True) if pays), default=None)
    return float("inf") if least is None else sum_costs(problem.cost) + copies * least


def _first(pair: tuple[int | float, str]) -> int | float:
    return pair[0]
