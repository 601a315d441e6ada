"""A user's constraints on the order: ops that must run first, and ops that must run last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NoReturn

from cpplan.model.dependencies import explain
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op


def with_first_last(graph: Graph, first: Sequence[str] = (), last: Sequence[str] = ()) -> Graph:
    """The graph with control edges so that all orders start with ``first`` and end with ``last``.

    The ops of ``first`` run in the order in which they are named, then all other ops, then the ops
    of ``last`` in the order in which they are named. The result lists its ops in that order too: if
    the listing was an execution order, it still is one. Nothing else changes. O(ops +
    dependencies).

    Recomputation is not restricted: an op may run again at any step after its predecessors.

    Parameters
    ----------
    first, last
        Names of ops.

    Raises
    ------
    InputError
        If an op is unknown, named twice, or in both lists; if an op of ``first`` waits for an op
        that is not in ``first`` or comes later there; or if an op that waits for an op of ``last``
        is not in ``last`` or comes earlier there. Names both ops.
    """
    position = graph.columns.op_number
    head, tail = (_positions(position, *side) for side in (("first", first), ("last", last)))
    both = next((k for k in head if k in tail), None)
    if both is not None:
        raise InputError(f"op {graph.ops[both].name!r} is both in first and in last")
    if not head and not tail:
        return graph
    between = [k for k in range(len(graph.ops)) if k not in head and k not in tail]
    _check_first(graph, head)
    _check_last(graph, tail)

    after: dict[int, list[int]] = {k: [] for k in range(len(graph.ops))}
    inner = set(between)
    # Only sources and sinks among the ops in between need an edge; the rest follows.
    sources = [k for k in between if inner.isdisjoint(graph.predecessors[k])]
    sinks = inner.difference(*(graph.predecessors[k] for k in between))
    _chain(after, head)
    _chain(after, tail)
    if head:
        for k in sources or list(tail)[:1]:
            after[k].append(list(head)[-1])
    if tail:
        after[next(iter(tail))] += sorted(sinks)
    listed = [*head, *between, *tail]
    return replace(graph, ops=tuple(_after(graph, k, after[k]) for k in listed))


def _positions(position: dict[str, int], side: str, names: Sequence[str]) -> dict[int, int]:
    """Positions of ops in the graph, in the order named -> their rank."""
    if isinstance(names, str):
        raise InputError(f"{side} must be a list of op names, not the string {names!r}")
    ranks: dict[int, int] = {}
    for name in names:
        if name not in position:
            raise InputError(f"{side} names unknown op {name!r}")
        if position[name] in ranks:
            raise InputError(f"{side} names op {name!r} twice")
        ranks[position[name]] = len(ranks)
    return ranks


def _check_first(graph: Graph, head: dict[int, int]) -> None:
    for k, rank in head.items():
        for before in graph.predecessors[k]:
            if before not in head or head[before] > rank:
                where = "comes later in first" if before in head else "is not in first"
                _refuse(graph, before, k, where)


def _check_last(graph: Graph, tail: dict[int, int]) -> None:
    for k in range(len(graph.ops)):
        for before in graph.predecessors[k]:
            if before in tail and (k not in tail or tail[k] < tail[before]):
                where = "comes later in last" if k in tail else "is in last"
                _refuse(graph, before, k, where)


def _refuse(graph: Graph, before: int, k: int, where: str) -> NoReturn:
    name, earlier = graph.ops[k].name, graph.ops[before].name
    raise InputError(f"op {name!r} waits for {explain(graph, before, k)}, but {earlier!r} {where}")


def _chain(after: dict[int, list[int]], ranks: dict[int, int]) -> None:
    for earlier, later in pairwise(ranks):
        after[later].append(earlier)


def _after(graph: Graph, k: int, more: list[int]) -> Op:
    """Op number ``k`` with control edges from the ops of ``more`` that it does not wait for yet."""
    op = graph.ops[k]
    new = [graph.ops[p].name for p in more if p not in graph.predecessors[k]]
    return replace(op, after=op.after + tuple(new)) if new else op
