"""Parts of a tensor that must be live, for shares of the steps that write and read it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from cpplan.model.axes import Window

Floats = npt.NDArray[np.float64]
_TINY, _PARTS_TINY = 1e-9, 1e-13
_MOST_STEPS, _MOST_UNEVEN = 1024, 66


@dataclass(frozen=True)
class Steps:
    """Positions that the steps along one axis of an op read, of ``extent``.

    Attributes
    ----------
    read
        Positions that some step reads.
    most, least
        Bounds on the positions of one step, if those that are read are divided among the steps that
        read them, whole or in parts.
    common
        Halo of neighbouring steps.
    beyond
        Positions that one side of a step reads beyond its own, if there are as many as steps.
    """

    count: int
    extent: int
    read: int
    most: float
    least: float
    common: int
    beyond: int


def steps_of(window: Window, count: int, extent: int) -> Steps | None:
    """The positions that steps read; ``None`` if they are too many or not regular.

    A step that reads nothing is not regular, and neither are steps with both gaps and halos.
    """
    if count > _MOST_STEPS:
        return None
    spans = [window.interval(k, k + 1, extent) for k in range(count)]
    if any(start == stop for start, stop in spans):
        return None
    halos = [a[1] - b[0] for a, b in pairwise(spans)]
    if min(halos, default=0) < 0:
        if max(halos) > 0:
            return None
        sizes = [stop - start for start, stop in spans]
        return Steps(count, extent, sum(sizes), max(sizes), min(sizes), 0, 0)
    starts, stops = (np.array(column) for column in zip(*spans, strict=True))
    read = int(stops[-1] - starts[0])
    first = max(1, read // count)
    most = next((m for m in range(first, first + _MOST_UNEVEN) if _divided(spans, m)), None)
    if most is None:
        return None
    earliest, latest = np.diff(stops, prepend=starts[0]), np.diff(starts, append=stops[-1])
    # Divided in parts, one position goes evenly to its readers, and one step to its positions.
    reads = np.zeros((count, extent))
    for step, (start, stop) in zip(reads, spans, strict=True):
        step[start:stop] = 1.0
    each = np.maximum(reads.sum(axis=0), 1.0)
    part = float((reads / each).sum(axis=1).max()) * (1 + _PARTS_TINY)
    share = float((reads / reads.sum(axis=1, keepdims=True)).sum(axis=0).max()) * (1 + _PARTS_TINY)
    least = max(min(_divided(spans, most)), int(earliest.min()), int(latest.min()), 1 / share)
    beyond = 0
    if count == read and count > 1:
        runs = (stops[n - 1 :] - starts[: count - n + 1] for n in range(1, count))
        beyond = max(0, min(int(run.min()) - n for n, run in enumerate(runs, start=1)))
    return Steps(count, extent, read, min(most, part), least, min(halos, default=0), beyond)


def _divided(spans: Sequence[tuple[int, int]], most: int) -> list[int]:
    """Positions of each step, at most ``most``, as early as possible; empty if some are left."""
    begin, sizes = spans[0][0], []
    for k, (_, stop) in enumerate(spans):
        end = max(begin, min(begin + most, stop))
        if end < (spans[k + 1][0] if k + 1 < len(spans) else stop):
            return []
        sizes.append(end - begin)
        begin = end
    return sizes


def least_halo(dead: Floats, axes: Sequence[tuple[int, int]]) -> Floats:
    """Positions read and not dead, at the least, beside a number of dead ones (at least one)."""
    if not axes or len(axes) > 2:
        return np.zeros_like(dead)
    alive: Floats = np.maximum(0.0, math.prod(length for length, _ in axes) - dead)
    if len(axes) == 1:
        return np.minimum(alive, axes[0][1])
    (m, s), (n, t) = axes
    # Neither side of the dead positions is at the border; all positions beyond them; a whole line.
    inner = 2 * np.sqrt(s * t * dead) + s * t
    outer = np.maximum(0.0, 2 * np.sqrt(s * t * alive) - s * t)
    found: Floats = np.minimum(np.minimum(inner, outer), np.minimum(alive, min(s * n, t * m)))
    return found


@lru_cache(maxsize=64)
def live_parts(axes: tuple[Steps, ...], halos: bool, sums: int, parts: int) -> Floats:
    """Least part of a tensor that is live, for shares that its maker and its reader have done.

    If ``sums`` is not 0, that many steps read the same positions, and sums of those that are not
    done may be held instead.
    """
    ends = np.arange(parts + 1) / parts
    low, high = np.r_[0.0, ends[:-1], 1.0], np.r_[0.0, ends[1:], 1.0]
    axes = tuple(axis for axis in axes if axis.count > 1 or axis.read < axis.extent)
    whole, read = (math.prod(getattr(a, field) for a in axes) for field in ("extent", "read"))
    count = math.prod(axis.count for axis in axes)
    most, least = (math.prod(getattr(a, f) for a in axes) * count / read for f in ("most", "least"))
    level = count > 1 and all(axis.count == axis.read and axis.most == 1 for axis in axes)

    def halo(field: str) -> Floats:
        lines = [(axis.read, getattr(axis, field)) for axis in axes]
        ends = [least_halo(np.maximum(1.0, share * read), lines) / read for share in (low, high)]
        return np.where(high > 0, np.minimum(*ends), 0.0) if halos and count > 1 else 0.0 * low

    side = halo("beyond") if level else 0.0 * low
    held = 0.0 * low if sums else halo("common")
    first = np.maximum(0.0, low * whole - (whole - read)) / read
    last = np.minimum(1.0, high * whole / read)
    # Live bytes, if dead ones are a share: what is written and not dead, or the halo.
    live = np.maximum(np.maximum(0.0, first[:, None] - high), held)
    live = np.minimum.accumulate(np.where(low <= last[:, None], live, np.inf), axis=1)
    # What must have been done for positions to be dead, and been read for steps to be done.
    one = 0.0 if sums > 1 else 1 / read  # a part of a position may be dead, or at least one
    needed = np.where(high > 0, np.maximum(low, one), 0.0) + (0.0 if sums else side)
    wanted = least * low
    if level:
        wanted = np.minimum.accumulate(np.minimum(1.0, low + side)[::-1])[::-1]
    done = np.minimum(1.0, most * high)
    if count == 1:
        done, wanted = high if sums > 1 else np.floor(high), np.ceil(high)
    until = [int(np.flatnonzero(needed <= share + _TINY).max()) for share in done]
    possible = last[:, None] >= wanted - _TINY
    table: Floats = np.where(possible, live[:, until], np.inf) * read / whole
    return table


def held_in_lines(counts: Sequence[int], line: Sequence[float], sums: int, parts: int) -> Floats:
    """Least bytes held where lines of steps are partly done, for shares of all steps done.

    Two neighbours in such a line, one done and one not, hold ``line[k]`` bytes along axis ``k``. If
    several ``sums`` belong to a place, they are partly done at a quarter of them at the most.
    """
    ends = np.arange(parts + 1) / parts
    used = [(count, held) for count, held in zip(counts, line, strict=True) if count > 1]
    found = np.zeros(parts + 2)
    if len(used) == 1:
        found[1:-1] = used[0][1]
    elif len(used) == 2:
        (m, p), (n, q) = used
        # Done steps, or the others, lie where lines cross that are partly done.
        part = np.minimum(np.minimum(ends[:-1], 1 - ends[1:]), 0.25 if sums > 1 else 0.5)
        few = np.maximum(min(1.0, m * n * 0.25) if sums > 1 else 1.0, m * n * part)
        found[1:-1] = np.minimum(np.sqrt(p * q * few), min(n * p, m * q))
    return found
