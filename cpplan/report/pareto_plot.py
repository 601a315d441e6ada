"""Figure of peak memory against the cost of recomputation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cpplan.model.errors import InputError
from cpplan.model.plan import Plan
from cpplan.report.figure import (
    BLUE,
    RED,
    in_bytes,
    legend_beside,
    name_axes,
    new_axes,
)

if TYPE_CHECKING:
    import pandas


def plot_pareto(curve: pandas.DataFrame, ax: Any = None) -> Any:
    """Draw the peaks of ``cpplan.pareto`` against the extra cost of their recomputation.

    Filled points are proved cheapest within their limit, hollow ones are not. Bars are lower bounds
    on the extra cost within a limit; crosses are limits within which no plan was found.

    Parameters
    ----------
    curve
        The table that ``cpplan.pareto`` returned.
    ax
        Matplotlib axes to draw on; new ones if left out.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        If ``curve`` lacks its columns or has no rows.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> import cpplan, matplotlib
    >>> matplotlib.use("agg")
    >>> tensors = tuple(cpplan.Tensor(name, 8) for name in "abc")
    >>> ops = (
    ...     cpplan.Op("f", outputs=("a",)),
    ...     cpplan.Op("g", inputs=("a",), outputs=("b",)),
    ...     cpplan.Op("h", inputs=("a", "b"), outputs=("c",)),
    ... )
    >>> curve = cpplan.pareto(cpplan.Graph("chain", tensors, ops), points=2, time_limit=10)
    >>> plot_pareto(curve).get_ylabel()
    'extra cost'
    """
    missing = {"limit", "peak", "extra", "status", "plan"} - set(getattr(curve, "columns", ()))
    if missing or not len(curve):
        raise InputError("expected the table that cpplan.pareto returns, with at least one row")
    from matplotlib.ticker import PercentFormatter

    ax = new_axes(ax)
    plans: list[Plan] = sorted(curve["plan"], key=lambda plan: -(plan.capacity or 0))
    found = [plan for plan in plans if plan.peak is not None]
    points = sorted({(plan.peak, _extra(plan.cost, plan)) for plan in found})
    if points:
        # Between two points, the plan of the larger peak does not fit yet.
        ax.step(*zip(*points, strict=True), where="post", color=BLUE, linewidth=1, zorder=1)
    for proved, label in ((True, "cheapest, proved"), (False, "cheapest found")):
        shown = [plan for plan in found if (plan.status == "optimal") == proved]
        if shown:
            ax.plot(
                [plan.peak for plan in shown], [_extra(plan.cost, plan) for plan in shown], "o",
                color=BLUE, markerfacecolor=BLUE if proved else "white", label=label,
            )  # fmt: skip
    bounded = [plan for plan in plans if plan.cost_bound is not None]
    if bounded:
        ax.plot(
            [plan.capacity for plan in bounded],
            [_extra(plan.cost_bound, plan) for plan in bounded],
            "_", color="black", markersize=12, label="at least, within the limit",
        )  # fmt: skip
    for status, label in (("infeasible", "nothing fits, proved"), ("unknown", "nothing found")):
        none = [plan.capacity for plan in plans if plan.peak is None and plan.status == status]
        if none:
            ax.plot(
                none, [0] * len(none), "X" if status == "infeasible" else "x", color=RED,
                clip_on=False, transform=ax.get_xaxis_transform(), label=label,
            )  # fmt: skip
    ax.yaxis.set_major_formatter(PercentFormatter(xmax=1))
    in_bytes(ax.xaxis)
    name_axes(ax, plans[0].name, xlabel="peak", ylabel="extra cost")
    legend_beside(ax)
    return ax


def _extra(cost: float | None, plan: Plan) -> float:
    """Extra cost as a share of running every op once."""
    assert cost is not None
    return cost / plan.base_cost - 1 if plan.base_cost else 0.0
