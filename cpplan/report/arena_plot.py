"""Figure of the arena: steps across, addresses upwards, one rectangle per buffer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cpplan.explanation.steps import repeated_steps
from cpplan.model.errors import InputError
from cpplan.model.plan import Plan
from cpplan.model.printable import printable
from cpplan.model.problem import Ints
from cpplan.report.figure import (
    GREEN,
    ORANGE,
    PURPLE,
    draw_limits,
    in_bytes,
    legend_beside,
    mark_repeats,
    name_axes,
    new_axes,
    title_of,
)

# Neighbouring buffers differ in lightness, which colour-blind readers see, too.
_BLUES = ("#08306b", "#2171b5", "#6baed6", "#4292c6", "#9ecae1", "#08519c")
_KINDS = {"intermediate": _BLUES[1], "input": ORANGE, "output": GREEN, "computed again": PURPLE}
# With more rectangles than this, edges would hide everything else.
_EDGED = 3000
# A rectangle bears its name, or a part of it, if there is room: font size, width of a letter and
# height of a line in points, and the least number of letters.
_FONT, _LETTER, _HIGH, _FEWEST = 7, 4.6, 9, 7
# Above this lightness (of red, green and blue alike, from 0 to 1), letters are black.
_LIGHT = 0.6


def plot_arena(plan: Plan, ax: Any = None, *, pool: str | None = None) -> Any:
    """Draw every buffer of a plan at its offset, with lines at peak, lower bound and capacity.

    Inputs, outputs and recomputed tensors have their own colours; triangles below mark the steps at
    which an op runs again. Tens of thousands of buffers are drawn as one collection.

    Parameters
    ----------
    plan
        A plan with offsets.
    ax
        Matplotlib axes to draw on; new ones if left out. If all of several pools are drawn, an
        array with one axes per pool.
    pool
        Name of the pool to draw.

    Returns
    -------
    matplotlib.axes.Axes
        An array of axes if all of several pools are drawn.

    Raises
    ------
    InputError
        If the plan holds no offsets, has no such pool, or has more or fewer pools than axes.
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> import cpplan, matplotlib
    >>> matplotlib.use("agg")
    >>> problem = cpplan.Problem(("a", "b"), lower=[0, 1], upper=[2, 3], size=[4, 8])
    >>> axes = plot_arena(cpplan.solve(problem))
    >>> axes.get_xlabel(), axes.get_title()
    ('step', 'problem: 12 B, optimal')
    """
    if plan.offset is None:
        raise InputError("the plan cannot be drawn: it holds no offsets")
    names = [region.name for region in plan.pools]
    if pool is not None:
        if pool not in names:
            known = ", ".join(map(repr, names))
            raise InputError(f"the plan has no pool {pool!r}: expected one of {known}")
        return _draw(plan, new_axes(ax), names.index(pool))
    if len(names) == 1:
        return _draw(plan, new_axes(ax), 0)
    panels = new_axes(ax, count=len(names))
    if np.size(panels) != len(names):
        raise InputError(
            f"the plan has {len(names)} pools: give {len(names)} axes, or the name of a pool"
        )
    for number, panel in enumerate(np.ravel(panels)):
        _draw(plan, panel, number)
    return panels


def _draw(plan: Plan, ax: Any, number: int) -> Any:
    from matplotlib.collections import PolyCollection

    assert plan.offset is not None
    spans, several = plan.spans, len(plan.pools) > 1
    here = plan.pool[spans.buffer] == number
    buffer, left, right, begin, end = (column[here] for column in spans)
    low, high = plan.offset[buffer] + begin, plan.offset[buffer] + end
    corners = np.stack([left, low, left, high, right, high, right, low], axis=1).reshape(-1, 4, 2)
    edged = len(buffer) <= _EDGED
    kinds = _kinds(plan)
    colours = _colours(kinds, buffer)
    ax.add_collection(
        PolyCollection(
            list(corners),
            facecolors=colours,
            edgecolors="white" if edged else "none",
            linewidth=0.5 if edged else 0,
            antialiased=edged,
        )
    )
    for kind in sorted(set(kinds[buffer].tolist()), key=list(_KINDS).index):
        ax.fill_between([], [], color=_KINDS[kind], label=kind)
    region = plan.pools[number]
    peaks = plan.pool_peaks
    assert peaks is not None
    top = draw_limits(
        ax,
        peaks[region.name],
        None if several else plan.lower_bound,
        region.capacity if several or plan.capacity is None else plan.capacity,
        most=0,
    )
    steps = max(1, int(np.max(plan.upper, initial=1)))
    ax.set(xlim=(0, steps), ylim=(0, top))
    in_bytes(ax.yaxis)
    name_axes(ax, title_of(plan, pool=region.name if several else None), xlabel="step")
    ax.set_ylabel("address")
    mark_repeats(ax, repeated_steps(plan))
    edges = left / steps, right / steps, low / top, high / top
    _write_names(ax, [plan.buffers[row] for row in buffer.tolist()], edges, colours)
    legend_beside(ax)
    return ax


def _kinds(plan: Plan) -> np.ndarray:
    """Kind of each buffer, one of ``_KINDS``, as far as the plan determines it."""
    kinds = np.full(len(plan.buffers), "intermediate", dtype=object)
    # A buffer that begins at the step of a repeated run is written by it.
    kinds[np.isin(plan.lower, repeated_steps(plan))] = "computed again"
    for kind, names in (("input", plan.inputs), ("output", plan.outputs)):
        roots = {plan.views.get(name, (name, 0))[0] for name in names}
        kinds[[plan.row[name] for name in roots if name in plan.row]] = kind
    return kinds


def _colours(kinds: np.ndarray, buffer: Ints) -> list[str]:
    return [
        _BLUES[row % len(_BLUES)] if kind == "intermediate" else _KINDS[kind]
        for row, kind in zip(buffer.tolist(), kinds[buffer].tolist(), strict=True)
    ]


def _write_names(
    ax: Any, names: Sequence[str], edges: Sequence[np.ndarray], colours: Sequence[str]
) -> None:
    """Write the names of buffers that have room for them; edges are shares of the axes."""
    from matplotlib.colors import to_rgb

    left, right, low, high = edges
    steps, top = ax.get_xlim()[1], ax.get_ylim()[1]
    wide, tall = ax.bbox.size * 72 / ax.figure.dpi
    room = (wide / _LETTER * (right - left)).astype(np.int64)
    for k in np.flatnonzero((room > 0) & (tall * (high - low) >= _HIGH)).tolist():
        if room[k] < min(len(names[k]), _FEWEST):
            continue
        light = sum(to_rgb(colours[k])) / 3 > _LIGHT
        ax.text(
            steps * (left[k] + right[k]) / 2, top * (low[k] + high[k]) / 2,
            printable(names[k], int(room[k])), ha="center", va="center", fontsize=_FONT,
            color="black" if light else "white", parse_math=False, clip_on=True,
        )  # fmt: skip
