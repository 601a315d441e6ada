"""Readings of tensors that a certificate may cite, and what a graph says about each of them.

A step of an op counts if it makes an equal part of the first output and runs once. Its output's
values stay until the steps of a counted reader have run: in the output itself, or in what other ops
make of it position by position.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cpplan.model.axes import Window
from cpplan.model.certificates import Reading
from cpplan.model.dtypes import BITS
from cpplan.model.errors import VerificationError
from cpplan.model.graph import Graph, Op
from cpplan.model.residency import Residency
from cpplan.model.tensor import Tensor
from cpplan.verification.piece_steps import Floats, Steps, held_in_lines, live_parts, steps_of
from cpplan.verification.storages import storages_held

# A tensor's bytes for shares of one or two ops.
Cell = tuple[tuple[str, ...], Floats]
# Relative difference of costs that are summed in another order.
_SAME_COST = 4e-9


@dataclass(frozen=True)
class Read:
    """One op's reading of a tensor of some bytes, and the bytes that may stand for the tensor's."""

    maker: str | None
    reader: str
    kept: bool
    bytes: int
    axes: tuple[Steps, ...]
    channel: Steps | None
    lines: tuple[float, ...]
    sums: int

    def cell(self, joined: bool, parts: int) -> Cell:
        """Bytes live for every share of the maker and the reader.

        ``joined`` is true if the reader's share is that of all its channels together.
        """
        together = joined and self.channel is not None
        low = np.r_[0.0, np.arange(parts) / parts, 1.0]
        if self.kept:
            table = low * self.bytes
            return ((), table[-1:].reshape(())) if self.maker is None else ((self.maker,), table)
        axes = (*self.axes, self.channel) if together and self.channel else self.axes
        table = live_parts(axes, not together, self.sums, parts) * self.bytes
        if self.axes and self.lines and not joined:
            counts = [steps.count for steps in self.axes]
            table = np.maximum(table, held_in_lines(counts, self.lines, self.sums, parts))
        if self.maker is None:  # an input is there from the start
            return (self.reader,), table[-1]
        return (self.maker, self.reader), table


class Readings:
    """The readings of a graph that a certificate may cite."""

    def __init__(self, graph: Graph, residency: Residency, sharing: Collection[str]):
        self._graph = graph
        # Where copies may be left out, a part that is copied has no bytes of its own.
        copying = graph.ops if "placement" in sharing else ()
        self._copied = {
            place.part for op in copying if not self._passes_on(op) for place in op.placements
        }
        held, _, _ = storages_held(graph, residency)
        self._held = dict(zip(graph.columns.names, held.tolist(), strict=True))
        total = sum(op.cost for op in graph.ops)
        self._free = _SAME_COST * total if isinstance(total, float) else 0

    def counts(self, op: Op) -> bool:
        """True if every step of an op makes an equal part of its first output, and runs once."""
        if not op.outputs or op.bodies or op.sequence is not None or self._passes_on(op):
            return False
        for axis in op.axes:
            if not axis.accumulates and axis.extent > 1:
                made = axis.window.get(op.outputs[0])
                if made is None or made.table or made.offset or made.stride != made.size:
                    return False
        steps = math.prod(axis.extent for axis in op.axes)
        return (op.cost // steps if isinstance(op.cost, int) else op.cost / steps) > self._free

    def begun_by_a_step(self, op: Op) -> int:
        """Bytes of the first output that each step begins; 0 if several steps add up to it."""
        output = self._graph.tensor[op.outputs[0]]
        apart = self._graph.root[output.name][0] == output.name
        adds = any(axis.accumulates for axis in op.axes)
        return self._bytes(output) // steps_in(op) if apart and not adds else 0

    def read(self, reading: Reading) -> Read:
        """A cited reading; one that the graph does not have is refused."""
        graph = self._graph
        path = [self._tensor(name) for name in reading.path]
        if not path:
            raise VerificationError("the certificate cites a reading of no tensor")
        first, last, maker = path[0], path[-1], graph.producer.get(path[0].name)
        whole, shown = first.kind == "input", False
        if maker is not None and first.kind != "input":
            whole = self.counts(maker) and maker.outputs[0] == first.name
        whole &= first.name not in self._copied
        if not whole or first.shape is None or not self._is_own_storage(first.name):
            raise VerificationError(
                f"the certificate counts tensor {first.name!r}, which it may not"
            )
        for before, after in pairwise(path):
            by = graph.producer.get(after.name)
            if by is None or before.name not in by.inputs or not self._passes_on(by):
                raise VerificationError(
                    f"the certificate says that {after.name!r} has the values of {before.name!r}"
                )
            shown |= self._is_shown(by)
        made = maker.name if maker is not None and first.kind != "input" else None
        bits = min(map(_bits, path))
        size = min(int(math.prod(first.shape) * bits) // 8, *map(self._bytes, path))
        if reading.op is None:
            if last.kind != "output":
                raise VerificationError(f"tensor {last.name!r} is no output, as the plan cites")
            return Read(made, "", True, size, (), None, (), 0)
        op = graph.op.get(reading.op)
        if op is None or last.name not in op.inputs or not self.counts(op):
            raise VerificationError(f"the certificate cites op {reading.op!r} as a reader")
        return self._read_by(op, path, made, size, shown)

    def _read_by(
        self, op: Op, path: Sequence[Tensor], maker: str | None, size: int, shown: bool
    ) -> Read:
        """The read of the last of some tensors that have the same values."""
        shape, last = path[0].shape or (), path[-1].name
        refused = VerificationError(f"op {op.name!r} does not read {last!r} as the plan cites")
        axes, channel, output, own = [], None, op.outputs[0], _channel_axis(op)
        other = own if maker is None else _channel_axis(self._graph.op[maker])
        for axis in op.axes:
            window = axis.window.get(last)
            if axis.accumulates or axis.extent == 1 or window is None:
                continue
            if shown or {(t.shape or ())[window.axis] for t in path} != {shape[window.axis]}:
                raise refused
            if shape[window.axis] == 1:
                continue
            steps = steps_of(window, axis.extent, shape[window.axis])
            if steps is None:
                raise refused
            made = axis.window[output]
            if made.axis != own and window.axis != other:
                axes.append(steps)
                continue
            if not (_one(window) and _one(made) and made.axis == window.axis == own == other):
                raise refused
            if steps.count != steps.extent:  # some channels are not read
                raise refused
            channel = steps
        added = {w.tensor for axis in op.axes if axis.accumulates for w in axis.windows}
        added = {name for name in added if self._graph.tensor[name].kind != "constant"}
        lines: tuple[float, ...] = ()
        sums = 0
        if last in added:
            # What is held instead of one tensor must not be held instead of another, too.
            if op.in_place or added != {last}:
                raise refused
            held = self._bytes(self._graph.tensor[output])
            lines = tuple(_lines(axes, size, held / steps_in(op))) or (0.0,)
            there = [*axes, channel] if channel is not None else axes
            sums = steps_in(op) // math.prod(steps.count for steps in there)
            share = math.prod(steps.read / (steps.most * steps.count) for steps in axes)
            size = min(size, int(held * share))
        return Read(maker, op.name, False, size, tuple(axes), channel, lines, sums)

    def _tensor(self, name: str) -> Tensor:
        tensor = self._graph.tensor.get(name)
        if tensor is None:
            raise VerificationError(f"the certificate cites the unknown tensor {name!r}")
        return tensor

    def _bytes(self, tensor: Tensor) -> int:
        """Bytes of a tensor in the arena."""
        root = self._graph.root[tensor.name][0]
        return min(tensor.nbytes, self._graph.tensor[root].nbytes) if self._held[root] else 0

    def _is_own_storage(self, name: str) -> bool:
        """True if a tensor is a storage, and views of it are nothing but other shapes of it."""
        roots, makers = self._graph.root, self._graph.producer
        views = [view for view, (root, _) in roots.items() if root == name and view != name]
        return roots[name][0] == name and all(
            view in makers and self._is_shown(makers[view]) for view in views
        )

    def _is_shown(self, op: Op) -> bool:
        """True if an op does no work and gives a whole storage another shape."""
        graph = self._graph
        if op.cost or len(op.outputs) != 1 or op.bodies or op.sequence is not None:
            return False
        view = op.outputs[0]
        root = graph.root[view][0]
        sources = [name for name in op.inputs if graph.root[name][0] == root]
        if view == root or len(sources) != 1:
            return False
        source = graph.tensor[sources[0]]
        sizes = {graph.tensor[name].nbytes for name in (view, root, source.name)}
        if len(sizes) > 1 or source.shape is None:
            return False
        for axis in op.axes:
            read, made = axis.window.get(source.name), axis.window.get(view)
            if read is None or made is None or made.table or made.offset:
                return False
            steps = steps_of(read, axis.extent, source.shape[read.axis])
            even = steps is not None and steps.extent == steps.read == steps.most * steps.count
            if made.size != made.stride or not even:
                return False
        return True

    def _passes_on(self, op: Op) -> bool:
        """True if an op makes each position of its output from the same one of one input."""
        if self._is_shown(op):
            return True
        graph = self._graph
        if len(op.outputs) != 1 or op.bodies or op.sequence is not None:
            return False
        output = graph.tensor[op.outputs[0]]
        inputs = [graph.tensor[name] for name in dict.fromkeys(op.inputs)]
        inputs = [tensor for tensor in inputs if tensor.kind != "constant"]
        if not inputs or output.shape is None or graph.root[output.name][0] != output.name:
            return False
        places = [_place(op, tensor, output) for tensor in inputs]
        spans = sorted(place for place in places if place is not None)
        apart = all(a[1] <= b[0] for a, b in pairwise(spans))
        return len(spans) == len(inputs) and apart


def _bits(tensor: Tensor) -> float:
    """Bits of one element, also of a tensor whose type is not known."""
    if tensor.dtype is None:
        return 8 * tensor.nbytes / max(1, math.prod(tensor.shape or ()))
    return BITS[str(tensor.dtype)]


def _lines(axes: Sequence[Steps], size: int, one: float) -> Iterator[float]:
    """Yield, for each axis, the bytes of two neighbours' common positions, or of one's sum."""
    whole = math.prod(axis.extent for axis in axes)
    for k, axis in enumerate(axes):
        positions = axis.common * math.prod(other.least for j, other in enumerate(axes) if j != k)
        yield min(positions * size / whole, one)


def steps_in(op: Op) -> int:
    """Number of an op's steps; each makes a part of its first output."""
    return math.prod(axis.extent for axis in op.axes if not axis.accumulates)


def _place(op: Op, tensor: Tensor, output: Tensor) -> tuple[int, int] | None:
    """The part of an output where a tensor's positions lie, along the axis that is longer."""
    inner, outer = tensor.shape, output.shape
    if inner is None or outer is None or len(inner) != len(outer):
        return None
    offsets: dict[int, int] = {}
    for axis in op.axes:
        read, made = axis.window.get(tensor.name), axis.window.get(output.name)
        if axis.extent == 1 or read is None:
            continue
        if axis.accumulates or made is None or not _one(made) or read.axis != made.axis:
            return None
        k = read.axis
        if read.table is not None or read.stride != 1 or read.size != 1 or k in offsets:
            return None
        if axis.extent != outer[k] or not 0 <= -read.offset <= outer[k] - inner[k]:
            return None
        offsets[k] = -read.offset
    longer = [k for k in range(len(inner)) if inner[k] != outer[k]]
    if any(inner[k] > 1 and k not in offsets for k in range(len(inner))) or len(longer) > 1:
        return None
    if not longer:
        return 0, max(outer, default=1)
    k = longer[0]
    return (offsets[k], offsets[k] + inner[k]) if k in offsets else None


def _one(window: Window) -> bool:
    """True if each step accesses the position of its own number."""
    return window.table is None and (window.stride, window.offset, window.size) == (1, 0, 1)


def _channel_axis(op: Op) -> int | None:
    """The axis of the first output along which an op runs channel by channel, if there is one."""
    named = (axis for axis in op.axes if axis.name == "channels" and not axis.accumulates)
    made = (axis.window.get(op.outputs[0]) for axis in named)
    return next((window.axis for window in made if window is not None), None)
