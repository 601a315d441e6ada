"""Offsets that came with the problem, kept wherever they still fit."""

from __future__ import annotations

from cpplan.heuristics.layout import Layout
from cpplan.problem import Ints, Problem


def follow_hint(problem: Problem) -> Ints:
    """Hinted buffers first, lowest hint first, each there or at the next address where it fits.

    Buffers without a hint follow by decreasing size, each at the lowest address. O(n²).

    Examples
    --------
    >>> problem = Problem(("a", "b"), lower=[0, 0], upper=[1, 1], size=[4, 8], hint={0: 8, 1: 0})
    >>> follow_hint(problem).tolist()
    [8, 0]
    """
    layout = Layout(problem)
    for row in sorted(problem.hint, key=lambda row: (problem.hint[row], row)):
        if not layout.placed[row]:
            layout.place(row, layout.lowest(row, at_least=problem.hint[row]))
    for row in sorted(range(len(problem)), key=lambda row: -int(problem.size[row])):
        if not layout.placed[row]:
            layout.place(row, layout.lowest(row))
    return layout.offset
