"""Storages that several ops write in turn, and an order in which those ops run together.

An example is a mask that is filled part by part. A region may not hold such an op beside others, so
these ops must not stand in the middle of a possible region: they are moved forward together, with
the ops that they wait for, to right after the last other op that one of them waits for.
"""

from __future__ import annotations

from cpplan.program.anf import Program
from cpplan.splitting.problem import SplitProblem

# Ops that write one storage in turn are moved together if they then make at most this share
# of the most live bytes earlier.
_BROUGHT_FORWARD_SHARE = 0.05


def with_writers_together(problem: SplitProblem) -> Program:
    """The program with all ops that write one storage in turn one after another.

    A group is left where it is if moving it would make too many bytes earlier.
    """
    graph, order = problem.graph, list(problem.program.order)
    most = max(problem.boundary, default=0) * _BROUGHT_FORWARD_SHARE
    written = dict(zip(order, (written for _, written in problem.accessed), strict=True))
    for steps in problem.written_in_turn:
        ops = [problem.program.order[step] for step in steps]
        place = {op: position for position, op in enumerate(order)}
        first = min(place[op] for op in ops)
        together, before = set(ops), set[int]()
        for position in range(max(place[op] for op in ops), first - 1, -1):
            op = order[position]
            if op in together:
                waits = graph.predecessors[op]
                together.update(other for other in waits if place[other] > first)
                before.update(other for other in waits if place[other] < first)
        storages = {storage for op in together for storage in written[op]}
        if sum(problem.size[storage] for storage in storages) > most:
            continue
        start = max((place[op] + 1 for op in before), default=0)
        moved = [op for op in order[start:] if op in together]
        order[start:] = moved + [op for op in order[start:] if op not in together]
    return Program(graph, tuple(order))
