"""Parts that all figures share: loading matplotlib, colours, axes in bytes, lines at limits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cpplan.model.byte_sizes import format_bytes
from cpplan.model.errors import MissingExtraError
from cpplan.model.plan import Plan
from cpplan.model.printable import printable

# Okabe and Ito's colours, which people with any of the common colour deficiencies can tell apart.
BLUE, ORANGE, GREEN, PURPLE, RED, SKY = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9"
)  # fmt: skip
# A capacity above this multiple of the data is named in the legend only, to keep the data large.
_FAR = 1.5
_TICKS = 6


def new_axes(ax: Any = None, *, count: int | None = None) -> Any:
    """``ax`` if given, else new axes: one, or an array of ``count`` above one another."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot", "drawing a figure") from error
    rows = 1 if count is None else count
    _, axes = pyplot.subplots(
        rows, 1, figsize=(10, 1 + 3 * rows), layout="constrained", squeeze=False
    )
    return axes[0, 0] if count is None else axes[:, 0]


def name_axes(ax: Any, title: str, **labels: str) -> None:
    """Set title and labels, with all characters of names shown literally."""
    ax.set(**labels)
    ax.set_title(printable(title, 100), parse_math=False)


def in_bytes(axis: Any) -> None:
    """Set an axis's ticks at multiples of powers of two, labelled with binary prefixes."""
    from matplotlib.ticker import FuncFormatter, Locator

    class BinaryLocator(Locator):
        def __call__(self) -> Any:
            return self.tick_values(*axis.get_view_interval())

        def tick_values(self, vmin: float, vmax: float) -> Any:
            low, high = sorted((vmin, vmax))
            step = tick_distance(high - low)
            return np.arange(math.ceil(low / step), math.floor(high / step) + 1) * step

    axis.set_major_locator(BinaryLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick_label(value)))


def tick_distance(length: float) -> int:
    """The smallest power of two that divides a length into few parts."""
    return 1 << max(0, math.ceil(math.log2(max(1.0, length / _TICKS))))


def tick_label(value: float) -> str:
    """Bytes at a tick, with the largest prefix that leaves few digits."""
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    power = 0
    while abs(value) >= 1024 and power < len(units) - 1:
        value, power = value / 1024, power + 1
    return f"{value:.4g} {units[power]}" if value else "0"


def draw_limits(
    ax: Any, peak: int | None, bound: int | None, capacity: int | None, most: int
) -> float:
    """Draw labelled lines at peak, bound and capacity; returns the height that shows them.

    A capacity far above the data is named in the legend only.
    """
    top = float(max(most, peak or 0, bound or 0, 1))
    if capacity is not None:
        far = capacity > _FAR * top
        label = f"capacity {format_bytes(capacity)}" + (" (above)" if far else "")
        line = ax.plot if far else ax.axhline
        line(*([], []) if far else (capacity,), color="0.35", linestyle="--", label=label)
        top = top if far else max(top, capacity)
    if peak is not None:
        ax.axhline(peak, color=RED, linewidth=1.2, label=f"peak {format_bytes(peak)}")
    if bound is not None:
        label = f"lower bound {format_bytes(bound)}"
        ax.axhline(bound, color="black", linestyle=":", linewidth=1.2, label=label)
    return 1.05 * top


def mark_repeats(ax: Any, steps: Any) -> None:
    """Draw small triangles below the steps at which an op runs again."""
    if len(steps):
        label = "1 op runs again" if len(steps) == 1 else f"{len(steps)} ops run again"
        ax.plot(
            steps + 0.5, np.zeros(len(steps)), linestyle="none", marker="^", markersize=5,
            color=PURPLE, clip_on=False, zorder=3, transform=ax.get_xaxis_transform(),
            label=label,
        )  # fmt: skip


def legend_beside(ax: Any) -> None:
    """Put the legend to the right of the axes, where it hides no data."""
    if ax.get_legend_handles_labels()[0]:
        legend = ax.legend(
            loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize="small"
        )
        for text in legend.get_texts():
            text.set_parse_math(False)


def title_of(plan: Plan, *, pool: str | None = None) -> str:
    """Title of a figure: name, peak and status of the plan, or of one pool."""
    name = plan.name if pool is None else f"{plan.name}, pool {pool}"
    peaks = plan.pool_peaks
    peak = plan.peak if pool is None or peaks is None else peaks[pool]
    return f"{printable(name, 60)}: {format_bytes(peak)}, {plan.status}"
