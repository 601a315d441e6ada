"""A rule that runs the first ops in patches of the image."""

from __future__ import annotations

import numpy as np

from cpplan.program.liveness import live_bytes
from cpplan.runtime.budget import tuned
from cpplan.runtime.deadline import Deadline
from cpplan.splitting.frontier import MOST_CUTS, STEEPEST, choose_cuts
from cpplan.splitting.heuristics.registered import register
from cpplan.splitting.problem import SplitProblem
from cpplan.splitting.region import Region
from cpplan.splitting.schedule import RegionRuns, join, run_whole
from cpplan.splitting.styles import Run
from cpplan.splitting.tuning import SplittingTuning


@register("patches")
def patches(problem: SplitProblem, most_cost: float, deadline: Deadline) -> list[RegionRuns] | None:
    """The first ops in n x n patches that recompute their halos; all other ops whole.

    As in MCUNetV2 (arXiv 2110.15352). The end of the first stage and n are the best that were tried
    in time: all ends with 2 x 2 patches come first, then all with more patches.
    """
    tuning = tuned(SplittingTuning)
    best: tuple[int, list[RegionRuns]] | None = None
    total = sum(op.cost for op in problem.ops)
    ends = choose_cuts(problem, MOST_CUTS, STEEPEST)[1:]
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
