"""Fullest steps first, for a great many buffers, only few of them live at the fullest steps.

Where the live bytes are near their maximum, there is no room for holes; elsewhere a simple rule is
enough. So the buffers that are live at some full step are packed first. They fall into parts that
are never live together. The parts are small enough to try lowest-offset-first under many rankings,
until a part fits below the most live bytes. All other buffers follow by first fit, by decreasing
area, and fill the holes.

No list of all conflicting pairs is made; O(n × buffers live together).
"""

from __future__ import annotations

from itertools import pairwise, permutations
from math import factorial

import numpy as np
from numpy.typing import NDArray

from cpplan.model.distinct import distinct
from cpplan.model.problem import Ints, Problem
from cpplan.packing import loops
from cpplan.packing.heuristics.by_lowest_offset import PREORDERS, preorder
from cpplan.packing.heuristics.fit_index import fit_index, place_in_turn
from cpplan.packing.heuristics.registered import register
from cpplan.packing.heuristics.skyline import Skyline
from cpplan.packing.tuning import active
from cpplan.runtime.compiled import prepare_all
from cpplan.runtime.deadline import Deadline, TimeUpError

# Fullest first: share of the time left for further rankings of a part; the rest is for placing
# the other buffers.
_RANKINGS_SHARE = 0.3
# Placements of a part after its first ranking, and those under shuffled rankings, in buffers.
_PLACED_ROWS = 300_000
_SHUFFLED_ROWS = 100_000
# Standard deviations of ranks in shuffled rankings, as shares of their number.
_SHUFFLED_RANKS = (0.01, 0.03, 0.1)

# Rows in a block of the order in which the other buffers are placed; a block fits into a cache.
_ROWS_A_BLOCK = 4096
_SECONDS_A_PLACEMENT = 2e-6


@register("fullest_first")
def fullest_first(problem: Problem, deadline: Deadline) -> Ints:
    """Pack parts around the fullest steps by lowest offset, then all others by first fit."""
    if not prepare_all((loops.MANY_BUFFERS, loops.SKYLINE), deadline):
        raise TimeUpError
    live, first, last = _padded_profile(problem)
    target = int(live.max(initial=0))
    best, peak = None, None
    for share in active().full_steps:
        try:
            offset = _place(problem, live, first, last, live >= share * target, deadline)
        except TimeUpError:
            if best is None:
                raise
            break
        end = offset + problem.size
        if peak is None or end.max(initial=0) < peak:
            best, peak = offset, int(end.max(initial=0))
        if peak <= target:
            break
    assert best is not None  # the first pass ended, or raised
    return best


def _place(
    problem: Problem,
    live: Ints,
    first: Ints,
    last: Ints,
    full: NDArray[np.bool_],
    deadline: Deadline,
) -> Ints:
    """Offsets of one pass: first the buffers live at a full step, then the others."""
    from cpplan.packing.heuristics import fit_index_kernel as kernel

    part = _parts(full, first, last)
    part[list(problem.fixed)] = -1
    area = problem.size * (problem.upper - problem.lower).astype(float)
    block = _blocks(live, first, last)
    # First the parts, then buffers that are live across a cut between blocks, then block by block.
    order = np.lexsort((-area, block, part, part < 0))
    index = fit_index(problem, order)
    count = int((part >= 0).sum())
    offset, placed = np.zeros(len(problem), np.int64), np.zeros(len(problem), bool)
    if Skyline.applies_to(problem):
        target = int(live.max(initial=0))
        offset[:count] = _place_parts(problem, order[:count], part, target, deadline)
        placed[:count] = True
    elif problem.fixed:
        rows = np.array(list(problem.fixed), np.int64)
        place = np.argsort(order)[rows]
        offset[place], placed[place] = list(problem.fixed.values()), True
    kernel.insert_all(index, np.flatnonzero(placed), offset)
    place_in_turn(index, offset, placed, deadline)
    result = np.empty_like(offset)
    result[order] = offset
    return result


def _place_parts(problem: Problem, rows: Ints, part: Ints, target: int, deadline: Deadline) -> Ints:
    """Offsets of ``rows``, which are sorted by part."""
    edges = np.concatenate([[0], np.flatnonzero(np.diff(part[rows])) + 1, [len(rows)]])
    ends = pairwise(edges.tolist())
    tries_end = deadline.share(_RANKINGS_SHARE)
    parts = [
        _place_part(problem.subset(rows[a:b]), target, deadline, tries_end)
        for a, b in ends
        if a < b
    ]
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _place_part(part: Problem, target: int, deadline: Deadline, tries_end: Deadline) -> Ints:
    """Offsets by the first ranking that meets the target, or by the best ranking tried.

    The rankings are the preorders, then all others of a part of few buffers; of larger parts, the
    best ranking so far with its ranks shuffled a little.
    """
    skyline, random = Skyline(part, deadline), np.random.default_rng(0)
    best, peak = np.zeros(0, np.int64), None
    leader = np.arange(len(part))
    shuffled = int(_SHUFFLED_ROWS / len(part))
    # Large parts get few rankings, to leave time for the others; later searches improve on them.
    tries = min(len(PREORDERS) + shuffled, 1 + int(_PLACED_ROWS / len(part)))
    # 20! exceeds any number of tries.
    few = factorial(min(len(part), 20)) <= shuffled
    others = permutations(range(len(part)))
    for k in range(tries):
        if k < len(PREORDERS):
            ranked = preorder(part, PREORDERS[k])
        elif not few:
            noise = random.normal(0, random.choice(_SHUFFLED_RANKS) * len(part), len(part))
            ranked = leader[np.argsort(np.arange(len(part)) + noise)]
        elif other := next(others, None):
            ranked = np.array(other)
        else:
            break
        deadline.check(_SECONDS_A_PLACEMENT * len(part))
        offset = skyline.place(ranked, peak, deadline)
        if offset is None:
            continue
        best, leader, peak = offset, ranked, int((offset + part.size).max())
        if peak <= target or tries_end.expired():
            break
    return best


def _padded_profile(problem: Problem) -> tuple[Ints, Ints, Ints]:
    """Live bytes with sizes rounded up to alignments, and the first and last index of each row.

    Steps are replaced by ranks if there are many more steps than rows. Gaps count as live.
    """
    lower, upper = problem.lower, problem.upper
    if int(upper.max(initial=0)) > 2 * len(problem) + 2:
        times = distinct(np.concatenate([lower, upper]))
        lower, upper = np.searchsorted(times, lower), np.searchsorted(times, upper)
    padded = -(-problem.size // problem.alignment) * problem.alignment
    change = np.zeros(int(upper.max(initial=0)) + 1, np.int64)
    np.add.at(change, lower, padded)
    np.subtract.at(change, upper, padded)
    return np.cumsum(change), lower, upper


def _parts(full: np.ndarray, first: Ints, last: Ints) -> Ints:
    """Part of each row that is live at a full step; -1 for all others."""
    steps_before = np.concatenate([[0], np.cumsum(full)])
    rows = np.flatnonzero(steps_before[last] > steps_before[first])
    part = np.full(len(first), -1, np.int64)
    rows = rows[np.argsort(first[rows], kind="stable")]
    reach = np.maximum.accumulate(last[rows])
    starts_part = np.ones(len(rows), bool)
    starts_part[1:] = first[rows][1:] >= reach[:-1]
    part[rows] = np.cumsum(starts_part) - 1
    return part


def _blocks(live: Ints, first: Ints, last: Ints) -> Ints:
    """Block of time that contains each row's lifespan; -1 for rows live across a cut.

    Cuts are made at steps with few live bytes, so that few rows are live across them.
    """
    about = np.sort(first)[_ROWS_A_BLOCK // 2 :: _ROWS_A_BLOCK].tolist()
    cuts = [a + int(np.argmin(live[a:b])) for a, b in pairwise(about) if a < b]
    block = np.searchsorted(cuts, first, side="right")
    return np.where(block == np.searchsorted(cuts, last - 1, side="right"), block, -1)
