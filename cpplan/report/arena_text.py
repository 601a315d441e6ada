"""Map of the arena in characters: steps across, addresses upwards."""

from __future__ import annotations

import string

import numpy as np

from cpplan.model.byte_sizes import format_bytes
from cpplan.model.plan import Plan
from cpplan.model.printable import printable

SYMBOLS = string.ascii_uppercase + string.ascii_lowercase + string.digits
MOST_STEPS = 100
MOST_ROWS = 24


def format_arena(plan: Plan) -> str | None:
    """The map with its legend, or ``None`` if the plan is too large for one (or has no offsets).

    If the buffers have few different edges, each row of characters is the range of addresses
    between two edges. Otherwise rows are equal shares of the arena, and show the buffers at their
    first byte.

    Examples
    --------
    >>> from cpplan.solving.pipeline import solve
    >>> from cpplan.model.problem import Problem
    >>> problem = Problem(("x", "t", "y"), lower=[0, 0, 1], upper=[1, 2, 2], size=[4, 8, 4])
    >>> print(format_arena(solve(problem)))
    12 B |
     8 B | AC
     0 B | BB
         + 0..1
    A x (4 B)   B t (8 B)   C y (4 B)
    """
    steps = int(np.max(plan.upper, initial=0))
    if plan.offset is None or not plan.peak or steps > MOST_STEPS:
        return None
    rows = np.flatnonzero(plan.size > 0)
    if len(rows) > len(SYMBOLS):
        return None
    spans = plan.spans
    low, high = plan.offset[spans.buffer] + spans.begin, plan.offset[spans.buffer] + spans.end
    edges = np.unique(np.concatenate([low, high, [0, plan.peak]]))
    starts = edges[:-1]
    if len(starts) > MOST_ROWS:
        starts = np.linspace(0, plan.peak, MOST_ROWS, endpoint=False).astype(np.int64)
    cells = np.full((len(starts), steps), " ")
    symbol_of = dict(zip(rows.tolist(), SYMBOLS, strict=False))
    for k, row in enumerate(spans.buffer.tolist()):
        if row in symbol_of:
            held = (low[k] <= starts) & (starts < high[k])
            cells[held, spans.lower[k] : spans.upper[k]] = symbol_of[row]
    labels = [format_bytes(address) for address in [plan.peak, *starts[::-1].tolist()]]
    width = max(map(len, labels))
    lines = [
        f"{label:>{width}} | {''.join(line)}".rstrip()
        for label, line in zip(labels, [[], *cells[::-1]], strict=True)
    ]
    lines.append(f"{'':>{width}} + 0..{steps - 1}")
    legend = [
        f"{symbol} {printable(plan.buffers[row])} ({format_bytes(int(plan.size[row]))})"
        for symbol, row in zip(SYMBOLS, rows, strict=False)
    ]
    return "\n".join([*lines, *_columns(legend)])


def _columns(entries: list[str], width: int = 100) -> list[str]:
    """Lines that hold all entries, each as many as fit."""
    lines: list[str] = []
    for entry in entries:
        if lines and len(lines[-1]) + 3 + len(entry) <= width:
            lines[-1] += f"   {entry}"
        else:
            lines.append(entry)
    return lines
