"""Order, offsets and sharing together by CP-SAT, for graphs of a few dozen ops."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cpplan.deadline import Deadline
from cpplan.ordering import OrderProblem
from cpplan.search.cp_sat_run import run_model

if TYPE_CHECKING:
    from cpplan.problem import Ints
    from formulations.joint_sharing import Meeting, SharedLayout

NAME = "CP-SAT order, offsets and sharing"


class JointSharingProof(NamedTuple):
    """The best layout known, its peak, and a bound on every layout's peak, bytes."""

    layout: SharedLayout
    peak: int
    bound: int


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
    report: Callable[[JointSharingProof], None] = lambda proof: None,
) -> JointSharingProof:
    """Look for a lower peak than a layout's until there is provably none.

    Parameters
    ----------
    problem
        Ops and storages; no ``extra``, ``base`` or ``entry``.
    alignment
        Of every storage, bytes, shape ``(storages,)``.
    meetings
        Where storages may share bytes (``cpplan.sharing.meetings``).
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
    >>> proof.layout.offset.tolist(), proof.peak, proof.bound
    ([0, 0], 4, 4)
    """
    peak = _peak(problem, start)
    state = JointSharingProof(start, peak, min(bound, peak))
    if state.bound == peak or deadline.expired():
        return state
    from formulations.joint_sharing import build

    unit = _unit(problem, alignment, meetings)
    model = build(problem, alignment, meetings, unit=unit, upper=peak, lower=state.bound)
    model.hint(start)

    def found(layout: SharedLayout) -> None:
        nonlocal state
        peak = _peak(problem, layout)
        if peak < state.peak:
            state = state._replace(layout=layout, peak=peak)
            report(state)

    def proved(bound: int) -> None:
        nonlocal state
        if bound > state.bound:
            state = state._replace(bound=bound)
            report(state)

    run_model(model, deadline, found=found, proved=proved, work=work, workers=workers, seed=seed)
    return state


def _peak(problem: OrderProblem, layout: SharedLayout) -> int:
    return int((np.asarray(layout.offset) + problem.size).max(initial=0))


def _unit(
    problem: OrderProblem,
    alignment: Ints,
    meetings: Mapping[tuple[int, int], Sequence[Meeting]],
) -> int:
    """Divides sizes and distances, and divides or is a multiple of every alignment."""
    distances = [meeting.shift for found in meetings.values() for meeting in found]
    unit = math.gcd(*problem.size.tolist(), *distances)
    for step in np.unique(alignment).tolist():
        if unit % step and step % unit:
            unit = math.gcd(unit, step)
    return max(1, unit)
