"""Axes along which tensors may be cut, views among them: the lines of each storage.

A storage that holds one tensor may be cut along every axis, at every position. If it holds views,
all of its bytes in other shapes or some of them, then an op that makes a view says by its axes
which of them go on: if both windows of an axis tile their tensors, a part of one has the bytes of a
part of the other. A *line* is an axis of the storage's own tensor that goes on in all its views. It
may be cut into *units*, as many as the steps of all those axes have in common: after a reshape from
116 channels to 2 x 58, between the two halves only.

A view that shows a part of its storage (a slice, one of several stacked matrices) shows an interval
of each line, as its first byte and its last say, and its own axis, if it has one, goes along that
interval. A line that a view has no axis for is not cut within the interval shown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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
        Tensor -> its axis -> the axis of its storage's own tensor that it goes along.
    grain
        Tensor -> its axis -> positions of a unit.
    source
        View -> the tensor over whose bytes the op that writes it makes it.
    links
        View -> names of the axes of that op along which it may be cut.
    shown
        Tensor -> line -> units of it that the tensor shows, ``(start, stop)``.
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
        """Unit of its line at which a tensor's axis begins."""
        return self.shown[tensor][self.line[tensor][axis]][0]

    def steps(self, op: Op, axis: Axis) -> int | None:
        """Steps of an axis that a piece of an op may have a multiple of; ``None`` if it has none.

        They write whole units of all outputs: of an image whose views are windows, whole windows.
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
        """Fewest steps whose windows are whole units, wherever they begin at a multiple of them."""
        grain = self.grain[window.tensor][window.axis]
        if window.table is not None:
            whole = all(end % grain == 0 for entry in window.table for end in entry)
            return 1 if whole else None
        if not (window.stride % grain or window.offset % grain or window.size % grain):
            return 1
        tiles = window.size == window.stride and window.offset % grain == 0
        return grain // math.gcd(grain, window.stride) if tiles else None


def can_split(graph: Graph) -> bool:
    """True if some op may be cut along some axis; if none has any, that takes no time.

    Examples
    --------
    >>> x = Tensor("x", shape=(4, 6), dtype="int8", kind="input")
    >>> can_split(Graph("g", (x,), ()))
    False
    """
    ops = [op for op in graph.ops if op.axes]
    if not ops:
        return False
    lines = find_lines(graph)
    return any(lines.steps(op, axis) for op in ops for axis in op.axes)


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
    found = Lines({}, {}, {}, {}, {})
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
            found.shown[root] = {k: (0, extent) for k, extent in enumerate(shape)}
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
