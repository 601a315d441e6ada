"""Placements of ONNX ops that only copy an input into an output, or an output out of an input.

Such an op copies a box of the larger tensor. The box's elements lie side by side, in order, if the
box is whole along every axis after the first axis along which it is longer than one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from cpplan.io.onnx.bytes import Array
from cpplan.io.onnx.views import is_standard
from cpplan.model.dtypes import BITS
from cpplan.model.graph import Placement
from cpplan.model.tensor import Tensor

if TYPE_CHECKING:
    import onnx

Shape: TypeAlias = tuple[int, ...]
ValueOf: TypeAlias = Callable[[str], "Array | None"]


class _Box(NamedTuple):
    """All of ``part``, in its order, is the box of ``whole`` that begins at ``start``."""

    part: str
    whole: str
    start: Sequence[int]
    extent: Sequence[int]


def find_placements(
    node: onnx.NodeProto,
    tensors: Mapping[str, Tensor | None],
    fixed: Collection[str],
    value_of: ValueOf,
) -> tuple[Placement, ...]:
    """Placements of the tensors that the node copies unchanged and in one piece.

    Constants are left out: they have no offset in the arena to choose.

    Parameters
    ----------
    tensors
        All tensors that the node accesses; ``None`` for strings.
    fixed
        Names of tensors that are constants, or views of them.
    value_of
        The value of a small constant, or ``None`` if it is not known.
    """
    boxes = _BOXES.get(node.op_type)
    if boxes is None or not is_standard(node):
        return ()
    accessed = [t for name in (*node.input, *node.output) if (t := tensors.get(name)) is not None]
    shapes = {t.name: t.shape for t in accessed if t.shape is not None}
    found = []
    for box in boxes(node, shapes, value_of):
        part, whole = tensors[box.part], tensors[box.whole]
        assert part is not None
        assert whole is not None
        if part.nbytes and box.part not in fixed and box.whole not in fixed:
            offset = _byte_offset(part, whole, box)
            if offset is not None:
                found.append(Placement(part.name, whole.name, offset))
    return tuple(found)


def box_offset(shape: Shape, start: Sequence[int], extent: Sequence[int]) -> int | None:
    """Elements of a tensor before a box of it, or ``None`` if the box is not in one piece."""
    long = next((axis for axis, count in enumerate(extent) if count != 1), len(shape))
    if tuple(extent[long + 1 :]) != shape[long + 1 :]:
        return None
    return sum(at * math.prod(shape[axis + 1 :]) for axis, at in enumerate(start))


def _byte_offset(part: Tensor, whole: Tensor, box: _Box) -> int | None:
    assert part.shape is not None
    assert whole.shape is not None
    if part.dtype is None or part.dtype != whole.dtype or not _fits(box, part.shape, whole.shape):
        return None
    offset, bits = box_offset(whole.shape, box.start, box.extent), BITS[part.dtype]
    if offset is None:
        return None
    # With elements narrower than a byte, a byte must not belong to two parts.
    if offset * bits % 8 or math.prod(box.extent) * bits % 8:
        return None
    return offset * bits // 8


def _fits(box: _Box, part: Shape, whole: Shape) -> bool:
    """True if the box has the part's elements and lies within the whole.

    A shape that a model only declares may differ from the shape that its ops produce.
    """
    if math.prod(part) != math.prod(box.extent) or len(box.extent) != len(whole):
        return False
    ranges = zip(box.start, box.extent, whole, strict=True)
    return all(0 <= at <= room - count for at, count, room in ranges)


def _concat(node: onnx.NodeProto, shapes: Mapping[str, Shape], value_of: ValueOf) -> Iterator[_Box]:
    whole, axis = node.output[0], _axis(node, shapes, node.output[0], 1)
    if axis is None or not _same_rank(shapes, node.input, whole):
        return
    at = 0
    for name in node.input:
        yield _Box(name, whole, _along(axis, at, shapes[whole]), shapes[name])
        at += shapes[name][axis]


def _split(node: onnx.NodeProto, shapes: Mapping[str, Shape], value_of: ValueOf) -> Iterator[_Box]:
    whole, axis = node.input[0], _axis(node, shapes, node.input[0], 0)
    named = [name for name in node.output if name in shapes]
    if axis is None or not _same_rank(shapes, named, whole):
        return
    extents = [shapes[name][axis] if name in shapes else None for name in node.output]
    known = sum(extent for extent in extents if extent is not None)
    at = 0
    for name, extent in zip(node.output, extents, strict=True):
        if extent is not None:
            yield _Box(name, whole, _along(axis, at, shapes[whole]), shapes[name])
        elif extents.count(None) > 1:
            return  # the split of the rest among them is not defined
        at += shapes[whole][axis] - known if extent is None else extent


def _slice(node: onnx.NodeProto, shapes: Mapping[str, Shape], value_of: ValueOf) -> Iterator[_Box]:
    whole, part = node.input[0], node.output[0]
    first = _numbers(node, "starts", 1, None, value_of)
    last = _numbers(node, "ends", 2, None, value_of)
    if whole not in shapes or part not in shapes or first is None or last is None:
        return
    axes = _numbers(node, "axes", 3, tuple(range(len(first))), value_of)
    steps = _numbers(node, "steps", 4, (1,) * len(first), value_of)
    if axes is None or steps is None or not len(first) == len(last) == len(axes) == len(steps):
        return
    shape, start, extent = shapes[whole], [0] * len(shapes[whole]), list(shapes[whole])
    for axis, begin, end, step in zip(axes, first, last, steps, strict=True):
        if not -len(shape) <= axis < len(shape) or step == 0:
            return
        taken = range(*slice(begin, end, step).indices(shape[axis]))
        if not taken or (step != 1 and len(taken) > 1):
            return
        start[axis], extent[axis] = taken[0], len(taken)
    yield _Box(part, whole, start, extent)


def _gather(node: onnx.NodeProto, shapes: Mapping[str, Shape], value_of: ValueOf) -> Iterator[_Box]:
    whole, part = node.input[0], node.output[0]
    axis, indices = _axis(node, shapes, whole, 0), _integers(node.input[1], value_of)
    if axis is None or part not in shapes or not indices:
        return
    shape = shapes[whole]
    taken = [k + shape[axis] if k < 0 else k for k in indices]
    if taken == list(range(taken[0], taken[0] + len(taken))):
        extent = (*shape[:axis], len(taken), *shape[axis + 1 :])
        yield _Box(part, whole, _along(axis, taken[0], shape), extent)


def _pad(node: onnx.NodeProto, shapes: Mapping[str, Shape], value_of: ValueOf) -> Iterator[_Box]:
    inner, outer = node.input[0], node.output[0]
    pads = _numbers(node, "pads", 1, None, value_of)
    if inner not in shapes or outer not in shapes or pads is None:
        return
    rank = len(shapes[inner])
    axes = _numbers(node, "axes", 3, tuple(range(rank)), value_of)
    if axes is None or len(pads) != 2 * len(axes):
        return
    before = [0] * rank
    for axis, count in zip(axes, pads, strict=False):
        if not -rank <= axis < rank:
            return
        before[axis] = count
    if min(pads, default=0) >= 0:
        yield _Box(inner, outer, before, shapes[inner])
    elif max(pads) <= 0:  # the Pad only removes elements
        yield _Box(outer, inner, [-count for count in before], shapes[outer])


def _repeat(node: onnx.NodeProto, shapes: Mapping[str, Shape], value_of: ValueOf) -> Iterator[_Box]:
    """The first copy of the input in the output, which consists of one or more copies."""
    inner, outer = node.input[0], node.output[0]
    if inner in shapes and outer in shapes:
        rank = len(shapes[outer])
        extent = (1,) * (rank - len(shapes[inner])) + shapes[inner]
        yield _Box(inner, outer, (0,) * rank, extent)


_BOXES: dict[str, Callable[[onnx.NodeProto, Mapping[str, Shape], ValueOf], Iterator[_Box]]] = {
    "Concat": _concat,
    "Expand": _repeat,
    "Gather": _gather,
    "Pad": _pad,
    "Slice": _slice,
    "Split": _split,
    "Tile": _repeat,
}


def _axis(
    node: onnx.NodeProto, shapes: Mapping[str, Shape], tensor: str, default: int
) -> int | None:
    """The axis of a tensor that the node works along, counted from the front."""
    if tensor not in shapes:
        return None
    axis = next((a.i for a in node.attribute if a.name == "axis"), default)
    rank = len(shapes[tensor])
    return int(axis) % rank if -rank <= axis < rank else None


def _along(axis: int, at: int, shape: Shape) -> list[int]:
    return [at if k == axis else 0 for k in range(len(shape))]


def _same_rank(shapes: Mapping[str, Shape], parts: Sequence[str], whole: str) -> bool:
    return all(name in shapes and len(shapes[name]) == len(shapes[whole]) for name in parts)


def _numbers(
    node: onnx.NodeProto,
    attribute: str,
    position: int,
    default: Shape | None,
    value_of: ValueOf,
) -> Shape | None:
    """Integers that a node has as an attribute or, since later opsets, as an input."""
    for listed in node.attribute:
        if listed.name == attribute:
            return tuple(listed.ints)
    name = node.input[position] if position < len(node.input) else ""
    return _integers(name, value_of) if name else default


def _integers(name: str, value_of: ValueOf) -> Shape | None:
    value = value_of(name)
    if value is None or value.dtype.kind not in "iu":
        return None
    return tuple(value.reshape(-1).tolist())
