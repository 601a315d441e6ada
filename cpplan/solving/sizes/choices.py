"""Choices that are the same at all sizes: the order of ops, and the aliases in place.

Both are chosen with every variable at its largest, where bytes are scarcest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cpplan.model.graph import Graph
from cpplan.model.plan_data import Relation
from cpplan.model.problem import Ints, Problem
from cpplan.program.anf import Program
from cpplan.program.binding import bind
from cpplan.solving.best_order import search_orders
from cpplan.solving.run import Run

# Several sizes: share of the time for the order and the aliases in place.
_CHOICE_SHARE = 0.4


class Choices(NamedTuple):
    """The program in its order, and the aliases in place that it uses."""

    program: Program
    relations: tuple[Relation, ...] = ()


def choose(run: Run, program: Program, listed: Sequence[Mapping[str, int]]) -> Choices:
    """The best order found, if the order is searched, and the best aliases in place in it."""
    order = run.request.order
    if order == "given" and not run.sharing:
        return Choices(program)
    most = {name: max(values[name] for values in listed) for name in listed[0]}
    graph = _whole_buffers(bind(program.graph, most))
    share = run.deadline.share(_CHOICE_SHARE)
    part = replace(run, budget=run.budget.until(share))
    if order == "search":
        packed, _ = search_orders(part, Program(graph, program.order))
    else:
        packed = part.pack(Program(graph, program.order), share)
    assert isinstance(packed.source, Program)
    return Choices(Program(program.graph, packed.source.order), packed.relations)


def _whole_buffers(graph: Graph) -> Graph:
    """The graph with in-place writes of whole buffers only, since offsets of views may change."""
    ops = []
    for op in graph.ops:
        bodies = tuple(_nothing_in_place(body) for body in op.bodies)
        pairs = tuple(pair for pair in op.in_place if all(map(graph.is_storage, pair)))
        ops.append(replace(op, in_place=pairs, bodies=bodies))
    return replace(graph, ops=tuple(ops))


def _nothing_in_place(graph: Graph) -> Graph:
    ops = tuple(
        replace(op, in_place=(), bodies=tuple(map(_nothing_in_place, op.bodies)))
        for op in graph.ops
    )
    return replace(graph, ops=ops)


def merge_related(problem: Problem, relations: Sequence[Relation]) -> tuple[Problem, Ints]:
    """Problem with one buffer for each set of aliases in place, and the new row of every buffer.

    Such buffers have equal sizes at all values of the variables: graphs of symbolic sizes require
    that of aliases in place.
    """
    number = {name: k for k, name in enumerate(problem.names)}
    first = list(range(len(problem)))
    for relation in relations:
        one, other = (_find(first, number[n]) for n in (relation.tensor, relation.other))
        first[max(one, other)] = min(one, other)
    heads, row = np.unique([_find(first, k) for k in range(len(problem))], return_inverse=True)
    heads = heads.astype(np.int64)
    lower, upper = problem.lower[heads], problem.upper[heads]
    alignment = problem.alignment[heads]
    np.minimum.at(lower, row, problem.lower)
    np.maximum.at(upper, row, problem.upper)
    np.lcm.at(alignment, row, problem.alignment)
    assert (problem.size == problem.size[heads][row]).all()
    merged = Problem(
        names=[problem.names[k] for k in heads.tolist()],
        lower=lower,
        upper=upper,
        size=problem.size[heads],
        alignment=alignment,
        pools=problem.pools,
        name=problem.name,
    )
    return merged, row


def _find(first: list[int], k: int) -> int:
    while first[k] != k:
        first[k] = first[first[k]]
        k = first[k]
    return k
