"""Stays, places in them, and the runs of ops: who touches which copy of what.

Where ops run again, a tensor may lie in several stays of its storage, one after another. The first
copy of a tensor bears the tensor's name, the others ``tensor~1``, ``tensor~2``, …, as the buffers
do in which they lie (``cpplan.program.copy_names``). Relations of a plan speak of copies by these
names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import compress
from typing import NamedTuple

from cpplan.model.graph import Op
from cpplan.model.plan import Relation
from cpplan.model.tensor import Tensor
from cpplan.program.copy_names import CopyNames
from cpplan.verification.alias_facts import agreed, copied, written_over


@dataclass(slots=True, eq=False)
class Stay:
    """A storage's stay in memory.

    Attributes
    ----------
    name, number
        Of the buffer; which of the storage's stays it is.
    size, alignment
        Bytes.
    placed
        Whether in the arena.
    tensors
        All that lie in it.
    kind
        Of the tensor whose storage it is.
    names
        What copies of the graph's tensors are called.
    inner
        Whether it is of a body.
    reads, writes
        How often ops read and write tensors in it.
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
    """A tensor's bytes ``[begin, end)`` within a stay."""

    tensor: str
    stay: Stay
    begin: int
    end: int

    @property
    def copy(self) -> str:
        """What relations call the copy of the tensor that lies here.

        Examples
        --------
        >>> Place("v", Stay("x~2", 2, 8, 1), 0, 4).copy
        'v~2'
        """
        return self.stay.names.copy(self.tensor, self.stay.number)

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.begin

    def is_at(self, other: Place) -> bool:
        """Whether these are the same bytes, whatever the tensors."""
        return self[1:] == other[1:]


@dataclass(frozen=True, slots=True)
class Run:
    """One run of an op of the program itself.

    Attributes
    ----------
    step
        Its first.
    op
        What runs.
    places
        Where each of its tensors lies: inputs as read, outputs as written.
    passed_on
        Outputs that lay there already, since the op passes on what it reads: these are not written,
        and nothing is copied to them or written in their place.

    Of what the op writes under several names, it must say the same under all of them.
    """

    step: int
    op: Op
    places: Mapping[str, Place]
    passed_on: frozenset[str]

    def in_place(self) -> Iterator[tuple[Place, Place]]:
        """Outputs and inputs that they may be written over."""
        pairs = [
            (self.places[output], self.places[source])
            for output, source in self.op.in_place
            if output not in self.passed_on
        ]
        said = [written_over(*pair) for pair in pairs]
        return compress(pairs, agreed(said, self.written, once=False))

    def placements(self) -> Iterator[tuple[Place, Place, int]]:
        """Parts, what they may lie within, and at which byte of it."""
        allowed = [
            (self.places[part], self.places[whole], offset)
            for part, whole, offset in self.op.placements
            if not self.passed_on & {part, whole}
        ]
        results = self.op.outputs
        said = [copied(*found, joined=found[1].tensor in results) for found in allowed]
        return compress(allowed, agreed(said, self.written, once=True))

    @property
    def written(self) -> list[Place]:
        """What the op writes."""
        names = self.op.outputs + self.op.workspaces
        return [self.places[name] for name in names if name not in self.passed_on]

    def relations(self) -> Iterator[tuple[Relation, Place, Place]]:
        """All that a plan may say of this run, and where its two tensors lie."""
        for output, source in self.in_place():
            yield Relation("in place", output.copy, source.copy), output, source
        for part, whole, offset in self.placements():
            yield Relation("placement", part.copy, whole.copy, offset), part, whole


def allowed_relations(runs: Iterable[Run]) -> dict[Relation, tuple[Place, Place]]:
    """What a plan may say of any run, and where the two tensors lie.

    Examples
    --------
    >>> allowed_relations([])
    {}
    """
    return {relation: (one, other) for run in runs for relation, one, other in run.relations()}
