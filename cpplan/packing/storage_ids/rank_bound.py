"""The lower bound on the bytes of all storages that needs no search."""

from __future__ import annotations

import numpy as np

from cpplan.model.problem import Ints, Problem
from cpplan.packing.bounds import Bound

NAME = "live buffers by rank"


def rank_bound(problem: Problem, group: Ints) -> Bound:
    """Sum over ranks k of the largest k-th largest live buffer, bytes; groups add up.

    If c buffers of at least v bytes are live at once, they lie in c storages of at least v bytes.
    So the k-th largest storage is at least as large as the k-th largest buffer live at any step:
    Pisarchyk and Lee's *positional maximum* (2020). The sum of these is at least the live bytes of
    every step, which is the same sum with one step for all ranks. A buffer counts with its full
    size, even while a gap leaves it only a window.

    O(n) numpy work for each distinct size.
    """
    total = 0
    for label in np.unique(group).tolist():
        total += int(positional_maxima(problem.subset(np.flatnonzero(group == label))).sum())
    return Bound(total, NAME, None)


def positional_maxima(problem: Problem) -> Ints:
    """For every rank k, the size of the largest k-th largest live buffer, shape ``(ranks,)``."""
    spans = problem.spans
    held = np.flatnonzero(spans.end > spans.begin)
    # Several windows of one gap are one buffer.
    again = np.diff(spans.buffer[held], prepend=-1) == 0
    held = held[~(again & (np.diff(spans.lower[held], prepend=-1) == 0))]
    size = problem.size[spans.buffer[held]]
    times = np.unique(np.concatenate([spans.lower[held], spans.upper[held]]))
    first = np.searchsorted(times, spans.lower[held])
    last = np.searchsorted(times, spans.upper[held])
    change = np.zeros(len(times), np.int64)
    # Even a buffer that never holds a byte needs a storage of its size.
    maxima = [int(problem.size.max())] if len(problem) else []
    by_size = np.argsort(-size, kind="stable")
    begins = np.flatnonzero(np.diff(size[by_size], prepend=-1))
    for rows in np.split(by_size, begins)[1:]:
        # How many of at least this size are live at once.
        np.add.at(change, first[rows], 1)
        np.add.at(change, last[rows], -1)
        depth = int(np.cumsum(change).max(initial=0))
        maxima += [int(size[rows[0]])] * (depth - len(maxima))
    return np.array(maxima, np.int64)
