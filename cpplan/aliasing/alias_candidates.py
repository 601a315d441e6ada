"""Alias candidates of a graph: storages that may share bytes, their distance and the op."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import get_args

import numpy as np

from cpplan.aliasing.candidates import candidate_relations
from cpplan.model.graph import Graph, Op, Tensor
from cpplan.model.plan_data import Relation, RelationKind
from cpplan.model.residency import Residency
from cpplan.program.liveness import outside_storages


@dataclass(frozen=True, slots=True)
class AliasCandidate:
    """An alias candidate: two storages that may share bytes because of one op.

    Attributes
    ----------
    relation
        The relation listed in a plan that uses the candidate.
    op
        Position of the op in ``graph.ops``.
    inner, outer
        The storages of the relation's ``tensor`` and ``other``.
    shift
        Address of ``inner`` less the address of ``outer``, bytes.
    begin, end
        The bytes shared, counted from the start of ``outer``.
    """

    relation: Relation
    op: int
    inner: str
    outer: str
    shift: int
    begin: int
    end: int

    @property
    def in_place(self) -> bool:
        """True if the op writes one storage over the other."""
        return self.relation.kind == "in place"

    def overlaps_itself(self, distance: int) -> bool:
        """True if the op would copy between byte ranges that overlap without being the same.

        ``distance`` is the address of ``inner`` less the address of ``outer``, bytes.
        """
        return not self.in_place and 0 < abs(distance - self.shift) < self.end - self.begin


def find_candidates(
    graph: Graph,
    residency: Residency,
    kinds: Collection[RelationKind] = get_args(RelationKind),
    poll: Callable[[], object] = lambda: None,
) -> tuple[AliasCandidate, ...]:
    """All alias candidates of these kinds in the arena, op by op. O(ops + tensors).

    ``poll`` is called for every op that may share bytes, and may raise.

    Candidates that no plan can use are left out. They are between storages outside the arena,
    constants, storages that several ops write into (no single op decides their bytes) or tensors
    that share a storage already; or they come from ops with bodies, or from relations that do not
    hold for another output over the same bytes
    (:func:`~cpplan.aliasing.candidates.candidate_relations`).
    """
    # Many stages ask for the candidates; they are cached because a graph never changes.
    known = vars(graph).setdefault("_alias_candidates", {})
    if residency not in known:
        known[residency] = tuple(_candidates(graph, _barred(graph, residency), poll))
    return tuple(candidate for candidate in known[residency] if candidate.relation.kind in kinds)


def has_candidates(graph: Graph, residency: Residency, kinds: Collection[RelationKind]) -> bool:
    """True if :func:`find_candidates` finds any; only the first is looked for."""
    if not any(op.in_place or op.placements for op in graph.ops):
        return False
    known = vars(graph).get("_alias_candidates", {}).get(residency)
    found = _candidates(graph, _barred(graph, residency)) if known is None else known
    return any(candidate.relation.kind in kinds for candidate in found)


def _barred(graph: Graph, residency: Residency) -> set[str]:
    """Storages that share no bytes."""
    columns = graph.columns
    never = np.flatnonzero(columns.are({"constant", "workspace"})).tolist()
    barred = outside_storages(graph, residency) | _not_written_once(graph)
    return barred | {columns.names[k] for k in never}


def _candidates(
    graph: Graph, barred: Collection[str], poll: Callable[[], object] = lambda: None
) -> Iterator[AliasCandidate]:
    columns = graph.columns
    alone = np.bincount(columns.root, minlength=len(columns.names)) == 1
    sizes, number = columns.size.tolist(), columns.number
    # Ops that access a storage that holds several tensors.
    nested = np.zeros(len(graph.ops), np.bool_)
    for accessed in (columns.read, columns.outputs):
        nested[accessed.owner[~alone[accessed.item]]] = True
    for k, op in enumerate(graph.ops):
        if op.bodies or not (op.in_place or op.placements):
            continue
        poll()
        if op.placements or nested[k]:
            yield from _candidates_of(graph, k, barred)
            continue
        # Every tensor is a storage: nothing else that the op accesses lies in it.
        for output, source in dict.fromkeys(op.in_place):
            size = sizes[number[output]]
            if size and output not in barred and source not in barred:
                relation = Relation("in place", output, source)
                yield AliasCandidate(relation, k, output, source, 0, 0, size)


def _candidates_of(graph: Graph, number: int, barred: Collection[str]) -> Iterator[AliasCandidate]:
    for relation in candidate_relations(graph, graph.ops[number]):
        (inner, within), (outer, start) = graph.root[relation.tensor], graph.root[relation.other]
        size = graph.tensor[relation.tensor].nbytes
        if inner == outer or inner in barred or outer in barred or size == 0:
            continue
        begin = start + relation.offset
        yield AliasCandidate(relation, number, inner, outer, begin - within, begin, begin + size)


def _not_written_once(graph: Graph) -> set[str]:
    """Storages whose bytes are not all written by one op, or all brought by the caller."""
    ops: Iterable[Op] = graph.ops
    if not any(op.bodies for op in graph.ops):
        # A storage of one tensor is written by the op that makes it, and by no other; an op that
        # only reads writes nothing.
        columns = graph.columns
        several = np.bincount(columns.root, minlength=len(columns.names)) > 1
        several = several[columns.root]
        asked = np.unique(columns.written.owner[several[columns.written.item]])
        ops = [graph.ops[k] for k in asked.tolist()]
    writers: dict[str, int] = defaultdict(int)
    barred = set()
    for op in ops:
        read = defaultdict(list)
        for name in op.inputs:
            root, begin = graph.root[name]
            read[root].append((begin, begin + graph.tensor[name].nbytes))
        written = [name for name in op.outputs + op.workspaces if graph.tensor[name].nbytes]
        begun = {graph.root[name][0] for name in written} - read.keys()
        for root in begun | _written_in_bodies(op, {n: graph.root[n][0] for n in op.tensors}):
            writers[root] += 1
        for name in written:
            root, begin = graph.root[name]
            if root in read and not _covered(begin, begin + graph.tensor[name].nbytes, read[root]):
                barred.add(root)
    made = graph.producer if writers else {}
    brought = {root for root in writers if _is_brought(graph.tensor[root], made)}
    return barred | {root for root, count in writers.items() if count > (root not in brought)}


def _is_brought(tensor: Tensor, made: Collection[str]) -> bool:
    """True if the caller brings a tensor: no op makes it."""
    return tensor.name not in made and tensor.kind != "workspace"


def _written_in_bodies(op: Op, storage: Mapping[str, str]) -> set[str]:
    """Storages of the op's tensors that its bodies write rather than only pass on.

    ``storage`` has the storage of every tensor of the op.
    """
    found = set()
    for body in op.bodies:
        given = {
            t.name: storage[t.name]
            for t in body.tensors
            if t.kind in ("input", "output") and body.is_storage(t.name) and t.name in op.tensors
        }
        for inner in body.ops:
            lies = {name: given.get(body.root[name][0], "") for name in inner.tensors}
            found |= _written_in_bodies(inner, lies)
            read = defaultdict(list)
            for name in inner.inputs:
                begin = body.root[name][1]
                read[lies[name]].append((begin, begin + body.tensor[name].nbytes))
            for name in inner.outputs + inner.workspaces:
                begin, size = body.root[name][1], body.tensor[name].nbytes
                if size and not _covered(begin, begin + size, read[lies[name]]):
                    found.add(lies[name])
    return found - {""}


def _covered(begin: int, end: int, spans: Iterable[tuple[int, int]]) -> bool:
    """True if spans of bytes cover all of ``[begin, end)``."""
    for low, high in sorted(spans):
        if low > begin:
            break
        begin = max(begin, high)
    return begin >= end
