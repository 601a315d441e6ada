"""Tables of comparisons, buffers, trade-offs and sizes for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from cpplan.comparison.baselines import Baseline
from cpplan.comparison.remat_comparison import RematBaseline
from cpplan.comparison.spill_comparison import SpillBaseline
from cpplan.comparison.spill_curve import CurvePoint
from cpplan.comparison.split_comparison import SplitBaseline
from cpplan.model.byte_sizes import format_bytes
from cpplan.model.plan import Plan
from cpplan.model.printable import printable
from cpplan.model.text_table import format_table


def format_comparison(rows: Iterable[Baseline]) -> str:
    """Table of baselines with their bytes, ratio to the bound, seconds and status."""
    return _format_rows(rows, "bytes", "ratio")


def format_remat_comparison(rows: Iterable[RematBaseline]) -> str:
    """Table of rematerialization baselines with their bytes, cost, seconds and status."""
    return _format_rows(rows, "bytes", "cost", "extra")


def format_spill_comparison(rows: Iterable[SpillBaseline]) -> str:
    """Table of eviction rules with their bytes moved, ratio to the bound, seconds and status.

    If time was minimised, a column with the cycles comes first.
    """
    found = list(rows)
    timed = ("time",) if any(row.time is not None for row in found) else ()
    return _format_rows(found, *timed, "moved", "unpacked", "ratio")


def format_split_comparison(rows: Iterable[SplitBaseline]) -> str:
    """Table of splitting rules with their bytes, extra work, runs, bytes copied and status."""
    return _format_rows(rows, "bytes", "ratio", "extra", "runs", "copied")


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value:.15g}"


# How the figures of a comparison's rows are written.
_FORMATS: dict[str, Callable[[Any], str]] = {
    "ratio": "{:.4f}".format,
    "extra": "{:+.3%}".format,
    "copied": format_bytes,
    "seconds": "{:.3f}".format,
    "status": str,
}


def _format_rows(given: Iterable[Any], *fields: str) -> str:
    """Table of a comparison: the algorithms, these fields of its rows, seconds and status."""
    rows = list(given)
    header, left = ["algorithm"], [0]
    columns = [[printable(row.algorithm) for row in rows]]
    for field in (*fields, "seconds", "status"):
        values = [getattr(row, field) for row in rows]
        columns.append(_cells(values, _FORMATS.get(field, _number)))
        header.append("extra cost" if field == "extra" else field)
        if field in ("bytes", "moved"):
            columns.append(_cells(values, format_bytes))
            left.append(len(header))
            header.append("")
    return format_table(header, list(zip(*columns, strict=True)), (*left, len(header) - 1))


def _cells(values: Iterable[Any], write: Callable[[Any], str]) -> list[str]:
    return ["" if value is None else write(value) for value in values]


def format_spill_curve(points: Iterable[CurvePoint]) -> str:
    """Table of bytes moved against the capacity of the fast pool, beside Belady's rule.

    If time was minimised, a column with the time comes first, and the bound and Belady's figure are
    cycles.
    """
    found = list(points)
    timed = any(point.time_bound is not None for point in found)
    header = ("capacity", "", "moved", "", "bound", "belady", "status")
    cells = [
        (
            str(point.capacity),
            format_bytes(point.capacity),
            *((_number(point.time),) if timed else ()),
            _number(point.moved_bytes),
            "" if point.moved_bytes is None else format_bytes(point.moved_bytes),
            _number(point.time_bound if timed else point.moved_bytes_bound),
            _number(point.rules.get("belady")),
            point.status,
        )
        for point in found
    ]
    if timed:
        return format_table((*header[:2], "time", *header[2:]), cells, left=(1, 4, 7))
    return format_table(header, cells, left=(1, 3, 6))


def format_buffers(plan: Plan, most: int | None = 20) -> str:
    """Table of a plan's buffers, the largest first."""
    rows = np.argsort(-plan.size, kind="stable")
    shown = rows if most is None else rows[:most]
    cells: list[tuple[str, ...]] = [
        (
            printable(plan.buffers[row]),
            str(plan.size[row]),
            f"[{plan.lower[row]}, {plan.upper[row]})",
            "" if plan.offset is None else str(plan.offset[row]),
            printable(plan.pools[int(plan.pool[row])].name),
        )
        for row in shown
    ]
    header: tuple[str, ...] = ("buffer", "size", "steps", "offset", "pool")
    left: tuple[int, ...] = (0, 2, 4)
    if plan.symbols is not None:
        sizes = plan.symbols.sizes_of(plan.buffers)
        header, left = (*header, "bytes"), (*left, 5)
        cells = [(*cell, str(sizes[row])) for cell, row in zip(cells, shown, strict=True)]
    table = format_table(header, cells, left=left)
    rest = len(rows) - len(shown)
    return table + (f"and {rest} more (--all shows them)\n" if rest else "")


def format_tradeoff(plans: Iterable[Plan]) -> str:
    """Table of plans within falling limits: bytes, and extra cost over running every op once."""
    header = ("limit", "peak", "", "extra cost", "at least", "status")
    cells = []
    for plan in plans:
        found = plan.offset is not None
        cells.append(
            (
                "" if plan.capacity is None else str(plan.capacity),
                str(plan.peak) if found else "",
                format_bytes(plan.peak) if found else "",
                _extra(plan.cost if found else None, plan.base_cost),
                _extra(plan.cost_bound, plan.base_cost),
                plan.status,
            )
        )
    return format_table(header, cells, left=(2, 5))


def _extra(cost: float | None, base: float | None) -> str:
    return "" if cost is None or not base else f"{cost / base - 1:+.3%}"
