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
from dataclasses import dataclass
from typing import Any

from cpplan.model.axes import Axis, Window
from cpplan.model.dtypes import BITS
from cpplan.model.graph import Graph, Op
from cpplan.model.tensor import Tensor
from cpplan.splitting.view_lines import add_view_lines


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
