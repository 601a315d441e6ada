"""Links and offsets together by CP-SAT, for programs with few buffers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cpplan.deadline import Deadline
from cpplan.problem import Ints, Problem
from cpplan.search.cp_sat_run import run_model

NAME = "CP-SAT sharing"
# Every pair that one may share with makes three literals or more.
MOST_PAIRS = 20_000


class SharingProof(NamedTuple):
    """The best offsets known, their peak, and a bound on every layout's peak, bytes."""

    offsets: Ints
    peak: int
    bound: int


def search_sharing(
    problem: Problem,
    shifts: Mapping[tuple[int, int], Sequence[int]],
    start: Ints,
    deadline: Deadline,
    *,
    bound: int = 0,
    work: float | None = None,
    workers: int = 1,
    seed: int = 0,
    report: Callable[[SharingProof], None] = lambda proof: None,
) -> SharingProof:
    """Look for a lower peak than that of given offsets until there is provably none.

    Parameters
    ----------
    problem
        Buffers without gaps.
    shifts
        Distances at which two of them may share bytes (``cpplan.sharing.shifts``).
    start
        Valid offsets, bytes, shape ``(n,)``.
    deadline
        When it passes, the best so far is returned.
    bound
        A proved bound, bytes.
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
    >>> problem = Problem(("x", "y"), lower=[0, 0], upper=[1, 1], size=[4, 8])
    >>> proof = search_sharing(problem, {(0, 1): [-4]}, np.array([8, 0]), Deadline(60))
    >>> proof.offsets.tolist(), proof.peak, proof.bound
    ([4, 0], 8, 8)
    """
    state = SharingProof(start, _peak(problem, start), bound)
    if state.bound >= state.peak or deadline.expired():
        return state
    from formulations.sharing import build

    unit = _unit(problem, shifts)
    model = build(problem, shifts, unit=unit, upper=state.peak, lower=bound)
    model.hint(start)

    def found(offsets: Ints) -> None:
        nonlocal state
        peak = _peak(problem, offsets)
        if peak < state.peak:
            state = state._replace(offsets=offsets, peak=peak)
            report(state)

    def proved(bound: int) -> None:
        nonlocal state
        if bound > state.bound:
            state = state._replace(bound=bound)
            report(state)

    run_model(model, deadline, found=found, proved=proved, work=work, workers=workers, seed=seed)
    return state


def _peak(problem: Problem, offsets: Ints) -> int:
    return int((offsets + problem.size).max(initial=0))


def _unit(problem: Problem, shifts: Mapping[tuple[int, int], Sequence[int]]) -> int:
    """Divides sizes and distances, and divides or is a multiple of every alignment.

    Push all that shares bytes down together until it rests on something: offsets are then sums of
    sizes and distances, rounded up to alignments.
    """
    distances = [shift for found in shifts.values() for shift in found]
    unit = math.gcd(*problem.size.tolist(), *distances)
    for alignment in np.unique(problem.alignment).tolist():
        if unit % alignment and alignment % unit:
            unit = math.gcd(unit, alignment)
    return max(1, unit)
