"""Figure of the peak and the bound over the seconds of a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cpplan.model.errors import InputError
from cpplan.model.plan import Plan
from cpplan.report.figure import (
    BLUE,
    RED,
    in_bytes,
    legend_beside,
    name_axes,
    new_axes,
    title_of,
)

# Earliest start of the logarithmic axis, seconds.
_FIRST = 1e-4
# Peaks above this multiple of the last one are cut off: they would flatten the rest of the curve.
_HIGHEST = 1.5


def plot_progress(plan: Plan, ax: Any = None) -> Any:
    """Draw the smallest peak and the largest bound known over the seconds of a run.

    Parameters
    ----------
    plan
        A plan with its ``history``; a file holds it only if saved with ``clock=True``.
    ax
        Matplotlib axes to draw on; new ones if left out.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        If the history names no peak and no bound.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> import cpplan, matplotlib
    >>> matplotlib.use("agg")
    >>> problem = cpplan.Problem(("a", "b"), lower=[0, 1], upper=[2, 3], size=[4, 8])
    >>> plot_progress(cpplan.solve(problem)).get_xlabel()
    'seconds'
    """
    peaks = _best((e.seconds, e.peak) for e in plan.history)
    bounds = _best((e.seconds, -e.lower_bound) for e in plan.history if e.lower_bound is not None)
    if not peaks and not bounds:
        raise InputError(
            "the plan has no history of peaks and bounds: files hold it only if saved with "
            "clock=True, and plans of several pools have none"
        )
    ax = new_axes(ax)
    end = max(plan.runtime or 0.0, *(seconds for seconds, _ in [*peaks, *bounds]))
    if peaks and plan.peak is not None:
        peaks.append((end, min(plan.peak, peaks[-1][1])))
    if bounds and plan.lower_bound is not None:
        bounds.append((end, -plan.lower_bound))
    for points, sign, colour, label in ((peaks, 1, RED, "peak"), (bounds, -1, BLUE, "lower bound")):
        if points:
            seconds, values = zip(*((max(s, _FIRST), sign * v) for s, v in points), strict=True)
            style = "-" if sign > 0 else "--"
            ax.step(
                seconds, values, style, where="post", color=colour, label=label, marker=".",
                markersize=4,
            )  # fmt: skip
    ax.set_xscale("log")
    if peaks and peaks[0][1] > _HIGHEST * peaks[-1][1]:
        ax.set_ylim(top=_HIGHEST * peaks[-1][1])
    in_bytes(ax.yaxis)
    name_axes(ax, title_of(plan), xlabel="seconds", ylabel="bytes")
    legend_beside(ax)
    return ax


def _best(events: Iterable[tuple[float, int | None]]) -> list[tuple[float, int]]:
    """Times and values of the events whose value is smaller than all earlier ones."""
    steps: list[tuple[float, int]] = []
    for seconds, value in events:
        if value is not None and (not steps or value < steps[-1][1]):
            steps.append((seconds, value))
    return steps
