"""The least share of a tensor that is live when shares of two ops are done.

A position of a tensor is live from the step that writes it until all steps that read it have run.
Let an op read a tensor along one or two axes. The positions read form a grid of ``R1`` by ``R2``,
and ``t`` of them are common to neighbouring steps of an axis: the halo.

*Halos.* Of ``N`` positions let ``s`` be dead: all steps that read them have run. These steps have
read more positions, which the tensor must hold. Along one axis they are ``min(t, N - s)`` more. In
a grid, moving all dead positions to the beginning of their row, and then of their column, does not
increase the positions that their steps read. Then the dead positions fill a staircase of ``a``
columns and ``b`` rows, and what their steps read beyond it is

* ``t2 a + t1 b + t1 t2 >= 2 sqrt(t1 t2 s) + t1 t2`` if neither reaches the border,
* at least ``t1 R2`` or ``t2 R1`` if one of them does,
* ``N - s`` if everything has been read, or else as much as the first bound for the positions that
  have not been read, whose steps read nothing of the dead ones.

The least of these four is :func:`halo`; it is 0 along more than two axes. It bounds what a set of
steps reads beyond its own number in the same way, with the halo that one side of a step reads.

*Sums.* An op may add up its terms piece by piece. A position may then be dead before all steps that
read it have run, if sums of these steps are held instead. Let a line of steps be partly done. Two
neighbours, one done and the other not, have read common positions; these are live, or the sum of
the one that is not done. So each such line holds the smaller of the two. If along one axis some
lines are done and some not begun, all lines along the other axis are partly done. Else the lines
that are partly done cross at all steps done, or at all that are not: of ``N`` steps and a share
``f`` that is done, ``m1`` and ``m2`` lines with ``m1 m2 >= N min(f, 1 - f)``.

Several steps may read the same positions, as those of all output channels. If some of them are done
the sums of the others are enough, so that each counts by itself: a place where a share of the steps
is done has this share of its bytes dead, and a line holds the sum of one step. Shares of the steps
of one channel may differ from ``f``. Either one of them is between ``r`` and ``1 - r``, or two of
them differ by ``1 - 2 r``, and so many places hold a sum. The lines are then fewest for
``r = 1 / 4``.

*Shares.* A tensor is live at least at what is written and not dead, and at its halo. What is dead
is limited by the steps done. Shares are intervals between multiples of ``1 / parts``, and the
values are least ones over such intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cpplan.model.axes import Window

Floats = npt.NDArray[np.float64]
# Most steps along an axis, and positions by which those of one step may exceed the mean.
MOST_STEPS, _MOST_UNEVEN = 1024, 64
# Rounding of shares.
_ROUNDING = 1e-12


class Reach(NamedTuple):
    """The positions of a tensor's axis that the steps along one axis of an op read.

    Attributes
    ----------
    steps, extent
        Number of steps, and of positions of the tensor's axis.
    read
        Positions that some step reads.
    most, least
        If the positions read are divided among the steps that read them, also in parts: the most
        that one step gets, and the least.
    common
        Fewest positions that two neighbouring steps read.
    beyond
        Positions that some steps, but not all, read at least beyond their own number; 0 if steps
        and positions are not as many.
    """

    steps: int
    extent: int
    read: int
    most: float
    least: float
    common: int
    beyond: int


@lru_cache(maxsize=4096)
def reach(window: Window, steps: int, extent: int) -> Reach | None:
    """The positions that steps read, or ``None`` if that is not regular enough.

    It is not if a step reads nothing, if there are both gaps and halos, or if there are too many
    steps.
    """
    if steps > MOST_STEPS:
        return None
    pairs = [window.interval(k, k + 1, extent) for k in range(steps)]
    low, high = np.array(pairs, np.int64).reshape(steps, 2).T
    if (low >= high).any():
        return None
    common = high[:-1] - low[1:]
    if (common < 0).any():
        if (common > 0).any():
            return None
        own = high - low
        return Reach(steps, extent, int(own.sum()), int(own.max()), int(own.min()), 0, 0)
    read = int(high[-1] - low[0])
    most = -(-read // steps)
    until = most + _MOST_UNEVEN
    while (own := _own_positions(low, high, most)) is None:
        most += 1
        if most > until:
            return None
    # Positions that belong to the first, or to the last, step that reads them.
    first, last = np.diff(high, prepend=low[0]), np.diff(low, append=high[-1])
    # Divided evenly: a position among the steps that read it, a step among what it reads.
    readers = _covered(low, high, np.ones(steps), extent)
    each = np.cumsum(np.r_[0.0, 1.0 / np.maximum(readers, 1.0)])
    evenly = float((each[high] - each[low]).max()) * (1 + _ROUNDING)
    taken = float(_covered(low, high, 1.0 / (high - low), extent).max()) * (1 + _ROUNDING)
    least = max(min(own), int(first.min()), int(last.min()), 1.0 / taken)
    beyond = 0
    if read == steps > 1:
        beyond = min(int((high[n - 1 :] - low[: steps - n + 1]).min()) - n for n in range(1, steps))
    least_common = int(common.min()) if steps > 1 else 0
    return Reach(steps, extent, read, min(most, evenly), least, least_common, max(0, beyond))


def _covered(
    low: npt.NDArray[np.int64], high: npt.NDArray[np.int64], weight: Floats, extent: int
) -> Floats:
    """Sum of the weights of the intervals that cover each position."""
    changes = np.zeros(extent + 1)
    np.add.at(changes, low, weight)
    np.add.at(changes, high, -weight)
    return np.cumsum(changes)[:extent]


def _own_positions(
    low: npt.NDArray[np.int64], high: npt.NDArray[np.int64], most: int
) -> list[int] | None:
    """Positions that belong to each step, at most ``most``; ``None`` if that leaves some out."""
    at, own = int(low[0]), []
    needed = [*low[1:].tolist(), int(high[-1])]
    for until, need in zip(high.tolist(), needed, strict=True):
        end = max(at, min(at + most, until))
        if end < need:
            return None
        own.append(end - at)
        at = end
    return own


def halo(positions: Floats, axes: Sequence[tuple[int, int]]) -> Floats:
    """Positions that must be held beside a number of dead ones."""
    left: Floats = np.maximum(0.0, math.prod(length for length, _ in axes) - positions)
    if len(axes) == 1:
        return np.minimum(left, axes[0][1])
    if len(axes) != 2:
        return np.zeros_like(positions)
    (rows, over_rows), (columns, over_columns) = axes
    both = over_rows * over_columns
    corner = 2 * np.sqrt(both * positions) + both
    # The largest x with x <= 2 sqrt(both (left - x)) + both.
    other = 2 * np.sqrt(both * left) - both
    line = min(over_rows * columns, over_columns * rows)
    found: Floats = np.clip(np.minimum(np.minimum(corner, other), line), 0.0, left)
    return found


def bounds_of_shares(parts: int) -> tuple[Floats, Floats]:
    """Lower and upper ends of the intervals of shares; the first and the last are 0 and 1."""
    ends = np.arange(parts + 1) / parts
    return np.r_[0.0, ends[:-1], 1.0], np.r_[0.0, ends[1:], 1.0]


@lru_cache(maxsize=256)
def live_shares(axes: tuple[Reach, ...], halos: bool, sums: int, parts: int) -> Floats:
    """Least share of a tensor that is live, by the share written and the share of the reader done.

    Parameters
    ----------
    axes
        The axes along which the op's steps read parts of the tensor.
    halos
        True if the halo counts.
    sums
        Steps that read the same positions, if sums of those that are not done may be held instead;
        else 0.
    parts
        Number of intervals of shares.

    Returns
    -------
    numpy.ndarray
        A square of numbers, ``inf`` where the op cannot have come so far.
    """
    low, high = bounds_of_shares(parts)
    axes = tuple(axis for axis in axes if axis.steps > 1 or axis.read < axis.extent)
    grid = math.prod(axis.read for axis in axes)
    unread = math.prod(axis.extent for axis in axes) - grid
    steps = math.prod(axis.steps for axis in axes)
    most = math.prod(axis.most for axis in axes) * steps / grid
    least = math.prod(axis.least for axis in axes) * steps / grid
    same = steps > 1 and all(axis.read == axis.steps and axis.most == 1 for axis in axes)
    written = np.maximum(0.0, (low * (grid + unread) - unread) / grid)
    at_most = np.minimum(1.0, high * (grid + unread) / grid)
    held, beyond = np.zeros((2, len(low)))
    if halos and steps > 1 and not sums:
        held = _least_halo([(axis.read, axis.common) for axis in axes], low, high) / grid
    if halos and same:
        beyond = _least_halo([(axis.read, axis.beyond) for axis in axes], low, high) / grid
    # Share read by a share of the steps, which grows with it.
    reads = (
        np.minimum.accumulate(np.minimum(1.0, low + beyond)[::-1])[::-1] if same else least * low
    )
    live = np.maximum(np.maximum(0.0, written[:, None] - high[None, :]), held[None, :])
    live[low[None, :] > at_most[:, None]] = np.inf
    live = np.minimum.accumulate(live, axis=1)
    # In the first interval after 0, one position at least is dead, or a part of it.
    first = 0.0 if sums > 1 else 1.0 / grid
    needs = np.where(high > 0.0, np.maximum(low, first), 0.0) + (0.0 if sums else beyond)
    done = np.minimum(1.0, most * high)
    if steps == 1:
        reads = (high > 0.0) * 1.0
        done = high if sums > 1 else (high >= 1.0) * 1.0
    # The last interval of dead positions that the steps done may leave.
    last = np.array([np.flatnonzero(needs <= top + _ROUNDING).max() for top in done])
    found = live[:, last]
    found[at_most[:, None] < reads[None, :] - _ROUNDING] = np.inf
    return found * (grid / (grid + unread))


def held_by_lines(axes: Sequence[Reach], line: Sequence[float], sums: int, parts: int) -> Floats:
    """Least bytes that lines of steps hold which are partly done, by the share of the steps done.

    ``line`` has the bytes that such a line along each axis holds; ``sums`` is as above.
    """
    low, high = bounds_of_shares(parts)
    used = [(axis.steps, held) for axis, held in zip(axes, line, strict=True) if axis.steps > 1]
    open_ = (high > 0.0) & (low < 1.0)
    if len(used) == 1:
        return np.where(open_, used[0][1], 0.0)
    if len(used) != 2:
        return np.zeros(len(low))
    (rows, by_row_axis), (columns, by_column_axis) = used
    count = rows * columns
    rest = np.minimum(np.maximum(low, 1 / count), 1 - np.minimum(high, 1 - 1 / count))
    if sums > 1:
        rest = np.minimum(rest, 0.25)
    crossing = np.sqrt(by_row_axis * by_column_axis * count * rest)
    straight = min(columns * by_row_axis, rows * by_column_axis)
    return np.where(open_, np.minimum(crossing, straight), 0.0)


def _least_halo(axes: list[tuple[int, int]], low: Floats, high: Floats) -> Floats:
    """Least halo over each interval of shares; 0 if nothing is dead.

    Each of the functions whose minimum it is grows, falls, or is constant, so that it is least at
    an end of the interval.
    """
    grid = math.prod(length for length, _ in axes)
    ends = (np.maximum(1.0, low * grid), np.maximum(1.0, high * grid))
    return np.where(high > 0.0, np.minimum(halo(ends[0], axes), halo(ends[1], axes)), 0.0)
