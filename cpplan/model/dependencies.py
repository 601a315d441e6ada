"""Dependencies between the ops of a graph, and the reason for each.

An op waits for the ops whose results it reads (``data``), for the ops that its ``after`` names
(``control``), and for the op listed before it in its ``sequence``. Control and sequence edges carry
no bytes; an order must respect all three kinds.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from cpplan.model.errors import InputError

if TYPE_CHECKING:
    from cpplan.model.graph import Graph

Link = Literal["data", "control", "sequence"]


def find_predecessors(graph: Graph) -> tuple[tuple[int, ...], ...]:
    """Positions of the ops that each op waits for. O(ops + tensors + control edges).

    Data edges come first, in argument order, then control edges as listed, then the sequence's;
    each op is listed once.
    """
    if graph.columns.ordered:
        return _makers_read(graph)
    position = {op.name: k for k, op in enumerate(graph.ops)}
    # Tensor read -> the op after which its bytes are valid.
    maker: dict[str, int | None] = {
        name: k for k, op in enumerate(graph.ops) for name in op.outputs
    }
    last: dict[str, int] = {}
    found = []
    for k, op in enumerate(graph.ops):
        before = []
        for name in op.inputs:
            if name not in maker:
                source = graph.source(name)
                maker[name] = None if source is None else position[source.name]
            made = maker[name]
            if made is not None:
                before.append(made)
        before += [position[name] for name in op.after]
        if op.sequence is not None:
            before += [last[op.sequence]] if op.sequence in last else []
            last[op.sequence] = k
        found.append(tuple(dict.fromkeys(before)))
    return tuple(found)


def _makers_read(graph: Graph) -> tuple[tuple[int, ...], ...]:
    """The ops whose results each op reads, in argument order."""
    read = graph.columns.read
    makers = graph.columns.maker[read.item]
    made = makers >= 0
    ends = np.cumsum(np.bincount(read.owner[made], minlength=len(graph.ops))).tolist()
    listed, begin, found = makers[made].tolist(), 0, []
    for end in ends:
        before = listed[begin:end]
        found.append(tuple(before) if len(before) < 2 else tuple(dict.fromkeys(before)))
        begin = end
    return tuple(found)


def link(graph: Graph, before: int, after: int) -> Link:
    """Reason why op number ``after`` waits for ``before``, one of its predecessors.

    The result is the first of data, control and sequence that applies.
    """
    earlier, later = graph.ops[before], graph.ops[after]
    if any(graph.source(name) is earlier for name in later.inputs):
        return "data"
    return "control" if earlier.name in later.after else "sequence"


def explain(graph: Graph, before: int, after: int) -> str:
    """Clause for messages: the earlier op's name, and why the later op waits for it."""
    earlier, later = graph.ops[before], graph.ops[after]
    why = {
        "data": "whose result it reads",
        "control": "which must run before it",
        "sequence": f"which comes before it in sequence {later.sequence!r}",
    }
    return f"{earlier.name!r}, {why[link(graph, before, after)]}"


def check_acyclic(graph: Graph) -> None:
    """Raise if the ops form a cycle, so that no order exists.

    Raises
    ------
    InputError
        Lists the ops of a cycle, each with the reason why it waits for the op before, unless the
        reason is data.
    """
    if graph.in_order:
        return  # the listed order respects all dependencies
    waiting = [len(before) for before in graph.predecessors]
    successors: list[list[int]] = [[] for _ in graph.ops]
    for k, before in enumerate(graph.predecessors):
        for p in before:
            successors[p].append(k)
    ready = [k for k, count in enumerate(waiting) if count == 0]
    while ready:
        for successor in successors[ready.pop()]:
            waiting[successor] -= 1
            if waiting[successor] == 0:
                ready.append(successor)
    stuck = next((k for k, count in enumerate(waiting) if count > 0), None)
    if stuck is None:
        return
    # Every stuck op has a stuck predecessor: walking back must close a cycle.
    path: dict[int, None] = {}
    while stuck not in path:
        path[stuck] = None
        stuck = next(p for p in graph.predecessors[stuck] if waiting[p] > 0)
    walked = list(path)
    cycle = [stuck, *reversed(walked[walked.index(stuck) :])]
    steps = [graph.ops[stuck].name]
    for before_op, op in pairwise(cycle):
        why = link(graph, before_op, op)
        steps.append(graph.ops[op].name + ("" if why == "data" else f" ({why})"))
    raise InputError(f"ops form a cycle: {' -> '.join(steps)}")
