"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cpplan.comparison.baselines import Baseline
from cpplan.comparison.remat_comparison import RematBaseline
from cpplan.model.byte_sizes import format_bytes
from cpplan.model.plan import Plan
from cpplan.model.printable import MESSAGE, printable

if TYPE_CHECKING:
    from cpplan.solving.sizes.sizes_plan import SizesPlan


def format_comparison(rows: Iterable[Baseline]) -> str:
    """Baselines with their bytes, ratio to the bound, seconds and status.

    Examples
    --------
    >>> print(format_comparison([Baseline("bump", 24, 2.0, 0.001, "feasible")]))
    algorithm  bytes         ratio  seconds  status
    bump          24  24 B  2.0000    0.001  feasible
    <BLANKLINE>
    """
    header = ("algorithm", "bytes", "", "ratio", "seconds", "status")
    cells = [
        (
            printable(row.algorithm),
            "" if row.bytes is None else str(row.bytes),
            format_bytes(row.bytes),
            "" if row.ratio is None else f"{row.ratio:.4f}",
            "" if row.seconds is None else f"{row.seconds:.3f}",
            row.status,
        )
        for row in rows
    ]
    return format_table(header, cells, left=(0, 2, 5))


def format_remat_comparison(rows: Iterable[RematBaseline]) -> str:
    """Baselines of rematerialization with their bytes, what they cost, seconds and status.

    Examples
    --------
    >>> print(format_remat_comparison([RematBaseline("chen", 24, 6, 0.2, 0.001, "feasible")]))
    algorithm  bytes        cost  extra cost  seconds  status
    chen          24  24 B     6    +20.000%    0.001  feasible
    <BLANKLINE>
    """
    header = ("algorithm", "bytes", "", "cost", "extra cost", "seconds", "status")
    cells = [
        (
            printable(row.algorithm),
            "" if row.bytes is None else str(row.bytes),
            "" if row.bytes is None else format_bytes(row.bytes),
            "" if row.cost is None else f"{row.cost:.15g}",
            "" if row.extra is None else f"{row.extra:+.3%}",
            f"{row.seconds:.3f}",
            row.status,
        )
        for row in rows
    ]
    return format_table(header, cells, left=(0, 2, 6))


def format_buffers(plan: Plan, most: int | None = 20) -> str:
    """Buffers of a plan, the largest first."""
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
    """Plans within falling limits: bytes, and what they cost over every op once."""
    header = ("limit", "peak", "", "extra cost", "at least", "status")
    cells = []
    for plan in plans:
        found = plan.offset is not None
        cells.append(
            (
                str(plan.capacity),
                str(plan.peak) if found else "",
                format_bytes(plan.peak) if found else "",
                _extra(plan.cost if found else None, plan.base_cost),
                _extra(plan.cost_bound, plan.base_cost),
                plan.status,
            )
        )
    return format_table(header, cells, left=(2, 5))


def format_sizes(found: SizesPlan) -> str:
    """A plan for several sizes: what was minimised, and what each size needs."""
    levels = ", ".join(
        f"{printable(name)} {value}" + ("" if value == bound else f" (at least {bound})")
        for name, value, bound in found.levels
    )
    rows = {
        "sizes": printable(found.plan.name),
        "status": found.status,
        "minimised": levels,
        "buffers": str(len(found.plan.buffers)),
        "method": found.plan.found_by and printable(found.plan.found_by),
        "runtime": None if found.runtime is None else f"{found.runtime:.3f} s",
        "reason": found.plan.message and printable(found.plan.message, MESSAGE),
    }
    head = "".join(f"{key:<12} {value}\n" for key, value in rows.items() if value is not None)
    cells = [
        (
            printable(size.label),
            "" if size.arena is None else str(size.arena),
            "" if size.arena is None else format_bytes(size.arena),
            str(size.lower_bound),
            str(size.alone),
            "" if size.price is None else f"{size.price:.3f}",
            "" if size.capacity is None else str(size.capacity),
            size.status,
        )
        for size in found.sizes
    ]
    header = ("size", "arena", "", "bound", "alone", "price", "capacity", "status")
    return f"{head}\n{format_table(header, cells, left=(0, 2, 7))}"


def _extra(cost: float | None, base: float | None) -> str:
    return "" if cost is None or not base else f"{cost / base - 1:+.3%}"


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int]) -> str:
    widths = [max(len(line[k]) for line in [header, *rows]) for k in range(len(header))]
    lines = []
    for line in [header, *rows]:
        cells = [
            cell.ljust(width) if k in left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip() + "\n")
    return "".join(lines)
