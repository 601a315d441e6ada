"""``solve``: the stages and their one deadline.

Reduce, bound, heuristics; where a gap is left, local search and CP-SAT in turns on the independent
part that causes it. The first proof of optimality ends the run; so do the deadline and Ctrl-C, with
the best plan so far. Every plan is verified before it is returned.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from cpplan import heuristics
from cpplan.anf import Program, to_anf
from cpplan.bounds import lower_bound
from cpplan.byte_sizes import parse_bytes
from cpplan.deadline import Deadline, TimeUpError
from cpplan.errors import InputError, VerificationError
from cpplan.graph import Graph
from cpplan.heuristics.by_hint import follow_hint
from cpplan.incumbent import Incumbent
from cpplan.liveness import to_problem
from cpplan.plan import Plan, Progress, Status
from cpplan.problem import Problem
from cpplan.rectangles import check_apart, cut_gaps
from cpplan.residency import Residency
from cpplan.search.order_search import OrderSearch
from cpplan.shortfall import explain_shortfall
from cpplan.verifier import check_offsets, verify

if TYPE_CHECKING:
    from cpplan.problem import Ints
    from cpplan.search.outcome import Outcome

# What the first turn of local search (moves) and of CP-SAT (deterministic time a run) may take.
FIRST_MOVES, FIRST_WORK = 150, 0.01
MOST_EFFORT = 4**10


def solve(
    source: Graph | Program | Problem,
    *,
    time_limit: float = 60.0,
    capacity: int | str | None = None,
    memory_limit: int | str | None = None,
    inputs: str = "reuse",
    outputs: str = "keep",
    constants: str = "outside",
    workers: int | None = None,
    seed: int = 0,
    deterministic: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Plan:
    """Plan the memory of a model: an offset for every buffer, with the smallest peak found.

    Parameters
    ----------
    source
        A graph (planned in the order in which its ops are listed), a program, or a bare packing
        problem.
    time_limit
        Seconds for everything; the best plan so far is returned when they are over.
    capacity
        Stop at the first plan that fits into so many bytes (``262144`` or ``"256 KiB"``).
    memory_limit
        Like ``capacity`` a limit the plan must keep, but go on to the smallest peak.
    inputs, outputs, constants
        What the arena holds of the model's boundary: see :class:`~cpplan.residency.Residency`.
    workers
        Threads; as many as there are cores if left out. With one, the same input and seed give the
        same plan.
    seed
        For random choices.
    deterministic
        Count work instead of time, with one worker, so that the result does not depend on the
        machine's load; ``time_limit`` then is in units of about a second.
    progress
        Called with each improvement of the peak or the bound.

    Returns
    -------
    Plan
        Verified. Its ``status`` says whether it is proved smallest; without offsets if nothing
        fits, or nothing that fits was found.

    Raises
    ------
    InputError
        If an option is not understood, or the problem contradicts itself.

    Examples
    --------
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 4])
    >>> plan = solve(problem)
    >>> plan.status, plan.peak, plan.offset.tolist()
    ('optimal', 12, [8, 0, 8])
    """
    if deterministic and workers not in (None, 1):
        raise InputError("deterministic=True needs workers=1: several finish in no fixed order")
    if not time_limit > 0:
        raise InputError(f"time_limit must be positive, not {time_limit!r}")
    if workers is not None and workers < 1:
        raise InputError(f"workers must be at least 1, not {workers!r}")
    deadline = Deadline(time_limit, deterministic=deterministic)
    residency = Residency(inputs, outputs, constants)
    source = as_program(source)
    problem = as_problem(source, residency)
    limits = [parse_bytes(limit) for limit in (capacity, memory_limit) if limit is not None]
    if problem.pool.capacity is not None:
        limits.append(problem.pool.capacity)
    ceiling = min(limits, default=None)
    goal = ceiling if capacity is not None else None
    check_fixed(problem)
    incumbent = Incumbent(problem, deadline, goal=goal, ceiling=ceiling, progress=progress)
    try:
        _run_heuristics(incumbent)
        _run_search(incumbent, 1 if deterministic else workers or _cores(), seed)
    except TimeUpError:
        pass
    except KeyboardInterrupt:
        deadline.cancel()
    plan = _to_plan(incumbent, source, problem, residency)
    if plan.offset is not None:
        verify(source, plan)
    return plan


def as_program(source: Graph | Program | Problem) -> Program | Problem:
    """A graph in its listed order; a program or a problem as it is.

    Raises
    ------
    InputError
        If it is none of these.
    """
    if isinstance(source, Graph):
        return to_anf(source)
    if isinstance(source, (Program, Problem)):
        return source
    raise InputError(
        f"expected a Graph, a Program or a Problem, not {type(source).__name__}: "
        "cpplan.load reads a model"
    )


def as_problem(source: Graph | Program | Problem, residency: Residency) -> Problem:
    """The packing problem of anything that can be planned; a problem as it is."""
    source = as_program(source)
    return source if isinstance(source, Problem) else to_problem(source, residency)


def check_fixed(problem: Problem) -> None:
    """Whether the buffers whose offset is given leave one another in peace. O(n log n).

    Raises
    ------
    InputError
        Names two that overlap, and a step at which both are live.
    """
    rows = np.array(sorted(problem.fixed), np.int64)
    offsets = np.array([problem.fixed[row] for row in rows.tolist()], np.int64)
    given = problem.subset(rows)
    try:
        check_apart(cut_gaps(given), given.names, offsets)
    except VerificationError as error:
        raise InputError(f"the fixed offsets contradict each other: {error}") from error


def _run_heuristics(incumbent: Incumbent) -> None:
    """One after another until one meets the bound."""
    problem, deadline = incumbent.reduction.problem, incumbent.deadline
    if problem.hint:
        incumbent.offer(follow_hint(problem, deadline), "hint")
    for name in heuristics.portfolio():
        if incumbent.done:
            return
        deadline.check()
        offsets = heuristics.get(name)(problem, deadline)
        check_offsets(problem, offsets, name)
        incumbent.offer(offsets, name)


def _run_search(incumbent: Incumbent, workers: int, seed: int) -> None:
    """Search on the part that is highest, in turns: local search over orders, then CP-SAT.

    The peak is the highest part's, so that once it is the smallest it can be, all is done. Each
    turn is longer than the last, because nothing tells beforehand which of the two will be quick.
    """
    order_searches: dict[int, OrderSearch] = {}
    effort = 1
    while not incumbent.done and not incumbent.deadline.expired():
        part = incumbent.highest_part()
        problem, rows = incumbent.reduction.part_problem(part)
        if part not in order_searches:
            order_searches[part] = OrderSearch(problem, seed)
            incumbent.offer_bound(part, lower_bound(problem))
        goal = max(incumbent.goal or 0, incumbent.bound.value, incumbent.next_peak())
        search, deadline = order_searches[part], incumbent.deadline
        state = incumbent.part_state(part, rows)
        try:
            state = search.run(state, moves=FIRST_MOVES * effort, goal=goal, deadline=deadline)
        finally:
            incumbent.offer_part(part, rows, search.best(state))
        if incumbent.done or incumbent.highest_part() != part:
            continue

        def report(outcome: Outcome, part: int = part, rows: Ints = rows) -> None:
            incumbent.offer_part(part, rows, outcome)

        from cpplan.search.cp_sat_packing import run_round

        run_round(
            problem,
            incumbent.part_state(part, rows),
            deadline,
            work=FIRST_WORK * effort,
            goal=goal,
            ceiling=incumbent.ceiling,
            workers=workers,
            seed=seed,
            report=report,
        )
        effort = min(4 * effort, MOST_EFFORT)


def _to_plan(
    incumbent: Incumbent, source: Program | Problem, problem: Problem, residency: Residency
) -> Plan:
    peak, bound, ceiling = incumbent.peak, incumbent.bound, incumbent.ceiling
    fits = ceiling is None or peak <= ceiling
    status: Status = "optimal" if peak == bound.value else "feasible"
    if not fits:
        status = "infeasible" if bound.value > (ceiling or 0) else "unknown"
    program = source if isinstance(source, Program) else None
    return Plan(
        name=program.graph.name if program else problem.name,
        status=status,
        buffers=tuple(problem.names),
        size=problem.size,
        lower=problem.lower,
        upper=problem.upper,
        gaps=problem.gaps,
        offset=incumbent.reduction.restore(incumbent.offsets, problem) if fits else None,
        pool=problem.pool.name,
        peak=peak if fits else None,
        lower_bound=bound.value,
        capacity=ceiling,
        found_by=incumbent.found_by if fits else None,
        bound_by=bound.name,
        order=program.names if program else (),
        cost=program.cost if program else None,
        base_cost=sum(op.cost for op in program.graph.ops) if program else None,
        residency=residency,
        views=_views(program, problem) if program else {},
        runtime=incumbent.deadline.elapsed(),
        history=tuple(incumbent.history),
        message=None if fits else explain_shortfall(problem, bound, peak, ceiling or 0),
    )


def _views(program: Program, problem: Problem) -> dict[str, tuple[str, int]]:
    placed = set(problem.names)
    roots = program.graph.root.items()
    return {name: root for name, root in roots if name != root[0] and root[0] in placed}


def _cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
