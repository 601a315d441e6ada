"""Axes along which tensors may be cut, views among them: the lines of each storage.

A storage that holds one tensor may be cut along every axis, at every position. A storage may also
hold views: tensors of another shape over all of its bytes, or over some of them. The op that makes
a view then tells by its axes how parts correspond: if the two windows of an axis tile the tensor
read and the view, a part of one has the bytes of a part of the other.

A *line* is an axis of the storage's own tensor that has a corresponding axis in every view. It may
be cut into *units* only, whose borders are positions in all those axes: after a reshape from 116
channels to 2 x 58, there are two units of 58 channels.

A view that shows only a part of its storage (a slice, one of several stacked matrices) shows an
interval of each line, which follows from its first and its last byte. If it has an axis for the
line, that axis covers the interval; if it has none, the line is not cut within the interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from cpplan.model.axes import Axis, Window
from cpplan.model.dtypes import BITS
from cpplan.model.graph import Graph, Op
from cpplan.model.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of the tensors that may be cut.

    Attributes
    ----------
    line
        Tensor -> axis -> line: the corresponding axis of its storage's own tensor.
    grain
        Tensor -> axis -> number of positions in a unit.
    source
        View -> the tensor from which the view is made, by the op that writes it.
    links
        View -> names of the axes of that op along which the view may be cut.
    shown
        Tensor -> line -> units of the line that the tensor shows, ``(start, stop)``.
    """

    line: dict[str, dict[int, int]]
    grain: dict[str, dict[int, int]]
    source: dict[str, str]
    links: dict[str, frozenset[str]]
    shown: dict[str, dict[int, tuple[int, int]]]

    def __contains__(self, tensor: str) -> bool:
        return tensor in self.line

    def has(self, window: Window) -> bool:
        """True if a window's tensor may be cut along its axis."""
        return window.axis in self.line.get(window.tensor, {})

    def interval(self, window: Window, start: int, stop: int, extent: int) -> tuple[int, int]:
        """Positions that steps ``[start, stop)`` of an op access, rounded outwards to whole units.

        An empty interval stays empty.
        """
        low, high = window.interval(start, stop, extent)
        grain = self.grain[window.tensor][window.axis]
        if grain == 1 or low == high:
            return low, high
        return low // grain * grain, -(-high // grain) * grain

    def first(self, tensor: str, axis: int) -> int:
        """First unit of its line that a tensor's axis shows."""
        return self.shown[tensor][self.line[tensor][axis]][0]

    def steps(self, op: Op, axis: Axis) -> int | None:
        """Steps that pieces of an op are multiples of; ``None`` if it cannot be cut along the axis.

        Such a number of steps writes whole units of all outputs. If an output is an image whose
        views are windows, it writes whole windows.
        """
        if op.bodies or op.sequence is not None:
            return None
        found = 1
        for name in op.outputs:
            if name not in self.line or axis.name not in self.links.get(name, (axis.name,)):
                return None
            window = axis.window.get(name)
            if window is not None:
                steps = self._steps_of_units(window) if self.has(window) else None
                if steps is None:
                    return None
                found = math.lcm(found, steps)
        return found if axis.extent % found == 0 and axis.extent > found else None

    def _steps_of_units(self, window: Window) -> int | None:
        """Fewest steps whose multiples always access whole units, or ``None``."""
        grain = self.grain[window.tensor][window.axis]
        if window.table is not None:
            whole = all(end % grain == 0 for entry in window.table for end in entry)
            return 1 if whole else None
        if not (window.stride % grain or window.offset % grain or window.size % grain):
            return 1
        tiles = window.size == window.stride and window.offset % grain == 0
        return grain // math.gcd(grain, window.stride) if tiles else None


def can_split(graph: Graph) -> bool:
    """True if some op may be cut along some axis; takes no time if no op has axes."""
    ops = [op for op in graph.ops if op.axes]
    if not ops:
        return False
    lines = find_lines(graph)
    return any(lines.steps(op, axis) for op in ops for axis in op.axes)


def find_lines(graph: Graph) -> Lines:
    """Lines of all tensors of a graph that may be cut."""
    # Several stages ask for the lines; they are cached because a graph never changes.
    known: Lines | None = vars(graph).get("_lines")
    return vars(graph).setdefault("_lines", _find_lines(graph)) if known is None else known


def _find_lines(graph: Graph) -> Lines:
    found = Lines({}, {}, {}, {}, {})
    if graph.symbols is not None:
        return found
    members: dict[str, list[Tensor]] = {}
    for tensor in graph.tensors:
        members.setdefault(graph.root[tensor.name][0], []).append(tensor)
    # Line, grain and shown units of storages that hold one tensor, by its shape.
    alone: dict[tuple[int, ...], tuple[Any, Any, Any]] = {}
    for root, tensors in members.items():
        if not all(_has_whole_elements(tensor) for tensor in tensors):
            continue
        if len(tensors) == 1:
            shape = tensors[0].shape or ()
            if shape not in alone:
                axes = {k: k for k in range(len(shape))}
                shown = {k: (0, extent) for k, extent in enumerate(shape)}
                alone[shape] = axes, dict.fromkeys(axes, 1), shown
            found.line[root], found.grain[root], found.shown[root] = alone[shape]
        else:
            add_view_lines(graph, root, tensors, found)
    return found


def _has_whole_elements(tensor: Tensor) -> bool:
    if tensor.kind in ("constant", "workspace"):
        return False
    if tensor.shape is None or tensor.dtype is None or tensor.symbolic:
        return False
    bits = BITS.get(tensor.dtype, 1)
    # A view may leave out bytes between its elements.
    nbytes = math.prod(tensor.shape) * bits // 8
    return bits % 8 == 0 and nbytes > 0 and (tensor.nbytes == nbytes or _leaves_out(tensor, nbytes))


def _leaves_out(tensor: Tensor, nbytes: int) -> bool:
    return tensor.view_of is not None and tensor.nbytes > nbytes


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
            step = Fraction(shown[1] - shown[0], tiling.steps)
            # Each step shows whole positions of the line, or several steps show one position.
            if tuple(shown) == boxes[name][line] and 1 in (step.numerator, step.denominator):
                places[name][line], via[name][line] = tiling.made, tiling.axis
                storage.width[line] = math.lcm(storage.width[line], step.numerator)
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
