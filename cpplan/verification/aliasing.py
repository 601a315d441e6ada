"""Checks of tensors that share bytes by choice, and the bytes that they fill together.

Two retentions may hold the same byte at a step in two cases only: both have the same value there,
because ops have only copied it; or the op that runs then writes the one in place over the other,
which nobody reads again. Both follow from the accesses of every op and from the plan's addresses;
no lifespan analysis and no planner is trusted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cpplan.model.errors import VerificationError
from cpplan.model.plan import Plan
from cpplan.model.plan_data import Relation
from cpplan.verification.access_trace import Access, lifespans
from cpplan.verification.relations import describe
from cpplan.verification.runs import Retention, Run, allowed_relations
from cpplan.verification.script import Content, clip, copied_content


@dataclass(frozen=True, slots=True)
class Union:
    """Addresses ``[begin, end)`` of a pool, held during the steps ``[lower, upper)``."""

    name: str
    lower: int
    upper: int
    begin: int
    end: int


def sharing_retentions(accesses: Iterable[Access]) -> dict[str, Retention]:
    """Name -> retention that may share bytes by choice: not in a body, written by one run only.

    Constants and workspaces are excluded, and a retention in which a repeated op first writes only
    a view.
    """
    writers: dict[Retention, set[int | None]] = defaultdict(set)
    whole: set[Retention] = set()
    for access in accesses:
        if access.writes and access.place.begin < access.place.end:
            writers[access.place.retention].add(access.owner)
            if access.place.copy == access.place.retention.name:
                whole.add(access.place.retention)
    return {
        retention.name: retention
        for retention, by in writers.items()
        if len(by) == 1
        and retention in whole
        and not retention.inner
        and retention.kind not in ("constant", "workspace")
    }


def shared_unions(
    plan: Plan, accesses: Sequence[Access], runs: Sequence[Run]
) -> dict[str, tuple[list[str], list[Union]]]:
    """Name -> members of a group of related retentions, and the rectangles that they fill.

    O(storages that are live together in a group).

    Raises
    ------
    VerificationError
        If two retentions of a group wrongly share bytes; names both, the step and the bytes.
    """
    if not plan.relations:
        return {}
    check = _Check(plan, accesses, runs)
    free, allowed = sharing_retentions(accesses), allowed_relations(runs)
    joined = []
    for relation in plan.relations:
        if any(place.begin == place.end for place in allowed[relation]):
            continue  # A tensor that is empty at these sizes shares no bytes.
        for place in allowed[relation]:
            if place.retention.name not in free:
                raise VerificationError(
                    f"{describe(relation)}: {place.copy!r} may not share bytes: its storage is a "
                    "constant, a workspace or written by several ops"
                )
        one, other = allowed[relation]
        joined.append((one.retention.name, other.retention.name))
    unions = {}
    for names in _groups(joined):
        members = sorted((check.retentions[name] for name in names), key=check.spans.__getitem__)
        check.members(members)
        unions[names[0]] = names, list(check.union(names[0], members))
    return unions


class _Check:
    def __init__(self, plan: Plan, accesses: Sequence[Access], runs: Sequence[Run]):
        self.relations = frozenset(plan.relations)
        self.run_at = {run.step: run for run in runs}
        self.retentions = {
            access.place.retention.name: access.place.retention for access in accesses
        }
        self.spans, self.values = lifespans(accesses), _values(accesses)
        self.accesses: dict[Retention, list[tuple[int, Access]]] = defaultdict(list)
        for number, access in enumerate(accesses):
            self.accesses[access.place.retention].append((number, access))
        self.copies = _copies(runs)
        assert plan.offset is not None
        self.address = dict(zip(plan.buffers, plan.offset.tolist(), strict=True))

    def members(self, members: Sequence[Retention]) -> None:
        """Check every pair of retentions that are live together, in order of their first steps."""
        live: list[Retention] = []
        for new in members:
            lower = self.spans[new][0]
            live = [old for old in live if self.spans[old][1] > lower]
            for old in live:
                self._pair(old, new)
            live.append(new)

    def union(self, name: str, members: Sequence[Retention]) -> Iterator[Union]:
        """Disjoint rectangles that cover the bytes of all members."""
        times = sorted({step for retention in members for step in self.spans[retention]})
        live: list[Retention] = []
        waiting = list(members)
        for lower, upper in pairwise(times):
            live = [retention for retention in live if self.spans[retention][1] > lower]
            while waiting and self.spans[waiting[0]][0] <= lower:
                live.append(waiting.pop(0))
            begin = end = -1
            for low, high in sorted(
                self._extent(retention) for retention in live if retention.size
            ):
                if low > end:
                    if begin < end:
                        yield Union(name, lower, upper, begin, end)
                    begin = low
                end = max(end, high)
            if begin < end:
                yield Union(name, lower, upper, begin, end)

    def _extent(self, retention: Retention) -> tuple[int, int]:
        return self.address[retention.name], self.address[retention.name] + retention.size

    def _pair(self, one: Retention, other: Retention) -> None:
        """Raise if two retentions wrongly share bytes; ``one`` begins no later than ``other``.

        Retentions that the caller brings begin at the same step as the first op's result.
        """
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

    def _check_copies(self, one: Retention, other: Retention, begin: int, end: int) -> None:
        """Raise if an op copies between the two, and they overlap at a distance other than its."""
        for run, inner, outer, shift, size in self.copies.get(frozenset((one, other)), ()):
            off = self.address[inner.name] - self.address[outer.name] - shift
            if 0 < abs(off) < size:
                raise VerificationError(
                    f"buffers {one.name!r} and {other.name!r} share bytes {begin}..{end} at step "
                    f"{run.step}, where op {run.op.name!r} copies {size} B between them by "
                    f"{abs(off)} B"
                )

    def _same(self, one: Retention, other: Retention, begin: int, end: int) -> bool:
        """True if two retentions hold the same value in the bytes ``[begin, end)``."""
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

    def _moved(self, retention: Retention, begin: int, end: int) -> Content:
        """Content of a retention at these addresses, the highest address first."""
        at = self.address[retention.name]
        moved = [
            (low + at, high + at, serial, start)
            for low, high, serial, start in clip(self.values[retention], begin - at, end - at)
        ]
        return sorted(moved, reverse=True)

    def _handed_over(self, old: Retention, new: Retention, step: int, begin: int, end: int) -> bool:
        """True if the op at a step writes ``new`` in place over ``old``, and ``old`` then ends."""
        run = self.run_at.get(step)
        if run is None or self._needed_later(old, new, begin, end):
            return False
        for output, source in run.in_place():
            low = self.address[new.name] + output.begin
            covered = low <= begin and end <= low + output.size
            same_place = low == self.address[old.name] + source.begin
            if (output.retention, source.retention) == (new, old) and covered and same_place:
                return Relation("in place", output.copy, source.copy) in self.relations
        return False

    def _needed_later(self, old: Retention, new: Retention, begin: int, end: int) -> bool:
        """True if these bytes of ``old`` are accessed after ``new`` is written."""
        written = next(number for number, access in self.accesses[new] if access.writes)
        at = self.address[old.name]
        return any(
            number > written
            and max(begin, at + access.place.begin) < min(end, at + access.place.end)
            for number, access in self.accesses[old]
        )


def _copies(
    runs: Iterable[Run],
) -> dict[frozenset[Retention], list[tuple[Run, Retention, Retention, int, int]]]:
    """Pair of retentions -> copies between them: run, part, whole, distance if placed, bytes."""
    found: dict[frozenset[Retention], list[tuple[Run, Retention, Retention, int, int]]] = (
        defaultdict(list)
    )
    for run in runs:
        for part, whole, offset in run.placements():
            shift = whole.begin + offset - part.begin
            between = frozenset((part.retention, whole.retention))
            found[between].append((run, part.retention, whole.retention, shift, part.size))
    return found


def _groups(joined: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Groups of retentions that relations join."""
    group: dict[str, list[str]] = {}
    for one, other in joined:
        ours, theirs = group.setdefault(one, [one]), group.setdefault(other, [other])
        if len(ours) < len(theirs):
            ours, theirs = theirs, ours
        if ours is not theirs:
            ours += theirs
            group.update(dict.fromkeys(theirs, ours))
    return list({id(members): members for members in group.values()}.values())


def _values(accesses: Iterable[Access]) -> dict[Retention, Content]:
    """Retention -> its final content: the serial numbers of the writes that made its bytes.

    Bytes that two ops write get a negative number of their own: a copy of them counts as a new
    value. If one op, or its bodies, writes bytes again, the last write counts.
    """
    content: dict[Retention, Content] = defaultdict(list)
    writer: dict[Retention, int | None] = {}
    serial = 0
    for _, _, (_, retention, begin, end), writes, source, owner in accesses:
        if not writes or begin == end:
            continue
        again = writer.setdefault(retention, owner) != owner
        serial += 1
        new: Content = [(begin, end, serial, 0)]
        if source is not None:
            new = [
                (low, high, written, start) if written > 0 else (low, high, serial, low - begin)
                for low, high, written, start in copied_content(
                    content[source.retention], source, begin, serial
                )
            ]
        if clip(content[retention], begin, end):
            if again:
                new = [(begin, end, -serial, 0)]
            rest = (0, begin), (end, retention.size)
            content[retention] = [
                piece for span in rest for piece in clip(content[retention], *span)
            ]
        content[retention] += new
    return content
