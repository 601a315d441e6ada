"""Published rules of splitting: cascades, patches, and slices of channels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cpplan.program.liveness import live_bytes
from cpplan.runtime.budget import tuned
from cpplan.runtime.deadline import Deadline
from cpplan.splitting.frontier import COARSER
from cpplan.splitting.heuristics.registered import least_peak, register
from cpplan.splitting.problem import SplitProblem
from cpplan.splitting.region import Region
from cpplan.splitting.region_ends import find_valleys
from cpplan.splitting.schedule import RegionRuns, join, run_whole
from cpplan.splitting.styles import Estimate, Run, Style
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


@register("patches")
def patches(problem: SplitProblem, most_cost: float, deadline: Deadline) -> list[RegionRuns] | None:
    """The first ops in n x n patches that recompute their halos; all other ops whole.

    As in MCUNetV2 (arXiv 2110.15352). The end of the first stage and n are the best that were tried
    in time: all ends with 2 x 2 patches come first, then all with more patches.
    """
    tuning = tuned(SplittingTuning)
    best: tuple[int, list[RegionRuns]] | None = None
    total = sum(op.cost for op in problem.ops)
    ends = find_valleys(problem)[1:]
    for count in tuning.strips:
        for stop in ends:
            if deadline.expired():
                break
            found = _in_patches(problem, stop, count)
            if found is None or total + found[1] > most_cost:
                continue
            parts = [found[0], run_whole(stop, len(problem.ops))]
            peak = int(live_bytes(join(problem, parts)[1]).max())
            if best is None or peak < best[0]:
                best = peak, parts
    return None if best is None else best[1]


def _in_patches(problem: SplitProblem, stop: int, count: int) -> tuple[RegionRuns, float] | None:
    """The first steps in ``count`` x ``count`` patches, and the extra cost of their halos."""
    region = Region(problem, 0, stop)
    names = [name for name in ("rows", "columns") if name in region.axis_names()]
    if not region.in_turn or len(names) < 2:
        return None
    found = [region.strips(name, count) for name in names]
    if any(each is None or each.steps is None for each in found):
        return None
    rows, columns = (each.steps for each in found if each is not None)
    assert rows is not None
    assert columns is not None
    runs = [
        Run(k, tuple(rows[k, i].tolist()), tuple(columns[k, j].tolist()))
        for i in range(count)
        for j in range(count)
        for k in range(stop)
    ]
    widths = [np.diff(each, axis=2).sum(axis=1).ravel() for each in (rows, columns)]
    families = [region.family(name) for name in names]
    extra = 0.0
    for k, op in enumerate(region.ops):
        axes = [None if family is None else family.axes[k] for family in families]
        if any(axis is None for axis in axes):
            return None
        share = 1.0
        for axis, width in zip(axes, widths, strict=True):
            share *= float(width[k]) / (1 if axis is None else axis.extent)
        extra += op.cost * (share - 1)
    return RegionRuns(region, names[0], names[1], runs), extra
