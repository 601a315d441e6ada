"""Lower bounds on a pool's peak, from the live bytes that the other pools cannot hold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cpplan.model.problem import Ints, Problem
from cpplan.packing.bounds import LARGEST, Bound

# Subset sums are kept as bits of one integer. All shifts together move at most this many bits,
# which takes about 0.1 s.
MOST_BITS = 1 << 32

FIXED = "fixed offset"
LIVE, BEYOND = "live bytes", "live bytes beyond the other pools"


def least_peak(problem: Problem, pool: int, limits: Sequence[int | None]) -> Bound:
    """A bound on the peak of one pool, bytes, if the other pools keep within their limits.

    At every step the pool holds the live bytes that do not fit into the others. The others hold at
    most the largest sum of live sizes that is within their limits together. Buffers that fit into
    no other candidate pool always lie in this one.

    If all offsets are multiples of some ``a``, sizes and limits may be rounded up to ``a``. The
    largest padding in the pool is then subtracted, since it may lie above the peak.
    """
    others = [k for k in range(len(problem.pools)) if k != pool]
    movable = np.zeros(len(problem), bool)
    allowed = np.zeros(len(problem), bool)
    for row in range(len(problem)):
        candidates = problem.candidates_of(row)
        allowed[row] = pool in candidates
        movable[row] = any(_fits(problem, row, limits[k]) for k in candidates if k != pool)
    forced = np.flatnonzero(allowed & ~movable)
    best = Bound(0, BEYOND if others else LIVE)
    largest = int(problem.size[forced].max(initial=0))
    fixed = [row for row in forced.tolist() if row in problem.fixed]
    ends = [problem.fixed[row] + int(problem.size[row]) for row in fixed]
    apart = (
        Bound(largest, LARGEST),
        Bound(max(ends, default=0), FIXED),
    )
    # If another pool is unlimited, only buffers without another pool count.
    room = 0
    for k in others:
        limit = limits[k]
        if limit is None:
            allowed &= ~movable
        else:
            room += limit
    for unit in common_units(problem):
        best = _fullest_step(problem, best, allowed, movable, room, len(others), unit)
    return max((best, *apart), key=lambda bound: bound.value)


def _fits(problem: Problem, row: int, limit: int | None) -> bool:
    return limit is None or problem.fixed.get(row, 0) + int(problem.size[row]) <= limit


def common_units(problem: Problem) -> list[int]:
    """The number 1, and the alignment common to all offsets in all pools if it is larger."""
    pools = [pool.alignment for pool in problem.pools]
    own = np.unique(problem.alignment)
    return sorted({1, int(np.gcd.reduce([*np.lcm.outer(own, pools).ravel().tolist(), 0]) or 1)})


def _fullest_step(
    problem: Problem,
    best: Bound,
    allowed: np.ndarray,
    movable: np.ndarray,
    room: int,
    others: int,
    unit: int,
) -> Bound:
    """The bound of the step with the most bytes that cannot lie elsewhere, or ``best``."""
    spans = problem.spans
    counted = allowed[spans.buffer] & (spans.end > spans.begin) & (spans.begin % unit == 0)
    lower, upper, held, buffer = (
        column[counted] for column in (spans.lower, spans.upper, spans.end - spans.begin, spans[0])
    )
    padded = -(-held // unit) * unit
    moves = movable[buffer]
    times, live = live_profile(lower, upper, padded)
    _, forced = live_profile(lower, upper, np.where(moves, 0, padded))
    # A limit of another pool may lie anywhere within a unit.
    room += others * (unit - 1)
    plain = forced + np.maximum(0, live - forced - room)
    name, bits = (BEYOND if others else LIVE), MOST_BITS
    for k in np.lexsort((-live, -plain)).tolist():
        if live[k] <= best.value or (bits <= 0 and plain[k] <= best.value):
            continue
        here = (lower <= times[k]) & (times[k] < upper)
        goes = padded[here & moves].tolist()
        elsewhere = min(room, sum(goes))
        if elsewhere < sum(goes):
            step = int(np.gcd.reduce(goes))
            bits -= len(goes) * (room // step)
            elsewhere = largest_sum(goes, room, step) if bits > 0 else room
        value = int(live[k]) - elsewhere - int((padded - held)[here].max(initial=0))
        if value > best.value:
            best = Bound(value, name, int(times[k]))
    return best


def live_profile(lower: Ints, upper: Ints, held: Ints) -> tuple[Ints, Ints]:
    """Steps at which the live bytes change, and the bytes live from each on."""
    times = np.unique(np.concatenate([lower, upper]))
    change = np.zeros(len(times), np.int64)
    np.add.at(change, np.searchsorted(times, lower), held)
    np.add.at(change, np.searchsorted(times, upper), -held)
    return times, np.cumsum(change)


def largest_sum(sizes: Sequence[int], room: int, unit: int) -> int:
    """The largest subset sum of ``sizes``, all multiples of ``unit``, that is at most ``room``.

    An integer keeps one bit for every sum that can be reached.
    """
    mask, reached = (1 << (room // unit + 1)) - 1, 1
    for size in sizes:
        reached |= (reached << (size // unit)) & mask
    return (reached.bit_length() - 1) * unit
