"""Axes along which tensors and their views may be cut, found from each view back to its base.

An op that makes a view carries over an axis of its source if one of the op's axes has steps that
divide the view evenly, and also the part of the source that they read. A storage may be cut along
an axis that all its views carry over, at the positions where steps of all these ops end; the
distance between such positions on a tensor's axis is its *pitch*. A view may be a part of its base,
from one corner to another: it is cut where the base is cut within that part. If the view has no
axis for an axis of the base, the base is never cut within the part along that axis.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cpplan.model.axes import Axis, Window
from cpplan.model.dtypes import BITS
from cpplan.model.graph import Graph, Op
from cpplan.model.tensor import Tensor

Corners = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Place:
    """The base's axis that a tensor's axis is a part of, and the pitch of its cuts.

    ``before`` is the number of the base's pitches before the tensor; ``full`` is true if the tensor
    covers the base's whole axis.
    """

    base_axis: int
    pitch: int
    before: int = 0
    full: bool = True


@dataclass(slots=True)
class CutTensors:
    """Places of the axes of the tensors that may be cut.

    Attributes
    ----------
    places
        Tensor -> axis -> its place.
    only
        View -> names of the axes along which the op that makes it may be cut.
    corners
        View that is a part of its base -> the base's first and last element in it.
    """

    places: dict[str, dict[int, Place]] = field(default_factory=dict)
    only: dict[str, set[str]] = field(default_factory=dict)
    corners: dict[str, Corners] = field(default_factory=dict)

    def place(self, tensor: str, axis: int) -> Place | None:
        """The place of a tensor's axis; ``None`` if it may not be cut."""
        return self.places.get(tensor, {}).get(axis)

    def unit(self, op: Op, axis: Axis) -> int | None:
        """Number of steps of an axis after which an op may be cut; ``None`` if it may not.

        A piece ends only at steps where every output may be cut.
        """
        unit = 1
        for name in op.outputs:
            if name not in self.places or axis.name not in self.only.get(name, {axis.name}):
                return None
            window = axis.window.get(name)
            if window is not None:
                apart = self._ends_apart(window)
                if apart is None:
                    return None
                unit = math.lcm(unit, apart)
        return None if axis.extent % unit else unit

    def _ends_apart(self, window: Window) -> int | None:
        """Steps after which an output's window ends at a possible cut again; ``None`` if never."""
        place = self.place(window.tensor, window.axis)
        if place is None:
            return None
        regular = [window.stride, window.offset, window.size]
        ends = regular if window.table is None else [end for span in window.table for end in span]
        if all(end % place.pitch == 0 for end in ends):
            return 1
        if window.table is not None or window.stride != window.size or window.offset % place.pitch:
            return None
        return math.lcm(place.pitch, window.stride) // window.stride


def cut_tensors(graph: Graph) -> CutTensors:
    """Places of all tensors of a graph that may be cut."""
    found = CutTensors()
    storages: dict[str, list[str]] = {}
    for tensor in graph.tensors:
        storages.setdefault(graph.root[tensor.name][0], []).append(tensor.name)
    # Places of a tensor alone in its storage, by its number of axes.
    alone: dict[int, dict[int, Place]] = {}
    for base, names in storages.items():
        if all(_countable(graph.tensor[name]) for name in names):
            rank = len(graph.tensor[base].shape or ())
            if names == [base]:
                if rank not in alone:
                    alone[rank] = {axis: Place(axis, 1) for axis in range(rank)}
                found.places[base] = alone[rank]
            else:
                _Storage(graph, base, names).describe(found)
    return found


def _countable(tensor: Tensor) -> bool:
    """True for tensors with elements of whole bytes, except constants and workspaces."""
    own = tensor.kind not in ("constant", "workspace")
    if not own or tensor.shape is None or tensor.dtype is None or tensor.symbolic:
        return False
    width, rest = divmod(BITS[tensor.dtype], 8)
    full = width * math.prod(tensor.shape)
    return rest == 0 and full > 0 and (tensor.nbytes == full or _has_gaps(tensor, full))


def _has_gaps(tensor: Tensor, nbytes: int) -> bool:
    return tensor.view_of is not None and tensor.nbytes > nbytes


class _Storage:
    """A storage with views."""

    def __init__(self, graph: Graph, base: str, names: Sequence[str]):
        self._graph, self._base, self._names = graph, base, names
        self._shape = graph.tensor[base].shape or ()
        # Tensor -> axis of the base -> axis of the tensor, and the op's axis that carries it over.
        self._at: dict[str, dict[int, tuple[int, str]]] = {
            base: {axis: (axis, "") for axis in range(len(self._shape))}
        }
        self._corners = {name: self._find_corners(name) for name in names}
        # For each axis of the base: cuts are at multiples of this number.
        self._pitch = [1] * len(self._shape)

    def describe(self, found: CutTensors) -> None:
        """Add the places of all tensors of the storage, if they have an axis in common."""
        if any(corners is None for corners in self._corners.values()):
            return
        if any(self._follow(name, ()) is None for name in self._names):
            return
        for name in self._names:
            for axis in range(len(self._shape)):
                if axis not in self._at[name]:
                    begin, end = self._span(name, axis)
                    alone = begin % (end - begin) == 0
                    step = end - begin if alone else self._shape[axis]
                    self._pitch[axis] = math.lcm(self._pitch[axis], step)
        kept = {axis for axis in range(len(self._shape)) if self._is_cut_along(axis)}
        for name in self._names if kept else ():
            shape = self._graph.tensor[name].shape or ()
            places: dict[int, Place] = {}
            for axis in sorted(kept & self._at[name].keys()):
                (own, _), (begin, end) = self._at[name][axis], self._span(name, axis)
                parts = (end - begin) // self._pitch[axis]
                full = end - begin == self._shape[axis]
                places[own] = Place(axis, shape[own] // parts, begin // self._pitch[axis], full)
            found.places[name] = places
            if name != self._base:
                taken = self._at[name]
                found.only[name] = {taken[axis][1] for axis in kept & taken.keys()}
            corners = self._corners[name]
            if corners is not None and not self._is_whole(name):
                found.corners[name] = corners

    def _is_cut_along(self, axis: int) -> bool:
        pitch, extent = self._pitch[axis], self._shape[axis]
        if extent % pitch or extent == pitch:
            return False
        spans = (self._span(name, axis) for name in self._names if axis in self._at[name])
        return all(begin % pitch == 0 == end % pitch for begin, end in spans)

    def _is_whole(self, name: str) -> bool:
        base = self._graph.tensor[self._base]
        return self._graph.root[name][1] == 0 and self._graph.tensor[name].nbytes == base.nbytes

    def _find_corners(self, name: str) -> Corners | None:
        """The base's first and last element in a tensor that is a part of it; else ``None``."""
        if self._is_whole(name):
            return tuple(0 for _ in self._shape), tuple(extent - 1 for extent in self._shape)
        tensor, base = self._graph.tensor[name], self._graph.tensor[self._base]
        element = BITS[str(base.dtype)] // 8
        begin = self._graph.root[name][1]
        if begin % element or tensor.nbytes % element:
            return None
        ends = []
        for number in (begin // element, (begin + tensor.nbytes) // element - 1):
            at = []
            for axis in range(len(self._shape)):
                inner = math.prod(self._shape[axis + 1 :])
                at.append(number // inner % self._shape[axis])
            ends.append(tuple(at))
        low, high = ends
        sides = [b - a + 1 for a, b in zip(low, high, strict=True)]
        if min(sides, default=1) < 1 or math.prod(sides) < math.prod(tensor.shape or ()):
            return None
        return low, high

    def _span(self, name: str, axis: int) -> tuple[int, int]:
        """Positions ``[begin, end)`` of a tensor on an axis of the base."""
        corners = self._corners[name]
        assert corners is not None
        return corners[0][axis], corners[1][axis] + 1

    def _follow(self, name: str, seen: tuple[str, ...]) -> Mapping[int, tuple[int, str]] | None:
        """Axes of the base that a tensor has, by way of its source; ``None`` if it has none."""
        if name in self._at:
            return self._at[name]
        op = self._graph.producer.get(name)
        if op is None or name in seen:
            return None
        sources = {source for source in op.inputs if source in self._names}
        if len(sources) != 1:
            return None
        (source,) = sources
        before = self._follow(source, (*seen, name))
        if before is None:
            return None
        taken: dict[int, tuple[int, str]] = {}
        for axis in op.axes:
            parts = self._parts(axis, source, name)
            if parts is None:
                continue
            there, made, count, (first, last) = parts
            base_axis = next((k for k, (own, _) in before.items() if own == there), None)
            if base_axis is None or base_axis in taken or made in {o for o, _ in taken.values()}:
                continue
            begin, end = self._span(source, base_axis)
            extent = (self._graph.tensor[source].shape or ())[there]
            span = self._span(name, base_axis)
            # The steps must read exactly the part of the base that the view is, in equal steps:
            # some positions of the base each, or some steps for each position.
            same = span == (
                begin + first * (end - begin) // extent,
                begin + last * (end - begin) // extent,
            )
            length = span[1] - span[0]
            if same and (length % count == 0 or count % length == 0):
                taken[base_axis] = made, axis.name
                step = max(1, length // count)
                self._pitch[base_axis] = math.lcm(self._pitch[base_axis], step)
        self._at[name] = taken
        return taken

    def _parts(
        self, axis: Axis, source: str, view: str
    ) -> tuple[int, int, int, tuple[int, int]] | None:
        """Axes of source and view that an op's axis divides, number of steps, and the span read."""
        windows = {window.tensor: window for window in axis.windows}
        if source not in windows or view not in windows or axis.accumulates:
            return None
        read, made = windows[source], windows[view]
        extent = (self._graph.tensor[view].shape or ())[made.axis]
        spans = made.table or [(k * made.size, (k + 1) * made.size) for k in range(axis.extent)]
        if made.table is None and (made.offset != 0 or made.stride != made.size):
            return None
        writing = [k for k, (low, high) in enumerate(spans) if low < high]
        if read.table is not None or read.stride != read.size or not writing:
            return None
        # The steps write equal parts of the view, one after another, and together all of it.
        each, rest = divmod(extent, len(writing))
        wanted = [(each * number, each * number + each) for number in range(len(writing))]
        if rest or list(spans[writing[0] : writing[0] + len(writing)]) != wanted:
            return None
        first = read.offset + read.stride * writing[0]
        last = first + read.stride * len(writing)
        if first < 0 or last > (self._graph.tensor[source].shape or ())[read.axis]:
            return None
        return read.axis, made.axis, len(writing), (first, last)
