"""An index by time of the placed buffers, for problems with a great many buffers.

First fit needs, for each buffer, the placed buffers that are live together with it. For a million
buffers, a list of conflicts would have a hundred million entries. Instead, a span of a buffer is
listed in *buckets* of time. There are several levels of buckets, and a span is listed on a level
whose buckets are at least as wide as the span is long, so that it lies in one or two of them. A
look-up reads the buckets that a range of steps meets on every level. Memory is linear in the number
of spans, whatever their lengths.

:func:`fit_index` makes the empty buckets; :mod:`cpplan.packing.heuristics.fit_index_kernel` fills
them: ``place`` is first fit of many rows, ``insert``, ``remove`` and ``lowest_fit`` take one row.
A buffer with gaps has several spans; alignments are kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpplan.model.distinct import distinct
from cpplan.model.problem import Ints, Problem, Spans
from cpplan.packing import loops
from cpplan.runtime.compiled import prepare
from cpplan.runtime.deadline import Deadline, TimeUpError

# Buckets of one level are four times as wide as those of the level before.
LEVEL_BITS = 2
# Approximate number of spans in a bucket of the finest level.
_SPANS_A_BUCKET = 8
# Entries read between two looks at the clock, and seconds for one of them.
_READS, _SECONDS_A_READ = 1 << 22, 2e-8


class FitIndex(NamedTuple):
    """Spans of buffers, and buckets that list the spans of placed buffers.

    Attributes
    ----------
    first_span
        Row ``i``'s spans are ``first_span[i]:first_span[i + 1]``, shape ``(n + 1,)``.
    row
        Buffer of each span.
    lower, upper
        Steps of each span; ranks of steps if there are many more steps than spans.
    begin, end
        Bytes of each span, relative to its buffer's offset.
    size, alignment
        Bytes of each row.
    span_level
        Level that lists each span.
    shift, level_start
        Step ``t`` lies in bucket ``level_start[k] + (t >> shift[k])`` of level ``k``.
    bucket_start, bucket_fill
        First entry of each bucket, and number of its entries in use.
    entry
        ``lower, upper, begin, end`` in one row, the last two as addresses, shape ``(entries, 4)``.
    entry_span
        Span listed by each entry.
    start, stop
        Scratch: open intervals of forbidden offsets, one for each conflicting span.
    ends
        Scratch: ends of the parts of these intervals that are still to be sorted.
    """

    first_span: Ints
    row: Ints
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
    ends: Ints


def fit_index(problem: Problem, order: Ints | None = None) -> FitIndex:
    """An index without placed buffers. O(n log n) time, O(n) memory.

    With ``order``, row ``k`` of the index is row ``order[k]`` of the problem, so that rows placed
    one after another lie side by side in memory.
    """
    rows, spans = np.arange(len(problem)), problem.spans
    if order is not None and not problem.gaps:
        spans = Spans(rows, *(column[order] for column in spans[1:]))
    elif order is not None:
        place = np.empty(len(problem), np.int64)
        place[order] = rows
        by_place = np.argsort(place[spans.buffer], kind="stable")
        spans = Spans(place[spans.buffer][by_place], *(column[by_place] for column in spans[1:]))
    filled = spans.end > spans.begin
    if not filled.all():
        spans = Spans(*(column[filled] for column in spans))
    buffer = spans.buffer
    lower, upper, steps = _ranks(spans.lower, spans.upper)
    finest = max(0, int(steps * _SPANS_A_BUCKET // max(1, len(buffer))).bit_length() - 1)
    # The least number of bits b with upper - lower <= 2**b, rounded up to that of a level.
    bits = np.frexp((upper - lower - 0.5).clip(min=0.5))[1].clip(min=finest)
    bits = finest + -(-(bits - finest) // LEVEL_BITS) * LEVEL_BITS
    used = np.flatnonzero(np.bincount(bits))
    span_level = np.searchsorted(used, bits)
    buckets = (steps >> used) + 1
    level_start = np.concatenate([[0], np.cumsum(buckets)]).astype(np.int64)
    at = level_start[span_level]
    first, last = at + (lower >> bits), at + ((upper - 1) >> bits)
    room = np.bincount(first, minlength=level_start[-1])
    room += np.bincount(last[last > first], minlength=level_start[-1])
    bucket_start = np.concatenate([[0], np.cumsum(room)]).astype(np.int64)
    entries = int(bucket_start[-1])
    # Spans live together with a span: those that start before it ends, less those that have ended.
    started = np.cumsum(np.bincount(lower, minlength=steps))
    ended = np.cumsum(np.bincount(upper, minlength=steps))
    meetings = np.bincount(buffer, started[upper - 1] - ended[lower])
    scratch = np.empty((3, int(meetings.max(initial=0)) + 1), np.int64)
    return FitIndex(
        first_span=np.searchsorted(buffer, np.arange(len(problem) + 1)).astype(np.int64),
        row=buffer,
        lower=lower,
        upper=upper,
        begin=spans.begin,
        end=spans.end,
        size=problem.size if order is None else problem.size[order],
        alignment=problem.alignment if order is None else problem.alignment[order],
        span_level=span_level.astype(np.int64),
        shift=used.astype(np.int64),
        level_start=level_start,
        bucket_start=bucket_start,
        bucket_fill=np.zeros(len(bucket_start) - 1, np.int64),
        entry=np.empty((entries, 4), np.int64),
        entry_span=np.empty(entries, np.int64),
        start=scratch[0],
        stop=scratch[1],
        ends=scratch[2],
    )


def _ranks(lower: Ints, upper: Ints) -> tuple[Ints, Ints, int]:
    """Ranks of the steps if there are many more steps than spans, and the number of ranks."""
    steps = int(upper.max(initial=0)) + 1
    if steps <= 2 * len(lower) + 2:
        return lower, upper, steps
    times = distinct(np.concatenate([lower, upper]))
    lower, upper = (np.searchsorted(times, column) for column in (lower, upper))
    return lower.astype(np.int64), upper.astype(np.int64), len(times)


def index_first_fit(problem: Problem, order: Ints, deadline: Deadline) -> Ints:
    """Place the buffers in this order, each at the lowest address where it fits.

    Buffers with fixed offsets are placed before. O(n × buffers live together).
    """
    if not prepare(loops.MANY_BUFFERS, deadline):
        raise TimeUpError
    from cpplan.packing.heuristics import fit_index_kernel as kernel

    fixed = np.array(list(problem.fixed), np.int64)
    index = fit_index(problem, order)
    place = np.argsort(order)[fixed]
    offset, placed = np.zeros(len(problem), np.int64), np.zeros(len(problem), bool)
    offset[place], placed[place] = list(problem.fixed.values()), True
    kernel.insert_all(index, place, offset)
    place_in_turn(index, offset, placed, deadline)
    result = np.empty_like(offset)
    result[order] = offset
    return result


def place_in_turn(
    index: FitIndex, offset: Ints, placed: NDArray[np.bool_], deadline: Deadline
) -> None:
    """First fit of all rows that are not placed yet, in their order."""
    from cpplan.packing.heuristics import fit_index_kernel as kernel

    rows, done = np.arange(len(offset)), 0
    while done < len(rows):
        deadline.check()
        done, reads = kernel.place(index, rows, done, offset, placed, _READS)
        deadline.spend(_SECONDS_A_READ * reads)
