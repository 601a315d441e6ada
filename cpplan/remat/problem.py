"""The rematerialization problem: which ops run again, and when, within a memory limit?

A *sequence* lists ops in order of execution, some of them more than once. A reader uses the latest
copy. Running an op again begins new *stays* of what it writes (retention intervals, in MOCCASIN's
words); a stay ends with the last op that reads it. Peak and cost of a sequence follow from that
alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cpplan.aliasing.alias_candidates import find_links
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

    An op here is a *unit*: an op of the graph, followed by those that only show its result under
    another name or shape (views), which run again whenever it does.

    Attributes
    ----------
    graph
        What is computed.
    units
        For every unit, its ops as positions in ``graph.ops``, in order.
    ordering
        The ordering problem of the units: predecessors, storages, sizes.
    reads, writes
        For every unit, the storages it reads and those it begins, ascending.
    cost
        Of running each unit once.
    repeatable
        Whether it may run again, shape ``(units,)``.
    overwrites
        For every unit, the storages it reads whose bytes one of its results may take over, each
        another one's; empty where nothing is done in place.

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

    def expand(self, sequence: Iterable[int]) -> tuple[int, ...]:
        """A sequence of units as positions in ``graph.ops``: the order of a Program."""
        return tuple(op for unit in sequence for op in self.units[unit])

    def total_cost(self, sequence: Iterable[int]) -> int | float:
        """What running a sequence costs."""
        return sum_costs(self.cost[unit] for unit in sequence)

    @cached_property
    def written_in_parts(self) -> frozenset[int]:
        """Storages that several units begin: none runs again, and there is one stay."""
        times = Counter(storage for written in self.writes for storage in written)
        return frozenset(storage for storage, count in times.items() if count > 1)

    @cached_property
    def begun_again(self) -> frozenset[int]:
        """Storages that an op which may run again, by the graph, writes of but does not read.

        A program that runs it again holds them in several stays, also where a sequence of units
        has one: of what is there from the start, and of what several units begin.
        """
        row = {name: k for k, name in enumerate(self.ordering.storages)}
        root, found = self.graph.root, set[str]()
        for op in self.graph.ops:
            if op.recomputable and op.sequence is None:
                written = {root[name][0] for name in op.outputs + op.workspaces}
                found |= written - {root[name][0] for name in op.inputs}
        return frozenset(row[name] for name in found if name in row)

    def stays(self, sequence: Sequence[int]) -> list[tuple[int, int, int]]:
        """Every stay as ``(storage, position, position)``, from the first to before the second.

        A stay that the last unit to read it overwrites ends before that. O(touches).
        """
        ordering, stop = self.ordering, len(sequence)
        began: dict[int, int] = {}
        ended: dict[int, int] = {}
        found: list[tuple[int, int, int]] = []
        for storage in np.flatnonzero(ordering.present).tolist():
            began[storage], ended[storage] = 0, 1
        for position, unit in enumerate(sequence):
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

    def pressure(self, sequence: Sequence[int]) -> Ints:
        """Bytes live at every position of a sequence, shape ``(len(sequence),)``. O(touches)."""
        ordering = self.ordering
        change = np.zeros(len(sequence) + 1, np.int64)
        for storage, begin, end in self.stays(sequence):
            change[begin] += ordering.size[storage]
            change[end] -= ordering.size[storage]
        live: Ints = ordering.base + np.cumsum(change)[:-1]
        live += ordering.extra[np.asarray(sequence, np.int64)]
        live[:1] += ordering.entry
        return live

    def peak(self, sequence: Sequence[int]) -> int:
        """The largest :meth:`pressure`, bytes."""
        return int(self.pressure(sequence).max(initial=self.ordering.base))

    def is_sequence(self, sequence: Iterable[int]) -> bool:
        """Whether every unit runs, after what it waits for, and again only where it may."""
        done: set[int] = set()
        for unit in sequence:
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

    A unit may run again if its op may (``Op.recomputable``, no ``sequence``) and nobody else writes
    what it writes. With ``in_place``, it writes over what it is the last to read, where it may.

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
    unit_of = [number[head] for head in leader]
    plain = order_problem(graph, residency)
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
    ordering = OrderProblem(
        predecessors=predecessors,
        extra=np.array([plain.extra[ops].max(initial=0) for ops in units.values()], np.int64),
        size=plain.size,
        touched_by=tuple(
            tuple(sorted({unit_of[op] for op in touched})) for touched in plain.touched_by
        ),
        present=plain.present,
        kept=plain.kept,
        base=plain.base,
        entry=plain.entry,
        names=tuple(graph.ops[head].name for head in units),
        storages=plain.storages,
    )
    row = {name: k for k, name in enumerate(plain.storages)}
    outside = outside_storages(graph, residency)
    present = set(np.flatnonzero(plain.present).tolist())
    reads, writes, begun_by = [], [], dict[int, set[int]]()
    for unit, ops in enumerate(units.values()):
        inner = {graph.root[n][0] for op in ops for n in graph.ops[op].inputs}
        outer = {
            graph.root[n][0] for op in ops for n in graph.ops[op].outputs + graph.ops[op].workspaces
        }
        first = graph.ops[ops[0]]
        read_first = {graph.root[n][0] for n in first.inputs}
        began = {row[root] for root in outer - read_first if root in row}
        # What is there from the start is one stay: whoever writes a view of it finds it there.
        began -= present
        writes.append(tuple(sorted(began)))
        reads.append(tuple(sorted({row[root] for root in inner | outer if root in row} - began)))
        for root in outer:
            if root in row:
                begun_by.setdefault(row[root], set()).add(unit)
    _check_acyclic(ordering)
    repeatable = [
        all(graph.ops[op].recomputable and graph.ops[op].sequence is None for op in ops)
        and all(begun_by[storage] == {unit} for storage in writes[unit])
        and all(unit not in begun_by.get(storage, ()) for storage in reads[unit])
        and not any(graph.root[n][0] in outside for op in ops for n in graph.ops[op].outputs)
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


def _overwrites(
    graph: Graph,
    residency: Residency,
    units: Iterable[list[int]],
    row: dict[str, int],
    in_place: bool,
) -> tuple[tuple[int, ...], ...]:
    """For every unit, storages whose bytes its results may take over: one for each result."""
    taken: dict[int, dict[str, str]] = {}
    for link in find_links(graph, residency) if in_place else ():
        if not link.in_place:
            continue
        sizes = {graph.tensor[name].nbytes for name in (link.inner, link.outer)}
        pairs = taken.setdefault(link.op, {})
        if len(sizes) == 1 and not link.shift and link.outer not in pairs.values():
            pairs.setdefault(link.inner, link.outer)
    return tuple(
        tuple(sorted(row[outer] for op in ops for outer in taken.get(op, {}).values()))
        for ops in units
    )


def _leaders(graph: Graph) -> list[int]:
    """For every op, the op whose unit it belongs to: itself, or the writer whose result it shows.

    An op joins the unit of the op that wrote what it reads if it writes nothing else than views of
    that, reads nothing else but constants, and waits for nothing else.
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
