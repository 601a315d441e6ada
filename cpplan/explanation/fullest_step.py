"""The step at which a plan fills the most bytes, and the tensors that fill it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from cpplan.model.explained import LiveTensor
from cpplan.model.plan import Plan
from cpplan.model.problem import Ints, Problem


def find_fullest_step(plan: Plan) -> int | None:
    """The first step with the most bytes filled.

    O(n log n) without sharing; with sharing, the steps with the most live bytes are looked at one
    by one.
    """
    times, live = _live_profile(plan)
    if not live.any():
        return None
    k = int(np.argmax(live))
    if not plan.relations:
        return int(times[k])
    best, step = live_tensors(plan, int(times[k]))[0], int(times[k])
    low, high = _addresses(plan)
    # Filled bytes are at most the live bytes, so most steps are skipped.
    for time, most, here in zip(
        times.tolist(), live.tolist(), _live_spans(plan, times), strict=True
    ):
        if most > best or (most == best and time < step):
            rows = np.fromiter(here, np.int64, len(here))
            filled = _filled(low[rows], high[rows])
            if filled > best or (filled == best and time < step):
                best, step = filled, time
    return step


def filled_profile(plan: Plan) -> tuple[Ints, Ints]:
    """Steps at which the live set changes, and the bytes filled from each to the next."""
    times, live = _live_profile(plan)
    if not plan.relations:
        return times, live
    low, high = _addresses(plan)
    filled = np.zeros(len(times), np.int64)
    for k, here in enumerate(_live_spans(plan, times)):
        rows = np.fromiter(here, np.int64, len(here))
        filled[k] = _filled(low[rows], high[rows])
    return times, filled


def _live_profile(plan: Plan) -> tuple[Ints, Ints]:
    problem = Problem(plan.buffers, plan.lower, plan.upper, plan.size, gaps=plan.gaps)
    return problem.live_profile()


def _live_spans(plan: Plan, times: Ints) -> Iterator[Collection[int]]:
    """Spans that hold bytes at each of these ascending steps; a set is valid until the next one."""
    spans = plan.spans
    held = np.flatnonzero(spans.begin < spans.end)
    begun, ended = held[np.argsort(spans.lower[held])], held[np.argsort(spans.upper[held])]
    starts = np.searchsorted(spans.lower[begun], times, side="right").tolist()
    stops = np.searchsorted(spans.upper[ended], times, side="right").tolist()
    begun_spans, ended_spans = begun.tolist(), ended.tolist()
    here: set[int] = set()
    for k in range(len(times)):
        here.update(begun_spans[starts[k - 1] if k else 0 : starts[k]])
        here.difference_update(ended_spans[stops[k - 1] if k else 0 : stops[k]])
        yield here


def live_tensors(plan: Plan, step: int) -> tuple[int, tuple[LiveTensor, ...]]:
    """Bytes filled at a step, and the buffers that fill them, the largest first."""
    spans = plan.spans
    here = (spans.lower <= step) & (step < spans.upper) & (spans.begin < spans.end)
    rows = spans.buffer[here]
    low, high = (end[here] for end in _addresses(plan))
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


def _addresses(plan: Plan) -> tuple[Ints, Ints]:
    """First and last addresses of all spans, with pools one above the other.

    Without offsets no bytes are shared: buffers then lie one above the other.
    """
    spans = plan.spans
    if plan.offset is None:
        base = (np.cumsum(plan.size) - plan.size)[spans.buffer]
        return base + spans.begin, base + spans.end
    peaks = np.zeros(len(plan.pools), np.int64)
    np.maximum.at(peaks, plan.pool, plan.offset + plan.size)
    base = ((np.cumsum(peaks) - peaks)[plan.pool] + plan.offset)[spans.buffer]
    return base + spans.begin, base + spans.end


def _filled(low: Ints, high: Ints) -> int:
    """Bytes of the union of address ranges."""
    by_address = np.argsort(low, kind="stable")
    low, high = low[by_address], high[by_address]
    top = np.maximum.accumulate(high)
    below = np.concatenate([[0], top[:-1]])
    return int(np.maximum(top - np.maximum(low, below), 0).sum())


def _own_bytes(low: Ints, high: Ints) -> tuple[list[int], list[int | None]]:
    """For each range, its bytes in no earlier range, and an earlier range that shares the rest."""
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
