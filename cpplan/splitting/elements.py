"""Cuts of all ops to single steps: for small networks, an order of these is as good as any plan.

A piece of many steps needs at least the bytes that its steps need one after another. So if no step
runs twice, the least peak over all cuts and all orders of pieces is the peak of an order of single
steps.
"""

from __future__ import annotations

import math

from cpplan.model.axes import Axis
from cpplan.model.graph import Op
from cpplan.model.pieces import Pieces
from cpplan.splitting.problem import SplitProblem


def element_cuts(problem: SplitProblem, most: int) -> list[Pieces] | None:
    """Cuts of all ops to single steps along their axes; ``None`` if there are more than ``most``.

    If several axes of an op cut the same axis of a tensor, only the first is taken; axes that
    accumulate come last.
    """
    found, count = [], 0
    for op in problem.ops:
        axes = _apart(problem, op)
        count += math.prod(axis.extent for axis in axes)
        if count > most:
            return None
        if axes:
            steps = [problem.steps(op, axis.name) for axis in axes]
            cuts = tuple(
                tuple(range(n, axis.extent * n, n)) for axis, n in zip(axes, steps, strict=True)
            )
            found.append(Pieces(op.name, tuple(axis.name for axis in axes), cuts))
    return found


def _apart(problem: SplitProblem, op: Op) -> list[Axis]:
    """Axes along which an op may be cut together: no two cut the same axis of a tensor."""
    found: list[Axis] = []
    taken: set[tuple[str, int]] = set()
    for axis in sorted(problem.axes(op).values(), key=lambda axis: axis.accumulates):
        places = {(window.tensor, window.axis) for window in axis.windows}
        if taken.isdisjoint(places):
            taken |= places
            found.append(axis)
    return found
