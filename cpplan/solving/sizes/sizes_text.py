"""A plan for several sizes as text, for ``str(plan)`` and ``cpplan sizes``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpplan.model.byte_sizes import format_bytes
from cpplan.model.printable import MESSAGE, printable
from cpplan.model.text_table import format_table

if TYPE_CHECKING:
    from cpplan.solving.sizes.sizes_plan import SizesPlan


def format_sizes(found: SizesPlan) -> str:
    """Text of a plan for several sizes: the levels minimised, and a table of the sizes."""
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
