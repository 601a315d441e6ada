"""Bands: parts of a cut tensor, each of them a tensor of the graph of pieces.

See :mod:`cpplan.splitting.piece_graph`, "Bands" and "Views".
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise, product
from typing import NamedTuple, TypedDict

from cpplan.model.tensor import Tensor
from cpplan.splitting.lines import shown_box
from cpplan.splitting.tensor_cuts import Interval, TensorCuts, extent_of

Box = tuple[Interval, ...]
"""An interval along each axis of a tensor's shape."""


class Band(NamedTuple):
    """A part of a cut tensor: its name in the graph of pieces, and its box in the tensor."""

    name: str
    box: Box


class _Location(TypedDict):
    """Storage, offset and bytes of a view."""

    view_of: tuple[str, int]
    size: int | None


class Bands:
    """The bands of all tensors of a graph.

    Parameters
    ----------
    cuts
        Cuts of the tensors.

    Attributes
    ----------
    of
        Tensor with cuts -> box -> name of its band, in row-major order of the boxes.
    box
        Band -> its box. A tensor that may be cut, but has no cuts, has the box of its shape.
    """

    def __init__(self, cuts: TensorCuts):
        self._cuts, self._graph = cuts, cuts.graph
        self.of: dict[str, dict[Box, str]] = {}
        self.box: dict[str, Box] = {}
        self._parts: dict[str, list[list[Interval]]] = {}
        # Tensor -> for each axis, the starts and the stops of its parts.
        self._ends: dict[str, list[tuple[list[int], list[int]]]] = {}
        for name, axes in cuts.at.items():
            if any(axes):
                self._add(name, axes)
            else:
                self.box[name] = tuple((0, n) for n in self._graph.tensor[name].shape or ())

    def _add(self, name: str, axes: list[set[int]]) -> None:
        tensor = self._graph.tensor[name]
        parts: list[list[Interval]] = []
        for axis, ends in enumerate(axes):
            positions = [0, *sorted(ends), extent_of(tensor, axis)]
            parts.append(list(pairwise(positions)))
        self._parts[name] = parts
        self._ends[name] = [
            ([start for start, _ in along], [stop for _, stop in along]) for along in parts
        ]
        cut = [axis for axis, ends in enumerate(axes) if ends]
        self.of[name] = {
            box: f"{name}[{text_of(box[axis] for axis in cut)}]" for box in product(*parts)
        }
        self.box.update((band, box) for box, band in self.of[name].items())

    def names(self, tensor: str) -> Iterable[str]:
        """Names of a tensor's bands; the tensor's own name if it has no cuts."""
        return self.of[tensor].values() if tensor in self.of else (tensor,)

    def tensors(self) -> Iterator[Tensor]:
        """Tensors of the graph of pieces.

        Missing are the partial sums and the workspaces of pieces, which :class:`OpPieces` adds.
        """
        for tensor in self._graph.tensors:
            bands = self.of.get(tensor.name)
            if tensor.kind == "workspace":
                yield tensor
            elif bands is None:
                yield self._uncut(tensor)
            else:
                yield from (self._band(tensor, name, box) for box, name in bands.items())

    def _band(self, tensor: Tensor, name: str, box: Box) -> Tensor:
        """One band of a tensor; the band of a view is a view of a band of its storage."""
        shape = tuple(stop - start for start, stop in box)
        if tensor.view_of is None:
            # Only tensors whose elements have the same number of whole bytes are cut.
            size = tensor.nbytes // math.prod(tensor.shape or ()) * math.prod(shape)
            return replace(tensor, name=name, shape=shape, size=size)
        return replace(tensor, name=name, shape=shape, **self._within_band(tensor, box))

    def _uncut(self, tensor: Tensor) -> Tensor:
        """A tensor without cuts; a view of a storage with cuts lies in one of its bands."""
        if tensor.view_of is None or self._graph.root[tensor.name][0] not in self.of:
            return tensor
        return replace(tensor, **self._within_band(tensor, self.box[tensor.name]))

    def _within_band(self, view: Tensor, box: Box) -> _Location:
        """Location of a part of a view in the band of its storage that holds it."""
        root, start = self._graph.root[view.name]
        storage, lines = self._graph.tensor[root], self._cuts.lines
        whole = [(0, extent) for extent in storage.shape or ()]
        inside = list(whole)
        axis_of = {line: axis for axis, line in lines.line[view.name].items()}
        for line, (low, high) in lines.shown[view.name].items():
            width = lines.grain[root][line]
            if line in axis_of:
                grain = lines.grain[view.name][axis_of[line]]
                low, high = (low + end // grain for end in box[axis_of[line]])
            inside[line] = low * width, high * width
            whole[line] = next(
                part
                for part in self._parts[root][line]
                if part[0] <= low * width and high * width <= part[1]
            )
        base = self.of[root][tuple(whole)]
        if (start, view.nbytes) == (0, storage.nbytes):
            return {"view_of": (base, 0), "size": None}
        # Begin at the first element that the view shows and end at its last one.
        width = storage.nbytes // math.prod(storage.shape or ())
        shown = shown_box(self._graph, view)
        assert shown is not None
        for line in range(len(whole)):
            if line not in lines.shown[view.name]:
                inside[line] = shown[line]
        first = last = 0
        for (low, high), (begin, end) in zip(inside, whole, strict=True):
            first = first * (end - begin) + low - begin
            last = last * (end - begin) + high - 1 - begin
        return {"view_of": (base, first * width), "size": (last + 1 - first) * width}

    def accessed(self, op: str, tensor: str, intervals: tuple[Interval, ...]) -> list[str]:
        """Names of the bands of a tensor that a piece of an op accesses."""
        lines, tensors = self._cuts.lines, self._graph.tensor
        for number, w in self._cuts.uncut[op]:
            if w.tensor == tensor:
                low, high = w.interval(*intervals[number], extent_of(tensors[tensor], w.axis))
                if low == high:
                    return []
        ends = [
            (w.axis, *lines.interval(w, *intervals[number], extent_of(tensors[tensor], w.axis)))
            for number, w in self._cuts.windows[op]
            if w.tensor == tensor
        ]
        if tensor not in self.of:
            return [] if any(low == high for _, low, high in ends) else [tensor]
        parts = list(self._parts[tensor])
        for axis, low, high in ends:
            starts, stops = self._ends[tensor][axis]
            parts[axis] = parts[axis][bisect_left(starts, low) : bisect_right(stops, high)]
        return [self.of[tensor][box] for box in product(*parts)]


def text_of(intervals: Iterable[Interval]) -> str:
    """Text of intervals in the names of bands and pieces."""
    return ",".join(f"{start}:{stop}" for start, stop in intervals)
