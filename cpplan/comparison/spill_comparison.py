"""Comparison of eviction rules with ``solve``, and the curve of bytes moved against capacity."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.model.pool import Pool, check_pools
from cpplan.model.residency import Residency, choose_residency
from cpplan.packing.problem import as_program
from cpplan.program.anf import Program
from cpplan.runtime.budget import make_budget
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.runtime.interrupts import noting_interrupts
from cpplan.solving.pipeline import solve
from cpplan.spilling import heuristics
from cpplan.spilling.packed import lay_out
from cpplan.spilling.problem import SpillProblem, spill_problem

SOLVE = "cpplan"
Placer = Callable[[Program, Residency, tuple[Pool, Pool]], set[str] | None]


@dataclass(frozen=True, slots=True)
class SpillBaseline:
    """One row of a comparison of bytes moved.

    Attributes
    ----------
    algorithm
        Name of the eviction rule, or ``"cpplan"`` for ``solve``.
    moved
        Bytes moved, or ``None`` if nothing was found that fits.
    ratio
        ``moved`` / the bound, or ``None``.
    seconds
        By the clock.
    status
        ``solve``'s status. A rule is ``optimal`` if it meets the bound, else ``feasible``;
        ``not packed`` if its bytes fit at every step but no offsets were found for them;
        ``does not fit`` if they do not; ``unknown`` if it did not finish in time.
    """

    algorithm: str
    moved: int | None
    ratio: float | None
    seconds: float
    status: str


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Bytes moved at one capacity of the fast pool.

    Attributes
    ----------
    capacity
        Of the fast pool, bytes.
    moved_bytes, moved_bytes_bound
        Of the best plan that fits, and their bound; ``None`` if there is none.
    status
        Of that plan.
    rules
        Bytes moved by each eviction rule, by name; ``None`` where it does not fit.
    """

    capacity: int
    moved_bytes: int | None
    moved_bytes_bound: int | None
    status: str
    rules: dict[str, int | None]


def compare_spill_rows(
    source: Graph | Program,
    *,
    algorithms: Iterable[str] | None = None,
    placers: Mapping[str, Placer] | None = None,
    time_limit: float = 10.0,
    **options: Any,
) -> list[SpillBaseline]:
    """One row for each eviction rule and one for ``solve``, the fewest bytes moved first.

    Parameters
    ----------
    source
        A graph or a program.
    algorithms
        Names of eviction rules; all registered ones if left out.
    placers
        Other planners by name, which place whole tensors for life: each gives the names of the
        buffers in the fast pool, or ``None`` if it finds no room.
    time_limit
        Seconds for each row.
    options
        For ``solve``: ``pools`` and others. Rules keep the given order.

    Raises
    ------
    InputError
        If a rule is not known, or an option is not understood.

    Examples
    --------
    >>> from cpplan.model.graph import Op, Tensor
    >>> tensors = Tensor("a", 8), Tensor("b", 8), Tensor("c", 8)
    >>> ops = (
    ...     Op("f", outputs=("a",)),
    ...     Op("g", outputs=("b",)),
    ...     Op("h", inputs=("b",), outputs=("c",)),
    ...     Op("k", inputs=("a", "c")),
    ... )
    >>> graph, pools = Graph("g", tensors, ops), [Pool("fast", 16), Pool("slow")]
    >>> rows = compare_spill_rows(graph, algorithms=["belady"], pools=pools)
    >>> [(row.algorithm, row.moved, row.status) for row in rows]
    [('cpplan', 16, 'optimal'), ('belady', 16, 'optimal')]
    """
    chosen = tuple(heuristics.names() if algorithms is None else algorithms)
    for name in chosen:
        heuristics.get(name)
    rows = []
    with noting_interrupts() as interrupted:
        plan = solve(source, spill=True, time_limit=time_limit, **options)
        runtime = plan.runtime or 0.0
        rows.append(SpillBaseline(SOLVE, plan.moved_bytes, None, runtime, plan.status))
        program = _program(source)
        problem = _problem(program, plan.residency, plan.pools, share=bool(plan.sharing))
        rows += [
            _run_rule(name, program, problem, plan, time_limit)
            for name in chosen
            if not interrupted()
        ]
        rows += [
            _run_placer(name, placer, program, problem, plan)
            for name, placer in (placers or {}).items()
            if not interrupted()
        ]
    bound = plan.moved_bytes_bound
    judged = [_judged(row, bound) for row in rows]
    return sorted(judged, key=lambda row: (row.moved is None, row.moved or 0))


def _judged(row: SpillBaseline, bound: int | None) -> SpillBaseline:
    if row.moved is None or bound is None:
        return row
    meets = row.status == "feasible" and row.moved == bound
    ratio = row.moved / bound if bound else (1.0 if row.moved == 0 else None)
    return replace(row, ratio=ratio, status="optimal" if meets else row.status)


def _run_rule(
    name: str, program: Program, problem: SpillProblem, plan: Plan, time_limit: float
) -> SpillBaseline:
    start = time.perf_counter()
    try:
        kept = heuristics.get(name)(problem, Deadline(time_limit))
    except TimeUpError:
        return SpillBaseline(name, None, None, time.perf_counter() - start, "unknown")
    if kept is None:
        return SpillBaseline(name, None, None, time.perf_counter() - start, "does not fit")
    layout = lay_out(
        program,
        plan.residency,
        problem,
        kept,
        (plan.pools[0], plan.pools[1]),
        make_budget(time_limit),
        share=bool(plan.sharing),
        quick=True,
    )
    moved = int(problem.paid(kept).sum())
    status = "feasible" if layout.fits else "not packed"
    return SpillBaseline(name, moved, None, time.perf_counter() - start, status)


def _run_placer(
    name: str, placer: Placer, program: Program, problem: SpillProblem, plan: Plan
) -> SpillBaseline:
    """The row of a planner that places whole tensors; it packs them itself."""
    start = time.perf_counter()
    fast = placer(program, plan.residency, (plan.pools[0], plan.pools[1]))
    seconds = time.perf_counter() - start
    if fast is None:
        return SpillBaseline(name, None, None, seconds, "does not fit")
    there = np.array([storage in fast for storage in problem.names], bool)
    kept = there[problem.gap_storage] & (problem.gap_fixed != 0)
    # Operands that must be copied to the fast pool have no room beside those that lie there.
    copied = problem.access_near & ~there[problem.access_storage]
    if copied.any() and (problem.load(kept) > problem.capacity).any():
        return SpillBaseline(name, None, None, seconds, "does not fit")
    return SpillBaseline(name, int(problem.paid(kept).sum()), None, seconds, "feasible")


def _program(source: Graph | Program) -> Program:
    program = as_program(source)
    if not isinstance(program, Program):
        raise InputError("spill=True needs a graph: a bare problem has no ops that access tensors")
    return program


def _problem(
    program: Program, residency: Residency, pools: Sequence[Pool], *, share: bool
) -> SpillProblem:
    return spill_problem(program, residency, (pools[0], pools[1]), share=share)


def spill_curve(
    source: Graph | Program,
    *,
    points: int = 8,
    time_limit: float = 60.0,
    pools: Sequence[Pool] | None = None,
    **options: Any,
) -> list[CurvePoint]:
    """Bytes moved at several capacities of the fast pool, each a verified plan.

    Capacities are spread evenly from what the given order needs with nothing moved down to the
    least with which every op can run; to a part of it if ops may access the slow pool directly.

    Parameters
    ----------
    source
        A graph or a program.
    points
        Number of capacities, at least 2.
    time_limit
        Seconds for all of them together.
    pools
        The fast pool, whose capacity is not used, and the slow one; ``sram`` and ``dram`` if left
        out.
    options
        For ``solve``.

    Raises
    ------
    InputError
        If an option is not understood, or there are fewer than two points.

    Examples
    --------
    >>> from cpplan.model.graph import Op, Tensor
    >>> tensors = Tensor("a", 8), Tensor("b", 8), Tensor("c", 8)
    >>> ops = (
    ...     Op("f", outputs=("a",)),
    ...     Op("g", outputs=("b",)),
    ...     Op("h", inputs=("b",), outputs=("c",)),
    ...     Op("k", inputs=("a", "c")),
    ... )
    >>> curve = spill_curve(Graph("g", tensors, ops), points=2)
    >>> [(point.capacity, point.moved_bytes) for point in curve]
    [(24, 0), (16, 16)]
    """
    if not isinstance(points, int) or isinstance(points, bool) or points < 2:
        raise InputError(f"points must be at least 2, not {points!r}")
    regions = check_pools([Pool("sram"), Pool("dram")] if pools is None else pools)
    if len(regions) != 2:
        raise InputError(f"a curve of bytes moved needs a fast and a slow pool, not {len(regions)}")
    program, share = _program(source), bool(options.get("in_place"))
    where = {key: options[key] for key in ("inputs", "outputs", "constants") if key in options}
    residency = choose_residency(**where)
    endless = replace(regions[0], capacity=1 << 60), regions[1]
    problem = _problem(program, residency, endless, share=share)
    most = int(problem.load(problem.all_kept()).max())
    least = max(int(problem.least_load().max()), most // (2 * points))
    plans: list[tuple[int, Plan, SpillProblem]] = []
    with noting_interrupts() as interrupted:
        for k in range(points):
            if plans and interrupted():
                break
            capacity = most - (most - least) * k // (points - 1)
            fast = replace(regions[0], capacity=capacity)
            plan = solve(
                source,
                spill=True,
                pools=[fast, regions[1]],
                time_limit=time_limit / points,
                **options,
            )
            here = _problem(program, residency, (fast, regions[1]), share=share)
            plans.append((capacity, plan, here))
    return _consistent(plans)


def _consistent(plans: Sequence[tuple[int, Plan, SpillProblem]]) -> list[CurvePoint]:
    """Points in which no larger capacity moves more, and no smaller one has a lower bound."""
    bounds: list[int | None] = []
    known = 0
    for _, plan, _ in plans:
        known = max(known, plan.moved_bytes_bound or 0)
        bounds.append(known)
    points: list[CurvePoint] = []
    best: int | None = None
    for (capacity, plan, problem), bound in zip(reversed(plans), reversed(bounds), strict=True):
        moved = plan.moved_bytes
        if moved is None or (best is not None and best < moved):
            moved = best
        best = moved
        status: str = plan.status
        if moved is not None:
            status = "optimal" if moved == bound else "feasible"
        points.append(CurvePoint(capacity, moved, bound, status, _by_rules(problem)))
    return points[::-1]


def _by_rules(problem: SpillProblem) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for name in heuristics.names():
        kept = heuristics.get(name)(problem, Deadline(math.inf))
        fits = kept is not None and bool(np.all(problem.load(kept) <= problem.capacity))
        found[name] = int(problem.paid(kept).sum()) if fits and kept is not None else None
    return found
