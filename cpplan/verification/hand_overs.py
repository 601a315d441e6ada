"""Plans in which storages share bytes only by hand-over, checked in bulk if ops run once each.

Most programs of many ops share bytes in two ways. An op writes its result over an input that no op
reads again; or the op only copies such an input into its result, or a part out of it. If each of
these storages holds a single tensor, addresses and lifespans tell as much as the access trace
(:mod:`cpplan.verification.access_trace`): during the op, the one storage takes over the other's
bytes. All other plans, and wrong ones, are left to the trace, which also names the fault.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpplan.model.graph import Graph, Op
from cpplan.model.plan_data import Relation
from cpplan.model.problem import Ints, Problem
from cpplan.model.residency import Residency
from cpplan.program.anf import Program
from cpplan.verification.rectangles import Rectangles, cut_gaps, find_overlap
from cpplan.verification.shared_bound import joined_places


class HandOvers(NamedTuple):
    """Relations by which one buffer may hand its bytes over to another while an op runs.

    Attributes
    ----------
    number
        Relation -> its position in the columns.
    inner, outer
        Rows of the buffers of the relation's tensors.
    shift
        Address of the inner buffer less the outer buffer's address, bytes.
    late
        True for a part that is copied out of a whole: the output then has bytes of its own only
        after the op. If false, the input has no bytes of its own from the op's step on.
    input, output
        Rows of the buffers that the op reads and writes.
    in_place
        True if the op writes over its input.
    """

    number: Mapping[Relation, int]
    inner: Ints
    outer: Ints
    shift: Ints
    late: NDArray[np.bool_]
    input: Ints
    output: Ints
    in_place: NDArray[np.bool_]

    def chosen(self, which: Ints | NDArray[np.bool_]) -> HandOvers:
        """Some of the hand-overs, without their relations."""
        return HandOvers(
            {}, self.inner[which], self.outer[which], self.shift[which], self.late[which],
            self.input[which], self.output[which], self.in_place[which],
        )  # fmt: skip

    def cut(self, rectangles: Rectangles) -> Rectangles:
        """The rectangles without the steps at which a buffer's bytes belong to another buffer."""
        count = int(rectangles.buffer.max(initial=-1)) + 1
        given, taken = np.zeros((2, count), np.int64)
        given[self.input[~self.late]] = 1
        taken[self.output[self.late]] = 1
        lower = rectangles.lower + taken[rectangles.buffer]
        upper = rectangles.upper - given[rectangles.buffer]
        left = rectangles._replace(lower=lower, upper=upper)
        return Rectangles(*(column[lower < upper] for column in left))


class Allowed(NamedTuple):
    """Ways in which the buffers of a program may share bytes.

    Attributes
    ----------
    hand_overs
        Hand-overs at the program's order.
    joined
        Pairs of buffers that placements join, with their distances, bytes.
    saved
        For each op of the graph, bytes of its results that may be written over its inputs.
    """

    hand_overs: HandOvers
    joined: list[tuple[int, int, int]]
    saved: Ints


def find_hand_overs(
    program: Program, residency: Residency, needed: Problem, kinds: Collection[str]
) -> Allowed | None:
    """The hand-overs that a program allows; ``None`` if only the access trace can tell.

    ``needed`` has the program's buffers. O(ops + tensors).
    """
    graph, columns = program.graph, program.graph.columns
    if not len(needed):
        return None
    alone = (np.bincount(columns.root, minlength=len(columns.names)) == 1).tolist()
    found = list(_relations(graph, kinds, alone))
    if None in found:
        return None
    relations = [pair for pair in found if pair is not None]
    ops = np.array([op for op, _, _ in relations], np.int64)
    number, never = columns.number, columns.are({"constant", "workspace"})
    row = np.full(len(columns.names), -1, np.int64)
    row[[number[name] for name in needed.names]] = np.arange(len(needed))
    row[never] = -1
    inner = row[[number[relation.tensor] for _, relation, _ in relations]]
    outer = row[[number[relation.other] for _, relation, _ in relations]]
    shift = np.array([relation.offset for _, relation, _ in relations], np.int64)
    in_place = np.array([relation.kind == "in place" for _, relation, _ in relations], np.bool_)
    written = np.array([reads_outer for _, _, reads_outer in relations], np.bool_)
    there = (inner >= 0) & (outer >= 0)
    copied = there & ~in_place & (needed.size[inner] > 0)
    joined = list(
        zip(inner[copied].tolist(), outer[copied].tolist(), shift[copied].tolist(), strict=True)
    )
    saved = np.zeros(len(graph.ops), np.int64)
    over, first = np.unique(inner[there & in_place], return_index=True)
    np.add.at(saved, ops[there & in_place][first], needed.size[over])
    source, result = np.where(written, outer, inner), np.where(written, inner, outer)
    stays = columns.are({"output", *(["input"] * (residency.inputs == "keep"))})
    kept = np.zeros(len(needed) + 1, np.bool_)
    kept[row[stays]] = True
    step = np.zeros(len(graph.ops), np.int64)
    step[np.array(program.order, np.int64)] = np.arange(len(program.order))
    ends = there & ~kept[source] & (needed.upper[source] == step[ops] + 1)
    ends &= (needed.lower[result] == step[ops]) & (needed.size[inner] > 0)
    late = written & ~in_place
    all_of_them = HandOvers({}, inner, outer, shift, late, source, result, in_place)
    listed = [relations[k][1] for k in np.flatnonzero(ends).tolist()]
    numbered = {relation: k for k, relation in enumerate(listed)}
    return Allowed(all_of_them.chosen(ends)._replace(number=numbered), joined, saved)


def _relations(
    graph: Graph, kinds: Collection[str], alone: Sequence[bool]
) -> Iterator[tuple[int, Relation, bool] | None]:
    """Op, relation, True if the op reads its ``other``; or ``None`` if only the trace can tell."""
    number = graph.columns.number
    for k, op in enumerate(graph.ops):
        pairs = op.in_place if "in place" in kinds else ()
        placements = op.placements if "placement" in kinds else ()
        if not (pairs or placements):
            continue
        named = chain(*pairs, *((part, whole) for part, whole, _ in placements))
        if not all(alone[number[name]] for name in named) or (pairs and op.placements):
            yield None
            return
        for pair in dict.fromkeys(pairs):
            yield k, Relation("in place", *pair), True
        if placements and _copies_out_twice(op):
            yield None
            return
        for placement in dict.fromkeys(placements):
            yield k, Relation("placement", *placement), placement.part in op.outputs


def _copies_out_twice(op: Op) -> bool:
    """True if a result of an op is a part of one tensor, and also part or whole of another."""
    parts = [part for part, _, _ in op.placements if part in op.outputs]
    wholes = {whole for _, whole, _ in op.placements}
    return len(set(parts)) < len(parts) or not wholes.isdisjoint(parts)


def find_disjoint(
    relations: Collection[Relation], allowed: HandOvers, needed: Problem, offset: Ints
) -> bool:
    """True if every relation is a hand-over at the right address, and nothing else shares bytes."""
    numbers = [allowed.number.get(relation, -1) for relation in relations]
    if -1 in numbers:
        return False
    used = allowed.chosen(np.array(numbers, np.int64))
    if (offset[used.inner] != offset[used.outer] + used.shift).any():
        return False
    return find_overlap(used.cut(cut_gaps(needed)), offset) is None


def least_bytes_handed_over(allowed: Allowed, needed: Problem) -> int | None:
    """Most bytes that a step needs if all hand-overs take place; ``None`` if more may be shared."""
    hand_overs = allowed.hand_overs
    rectangles = hand_overs.chosen(~hand_overs.in_place).cut(cut_gaps(needed))
    if not _are_apart_when_joined(allowed, needed, rectangles):
        return None
    steps = np.unique(np.concatenate([needed.lower, needed.upper]))
    change = np.zeros(len(steps), np.int64)
    size = rectangles.end - rectangles.begin
    np.add.at(change, np.searchsorted(steps, rectangles.lower), size)
    np.subtract.at(change, np.searchsorted(steps, rectangles.upper), size)
    live = np.cumsum(change)
    # A result takes over the bytes of one input only, even if several inputs allow it.
    new = np.unique(hand_overs.output[hand_overs.in_place])
    np.subtract.at(live, np.searchsorted(steps, needed.lower[new]), needed.size[new])
    return int(live.max(initial=0))


def _are_apart_when_joined(allowed: Allowed, needed: Problem, rectangles: Rectangles) -> bool:
    """True if all placements at once make buffers share only the bytes that they hand over."""
    groups = joined_places(allowed.joined)
    place, at = np.zeros(len(needed), np.int64), 0
    joined = np.zeros(len(needed), np.bool_)
    for places in groups:
        rows, lies = [*places], [*places.values()]
        if None in lies:
            return False
        begin = np.array(lies, np.int64)
        place[rows], joined[rows] = begin - begin.min() + at, True
        at = int((place[rows] + needed.size[rows]).max())
    here = Rectangles(*(column[joined[rectangles.buffer]] for column in rectangles))
    return find_overlap(here, place) is None
