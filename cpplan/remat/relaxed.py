"""Relaxation of the problem to all repetitions that a program may make, for bounds on programs.

The searches run a unit again only as a whole. They never repeat a unit whose results other units
write too or show as views. A program may repeat such ops, and may leave out those views of a unit
that no op needs again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cpplan.model.costs import sum_costs
from cpplan.model.graph import Graph
from cpplan.model.order_problem import OrderProblem
from cpplan.model.remat_problem import RematProblem


def relax_repetition(problem: RematProblem, *, views: bool = True) -> RematProblem:
    """The problem with every repetition that the graph allows, at the least cost possible.

    No program needs fewer bytes or costs less than its schedule of units in the relaxed problem. If
    the problem already allows all repetitions, it is returned unchanged. O(ops + tensors).

    Parameters
    ----------
    problem
        The problem.
    views
        True to count the cost of views that every op waiting for a unit needs. This is no bound if
        the order of first runs is given: a unit may run first, and its views only later.
    """
    graph = problem.graph
    needed = _needed_of_units(problem)
    cost, repeatable = list(problem.cost), problem.repeatable.copy()
    for unit, ops in enumerate(problem.units):
        first = graph.ops[ops[0]]
        repeatable[unit] = first.recomputable and first.sequence is None
        if repeatable[unit] and needed[unit]:
            always = set.intersection(*needed[unit]) if views else {ops[0]}
            cost[unit] = sum_costs(graph.ops[op].cost for op in sorted(always))
    # Running a unit again frees bytes only if it begins a retention.
    repeatable &= problem.repeatable | np.array([bool(w) for w in problem.writes], bool)
    ordering = _held_while_accessed(problem)
    unchanged = ordering is problem.ordering and (repeatable == problem.repeatable).all()
    if unchanged and tuple(cost) == problem.cost:
        return problem
    return replace(problem, ordering=ordering, cost=tuple(cost), repeatable=repeatable)


def _held_while_accessed(problem: RematProblem) -> OrderProblem:
    """Ordering problem in which storages that may be retained twice live only while accessed."""
    ordering = problem.ordering
    one_retention = problem.written_in_parts.union(np.flatnonzero(ordering.present).tolist())
    several = sorted(problem.begun_again & one_retention)
    if not several:
        return ordering
    size, extra = ordering.size.copy(), ordering.extra.copy()
    for unit, storages in enumerate(ordering.accesses):
        extra[unit] += sum(int(size[s]) for s in storages if s in several)
    size[several] = 0
    return replace(ordering, size=size, extra=extra)


def _needed_of_units(problem: RematProblem) -> list[list[set[int]]]:
    """For every unit, the ops of the unit that each waiting op needs; always the first op."""
    graph = problem.graph
    position = {op.name: k for k, op in enumerate(graph.ops)}
    unit_of = {op: unit for unit, ops in enumerate(problem.units) for op in ops}
    needed: list[list[set[int]]] = [[] for _ in problem.units]
    waiting: list[tuple[int | None, Sequence[int], Sequence[str]]] = [
        (unit_of[k], graph.predecessors[k], op.inputs) for k, op in enumerate(graph.ops)
    ]
    waiting += [(None, (), (t.name,)) for t in graph.tensors if t.kind == "output"]
    for waiter, predecessors, names in waiting:
        wanted: dict[int, set[int]] = {}
        for before in predecessors:
            wanted.setdefault(unit_of[before], {problem.units[unit_of[before]][0]})
        for name in names:
            source = graph.source(name)
            if source is not None:
                unit = unit_of[position[source.name]]
                wanted.setdefault(unit, {problem.units[unit][0]}).update(
                    _made_by(graph, name, position)
                )
        for unit, ops in wanted.items():
            if unit != waiter:
                needed[unit].append(ops & set(problem.units[unit]))
    return needed


def _made_by(graph: Graph, name: str, position: dict[str, int]) -> list[int]:
    """The op that makes a tensor, then the ops that made the tensors it is a view of."""
    made: list[int] = []
    source = graph.source(name)
    while source is not None and position[source.name] not in made:
        made.append(position[source.name])
        root = graph.root[name][0]
        same = [other for other in source.inputs if graph.root[other][0] == root]
        if not same:
            break
        name = same[0]
        source = graph.source(name)
    return made
