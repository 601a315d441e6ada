"""Rules that run ops in bands of rows: cascades, fused stages and fused blocks."""

from __future__ import annotations

from collections.abc import Iterator

from cpplan.runtime.budget import tuned
from cpplan.runtime.deadline import Deadline
from cpplan.splitting.frontier import COARSER
from cpplan.splitting.heuristics.registered import least_peak, register
from cpplan.splitting.problem import SplitProblem
from cpplan.splitting.region import Region
from cpplan.splitting.schedule import RegionRuns
from cpplan.splitting.styles import Estimate, Style
from cpplan.splitting.tuning import SplittingTuning

_Found = Iterator[tuple[Estimate, Style]]


@register("cascades")
def cascades(
    problem: SplitProblem, most_cost: float, deadline: Deadline
) -> list[RegionRuns] | None:
    """Chains of ops in stripes of rows, with a rolling buffer between two neighbouring ops.

    These are the cascades of Arm's vela: no step runs twice, and a branch ends a cascade. Here
    dynamic programming finds the best cascades; vela chooses greedily.
    """

    def estimates(region: Region, floor: int) -> _Found:
        if is_chain(region) and "rows" in region.axis_names():
            for step in COARSER:
                yield from _in(region, Style("rows", step=step, longest=step))

    return least_peak(problem, estimates, most_cost, deadline)


@register("fused_stages")
def fused_stages(
    problem: SplitProblem, most_cost: float, deadline: Deadline
) -> list[RegionRuns] | None:
    """Stages of ops in bands of rows that recompute their halos.

    The plain dynamic program over fused stages: the inputs and outputs of a stage are live whole.
    """

    def estimates(region: Region, floor: int) -> _Found:
        if "rows" in region.axis_names():
            for count in tuned(SplittingTuning).strips:
                yield from _in(region, Style(None, "rows", count))

    return least_peak(problem, estimates, most_cost, deadline)


@register("fused_blocks")
def fused_blocks(
    problem: SplitProblem, most_cost: float, deadline: Deadline
) -> list[RegionRuns] | None:
    """Chains of ops, a few output pixels at a time; halos are kept only along a row.

    As in msf-CNN (arXiv 2505.11483), which finds the blocks as a path of least peak over the cut
    points of a chain.
    """

    def estimates(region: Region, floor: int) -> _Found:
        axes = region.problem.axes(region.ops[-1])
        if is_chain(region) and {"rows", "columns"} <= axes.keys():
            for step in COARSER:
                yield from _in(region, Style("columns", "rows", axes["rows"].extent, step, step))

    return least_peak(problem, estimates, most_cost, deadline)


def is_chain(region: Region) -> bool:
    """True if each tensor of a region is read only by its writer and by the op after it.

    Tensors outside the arena do not count.
    """
    size = region.problem.size
    for m, readers in enumerate(region.readers):
        writer, users = region.writers[m], {k for k, _ in readers}
        if size[region.storages[m]] and users - {writer, writer + 1}:
            return False
    return True


def _in(region: Region, style: Style) -> _Found:
    found = region.estimate(style)
    if found is not None:
        yield found, style
