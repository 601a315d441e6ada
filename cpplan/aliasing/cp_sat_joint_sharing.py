"""Order, offsets and sharing together by CP-SAT, for graphs of a few dozen ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cpplan.ordering.problem import OrderProblem
from cpplan.packing.reduction import compatible_unit
from cpplan.runtime.build_in_time import build_in_time
from cpplan.runtime.cp_sat_proof import Proof, improve_peak
from cpplan.runtime.deadline import Deadline

if TYPE_CHECKING:
    from cpplan.model.problem import Ints
    from formulations.joint_sharing import Meeting, SharedLayout

NAME = "CP-SAT order, offsets and sharing"


def search_shared_layouts(
    problem: OrderProblem,
    alignment: Ints,
    meetings: Mapping[tuple[int, int], Sequence[Meeting]],
    start: SharedLayout,
    deadline: Deadline,
    *,
    bound: int = 0,
    work: float | None = None,
    workers: int = 1,
    seed: int = 0,
    report: Callable[[Proof[SharedLayout]], None] = lambda proof: None,
) -> Proof[SharedLayout]:
    """Look for a lower peak than a layout's until there is provably none.

    Parameters
    ----------
    problem
        Ops and storages; no ``extra``, ``base`` or ``entry``.
    alignment
        Of every storage, bytes, shape ``(storages,)``.
    meetings
        Where storages may share bytes (``cpplan.aliasing.distances``).
    start
        A valid order with offsets that fit it.
    deadline
        When it passes, the best so far is returned.
    bound
        A proved bound on every layout's peak, bytes.
    work
        Units of CP-SAT's deterministic time to spend at most.
    workers
        Threads. With one, and enough time, the same input and seed give the same layout.
    seed
        For CP-SAT's random choices.
    report
        Called, in the calling thread, at every improvement of either side.

    Examples
    --------
    >>> from formulations.joint_sharing import Meeting, SharedLayout
    >>> chain = OrderProblem(
    ...     predecessors=((), (0,)), extra=np.zeros(2, np.int64), size=np.array([4, 4]),
    ...     touched_by=((0, 1), (1,)), present=np.zeros(2, bool), kept=np.array([False, True]),
    ... )
    >>> start = SharedLayout(np.array([0, 1]), np.array([0, 4]))
    >>> meetings = {(0, 1): [Meeting(0, op=1, old=0)]}
    >>> proof = search_shared_layouts(chain, np.array([1, 1]), meetings, start, Deadline(60))
    >>> proof.best.offset.tolist(), proof.peak, proof.bound
    ([0, 0], 4, 4)
    """
    peak = _peak(problem, start)
    known = Proof(start, peak, min(bound, peak))
    if known.settled or deadline.expired():
        return known
    from formulations.joint_sharing import build

    distances = [meeting.shift for found in meetings.values() for meeting in found]
    unit = compatible_unit([*problem.size.tolist(), *distances], alignment)
    bounds = {"upper": peak, "lower": known.bound}
    model = build_in_time(
        lambda: build(problem, alignment, meetings, unit=unit, **bounds), deadline
    )
    if model is None:
        return known
    model.hint(start)
    return improve_peak(
        model, known, deadline, peak_of=lambda layout: _peak(problem, layout),
        work=work, workers=workers, seed=seed, report=report,
    )  # fmt: skip


def _peak(problem: OrderProblem, layout: SharedLayout) -> int:
    return int((np.asarray(layout.offset) + problem.size).max(initial=0))
