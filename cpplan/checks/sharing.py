"""Tensors that share bytes by choice: whether they may, and what they fill together.

Two stays may meet at a byte and a step only if both hold the same value there, because all the ops
between have only copied it, or if the op that runs then writes the one in place over the other,
which nobody reads again. All of it follows from what every op touches and from the addresses in the
plan: no lifespan analysis and no planner is believed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cpplan.anf import Program
from cpplan.checks.demands import Stay, Touch, lifespans
from cpplan.checks.script import Content, clip, copied_content
from cpplan.errors import VerificationError
from cpplan.graph import Graph
from cpplan.plan import Plan, Relation


@dataclass(frozen=True, slots=True)
class Union:
    """Bytes ``[begin, end)`` of a pool, addresses, held during the steps ``[lower, upper)``."""

    name: str
    lower: int
    upper: int
    begin: int
    end: int


def pairs_in_place(plan: Plan) -> set[tuple[str, str]]:
    """``(output, input)`` pairs that the plan says, and has, in place of one another."""
    return {
        (r.tensor, r.other)
        for r in plan.relations
        if r.kind == "in place"
        and (here := _address(plan, r.tensor)) is not None
        and here == _address(plan, r.other)
    }


def _address(plan: Plan, tensor: str) -> tuple[int, int] | None:
    """Pool and offset; ``None`` of what the plan does not place."""
    name, within = plan.views.get(tensor, (tensor, 0))
    row = plan.row.get(name)
    if row is None or plan.offset is None:
        return None
    return int(plan.pool[row]), int(plan.offset[row]) + within


def check_relations(graph: Graph, plan: Plan) -> None:
    """Check that every relation is one that an op allows, and that its tensors lie as it says.

    Raises
    ------
    VerificationError
        Names the relation and what is wrong.

    Examples
    --------
    >>> import numpy as np
    >>> none = np.zeros(0, np.int64)
    >>> stray = (Relation("in place", "y", "x"),)
    >>> plan = Plan(
    ...     "g", "optimal", (), none, none, none, none, sharing=("in place",), relations=stray
    ... )
    >>> check_relations(Graph("g", (), ()), plan)
    Traceback (most recent call last):
    ...
    cpplan.errors.VerificationError: relation 'y' in place of 'x': no op of the model allows it
    """
    allowed = {Relation("in place", *pair) for op in graph.ops for pair in op.in_place}
    allowed |= {Relation("placement", *placed) for op in graph.ops for placed in op.placements}
    for relation in plan.relations:
        here = describe(relation)
        if relation.kind not in plan.sharing:
            raise VerificationError(f"{here}: the plan was not free to choose such relations")
        if relation not in allowed:
            raise VerificationError(f"{here}: no op of the model allows it")
        tensor, other = relation.tensor, relation.other
        for name in (tensor, other):
            if graph.root[name][0] not in plan.row:
                raise VerificationError(f"{here}: {name!r} is not in the arena")
        if plan.pool_of(tensor) != plan.pool_of(other):
            raise VerificationError(
                f"{here}: they lie in pools {plan.pool_of(tensor)!r} and {plan.pool_of(other)!r}"
            )
        there, wanted = plan.offset_of(tensor), plan.offset_of(other) + relation.offset
        if there != wanted:
            raise VerificationError(f"{here}: {tensor!r} lies at {there}, not at {wanted}")


def describe(relation: Relation) -> str:
    """A relation in words, for messages.

    Examples
    --------
    >>> describe(Relation("placement", "x", "y", 16))
    "relation 'x' within 'y' at byte 16"
    """
    if relation.kind == "in place":
        return f"relation {relation.tensor!r} in place of {relation.other!r}"
    return f"relation {relation.tensor!r} within {relation.other!r} at byte {relation.offset}"


def sharing_stays(graph: Graph, touches: Iterable[Touch]) -> dict[str, Stay]:
    """Stays that may share bytes by choice: of tensors between ops, written by one op alone."""
    writers: dict[Stay, set[str | None]] = defaultdict(set)
    for touch in touches:
        if touch.writes and touch.place.begin < touch.place.end:
            writers[touch.place.stay].add(touch.owner)
    return {
        stay.name: stay
        for stay, by in writers.items()
        if len(by) == 1
        and stay.name in graph.tensor
        and graph.tensor[stay.name].kind not in ("constant", "workspace")
    }


def shared_unions(
    program: Program, plan: Plan, touches: Sequence[Touch]
) -> dict[str, tuple[list[str], list[Union]]]:
    """What each group of related stays fills together: name -> members and rectangles.

    O(storages that are live together in a group).

    Raises
    ------
    VerificationError
        If two of a group meet where they may not; names both, the step and the bytes.
    """
    check = _Check(program, plan, touches)
    free = sharing_stays(program.graph, touches)
    for relation in plan.relations:
        for tensor in (relation.tensor, relation.other):
            if program.graph.root[tensor][0] not in free:
                raise VerificationError(
                    f"{describe(relation)}: {tensor!r} lies in a constant, a workspace, or what "
                    "several ops write, which shares no bytes by choice"
                )
    unions = {}
    for names in _groups(program.graph, plan.relations):
        members = sorted((check.stays[name] for name in names), key=check.spans.__getitem__)
        check.members(members)
        unions[names[0]] = names, list(check.union(names[0], members))
    return unions


class _Check:
    def __init__(self, program: Program, plan: Plan, touches: Sequence[Touch]):
        self.graph, self.relations = program.graph, frozenset(plan.relations)
        self.op_at = dict(zip(program.starts, program.ops, strict=False))
        self.stays = {touch.place.stay.name: touch.place.stay for touch in touches}
        self.spans, self.values = lifespans(touches), _values(touches)
        self.touches: dict[Stay, list[tuple[int, Touch]]] = defaultdict(list)
        for number, touch in enumerate(touches):
            self.touches[touch.place.stay].append((number, touch))
        self.copies = _copies(program.graph)
        assert plan.offset is not None
        self.address = dict(zip(plan.buffers, plan.offset.tolist(), strict=True))

    def members(self, members: Sequence[Stay]) -> None:
        """Every two that are live together; sorted by their first step."""
        live: list[Stay] = []
        for new in members:
            lower = self.spans[new][0]
            live = [old for old in live if self.spans[old][1] > lower]
            for old in live:
                self._pair(old, new)
            live.append(new)

    def union(self, name: str, members: Sequence[Stay]) -> Iterator[Union]:
        """Rectangles without overlap that cover what the members fill."""
        times = sorted({step for stay in members for step in self.spans[stay]})
        live: list[Stay] = []
        waiting = list(members)
        for lower, upper in pairwise(times):
            live = [stay for stay in live if self.spans[stay][1] > lower]
            while waiting and self.spans[waiting[0]][0] <= lower:
                live.append(waiting.pop(0))
            begin = end = -1
            for low, high in sorted(self._extent(stay) for stay in live if stay.size):
                if low > end:
                    if begin < end:
                        yield Union(name, lower, upper, begin, end)
                    begin = low
                end = max(end, high)
            if begin < end:
                yield Union(name, lower, upper, begin, end)

    def _extent(self, stay: Stay) -> tuple[int, int]:
        return self.address[stay.name], self.address[stay.name] + stay.size

    def _pair(self, one: Stay, other: Stay) -> None:
        """``one`` begins no later than ``other``; what the caller brings and the first op's result
        begin together."""
        (here, past), (there, beyond) = self._extent(one), self._extent(other)
        begin, end = max(here, there), min(past, beyond)
        if begin >= end:
            return
        self._check_copies(one, other, begin, end)
        if self._same(one, other, begin, end):
            return
        step, until = self.spans[other][0], min(self.spans[one][1], self.spans[other][1])
        if until == step + 1 and any(
            self._handed_over(old, new, step, begin, end)
            for old, new in ((one, other), (other, one))
        ):
            return
        raise VerificationError(
            f"buffers {one.name!r} and {other.name!r} share bytes {begin}..{end} at step {step}, "
            "where they hold different values"
        )

    def _check_copies(self, one: Stay, other: Stay, begin: int, end: int) -> None:
        """No op copies between bytes of the two that overlap without being the same."""
        for op, inner, outer, shift, size in self.copies.get(frozenset((one.name, other.name)), ()):
            off = self.address[inner] - self.address[outer] - shift
            if 0 < abs(off) < size:
                step = next(step for step, at in self.op_at.items() if at.name == op)
                raise VerificationError(
                    f"buffers {one.name!r} and {other.name!r} share bytes {begin}..{end} at step "
                    f"{step}, where op {op!r} copies {size} B between them by {abs(off)} B"
                )

    def _same(self, one: Stay, other: Stay, begin: int, end: int) -> bool:
        """Whether two stays hold the same value in the bytes ``[begin, end)``."""
        mine, theirs = self._moved(one, begin, end), self._moved(other, begin, end)
        at = begin
        while at < end:
            if not mine or not theirs or max(mine[-1][0], theirs[-1][0]) > at:
                return False  # bytes that nobody wrote
            (low, high, serial, start), (other_low, other_high, *same) = mine[-1], theirs[-1]
            if serial < 0 or same != [serial, start - low + other_low]:
                return False
            at = min(high, other_high)
            for pieces, past in ((mine, high), (theirs, other_high)):
                if past == at:
                    pieces.pop()
        return True

    def _moved(self, stay: Stay, begin: int, end: int) -> Content:
        """What lies at these addresses, the highest first."""
        at = self.address[stay.name]
        moved = [
            (low + at, high + at, serial, start)
            for low, high, serial, start in clip(self.values[stay], begin - at, end - at)
        ]
        return sorted(moved, reverse=True)

    def _handed_over(self, old: Stay, new: Stay, step: int, begin: int, end: int) -> bool:
        """Whether the op at a step writes ``new`` in place over ``old``, for good."""
        op = self.op_at.get(step)
        if op is None or self._needed_later(old, new, begin, end):
            return False
        for output, source in op.in_place:
            (new_root, at), (old_root, within) = self.graph.root[output], self.graph.root[source]
            low = self.address[new.name] + at
            covered = low <= begin and end <= low + self.graph.tensor[output].nbytes
            same_place = low == self.address[old.name] + within
            if (new_root, old_root) == (new.name, old.name) and covered and same_place:
                return Relation("in place", output, source) in self.relations
        return False

    def _needed_later(self, old: Stay, new: Stay, begin: int, end: int) -> bool:
        """Whether anybody touches these bytes of ``old`` once ``new`` is written."""
        written = next(number for number, touch in self.touches[new] if touch.writes)
        at = self.address[old.name]
        return any(
            number > written and at + touch.place.begin < end and begin < at + touch.place.end
            for number, touch in self.touches[old]
        )


def _copies(graph: Graph) -> dict[frozenset[str], list[tuple[str, str, str, int, int]]]:
    """Two storages -> what ops copy between them: op, inner, outer, distance if placed, bytes."""
    found: dict[frozenset[str], list[tuple[str, str, str, int, int]]] = defaultdict(list)
    for op in graph.ops:
        for part, whole, offset in op.placements:
            (inner, within), (outer, start) = graph.root[part], graph.root[whole]
            shift, size = start + offset - within, graph.tensor[part].nbytes
            found[frozenset((inner, outer))].append((op.name, inner, outer, shift, size))
    return found


def _groups(graph: Graph, relations: Iterable[Relation]) -> list[list[str]]:
    """Storages that relations join."""
    group: dict[str, list[str]] = {}
    for relation in relations:
        one, other = (graph.root[name][0] for name in (relation.tensor, relation.other))
        ours, theirs = group.setdefault(one, [one]), group.setdefault(other, [other])
        if len(ours) < len(theirs):
            ours, theirs = theirs, ours
        if ours is not theirs:
            ours += theirs
            group.update(dict.fromkeys(theirs, ours))
    return list({id(members): members for members in group.values()}.values())


def _values(touches: Iterable[Touch]) -> dict[Stay, Content]:
    """What every stay holds at the end: serial numbers of the writes its bytes go back to.

    Bytes that two ops write get a negative one, which is no one else's. What the bodies of one op
    write again is the op's own affair: the last write counts.
    """
    content: dict[Stay, Content] = defaultdict(list)
    writer: dict[Stay, str | None] = {}
    serial = 0
    for _, _, (_, stay, begin, end), writes, source, owner in touches:
        if not writes or begin == end:
            continue
        again = writer.setdefault(stay, owner) != owner
        serial += 1
        new: Content = [(begin, end, serial, 0)]
        if source is not None:
            new = copied_content(content[source.stay], source, begin, serial)
        if clip(content[stay], begin, end):
            if again:
                new = [(begin, end, -serial, 0)]
            rest = (0, begin), (end, stay.size)
            content[stay] = [piece for span in rest for piece in clip(content[stay], *span)]
        content[stay] += new
    return content
