"""Arrays of the compiled loops of ``Repacking``."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpplan.model.problem import Ints
from cpplan.model.spill_problem import Flags, SpillProblem
from cpplan.packing.search.insertion_search import INSERTION_TENURE

Floats = NDArray[np.float64]


class GapState(NamedTuple):
    """A choice of gaps, the offsets of its accesses, and scratch for changes.

    ``places`` has the offset of each access, or -1. ``load`` is the bytes at each step, with those
    to be left empty. ``paid`` is the cost of the moves of each storage; ``cost`` is their sum, and
    ``price`` for each byte and step of the gaps kept. ``begin`` and ``end`` are the steps between
    which a storage may take room. ``tries`` counts for each gap how often it was drawn.
    ``changed`` lists the gaps changed since the last choice that was kept, ``filled`` is their
    number, and ``fresh`` marks them.
    """

    drop: Flags
    places: Ints
    load: Ints
    paid: Ints
    cost: Ints
    price: Floats
    begin: Ints
    end: Ints
    tries: Floats
    fresh: Flags
    changed: Ints
    filled: Ints
    listed: Ints
    weight: Floats
    upto: Ints


class Rows(NamedTuple):
    """Retentions in a window of steps, for the insertion search.

    ``first`` and ``last`` are the accesses of each. ``lower`` and ``upper`` are its sections: runs
    of steps at which the same retentions meet. ``pinned`` is the offset of one that crosses the
    ends of the window, else -1. The other arrays are those of the insertion search.
    """

    first: Ints
    last: Ints
    size: Ints
    step: Ints
    lower: Ints
    upper: Ints
    pinned: Ints
    placed: Flags
    lowest_end: Ints
    latest: Ints
    penalty: Floats
    difficulty: Floats
    held: Ints
    order: Ints
    by_latest: Ints
    meets: NDArray[np.bool_]
    first_span: Ints
    skyline: Ints
    stale: Ints
    waiting: Ints
    ends: Ints
    starts: Ints
    weight: Floats
    cursor: Ints


def make_state(
    problem: SpillProblem, kept: Flags, places: Ints, empty: Ints, price: float = 0.0
) -> GapState:
    """The state of a choice of gaps, with these bytes left empty at each step."""
    gaps, count = len(kept), len(problem.names)
    begin, end = np.full(count, problem.steps, np.int64), np.zeros(count, np.int64)
    np.minimum.at(begin, problem.access_storage, problem.access_step)
    np.maximum.at(end, problem.access_storage, problem.access_step + 1)
    np.minimum.at(begin, problem.gap_storage, problem.gap_lower)
    np.maximum.at(end, problem.gap_storage, problem.gap_upper)
    paid = problem.paid(kept)
    room = problem.size[problem.gap_storage] * (problem.gap_upper - problem.gap_lower)
    prices = (price * room[kept].astype(np.float64)).astype(np.int64)
    return GapState(
        drop=~kept,
        places=places.copy(),
        load=replace(problem, room=problem.size).load(kept) + empty,
        paid=paid,
        cost=np.array([paid.sum() + prices.sum()], np.int64),
        price=np.array([price]),
        begin=begin,
        end=end,
        tries=np.zeros(gaps),
        fresh=np.zeros(gaps, bool),
        changed=np.zeros(4 * gaps + 1, np.int64),
        filled=np.zeros(1, np.int64),
        listed=np.zeros(gaps, np.int64),
        weight=np.zeros(gaps),
        upto=np.zeros(problem.steps + 1, np.int64),
    )


def make_rows(count: int) -> Rows:
    """Room for some rows; ``with_sections`` adds the arrays of their sections."""

    def numbers() -> Ints:
        return np.zeros(count, np.int64)

    return Rows(
        first=numbers(),
        last=numbers(),
        size=numbers(),
        step=numbers(),
        lower=numbers(),
        upper=numbers(),
        pinned=numbers(),
        placed=np.ones(count, bool),
        lowest_end=numbers(),
        latest=numbers(),
        penalty=np.zeros(count),
        difficulty=np.zeros(count),
        held=numbers(),
        order=np.zeros(count + 1, np.int64),
        by_latest=np.zeros(count + 1, np.int64),
        meets=np.zeros((count, count), bool),
        first_span=np.arange(count + 1, dtype=np.int64),
        skyline=np.zeros(0, np.int64),
        stale=np.zeros(0, np.int64),
        waiting=numbers(),
        ends=numbers(),
        starts=numbers(),
        weight=np.zeros(count),
        cursor=np.array([0, 0, INSERTION_TENURE], np.int64),
    )


def with_sections(rows: Rows, width: int) -> Rows:
    """The rows, with arrays for a window of this number of steps."""
    return rows._replace(skyline=np.zeros(width, np.int64), stale=np.zeros(width, np.int64))
