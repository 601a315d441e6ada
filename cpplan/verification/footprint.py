"""The bounds "least footprint" and "forced live bytes", proved again: bytes that some op needs.

A least footprint covers every program of the graph: it runs every op at least once, in an order
that the graph allows, and may run an op again if it then computes the same values. Forced live
bytes cover the programs that run every op once. Both are computed from the graph; the bytes that an
op's bodies need come from the accesses of its first run.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from cpplan.model.errors import VerificationError
from cpplan.model.graph import Graph
from cpplan.model.problem import Ints
from cpplan.model.residency import Residency
from cpplan.verification.access_trace import Access, lifespans
from cpplan.verification.around import Surroundings, bytes_beside, bytes_beside_one
from cpplan.verification.runs import Run
from cpplan.verification.storages import Storages, never_shared, overwriting, relaxed_storages


def least_footprint(
    graph: Graph,
    residency: Residency,
    sharing: Collection[str],
    accesses: Sequence[Access],
    runs: Sequence[Run],
    *,
    at: str | None = None,
    enough: int | None = None,
) -> int:
    """Bytes that every program of a graph needs, even if ops run again and tensors share bytes.

    If nothing may be shared, an op's first run needs all storages that it accesses and the bytes
    that its bodies hold at once. It also needs every storage that cannot be computed twice if this
    op or one that must run before it accesses the storage (or the caller brings it), and this op or
    one that must run after it accesses it (or it is kept). Kept storages are live at the end.

    If bytes may be shared, an op needs the storages that it accesses, except for those that it may
    write in place; among the storages that some op copies to or from others, only the largest that
    it accesses counts.
    """
    storages = Storages(graph, residency)
    inside = bytes_in_bodies(graph, accesses, runs)
    found = 0
    for op in (at, None) if at is not None else (None,):
        if sharing:
            least = None if enough is None else enough - inside.constants
            most = _least_shared(storages, sharing, accesses, runs, inside.most, op, least)
            found = inside.constants + most
        else:
            found = _most_needed(storages, graph.predecessors, inside, at=op, enough=enough)
        if enough is not None and found >= enough:
            break
    return found


def forced_live_bytes(
    graph: Graph,
    residency: Residency,
    sharing: Collection[str],
    accesses: Sequence[Access],
    runs: Sequence[Run],
    ends: tuple[Sequence[str], Sequence[str]] = ((), ()),
    *,
    at: str | None = None,
    enough: int | None = None,
) -> int:
    """Bytes that every order needs that runs each op of a graph once, even if tensors share bytes.

    Like :func:`least_footprint`, but no storage is computed twice, and storages that placements
    join count with all bytes that they cover in any plan (:func:`relaxed_storages`).
    """
    if sharing:
        storages = relaxed_storages(graph, residency, sharing, accesses, runs)
    else:
        storages = Storages(graph, residency, repeats=False)
    inside = bytes_in_bodies(graph, accesses, runs)
    return _most_needed(storages, with_ends(graph, *ends), inside, at=at, enough=enough)


def forced_by(
    storages: Storages,
    ends: tuple[Sequence[str], Sequence[str]] = ((), ()),
    *,
    at: str | None = None,
    enough: int | None = None,
) -> int:
    """Forced live bytes (:func:`forced_live_bytes`) of a graph without bodies, by its storages."""
    graph = storages.graph
    inside = InBodies(np.zeros(len(graph.ops), np.int64), 0)
    return _most_needed(storages, with_ends(graph, *ends), inside, at=at, enough=enough)


def with_ends(
    graph: Graph, first: Sequence[str], last: Sequence[str]
) -> tuple[tuple[int, ...], ...]:
    """For each op, the ops it waits for if orders begin with ``first`` and end with ``last``."""
    if not first and not last:
        return graph.predecessors
    number = {op.name: k for k, op in enumerate(graph.ops)}
    head, tail = ([number[name] for name in names] for names in (first, last))
    waits = [list(before) for before in graph.predecessors]
    outer = {*head, *tail}
    between = [k for k in range(len(waits)) if k not in outer]
    for k, op in enumerate(head):
        waits[op] += head[:k]
    for op in between:
        waits[op] += head
    for k, op in enumerate(tail):
        waits[op] += [*head, *between, *tail[:k]]
    return tuple(tuple(dict.fromkeys(before)) for before in waits)


def _most_needed(
    storages: Storages,
    predecessors: Sequence[Sequence[int]],
    inside: InBodies,
    *,
    at: str | None = None,
    enough: int | None = None,
) -> int:
    """Most bytes that an op or the program's end needs; ops with the most bytes come first."""
    graph = storages.graph
    end = sum(storages.size[root] for root in storages.kept)
    if not graph.ops:
        end += storages.untouched(kept=False)
    size = storages.size
    own = np.array([sum([size[root] for root in roots]) for roots in storages.accessed], np.int64)
    own += inside.most - np.array(storages.saved, np.int64)
    ops = np.argsort(-own, kind="stable").tolist()
    if at is not None:
        ops = [_number(graph, at)]
    else:
        end = max(end, int(own.max(initial=0)))
    most = inside.constants + end
    if enough is not None and most >= enough:
        return most  # the storages that one op accesses are enough
    if len(ops) == 1:
        (op,) = ops
        return max(
            most, inside.constants + int(own[op]) + bytes_beside_one(storages, predecessors, op)
        )
    around = Surroundings(predecessors)
    for chosen in around.groups(ops):
        if enough is not None and most >= enough:
            break
        needs = own[chosen] + bytes_beside(storages, around, storages.size, chosen)
        most = max(most, inside.constants + int(needs.max()))
    return most


def _number(graph: Graph, name: str) -> int:
    """Number of an op; raise if there is none of this name."""
    if name not in graph.columns.op_number:
        raise VerificationError(f"the certificate names unknown op {name!r}")
    return graph.columns.op_number[name]


class InBodies(NamedTuple):
    """Most bytes that the bodies of each op hold at once, and bytes of their constants."""

    most: Ints
    constants: int


def bytes_in_bodies(graph: Graph, accesses: Sequence[Access], runs: Sequence[Run]) -> InBodies:
    """Most bytes that the bodies of each op hold at once, and bytes of their constants."""
    if not any(op.bodies for op in graph.ops):
        return InBodies(np.zeros(len(graph.ops), np.int64), 0)
    first: dict[str, int] = {}
    for run in runs:
        first.setdefault(run.op.name, run.step)
    number = {first[op.name]: k for k, op in enumerate(graph.ops)}
    within: dict[int, list[Access]] = {}
    for access in accesses:
        if access.place.retention.inner and access.owner in number:
            within.setdefault(number[access.owner], []).append(access)
    most, constants = np.zeros(len(graph.ops), np.int64), 0
    for k, inner in within.items():
        spans = lifespans(inner)
        constants += sum(retention.size for retention in spans if retention.kind == "constant")
        passing = [
            (retention.size, span)
            for retention, span in spans.items()
            if retention.kind != "constant"
        ]
        steps = {lower for _, (lower, _) in passing}
        live = (sum(size for size, (lo, up) in passing if lo <= step < up) for step in steps)
        most[k] = max(live, default=0)
    return InBodies(most, constants)


def _least_shared(
    storages: Storages,
    sharing: Collection[str],
    accesses: Sequence[Access],
    runs: Sequence[Run],
    inside: Ints,
    at: str | None,
    enough: int | None,
) -> int:
    """Most bytes that an op of the graph needs if bytes may be shared; of op ``at`` alone."""
    graph = storages.graph
    throughout = {
        root
        for root, ops in storages.accessors.items()
        if graph.tensor[root].kind == "constant" or (root in storages.kept and not ops)
    }
    first: dict[str, Run] = {}
    for run in runs:
        first.setdefault(run.op.name, run)
    apart = never_shared(storages, accesses, first)
    copied: set[str] = set()
    for run in first.values() if "placement" in sharing else ():
        for part, whole, _ in () if run.op.bodies else run.placements():
            ends = {graph.root[part.tensor][0], graph.root[whole.tensor][0]}
            if len(ends) == 2 and not ends & apart and part.size:
                copied |= ends
    # A storage that no op copies shares no bytes while an op runs that does not access it.
    alone = [root for root in storages.accessors if root not in throughout | copied]
    around, most = Surroundings(graph.predecessors), 0
    always = sum(storages.size[root] for root in throughout)
    for chosen in around.groups(range(len(graph.ops)) if at is None else [_number(graph, at)]):
        if enough is not None and most + always >= enough:
            break
        beside = bytes_beside(storages, around, alone, chosen)
        for k, more in zip(chosen, (beside + inside[chosen]).tolist(), strict=True):
            own = set(storages.accessed[k]) - throughout
            own -= overwriting(graph, sharing, first[graph.ops[k].name], apart).keys()
            largest = max((storages.size[root] for root in own & copied), default=0)
            most = max(most, largest + sum(storages.size[r] for r in own - copied) + more)
    return most + always
