"""The flat arrays on which the niche search works."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cpplan.packing.search.niche_tables import CHANGES, Fill, Shape

if TYPE_CHECKING:
    from cpplan.model.problem import Ints, Problem

# Parts that have failed; a newer one takes the place of an older one.
_REMEMBERED = 1 << 18
# Room at first: levels of waste for each section, ways for each buffer.
_LEVELS, _WAYS = 16, 32


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
    """Where nothing is placed; with the weights and failures of an earlier search, if given."""
    count, sections = len(shape.size), int(shape.upper.max())
    left, crossing = np.zeros(sections + 1, np.int64), np.zeros(sections + 2, np.int64)
    np.add.at(left, shape.lower, shape.size)
    np.add.at(left, shape.upper, -shape.size)
    # Live across the boundary before section b: lower < b < upper.
    np.add.at(crossing, shape.lower + 1, 1)
    np.add.at(crossing, shape.upper, -1)
    levels = count + _LEVELS * sections
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
        cell=np.zeros((sections, 2), np.uint64),
        keys=np.zeros((levels, 2), np.uint64),
        failed=np.zeros((_REMEMBERED, 2), np.uint64) if known is None else known.failed,
        changed=np.zeros(sections, np.int64),
        counted=np.full((sections, 3), -1, np.int64),
        counter=np.zeros(CHANGES + 1, np.int64),
    )


def with_more_room(fill: Fill) -> Fill:
    """The same with twice the room for decisions and their ways."""
    columns = ("section", "begin", "end", "raised", "first_way", "next_way", "ways", "keys")
    return fill._replace(**{name: np.concatenate([getattr(fill, name)] * 2) for name in columns})


def _twins(lower: Ints, upper: Ints, size: Ints) -> Ints:
    """For every row the one before it that is equal, or -1."""
    last: dict[tuple[int, int, int], int] = {}
    twin = np.full(len(size), -1, np.int64)
    for row, key in enumerate(zip(lower.tolist(), upper.tolist(), size.tolist(), strict=True)):
        twin[row] = last.get(key, -1)
        last[key] = row
    return twin
