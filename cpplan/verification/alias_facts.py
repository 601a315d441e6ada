"""Agreement of an op's in-place pairs and placements for results with several names.

An op may write bytes under several names: an output and a view of it. An op's statement that one
name is copied from an input, or may be written over it, counts only if the op states the same about
the other names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cpplan.verification.runs import Place, Retention


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
