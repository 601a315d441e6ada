"""The compiled loop that separates retentions."""

# Arrays are described in ``separate``; the compiler infers their types.
# mypy: disable-error-code="no-untyped-def,no-any-return,untyped-decorator"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpplan.model.problem import Ints
from cpplan.runtime.loop_compiler import compiled_loop

# Prices that differ by less than this count as equal.
_SAME = 1e-6
_NEVER = 1 << 60


class Near(NamedTuple):
    """Ends of the retentions live at the same time as one, ascending, each with its weight."""

    lows: Ints
    highs: Ints
    rises: NDArray[np.float64]
    falls: NDArray[np.float64]


class Space(NamedTuple):
    """Retentions from their lower and from their upper ends on, and space for moves.

    Attributes
    ----------
    high
        Upper end of every retention.
    by_low, by_high, at_low, at_high
        Retentions by lower and by upper end, and the place of each in those orders.
    queue, waits
        Retentions to look at, all at first, and a flag for each in the queue.
    near
        Of the retention under way.
    """

    high: Ints
    by_low: Ints
    by_high: Ints
    at_low: Ints
    at_high: Ints
    queue: Ints
    waits: NDArray[np.bool_]
    near: Near


def space_for(low: Ints, size: Ints) -> Space:
    """Space for retentions that lie at these offsets."""
    count, high = len(low), low + size
    by_low, by_high = np.argsort(low, kind="stable"), np.argsort(high, kind="stable")
    at_low, at_high = np.empty(count, np.int64), np.empty(count, np.int64)
    at_low[by_low] = at_high[by_high] = np.arange(count)
    near = Near(
        lows=np.empty(count + 1, np.int64),
        highs=np.empty(count + 1, np.int64),
        rises=np.empty(count + 1, np.float64),
        falls=np.empty(count + 1, np.float64),
    )
    waits = np.ones(count, bool)
    return Space(high, by_low, by_high, at_low, at_high, np.arange(count), waits, near)


@compiled_loop
def separate(random, retentions, weight, low, best, limit, moves, space):
    """Move retentions to their cheapest offsets; returns the fewest bytes shared by pairs.

    Every byte that two retentions share costs the pair's weight. When no retention that shares
    bytes has a better offset, the weight of every pair that shares some rises by one.

    Parameters
    ----------
    random
        A ``numpy.random.Generator``.
    retentions
        ``(begin, end, size, alignment)``, each of shape ``(retentions,)``; ``end`` is exclusive.
    weight
        Weight of every pair, symmetric, zero on the diagonal, shape ``(retentions, retentions)``;
        updated.
    low
        The offset of every retention; updated.
    best
        Filled with the offsets that share least.
    limit
        Bytes; no retention ends above.
    moves
        Most retentions to visit.
    space
        As :func:`space_for` makes it.
    """
    begin, end, size, step = retentions
    n = len(size)
    high, by_low, by_high, at_low, at_high, queue, waits, near = space
    waiting = n
    shared = 0
    for i in range(n):
        shared += _shared(i, begin, end, low, high, low[i], high[i], i)
    least = shared
    for j in range(n):
        best[j] = low[j]
    for _ in range(moves):
        if shared == 0:
            break
        if waiting == 0:
            waiting = _raise(begin, end, low, high, by_low, weight, queue, waits)
        k = random.integers(0, waiting)
        waiting -= 1
        i, queue[k] = queue[k], queue[waiting]
        waits[i] = False
        price = 0.0
        for j in range(n):
            if low[j] < high[i] and high[j] > low[i] and begin[j] < end[i] and end[j] > begin[i]:
                price += weight[i, j] * (min(high[i], high[j]) - max(low[i], low[j]))
        if price <= _SAME:
            continue
        _near(i, begin, end, low, high, by_low, by_high, weight, near)
        offset, least_price = cheapest(random, size[i], step[i], limit - size[i], near)
        if least_price >= price - _SAME:
            continue
        top = offset + size[i]
        shared -= _shared(i, begin, end, low, high, low[i], high[i], n)
        shared += _shared(i, begin, end, low, high, offset, top, n)
        low[i], high[i] = offset, top
        _seat(by_low, at_low, low, i)
        _seat(by_high, at_high, high, i)
        for j in range(n):
            beside = begin[j] < end[i] and end[j] > begin[i] and low[j] < top and high[j] > offset
            if beside and j != i and not waits[j]:
                queue[waiting], waits[j] = j, True
                waiting += 1
        if shared < least:
            least = shared
            for j in range(n):
                best[j] = low[j]
    return least


@compiled_loop
def _shared(i, begin, end, low, high, bottom, top, count):
    """Bytes that a retention from bottom to top shares with the first ``count`` others."""
    total = 0
    for j in range(count):
        if j != i and begin[j] < end[i] and end[j] > begin[i]:
            total += max(0, min(top, high[j]) - max(bottom, low[j]))
    return total


@compiled_loop
def _raise(begin, end, low, high, by_low, weight, queue, waits):
    """Raise the weights of pairs that share bytes; return how many retentions wait then."""
    waiting = 0
    for place in range(len(by_low)):
        i = by_low[place]
        for other in range(place + 1, len(by_low)):
            j = by_low[other]
            if low[j] >= high[i]:
                break
            if high[j] > low[j] and begin[j] < end[i] and end[j] > begin[i]:
                weight[i, j] += 1
                weight[j, i] += 1
                for k in (i, j):
                    if not waits[k]:
                        queue[waiting], waits[k] = k, True
                        waiting += 1
    return waiting


@compiled_loop
def _near(i, begin, end, low, high, by_low, by_high, weight, near):
    """Set both ends of the retentions live at the same time as one, ascending, and the weights."""
    lows, highs, rises, falls = near
    first, last, prices = begin[i], end[i], weight[i]
    count = 0
    # No branches: which retentions live at the same time is hard to foresee.
    for j in by_low:
        lows[count], rises[count] = low[j], prices[j]
        count += np.int64(begin[j] < last) & np.int64(end[j] > first)
    lows[count], count = _NEVER, 0
    for j in by_high:
        highs[count], falls[count] = high[j], prices[j]
        count += np.int64(begin[j] < last) & np.int64(end[j] > first)
    highs[count] = _NEVER


@compiled_loop
def cheapest(random, size, step, top, near):
    """Offset with the least price for ``size`` bytes, a multiple of ``step``, and that price.

    The price is piecewise linear: as a retention moves up, the bytes it shares with another grow,
    are constant, and shrink. The pieces' ends are merged in order. Offsets are at most ``top``.
    """
    lows, highs, rises, falls = near
    meets, inside, leaves, past = 0, 0, 0, 0
    price, slope, here = 0.0, 0.0, -size - 1
    best, least, ties = 0, np.inf, 0
    while here < top:
        ends = lows[meets] - size, lows[inside], highs[leaves] - size, highs[past]
        there = min(min(ends[0], ends[1]), min(ends[2], ends[3]))
        first, last = max(here, 0), min(there, top)
        if first <= last:
            for offset in (-(-first // step) * step, last // step * step):
                if offset < first or offset > last:
                    continue
                at = price + slope * (offset - here)
                if at < least - _SAME:
                    best, least, ties = offset, at, 1
                elif at <= least + _SAME and offset != best:
                    ties += 1
                    if random.random() * ties < 1:
                        best = offset
        price += slope * (there - here)
        here = there
        if ends[0] == there:
            slope += rises[meets]
            meets += 1
        elif ends[3] == there:
            slope += falls[past]
            past += 1
        elif ends[1] == there:
            slope -= rises[inside]
            inside += 1
        else:
            slope -= falls[leaves]
            leaves += 1
    return best, least


@compiled_loop
def _seat(order, place, key, i):
    """Move one item to its place in an order by key."""
    k = place[i]
    while k > 0 and key[order[k - 1]] > key[i]:
        order[k] = order[k - 1]
        place[order[k]] = k
        k -= 1
    while k < len(order) - 1 and key[order[k + 1]] < key[i]:
        order[k] = order[k + 1]
        place[order[k]] = k
        k += 1
    order[k], place[i] = i, k
