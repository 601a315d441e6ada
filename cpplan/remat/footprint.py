"""Lower bounds on the peak of every schedule, from the bytes live while one unit runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cpplan.aliasing.alias_candidates import AliasCandidate
from cpplan.model.problem import Ints
from cpplan.model.remat_problem import RematProblem
from cpplan.ordering.bounds import order_bounds


class Footprint(NamedTuple):
    """Bytes that every schedule needs, and the unit during which it needs them.

    Attributes
    ----------
    bytes
        Lower bound on the peak of every schedule.
    unit
        The unit during which these bytes are live; ``None`` if they are live at the end.
    """

    bytes: int
    unit: int | None


def least_footprint(problem: RematProblem) -> Footprint:
    """The least bytes that some unit, or the end of every schedule, needs.

    During the first run of a unit, these bytes are live:

    * the storages that it reads and writes, its workspaces, and the bytes that its bodies hold at
      once;
    * all storages that are live throughout;
    * every storage for which three conditions hold. It cannot be computed twice: it is there from
      the start, or written only by ops that may run once (``Op.recomputable``, ``Op.sequence``). It
      exists by then: it is there from the start, or the unit waits for a unit that accesses it. It
      is needed later: it is kept, or a unit that accesses it waits for this unit.

    At the end, all kept storages are live. ``cpplan.verification.footprint`` proves this bound
    again. O((units + storages) × units / 64) words.

    Examples
    --------
    >>> from cpplan.model.graph import Graph, Op, Tensor
    >>> from cpplan.remat.problem import remat_problem
    >>> tensors = Tensor("x", 1, kind="input"), Tensor("a", 8), Tensor("y", 4, kind="output")
    >>> ops = Op("f", inputs=("x",), outputs=("a",)), Op("g", inputs=("a",), outputs=("y",))
    >>> least_footprint(remat_problem(Graph("g", tensors, ops)))
    Footprint(bytes=12, unit=1)
    """
    ordering = problem.ordering
    again = np.zeros(len(ordering.size), bool)
    # Any program may repeat these ops, even if the search does not.
    again[list(problem.begun_again)] = True
    extra = ordering.extra.copy()
    for unit, storages in enumerate(ordering.accesses):
        extra[unit] += sum(int(ordering.size[s]) for s in storages if again[s])
    once = np.flatnonzero(~again)
    forced = order_bounds(
        replace(
            ordering,
            extra=extra,
            size=ordering.size[once],
            accessed_by=tuple(ordering.accessed_by[s] for s in once.tolist()),
            present=ordering.present[once],
            kept=ordering.kept[once],
            storages=(),
        )
    ).forced
    end = int(ordering.base + ordering.size[ordering.kept].sum())
    if not len(problem):
        return Footprint(end + int(ordering.entry), None)
    unit = int(forced.argmax())
    if end > forced[unit]:
        return Footprint(end, None)
    return Footprint(int(forced[unit]), unit)


def shared_footprint(problem: RematProblem, candidates: Iterable[AliasCandidate]) -> Footprint:
    """The least bytes that some unit needs, for any choice of these alias candidates.

    During a unit, these bytes are live: the storages that it accesses, the bytes that its bodies
    hold at once, and the storages that are live throughout and accessed by no unit. A storage that
    the unit may write in place does not count. Among storages of placement candidates, only the
    largest counts, since all others may lie within it. ``cpplan.verification.footprint`` proves
    this bound again. O(accesses + candidates).

    Examples
    --------
    >>> from cpplan.model.graph import Graph, Op, Tensor
    >>> from cpplan.remat.problem import remat_problem
    >>> from cpplan.model.residency import Residency
    >>> from cpplan.aliasing.alias_candidates import find_candidates
    >>> tensors = Tensor("x", 8, kind="input"), Tensor("y", 8, kind="output")
    >>> relu = Op("relu", inputs=("x",), outputs=("y",), in_place=(("y", "x"),))
    >>> graph = Graph("g", tensors, (relu,))
    >>> problem = remat_problem(graph)
    >>> least_footprint(problem).bytes
    16
    >>> shared_footprint(problem, find_candidates(graph, Residency())).bytes
    8
    """
    ordering = problem.ordering
    row = {name: k for k, name in enumerate(ordering.storages)}
    unit_of = {op: unit for unit, ops in enumerate(problem.units) for op in ops}
    copied: set[int] = set()
    written: dict[int, set[int]] = {}
    for candidate in candidates:
        if candidate.in_place:
            written.setdefault(unit_of[candidate.op], set()).add(row[candidate.inner])
        else:
            copied |= {row[candidate.inner], row[candidate.outer]}
    best = Footprint(ordering.base, None)
    for unit, storages in enumerate(ordering.accesses):
        own = {*storages} - written.get(unit, set())
        largest = max((int(ordering.size[s]) for s in own & copied), default=0)
        need = largest + sum(int(ordering.size[s]) for s in own - copied)
        need += int(ordering.base + ordering.extra[unit])
        if need > best.bytes:
            best = Footprint(need, unit)
    return best


def accessed_bytes(problem: RematProblem) -> Ints:
    """Bytes of the storages that every unit accesses and of its workspaces, shape ``(units,)``.

    Examples
    --------
    >>> from cpplan.model.small_graphs import read_at_the_end
    >>> from cpplan.remat.problem import remat_problem
    >>> accessed_bytes(remat_problem(read_at_the_end())).tolist()
    [4, 12, 10, 7]
    """
    ordering = problem.ordering
    found: Ints = ordering.extra.copy()
    for unit, storages in enumerate(ordering.accesses):
        found[unit] += int(ordering.size[list(storages)].sum())
    return found
