"""Report of a trade-off curve as one HTML file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from cpplan.model.errors import InputError
from cpplan.model.version import __version__
from cpplan.report.html.page_text import TABLE_SCRIPTS, TABLE_STYLES, fill_page

if TYPE_CHECKING:
    from cpplan.comparison.spill_curve import CurvePoint
    from cpplan.model.plan import Plan


def curve_report(plans: Sequence[Plan], title: str = "curve") -> str:
    """The report of a curve of peak against work as self-contained HTML.

    It shows the plans as a line, what every plan needs at least as another, and each point with its
    limit, its bounds and its status.

    Parameters
    ----------
    plans
        Plans within different limits, as the column ``plan`` of :func:`cpplan.pareto` has them.
    title
        Title of the page, e.g. the model's name.

    Raises
    ------
    InputError
        If there are no plans.
    """
    cut = any(plan.pieces for plan in plans) or all(plan.capacity is None for plan in plans)
    points = [
        {
            "limit": plan.cost_limit if cut else plan.capacity,
            "x": plan.peak if plan.offset is not None else None,
            "least": plan.lower_bound,
            "y": _extra(plan.cost, plan) if plan.offset is not None else None,
            "bound": _extra(plan.cost_bound, plan),
            "status": plan.status,
            "message": plan.message,
        }
        for plan in plans
    ]
    # Bytes, and the extra work that every plan within them needs; or, where only bytes are bounded,
    # the extra work of a plan, and the bytes that every plan of this work needs.
    bounds: list[tuple[Any, Any]] = [
        (plan.capacity, _extra(plan.cost_bound, plan)) for plan in plans
    ]
    bounds += [(row["least"], row["y"]) for row in points if row["bound"] is None]
    what = {"x": "peak", "y": "extra work", "unit": "share"}
    return _page(points, bounds, what, title)


def moves_report(curve: Iterable[CurvePoint], title: str = "curve") -> str:
    """The report of a curve of bytes moved, or of time, against the capacity of the fast pool.

    Parameters
    ----------
    curve
        Points as :func:`cpplan.comparison.spill_curve.spill_curve` returns them.
    title
        Title of the page.

    Raises
    ------
    InputError
        If there are no points.
    """
    rows = list(curve)
    timed = any(row.time is not None for row in rows)
    points = [
        {
            "limit": row.capacity,
            "x": row.capacity,
            "least": None,
            "y": row.time if timed else row.moved_bytes,
            "bound": row.time_bound if timed else row.moved_bytes_bound,
            "status": row.status,
            "message": None,
        }
        for row in rows
    ]
    bounds = [(row["x"], row["bound"]) for row in points]
    what = {
        "x": "capacity of the fast pool",
        "y": "cycles" if timed else "bytes moved",
        "unit": "cycles" if timed else "bytes",
    }
    return _page(points, bounds, what, title)


def _page(
    points: Sequence[dict[str, Any]],
    bounds: Sequence[tuple[Any, Any]],
    what: dict[str, str],
    title: str,
) -> str:
    if not points:
        raise InputError("a curve needs at least one point")
    known = [list(bound) for bound in bounds if None not in bound]
    data = {
        "cpplan": __version__, "title": title, "points": points, "bounds": known, "what": what,
    }  # fmt: skip
    return fill_page(
        "curve.html",
        title=f"{title}: curve",
        data=data,
        styles=TABLE_STYLES,
        scripts=(*TABLE_SCRIPTS, "curve.js"),
    )


def _extra(cost: float | None, plan: Plan) -> float | None:
    """Extra cost as a share of running every op once."""
    if cost is None or plan.base_cost is None:
        return None
    return cost / plan.base_cost - 1 if plan.base_cost else 0.0
