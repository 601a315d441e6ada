"""Placements of ONNX ops with symbolic sizes, with byte offsets as expressions.

As in :mod:`cpplan.io.onnx.graph`, a copy is a box of the larger tensor. A placement is kept
only if the box is in one piece at every size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from cpplan.io.onnx.facts import Call, Extent, Fact, Lost, Shape
from cpplan.io.onnx.move_shapes import slice_intervals, split
from cpplan.model.dtypes import BITS

Box: TypeAlias = tuple[str, str, Shape, Shape]  # part, whole, start, extent


def symbolic_offsets(
    call: Call, shapes: Mapping[str, Shape], dtypes: Mapping[str, str | None]
) -> list[tuple[str, str, Extent]]:
    """``(part, whole, byte offset)`` of every copy that a node makes in one piece at every size.

    Parameters
    ----------
    shapes, dtypes
        Shapes and dtypes of the node's inputs and outputs; lost tensors are left out.
    """
    found = []
    for part, whole, start, extent in _boxes(call, shapes):
        dtype = dtypes.get(part)
        if dtype is None or dtype != dtypes.get(whole) or BITS[dtype] < 8:
            continue
        offset = _offset(shapes[whole], start, extent)
        if offset is not None:
            found.append((part, whole, offset * (BITS[dtype] // 8)))
    return found


def _offset(shape: Shape, start: Shape, extent: Shape) -> Extent | None:
    """Elements before a box; an extent counts as longer than 1 unless it is provably 1."""
    long = next((axis for axis, count in enumerate(extent) if count != 1), len(shape))
    if extent[long + 1 :] != shape[long + 1 :]:
        return None
    total: Extent = 0
    for axis, at in enumerate(start):
        total = total + at * math.prod(shape[axis + 1 :])
    return total


def _boxes(call: Call, shapes: Mapping[str, Shape]) -> Iterator[Box]:
    node, kind = call.node, call.node.op_type
    if any(name and name not in shapes for name in (*node.input[:1], *node.output[:1])):
        return
    try:
        if kind == "Concat":
            yield from _in_turn(call, shapes, list(node.input), node.output[0], 1)
        elif kind == "Split":
            given = dict(zip(node.output, split(call), strict=True))
            yield from _in_turn(call, {**shapes, **given}, list(node.output), node.input[0], 0)
        elif kind in ("Expand", "Tile"):
            yield _first_copy(shapes, node.input[0], node.output[0])
        elif kind == "Slice":
            yield from _cut(call, shapes)
        elif kind == "Gather":
            yield from _gathered(call, shapes)
        elif kind == "Pad":
            yield from _padded(call, shapes)
    except Lost:
        return  # no placement holds at every size


def _in_turn(
    call: Call, shapes: Mapping[str, Shape], parts: list[str], whole: str, default: int
) -> Iterator[Box]:
    rank = len(shapes[whole])
    axis = call.axis(default, rank)
    at: Extent = 0
    for part in parts:
        if not part or part not in shapes:
            return
        yield part, whole, _along(axis, at, rank), shapes[part]
        at = at + shapes[part][axis]


def _along(axis: int, at: Extent, rank: int) -> Shape:
    return tuple(at if k == axis else 0 for k in range(rank))


def _first_copy(shapes: Mapping[str, Shape], inner: str, outer: str) -> Box:
    rank = len(shapes[outer])
    return inner, outer, (0,) * rank, (1,) * (rank - len(shapes[inner])) + shapes[inner]


def _cut(call: Call, shapes: Mapping[str, Shape]) -> Iterator[Box]:
    whole, part = call.node.input[0], call.node.output[0]
    steps = call.integers("steps", 4, (1,))
    if any(step != 1 for step in steps or ()):
        return
    start: list[Extent] = [0] * len(shapes[whole])
    for axis, (first, _) in slice_intervals(call).items():
        start[axis] = first
    yield part, whole, tuple(start), shapes[part]


def _gathered(call: Call, shapes: Mapping[str, Shape]) -> Iterator[Box]:
    whole, part = call.node.input[0], call.node.output[0]
    shape, fact = shapes[whole], call.inputs[1]
    axis = call.axis(0, len(shape))
    if not isinstance(fact, Fact) or fact.data is None or fact.data.dtype.kind not in "iu":
        return
    taken = fact.data.reshape(-1).tolist()
    if not taken or taken != list(range(taken[0], taken[0] + len(taken))):
        return
    if taken[0] < 0 <= taken[-1]:
        return
    first = shape[axis] + taken[0] if taken[0] < 0 else taken[0]
    extent = (*shape[:axis], len(taken), *shape[axis + 1 :])
    yield part, whole, _along(axis, first, len(shape)), extent


def _padded(call: Call, shapes: Mapping[str, Shape]) -> Iterator[Box]:
    inner, outer = call.node.input[0], call.node.output[0]
    rank = len(shapes[inner])
    pads = call.integers("pads", 1)
    axes = call.integers("axes", 3, range(rank))
    if pads is None or axes is None or len(pads) != 2 * len(axes):
        return
    before = [0] * rank
    for axis, count in zip(axes, pads, strict=False):
        before[axis] = count
    if min(pads, default=0) >= 0:
        yield inner, outer, tuple(before), shapes[inner]
    elif max(pads) <= 0:
        yield outer, inner, tuple(-count for count in before), shapes[outer]
