"""Relations of an op that a plan can use: they hold for all outputs over the same bytes.

Outputs of an op may overlap in one storage: an output and a view of it. The op declares for each
output the tensor that it is copied from, or may be written over. Bytes that are written under two
names may be shared with an input only if the op declares this under both names.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from cpplan.model.graph import Graph, Op
from cpplan.model.plan_data import Relation, RelationKind


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
