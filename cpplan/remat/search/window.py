"""A window of a schedule as a separate rematerialization problem.

The runs at the positions ``begin <= position < end`` may be replaced, the others stay. Values read
in the window or after it are live at its beginning; values read after it are kept to its end. Units
that have run before the window may run again in it, but need not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cpplan.model.errors import InputError
from cpplan.model.order_problem import OrderProblem
from cpplan.model.remat_problem import RematProblem


@dataclass(frozen=True, eq=False, slots=True)
class RematWindow:
    """A stretch of a schedule.

    Attributes
    ----------
    problem
        Units and storages of the window, renumbered. Storages live throughout count in its base.
    units
        For every unit of the window, its number in the whole problem.
    done
        Units of the window that have run before.
    runs
        Present runs of the window, as units of the window.
    """

    problem: RematProblem
    units: tuple[int, ...]
    done: frozenset[int]
    runs: tuple[int, ...]


def remat_window(
    problem: RematProblem, schedule: Sequence[int], begin: int, end: int, *, others: int = 40
) -> RematWindow:
    """The window ``[begin, end)`` of a schedule. O(accesses).

    Besides the units that run in the window, up to ``others`` earlier units may run in it: those
    that write values live at the ends of the window, and the writers of their inputs in turn.

    Raises
    ------
    InputError
        If the window is empty or reaches beyond the schedule.

    Examples
    --------
    >>> from cpplan.model.graph import Graph, Op, Tensor
    >>> from cpplan.remat.problem import remat_problem
    >>> ops = (
    ...     Op("f", outputs=("a",)),
    ...     Op("g", inputs=("a",), outputs=("b",)),
    ...     Op("h", inputs=("a", "b"), outputs=("c",)),
    ... )
    >>> problem = remat_problem(Graph("g", tuple(Tensor(name, 8) for name in "abc"), ops))
    >>> window = remat_window(problem, [0, 1, 2], 1, 2)
    >>> window.units, window.done, window.runs
    ((0, 1), frozenset({0}), (1,))
    >>> window.problem.ordering.present.tolist(), window.problem.ordering.kept.tolist()
    ([True, False], [True, True])
    """
    if not 0 <= begin < end <= len(schedule):
        raise InputError(f"[{begin}, {end}) is no window of {len(schedule)} runs")
    there, wanted = _ends(problem, schedule, begin, end)
    before = set(schedule[:begin])
    units = _units(problem, schedule[begin:end], before, there | wanted, others)
    number = {unit: k for k, unit in enumerate(units)}
    accessed: dict[int, list[int]] = {}
    for unit in units:
        for storage in sorted({*problem.reads[unit], *problem.writes[unit]}):
            accessed.setdefault(storage, []).append(number[unit])
    rows = {storage: k for k, storage in enumerate(sorted(accessed))}
    ordering = problem.ordering
    idle = sorted((there & wanted) - rows.keys())
    inside = OrderProblem(
        predecessors=tuple(
            tuple(number[other] for other in ordering.predecessors[unit] if other in number)
            for unit in units
        ),
        extra=ordering.extra[units],
        size=ordering.size[list(rows)],
        accessed_by=tuple(tuple(accessed[storage]) for storage in rows),
        present=np.array([storage in there for storage in rows], bool),
        kept=np.array([storage in wanted for storage in rows], bool),
        base=ordering.base + int(ordering.size[idle].sum()),
        entry=ordering.entry if begin == 0 else 0,
    )
    return RematWindow(
        replace(
            problem,
            units=tuple(problem.units[unit] for unit in units),
            ordering=inside,
            reads=tuple(tuple(rows[s] for s in problem.reads[unit]) for unit in units),
            writes=tuple(tuple(rows[s] for s in problem.writes[unit]) for unit in units),
            cost=tuple(problem.cost[unit] for unit in units),
            repeatable=problem.repeatable[units],
            overwrites=((),) * len(units),
        ),
        tuple(units),
        frozenset(number[unit] for unit in units if unit in before),
        tuple(number[unit] for unit in schedule[begin:end]),
    )


def _ends(
    problem: RematProblem, schedule: Sequence[int], begin: int, end: int
) -> tuple[set[int], set[int]]:
    """Storages live at the beginning of the window, and storages live after it."""
    there, wanted = set[int](), set[int]()
    for storage, first, stop in problem.retentions(schedule):
        if stop > begin and (first < begin or (begin == 0 and problem.ordering.present[storage])):
            there.add(storage)
        if first < end < stop:
            wanted.add(storage)
    if end == len(schedule):
        wanted.update(np.flatnonzero(problem.ordering.kept).tolist())
    return there, wanted


def _units(
    problem: RematProblem,
    runs: Sequence[int],
    before: set[int],
    live: set[int],
    others: int,
) -> list[int]:
    """Units that run in the window or may run again in it, ascending."""
    writer = {
        storage: unit
        for unit, written in enumerate(problem.writes)
        if unit in before and problem.repeatable[unit]
        for storage in written
    }
    units = dict.fromkeys(runs)
    queue = [s for unit in units for s in problem.reads[unit]] + sorted(live)
    room = len(units) + others
    for storage in queue:
        unit = writer.get(storage)
        if unit is not None and unit not in units and len(units) < room:
            units[unit] = None
            queue += problem.reads[unit]
    return sorted(units)
