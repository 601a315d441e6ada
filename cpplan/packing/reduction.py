"""Reductions that keep the optimum: fewer rows, fewer steps, independent parts.

* Buffers that never hold a byte (size 0, or gaps throughout) can lie anywhere and are left out.
* A step is dropped if its live set is contained in that of a neighbouring step. MiniMalloc calls
  the remaining steps *sections*.
* If no buffer is live across a boundary of two sections, both sides are packed independently.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cpplan.model.distinct import distinct
from cpplan.model.problem import Gap, Ints, Problem


@dataclass(frozen=True, slots=True)
class Reduction:
    """A smaller problem with the same optimum.

    Attributes
    ----------
    problem
        The buffers that hold bytes, with sections for steps.
    rows
        Their rows in the original problem, shape ``(n,)``.
    part
        Independent part of each buffer, numbered in time, shape ``(n,)``.
    step
        An original step for every section, shape ``(sections,)``.
    """

    problem: Problem
    rows: Ints
    part: Ints
    step: Ints

    def restore(self, offsets: Ints, original: Problem) -> Ints:
        """Offsets for all rows of the original problem; rows that never hold a byte lie at zero."""
        full = np.zeros(len(original), np.int64)
        full[self.rows] = offsets
        for row, offset in original.fixed.items():
            full[row] = offset
        return full

    def part_problem(self, part: int) -> tuple[Problem, Ints]:
        """One independent part, with its rows in :attr:`problem`."""
        rows = np.flatnonzero(self.part == part)
        return self.problem.subset(rows), rows


def reduce_problem(problem: Problem) -> Reduction:
    """Drop rows and steps that cannot matter, and find the independent parts. O(n log n)."""
    filled = problem.spans.end > problem.spans.begin
    rows = distinct(problem.spans.buffer[filled])
    kept = problem if len(rows) == len(problem) else problem.subset(rows)
    closes = _section_ends(kept)

    def section(steps: Ints) -> Ints:
        # Look up in ascending order, so that neighbouring reads are near in memory.
        order = np.argsort(steps)
        sections = np.empty(len(steps), np.int64)
        sections[order] = np.searchsorted(closes, steps[order], side="right")
        return sections

    gaps = {}
    for row, old in kept.gaps.items():
        edges = [section(np.array(g[:2])).tolist() for g in old]
        new = [
            Gap(lo, up, g.begin, g.end) for (lo, up), g in zip(edges, old, strict=True) if lo < up
        ]
        if new:
            gaps[row] = new
    lower, upper = section(kept.lower), section(kept.upper)
    compressed = replace(kept, lower=lower, upper=upper, gaps=gaps)
    # Nothing crosses the start of a section iff every earlier lifespan has ended by then.
    order = np.argsort(lower, kind="stable")
    reach = np.maximum.accumulate(upper[order]) if len(order) else upper
    starts_part = np.ones(len(order), bool)
    starts_part[1:] = lower[order][1:] >= reach[:-1]
    part = np.empty(len(order), np.int64)
    part[order] = np.cumsum(starts_part) - 1
    # A buffer live in a section is live at the last step before the section closes.
    return Reduction(compressed, rows, part, closes - 1)


def _section_ends(problem: Problem) -> Ints:
    """Steps at which a maximal live set ends.

    Between two changes, a live set is maximal iff the change before it adds a buffer and the change
    after it removes one.
    """
    starts, ends = distinct(problem.spans.lower), distinct(problem.spans.upper)
    previous_end = np.concatenate([[-1], ends[:-1]])
    latest_start = starts[np.searchsorted(starts, ends, side="left") - 1] if len(starts) else ends
    return ends[latest_start >= previous_end].astype(np.int64)


def address_unit(problem: Problem) -> int:
    """Largest ``u`` such that some best plan has all offsets at multiples of ``u`` bytes.

    Push every buffer down until it rests on another buffer or at zero. Its offset is then a sum of
    sizes, rounded up to alignments. All such offsets are multiples of ``u`` if the rounded sizes,
    the edges of spans and the fixed offsets are multiples of ``u``, and if every alignment divides
    ``u`` or is a multiple of it.
    """
    grid = math.gcd(*problem.alignment.tolist()) if len(problem) else 1
    spans = problem.spans
    edges = np.concatenate([spans.begin, spans.end])
    if problem.fixed:
        edges = np.concatenate([edges, np.array(list(problem.fixed.values()), np.int64)])
    full = spans.begin == 0
    # Ends may be rounded up to the grid only if everything above them starts on the grid.
    if not full.all() or (spans.end != problem.size[spans.buffer]).any():
        unit = math.gcd(grid, *distinct(edges).tolist())
    else:
        unit = math.gcd(*distinct(-(-edges // grid) * grid).tolist())
    return compatible_unit([unit], problem.alignment)


def compatible_unit(lengths: Sequence[int], alignment: Ints) -> int:
    """Largest ``u`` that divides all lengths, and divides or is a multiple of every alignment."""
    unit, changed = math.gcd(*lengths), True
    while changed:
        changed = False
        for step in distinct(alignment).tolist():
            if unit % step and step % unit:
                unit, changed = math.gcd(unit, step), True
    return max(1, unit)
