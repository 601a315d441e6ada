"""Figure of the bytes filled over the steps, with peak, bound and capacity."""

from __future__ import annotations

from typing import Any

from cpplan.explanation.fullest_step import filled_profile, find_fullest_step
from cpplan.explanation.steps import ops_by_step, repeated_steps
from cpplan.model.byte_sizes import format_bytes
from cpplan.model.plan import Plan
from cpplan.model.printable import printable
from cpplan.report.figure import (
    BLUE,
    SKY,
    draw_limits,
    in_bytes,
    legend_beside,
    mark_repeats,
    name_axes,
    new_axes,
    title_of,
)


def plot_live_bytes(plan: Plan, ax: Any = None) -> Any:
    """Draw the live bytes at every step, whose maximum every packing needs.

    Bytes that several buffers share by choice count once. The fullest step is marked, and so are
    the steps at which an op runs again. With several pools, the bytes of all are added up.

    Parameters
    ----------
    plan
        A plan with or without offsets.
    ax
        Matplotlib axes to draw on; new ones if left out.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> import cpplan, matplotlib
    >>> matplotlib.use("agg")
    >>> problem = cpplan.Problem(("a", "b"), lower=[0, 1], upper=[2, 3], size=[4, 8])
    >>> axes = plot_live_bytes(cpplan.solve(problem))
    >>> [text.get_text() for text in axes.get_legend().get_texts()]
    ['live', 'fullest step 1: 12 B', 'peak 12 B', 'lower bound 12 B']
    """
    ax = new_axes(ax)
    times, filled = filled_profile(plan)
    ax.fill_between(times, filled, step="post", color=SKY, alpha=0.6, linewidth=0, label="live")
    ax.step(times, filled, where="post", color=BLUE, linewidth=0.8)
    step = find_fullest_step(plan)
    most = int(filled.max(initial=0))
    if step is not None:
        ops = ops_by_step(plan)
        op = "" if ops is None else f", {printable(ops[step], 30)}"
        label = f"fullest step {step}{op}: {format_bytes(most)}"
        ax.plot([step + 0.5], [most], "o", color=BLUE, markersize=5, label=label, zorder=3)
    top = draw_limits(ax, plan.peak, plan.lower_bound, plan.capacity, most)
    ax.set(xlim=(0, max(1, int(times.max(initial=1)))), ylim=(0, top))
    in_bytes(ax.yaxis)
    name_axes(ax, title_of(plan), xlabel="step", ylabel="live bytes")
    mark_repeats(ax, repeated_steps(plan))
    legend_beside(ax)
    return ax
