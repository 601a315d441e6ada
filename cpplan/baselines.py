"""Every named baseline beside the bound and beside ``solve``, on one model."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cpplan import heuristics
from cpplan.deadline import Deadline, TimeUpError
from cpplan.graph import Graph
from cpplan.pipeline import solve
from cpplan.problem import Problem
from cpplan.residency import Residency
from cpplan.stages.sources import as_problem
from cpplan.verifier import check_offsets

if TYPE_CHECKING:
    import pandas

    from cpplan.anf import Program

SOLVE = "cpplan"


@dataclass(frozen=True, slots=True)
class Baseline:
    """One row of a comparison.

    Attributes
    ----------
    algorithm
        Name of the heuristic, or ``"cpplan"`` for ``solve``.
    bytes
        Peak, or ``None`` if it did not finish in time.
    ratio
        ``bytes`` / the best bound known, or ``None``.
    seconds
        By the clock.
    status
        ``solve``'s status; a heuristic is ``optimal`` if it meets the bound, else ``feasible``,
        ``does not fit`` above the capacity, or ``unknown`` if it did not finish in time.
    """

    algorithm: str
    bytes: int | None
    ratio: float | None
    seconds: float
    status: str


def compare(
    source: Graph | Program | Problem,
    *,
    algorithms: Iterable[str] | None = None,
    time_limit: float = 10.0,
    **options: Any,
) -> pandas.DataFrame:
    """Run every baseline and ``solve``; one row each, the smallest peak first.

    Parameters
    ----------
    source
        What to plan.
    algorithms
        Names of heuristics; all registered ones if left out.
    time_limit
        Seconds for each row.
    options
        For ``solve`` (``inputs``, ``outputs``, ``constants``, ``workers``, ``seed``).

    Returns
    -------
    pandas.DataFrame
        Columns ``algorithm``, ``bytes``, ``ratio`` (to the best bound), ``seconds``, ``status``.

    Raises
    ------
    InputError
        If an algorithm is not known; lists those that are.

    Examples
    --------
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 4])
    >>> table = compare(problem, algorithms=["bump", "first_fit"])
    >>> table[["algorithm", "bytes", "ratio"]].values.tolist()
    [['cpplan', 12, 1.0], ['first_fit', 12, 1.0], ['bump', 16, 1.3333333333333333]]
    """
    import pandas

    rows = compare_rows(source, algorithms=algorithms, time_limit=time_limit, **options)
    frame: pandas.DataFrame = pandas.DataFrame(
        [{name: getattr(row, name) for name in _COLUMNS} for row in rows]
    )
    return frame


_COLUMNS = ("algorithm", "bytes", "ratio", "seconds", "status")


def compare_rows(
    source: Graph | Program | Problem,
    *,
    algorithms: Iterable[str] | None = None,
    time_limit: float = 10.0,
    **options: Any,
) -> list[Baseline]:
    """:func:`compare` without pandas."""
    chosen = tuple(heuristics.names() if algorithms is None else algorithms)
    for name in chosen:
        heuristics.get(name)
    residency = Residency(
        **{k: options[k] for k in ("inputs", "outputs", "constants") if k in options}
    )
    problem = as_problem(source, residency)
    plan = solve(source, time_limit=time_limit, **options)
    peaks = {name: _run(name, problem, time_limit) for name in chosen}
    bound = plan.lower_bound

    def row(name: str, peak: int | None, seconds: float, status: str) -> Baseline:
        ratio = None
        if peak is not None and bound is not None:
            ratio = peak / bound if bound else 1.0
        return Baseline(name, peak, ratio, seconds, status)

    rows = [row(SOLVE, plan.peak, plan.runtime or 0.0, plan.status)]
    for name, (peak, seconds) in peaks.items():
        rows.append(row(name, peak, seconds, _status(peak, bound, plan.capacity)))
    return sorted(rows, key=lambda r: math.inf if r.bytes is None else r.bytes)


def _status(peak: int | None, bound: int | None, capacity: int | None) -> str:
    if peak is None:
        return "unknown"
    if capacity is not None and peak > capacity:
        return "does not fit"
    return "optimal" if peak == bound else "feasible"


def _run(name: str, problem: Problem, time_limit: float) -> tuple[int | None, float]:
    start = time.perf_counter()
    try:
        offsets = heuristics.get(name)(problem, Deadline(time_limit))
    except TimeUpError:
        return None, time.perf_counter() - start
    seconds = time.perf_counter() - start
    check_offsets(problem, offsets, name)
    return int((offsets + problem.size).max(initial=0)), seconds
