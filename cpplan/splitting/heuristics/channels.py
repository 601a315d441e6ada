"""A rule that runs ops in slices of channels, whose products are added up."""

from __future__ import annotations

from collections.abc import Iterator

from cpplan.runtime.budget import tuned
from cpplan.runtime.deadline import Deadline
from cpplan.splitting.heuristics.registered import least_peak, register
from cpplan.splitting.problem import SplitProblem
from cpplan.splitting.region import Region
from cpplan.splitting.schedule import RegionRuns
from cpplan.splitting.styles import Estimate, Style
from cpplan.splitting.tuning import SplittingTuning


@register("channel_slices")
def channel_slices(
    problem: SplitProblem, most_cost: float, deadline: Deadline
) -> list[RegionRuns] | None:
    """Ops in slices of channels, up to an op that adds up the products of the slices.

    As in FDT (arXiv 2303.17878): there is no halo and no extra work.
    """

    def estimates(region: Region, floor: int) -> Iterator[tuple[Estimate, Style]]:
        for axis in problem.axes(region.ops[-1]).values():
            for count in tuned(SplittingTuning).strips if axis.accumulates else ():
                style = Style(axis.name, step=-(-axis.extent // count), longest=axis.extent)
                found = region.estimate(style)
                if found is not None:
                    yield found, style

    return least_peak(problem, estimates, most_cost, deadline)
