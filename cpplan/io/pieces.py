"""Pieces of ops as readers and writers see them: which part of each tensor a piece accesses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cpplan.model.axes import Axis
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op

Interval = tuple[int, int]
Box = tuple[Interval, ...]


@dataclass(frozen=True, slots=True)
class PieceWork:
    """The work of one piece of an op.

    Attributes
    ----------
    op
        The whole op.
    cut
        Axes along which it is cut, each with the piece's interval of its steps.
    boxes
        Tensor of the op that has a shape -> the interval of each of its axes that the piece
        accesses. Tensors it does not access at all are left out.
    """

    op: Op
    cut: tuple[tuple[Axis, Interval], ...]
    boxes: Mapping[str, Box]

    def interval(self, axis: str) -> Interval | None:
        """The piece's interval along an axis; ``None`` if the op is not cut along it."""
        return next((interval for cut, interval in self.cut if cut.name == axis), None)

    @property
    def begins(self) -> bool:
        """True if no piece before this one adds to the same results."""
        return all(start == 0 for axis, (start, _) in self.cut if axis.accumulates)


def piece_work(
    graph: Graph, op: Op, axes: Sequence[str], intervals: Sequence[Interval]
) -> PieceWork:
    """The work of the piece of an op that covers an interval of each of some axes.

    Raises
    ------
    InputError
        If the op has no such axis; names both.
    """
    known = {axis.name: axis for axis in op.axes}
    unknown = next((name for name in axes if name not in known), None)
    if unknown is not None:
        raise InputError(f"op {op.name!r}: has no axis {unknown!r}")
    cut = tuple((known[name], span) for name, span in zip(axes, intervals, strict=True))
    boxes: dict[str, Box] = {}
    for name in dict.fromkeys((*op.inputs, *op.outputs)):
        shape = graph.tensor[name].shape
        if shape is None:
            continue
        box = [(0, extent) for extent in shape]
        for axis, (start, stop) in cut:
            window = axis.window.get(name)
            if window is not None:
                box[window.axis] = window.interval(start, stop, shape[window.axis])
        if all(low < high for low, high in box):
            boxes[name] = tuple(box)
    return PieceWork(op, cut, boxes)


def slices(box: Box) -> tuple[slice, ...]:
    """The index that takes a box out of an array."""
    return tuple(slice(start, stop) for start, stop in box)


def within(box: Box, outer: Box) -> Box:
    """A box as positions of a larger one that holds it."""
    return tuple(
        (start - first, stop - first) for (start, stop), (first, _) in zip(box, outer, strict=True)
    )


def common(one: Box, other: Box) -> Box | None:
    """The box of all positions in two boxes; ``None`` if there are none."""
    found = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(one, other, strict=True))
    return found if all(low < high for low, high in found) else None


def outer_box(parts: Iterable[Box], box: Box) -> Box:
    """The smallest box that consists of whole parts of a tensor and holds a box."""
    met = [part for part in parts if common(part, box) is not None]
    return tuple(
        (min(low for low, _ in spans), max(high for _, high in spans))
        for spans in zip(*met, strict=True)
    )
