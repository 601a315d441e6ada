"""The step at which a plan fills most bytes, and whose bytes these are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cpplan.plan import Plan
from cpplan.problem import Ints, Problem


class LiveTensor(NamedTuple):
    """A buffer that holds bytes at the fullest step.

    Attributes
    ----------
    name
        Of the buffer: the tensor whose storage it is.
    size
        Bytes it holds at this step.
    own
        Of these, the ones that no larger buffer holds too.
    share
        ``own`` over all bytes filled at this step.
    lower, upper
        Its lifespan.
    offset
        Where it lies, or ``None`` if there is no plan.
    pool
        Name of the pool.
    within
        The larger buffer with which it shares bytes by choice, if any.
    """

    name: str
    size: int
    own: int
    share: float
    lower: int
    upper: int
    offset: int | None
    pool: str
    within: str | None


class FullestStep(NamedTuple):
    """What is live at one step.

    Attributes
    ----------
    step
        ``None`` if nothing is ever live.
    op, kind
        Name and kind of the op that runs then, where known.
    filled
        Bytes that are filled: those that several buffers share by choice count once.
    tensors
        Whose bytes these are, the largest first.
    """

    step: int | None
    op: str | None
    kind: str | None
    filled: int
    tensors: tuple[LiveTensor, ...]


def find_fullest_step(plan: Plan) -> int | None:
    """The first step with the most bytes filled. O(n log n), and more where bytes are shared.

    Examples
    --------
    >>> import numpy as np
    >>> columns = dict(lower=np.array([0, 1]), upper=np.array([2, 3]), size=np.array([4, 8]))
    >>> find_fullest_step(Plan("p", "unknown", ("a", "b"), offset=None, **columns))
    1
    """
    times, live = _live_profile(plan)
    best, step = 0, None
    # What is filled is at most what is live: most steps need no closer look.
    for k in np.argsort(-live, kind="stable").tolist():
        if live[k] <= best:
            break
        filled = _filled_at(plan, int(times[k]), int(live[k]))
        if filled > best:
            best, step = filled, int(times[k])
    return step


def filled_profile(plan: Plan) -> tuple[Ints, Ints]:
    """Steps at which the live set changes, and the bytes filled from each to the next.

    Examples
    --------
    >>> columns = dict(lower=np.array([0, 1]), upper=np.array([2, 3]), size=np.array([4, 8]))
    >>> plan = Plan("p", "unknown", ("a", "b"), offset=None, **columns)
    >>> [column.tolist() for column in filled_profile(plan)]
    [[0, 1, 2, 3], [4, 12, 8, 0]]
    """
    times, live = _live_profile(plan)
    filled = [_filled_at(plan, *at) for at in zip(times.tolist(), live.tolist(), strict=True)]
    return times, np.array(filled, np.int64)


def _live_profile(plan: Plan) -> tuple[Ints, Ints]:
    problem = Problem(plan.buffers, plan.lower, plan.upper, plan.size, gaps=plan.gaps)
    return problem.live_profile()


def _filled_at(plan: Plan, step: int, live: int) -> int:
    """Bytes filled at a step: those live, but what is shared by choice counts once."""
    return live if not plan.relations else _filled(*_addresses(plan, step)[1:])


def live_tensors(plan: Plan, step: int) -> tuple[int, tuple[LiveTensor, ...]]:
    """Bytes filled at a step, and the buffers that fill them, the largest first."""
    rows, low, high = _addresses(plan, step)
    by_size = np.argsort(low - high, kind="stable")
    filled = _filled(low, high)
    own, within = _own_bytes(low[by_size], high[by_size])
    tensors = []
    for k, place in enumerate(by_size.tolist()):
        row = int(rows[place])
        tensors.append(
            LiveTensor(
                name=plan.buffers[row],
                size=int(high[place] - low[place]),
                own=own[k],
                share=own[k] / filled,
                lower=int(plan.lower[row]),
                upper=int(plan.upper[row]),
                offset=None if plan.offset is None else int(plan.offset[row]),
                pool=plan.pools[int(plan.pool[row])].name,
                within=None if within[k] is None else plan.buffers[rows[by_size[within[k]]]],
            )
        )
    return filled, tuple(tensors)


def _addresses(plan: Plan, step: int) -> tuple[Ints, Ints, Ints]:
    """Rows of what holds bytes at a step, and its addresses, with pools one above the other.

    Without offsets nothing is shared: they then lie one above the other.
    """
    spans = plan.spans
    here = (spans.lower <= step) & (step < spans.upper) & (spans.begin < spans.end)
    rows, begin, end = spans.buffer[here], spans.begin[here], spans.end[here]
    if plan.offset is None:
        top = np.cumsum(end - begin)
        return rows, top - (end - begin), top
    peaks = np.zeros(len(plan.pools), np.int64)
    np.maximum.at(peaks, plan.pool, plan.offset + plan.size)
    base = (np.cumsum(peaks) - peaks)[plan.pool[rows]] + plan.offset[rows]
    return rows, base + begin, base + end


def _filled(low: Ints, high: Ints) -> int:
    """Bytes of the union of address ranges."""
    by_address = np.argsort(low, kind="stable")
    low, high = low[by_address], high[by_address]
    top = np.maximum.accumulate(high)
    below = np.concatenate([[0], top[:-1]])
    return int(np.maximum(top - np.maximum(low, below), 0).sum())


def _own_bytes(low: Ints, high: Ints) -> tuple[list[int], list[int | None]]:
    """For each range, bytes that are in none before it, and one before it that shares the rest."""
    edges = np.unique(np.concatenate([low, high]))
    width = np.diff(edges)
    first, last = np.searchsorted(edges, low), np.searchsorted(edges, high)
    owner = np.full(len(width), -1)
    own: list[int] = []
    within: list[int | None] = []
    for k, (begin, end) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        piece = owner[begin:end]
        free = piece < 0
        own.append(int(width[begin:end][free].sum()))
        within.append(None if free.all() else int(piece[~free][0]))
        piece[free] = k
    return own, within
