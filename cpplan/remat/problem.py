"""The rematerialization problem: a schedule that runs some ops again, within a memory limit.

A *schedule* lists ops in order of execution, some of them more than once. A reader uses the latest
copy. Running an op again begins new *retentions* (retention intervals) of the storages it writes; a
retention ends with the last op that reads it. The retentions determine the peak of a schedule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from cpplan.aliasing.alias_candidates import find_candidates
from cpplan.model.costs import sum_costs
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.model.order_problem import OrderProblem
from cpplan.model.remat_problem import RematProblem
from cpplan.model.residency import Residency
from cpplan.ordering.bounds import topological_order
from cpplan.ordering.problem import order_problem
from cpplan.program.anf import Program, to_anf
from cpplan.program.liveness import outside_storages


def remat_problem(
    source: Graph | Program, residency: Residency | None = None, *, in_place: bool = False
) -> RematProblem:
    """The rematerialization problem of a graph. O(ops + tensors).

    A unit may run again if its ops may (``Op.recomputable``, no ``sequence``), and if every storage
    that it writes begins with it and is written by this unit alone, also outside the arena. With
    ``in_place``, a unit overwrites storages that it reads last, if its op allows that.

    Raises
    ------
    InputError
        If the views of an op's result make a cycle of units.
    """
    residency = residency or Residency()
    graph = source.graph if isinstance(source, Program) else source
    leader = _leaders(graph)
    units: dict[int, list[int]] = {}
    for op, head in enumerate(leader):
        units.setdefault(head, []).append(op)
    number = {head: k for k, head in enumerate(units)}
    plain = order_problem(graph, residency)
    ordering = _of_units(graph, plain, units, [number[head] for head in leader])
    row = {name: k for k, name in enumerate(plain.storages)}
    present = set(np.flatnonzero(plain.present).tolist())
    reads, writes, writers = _accesses(graph, units.values(), row, present)
    _check_acyclic(ordering)
    once = _written_once_outside(graph, residency, units.values())
    repeatable = [
        all(graph.ops[op].recomputable and graph.ops[op].sequence is None for op in ops)
        and all(writers[storage] == {unit} for storage in writes[unit])
        and all(unit not in writers.get(storage, ()) for storage in reads[unit])
        and unit not in once
        for unit, ops in enumerate(units.values())
    ]
    return RematProblem(
        graph=graph,
        units=tuple(map(tuple, units.values())),
        ordering=ordering,
        reads=tuple(reads),
        writes=tuple(writes),
        cost=tuple(sum_costs(graph.ops[op].cost for op in ops) for ops in units.values()),
        repeatable=np.array(repeatable, bool),
        overwrites=_overwrites(graph, residency, units.values(), row, in_place),
    )


def _of_units(
    graph: Graph, plain: OrderProblem, units: Mapping[int, list[int]], unit_of: Sequence[int]
) -> OrderProblem:
    """The problem of ordering units, each by its first op, instead of ops."""
    predecessors = tuple(
        tuple(
            dict.fromkeys(
                unit_of[before]
                for op in ops
                for before in graph.predecessors[op]
                if unit_of[before] != unit
            )
        )
        for unit, ops in enumerate(units.values())
    )
    return OrderProblem(
        predecessors=predecessors,
        extra=np.array([plain.extra[ops].max(initial=0) for ops in units.values()], np.int64),
        size=plain.size,
        accessed_by=tuple(
            tuple(sorted({unit_of[op] for op in accessed})) for accessed in plain.accessed_by
        ),
        present=plain.present,
        kept=plain.kept,
        base=plain.base,
        entry=plain.entry,
        names=tuple(graph.ops[head].name for head in units),
        storages=plain.storages,
    )


def _accesses(
    graph: Graph, units: Iterable[list[int]], row: Mapping[str, int], present: set[int]
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]], dict[int, set[int]]]:
    """Storages that each unit reads and begins, and the units that write each storage."""
    reads, writes, writers = [], [], dict[int, set[int]]()
    for unit, ops in enumerate(units):
        inner = {graph.root[n][0] for op in ops for n in graph.ops[op].inputs}
        outer = {
            graph.root[n][0] for op in ops for n in graph.ops[op].outputs + graph.ops[op].workspaces
        }
        first = graph.ops[ops[0]]
        read_first = {graph.root[n][0] for n in first.inputs}
        began = {row[root] for root in outer - read_first if root in row}
        # A storage from the start has one retention, also if a unit writes a view of it.
        began -= present
        writes.append(tuple(sorted(began)))
        reads.append(tuple(sorted({row[root] for root in inner | outer if root in row} - began)))
        for root in outer:
            if root in row:
                writers.setdefault(row[root], set()).add(unit)
    return reads, writes, writers


def _written_once_outside(
    graph: Graph, residency: Residency, units: Iterable[list[int]]
) -> set[int]:
    """Units that write a storage outside the arena over other bytes, so that they run once.

    The storage is there from the start, or another unit writes it too. What one unit alone writes
    outside, it writes again with the same bytes.
    """
    outside = outside_storages(graph, residency)
    there = {t.name for t in graph.tensors if t.kind in ("input", "constant")}
    writers: dict[str, set[int]] = {}
    for unit, ops in enumerate(units):
        for root in {graph.root[n][0] for op in ops for n in graph.ops[op].outputs} & outside:
            writers.setdefault(root, set()).add(unit)
    shared = (found for root, found in writers.items() if len(found) > 1 or root in there)
    return set().union(*shared)


def _overwrites(
    graph: Graph,
    residency: Residency,
    units: Iterable[list[int]],
    row: dict[str, int],
    in_place: bool,
) -> tuple[tuple[int, ...], ...]:
    """For every unit, the storages that its results may overwrite, at most one for each result."""
    taken: dict[int, dict[str, str]] = {}
    for candidate in find_candidates(graph, residency) if in_place else ():
        if not candidate.in_place:
            continue
        sizes = {graph.tensor[name].nbytes for name in (candidate.inner, candidate.outer)}
        pairs = taken.setdefault(candidate.op, {})
        if len(sizes) == 1 and not candidate.shift and candidate.outer not in pairs.values():
            pairs.setdefault(candidate.inner, candidate.outer)
    return tuple(
        tuple(sorted(row[outer] for op in ops for outer in taken.get(op, {}).values()))
        for ops in units
    )


def _leaders(graph: Graph) -> list[int]:
    """The first op of the unit of every op.

    An op joins the unit of the op that wrote its input if it writes only views of that input, reads
    no other tensors but constants, and waits for no other op.
    """
    position = {op.name: k for k, op in enumerate(graph.ops)}
    leader = list(range(len(graph.ops)))
    for k in to_anf(graph).order:
        op = graph.ops[k]
        sources = [n for n in op.inputs if graph.tensor[graph.root[n][0]].kind != "constant"]
        roots = {graph.root[n][0] for n in sources}
        shown = {graph.root[n][0] for n in op.outputs}
        plain = not (op.workspaces or op.bodies or op.sequence or op.after)
        if plain and len(roots) == 1 and shown == roots and len(graph.predecessors[k]) == 1:
            writer = graph.source(sources[0])
            if writer is not None:
                leader[k] = leader[position[writer.name]]
    return leader


def _check_acyclic(ordering: OrderProblem) -> None:
    if len(topological_order(ordering)) < len(ordering):
        raise InputError("views and control edges make a cycle of ops that run together")
