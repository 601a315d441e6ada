"""Alias candidates of a graph: storages that may share bytes, their distance and the op.

Relations of an op that a plan can use: they hold for all outputs over the same bytes.

Outputs of an op may overlap in one storage: an output and a view of it. The op declares for each
output the tensor that it is copied from, or may be written over. Bytes that are written under two
names may be shared with an input only if the op declares this under both names.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, get_args

import numpy as np

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
    (:func:`~cpplan.aliasing.alias_candidates.candidate_relations`).
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


class _Said(NamedTuple):
    """An alias fact: bytes ``[begin, end)`` of ``root`` may be bytes of ``source``.

    ``root`` and ``source`` are storages; ``root`` holds ``result``. ``shift`` is the address of
    ``source`` less the address of ``root`` if they share these bytes.
    """

    kind: RelationKind
    result: str
    root: str
    begin: int
    end: int
    source: str
    shift: int

    def same(self, other: _Said) -> bool:
        """True if both facts have one kind, source and distance; their byte ranges may differ."""
        mine, theirs = (self.kind, self.source, self.shift), (other.kind, other.source, other.shift)
        return mine == theirs

    def meets(self, other: _Said) -> bool:
        """True if the byte ranges of both, in one storage, overlap."""
        return max(self.begin, other.begin) < min(self.end, other.end)


def candidate_relations(graph: Graph, op: Op) -> Iterator[Relation]:
    """Relations of an op that a plan can use. O(relations × tensors of the op).

    Relations left out: in-place pairs whose input bytes the op accesses under another name too,
    results in a storage that the op reads (they lie there already), and relations that do not hold
    for another output over the same bytes.
    """
    relations = [Relation("in place", *pair) for pair in op.in_place]
    relations += [Relation("placement", *placement) for placement in op.placements]
    if not relations:
        return
    read = {graph.root[name][0] for name in op.inputs}
    said = {relation: _said(graph, op, relation) for relation in relations}
    doubtful = _said_twice(graph, op, said.values())
    may_end = _ending(graph, op)
    for relation, here in said.items():
        if here.root in read or (
            here.root in doubtful and _said_otherwise(graph, op, here, doubtful[here.root])
        ):
            continue
        if here.kind == "placement" or may_end(*relation[1:3]):
            yield relation


def _said(graph: Graph, op: Op, relation: Relation) -> _Said:
    kind, tensor, other, offset = relation
    (inner, within), (outer, start) = graph.root[tensor], graph.root[other]
    size, shift = graph.tensor[tensor].nbytes, start + offset - within
    if kind == "placement" and other in op.outputs:
        begin = start + offset
        return _Said(kind, other, outer, begin, begin + size, inner, shift)
    return _Said(kind, tensor, inner, within, within + size, outer, -shift)


def _said_twice(graph: Graph, op: Op, said: Iterable[_Said]) -> dict[str, list[_Said]]:
    """Storage -> its alias facts, if the op writes it under several names or copies to it twice."""
    names = Counter(graph.root[name][0] for name in op.outputs + op.workspaces)
    by_root: dict[str, list[_Said]] = defaultdict(list)
    for one in said:
        by_root[one.root].append(one)
    found = {}
    for root, ones in by_root.items():
        copied = sorted((one.begin, one.end) for one in ones if one.kind == "placement")
        if names[root] > 1 or any(low[1] > high[0] for low, high in pairwise(copied)):
            found[root] = ones
    return found


def _said_otherwise(graph: Graph, op: Op, here: _Said, said: Iterable[_Said]) -> bool:
    """True if the op writes some of these bytes under another name without declaring the same.

    Also true if another placement gives some of the bytes another origin.
    """
    alike = [other for other in said if other.same(here)]
    if here.kind == "placement" and any(
        other.kind == "placement" and other.meets(here) and other not in alike for other in said
    ):
        return True
    for name in op.outputs + op.workspaces:
        root, low = graph.root[name]
        begin, end = max(low, here.begin), min(low + graph.tensor[name].nbytes, here.end)
        if root != here.root or begin >= end or name == here.result:
            continue
        if not any(o.result == name and o.begin <= begin and end <= o.end for o in alike):
            return True
    return False


def _ending(graph: Graph, op: Op) -> Callable[[str, str], bool]:
    """Function of an output and an input, which tells if the input may end with the op.

    The input may end if every tensor of the op that overlaps the input's bytes has exactly the
    input's bytes and is one that the op may write the output over in place.
    """
    allowed = frozenset(op.in_place)
    there: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
    for name in op.tensors:
        root, low = graph.root[name]
        there[root].append((name, low, low + graph.tensor[name].nbytes))

    def may_end(output: str, source: str) -> bool:
        root, begin = graph.root[source]
        end = begin + graph.tensor[source].nbytes
        for name, low, high in there[root]:
            meets = max(low, begin) < min(high, end)
            alike = (low, high) == (begin, end) and (output, name) in allowed
            if meets and not alike:
                return False
        return True

    return may_end
