"""The bound "live bytes, shared", proved again: bytes that a step needs even with sharing.

The check goes step by step, and byte by byte through storages that placements join; it reads only
the accesses. It is slow and simple.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TypeVar

from cpplan.verification.access_trace import Access, lifespans
from cpplan.verification.aliasing import sharing_retentions
from cpplan.verification.runs import Place, Retention, Run

Key = TypeVar("Key", bound=Hashable)
Places = Mapping[str, int] | Mapping[str, None]


def least_bytes(kinds: Collection[str], accesses: Sequence[Access], runs: Sequence[Run]) -> int:
    """Most bytes that a step of a program needs in this order, with any aliases.

    All placements of the graph are taken at once: the storages that they join cover at least the
    union of their bytes, each at its distance from the others, or the largest storage if the
    distances contradict each other. If an op may write an output over an input that nobody reads
    again, the output's bytes are subtracted at the op's step. Only the kinds of sharing that the
    plan was allowed count, and only retentions that a single run, or the caller, writes.
    """
    demands = Sharing(kinds, accesses, runs)
    alone = demands.bytes_alone()
    return max(
        (alone[step] + demands.at(step, live) for step, live in demands.live_sets()), default=0
    )


class Sharing:
    """Bytes that the tensors of a program may share by choice, from the accesses alone.

    Attributes
    ----------
    run_at
        The run that starts at a step.
    groups
        Retentions joined by placements, with their distances; ``None`` if the distances contradict
        each other.
    """

    def __init__(self, kinds: Collection[str], accesses: Sequence[Access], runs: Sequence[Run]):
        self.kinds, self.run_at = kinds, {run.step: run for run in runs}
        self.spans = lifespans(accesses)
        self.last = {access.place.retention: access for access in accesses}
        self.retention = sharing_retentions(accesses)
        self.groups = joined_places(self._placements())
        self.group = {name: k for k, group in enumerate(self.groups) for name in group}

    def bytes_alone(self) -> dict[int, int]:
        """Step at which they change -> live bytes of the retentions that no placement joins."""
        change = dict.fromkeys(sorted({step for span in self.spans.values() for step in span}), 0)
        for retention, (lower, upper) in self.spans.items():
            if retention.name not in self.group:
                change[lower] += retention.size
                change[upper] -= retention.size
        return dict(zip(change, accumulate(change.values()), strict=True))

    def live_sets(self) -> Iterator[tuple[int, list[Retention]]]:
        """Steps at which a retention begins or has just ended, and the joined ones live there."""
        joined = [retention for retention in self.spans if retention.name in self.group]
        waiting = sorted(joined, key=lambda retention: self.spans[retention][0], reverse=True)
        live: list[Retention] = []
        for step in sorted({step for span in self.spans.values() for step in span}):
            live = [retention for retention in live if self.spans[retention][1] > step]
            while waiting and self.spans[waiting[-1]][0] <= step:
                live.append(waiting.pop())
            yield step, list(live)

    def at(self, step: int, live: Sequence[Retention]) -> int:
        """Bytes that a step needs for joined retentions, less its op's savings in place."""
        joined: dict[int, list[Retention]] = {}
        for retention in live:
            joined.setdefault(self.group[retention.name], []).append(retention)
        covered = sum(_cover(self.groups[k], retentions) for k, retentions in joined.items())
        return covered - self._savings(step)

    def _placements(self) -> Iterator[tuple[str, str, int]]:
        """Pairs of retentions, and the distance of the first above the second if placed."""
        for run in self.run_at.values():
            if "placement" not in self.kinds or run.op.bodies:
                continue
            for part, whole, offset in run.placements():
                inner, outer = part.retention.name, whole.retention.name
                if (
                    inner in self.retention
                    and outer in self.retention
                    and inner != outer
                    and part.size
                ):
                    yield inner, outer, whole.begin + offset - part.begin

    def in_place_at(self, step: int) -> Iterator[tuple[Retention, Retention, int]]:
        """Outputs that a step's op may write over inputs that end with it; the inputs; bytes."""
        run = self.run_at.get(step)
        if run is None or run.op.bodies or "in place" not in self.kinds:
            return
        needed_otherwise = others_needed(run)
        for output, source in run.in_place():
            new, old = (self.retention.get(place.retention.name) for place in (output, source))
            if new is None or old is None or new is old or self.spans[new][0] != step:
                continue
            if needed_otherwise(output, source):
                continue
            if self.last[old].op == run.op.name and self.last[old].step == step:
                yield new, old, output.size

    def _savings(self, step: int) -> int:
        """Bytes of all outputs at a step that may be written over inputs."""
        saved: dict[str, int] = {}
        for new, _, size in self.in_place_at(step):
            saved[new.name] = max(size, saved.get(new.name, 0))
        return sum(saved.values())


def joined_places(
    placements: Iterable[tuple[Key, Key, int]],
) -> list[Mapping[Key, int] | Mapping[Key, None]]:
    """Groups that pairs join, with their distances; ``None`` if these contradict each other.

    Each pair comes with the distance of the first above the second.
    """
    edges: dict[Key, list[tuple[Key, int]]] = {}
    for inner, outer, distance in placements:
        edges.setdefault(outer, []).append((inner, distance))
        edges.setdefault(inner, []).append((outer, -distance))
    groups: list[Mapping[Key, int] | Mapping[Key, None]] = []
    seen: set[Key] = set()
    for first in edges:
        if first in seen:
            continue
        places: dict[Key, int] = {first: 0}
        waiting, contradiction = [first], False
        while waiting:
            name = waiting.pop()
            for other, distance in edges[name]:
                if other not in places:
                    places[other] = places[name] + distance
                    waiting.append(other)
                contradiction |= places[other] != places[name] + distance
        seen.update(places)
        groups.append(dict.fromkeys(places) if contradiction else places)
    return groups


def others_needed(run: Run) -> Callable[[Place, Place], bool]:
    """Function of an output and an input of a run: True if the input is needed otherwise.

    The input is needed otherwise if the op also accesses its bytes under a name that the output
    must not overwrite. Built in O(tensors of the op); a call takes O(names of the input's bytes).
    """
    allowed = frozenset(run.op.in_place)
    there: dict[Retention, list[Place]] = {}
    for place in run.places.values():
        there.setdefault(place.retention, []).append(place)

    def needed_otherwise(output: Place, source: Place) -> bool:
        for place in there[source.retention]:
            meets = max(place.begin, source.begin) < min(place.end, source.end)
            alike = place.is_at(source) and (output.tensor, place.tensor) in allowed
            if meets and not alike:
                return True
        return False

    return needed_otherwise


def _cover(places: Places, live: Sequence[Retention]) -> int:
    """Bytes that the live retentions of a group cover: at least the largest retention."""
    extents = []
    for retention in live:
        place = places[retention.name]
        if place is None:
            return max(retention.size for retention in live)
        extents.append((place, place + retention.size))
    covered, reached = 0, min(low for low, _ in extents)
    for low, high in sorted(extents):
        covered += max(0, high - max(low, reached))
        reached = max(reached, high)
    return covered
