"""What no sequence can do without: the bytes that are live while some unit runs."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cpplan.remat.flat_problem import flatten
from cpplan.remat.problem import RematProblem
from cpplan.search.order_bounds import order_bounds


class Footprint(NamedTuple):
    """Bytes that every sequence needs, and the unit during which it needs them.

    Attributes
    ----------
    bytes
        No sequence has a smaller peak.
    unit
        While it runs, that much is live; ``None`` if it is what stays live at the end.
    """

    bytes: int
    unit: int | None


def least_footprint(problem: RematProblem) -> Footprint:
    """The least bytes that some unit, or the end of every sequence, needs.

    While a unit runs, what it reads and writes is live, and its workspaces; and so is everything
    that cannot be computed twice (what is there from the start, what a unit wrote that may run but
    once) if it must exist by then and is read later or kept. All that is kept is live at the end.
    O((units + storages) × units / 64) words.

    Examples
    --------
    >>> from cpplan.graph import Graph, Op, Tensor
    >>> from cpplan.remat.problem import remat_problem
    >>> tensors = Tensor("x", 1, kind="input"), Tensor("a", 8), Tensor("y", 4, kind="output")
    >>> ops = Op("f", inputs=("x",), outputs=("a",)), Op("g", inputs=("a",), outputs=("y",))
    >>> least_footprint(remat_problem(Graph("g", tensors, ops)))
    Footprint(bytes=12, unit=1)
    """
    ordering, flat = problem.ordering, flatten(problem)
    written = np.zeros(len(flat.size), bool)
    written[flat.writes] = True
    again = written & (flat.writer < 0) & ~flat.in_parts
    again[flat.writer >= 0] = problem.repeatable[flat.writer[flat.writer >= 0]]
    extra = ordering.extra.copy()
    for unit, storages in enumerate(ordering.touches):
        extra[unit] += sum(int(flat.size[s]) for s in storages if again[s])
    once = np.flatnonzero(~again)
    forced = order_bounds(
        replace(
            ordering,
            extra=extra,
            size=ordering.size[once],
            touched_by=tuple(ordering.touched_by[s] for s in once.tolist()),
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
