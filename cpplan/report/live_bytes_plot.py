"""Live bytes over the steps, under the peak and the bound."""

from __future__ import annotations

from typing import Any

from cpplan.plan import Plan
from cpplan.problem import Problem
from cpplan.report.figure import new_axes


def plot_live_bytes(plan: Plan, ax: Any = None) -> Any:
    """Draw how many bytes are live at every step; their maximum is what any packing needs.

    Parameters
    ----------
    plan
        With or without offsets.
    ax
        Matplotlib axes to draw on; fresh ones if left out.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    ax = new_axes(ax)
    problem = Problem(plan.buffers, plan.lower, plan.upper, plan.size, gaps=plan.gaps)
    times, live = problem.live_profile()
    ax.fill_between(times, live, step="post", color="steelblue", alpha=0.5, linewidth=0)
    ax.step(times, live, where="post", color="steelblue")
    if plan.peak is not None:
        ax.axhline(plan.peak, color="firebrick", linewidth=1, label="peak")
        ax.legend(loc="upper right", frameon=False)
    ax.set(xlabel="step", ylabel="live bytes (B)", title=plan.name, ylim=(0, None))
    return ax
