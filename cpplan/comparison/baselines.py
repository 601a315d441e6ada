"""Comparison of all packing baselines with ``solve`` and its bound, on one model."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cpplan.comparison import SOLVE
from cpplan.comparison.in_turn import rows_in_turn
from cpplan.model.answers import Answer
from cpplan.model.errors import InputError, VerificationError
from cpplan.model.graph import Graph
from cpplan.model.levels import pool_peaks
from cpplan.model.names import tuple_of
from cpplan.model.plan import Plan
from cpplan.model.problem import Problem
from cpplan.model.registry import chosen_names
from cpplan.packing import heuristics
from cpplan.packing.heuristics.in_pools import PoolLayout, run_in_pools
from cpplan.packing.pools.objective import is_peak, objective_value
from cpplan.packing.problem import as_problem
from cpplan.runtime import limits
from cpplan.runtime.deadline import Deadline, TimeUpError
from cpplan.runtime.interrupts import noting_interrupts
from cpplan.solving.pipeline import solve_request
from cpplan.solving.request import Request
from cpplan.verification.verifier import check_offsets

if TYPE_CHECKING:
    import pandas

    from cpplan.comparison.remat_comparison import RematBaseline
    from cpplan.comparison.spill_comparison import SpillBaseline
    from cpplan.comparison.split_comparison import SplitBaseline
    from cpplan.program.anf import Program

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Baseline:
    """One row of a comparison.

    Attributes
    ----------
    algorithm
        Name of the heuristic, or ``"cpplan"`` for ``solve``.
    bytes
        Peak (the sum over all pools); ``None`` if the heuristic did not finish in time or its
        layout does not fit.
    value
        Value of the objective: the peak, or with several pools its levels.
    ratio
        ``bytes`` divided by the best bound known, or ``None``.
    seconds
        Seconds by the clock; ``None`` for an answer that was read.
    status
        ``solve``'s status; a heuristic or answer is ``optimal`` if it meets the bound, else
        ``feasible``, ``does not fit`` above the capacity, ``unknown`` if it did not finish in time,
        or ``invalid`` if it breaks a rule (two buffers overlap, say). An answer is ``stated`` if it
        does not place every buffer and so cannot be checked.
    """

    algorithm: str
    bytes: int | None
    ratio: float | None
    seconds: float | None
    status: str
    value: tuple[int | float, ...] = ()


def compare(
    source: Graph | Program | Problem,
    *,
    algorithms: Iterable[str] | None = None,
    time_limit: float = 10.0,
    remat: bool = False,
    spill: bool = False,
    split: bool = False,
    answers: Iterable[Answer] = (),
    **options: Any,
) -> pandas.DataFrame:
    """Run every baseline and ``solve``; the table has one row each, the smallest peak first.

    Other planners' answers have a row each: the answers that a reader found beside the model, and
    the ones given. They hold for the order in which the model lists its ops.

    With ``remat``, the rows are baselines of rematerialization within a ``memory_limit``, the
    cheapest first. Ctrl-C ends the table: it has the best plan of ``solve`` so far, and the rows of
    the baselines that were done.

    Parameters
    ----------
    source
        The model or problem to plan.
    algorithms
        Names of heuristics; with ``remat``, ``spill`` or ``split``, names of that room's rules (for
        example :mod:`cpplan.remat.heuristics`). All registered ones if left out.
    time_limit
        Seconds for each row. A baseline that needs more has no bytes and the status ``unknown``.
        All layouts are checked besides.
    remat
        True if ops may run again. See
        :func:`cpplan.comparison.remat_comparison.compare_remat_rows`.
    spill
        True if tensors may move between two ``pools``: compares eviction rules, the fewest bytes
        moved first. See :func:`cpplan.comparison.spill_comparison.compare_spill_rows`.
    split
        True if ops may run in pieces: compares published rules at a ``cost_limit``. See
        :func:`cpplan.comparison.split_comparison.compare_split_rows`.
    answers
        Further answers of other planners for this model (packing only).
    options
        Options of ``solve``; ``progress`` is also told each baseline. Baselines know pools and
        residency; they use no aliases and keep the order. With ``remat``, ``memory_limit`` is a
        byte count or a share of the bytes that the given order needs (``"60%"``).

    Returns
    -------
    pandas.DataFrame
        Columns ``algorithm``, ``bytes``, ``ratio`` (to the best bound), ``seconds``, ``status``;
        with ``remat``, ``algorithm``, ``bytes``, ``cost``, ``extra`` (cost beyond every op once),
        ``seconds``, ``status``; with ``split``, also ``runs`` and ``copied`` bytes.

    Raises
    ------
    InputError
        If an algorithm is not known (lists the known ones), or an option is not understood.

    Examples
    --------
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 4])
    >>> table = compare(problem, algorithms=["bump", "first_fit"])
    >>> table[["algorithm", "bytes", "ratio"]].values.tolist()
    [['cpplan', 12, 1.0], ['first_fit', 12, 1.0], ['bump', 16, 1.3333333333333333]]
    """
    import pandas

    from cpplan.comparison.remat_comparison import compare_remat_rows
    from cpplan.comparison.spill_comparison import compare_spill_rows
    from cpplan.comparison.split_comparison import compare_split_rows

    if remat + spill + split > 1:
        raise InputError("remat, spill and split are compared with other baselines: give one")
    rows: Sequence[Baseline | RematBaseline | SpillBaseline | SplitBaseline]
    columns: tuple[str, ...] = _COLUMNS
    if remat:
        if tuple(answers):
            raise InputError("answers are of planners that run no op twice: not with remat")
        rows = compare_remat_rows(source, algorithms=algorithms, time_limit=time_limit, **options)
        columns = _REMAT_COLUMNS
    elif spill:
        if tuple(answers):
            raise InputError("answers are of planners that move nothing: not with spill")
        if isinstance(source, Problem):
            raise InputError("spill=True needs a graph: a bare problem has no ops")
        rows = compare_spill_rows(source, algorithms=algorithms, time_limit=time_limit, **options)
        columns = _SPILL_COLUMNS
    elif split:
        if tuple(answers):
            raise InputError("answers are of planners that split nothing: not with split")
        if isinstance(source, Problem):
            raise InputError("split=True needs a graph: a bare problem has no ops to split")
        rows = compare_split_rows(source, algorithms=algorithms, time_limit=time_limit, **options)
        columns = _SPLIT_COLUMNS
    else:
        options["answers"] = answers
        rows = compare_rows(source, algorithms=algorithms, time_limit=time_limit, **options)
    frame: pandas.DataFrame = pandas.DataFrame(
        [{name: getattr(row, name) for name in columns} for row in rows]
    )
    return frame


_COLUMNS = ("algorithm", "bytes", "ratio", "seconds", "status")
_SPILL_COLUMNS = ("algorithm", "moved", "ratio", "seconds", "status")
_SPLIT_COLUMNS = ("algorithm", "bytes", "ratio", "extra", "runs", "copied", "seconds", "status")
_REMAT_COLUMNS = ("algorithm", "bytes", "cost", "extra", "seconds", "status")


def compare_rows(
    source: Graph | Program | Problem,
    *,
    algorithms: Iterable[str] | None = None,
    time_limit: float = 10.0,
    answers: Iterable[Answer] = (),
    **options: Any,
) -> list[Baseline]:
    """Rows of :func:`compare`, without pandas."""
    answers = tuple_of(Answer, "answers", answers)
    if isinstance(source, (Graph, Problem)):
        answers = (*source.answers, *answers)
    chosen = chosen_names(heuristics, algorithms)
    request = Request(time_limit=time_limit, **options)
    with noting_interrupts() as interrupted:
        plan = solve_request(source, request)
        problem = as_problem(source, plan.residency, request.pools)
        if (last := int(problem.upper.max(initial=0))) > limits.MOST_STEPS:
            reason = f"baselines look at each: expected at most {limits.MOST_STEPS}"
            raise InputError(f"{problem.name or 'the problem'} has {last} steps, and {reason}")
        found = list(
            rows_in_turn(
                chosen,
                lambda name: run_baseline(name, problem, request.objective, time_limit),
                interrupted,
                request.progress,
            )
        )
    value = plan.objective_value or (() if plan.peak is None else (plan.peak,))
    found += [_stated(answer, problem, request.objective) for answer in answers]
    ours = Baseline(SOLVE, plan.peak, None, plan.runtime or 0.0, plan.status, value)
    rows = [_judge(row, plan) for row in (ours, *found)]
    return sorted(rows, key=lambda row: row.value or (math.inf,))


def _judge(row: Baseline, plan: Plan) -> Baseline:
    """The row with its ratio to the plan's bound, and its status by bound and capacity."""
    bound, status = plan.lower_bound, row.status
    ratio = None
    if row.bytes is not None and bound is not None and status != "invalid":
        ratio = row.bytes / bound if bound else 1.0
    if row.algorithm != SOLVE and status == "feasible":
        best = plan.objective_bound or (() if bound is None else (bound,))
        status = "optimal" if row.value == best else "feasible"
    above = row.bytes is not None and plan.capacity is not None and row.bytes > plan.capacity
    if row.algorithm != SOLVE and status != "invalid" and above:
        status = "does not fit"
    return replace(row, ratio=ratio, status=status)


def run_baseline(name: str, problem: Problem, objective: str, time_limit: float) -> Baseline:
    """Run one heuristic; the row has its bytes, or a status without bytes, and no ratio yet."""
    start, deadline = time.perf_counter(), Deadline(time_limit)
    try:
        if len(problem.pools) == 1:
            layout: PoolLayout | None = PoolLayout(
                np.zeros(len(problem), np.int64), heuristics.get(name)(problem, deadline)
            )
        else:
            layout = run_in_pools(name, problem, deadline)
    except TimeUpError:
        return Baseline(name, None, None, time.perf_counter() - start, "unknown")
    seconds = time.perf_counter() - start
    if layout is None:
        return Baseline(name, None, None, seconds, "does not fit")
    return _measured(Baseline(name, None, None, seconds, "feasible"), problem, objective, layout)


def _measured(row: Baseline, problem: Problem, objective: str, layout: PoolLayout) -> Baseline:
    """The row with a layout's bytes; without them if it breaks a rule or exceeds a capacity."""
    try:
        for number in range(len(problem.pools)):
            rows = np.flatnonzero(layout.pool == number)
            check_offsets(problem.in_pool(number, rows), layout.offset[rows], row.algorithm)
    except VerificationError as error:
        logger.info("%s", error)
        return replace(row, status="invalid")
    peaks = pool_peaks(problem, layout.pool, layout.offset).tolist()
    limits = [math.inf if pool.capacity is None else pool.capacity for pool in problem.pools]
    if any(peak > limit for peak, limit in zip(peaks, limits, strict=True)):
        return replace(row, status="does not fit")
    peak = sum(peaks)
    value: tuple[int | float, ...] = (peak,)
    if not is_peak(problem, objective):
        value = objective_value(problem, objective, layout.pool, layout.offset)
    return replace(row, bytes=peak, value=value)


def _stated(answer: Answer, problem: Problem, objective: str) -> Baseline:
    """The row of an answer with the bytes that it states, which may include padding."""
    row = Baseline(answer.name, answer.peak, None, None, "stated", (answer.peak,))
    layout = _layout_of(answer, problem)
    if layout is None:
        return row
    unknown = replace(row, bytes=None, status="feasible")
    found = _measured(unknown, problem, objective, layout)
    if found.bytes is None or answer.peak < found.bytes:
        return replace(row, status="invalid" if found.bytes else found.status, value=())
    value = row.value if is_peak(problem, objective) else found.value
    return replace(found, bytes=answer.peak, value=value)


def _layout_of(answer: Answer, problem: Problem) -> PoolLayout | None:
    """The layout that an answer gives, or ``None`` if it does not place every buffer."""
    position = {pool.name: k for k, pool in enumerate(problem.pools)}
    alone = problem.pools[0].name if len(problem.pools) == 1 and not answer.pool else None
    if answer.offset is None or any(name not in answer.offset for name in problem.names):
        return None
    pools = [answer.pool.get(name, alone) for name in problem.names]
    if any(pool not in position for pool in pools):
        return None
    offset = np.array([answer.offset[name] for name in problem.names], np.int64)
    return PoolLayout(np.array([position[str(pool)] for pool in pools], np.int64), offset)
