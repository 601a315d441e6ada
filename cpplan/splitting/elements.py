"""Cuts of all ops to single steps or lines: for small networks, only their order is left to choose.

A piece of many steps needs at least the bytes that its steps need one after another. So if no step
runs twice, the least peak over all cuts and all orders of pieces is the peak of an order of single
steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

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


def line_cuts(problem: SplitProblem, most: int) -> Iterator[list[Pieces]]:
    """Yield cuts of ops to single steps along one axis of the tensors that they write.

    There is one cutting for each axis of tensors, rows before columns, if at least two ops have an
    axis there, and if it has at most ``most`` pieces. Ops that cost nothing stay whole: bands of
    what they only show would have to be aligned.
    """
    rank = max((len(tensor.shape or ()) for tensor in problem.graph.tensors), default=0)
    for place in range(rank):
        found, count = [], 0
        for op in problem.ops:
            axes = problem.axes(op).values() if op.cost else ()
            axis = next((axis for axis in axes if writes_along(op, axis, place)), None)
            count += 1 if axis is None else axis.extent
            if axis is not None and axis.extent > 1:
                n = problem.steps(op, axis.name)
                cuts = tuple(range(n, axis.extent * n, n))
                found.append(Pieces(op.name, (axis.name,), (cuts,)))
        if len(found) > 1 and count <= most:
            yield found


def writes_along(op: Op, axis: Axis, place: int) -> bool:
    """True if the pieces of an op along an axis divide an axis of its first output."""
    window = axis.window.get(op.outputs[0]) if op.outputs else None
    return window is not None and window.axis == place


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
