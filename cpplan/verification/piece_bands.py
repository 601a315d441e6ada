"""Bands: the positions at which a plan's cuts part the ops and the tensors of a model.

An op that is cut runs once for each product of its intervals. A tensor is cut wherever a window of
such an interval begins or ends, so that every piece accesses whole bands.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from cpplan.model.axes import Axis, Window
from cpplan.model.errors import VerificationError
from cpplan.model.graph import Graph, Op
from cpplan.model.pieces import Pieces
from cpplan.verification.piece_lines import CutTensors, Place

Span = tuple[int, int]
Part = tuple[Span, ...]
"""A span along each axis of a tensor."""


@dataclass(frozen=True, slots=True)
class CutOp:
    """An op and the axes along which it is cut, each with the ends of its intervals."""

    places: CutTensors
    op: Op
    axes: tuple[Axis, ...]
    ends: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, graph: Graph, entry: Pieces, places: CutTensors) -> CutOp:
        here = f"pieces of op {entry.op!r}"
        op = graph.op.get(entry.op)
        if op is None:
            raise VerificationError(f"{here}: the model has no such op")
        if graph.symbols is not None:
            raise VerificationError(f"{here}: the sizes of its tensors depend on variables")
        if op.bodies or op.sequence is not None:
            raise VerificationError(f"{here}: an op with bodies, or of a sequence, runs whole")
        found = {axis.name: axis for axis in op.axes}
        axes, ends = [], []
        for name, cuts in zip(entry.axes, entry.cuts, strict=True):
            axis = found.get(name)
            if axis is None:
                raise VerificationError(f"{here}: it has no axis {name!r}")
            positions = (0, *cuts, axis.extent)
            if any(low >= high for low, high in pairwise(positions)):
                raise VerificationError(
                    f"{here}: axis {name!r}: {list(cuts)} are not ascending positions within its "
                    f"{axis.extent} steps"
                )
            unit = places.unit(op, axis)
            if unit is None or any(cut % unit for cut in cuts):
                raise VerificationError(
                    f"{here}: axis {name!r}: its outputs cannot be cut at {list(cuts)}"
                )
            axes.append(axis)
            ends.append(positions)
        cut_at = [(window.tensor, window.axis) for axis in axes for window in axis.windows]
        if len(set(cut_at)) < len(cut_at):
            raise VerificationError(f"{here}: two axes cut one axis of a tensor")
        return cls(places, op, tuple(axes), tuple(ends))

    def pieces(self) -> Iterator[tuple[Span, ...]]:
        """The spans of each piece, in the order of the pieces."""
        return product(*(list(pairwise(e)) for e in self.ends))

    def part(self, graph: Graph, tensor: str, piece: Sequence[Span]) -> Part | None:
        """The part of a tensor that a piece accesses; ``None`` if it accesses none."""
        shape = graph.tensor[tensor].shape
        if shape is None:
            return ()
        spans = [(0, extent) for extent in shape]
        for axis, (first, last) in zip(self.axes, piece, strict=True):
            for window in axis.windows:
                if window.tensor == tensor:
                    span = _accessed(window, first, last, shape[window.axis])
                    place = self.places.place(tensor, window.axis)
                    if place is not None:
                        spans[window.axis] = _widened(span, place.pitch)
                    elif span[0] >= span[1]:
                        return None
        return None if any(low >= high for low, high in spans) else tuple(spans)

    def name(self, piece: Sequence[Span]) -> str:
        return f"{self.op.name}[{_spans(piece)}]"

    def alike(self, graph: Graph, one: str, other: str) -> list[int] | None:
        """Tensor axes of the cuts if every cut divides the two tensors alike; else ``None``."""
        found = []
        for axis in self.axes:
            at = _common(graph, axis, one, other)
            if at is None or not _same_pitch(self.places, one, other, at):
                return None
            found.append(at)
        return found


def _accessed(window: Window, first: int, last: int, extent: int) -> Span:
    """The positions of a tensor's axis that steps ``first`` to ``last`` (excluded) access."""
    if window.table is not None:
        low, high = window.table[first][0], window.table[last - 1][1]
    else:
        low = window.offset + window.stride * first
        high = window.offset + window.stride * (last - 1) + window.size
    return max(0, min(low, extent)), max(0, min(high, extent))


def _widened(span: Span, pitch: int) -> Span:
    """The smallest span that holds a span and has both ends at multiples of a pitch."""
    low, high = span
    return (low - low % pitch, high + -high % pitch) if low < high else span


def _same_pitch(places: CutTensors, one: str, other: str, axis: int) -> bool:
    here, there = places.place(one, axis), places.place(other, axis)
    if here is None or there is None:
        return False
    return here.full and there.full and here.pitch == there.pitch


def _common(graph: Graph, axis: Axis, one: str, other: str) -> int | None:
    """The tensor axis that an op's axis cuts in both tensors at equal steps; else ``None``."""
    windows = [window for window in axis.windows if window.tensor in (one, other)]
    if len(windows) != 2 or windows[0].axis != windows[1].axis:
        return None
    steps = {(w.stride, w.offset, w.size, w.table) for w in windows}
    extents = {(graph.tensor[w.tensor].shape or ())[w.axis] for w in windows}
    return windows[0].axis if steps == {(1, 0, 1, None)} and len(extents) == 1 else None


class Bands:
    """Positions at which each tensor is cut along each of its axes."""

    def __init__(self, graph: Graph, cut: Mapping[str, CutOp], places: CutTensors):
        self._graph, self._places = graph, places
        # Base and axis -> cuts, counted in pitches.
        marks: dict[tuple[str, int], set[int]] = {}
        for each in cut.values():
            for axis, ends in zip(each.axes, each.ends, strict=True):
                for window in axis.windows:
                    place = places.place(window.tensor, window.axis)
                    if place is None:
                        continue
                    extent = (graph.tensor[window.tensor].shape or ())[window.axis]
                    found = marks.setdefault(self._key(window.tensor, place), set())
                    for first, last in pairwise(ends):
                        span = _accessed(window, first, last, extent)
                        if span[0] < span[1]:
                            low, high = _widened(span, place.pitch)
                            found.update(place.before + end // place.pitch for end in (low, high))
        self._level(marks, cut)
        self._grid: dict[str, list[list[Span]]] = {}
        for name, axes in places.places.items():
            shape = graph.tensor[name].shape or ()
            lines = [[(0, extent)] for extent in shape]
            for number, place in axes.items():
                marked = sorted(marks.get(self._key(name, place), ()))
                own = ((mark - place.before) * place.pitch for mark in marked)
                inner = [end for end in own if 0 < end < shape[number]]
                lines[number] = list(pairwise([0, *inner, shape[number]]))
            if any(len(line) > 1 for line in lines):
                self._grid[name] = lines

    def _key(self, tensor: str, place: Place) -> tuple[str, int]:
        return self._graph.root[tensor][0], place.base_axis

    def _level(self, marks: dict[tuple[str, int], set[int]], cut: Mapping[str, CutOp]) -> None:
        """Give tensors that may share bytes the same cuts, until nothing changes."""
        linked: list[tuple[tuple[str, int], tuple[str, int]]] = []
        for each in cut.values():
            pairs = [*each.op.in_place, *((p.part, p.whole) for p in each.op.placements)]
            for one, other in pairs:
                for axis in each.axes:
                    at = _common(self._graph, axis, one, other)
                    if at is None or not _same_pitch(self._places, one, other, at):
                        continue
                    places = self._places.place(one, at), self._places.place(other, at)
                    assert places[0] is not None
                    assert places[1] is not None
                    linked.append((self._key(one, places[0]), self._key(other, places[1])))
        changed = True
        while changed:
            changed = False
            for one_axis, other_axis in linked:
                here, there = (marks.setdefault(key, set()) for key in (one_axis, other_axis))
                if here != there:
                    here |= there
                    there |= here
                    changed = True

    def base(self, tensor: str, part: Part) -> tuple[str, int, int | None]:
        """The band of a view's base that holds a part of the view; offset and bytes in that band.

        The bytes are ``None`` if the part is all of the band.
        """
        name = self._graph.root[tensor][0]
        base = self._graph.tensor[name]
        corners = self._places.corners.get(tensor)
        shape = base.shape or ()
        low = list(corners[0]) if corners else [0] * len(shape)
        high = list(corners[1]) if corners else [extent - 1 for extent in shape]
        for axis, place in self._places.places[tensor].items():
            pitch = self._places.places[name][place.base_axis].pitch
            begin, end = (place.before + at // place.pitch for at in part[axis])
            low[place.base_axis], high[place.base_axis] = begin * pitch, end * pitch - 1
        band = []
        for first, last, line in zip(low, high, self._grid[name], strict=True):
            holding = [span for span in line if span[0] <= first and last < span[1]]
            if not holding:
                raise VerificationError(f"tensor {tensor!r}: [{_spans(part)}] is in no band")
            band.append(holding[0])
        if corners is None:
            return self.name(name, tuple(band)), 0, None
        element = base.nbytes // math.prod(shape)
        at = [0, 0]
        for axis, (begin, end) in enumerate(band):
            at = [k * (end - begin) + p[axis] - begin for k, p in zip(at, (low, high), strict=True)]
        return self.name(name, tuple(band)), at[0] * element, (at[1] - at[0] + 1) * element

    def is_cut(self, tensor: str) -> bool:
        return tensor in self._grid

    def parts(self, tensor: str) -> list[Part]:
        """All bands of a tensor that is cut, in the order of its shape."""
        return list(product(*self._grid[tensor]))

    def name(self, tensor: str, part: Part) -> str:
        cut = [span for span, line in zip(part, self._grid[tensor], strict=True) if len(line) > 1]
        return f"{tensor}[{_spans(cut)}]"

    def within(self, tensor: str, part: Part) -> list[Part]:
        """The bands that make up a part of a tensor."""
        lines = []
        for (low, high), line in zip(part, self._grid[tensor], strict=True):
            first = bisect_left(line, (low, low))
            lines.append([span for span in line[first:] if span[1] <= high])
        found = list(product(*lines))
        if sum(map(count_elements, found)) != count_elements(part):
            raise VerificationError(f"tensor {tensor!r}: [{_spans(part)}] is not made of bands")
        return found


def count_elements(part: Part) -> int:
    """The number of elements of a part."""
    return math.prod(high - low for low, high in part)


def _spans(part: Iterable[Span]) -> str:
    return ",".join(f"{low}:{high}" for low, high in part)
