"""Lines of storages with views: axes that have a corresponding axis in every view.

See :mod:`cpplan.splitting.lines` for lines and units.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from cpplan.model.axes import Axis, Window
from cpplan.model.graph import Graph, Op
from cpplan.model.tensor import Tensor

if TYPE_CHECKING:
    from cpplan.splitting.lines import Lines


def add_view_lines(graph: Graph, root: str, tensors: list[Tensor], found: Lines) -> None:
    """Add the lines of a storage with views, if there are any."""
    storage = _storage(graph, root, tensors)
    if storage is None or not _follow_views(graph, storage):
        return
    common = _common_lines(storage)
    if not common:
        return
    width = storage.width
    for tensor in tensors:
        own, box = tensor.shape or (), storage.boxes[tensor.name]
        at = {j: k for k, j in storage.places[tensor.name].items() if k in common}
        found.shown[tensor.name] = {
            k: (box[k][0] // width[k], -(-box[k][1] // width[k])) for k in common
        }
        found.line[tensor.name] = at
        found.grain[tensor.name] = {
            j: own[j] * width[k] // (box[k][1] - box[k][0]) for j, k in at.items()
        }
    for name, (_, source) in storage.makers.items():
        via = storage.via[name]
        found.source[name] = source
        found.links[name] = frozenset(via[k] for k in common if k in via)


@dataclass(slots=True)
class _Storage:
    """A storage with views, during the search for its lines.

    Attributes
    ----------
    shape
        Shape of its own tensor.
    boxes
        Tensor -> for each line, the interval that it shows.
    makers
        View -> the op that makes it, and the tensor from which the view is made.
    places
        Tensor -> line -> the tensor's axis along it; only views reached so far.
    via
        View -> line -> name of the op's axis along it.
    width
        Line -> number of positions in a unit.
    """

    shape: tuple[int, ...]
    boxes: dict[str, list[tuple[int, int]]]
    makers: dict[str, tuple[Op, str]]
    places: dict[str, dict[int, int]]
    width: dict[int, int]
    via: dict[str, dict[int, str]] = field(default_factory=dict)


def _storage(graph: Graph, root: str, tensors: list[Tensor]) -> _Storage | None:
    """The storage, or ``None`` if a view shows no box of it or is made from several tensors."""
    names = {tensor.name for tensor in tensors}
    makers: dict[str, tuple[Op, str]] = {}
    boxes: dict[str, list[tuple[int, int]]] = {}
    for tensor in tensors:
        box = shown_box(graph, tensor)
        if box is None:
            return None
        boxes[tensor.name] = box
        if tensor.name == root:
            continue
        op = graph.producer.get(tensor.name)
        read = [] if op is None else [name for name in dict.fromkeys(op.inputs) if name in names]
        if op is None or len(read) != 1:
            return None
        makers[tensor.name] = op, read[0]
    shape = graph.tensor[root].shape or ()
    axes = range(len(shape))
    return _Storage(shape, boxes, makers, {root: {k: k for k in axes}}, dict.fromkeys(axes, 1))


def _follow_views(graph: Graph, storage: _Storage) -> bool:
    """Follow the lines into all views, and return false if a view is not reached."""
    makers, boxes, places, via = storage.makers, storage.boxes, storage.places, storage.via
    while len(places) < len(boxes):
        name = next((n for n, (_, s) in makers.items() if n not in places and s in places), None)
        if name is None:
            return False
        op, source = makers[name]
        places[name], via[name] = {}, {}
        line_at = {own: line for line, own in places[source].items()}
        for tiling in _tilings(graph, op, source, name):
            line = line_at.get(tiling.read)
            taken = line in places[name] or tiling.made in places[name].values()
            if line is None or taken:
                continue
            low, high = boxes[source][line]
            extent = (graph.tensor[source].shape or ())[tiling.read]
            shown = [low + end * (high - low) // extent for end in (tiling.low, tiling.high)]
            step, rest = divmod(shown[1] - shown[0], tiling.steps)
            if tuple(shown) == boxes[name][line] and not rest:
                places[name][line], via[name][line] = tiling.made, tiling.axis
                storage.width[line] = math.lcm(storage.width[line], step)
    return True


def _common_lines(storage: _Storage) -> list[int]:
    """Lines that may be cut in all views.

    A unit becomes as wide as the interval shown by a view without an axis along the line.
    """
    places, width = storage.places, storage.width
    common = []
    for line, extent in enumerate(storage.shape):
        for name, (low, high) in ((name, box[line]) for name, box in storage.boxes.items()):
            if line in places[name]:
                continue
            # A line is not cut within the interval of a view that has no axis for it.
            length = high - low
            width[line] = math.lcm(width[line], length if low % length == 0 else extent)
        boxes = storage.boxes.items()
        ends = {end for name, box in boxes if line in places[name] for end in box[line]}
        if width[line] < extent and not any(end % width[line] for end in (extent, *ends)):
            common.append(line)
    return common


def shown_box(graph: Graph, tensor: Tensor) -> list[tuple[int, int]] | None:
    """Interval of each axis of its storage that a tensor shows, or ``None`` if it shows no box.

    The tensor's first and last byte must be corners of a box that has room for its elements.
    """
    root, start = graph.root[tensor.name]
    whole = graph.tensor[root]
    shape, own = whole.shape or (), tensor.shape or ()
    if start == 0 and tensor.nbytes == whole.nbytes:
        return [(0, extent) for extent in shape]
    width = whole.nbytes // math.prod(shape)
    first, last = divmod(start, width), divmod(start + tensor.nbytes, width)
    if first[1] or last[1]:
        return None
    low, high = first[0], last[0] - 1
    box: list[tuple[int, int]] = []
    for extent in reversed(shape):
        (low, one), (high, other) = divmod(low, extent), divmod(high, extent)
        box.append((one, other + 1))
    volume = math.prod(end - begin for begin, end in box)
    room = all(begin < end for begin, end in box) and volume >= math.prod(own)
    return box[::-1] if room else None


class _Tiling(NamedTuple):
    """Steps of an op's axis that read positions ``[low, high)`` and write a whole view."""

    axis: str
    read: int
    made: int
    low: int
    high: int
    steps: int


def _tilings(graph: Graph, op: Op, source: str, view: str) -> Iterator[_Tiling]:
    """Yield axes of an op whose windows tile a part of ``source`` and the whole view."""
    for axis in op.axes:
        read, made = axis.window.get(source), axis.window.get(view)
        if axis.accumulates or read is None or made is None:
            continue
        regular = read.table is None and read.stride == read.size
        steps = _steps_that_tile(graph, axis, made)
        if regular and steps is not None:
            low, high = (read.offset + read.stride * step for step in steps)
            extent = (graph.tensor[source].shape or ())[read.axis]
            if 0 <= low < high <= extent:
                count = steps[1] - steps[0]
                yield _Tiling(axis.name, read.axis, made.axis, low, high, count)


def _steps_that_tile(graph: Graph, axis: Axis, window: Window) -> tuple[int, int] | None:
    """Steps ``[start, stop)`` that write a whole tensor in equal parts, one after another."""
    extent = (graph.tensor[window.tensor].shape or ())[window.axis]
    if window.table is None:
        regular = window.offset == 0 and window.stride == window.size
        return (0, axis.extent) if regular and window.size * axis.extent == extent else None
    steps = [k for k, (low, high) in enumerate(window.table) if low < high]
    if not steps or steps != list(range(steps[0], steps[-1] + 1)) or extent % len(steps):
        return None
    size = extent // len(steps)
    even = all(window.table[k] == (size * n, size * n + size) for n, k in enumerate(steps))
    return (steps[0], steps[-1] + 1) if even else None
