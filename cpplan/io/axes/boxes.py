"""Placements of ops that only copy: an input into their output, or outputs out of their input.

Such an op copies a box of the larger tensor. The box's elements lie side by side, in order, if the
box is whole along every axis after the first axis along which it is longer than one. A rule gives
the boxes of an op of one kind, and raises ``NoAxes`` if they are not known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from cpplan.io.axes.operation import NoAxes, Operation, shape_of
from cpplan.model.dtypes import BITS
from cpplan.model.graph import Placement
from cpplan.model.tensor import Tensor


class Box(NamedTuple):
    """All of ``part``, in its order, is the box of ``whole`` that begins at ``start``."""

    part: Tensor
    whole: Tensor
    start: Sequence[int]
    extent: Sequence[int]


BoxRule: TypeAlias = Callable[[Operation], Iterable[Box]]


def find_placements(
    rules: Mapping[str, BoxRule], operation: Operation, fixed: Collection[str] = ()
) -> tuple[Placement, ...]:
    """Placements of the tensors that an op copies unchanged and in one piece."""
    rule = rules.get(operation.kind)
    try:
        boxes = [] if rule is None else list(rule(operation))
    except (NoAxes, IndexError, ValueError):  # not known, or a damaged model
        return ()
    found = []
    for box in boxes:
        offset = _byte_offset(box)
        if offset is not None and not {box.part.name, box.whole.name} & set(fixed):
            found.append(Placement(box.part.name, box.whole.name, offset))
    return tuple(found)


def _byte_offset(box: Box) -> int | None:
    part, whole = box.part, box.whole
    if part.dtype is None or part.dtype != whole.dtype or not part.nbytes or not _fits(box):
        return None
    shape, bits = shape_of(whole), BITS[part.dtype]
    long = next((axis for axis, count in enumerate(box.extent) if count != 1), len(shape))
    if tuple(box.extent[long + 1 :]) != shape[long + 1 :]:
        return None
    offset = sum(at * math.prod(shape[axis + 1 :]) for axis, at in enumerate(box.start))
    # With elements narrower than a byte, a byte must not belong to two parts.
    if offset * bits % 8 or math.prod(box.extent) * bits != 8 * part.nbytes:
        return None
    return offset * bits // 8


def _fits(box: Box) -> bool:
    """True if the box has the part's elements and lies within the whole.

    A shape that a model only declares may differ from the shape that its ops produce.
    """
    part, whole = box.part.shape, box.whole.shape
    if part is None or whole is None or math.prod(part) != math.prod(box.extent):
        return False
    if not len(box.start) == len(box.extent) == len(whole):
        return False
    ranges = zip(box.start, box.extent, whole, strict=True)
    return all(0 <= at <= room - count for at, count, room in ranges)


def concat_boxes(operation: Operation, axis: int) -> Iterator[Box]:
    """Boxes of a concatenation."""
    whole, at = operation.output, 0
    for part in operation.inputs:
        extent = shape_of(part) if part is not None else ()
        if part is None or len(extent) != len(shape_of(whole)):
            raise NoAxes
        yield Box(part, whole, _along(axis, at, len(extent)), extent)
        at += extent[axis]


def split_boxes(
    operation: Operation, axis: int, source: Tensor, extents: Sequence[int | None] | None = None
) -> Iterator[Box]:
    """Boxes of a split; ``extents`` along its axis are those of the outputs if left out.

    One output that is left out has the rest.
    """
    shape = shape_of(source)
    parts = operation.outputs
    if extents is None:
        extents = [None if part is None else shape_of(part)[axis] for part in parts]
    known = sum(extent for extent in extents if extent is not None)
    at = 0
    for part, extent in zip(parts, extents, strict=True):
        if part is not None:
            if len(shape_of(part)) != len(shape):
                raise NoAxes
            yield Box(part, source, _along(axis, at, len(shape)), shape_of(part))
        elif extents.count(None) > 1:
            return  # the split of the rest among them is not defined
        at += shape[axis] - known if extent is None else extent


def slice_boxes(operation: Operation, starts: Sequence[int], steps: Sequence[int]) -> Iterator[Box]:
    """Box of a slice; ``starts`` and ``steps`` along each axis of its input."""
    extent = shape_of(operation.output)
    if all(step == 1 or count == 1 for step, count in zip(steps, extent, strict=True)):
        yield Box(operation.output, operation.input(), starts, extent)


def pad_boxes(operation: Operation, before: Sequence[int]) -> Iterator[Box]:
    """Box of a padding; ``before`` in front of each axis, negative to cut."""
    inner, outer = operation.input(), operation.output
    extents = zip(shape_of(inner), shape_of(outer), before, strict=True)
    pads = [*before, *(made - read - first for read, made, first in extents)]
    if min(pads, default=0) >= 0:
        yield Box(inner, outer, before, shape_of(inner))
    elif max(pads) <= 0:  # it only removes elements
        yield Box(outer, inner, [-count for count in before], shape_of(outer))


def gather_boxes(operation: Operation, axis: int) -> Iterator[Box]:
    """Box of a gather of neighbouring positions, in order."""
    shape, indices = operation.shape(), operation.integers(1)
    if not indices:
        raise NoAxes
    taken = [k + shape[axis] if k < 0 else k for k in indices]
    if taken == list(range(taken[0], taken[0] + len(taken))):
        extent = (*shape[:axis], len(taken), *shape[axis + 1 :])
        yield Box(operation.output, operation.input(), _along(axis, taken[0], len(shape)), extent)


def repeat_boxes(operation: Operation) -> Iterator[Box]:
    """The first copy of the input in the output, which consists of one or more copies."""
    shape, rank = operation.shape(), len(shape_of(operation.output))
    yield Box(operation.input(), operation.output, [0] * rank, (1,) * (rank - len(shape)) + shape)


def stack_boxes(operation: Operation, axis: int, *, apart: bool = False) -> Iterator[Box]:
    """Boxes of an op that stacks its inputs along a new axis, or takes such a stack apart."""
    parts = operation.outputs if apart else operation.inputs
    whole = operation.input() if apart else operation.output
    rank = len(shape_of(whole))
    for k, part in enumerate(parts):
        if part is not None:
            shape = shape_of(part)
            yield Box(part, whole, _along(axis, k, rank), (*shape[:axis], 1, *shape[axis:]))


def _along(axis: int, at: int, rank: int) -> list[int]:
    return [at if k == axis else 0 for k in range(rank)]
