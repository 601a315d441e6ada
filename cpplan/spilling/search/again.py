"""Schedules whose ops run again where that takes less time than moving their results.

A schedule is an order of ops with repetitions. Its moves are planned in its graph of runs, where
every run is an op and every copy a tensor. Two kinds of change are tried on the best schedule:

* a tensor that is reloaded is computed again right before its reader, together with those of its
  inputs that are cheaper to compute again than to reload;
* a repeated run is left out if moving its results seems cheaper.

First all promising changes are made at once, then the best half of them, and so on, until a change
saves time by the estimate of two eviction rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.model.pool import Pool
from cpplan.model.residency import Residency
from cpplan.model.spill_problem import Flags, SpillProblem
from cpplan.program.anf import Program
from cpplan.program.runs_graph import RunsGraph, graph_of_runs
from cpplan.program.timeline import least_time
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.spilling import heuristics
from cpplan.spilling.outcome import find_shortfall
from cpplan.spilling.problem import spill_problem

# Most ops in a row that may run again for one tensor instead of a reload.
_LONGEST_AGAIN = 12

NAME = "recomputing instead of reloading"
_RULES = ("cost per byte and step", "cheapest first")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A schedule with moves by eviction rules, and the time that ops and moves take."""

    schedule: tuple[str, ...]
    runs: RunsGraph
    problem: SpillProblem
    kept: Flags
    time: float


class Schedules:
    """Estimates of the schedules of one model, and changes that improve them.

    Parameters
    ----------
    graph, residency, pools, share
        As in :func:`~cpplan.spilling.solve.spill`.
    """

    def __init__(
        self, graph: Graph, residency: Residency, pools: tuple[Pool, Pool], *, share: bool
    ):
        self.graph, self.residency, self.pools, self.share = graph, residency, pools, share
        self.writer = {name: op for op in graph.ops for name in op.outputs}
        kinds = {tensor.name: tensor.kind for tensor in graph.tensors}
        self.may = {
            op.name
            for op in graph.ops
            if op.recomputable and op.sequence is None and not op.bodies
            if all(kinds[name] != "output" for name in op.outputs)
        }

    def runs(self, schedule: Sequence[str]) -> RunsGraph:
        """The graph of runs of a schedule."""
        return graph_of_runs(self.graph, schedule)

    def estimate(self, schedule: Sequence[str], deadline: Deadline) -> Estimate | None:
        """Estimate of a schedule by two eviction rules; ``None`` if an op does not fit."""
        runs = self.runs(schedule)
        program = Program(runs.graph, tuple(range(len(runs.graph.ops))))
        problem = spill_problem(program, self.residency, self.pools, share=self.share, time=True)
        if find_shortfall(problem) is not None:
            return None
        found = [heuristics.get(name)(problem, deadline) for name in _RULES]
        choices = [kept for kept in found if kept is not None]
        if not choices:
            return None
        kept = min(choices, key=lambda kept: int(problem.paid(kept).sum()))
        return self.known(schedule, runs, problem, kept)

    def known(
        self, schedule: Sequence[str], runs: RunsGraph, problem: SpillProblem, kept: Flags
    ) -> Estimate:
        """Estimate of a schedule with these gaps kept."""
        cost = sum(op.cost for op in runs.graph.ops)
        time = least_time(cost, int(problem.paid(kept).sum()), self.pools[1])
        return Estimate(tuple(schedule), runs, problem, kept, float(time))

    def changed(self, known: Estimate) -> Iterator[tuple[str, ...]]:
        """Schedules after one promising change: a repeated run left out, or a reload replaced."""
        for change in (*self._removals(known), *self._insertions(known)):
            yield _with_changes(known.schedule, [change])

    def climb(self, best: Estimate, deadline: Deadline) -> Estimate:
        """Best estimate reached by changing reloads and repeated runs."""
        with suppress(TimeUpError):
            better: Estimate | None = best
            while better is not None:
                best = better
                better = self._better(best, deadline)
        return best

    def _better(self, known: Estimate, deadline: Deadline) -> Estimate | None:
        for changes in (self._insertions(known), self._removals(known)):
            groups = [changes[: len(changes) >> k] for k in range(len(changes).bit_length())]
            # First the most promising changes together, then the others one by one.
            for group in (*groups, *([change] for change in changes[1:])):
                found = self._changed(known, group, deadline)
                if found is not None and found.time < known.time:
                    return found
        return None

    def _changed(
        self, known: Estimate, changes: Sequence[tuple[int, tuple[str, ...]]], deadline: Deadline
    ) -> Estimate | None:
        """Estimate after some changes, or ``None`` if the schedule is then invalid."""
        deadline.check()
        try:
            return self.estimate(_with_changes(known.schedule, changes), deadline)
        except InputError:
            return None

    def _removals(self, known: Estimate) -> list[tuple[int, tuple[str, ...]]]:
        """Repeated runs that cost more than moving their results out and back, dearest first."""
        problem, origin = known.problem, known.runs.origin
        rows = zip(problem.names, (problem.spill_cost + problem.reload_cost).tolist(), strict=True)
        moves = {origin[name]: cost for name, cost in rows}
        seen: set[str] = set()
        found = []
        for step, name in enumerate(known.schedule):
            if name in seen:
                op = self.graph.op[name]
                roots = {self.graph.root[output][0] for output in op.outputs}
                saved = op.cost - sum(moves.get(root, 0) for root in roots)
                if saved > 0:
                    found.append((saved, step))
            seen.add(name)
        found.sort(key=lambda change: (-change[0], change[1]))
        return [(step, ()) for _, step in found]

    def _insertions(self, known: Estimate) -> list[tuple[int, tuple[str, ...]]]:
        """Ops to insert before a step instead of a reload, the largest estimated saving first."""
        problem, kept, origin = known.problem, known.kept, known.runs.origin
        accessed = problem.near(kept)
        there = _resident(problem, kept)
        reloads = [
            (int(problem.access_storage[after]), int(problem.access_step[after]))
            for gap, after in enumerate(problem.gap_after.tolist())
            if after >= 0 and not kept[gap] and accessed[after]
        ]
        count = np.bincount([s for s, _ in reloads] or [0], minlength=len(problem.names))
        reload = {
            origin[name]: cost
            for name, cost in zip(problem.names, problem.reload_cost.tolist(), strict=True)
        }
        found = []
        for storage, step in reloads:
            if not problem.written[storage]:
                continue
            root = origin[problem.names[storage]]
            reader = self.graph.op[known.schedule[step]]
            near = {origin[problem.names[one]] for one in there[step]} - {root}
            chain = _Chain(self, near, reload)
            names = [name for name in reader.inputs if self.graph.root[name][0] == root]
            cost = sum(chain.needs(name) for name in names)
            spilled = int(problem.spill_cost[storage]) / int(count[storage])
            saved = int(problem.reload_cost[storage]) + spilled
            if cost < saved and chain.ops:
                found.append((saved - cost, step, tuple(chain.ops)))
        found.sort(key=lambda change: (-change[0], change[1]))
        return [(step, ops) for _, step, ops in found]


def _with_changes(
    schedule: Sequence[str], changes: Sequence[tuple[int, tuple[str, ...]]]
) -> tuple[str, ...]:
    """A schedule after some changes.

    A change inserts ops before a step or, if it has no ops, leaves the step out.
    """
    before: dict[int, dict[str, None]] = {}
    left_out = {step for step, ops in changes if not ops}
    for step, ops in changes:
        before.setdefault(step, {}).update(dict.fromkeys(ops))
    changed: list[str] = []
    for step, name in enumerate(schedule):
        changed += before.get(step, ())
        if step not in left_out:
            changed.append(name)
    return tuple(changed)


class _Chain:
    """Ops that compute a tensor again, given the storages that lie in the fast pool.

    Parameters
    ----------
    schedules
        Schedules of the model.
    near
        Storages in the fast pool.
    reload
        Storage that may move -> cycles of reloading it.
    """

    def __init__(self, schedules: Schedules, near: set[str], reload: dict[str, int]):
        self.schedules, self.near, self.reload = schedules, near, reload
        self.ops: dict[str, None] = {}

    def needs(self, name: str, depth: int = 0) -> float:
        """Cycles of computing a tensor again, with its inputs; infinite if that is not allowed.

        Inputs in the fast pool cost nothing. Each other input is reloaded, or computed again if
        that is cheaper.
        """
        graph, op = self.schedules.graph, self.schedules.writer.get(name)
        if op is None or op.name not in self.schedules.may or depth > _LONGEST_AGAIN:
            return math.inf
        if op.name in self.ops:
            return 0.0
        cost, root = float(op.cost), graph.root[name][0]
        for source in op.inputs:
            other = graph.root[source][0]
            if other == root:
                cost += self.needs(source, depth + 1)
            elif other in self.reload and other not in self.near:
                before = dict(self.ops)
                again = self.needs(source, depth + 1)
                if again >= self.reload[other]:
                    again, self.ops = self.reload[other], before
                cost += again
        self.ops[op.name] = None
        return cost


def _resident(problem: SpillProblem, kept: Flags) -> list[set[int]]:
    """Storages in the fast pool at each step: kept through a gap, or accessed there."""
    found: list[set[int]] = [set() for _ in range(problem.steps)]
    for gap in np.flatnonzero(kept).tolist():
        for step in range(int(problem.gap_lower[gap]), int(problem.gap_upper[gap])):
            found[step].add(int(problem.gap_storage[gap]))
    for access in np.flatnonzero(problem.near(kept)).tolist():
        found[int(problem.access_step[access])].add(int(problem.access_storage[access]))
    return found
