"""Rectangles of steps × bytes that buffers fill: their overlaps, and bounds on their peak."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from cpplan.model.errors import VerificationError
from cpplan.model.problem import Ints, Problem
from cpplan.runtime.compiled import load
from cpplan.verification.loops import SWEEP

# Number of rectangles above which a compiled sweep first tells if any two overlap: loading it, and
# even compiling it, takes less time than the sweep in Python.
_MANY = 5_000


class Rectangles(NamedTuple):
    """Rectangles that buffers fill, one row each, with bytes relative to the buffer's offset."""

    buffer: Ints
    lower: Ints
    upper: Ints
    begin: Ints
    end: Ints


def cut_gaps(problem: Problem) -> Rectangles:
    """Rectangles that the buffers fill outside their gaps; none is empty."""
    has_gaps = np.zeros(len(problem), bool)
    has_gaps[[*problem.gaps]] = True
    whole = np.flatnonzero(~has_gaps)
    rows = [
        whole,
        problem.lower[whole],
        problem.upper[whole],
        np.zeros(len(whole), np.int64),
        problem.size[whole],
    ]
    pieces: list[tuple[int, int, int, int, int]] = []
    for row, gaps in problem.gaps.items():
        lower, upper, size = (int(c[row]) for c in (problem.lower, problem.upper, problem.size))
        # Gaps with the same steps are one gap with several windows.
        windows: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for gap in gaps:
            windows.setdefault((gap.lower, gap.upper), []).append((gap.begin, gap.end))
        cuts = sorted({lower, upper, *(step for gap in gaps for step in (gap.lower, gap.upper))})
        # Gaps lie apart: between two neighbouring cuts the buffer is in one gap or in none.
        pieces += [
            (row, a, b, *held)
            for a, b in pairwise(cuts)
            for held in windows.get((a, b), [(0, size)])
        ]
    extra = np.array(pieces, np.int64).reshape(-1, 5)
    columns = [np.concatenate([column, extra[:, k]]) for k, column in enumerate(rows)]
    filled = columns[4] > columns[3]
    return Rectangles(*(column[filled] for column in columns))


def check_apart(rectangles: Rectangles, names: Sequence[str], offset: Ints) -> None:
    """Check that no byte belongs to two rectangles at one step; ``offset`` is by buffer."""
    found = find_overlap(rectangles, offset)
    if found is not None:
        raise overlap_error(rectangles, names, offset, *found)


def overlap_error(
    rectangles: Rectangles, names: Sequence[str], offset: Ints, one: int, other: int
) -> VerificationError:
    """Error for two rectangles, by position, that have a byte in common at a step."""
    (first, *one_bytes), (second, *other_bytes) = (
        (names[row], int(offset[row] + rectangles.begin[k]), int(offset[row] + rectangles.end[k]))
        for k, row in ((k, int(rectangles.buffer[k])) for k in (one, other))
    )
    step = max(rectangles.lower[one], rectangles.lower[other])
    return VerificationError(
        f"buffers {first!r} and {second!r} overlap at step {step}: bytes "
        f"{one_bytes[0]}..{one_bytes[1]} and {other_bytes[0]}..{other_bytes[1]}"
    )


def find_overlap(rectangles: Rectangles, offset: Ints) -> tuple[int, int] | None:
    """Positions of two rectangles that have a byte in common, at the first step at which any do.

    One sweep over the steps keeps the live rectangles sorted by address: while they are disjoint, a
    new one can only meet its two neighbours.
    """
    begin = offset[rectangles.buffer] + rectangles.begin
    end = offset[rectangles.buffer] + rectangles.end
    count = len(begin)
    if count > _MANY and all_apart(rectangles, offset):
        return None
    # Within a step: ends from the highest address down, then beginnings from the lowest up. If all
    # rectangles change at one step, the lists then grow and shrink at their end only.
    step = np.concatenate([rectangles.upper, rectangles.lower])
    rank = np.concatenate([-begin - 1, begin])
    events = np.lexsort((rank, step)).tolist()
    begins, ends = begin.tolist(), end.tolist()
    live: list[int] = []
    holder: dict[int, int] = {}
    for event in events:
        if event < count:
            live.pop(bisect_left(live, begins[event]))
            continue
        new = event - count
        place = bisect_left(live, begins[new])
        for neighbour in live[max(0, place - 1) : place + 1]:
            old = holder[neighbour]
            if begins[new] < ends[old] and begins[old] < ends[new]:
                return old, new
        live.insert(place, begins[new])
        holder[begins[new]] = new
    return None


def all_apart(rectangles: Rectangles, offset: Ints) -> bool:
    """True if no two rectangles have a byte in common at a step; the same sweep, compiled."""
    from cpplan.verification.sweep_kernel import sweep

    load(SWEEP)
    begin = offset[rectangles.buffer] + rectangles.begin
    end = offset[rectangles.buffer] + rectangles.end
    by_lower, by_upper = np.argsort(rectangles.lower), np.argsort(rectangles.upper)
    begins, rank = np.unique(begin, return_inverse=True)
    started, stopped = rectangles.lower[by_lower], rectangles.upper[by_upper]
    leaves = 1 << max(0, len(begins) - 1).bit_length()
    tree = np.zeros(2 * leaves, np.bool_), np.zeros(leaves, np.int64)
    ranks = rank[by_lower], rank[by_upper]
    return bool(sweep(started, ranks[0], stopped, ranks[1], begins, end[by_lower], *tree))


def check_bound(rectangles: Rectangles, alignment: Ints, bound: int) -> None:
    """Check that the bytes live at some step, padded for alignment, need ``bound`` bytes.

    If rectangles start at multiples of ``unit``, the starts of two neighbours are at least the
    lower one's rounded height apart; only the rounding of the topmost one may exceed the peak. So
    the sum of the rounded heights live at a step, less the largest rounding among them, is a lower
    bound.
    """
    proved = 0
    for unit in sorted({1, *alignment.tolist()}):
        aligned = alignment[rectangles.buffer] % unit == 0
        proved = max(proved, _pile(rectangles, aligned & (rectangles.begin % unit == 0), unit))
        if proved >= bound:
            return
    raise VerificationError(
        f"live bytes prove a lower bound of {proved} B, but the plan claims {bound} B"
    )


def _pile(rectangles: Rectangles, counted: np.ndarray, unit: int) -> int:
    """Most bytes that one step needs, counting rounded heights of these rectangles only."""
    lower, upper = rectangles.lower[counted], rectangles.upper[counted]
    height = (rectangles.end - rectangles.begin)[counted]
    rounding = -height % unit
    rounded = height + rounding
    step = np.concatenate([upper, lower])
    change = np.concatenate([-rounded, rounded])
    # Ends come before beginnings within a step: no partial sum exceeds the step's final sum.
    events = np.argsort(step, kind="stable")
    if not rounding.any():
        return int(np.max(np.cumsum(change[events]), initial=0))
    best = total = 0
    topmost: list[tuple[int, int]] = []
    uppers, roundings, changes = upper.tolist(), rounding.tolist(), change.tolist()
    steps = step.tolist()
    for event in events.tolist():
        total += changes[event]
        if event >= len(uppers):
            heappush(topmost, (-roundings[event - len(uppers)], uppers[event - len(uppers)]))
            while topmost[0][1] <= steps[event]:
                heappop(topmost)
            best = max(best, total + topmost[0][0])
    return best
