"""Lower bounds on the peak that need no search, each with a name a plan can cite."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cpplan.model.distinct import distinct
from cpplan.model.problem import Ints, Problem

LARGEST = "largest buffer"


class Bound(NamedTuple):
    """No plan has a peak below ``value`` bytes; ``step`` is where it is attained, if at one."""

    value: int
    name: str
    step: int | None = None


def lower_bound(problem: Problem) -> Bound:
    """The best of the bounds in this module."""
    bounds = (live_bytes_bound(problem), fixed_offset_bound(problem), largest_buffer_bound(problem))
    return max(bounds, key=lambda bound: bound.value)


def live_bytes_bound(problem: Problem) -> Bound:
    """The largest number of bytes live at one step, padding for alignment included.

    Take any alignment ``a`` and the buffers whose offsets must be multiples of it. If such buffers
    are live together, each occupies its size rounded up to ``a``, except that the padding of the
    topmost one may lie above the peak. So the rounded sizes live at a step, less the largest
    single padding, bound the peak. With ``a = 1`` this is memory pressure.

    O(n log n) for each distinct alignment.
    """
    best = Bound(0, "live bytes", None)
    for unit in distinct(np.append(problem.alignment, 1)).tolist():
        value, step = _rounded_pressure(problem, unit, best.value)
        if value > best.value:
            best = Bound(value, "live bytes", step)
    return best


def fixed_offset_bound(problem: Problem) -> Bound:
    """The highest end of a buffer whose offset is given."""
    ends = (offset + int(problem.size[row]) for row, offset in problem.fixed.items())
    return Bound(max(ends, default=0), "fixed offset", None)


def largest_buffer_bound(problem: Problem) -> Bound:
    """The size of the largest buffer: it counts in full even where gaps leave only part of it."""
    return Bound(int(problem.size.max(initial=0)), LARGEST, None)


def _rounded_pressure(problem: Problem, unit: int, floor: int) -> tuple[int, int | None]:
    """The live-bytes bound for one alignment and its step; ``floor, None`` if no larger."""
    spans = problem.spans
    # A window that starts off the grid may overlap its neighbour: leave it out.
    counted = (problem.alignment[spans.buffer] % unit == 0) & (spans.begin % unit == 0)
    lower, upper, held = (
        column[counted] for column in (spans.lower, spans.upper, spans.end - spans.begin)
    )
    rounding = -held % unit
    if not rounding.any():
        return _pressure(lower, upper, held, floor)
    times = distinct(np.concatenate([lower, upper]))
    first, last = np.searchsorted(times, lower), np.searchsorted(times, upper)
    change = np.zeros(len(times), np.int64)
    np.add.at(change, first, held + rounding)
    np.subtract.at(change, last, held + rounding)
    live: Ints = np.cumsum(change)
    if live.max() > floor:
        live -= largest_live(rounding, first, last, len(times))
    k = int(np.argmax(live))
    return (int(live[k]), int(times[k])) if live[k] > floor else (floor, None)


def _pressure(lower: Ints, upper: Ints, held: Ints, floor: int) -> tuple[int, int | None]:
    """The most bytes live at a step, and that step; ``floor, None`` if no larger.

    Live bytes are the bytes of spans that have started, less those of spans that have ended.
    """
    by_start, by_end = np.argsort(lower), np.argsort(upper)
    starts = lower[by_start]
    ended = np.concatenate([[0], np.cumsum(held[by_end])])
    live = np.cumsum(held[by_start]) - ended[np.searchsorted(upper[by_end], starts, side="right")]
    k = int(np.argmax(live)) if len(live) else 0
    return (int(live[k]), int(starts[k])) if len(live) and live[k] > floor else (floor, None)


def largest_live(values: Ints, first: Ints, last: Ints, count: int) -> Ints:
    """For each of ``count`` steps, the largest value of the ranges ``first:last`` that cover it.

    Ranges are taken by decreasing value, and each paints its blank cells. Links that skip painted
    cells make sure that no cell is visited twice: O(n log n + count).
    """
    painted = np.zeros(count, np.int64)
    blank = list(range(count + 1))

    def next_blank(k: int) -> int:
        end = k
        while blank[end] != end:
            end = blank[end]
        while blank[k] != end:
            blank[k], k = end, blank[k]
        return end

    for row in np.argsort(-values, kind="stable"):
        if values[row] == 0:
            break
        k = next_blank(int(first[row]))
        while k < last[row]:
            painted[k] = values[row]
            blank[k] = k + 1
            k = next_blank(k)
    return painted
