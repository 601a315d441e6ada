"""Retentions in memory, places in them, and the runs of ops that access them.

If ops run again, a tensor may lie in several retentions of its storage, one after another. The
first copy of a tensor has the tensor's name, the others ``tensor~1``, ``tensor~2``, …, like the
buffers in which they lie (``cpplan.program.copy_names``). A plan's relations use these names of
copies.

Agreement of an op's in-place pairs and placements for results with several names.

An op may write bytes under several names: an output and a view of it. An op's statement that one
name is copied from an input, or may be written over it, counts only if the op states the same about
the other names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, pairwise
from typing import NamedTuple

from cpplan.model.graph import Op
from cpplan.model.plan_data import Relation
from cpplan.model.tensor import Tensor
from cpplan.program.copy_names import CopyNames


@dataclass(slots=True, eq=False)
class Retention:
    """A storage's retention in memory.

    Attributes
    ----------
    name, number
        Name of the buffer; number of the retention among the storage's.
    size, alignment
        Size and alignment, bytes.
    placed
        True if the retention is in the arena.
    tensors
        Tensors that lie in the retention.
    kind
        Kind of the tensor that the storage is named after.
    names
        Names of the copies of the graph's tensors.
    inner
        True if the retention belongs to a body.
    reads, writes
        Numbers of reads and of writes of the retention's tensors by ops.
    """

    name: str
    number: int
    size: int
    alignment: int
    placed: bool = True
    tensors: tuple[Tensor, ...] = ()
    kind: str = "intermediate"
    inner: bool = False
    reads: int = 0
    writes: int = 0
    names: CopyNames = field(default_factory=lambda: CopyNames(()))


class Place(NamedTuple):
    """A tensor's bytes ``[begin, end)`` within a retention."""

    tensor: str
    retention: Retention
    begin: int
    end: int

    @property
    def copy(self) -> str:
        """Name, in relations, of the copy of the tensor that lies here."""
        return self.retention.names.copy(self.tensor, self.retention.number)

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.end - self.begin

    def is_at(self, other: Place) -> bool:
        """True if two places are the same bytes of one retention, for any tensors."""
        return self[1:] == other[1:]


@dataclass(frozen=True, slots=True)
class Run:
    """One run of an op of the program itself.

    Attributes
    ----------
    step
        First step of the run.
    op
        The op that runs.
    places
        Places of the op's tensors: inputs where they are read, outputs where they are written.
    passed_on
        Outputs in a retention that the op also reads, and so passes on: the op does not write them,
        and the run has no relations with them.

    For bytes that the op writes under several names, it must state the same under each name.
    """

    step: int
    op: Op
    places: Mapping[str, Place]
    passed_on: frozenset[str]

    def in_place(self) -> Iterator[tuple[Place, Place]]:
        """Pairs of an output and an input that it may be written over."""
        pairs = [
            (self.places[output], self.places[source])
            for output, source in self.op.in_place
            if output not in self.passed_on
        ]
        facts = [written_over(*pair) for pair in pairs]
        return compress(pairs, agreed(facts, self.written, once=False))

    def placements(self) -> Iterator[tuple[Place, Place, int]]:
        """Parts, the wholes that they may lie within, and their byte offsets in these wholes."""
        allowed = [
            (self.places[part], self.places[whole], offset)
            for part, whole, offset in self.op.placements
            if not self.passed_on & {part, whole}
        ]
        results = self.op.outputs
        facts = [copied(*found, joined=found[1].tensor in results) for found in allowed]
        return compress(allowed, agreed(facts, self.written, once=True))

    @property
    def written(self) -> list[Place]:
        """Places that the op writes."""
        names = self.op.outputs + self.op.workspaces
        return [self.places[name] for name in names if name not in self.passed_on]

    def relations(self) -> Iterator[tuple[Relation, Place, Place]]:
        """Relations that this run allows a plan to use, with the places of the two tensors."""
        for output, source in self.in_place():
            yield Relation("in place", output.copy, source.copy), output, source
        for part, whole, offset in self.placements():
            yield Relation("placement", part.copy, whole.copy, offset), part, whole


def allowed_relations(runs: Iterable[Run]) -> dict[Relation, tuple[Place, Place]]:
    """Relations that any run allows a plan to use, with the places of the two tensors."""
    return {relation: (one, other) for run in runs for relation, one, other in run.relations()}


class AliasFact(NamedTuple):
    """Statement that bytes of a result may be those of ``source``, ``shift`` bytes further on."""

    result: Place
    source: Retention
    shift: int


def written_over(output: Place, source: Place) -> AliasFact:
    """Statement made by an in-place pair."""
    return AliasFact(output, source.retention, source.begin - output.begin)


def copied(part: Place, whole: Place, offset: int, *, joined: bool) -> AliasFact:
    """Statement made by a placement; ``joined`` is true if the whole, not a part, is the result."""
    begin = whole.begin + offset
    if joined:
        end = begin + part.size
        return AliasFact(whole._replace(begin=begin, end=end), part.retention, part.begin - begin)
    return AliasFact(part, whole.retention, begin - part.begin)


def agreed(facts: Sequence[AliasFact], written: Sequence[Place], *, once: bool) -> Iterator[bool]:
    """True for each statement that holds under all names of the bytes that the op writes.

    Parameters
    ----------
    once
        True if a byte may have one source only, as for copies.
    """
    places: dict[Retention, list[Place]] = defaultdict(list)
    others: dict[Retention, list[AliasFact]] = defaultdict(list)
    for place in written:
        places[place.retention].append(place)
    for one in sorted(facts, key=lambda one: one.result[2:]):
        others[one.result.retention].append(one)
    # Most ops write one tensor of a storage, and copy parts that lie side by side.
    plain = {
        retention
        for retention, found in others.items()
        if len(places[retention]) == 1
        and not (once and any(_meet(a.result, b.result) for a, b in pairwise(found)))
    }
    for one in facts:
        retention = one.result.retention
        yield retention in plain or _holds(one, places[retention], others[retention], once)


def _holds(
    one: AliasFact, places: Sequence[Place], others: Sequence[AliasFact], once: bool
) -> bool:
    if once and any(_meet(other.result, one.result) and other[1:] != one[1:] for other in others):
        return False
    return all(
        place.tensor == one.result.tensor
        or any(
            other.result.tensor == place.tensor
            and other[1:] == one[1:]
            and other.result.begin <= max(place.begin, one.result.begin)
            and min(place.end, one.result.end) <= other.result.end
            for other in others
        )
        for place in places
        if _meet(place, one.result)
    )


def _meet(one: Place, other: Place) -> bool:
    """True if two places in one retention have bytes in common."""
    return max(one.begin, other.begin) < min(one.end, other.end)
