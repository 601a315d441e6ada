"""A bound on the peak of every splitting that runs each step of an op once.

While one op has done a share of its steps, every other op has done some share of its own, from 0 to
1. What is live of a tensor depends on the shares of the op that makes it and of those that read it
(:mod:`cpplan.splitting.live_shares`). The bound is the least sum over all shares of the others: an
op passes every share, since a piece of many steps holds at least what its steps would hold one by
one.

*Channels.* A depthwise convolution, a pooling or a sum can run channel by channel. Its share is
then that of one channel, drawn evenly; ops that are joined in this way draw the same channel. What
is live is at least its mean over all channels, and so at least the least sum. The op whose share is
fixed, and those joined to it, count all their channels together: their halos do not count.

*Sum.* The least sum over all shares is found op by op: an op is removed, and the least sum of what
it shares with its neighbours is kept for each of their shares. So that these are at most two, a
tensor counts for one or two ops that read it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np

from cpplan.model.certificates import LiveBetween
from cpplan.model.graph import Op
from cpplan.runtime.deadline import Deadline
from cpplan.splitting.live_shares import (
    Floats,
    bounds_of_shares,
    held_by_lines,
    live_shares,
)
from cpplan.splitting.problem import SplitProblem
from cpplan.splitting.streams import Read, Stream, bytes_of_step, find_streams, steps_of

NAME = "live between pieces"
# Intervals of shares to choose an op by, and to bound with.
_COARSE, _FINE = 48, 192
# Most ops of a program that is bounded: each tensor takes a table of 0.3 MB.
_MOST_OPS = 500
# Ops removed to choose a moment, and moments bounded finely.
_MOST_REMOVED, _MOST_FINE = 4000, 2
# Most reads of a tensor that are tried as its second one.
_MOST_TRIED = 8
# Seconds of deterministic time for each cell that is summed, and for each stream that is looked at.
_SECONDS, _SECONDS_A_SCOPE = 3e-9, 2e-6
# Part of a stream's bytes that decides between reads without halos.
_PART = 1e-3
# Rounding of shares and of sums.
_ROUNDING, _SUM_ROUNDING = 1e-9, 1e-9


class Between(NamedTuple):
    """Bytes that are live at one moment of every splitting, and the certificate."""

    bytes: int
    certificate: LiveBetween | None


class Part(NamedTuple):
    """Bytes for each share of one op, or each pair of shares of two."""

    scope: tuple[str, ...]
    bytes: Floats

    def at(self, op: str, label: int) -> Part:
        """The bytes where one op's share is given."""
        if op not in self.scope:
            return self
        place = self.scope.index(op)
        rest = self.scope[:place] + self.scope[place + 1 :]
        return Part(rest, np.asarray(self.bytes.take(label, axis=place)))

    def over(self, scope: Sequence[str]) -> Floats:
        """The bytes as an array with one axis for each op of ``scope``."""
        order = [self.scope.index(op) for op in scope if op in self.scope]
        shape = [self.bytes.shape[k] for k in order]
        shape = [shape.pop(0) if op in self.scope else 1 for op in scope]
        found: Floats = self.bytes.transpose(order).reshape(shape)
        return found


# The bytes of one tensor, or the least ones of ops that were removed: the most of some parts.
Term = tuple[Part, ...]


def least_between(problem: SplitProblem, deadline: Deadline) -> Between:
    """Bytes that are live at one moment of every splitting that runs each step of an op once.

    Moments are compared with one reader for each tensor, in time linear in the ops for each; the
    best ones are then bounded with two.
    """
    best = Between(0, None)
    if problem.graph.symbols is not None or len(problem.ops) > _MOST_OPS:
        return best
    streams = _ranked(find_streams(problem))
    ops = sorted({op for stream in streams for op in _ops_of(stream)})
    moments = [op for op in ops if not (problem.sharing and _may_share(problem.graph.op[op]))]
    size = {stream.maker: stream.reads[0].bytes for stream in streams}
    moments.sort(key=lambda op: (-size.get(op, 0), op))
    one = [stream._replace(reads=stream.reads[:1]) for stream in streams]
    tried: list[tuple[int, str]] = []
    for op in moments[: max(1, _MOST_REMOVED // max(1, len(ops)))]:
        found = _at_moment(problem, one, op, _COARSE, deadline)
        if found is None:
            break
        tried.append((-found.bytes, op))
    two = _with_second_reads(streams, deadline)
    for _, op in sorted(tried)[:_MOST_FINE]:
        for reads in (one, two) if two != one else (one,):
            found = _at_moment(problem, reads, op, _FINE, deadline)
            if found is not None and found.bytes > best.bytes:
                best = found
    return best


def _may_share(op: Op) -> bool:
    """True if an op may write what it makes over what it reads."""
    return bool(op.in_place or op.placements)


def _ops_of(stream: Stream) -> list[str]:
    """The maker of a stream and its readers."""
    return [op for op in (stream.maker, *(r.reading.op for r in stream.reads)) if op is not None]


def _ranked(streams: Sequence[Stream]) -> list[Stream]:
    """Streams whose reads come in the order of the bytes that each holds by itself."""
    return [
        stream._replace(reads=tuple(sorted(stream.reads, key=_weight, reverse=True)))
        for stream in streams
    ]


def _with_second_reads(streams: Sequence[Stream], deadline: Deadline) -> list[Stream]:
    """Streams with two reads each where ops can still be removed with at most two neighbours.

    Takes time quadratic in the streams, and ends early if that is not left.
    """
    chosen = [stream._replace(reads=stream.reads[:1]) for stream in streams]
    scopes = [_ops_of(stream) for stream in chosen]
    for k in sorted(range(len(streams)), key=lambda k: -_weight(streams[k].reads[0])):
        for read in streams[k].reads[1:_MOST_TRIED]:
            deadline.spend(_SECONDS_A_SCOPE * len(scopes))
            if deadline.expired():
                return chosen
            more = chosen[k]._replace(reads=(chosen[k].reads[0], read))
            if _removable([*scopes[:k], _ops_of(more), *scopes[k + 1 :]]):
                chosen[k], scopes[k] = more, _ops_of(more)
                break
    return chosen


def _weight(read: Read) -> float:
    """Bytes that a read holds while it is half done, and a small part of the stream's bytes."""
    table = live_shares(read.axes, True, read.sums, _COARSE)
    half = len(table) // 2
    return read.bytes * (float(table[half, half // 2 : half].min()) + _PART)


def _removable(scopes: Iterable[Iterable[str]]) -> bool:
    """True if all ops can be removed one by one, each with at most two neighbours."""
    near: dict[str, set[str]] = {}
    for scope in scopes:
        for op in scope:
            near.setdefault(op, set()).update(scope)
    ready = [op for op in near if len(near[op]) <= 3]
    while ready:
        op = ready.pop()
        if op not in near or len(near[op]) > 3:
            continue
        rest = near.pop(op) - {op}
        for other in rest:
            near[other] = (near[other] | rest) - {op}
            if len(near[other]) <= 3:
                ready.append(other)
    return not near


def _connected(streams: Sequence[Stream], op: str) -> list[Stream]:
    """Streams that are connected with an op; the others may hold nothing."""
    near: dict[str, list[int]] = {}
    for number, stream in enumerate(streams):
        for name in _ops_of(stream):
            near.setdefault(name, []).append(number)
    found, seen, ops = set[int](), {op}, [op]
    for name in ops:
        for number in near.get(name, ()):
            if number not in found:
                found.add(number)
                new = set(_ops_of(streams[number])) - seen
                seen |= new
                ops.extend(sorted(new))
    return [streams[number] for number in sorted(found)]


def _joined(streams: Sequence[Stream]) -> dict[str, str]:
    """For each op, one op that stands for all that draw the same channel."""
    found = {op: op for stream in streams for op in _ops_of(stream)}

    def first(op: str) -> str:
        while found[op] != op:
            op = found[op]
        return op

    for stream in streams:
        for read in stream.reads:
            if stream.maker is not None and read.reading.op is not None and read.channels:
                found[first(stream.maker)] = first(read.reading.op)
    return {op: first(op) for op in found}


def _at_moment(
    problem: SplitProblem,
    streams: Sequence[Stream],
    op: str,
    parts: int,
    deadline: Deadline,
) -> Between | None:
    """The most bytes that are live whatever the others have done, over all shares of one op.

    ``None`` if the time was not enough.
    """
    streams = _connected(streams, op)
    joined = _joined(streams)
    terms = [_term(stream, joined, op, parts) for stream in streams]
    least = _least_sum(terms, op, deadline)
    if least is None:
        return None
    steps = steps_of(problem.graph.op[op])
    low, high = bounds_of_shares(parts)
    # A step follows, which makes its own part of the output.
    before = np.minimum(steps - 1, np.floor(high * steps + _ROUNDING))
    passed = before >= np.ceil(low * steps - _ROUNDING)
    least = np.where(passed & np.isfinite(least), least + bytes_of_step(problem, op), 0.0)
    label = int(least.argmax())
    readings = tuple(read.reading for stream in streams for read in stream.reads)
    value = max(0, math.ceil(float(least[label]) * (1 - _SUM_ROUNDING) - _SUM_ROUNDING))
    return Between(value, LiveBetween(op, label, parts, readings))


def _term(stream: Stream, joined: Mapping[str, str], op: str, parts: int) -> Term:
    """The bytes of one tensor for all shares of the op that makes it and of those that read it."""
    low, _ = bounds_of_shares(parts)
    found = []
    for read in stream.reads:
        reader = read.reading.op
        if reader is None:
            table: Floats = low[:, None] * read.bytes
        else:
            together = read.channels is not None and joined[reader] == joined.get(op)
            axes = (*read.axes, read.channels) if together and read.channels else read.axes
            table = live_shares(axes, not together, read.sums, parts) * read.bytes
            if read.axes and read.sums and joined[reader] != joined.get(op):
                held = held_by_lines(read.axes, read.lines, read.sums, parts)
                table = np.maximum(table, held)
        # An input is written from the start; what is kept is live whatever its readers have done.
        if stream.maker is None:
            table = table[-1:]
        scope = tuple(name for name in (stream.maker, reader) if name is not None)
        found.append(Part(scope, table.reshape([len(low)] * len(scope))))
    return tuple(found)


def _least_sum(terms: Sequence[Term], fixed: str, deadline: Deadline) -> Floats | None:
    """Least sum of all terms for each share of one op; ``None`` if the time was not enough."""
    left = dict(enumerate(terms))
    fresh = count(len(terms))
    places: dict[str, set[int]] = {}
    for number, term in left.items():
        for op in _scope(term):
            places.setdefault(op, set()).add(number)

    def near(op: str) -> list[str]:
        return sorted({name for number in places[op] for name in _scope(left[number])} - {op})

    queue = [(len(near(op)), op) for op in places if op != fixed]
    heapq.heapify(queue)
    while queue:
        many, op = heapq.heappop(queue)
        if op not in places:
            continue
        rest = near(op)
        if len(rest) != many:
            heapq.heappush(queue, (len(rest), op))
            continue
        if deadline.expired():
            return None
        here = [left[number] for number in sorted(places[op])]
        for number in places.pop(op):
            for name in _scope(left.pop(number)) - {op}:
                places[name].discard(number)
        number = next(fresh)
        left[number] = (Part(tuple(rest), _without(here, op, rest)),)
        for name in rest:
            places[name].add(number)
            if name != fixed:
                heapq.heappush(queue, (len(near(name)), name))
        labels = _labels(here, op)
        deadline.spend(_SECONDS * len(here) * labels ** (1 + len(rest)))
    return sum((_most(term, (fixed,)) for term in left.values()), np.zeros(1))


def _scope(term: Term) -> set[str]:
    """The ops that a term is about."""
    return {op for part in term for op in part.scope}


def _without(terms: Sequence[Term], op: str, rest: Sequence[str]) -> Floats:
    """Least sum of terms over the shares of one op, for all shares of its neighbours."""
    if len(rest) < 2:
        scope = (op, *rest)
        total: Floats = sum((_most(term, scope) for term in terms), np.zeros([1] * len(scope)))
        least: Floats = total.min(axis=0)
        return least
    least = np.full((1, 1), np.inf)
    for label in range(_labels(terms, op)):
        cut = [tuple(part.at(op, label) for part in term) for term in terms]
        total = sum((_most(term, rest) for term in cut), np.zeros((1, 1)))
        least = np.minimum(least, total)
    return least


def _labels(terms: Sequence[Term], op: str) -> int:
    """Number of labels for shares."""
    part = next(part for term in terms for part in term if op in part.scope)
    return len(part.bytes)


def _most(term: Term, scope: Sequence[str]) -> Floats:
    """The most of a term's parts, over the shares of some ops."""
    found = term[0].over(scope)
    for part in term[1:]:
        found = np.maximum(found, part.over(scope))
    return found
