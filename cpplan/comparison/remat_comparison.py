"""Comparison of rematerialization baselines with ``solve``, on one model within one limit."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from cpplan.comparison import SOLVE
from cpplan.comparison.in_turn import rows_in_turn
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.model.problem import Problem
from cpplan.model.registry import chosen_names
from cpplan.model.remat_problem import RematProblem
from cpplan.model.residency import choose_residency
from cpplan.packing.problem import as_program
from cpplan.program.anf import Program
from cpplan.remat import heuristics as baselines
from cpplan.remat.problem import remat_problem
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.runtime.interrupts import noting_interrupts
from cpplan.solving.pipeline import solve_request
from cpplan.solving.request import Request
from cpplan.solving.shares import bytes_of

# Share of a row's time for a baseline's schedule; the rest is for packing the schedule.
_SCHEDULE_SHARE = 0.8
# Units of a baseline's problem packed in a second, about: more units leave less time for the
# schedule, but half of it at least.
_PACKING_RATE = 2e4
# Least number of seconds for packing.
LEAST_PACKING = 0.1


@dataclass(frozen=True, slots=True)
class RematBaseline:
    """One row of a comparison of rematerialization.

    Attributes
    ----------
    algorithm
        Name of the baseline, or ``"cpplan"`` for ``solve``.
    bytes
        Peak of the arena, packed and verified, or ``None`` if no schedule was found.
    cost
        Cost of the schedule (sum of ``Op.cost``), or ``None``.
    extra
        ``cost`` divided by the cost of every op once, minus 1 (0.2 is 20 % more), or ``None``.
    seconds
        Seconds by the clock, including packing.
    status
        ``solve``'s status; a baseline is ``optimal`` if ``solve``'s bound proves that no schedule
        within the limit is cheaper, else ``feasible``; ``does not fit`` if its arena exceeds the
        limit, ``unknown`` if it found no schedule within the limit or in time, ``invalid`` if its
        answer is not a schedule of the model's ops.
    """

    algorithm: str
    bytes: int | None
    cost: int | float | None
    extra: float | None
    seconds: float
    status: str


def compare_remat_rows(
    source: Graph | Program | Problem,
    *,
    memory_limit: int | str | None = None,
    algorithms: Iterable[str] | None = None,
    time_limit: float = 10.0,
    **options: Any,
) -> list[RematBaseline]:
    """Run every baseline and ``solve`` within a limit; rows that fit come first, then by cost.

    A baseline's schedule is packed as ``solve`` packs its own. Baselines keep the given order of
    first runs; ``solve`` searches it too, unless ``order="given"``.

    Parameters
    ----------
    source
        A graph, or a program that runs every op once.
    memory_limit
        Limit on the arena: bytes (``262144`` or ``"256 KiB"``), or a share of the most bytes live
        at a step of the given order (``"60%"``).
    algorithms
        Names of baselines; all registered ones if left out.
    time_limit
        Seconds for each row.
    options
        Options of ``solve``.

    Raises
    ------
    InputError
        If an algorithm is not known, an option is not understood or there is no limit.
    """
    chosen = chosen_names(baselines, algorithms)
    if memory_limit is None:
        raise InputError("a comparison with remat=True needs a memory_limit")
    program = as_program(source)
    if not isinstance(program, Program):
        raise InputError("remat=True needs a graph: a bare problem has no ops to run again")
    if len(program.order) > len(program.graph.ops):
        raise InputError("remat=True needs a program that runs every op once")
    # The remat problem numbers ops as the graph lists them: list them in the program's order.
    graph = replace(program.graph, ops=program.ops)
    request = Request(time_limit=time_limit, remat=True, memory_limit=memory_limit, **options)
    residency = choose_residency(request.inputs, request.outputs, request.constants)
    problem = remat_problem(graph, residency)
    limit = bytes_of(memory_limit, program, residency)
    request = replace(request, memory_limit=limit)
    with noting_interrupts() as interrupted:
        plan = solve_request(graph, request)
        others = list(
            rows_in_turn(
                chosen,
                lambda name: _run(name, problem, limit, request),
                interrupted,
                request.progress,
            )
        )
    base = problem.total_cost(range(len(problem)))
    cost = plan.cost if plan.offset is not None else None
    ours = RematBaseline(SOLVE, plan.peak, cost, None, plan.runtime or 0.0, plan.status)
    rows = (ours, *others)
    least = base if plan.cost_bound is None else plan.cost_bound
    return sorted((_judge(row, base, least) for row in rows), key=_rank)


def _run(name: str, problem: RematProblem, limit: int, request: Request) -> RematBaseline:
    deadline, start = Deadline(request.time_limit), time.perf_counter()

    def row(status: str, bytes: int | None = None, cost: float | None = None) -> RematBaseline:
        return RematBaseline(name, bytes, cost, None, time.perf_counter() - start, status)

    try:
        schedule = baselines.get(name)(
            problem, limit, deadline.share(_schedule_share(problem, request))
        )
    except TimeUpError:
        return row("unknown")
    if schedule is None:
        return row("unknown")
    if not (set(schedule) <= set(range(len(problem))) and problem.is_schedule(schedule)):
        return row("invalid")
    program = Program(problem.graph, problem.expand(schedule))
    packing = replace(request, remat=False, memory_limit=None, order="given")
    plan = solve_request(program, packing.within(max(deadline.remaining(), LEAST_PACKING)))
    fits = plan.peak is not None and plan.peak <= limit
    return row("feasible" if fits else "does not fit", plan.peak, plan.cost)


def _schedule_share(problem: RematProblem, request: Request) -> float:
    """Share of a row's time for the schedule: packing takes longer the more units there are."""
    packing = len(problem) / _PACKING_RATE / request.time_limit
    return min(_SCHEDULE_SHARE, max(0.5, 1 - packing))


def _judge(row: RematBaseline, base: float, least: float) -> RematBaseline:
    """The row with its extra cost over every op once, and its status by the bound on the cost."""
    extra = None
    if row.cost is not None:
        extra = row.cost / base - 1 if base else 0.0
    status = row.status
    if status == "feasible" and row.cost is not None and row.cost <= least:
        status = "optimal"
    return replace(row, extra=extra, status=status)


def _rank(row: RematBaseline) -> tuple[bool, float, float]:
    fits = row.status in ("optimal", "feasible")
    never = math.inf
    return (
        not fits,
        never if row.cost is None else row.cost,
        never if row.bytes is None else row.bytes,
    )
