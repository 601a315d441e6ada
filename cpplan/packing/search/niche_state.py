"""Arrays of the niche search.

``Shape`` is the problem in address units: buffers by first section and by last section. ``Fill`` is
the state: the floor of each section, the bytes left to place there, and the decisions so far with
their remaining ways.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpplan.model.problem import Ints, Problem
from cpplan.packing.search.niche_nogoods import Nogoods, no_nogoods, with_room

# Entries of ``Fill.counter``.
LEVELS, NODES, PLACED, WAYS, CHANGES = 0, 1, 2, 3, 4
# A way to fill a corner: leave it empty.
WASTE = -1
# Initial room: levels of waste for each section, ways for each buffer.
_LEVELS, _WAYS = 16, 32


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
