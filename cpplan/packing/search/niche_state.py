"""Arrays of the niche search.

``Shape`` is the problem in address units: buffers by first section and by last section. ``Fill`` is
the state: the floor of each section, the bytes left to place there, and the decisions so far with
their remaining ways.

Nogoods of the niche search: failures that it remembers.

A *nogood* is a list of sections, each with a hash of its floor and of its placed buffers. A state
with the same hashes in these sections fails, whatever it holds elsewhere. Such lists come from the
sections to blame for a failure (Dechter 1990); to watch one section of each is the way of SAT
solvers (Moskewicz, Madigan, Zhao, Zhang and Malik 2001).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpplan.model.problem import Ints, Problem

# Entries of ``Fill.counter``.
LEVELS, NODES, PLACED, WAYS, CHANGES = 0, 1, 2, 3, 4
# Reasons for the end of a slice of an attempt.
FOUND, EXHAUSTED, NODES_SPENT, ROOM_SPENT = 0, 1, 2, 3
# A way to fill a corner: leave it empty.
WASTE = -1
# Initial room: levels of waste for each section, ways for each buffer.
_LEVELS, _WAYS = 16, 32
# Nogoods for which there is room at first, and at most; sections for each nogood, and nogoods for
# each list. The older half is forgotten if there is no room for another one.
_FEWEST, _MOST, _SECTIONS, _LISTED = 1 << 10, 1 << 16, 32, 2
# Ratio by which the room grows.
_GROWTH = 4
# Entries of ``Nogoods.counter``: number of nogoods, and the one that watches nothing yet, or -1.
COUNT, PENDING = 0, 1


class Shape(NamedTuple):
    """Constant data. ``twin`` has the equal buffer to place before each row, or -1."""

    lower: Ints
    upper: Ints
    size: Ints
    twin: Ints
    first_start: Ints
    starting: Ints
    first_end: Ints
    ending: Ints


class Fill(NamedTuple):
    """State of the search; ``ways[first_way[l] : first_way[l + 1]]`` are those of level l.

    ``blamed`` (of each level) and ``conflict`` (of the last failure) are sets of sections, as bits:
    decisions outside these sections are not to blame. ``promise`` orders the ways of one corner.

    ``counted`` has, for the niche that begins in a section, the number of ways of its two corners,
    and the number of floor changes at that time. ``changed`` has the number of the last change of
    each floor.
    """

    floor: Ints
    left: Ints
    offset: Ints
    placed: NDArray[np.bool_]
    weight: NDArray[np.float64]
    crossing: Ints
    section: Ints
    begin: Ints
    end: Ints
    raised: Ints
    first_way: Ints
    next_way: Ints
    ways: Ints
    cell: NDArray[np.uint64]
    nogoods: Nogoods
    changed: Ints
    counted: Ints
    promise: Ints
    blamed: NDArray[np.uint64]
    conflict: NDArray[np.uint64]
    counter: Ints


def make_shape(problem: Problem, unit: int) -> Shape:
    """The problem in address units. O(n log n)."""
    lower, upper = (np.array(column, np.int64) for column in (problem.lower, problem.upper))
    size = np.array(-(-problem.size // unit), np.int64)
    sections = np.arange(int(upper.max()) + 2)
    starting = np.argsort(lower, kind="stable").astype(np.int64)
    ending = np.argsort(upper, kind="stable").astype(np.int64)
    return Shape(
        lower=lower,
        upper=upper,
        size=size,
        twin=_twins(lower, upper, problem.size),
        first_start=np.searchsorted(lower[starting], sections).astype(np.int64),
        starting=starting,
        first_end=np.searchsorted(upper[ending], sections).astype(np.int64),
        ending=ending,
    )


def start(shape: Shape, known: Fill | None = None) -> Fill:
    """State without placed buffers, with the weights and failures of an earlier state, if given."""
    count, sections = len(shape.size), int(shape.upper.max())
    left, crossing = np.zeros(sections + 1, np.int64), np.zeros(sections + 2, np.int64)
    np.add.at(left, shape.lower, shape.size)
    np.add.at(left, shape.upper, -shape.size)
    # Live across the boundary before section b: lower < b < upper.
    np.add.at(crossing, shape.lower + 1, 1)
    np.add.at(crossing, shape.upper, -1)
    levels, words = count + _LEVELS * sections, -(-sections // 64)
    return Fill(
        floor=np.zeros(sections, np.int64),
        left=np.cumsum(left)[:-1],
        offset=np.zeros(count, np.int64),
        placed=np.zeros(count, np.bool_),
        weight=np.ones(sections) if known is None else known.weight,
        crossing=np.cumsum(crossing)[: sections + 1],
        section=np.zeros(levels, np.int64),
        begin=np.zeros(levels, np.int64),
        end=np.zeros(levels, np.int64),
        raised=np.zeros(levels, np.int64),
        first_way=np.zeros(levels, np.int64),
        next_way=np.zeros(levels, np.int64),
        ways=np.zeros(_WAYS * count + 1000, np.int64),
        cell=np.zeros(sections, np.uint64),
        nogoods=no_nogoods() if known is None else with_room(known.nogoods),
        changed=np.zeros(sections, np.int64),
        counted=np.full((sections, 3), -1, np.int64),
        promise=np.zeros(count, np.int64),
        blamed=np.zeros((levels, words), np.uint64),
        conflict=np.zeros(words, np.uint64),
        counter=np.zeros(CHANGES + 1, np.int64),
    )


def with_more_room(fill: Fill) -> Fill:
    """The same state with twice the room for decisions and their ways."""
    levels = ("section", "begin", "end", "raised", "first_way", "next_way", "blamed")
    columns = (*levels, "ways")
    twice: dict[str, Any] = {name: np.concatenate([getattr(fill, name)] * 2) for name in columns}
    return fill._replace(**twice)


def _twins(lower: Ints, upper: Ints, size: Ints) -> Ints:
    """The last equal buffer before every row, or -1."""
    last: dict[tuple[int, int, int], int] = {}
    twin = np.full(len(size), -1, np.int64)
    for row, key in enumerate(zip(lower.tolist(), upper.tolist(), size.tolist(), strict=True)):
        twin[row] = last.get(key, -1)
        last[key] = row
    return twin


class Nogoods(NamedTuple):
    """Remembered failures; ``section[first[k] : first[k + 1]]`` are the sections of nogood k.

    ``value`` has their hashes. Each nogood watches one of its sections that has another hash now:
    ``watched`` has its entry. Only when that section changes to the nogood's hash, the others are
    compared. ``heads`` and ``following`` are lists of nogoods that watch the same section and hash.
    """

    first: NDArray[np.int32]
    section: NDArray[np.int32]
    value: NDArray[np.uint64]
    watched: NDArray[np.int32]
    following: NDArray[np.int32]
    heads: NDArray[np.int32]
    counter: Ints


def no_nogoods() -> Nogoods:
    """Room for some nogoods, and none yet."""
    return _room_for(_FEWEST)


def _room_for(most: int) -> Nogoods:
    return Nogoods(
        first=np.zeros(most + 1, np.int32),
        section=np.zeros(_SECTIONS * most, np.int32),
        value=np.zeros(_SECTIONS * most, np.uint64),
        watched=np.zeros(most, np.int32),
        following=np.zeros(most, np.int32),
        heads=np.full(-(-most // _LISTED), -1, np.int32),
        counter=np.array([0, -1], np.int64),
    )


def with_room(nogoods: Nogoods) -> Nogoods:
    """The same nogoods, in more room if half of it is taken; a new tree must watch them all.

    Most problems are solved with few nogoods, and clearing room for many takes longer than that.
    """
    count, most = int(nogoods.counter[COUNT]), len(nogoods.watched)
    entries = int(nogoods.first[count])
    if most >= _MOST or 2 * max(count, entries // _SECTIONS) < most:
        return nogoods
    larger = _room_for(min(_GROWTH * most, _MOST))
    larger.first[: count + 1] = nogoods.first[: count + 1]
    larger.section[:entries] = nogoods.section[:entries]
    larger.value[:entries] = nogoods.value[:entries]
    larger.counter[COUNT] = count
    return larger
