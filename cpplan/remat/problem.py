"""The rematerialization problem: a schedule that runs some ops again, within a memory limit.

A *schedule* lists ops in order of execution, some of them more than once. A reader uses the latest
copy. Running an op again begins new *retentions* (retention intervals) of the storages it writes; a
retention ends with the last op that reads it. The retentions determine the peak of a schedule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cpplan.aliasing.alias_candidates import find_candidates
from cpplan.model.costs import sum_costs
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph
from cpplan.model.problem import Ints
from cpplan.model.residency import Residency
from cpplan.ordering.bounds import topological_order
from cpplan.ordering.problem import OrderProblem, order_problem
from cpplan.program.anf import Program, to_anf
from cpplan.program.liveness import outside_storages


@dataclass(frozen=True, eq=False)
class RematProblem:
    """Ops that may run again, what they read and write, and what they cost.

    Ops are grouped in *units*: a unit is an op of the graph, followed by the ops that only make
    views of its result. These run again whenever the first op does.

    Attributes
    ----------
    graph
        The graph.
    units
        For every unit, its ops as positions in ``graph.ops``, in order.
    ordering
        The ordering problem of the units: predecessors, storages, sizes.
    reads, writes
        For every unit, the storages it reads and those it begins, ascending.
    cost
        Cost of running each unit once.
    repeatable
        True for a unit that may run again, shape ``(units,)``.
    overwrites
        For every unit, the storages it reads and may overwrite in place, each by a different
        result; empty if no aliases in place are used.

    Examples
    --------
    >>> from cpplan.model.graph import Op, Tensor
    >>> tensors = Tensor("x", 1, kind="input"), Tensor("a", 8), Tensor("b", 8)
    >>> tensors += (Tensor("y", 1, kind="output"),)
    >>> ops = (
    ...     Op("f", inputs=("x",), outputs=("a",)),
    ...     Op("g", inputs=("a",), outputs=("b",)),
    ...     Op("h", inputs=("a", "b"), outputs=("y",)),
    ... )
    >>> problem = remat_problem(Graph("g", tensors, ops), Residency(inputs="keep"))
    >>> problem.pressure([0, 1, 2]).tolist(), problem.pressure([0, 1, 0, 2]).tolist()
    ([9, 17, 18], [9, 17, 17, 18])
    """

    graph: Graph
    units: tuple[tuple[int, ...], ...]
    ordering: OrderProblem
    reads: tuple[tuple[int, ...], ...]
    writes: tuple[tuple[int, ...], ...]
    cost: tuple[int | float, ...]
    repeatable: np.ndarray
    overwrites: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.units)

    def expand(
        self, schedule: Iterable[int], given: Sequence[int] | None = None
    ) -> tuple[int, ...]:
        """Order of a Program, as positions in ``graph.ops``, for a schedule of units.

        With a ``given`` order, that of the first runs of the units, ops first run in that order:
        those that only make views wait for their turn.
        """
        if given is None:
            return tuple(op for unit in schedule for op in self.units[unit])
        heads = {ops[0] for ops in self.units}
        order: list[int] = []
        begun = 0  # ops of the given order that have run
        done: set[int] = set()
        for unit in schedule:
            head = self.units[unit][0]
            if head in done:
                order += [op for op in self.units[unit] if op in done]
                continue
            stop = given.index(head, begun) + 1
            while stop < len(given) and given[stop] not in heads:
                stop += 1
            order += given[begun:stop]
            done.update(given[begun:stop])
            begun = stop
        return tuple(order)

    def total_cost(self, schedule: Iterable[int]) -> int | float:
        """Cost of running a schedule."""
        return sum_costs(self.cost[unit] for unit in schedule)

    @cached_property
    def written_in_parts(self) -> frozenset[int]:
        """Storages begun by several units; these units run once, so there is one retention."""
        times = Counter(storage for written in self.writes for storage in written)
        return frozenset(storage for storage, count in times.items() if count > 1)

    @cached_property
    def begun_again(self) -> frozenset[int]:
        """Storages written, but not read, by some op that the graph allows to run again.

        A program that runs such an op again holds these storages in several retentions. A schedule
        of units has one retention of a storage from the start or begun by several units.
        """
        row = {name: k for k, name in enumerate(self.ordering.storages)}
        root, found = self.graph.root, set[str]()
        for op in self.graph.ops:
            if op.recomputable and op.sequence is None:
                written = {root[name][0] for name in op.outputs + op.workspaces}
                found |= written - {root[name][0] for name in op.inputs}
        return frozenset(row[name] for name in found if name in row)

    def retentions(self, schedule: Sequence[int]) -> list[tuple[int, int, int]]:
        """Retentions as ``(storage, begin, end)``, half-open ranges of positions. O(accesses).

        A retention that its last reader overwrites in place ends before that reader.
        """
        ordering, stop = self.ordering, len(schedule)
        began: dict[int, int] = {}
        ended: dict[int, int] = {}
        found: list[tuple[int, int, int]] = []
        for storage in np.flatnonzero(ordering.present).tolist():
            began[storage], ended[storage] = 0, 1
        for position, unit in enumerate(schedule):
            for storage in self.reads[unit]:
                ended[storage] = position + (storage not in self.overwrites[unit])
            for storage in self.writes[unit]:
                if storage in began and storage not in self.written_in_parts:
                    found.append((storage, began.pop(storage), ended[storage]))
                began.setdefault(storage, position)
                ended[storage] = position + 1
        for storage, first in began.items():
            found.append((storage, first, stop if ordering.kept[storage] else ended[storage]))
        return found

    def pressure(self, schedule: Sequence[int]) -> Ints:
        """Bytes live at every position of a schedule, shape ``(len(schedule),)``. O(accesses)."""
        ordering = self.ordering
        change = np.zeros(len(schedule) + 1, np.int64)
        for storage, begin, end in self.retentions(schedule):
            change[begin] += ordering.size[storage]
            change[end] -= ordering.size[storage]
        live: Ints = ordering.base + np.cumsum(change)[:-1]
        live += ordering.extra[np.asarray(schedule, np.int64)]
        live[:1] += ordering.entry
        return live

    def peak(self, schedule: Sequence[int]) -> int:
        """The largest :meth:`pressure` of a schedule, bytes."""
        return int(self.pressure(schedule).max(initial=self.ordering.base))

    def is_schedule(self, schedule: Iterable[int]) -> bool:
        """True if every unit runs, after its predecessors, and only repeatable units run again."""
        done: set[int] = set()
        for unit in schedule:
            if not done.issuperset(self.ordering.predecessors[unit]):
                return False
            if unit in done and not self.repeatable[unit]:
                return False
            done.add(unit)
        return len(done) == len(self)


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
