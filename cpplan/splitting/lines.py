"""Axes along which tensors may be cut, views among them: the lines of each storage.

A storage that holds one tensor may be cut along every axis, at every position. If it holds views,
all of its bytes in other shapes, then an op that makes a view says by its axes which of them go on:
if both windows of an axis tile their tensors, a part of one has the bytes of a part of the other. A
*line* is an axis of the storage's own tensor that goes on in all its views. It may be cut into
*units*, as many as the steps of all those axes have in common: after a reshape from 116 channels
to 2 x 58, between the two halves only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

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
        Tensor -> its axis -> the axis of its storage's own tensor that it goes along.
    grain
        Tensor -> its axis -> positions of a unit.
    source
        View -> the tensor over whose bytes the op that writes it makes it.
    links
        View -> names of the axes of that op along which it may be cut.
    """

    line: dict[str, dict[int, int]]
    grain: dict[str, dict[int, int]]
    source: dict[str, str]
    links: dict[str, frozenset[str]]

    def __contains__(self, tensor: str) -> bool:
        return tensor in self.line

    def has(self, window: Window) -> bool:
        """True if a window's tensor may be cut along its axis."""
        return window.axis in self.line.get(window.tensor, {})

    def units(self, window: Window, start: int, stop: int, extent: int) -> tuple[int, int]:
        """Units that steps ``[start, stop)`` of an op access; rounded outwards."""
        low, high = window.interval(start, stop, extent)
        grain = self.grain[window.tensor][window.axis]
        return (low, high) if grain == 1 else (low // grain, -(-high // grain))

    def interval(self, window: Window, start: int, stop: int, extent: int) -> tuple[int, int]:
        """Positions of these units; an empty interval stays empty."""
        low, high = window.interval(start, stop, extent)
        grain = self.grain[window.tensor][window.axis]
        if grain == 1 or low == high:
            return low, high
        return low // grain * grain, -(-high // grain) * grain

    def can_cut(self, op: Op, axis: Axis) -> bool:
        """True if an op may be cut along one of its axes."""
        if op.bodies or op.sequence is not None or axis.extent < 2:
            return False
        for name in op.outputs:
            if name not in self.line or axis.name not in self.links.get(name, (axis.name,)):
                return False
            window = axis.window.get(name)
            if window is not None and (not self.has(window) or not self._is_aligned(window)):
                return False
        return True

    def _is_aligned(self, window: Window) -> bool:
        grain = self.grain[window.tensor][window.axis]
        if window.table is not None:
            return all(end % grain == 0 for entry in window.table for end in entry)
        return not (window.stride % grain or window.offset % grain or window.size % grain)


def find_lines(graph: Graph) -> Lines:
    """Lines of all tensors of a graph that may be cut.

    Examples
    --------
    >>> rows = Axis("rows", 4, (Window("x", 0), Window("y", 0, 2, 0, 2)))
    >>> x = Tensor("x", shape=(4, 6), dtype="int8", kind="input")
    >>> y = Tensor("y", shape=(8, 3), dtype="int8", view_of=("x", 0))
    >>> found = find_lines(Graph("g", (x, y), (Op("f", "Reshape", ("x",), ("y",), axes=(rows,)),)))
    >>> found.grain
    {'x': {0: 1}, 'y': {0: 2}}
    """
    found = Lines({}, {}, {}, {})
    if graph.symbols is not None:
        return found
    members: dict[str, list[Tensor]] = {}
    for tensor in graph.tensors:
        members.setdefault(graph.root[tensor.name][0], []).append(tensor)
    for root, tensors in members.items():
        if not all(_has_whole_elements(tensor) for tensor in tensors):
            continue
        if len(tensors) == 1:
            shape = tensors[0].shape or ()
            found.line[root] = {k: k for k in range(len(shape))}
            found.grain[root] = dict.fromkeys(range(len(shape)), 1)
        else:
            _add_views(graph, root, tensors, found)
    return found


def _has_whole_elements(tensor: Tensor) -> bool:
    if tensor.kind in ("constant", "workspace"):
        return False
    if tensor.shape is None or tensor.dtype is None or tensor.symbolic:
        return False
    bits = BITS.get(tensor.dtype, 1)
    return bits % 8 == 0 and tensor.nbytes == math.prod(tensor.shape) * bits // 8 > 0


def _add_views(graph: Graph, root: str, tensors: list[Tensor], found: Lines) -> None:
    """Lines of a storage with views, if there are any."""
    size = graph.tensor[root].nbytes
    if any(t.nbytes != size or graph.root[t.name][1] for t in tensors):
        return
    names = {tensor.name for tensor in tensors}
    makers: dict[str, tuple[Op, str]] = {}
    for tensor in tensors:
        if tensor.name == root:
            continue
        op = graph.producer.get(tensor.name)
        read = [] if op is None else [name for name in dict.fromkeys(op.inputs) if name in names]
        if op is None or len(read) != 1 or len(names.intersection(op.outputs)) != 1:
            return
        makers[tensor.name] = op, read[0]
    shape = graph.tensor[root].shape or ()
    places: dict[str, dict[int, int]] = {root: {k: k for k in range(len(shape))}}
    units = dict(enumerate(shape))
    via: dict[str, dict[int, str]] = {}
    while len(places) < len(tensors):
        name = next((n for n, (_, s) in makers.items() if n not in places and s in places), None)
        if name is None:
            return
        op, source = makers[name]
        # Line -> axis of the view, and the axis of the op.
        places[name], via[name] = {}, {}
        line_at = {own: line for line, own in places[source].items()}
        for axis, at, made in _tilings(graph, op, source, name):
            line = line_at.get(at)
            taken = line in places[name] or made in places[name].values()
            if line is not None and not taken:
                places[name][line], via[name][line] = made, axis.name
                units[line] = math.gcd(units[line], axis.extent)
    common = [k for k in places[root] if units[k] > 1 and all(k in p for p in places.values())]
    if not common:
        return
    for tensor in tensors:
        own = tensor.shape or ()
        found.line[tensor.name] = {j: k for k, j in places[tensor.name].items() if k in common}
        found.grain[tensor.name] = {
            j: own[j] // units[k] for j, k in found.line[tensor.name].items()
        }
    for name, (_, source) in makers.items():
        found.source[name] = source
        found.links[name] = frozenset(via[name][k] for k in common)


def _tilings(graph: Graph, op: Op, source: str, view: str) -> Iterator[tuple[Axis, int, int]]:
    """Axes of an op whose windows tile both tensors, and the axis of each."""
    for axis in op.axes:
        windows = axis.window.get(source), axis.window.get(view)
        if axis.accumulates or windows[0] is None or windows[1] is None:
            continue
        if all(_tiles(graph, axis, window) for window in windows if window is not None):
            yield axis, windows[0].axis, windows[1].axis


def _tiles(graph: Graph, axis: Axis, window: Window) -> bool:
    extent = (graph.tensor[window.tensor].shape or ())[window.axis]
    regular = window.table is None and window.offset == 0 and window.stride == window.size
    return regular and window.size * axis.extent == extent
