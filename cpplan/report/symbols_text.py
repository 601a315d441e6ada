"""Symbolic sizes of a plan as text."""

from __future__ import annotations

from collections.abc import Sequence

from cpplan.model.plan import Plan, SizedPlan
from cpplan.model.printable import MESSAGE, printable
from cpplan.model.text_table import format_table

# Tensors listed by default.
MOST = 20


def format_symbols(plan: Plan, most: int | None = MOST) -> str:
    """Text of a plan's variables, unbounded tensors, and tensors without a symbolic size."""
    layout = plan.symbols
    if layout is None:
        return ""
    ranges = []
    for name, (lower, upper) in layout.dims.items():
        ends = ["" if end is None else str(end) for end in (lower, upper)]
        one = lower is not None and lower == upper
        ranges.append(f"{printable(name)} = {ends[0] if one else '..'.join(ends)}")
    text = f"{'dimensions':<12} {', '.join(ranges)}\n"
    if layout.unbounded:
        cells = [
            (printable(name), str(u.storage), str(u.nbytes), str(layout.storages[u.storage]))
            for name, u in layout.unbounded.items()
        ]
        text += _shortened(("tensor", "storage", "bytes", "at most"), cells, (0, 2, 3), most)
    if layout.lost:
        lost = [(printable(k), printable(why, MESSAGE)) for k, why in layout.lost.items()]
        text += _shortened(("lost", "why"), lost, (0, 1), most)
    return text


def format_sized(at: SizedPlan, most: int | None = MOST) -> str:
    """Table of a plan's tensors at some values: bytes, offset and shape, the largest first."""
    values = ", ".join(f"{printable(name)} = {value}" for name, value in at.values.items())
    names = sorted(at.layout.tensors, key=lambda name: -at.nbytes(name))
    cells = [
        (
            printable(name),
            str(at.nbytes(name)),
            str(at.offset(name)),
            "" if (shape := at.shape(name)) is None else str(list(shape)),
        )
        for name in names
    ]
    head = f"{'at':<12} {values}\n{'peak':<12} {at.peak} B\n"
    return head + _shortened(("tensor", "size", "offset", "shape"), cells, (0, 3), most)


def _shortened(
    header: tuple[str, ...],
    cells: Sequence[tuple[str, ...]],
    left: tuple[int, ...],
    most: int | None,
) -> str:
    shown = cells if most is None else cells[:most]
    rest = len(cells) - len(shown)
    return format_table(header, shown, left=left) + (
        f"and {rest} more (--all shows them)\n" if rest else ""
    )
