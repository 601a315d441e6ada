"""An index of placed buffers by time, for a great many of them: who is in the way at these steps?

First fit of ``n`` buffers needs, for each, those placed before that are live together with it. A
list of conflicts says so, but at a million buffers it has a hundred million entries. Here a span of
a buffer is listed in *buckets* of time instead: on a level whose buckets are at least as wide as
the span is long, so that it lies in one or two of them. Looking up a range of steps reads the
buckets that it meets on every level; memory is linear in the spans whatever their lengths.

:func:`fit_index` lays out the buckets, empty; :mod:`cpplan.heuristics.fit_index_kernel` fills them:
``place(index, order, offset, placed)`` (first fit), ``insert``, ``remove``, ``lowest_fit`` and
``overlapping`` work on one row at a time. Gaps are spans like any other; alignments are kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cpplan.problem import Ints, Problem

# Levels differ in the width of their buckets by a factor of four.
LEVEL_BITS = 2
# On the finest level, a bucket has room for about so many spans.
_SPANS_A_BUCKET = 8


class FitIndex(NamedTuple):
    """Spans of buffers, and buckets with those of them that are placed.

    Attributes
    ----------
    first_span
        Row ``i``'s spans are ``first_span[i]:first_span[i + 1]``, shape ``(n + 1,)``.
    lower, upper
        Of a span, as ranks among all steps at which anything changes.
    begin, end
        Bytes of a span, relative to its buffer's offset.
    size, alignment
        Of a row.
    span_level
        The level that lists a span.
    shift, level_start
        Of a level: steps ``t`` lie in bucket ``level_start + (t >> shift)``.
    bucket_start, bucket_fill
        Where a bucket's entries start, and how many of them are in use.
    entry
        ``lower, upper, begin, end`` in one row, the last two as addresses, shape ``(entries, 4)``.
    entry_span
        The span that an entry lists.
    start, stop
        Scratch: offsets that are forbidden, one open interval a span in the way.
    """

    first_span: Ints
    lower: Ints
    upper: Ints
    begin: Ints
    end: Ints
    size: Ints
    alignment: Ints
    span_level: Ints
    shift: Ints
    level_start: Ints
    bucket_start: Ints
    bucket_fill: Ints
    entry: Ints
    entry_span: Ints
    start: Ints
    stop: Ints


def fit_index(problem: Problem) -> FitIndex:
    """An index in which nothing is placed yet. O(n log n) time, O(n) memory.

    Examples
    --------
    >>> problem = Problem(("a", "b"), lower=[0, 1], upper=[2, 900], size=[4, 8])
    >>> index = fit_index(problem)
    >>> index.upper.tolist(), int(index.bucket_fill.sum())
    ([2, 3], 0)
    """
    spans = problem.spans
    filled = spans.end > spans.begin
    buffer = spans.buffer[filled]
    times = np.unique(np.concatenate([spans.lower[filled], spans.upper[filled]]))
    lower = np.searchsorted(times, spans.lower[filled]).astype(np.int64)
    upper = np.searchsorted(times, spans.upper[filled]).astype(np.int64)
    finest = max(0, int(len(times) * _SPANS_A_BUCKET // max(1, len(buffer))).bit_length() - 1)
    # The least number of bits b with upper - lower <= 2**b, then the next that is a level's.
    bits = np.frexp((upper - lower - 0.5).clip(min=0.5))[1].clip(min=finest)
    bits = finest + -(-(bits - finest) // LEVEL_BITS) * LEVEL_BITS
    shift, span_level = np.unique(bits, return_inverse=True)
    buckets = (len(times) >> shift) + 1
    level_start = np.concatenate([[0], np.cumsum(buckets)]).astype(np.int64)
    at = level_start[span_level]
    first, last = at + (lower >> bits), at + ((upper - 1) >> bits)
    room = np.bincount(first, minlength=level_start[-1])
    room += np.bincount(last[last > first], minlength=level_start[-1])
    bucket_start = np.concatenate([[0], np.cumsum(room)]).astype(np.int64)
    entries = int(bucket_start[-1])
    scratch = np.empty((2, len(buffer)), np.int64)
    return FitIndex(
        first_span=np.searchsorted(buffer, np.arange(len(problem) + 1)).astype(np.int64),
        lower=lower,
        upper=upper,
        begin=spans.begin[filled],
        end=spans.end[filled],
        size=problem.size,
        alignment=problem.alignment,
        span_level=span_level.astype(np.int64),
        shift=shift.astype(np.int64),
        level_start=level_start,
        bucket_start=bucket_start,
        bucket_fill=np.zeros(len(bucket_start) - 1, np.int64),
        entry=np.empty((entries, 4), np.int64),
        entry_span=np.empty(entries, np.int64),
        start=scratch[0],
        stop=scratch[1],
    )
