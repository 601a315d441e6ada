"""Tables of plain text."""

from __future__ import annotations

from collections.abc import Sequence


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int]) -> str:
    """Table as lines of text, columns two blanks apart; columns in ``left`` are flush left."""
    widths = [max(len(line[k]) for line in [header, *rows]) for k in range(len(header))]
    lines = []
    for line in [header, *rows]:
        cells = [
            cell.ljust(width) if k in left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip() + "\n")
    return "".join(lines)
