"""Models by CP-SAT in which buffers may share bytes: at a given order, or with the order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cpplan.model.order_problem import OrderProblem
from cpplan.model.problem import Ints, Problem
from cpplan.packing.reduction import compatible_unit
from cpplan.runtime.cp_sat_proof import PeakModel

if TYPE_CHECKING:
    from formulations.joint_sharing import JointSharingModel, Meeting, SharedLayout
    from formulations.sharing import SharingModel

SHARING = "CP-SAT sharing"
JOINT_SHARING = "CP-SAT order, offsets and sharing"


def sharing_model(
    problem: Problem, shifts: Mapping[tuple[int, int], Sequence[int]]
) -> PeakModel[Ints]:
    """The model of all offsets, where buffers may share bytes."""

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


def joint_sharing_model(
    problem: OrderProblem,
    alignment: Ints,
    meetings: Mapping[tuple[int, int], Sequence[Meeting]],
) -> PeakModel[SharedLayout]:
    """The model of all orders with offsets, in which storages may share bytes."""

    def build(upper: int, lower: int) -> JointSharingModel:
        from formulations.joint_sharing import build

        distances = [meeting.shift for found in meetings.values() for meeting in found]
        unit = compatible_unit([*problem.size.tolist(), *distances], alignment)
        return build(problem, alignment, meetings, unit=unit, upper=upper, lower=lower)

    def peak_of(layout: SharedLayout) -> int:
        return int((np.asarray(layout.offset) + problem.size).max(initial=0))

    return PeakModel(build, peak_of)
