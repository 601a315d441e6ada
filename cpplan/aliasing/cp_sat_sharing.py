"""Candidates and offsets together by CP-SAT, for programs with few buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cpplan.model.problem import Ints, Problem
from cpplan.packing.reduction import compatible_unit
from cpplan.runtime.cp_sat_proof import PeakModel

if TYPE_CHECKING:
    from formulations.sharing import SharingModel

NAME = "CP-SAT sharing"


def sharing_model(
    problem: Problem, shifts: Mapping[tuple[int, int], Sequence[int]]
) -> PeakModel[Ints]:
    """The model of all offsets, where buffers may share bytes.

    Parameters
    ----------
    problem
        Buffers without gaps.
    shifts
        Distances at which two buffers may share bytes (``cpplan.aliasing.distances``).

    Examples
    --------
    >>> import numpy as np
    >>> from cpplan.runtime.budget import Budget
    >>> from cpplan.runtime.cp_sat_proof import prove_peak
    >>> from cpplan.runtime.deadline import Deadline
    >>> problem = Problem(("x", "y"), lower=[0, 0], upper=[1, 1], size=[4, 8])
    >>> model = sharing_model(problem, {(0, 1): [-4]})
    >>> proof = prove_peak(model, np.array([8, 0]), Budget(Deadline(60)))
    >>> proof.best.tolist(), proof.peak, proof.bound
    ([4, 0], 8, 8)
    """

    def build(upper: int, lower: int) -> SharingModel:
        from formulations.sharing import build

        distances = [shift for found in shifts.values() for shift in found]
        # Some best layout has all buffers that share bytes pushed down together until one rests on
        # another buffer: its offsets are sums of sizes and distances, rounded up to alignments.
        unit = compatible_unit([*problem.size.tolist(), *distances], problem.alignment)
        return build(problem, shifts, unit=unit, upper=upper, lower=lower)

    def peak_of(offsets: Ints) -> int:
        return int((offsets + problem.size).max(initial=0))

    return PeakModel(build, peak_of)
