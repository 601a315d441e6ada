"""Tensors with the ops that read their values, also through ops that hand them on one by one.

An op *hands on* a tensor if each position of its output is computed from the same position of one
input, as in an activation, a concatenation, or a view of a whole storage. Until the op behind it
has read a value, the tensor or what was handed on is live. So such ops need no place in a bound.

Pieces of an op are counted by its *steps*: one of each axis of its output. A stream and its readers
need that each step of the op that makes it, and of its readers, runs once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

from cpplan.model.axes import Window
from cpplan.model.certificates import Reading
from cpplan.model.dtypes import BITS
from cpplan.model.graph import Graph, Op
from cpplan.model.tensor import Tensor
from cpplan.splitting.live_shares import Reach, reach
from cpplan.splitting.problem import SplitProblem

# Most ops that read a stream.
_MOST_READERS = 64
# Costs are sums of floats, equal to this relative difference.
_COST_ROUNDING = 4e-9


class Read(NamedTuple):
    """The part of a stream that one op reads.

    Attributes
    ----------
    reading
        Tensors through which the values come, and the op, or ``None`` for the end of the model.
    bytes
        Bytes of the stream: the fewest of these tensors.
    axes
        Axes of the op along which a step reads a part of the stream, without the channels.
    channels
        Channels of which a step reads the one that it makes, or ``None``.
    lines
        If the op adds up its terms: for each axis, the bytes that a line of steps along it holds
        if it is partly done. Else empty, and the op keeps its halo.
    sums
        If the op adds up its terms: steps that read the same positions. Else 0.
    """

    reading: Reading
    bytes: int
    axes: tuple[Reach, ...]
    channels: Reach | None
    lines: tuple[float, ...] = ()
    sums: int = 0


class Stream(NamedTuple):
    """A tensor whose values stay until they are read.

    Attributes
    ----------
    tensor
        Name of the tensor.
    maker
        Name of the op that makes it, or ``None`` for an input of the model.
    reads
        What ops read of it.
    """

    tensor: str
    maker: str | None
    reads: tuple[Read, ...]


def channels_of(op: Op) -> int | None:
    """The axis of an op's first output along which its channels lie, if it may be cut there."""
    for axis in op.axes:
        if axis.name == "channels" and not axis.accumulates and op.outputs[0] in axis.window:
            return axis.window[op.outputs[0]].axis
    return None


def steps_of(op: Op) -> int:
    """Number of an op's steps; each makes a part of its first output."""
    return math.prod(axis.extent for axis in op.axes if not axis.accumulates)


def bytes_of_step(problem: SplitProblem, name: str) -> int:
    """Bytes of the output that one step of an op begins, if it is a storage of its own."""
    op, output = problem.graph.op[name], problem.graph.op[name].outputs[0]
    if problem.graph.root[output][0] != output or any(axis.accumulates for axis in op.axes):
        return 0
    return _bytes_of(problem, output) // steps_of(op)


def find_streams(problem: SplitProblem) -> list[Stream]:
    """The streams of a program at the cost of running every op once."""
    graph = problem.graph
    total = sum(op.cost for op in graph.ops)
    least = _COST_ROUNDING * total if isinstance(total, float) else 0
    handing = {op.name for op in graph.ops if _hands_on(graph, op)}
    once = {op.name for op in graph.ops if op.name not in handing and _runs_once(op, least)}
    readers: dict[str, list[Op]] = {}
    for op in graph.ops:
        for name in dict.fromkeys(op.inputs):
            readers.setdefault(name, []).append(op)

    def readings(name: str) -> Iterator[Reading]:
        paths: list[tuple[str, ...]] = [(name,)]
        seen = {name}
        for path in paths:
            if graph.tensor[path[-1]].kind == "output":
                yield Reading(path, None)
            for op in readers.get(path[-1], ()):
                if op.name in once:
                    yield Reading(path, op.name)
                elif op.name in handing and op.outputs[0] not in seen:
                    seen.add(op.outputs[0])
                    paths.append((*path, op.outputs[0]))

    # A part that may lie in a whole has no bytes of its own.
    placed = {p.part for op in graph.ops if op.name not in handing for p in op.placements}
    placed = placed if "placement" in problem.sharing else set()
    views: dict[str, list[str]] = {}
    for name, (root, _) in graph.root.items():
        if name != root:
            views.setdefault(root, []).append(name)
    streams = []
    for tensor in graph.tensors:
        maker = graph.producer.get(tensor.name)
        made = maker is not None and maker.name in once and maker.outputs[0] == tensor.name
        if not (made or tensor.kind == "input") or not _is_apart(graph, tensor.name, views):
            continue
        if tensor.name in placed:
            continue
        maker = maker if made else None
        found = (
            _read(problem, reading, maker)
            for reading in islice(readings(tensor.name), _MOST_READERS)
        )
        reads = [read for read in found if read is not None and read.bytes]
        if maker is None and any(read.channels for read in reads):
            reads = reads[:1]
        if reads:
            streams.append(Stream(tensor.name, maker.name if maker else None, tuple(reads)))
    return streams


def _is_apart(graph: Graph, name: str, views: Mapping[str, Sequence[str]]) -> bool:
    """True if a tensor is a storage, and all views of it show the whole of it."""
    if graph.root[name][0] != name or graph.tensor[name].shape is None:
        return False
    makers = [graph.producer.get(view) for view in views.get(name, ())]
    return all(op is not None and _shows(graph, op) for op in makers)


def _read(problem: SplitProblem, reading: Reading, maker: Op | None) -> Read | None:
    """The read of an op, or ``None`` if it tells nothing about what is live.

    Steps of one channel must read the channel that the maker's steps make; an axis that mixes
    channels with other positions is left out, and so are sums of two tensors, of which each would
    count as if it were held for the other.
    """
    graph, path = problem.graph, [problem.graph.tensor[name] for name in reading.path]
    shape = path[0].shape or ()
    bits = min(map(_bits, path))
    held = min(_bytes_of(problem, tensor.name) for tensor in path)
    most = min(int(math.prod(shape) * bits) // 8, held)
    if reading.op is None:
        return Read(reading, most, (), None)
    op, last = graph.op[reading.op], path[-1].name
    channel = channels_of(maker) if maker is not None else channels_of(op)
    shown = any(_shows(graph, graph.producer[tensor.name]) for tensor in path[1:])
    axes: list[Reach] = []
    channels: Reach | None = None
    for axis in op.axes:
        window = axis.window.get(last)
        if window is None or axis.accumulates or axis.extent == 1:
            continue
        if shown or {(tensor.shape or ())[window.axis] for tensor in path} != {shape[window.axis]}:
            return None
        if shape[window.axis] == 1:
            continue
        there = reach(window, axis.extent, shape[window.axis])
        own = axis.window[op.outputs[0]]
        if there is None:
            return None
        if own.axis != channels_of(op) and window.axis != channel:
            axes.append(there)
        elif (
            own.axis == window.axis == channel == channels_of(op)
            and _is_plain(window)
            and _is_plain(own)
            and there.steps == there.extent
        ):
            channels = there
        else:
            return None
    added = {w.tensor for axis in op.axes if axis.accumulates for w in axis.windows}
    added = {name for name in added if graph.tensor[name].kind != "constant"}
    if last in added:
        if op.in_place or len(added) > 1:
            return None
        # A sum may be held instead: at least one for the positions that are one step's own.
        share = math.prod(axis.read / (axis.most * axis.steps) for axis in axes)
        sums = _bytes_of(problem, op.outputs[0])
        position = most / math.prod(axis.extent for axis in axes)
        step, lines = sums / steps_of(op), []
        for k, along in enumerate(axes):
            beside = math.prod(other.least for other in (*axes[:k], *axes[k + 1 :]))
            lines.append(min(along.common * beside * position, step))
        most = min(most, int(sums * share))
        apart = math.prod(axis.steps for axis in (*axes, *((channels,) if channels else ())))
        same = steps_of(op) // apart
        return Read(reading, most, tuple(axes), channels, tuple(lines) or (0.0,), same)
    return Read(reading, most, tuple(axes), channels)


def _bits(tensor: Tensor) -> float:
    """Bits of an element; of a tensor without a type, which is never cut, a part of its bytes."""
    if tensor.dtype is not None:
        return BITS[str(tensor.dtype)]
    return 8 * tensor.nbytes / max(1, math.prod(tensor.shape or ()))


def _bytes_of(problem: SplitProblem, name: str) -> int:
    """Bytes that the arena holds of a tensor."""
    graph = problem.graph
    storage = problem.storages[graph.root[name][0]]
    return min(problem.size[storage], graph.tensor[name].nbytes)


def _runs_once(op: Op, least: float) -> bool:
    """True if each step makes an equal part of the output, and costs more than ``least``."""
    if not op.outputs or op.bodies or op.sequence is not None:
        return False
    for axis in op.axes:
        window = axis.window.get(op.outputs[0])
        if axis.accumulates or axis.extent == 1:
            continue
        if window is None or window.table is not None or window.offset:
            return False
        if window.size != window.stride:
            return False
    steps = math.prod(axis.extent for axis in op.axes)
    return (op.cost / steps if isinstance(op.cost, float) else op.cost // steps) > least


def _is_plain(window: Window) -> bool:
    """True if step ``k`` accesses position ``k``."""
    return (window.stride, window.offset, window.size, window.table) == (1, 0, 1, None)


def _shows(graph: Graph, op: Op) -> bool:
    """True if an op costs nothing and its result is the whole storage that it reads."""
    if len(op.outputs) != 1 or op.cost or op.bodies or op.sequence is not None:
        return False
    (view,) = op.outputs
    root, _ = graph.root[view]
    if root == view or graph.tensor[view].nbytes != graph.tensor[root].nbytes:
        return False
    # Each piece shows as much as it reads.
    (source, *others) = [name for name in op.inputs if graph.root[name][0] == root] or [""]
    shape = graph.tensor[source].shape if source else None
    if others or shape is None or graph.tensor[source].nbytes != graph.tensor[root].nbytes:
        return False
    for axis in op.axes:
        window, own = axis.window.get(source), axis.window.get(view)
        if window is None or own is None or own.size != own.stride or own.table or own.offset:
            return False
        there = reach(window, axis.extent, shape[window.axis])
        if there is None or not there.read == there.extent == there.most * there.steps:
            return False
    return True


def _hands_on(graph: Graph, op: Op) -> bool:
    """True if each position of an op's output is computed from the same one of one input."""
    if _shows(graph, op):
        return True
    if len(op.outputs) != 1 or op.bodies or op.sequence is not None:
        return False
    output = graph.tensor[op.outputs[0]]
    sources = [n for n in dict.fromkeys(op.inputs) if graph.tensor[n].kind != "constant"]
    if graph.root[output.name][0] != output.name or not sources or output.shape is None:
        return False
    taken: list[tuple[int, int]] = []
    for name in sources:
        part = _part(graph, op, name)
        if part is None:
            return False
        taken.append(part)
    taken.sort()
    return all(one[1] <= other[0] for one, other in pairwise(taken))


def _part(graph: Graph, op: Op, name: str) -> tuple[int, int] | None:
    """The part of an output that an op copies one input to, position by position.

    It is an interval along the only axis along which the input is shorter, or along the first one.
    """
    source, output = graph.tensor[name], graph.tensor[op.outputs[0]]
    shape, whole = source.shape, output.shape
    if shape is None or whole is None or len(shape) != len(whole):
        return None
    part, seen = None, set()
    for axis in op.axes:
        window, own = axis.window.get(name), axis.window.get(output.name)
        if window is None or axis.extent == 1:
            continue
        if axis.accumulates or own is None or own.axis != window.axis or not _is_plain(own):
            return None
        start, dim = -window.offset, window.axis
        if (window.stride, window.size, window.table) != (1, 1, None) or dim in seen:
            return None
        if start < 0 or start + shape[dim] > axis.extent or axis.extent != whole[dim]:
            return None
        seen.add(dim)
        if shape[dim] < whole[dim]:
            if part is not None:
                return None
            part = start, start + shape[dim]
    if any(extent > 1 and dim not in seen for dim, extent in enumerate(shape)):
        return None
    if any(whole[dim] != shape[dim] for dim in range(len(shape)) if dim not in seen):
        return None
    return part or (0, max(whole, default=1))
