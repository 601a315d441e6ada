"""Comparison of eviction rules with ``solve``, by bytes moved or by time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from cpplan.comparison import SOLVE
from cpplan.comparison.in_turn import rows_in_turn
from cpplan.comparison.remat_comparison import LEAST_PACKING
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.model.plan import Plan
from cpplan.model.pool import Pool
from cpplan.model.problem import Ints
from cpplan.model.registry import chosen_names
from cpplan.model.residency import Residency
from cpplan.model.spill_problem import Flags
from cpplan.packing.problem import as_program
from cpplan.program.anf import Program
from cpplan.runtime.budget import Budget, make_budget
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.runtime.interrupts import noting_interrupts
from cpplan.solving.pipeline import solve
from cpplan.spilling import heuristics
from cpplan.spilling.packed import Layout, lay_out
from cpplan.spilling.problem import spill_problem
from cpplan.spilling.search.addresses import AddressSearch

# Least share of a row's time for an eviction rule, however long its packing takes.
_LEAST_RULE_SHARE = 0.5

Placer = Callable[[Program, Residency, tuple[Pool, Pool]], set[str] | None]


@dataclass(frozen=True, slots=True)
class SpillBaseline:
    """One row of a comparison of bytes moved.

    Attributes
    ----------
    algorithm
        Name of the eviction rule, or ``"cpplan"`` for ``solve``.
    moved
        Bytes moved by a packed plan, or ``None`` if no plan that fits was found. If a rule's live
        bytes fit at every step but no offsets are found, buffers in the way of the next one are
        evicted too.
    ratio
        ``moved`` divided by its bound, or ``time`` by its bound; ``None`` if there is no bound.
    seconds
        Seconds by the clock.
    status
        ``solve``'s status. A rule is ``optimal`` if it meets the bound, else ``feasible``;
        ``not packed`` if no offsets were found; ``does not fit`` if an op has no room; ``unknown``
        if it did not finish in time.
    unpacked
        Bytes moved by a rule's own evictions, before packing.
    time
        Cycles of ops and moves, if time is minimised; in a rule's row no copy runs beside an op.
    """

    algorithm: str
    moved: int | None
    ratio: float | None
    seconds: float
    status: str
    unpacked: int | None = None
    time: int | float | None = None


def compare_spill_rows(
    source: Graph | Program,
    *,
    algorithms: Iterable[str] | None = None,
    placers: Mapping[str, Placer] | None = None,
    time_limit: float = 10.0,
    **options: Any,
) -> list[SpillBaseline]:
    """One row for each eviction rule and one for ``solve``, the fewest bytes moved first.

    With the objective ``"time"``, the least time first: rules then count cycles.

    Parameters
    ----------
    source
        A graph or a program.
    algorithms
        Names of eviction rules; all registered ones if left out.
    placers
        Name -> another planner, which keeps each tensor in one pool: it returns the names of the
        buffers in the fast pool, or ``None`` if they do not fit.
    time_limit
        Seconds for each row.
    options
        Options of ``solve``: ``pools`` and others. Rules keep the given order.

    Raises
    ------
    InputError
        If a rule is not known, or an option is not understood.
    """
    chosen = chosen_names(heuristics, algorithms)
    rows = []
    with noting_interrupts() as interrupted:
        plan = solve(source, spill=True, time_limit=time_limit, **options)
        runtime = plan.runtime or 0.0
        ours = SpillBaseline(SOLVE, plan.moved_bytes, None, runtime, plan.status, time=plan.time)
        rows.append(ours)
        judge = _Judge(ordered_program(source), plan)
        others: dict[str, Callable[[], SpillBaseline]] = {
            name: partial(_run_rule, name, judge, time_limit) for name in chosen
        }
        for name, placer in (placers or {}).items():
            others[name] = partial(_run_placer, name, placer, judge)
        progress = options.get("progress")
        rows += rows_in_turn(list(others), lambda name: others[name](), interrupted, progress)
    return sorted(map(judge.rated, rows), key=judge.rank)


class _Judge:
    """Bytes and cycles of choices of gaps, beside a plan of ``solve`` and its bound.

    Parameters
    ----------
    program
        The model in its given order.
    plan
        Plan of ``solve``.
    """

    def __init__(self, program: Program, plan: Plan):
        self.program, self.residency, self.share = program, plan.residency, bool(plan.sharing)
        self.pools = plan.pools[0], plan.pools[1]
        self.timed = plan.time_bound is not None
        self.bound = plan.time_bound if self.timed else plan.moved_bytes_bound
        self.bytes = spill_problem(program, self.residency, self.pools, share=self.share)
        # Most seconds that a layout has taken.
        self.layout_seconds = 0.0
        # Problem and costs by which the rules choose.
        self.problem = self.bytes
        if self.timed:
            self.problem = spill_problem(
                program, self.residency, self.pools, share=self.share, time=True
            )

    def row(
        self, name: str, kept: Flags, seconds: float, status: str, unpacked: int | None = None
    ) -> SpillBaseline:
        """The row of a packed choice."""
        cycles = self.program.cost + int(self.problem.paid(kept).sum()) if self.timed else None
        return SpillBaseline(name, self.moved(kept), None, seconds, status, unpacked, cycles)

    def lay_out(self, kept: Flags, budget: Budget, places: Ints | None = None) -> Layout:
        """The packing of a choice by heuristics, or at given places."""
        start = time.perf_counter()
        layout = lay_out(
            self.program, self.residency, self.problem, kept, self.pools, budget,
            share=self.share, quick=True, places=places,
        )  # fmt: skip
        self.layout_seconds = max(self.layout_seconds, time.perf_counter() - start)
        return layout

    def moved(self, kept: Flags) -> int:
        """Bytes moved by a choice."""
        return int(self.bytes.paid(kept).sum())

    def value(self, row: SpillBaseline) -> int | float | None:
        """Minimised value of a row: its cycles, or its bytes moved."""
        return row.time if self.timed else row.moved

    def rated(self, row: SpillBaseline) -> SpillBaseline:
        """The row with its ratio to the bound; a rule that meets it is optimal."""
        value, bound = self.value(row), self.bound
        if value is None or bound is None:
            return row
        meets = row.status == "feasible" and value == bound
        ratio = value / bound if bound else (1.0 if value == 0 else None)
        return replace(row, ratio=ratio, status="optimal" if meets else row.status)

    def rank(self, row: SpillBaseline) -> tuple[bool, int | float]:
        """Key by which rows are sorted, the best first."""
        value = self.value(row)
        return value is None, 0 if value is None else value


def _run_rule(name: str, judge: _Judge, time_limit: float) -> SpillBaseline:
    """The row of an eviction rule; if its buffers cannot be packed, more of them are evicted.

    What the rule chooses is laid out once, however little time is left. The rule leaves as much
    time as the longest layout of the rows before took, but at most half of its own.
    """
    start, problem, deadline = time.perf_counter(), judge.problem, Deadline(time_limit)

    def failed(status: str, unpacked: int | None = None) -> SpillBaseline:
        return SpillBaseline(name, None, None, time.perf_counter() - start, status, unpacked)

    try:
        least = _LEAST_RULE_SHARE * time_limit
        seconds = max(time_limit - judge.layout_seconds, least)
        kept = heuristics.get(name)(problem, Deadline(seconds))
    except TimeUpError:
        return failed("unknown")
    if kept is None:
        return failed("does not fit")
    unpacked = judge.moved(kept)
    budget = make_budget(max(deadline.remaining(), LEAST_PACKING))
    layout = judge.lay_out(kept, budget)
    if not layout.fits and deadline.remaining() > judge.layout_seconds:
        search = AddressSearch(problem, judge.pools[0].capacity or 0)
        placed = search.place_best([kept], deadline)
        if placed is None:
            return failed("not packed", unpacked)
        kept = placed.kept
        layout = judge.lay_out(kept, budget, placed.places)
    if not layout.fits:
        return failed("not packed", unpacked)
    return judge.row(name, kept, time.perf_counter() - start, "feasible", unpacked)


def _run_placer(name: str, placer: Placer, judge: _Judge) -> SpillBaseline:
    """The row of a planner that places whole tensors; it packs them itself."""
    start, problem = time.perf_counter(), judge.problem
    fast = placer(judge.program, judge.residency, judge.pools)
    seconds = time.perf_counter() - start
    if fast is None:
        return SpillBaseline(name, None, None, seconds, "does not fit")
    there = np.array([storage in fast for storage in problem.names], bool)
    there |= ~problem.movable
    kept = there[problem.gap_storage] & (problem.gap_fixed != 0)
    # Operands that must be copied to the fast pool do not fit beside the buffers that lie there.
    copied = problem.access_near & ~there[problem.access_storage]
    if copied.any() and (problem.load(kept) > problem.capacity).any():
        return SpillBaseline(name, None, None, seconds, "does not fit")
    return judge.row(name, kept, seconds, "feasible")


def ordered_program(source: Graph | Program) -> Program:
    """The source as a program; raise ``InputError`` if it is a bare problem."""
    program = as_program(source)
    if not isinstance(program, Program):
        raise InputError("spill=True needs a graph: a bare problem has no ops that access tensors")
    return program
