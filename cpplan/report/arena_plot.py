"""The arena as a picture: steps across, addresses upwards, one rectangle a buffer."""

from __future__ import annotations

from typing import Any

import numpy as np

from cpplan.errors import InputError
from cpplan.plan import Plan
from cpplan.report.figure import new_axes


def plot_arena(plan: Plan, ax: Any = None) -> Any:
    """Draw every buffer of a plan where it lies; darker means larger. Peak and bound are lines.

    Parameters
    ----------
    plan
        With offsets.
    ax
        Matplotlib axes to draw on; fresh ones if left out.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        If the plan holds no offsets.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> import cpplan
    >>> problem = cpplan.Problem(("a", "b"), lower=[0, 1], upper=[2, 3], size=[4, 8])
    >>> axes = plot_arena(cpplan.solve(problem))  # doctest: +SKIP
    """
    if plan.offset is None:
        raise InputError("the plan holds no offsets to draw")
    ax = new_axes(ax)
    from matplotlib.collections import PolyCollection

    buffer, left, right, begin, end = plan.spans
    low, high = plan.offset[buffer] + begin, plan.offset[buffer] + end
    corners = np.stack([left, low, left, high, right, high, right, low], axis=1).reshape(-1, 4, 2)
    share = plan.size[buffer] / max(1, int(plan.size.max(initial=1)))
    ax.add_collection(
        PolyCollection(
            list(corners), array=share, cmap="viridis_r", edgecolor="white", linewidth=0.4
        )
    )
    if plan.lower_bound is not None:
        ax.axhline(plan.lower_bound, color="black", linestyle=":", label="lower bound")
    ax.axhline(plan.peak, color="firebrick", linewidth=1, label="peak")
    ax.set(
        xlim=(0, max(1, int(right.max(initial=1)))),
        ylim=(0, 1.05 * max(1, plan.peak or 0)),
        xlabel="step",
        ylabel="address (B)",
        title=f"{plan.name}: {plan.peak} B, {plan.status}",
    )
    ax.legend(loc="upper right", frameon=False)
    return ax
