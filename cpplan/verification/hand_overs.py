"""Plans in which storages only hand bytes over in place, checked in bulk if ops run once each.

Most programs of many ops share bytes in one way: an op writes its result over an input that nothing
reads again, and neither storage has another tensor in it. Then two facts say all that the access
trace (:mod:`cpplan.verification.access_trace`) would: the input ends with the op, and the result
lies at its address. What is not of this kind, or not right, is left to the trace, which also says
what is wrong.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from cpplan.model.columns import GraphColumns
from cpplan.model.plan import Relation
from cpplan.model.problem import Ints, Problem
from cpplan.model.residency import Residency
from cpplan.program.anf import Program
from cpplan.verification.rectangles import Rectangles, cut_gaps, find_overlap


class HandOvers(NamedTuple):
    """Pairs in place by which a result may take over the bytes of an input that ends with its op.

    Attributes
    ----------
    output, source
        Numbers of the tensors.
    new, old
        Rows of their buffers.
    """

    output: Ints
    source: Ints
    new: Ints
    old: Ints


def find_hand_overs(
    program: Program, residency: Residency, needed: Problem, kinds: Collection[str]
) -> HandOvers | None:
    """All hand-overs that a program allows; ``None`` if bytes may be shared in another way, too.

    ``needed`` has the program's buffers. O(ops + tensors).
    """
    graph, columns = program.graph, program.graph.columns
    if "placement" in kinds and any(op.placements for op in graph.ops):
        return None
    op, output, source = columns.in_place
    if "in place" not in kinds:
        op, output, source = (column[:0] for column in (op, output, source))
    alone = np.bincount(columns.root, minlength=len(columns.names)) == 1
    if not (alone[output].all() and alone[source].all()):
        return None
    row = _rows(columns, needed)
    step = np.zeros(len(graph.ops), np.int64)
    step[np.array(program.order, np.int64)] = np.arange(len(program.order))
    stays = columns.are({"constant", "output", *(["input"] * (residency.inputs == "keep"))})
    new, old = row[output], row[source]
    ends = (new >= 0) & (old >= 0) & ~stays[source]
    ends &= (needed.upper[old] == step[op] + 1) & (needed.lower[new] == step[op])
    return HandOvers(output[ends], source[ends], new[ends], old[ends])


def find_disjoint(
    relations: Collection[Relation],
    allowed: HandOvers,
    columns: GraphColumns,
    needed: Problem,
    offset: Ints,
) -> bool:
    """True if every relation is a hand-over at one address, and nothing else shares bytes.

    An input that is handed over gives up its bytes as the op begins to run: its result has them.
    """
    number = columns.number
    pairs = [
        (number.get(one, -1), number.get(other, -1))
        for kind, one, other, shift in relations
        if kind == "in place" and shift == 0
    ]
    if len(pairs) < len(relations):
        return False
    claimed = np.array(pairs, np.int64).reshape(-1, 2) @ [len(columns.names), 1]
    may = allowed.output * len(columns.names) + allowed.source
    if not np.isin(claimed, may).all():
        return False
    used = np.isin(may, claimed)
    new, old = allowed.new[used], allowed.old[used]
    if (offset[new] != offset[old]).any() or not needed.size[new].all():
        return False
    whole = cut_gaps(needed)
    handed = np.zeros(len(needed), np.int64)
    handed[old] = 1
    upper = whole.upper - handed[whole.buffer]
    there = upper > whole.lower
    columns_left = whole._replace(upper=upper)
    return find_overlap(Rectangles(*(column[there] for column in columns_left)), offset) is None


def least_bytes_handed_over(allowed: HandOvers, needed: Problem) -> int:
    """Bytes that some step needs if every hand-over takes place.

    Examples
    --------
    >>> none = np.zeros(0, np.int64)
    >>> needed = Problem(("x", "y"), [0, 0], [1, 1], [8, 8])
    >>> least_bytes_handed_over(HandOvers(none, none, none, none), needed)
    16
    >>> least_bytes_handed_over(HandOvers(*map(np.array, ([1], [0], [1], [0]))), needed)
    8
    """
    steps = np.unique(np.concatenate([needed.lower, needed.upper]))
    change = np.zeros(len(steps), np.int64)
    np.add.at(change, np.searchsorted(steps, needed.lower), needed.size)
    np.subtract.at(change, np.searchsorted(steps, needed.upper), needed.size)
    live = np.cumsum(change)
    # A result takes over the bytes of one input, however many it may.
    new = np.unique(allowed.new)
    np.subtract.at(live, np.searchsorted(steps, needed.lower[new]), needed.size[new])
    return int(live.max(initial=0))


def _rows(columns: GraphColumns, needed: Problem) -> Ints:
    """Row of every tensor's own buffer, or -1 if it has none."""
    row = np.full(len(columns.names), -1, np.int64)
    number = columns.number
    row[[number[name] for name in needed.names]] = np.arange(len(needed))
    return row
