"""Links and offsets together by CP-SAT, for programs with few buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cpplan.model.problem import Ints, Problem
from cpplan.packing.reduction import compatible_unit
from cpplan.runtime.build_in_time import build_in_time
from cpplan.runtime.cp_sat_proof import Proof, improve_peak
from cpplan.runtime.deadline import Deadline

NAME = "CP-SAT sharing"
# Every pair that one may share with makes three literals or more.
MOST_PAIRS = 20_000


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
    report: Callable[[Proof[Ints]], None] = lambda proof: None,
) -> Proof[Ints]:
    """Look for a lower peak than that of given offsets until there is provably none.

    Parameters
    ----------
    problem
        Buffers without gaps.
    shifts
        Distances at which two of them may share bytes (``cpplan.aliasing.distances``).
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
    >>> import numpy as np
    >>> problem = Problem(("x", "y"), lower=[0, 0], upper=[1, 1], size=[4, 8])
    >>> proof = search_sharing(problem, {(0, 1): [-4]}, np.array([8, 0]), Deadline(60))
    >>> proof.best.tolist(), proof.peak, proof.bound
    ([4, 0], 8, 8)
    """
    peak = _peak(problem, start)
    known = Proof(start, peak, min(bound, peak))
    if known.settled or deadline.expired():
        return known
    from formulations.sharing import build

    distances = [shift for found in shifts.values() for shift in found]
    # Push all that shares bytes down together until it rests on something: offsets are then sums
    # of sizes and distances, rounded up to alignments.
    unit = compatible_unit([*problem.size.tolist(), *distances], problem.alignment)
    model = build_in_time(
        lambda: build(problem, shifts, unit=unit, upper=peak, lower=known.bound), deadline
    )
    if model is None:
        return known
    model.hint(start)
    return improve_peak(
        model, known, deadline, peak_of=lambda offsets: _peak(problem, offsets),
        work=work, workers=workers, seed=seed, report=report,
    )  # fmt: skip


def _peak(problem: Problem, offsets: Ints) -> int:
    return int((offsets + problem.size).max(initial=0))
