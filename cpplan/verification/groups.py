"""Groups of ops that run again together, and a lower bound on the cost of each repetition.

A *group* is an op and the ops that only make views of its results. A program may run the op again
without its views, and its first run may serve only ops that wait for it without reading. A run of a
group is therefore defined as:

* if all ops that wait for the group need some of its views: a run whose result one of these ops, or
  the caller, reads; each such run makes these views too, and their cost is added;
* else: every run of the group's first op.

Groups that begin no storage run once here: running them again frees no bytes. If a storage's
writers do not determine its retentions, it counts only while an op accesses it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from cpplan.model.graph import Graph
from cpplan.model.residency import Residency
from cpplan.program.anf import to_anf
from cpplan.verification.footprint import InBodies
from cpplan.verification.storages import Storages


class Groups:
    """Groups of a graph's ops by their first op, in the order of the graph.

    Parameters
    ----------
    graph, residency
        The graph planned, and the boundary tensors that the arena holds.
    inside
        Bytes that the bodies of each op hold.
    order
        Ops in the order of their first runs, if the bound covers only programs with this order;
        views then cost nothing.

    Attributes
    ----------
    number
        Name of a first op -> its group.
    predecessors
        Groups that each group waits for.
    again
        True for a group that may run more than once.
    cost
        Lower bound on the cost of each further run of a group.
    reads, accesses
        Names of the storages that each group reads, or accesses.
    writers
        Storage -> groups that begin it.
    size
        Storage -> bytes.
    extra
        Bytes live only while each group runs.
    base
        Bytes live throughout.
    brought, kept
        Storages that the caller brings, and storages that are kept to the end.
    rank
        Place of each group's first run in ``order``.
    """

    def __init__(
        self,
        graph: Graph,
        residency: Residency,
        inside: InBodies,
        order: Sequence[str] | None = None,
    ):
        self._graph = graph
        self._op = {op.name: k for k, op in enumerate(graph.ops)}
        self._storages = storages = Storages(graph, residency)
        first_of = _first_ops(graph)
        heads = [k for k, first in enumerate(first_of) if k == first]
        row = {head: group for group, head in enumerate(heads)}
        self._group_of = [row[first] for first in first_of]
        self._heads = heads
        self._members: list[list[int]] = [[] for _ in heads]
        for op, group in enumerate(self._group_of):
            self._members[group].append(op)
        self.number = {graph.ops[head].name: group for head, group in row.items()}
        self.predecessors = [
            sorted({self._group_of[p] for op in ops for p in graph.predecessors[op]} - {group})
            for group, ops in enumerate(self._members)
        ]
        self.size = {
            name: size for name, size in storages.size.items() if size and storages.accessors[name]
        }
        self.brought, self.kept = storages.brought, set(storages.kept)
        self.base = inside.constants + storages.untouched(kept=True)
        self._set_accesses()
        self.extra = [int(inside.most[head]) for head in heads]
        self._set_retentions()
        self._set_costs(views=order is None)
        place: dict[str, int] = {}
        for name in order or ():
            place.setdefault(name, len(place))
        self.rank = [place.get(graph.ops[head].name, 0) for head in heads]

    def __len__(self) -> int:
        return len(self._heads)

    @property
    def unit(self) -> int:
        """Greatest common divisor of the sizes of all storages and of ``extra``, bytes."""
        return math.gcd(*self.size.values(), *self.extra) or 1

    def _set_accesses(self) -> None:
        """Set the storages that groups access, those they begin, and those they read."""
        graph = self._graph
        self.accesses: list[set[str]] = []
        self.reads: list[set[str]] = []
        self.writers: dict[str, list[int]] = {}
        for group, ops in enumerate(self._members):
            first = graph.ops[ops[0]]
            written = {
                graph.root[name][0]
                for op in ops
                for name in graph.ops[op].outputs + graph.ops[op].workspaces
            }
            begun = written - {graph.root[name][0] for name in first.inputs} - self.brought
            begun &= self.size.keys()
            for name in sorted(begun):
                self.writers.setdefault(name, []).append(group)
            accessed = {name for op in ops for name in self._storages.accessed[op]}
            self.accesses.append(accessed & self.size.keys())
            self.reads.append(self.accesses[-1] - begun)

    def _set_retentions(self) -> None:
        """Count a storage only while accessed if its writers do not determine its retentions."""
        unclear = {
            name
            for name in self._storages.again & self.size.keys()
            if name in self.brought or len(self.writers.get(name, ())) > 1
        }
        for group, names in enumerate(self.accesses):
            self.extra[group] += sum(self.size[name] for name in names & unclear)
        for name in unclear:
            self.size[name] = 0

    def _set_costs(self, *, views: bool) -> None:
        """Set which groups may run again, and the least cost of each further run."""
        graph, begins = self._graph, {group for found in self.writers.values() for group in found}
        needed = self._needed()
        self.again: list[bool] = []
        self.cost: list[Fraction] = []
        for group, ops in enumerate(self._members):
            first = graph.ops[ops[0]]
            may = first.recomputable and first.sequence is None
            self.again.append(may and group in begins)
            counted = set(ops)
            if may and group in needed:
                counted = needed[group] if views else {ops[0]}
            self.cost.append(sum((Fraction(graph.ops[op].cost) for op in counted), Fraction(0)))

    def _needed(self) -> dict[int, set[int]]:
        """Group -> its ops that are needed by all ops that wait for it, and by the caller."""
        graph, needed = self._graph, dict[int, set[int]]()
        waiting = [(self._group_of[k], op.inputs, k) for k, op in enumerate(graph.ops)]
        outputs = [(-1, (t.name,), -1) for t in graph.tensors if t.kind == "output"]
        for waiter, names, op in waiting + outputs:
            before = graph.predecessors[op] if op >= 0 else ()
            made = {self._group_of[k]: {self._heads[self._group_of[k]]} for k in before}
            for name in names:
                for k in self._makers(name):
                    made.setdefault(self._group_of[k], set()).add(k)
            for group, ops in made.items():
                if group != waiter:
                    ops.add(self._heads[group])
                    needed[group] = needed.get(group, ops) & ops
        return needed

    def _makers(self, name: str) -> list[int]:
        """The op that makes a tensor; if it makes a view, also the ops that made its sources."""
        graph, found = self._graph, dict[int, None]()
        root = graph.root[name][0]
        source = graph.source(name)
        while source is not None and self._op[source.name] not in found:
            found[self._op[source.name]] = None
            inner = next((n for n in source.inputs if graph.root[n][0] == root), None)
            source = None if inner is None else graph.source(inner)
        return list(found)


def _first_ops(graph: Graph) -> list[int]:
    """For every op, the first op of its group.

    An op joins the group of the op that made its input if it only makes views of that input, reads
    nothing else except constants, and waits for no other op.
    """
    number = {op.name: k for k, op in enumerate(graph.ops)}
    first = list(range(len(graph.ops)))
    for k in to_anf(graph).order:
        op = graph.ops[k]
        if op.workspaces or op.bodies or op.sequence or op.after:
            continue
        read = [n for n in op.inputs if graph.tensor[graph.root[n][0]].kind != "constant"]
        roots = {graph.root[name][0] for name in read}
        if len(roots) == 1 == len(graph.predecessors[k]):
            source = graph.source(read[0])
            if source is not None and {graph.root[name][0] for name in op.outputs} == roots:
                first[k] = first[number[source.name]]
    return first
