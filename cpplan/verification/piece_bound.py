"""The bound "least piece", proved again: bytes that some piece of an op, or the boundary, needs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

import numpy as np

from cpplan.model.axes import Window
from cpplan.model.dtypes import BITS
from cpplan.model.graph import Graph, Op
from cpplan.model.problem import Ints
from cpplan.model.residency import Residency
from cpplan.verification.piece_lines import CutTensors, cut_tensors
from cpplan.verification.storages import Storages


def least_piece(graph: Graph, residency: Residency, sharing: Collection[str]) -> int:
    """Bytes that every plan of a graph needs, however its ops are split.

    A piece covers at least one step of each axis of its op, and needs the window of that step; a
    tensor without a window is needed whole. The inputs are live together with the first op's
    outputs, and the outputs at the end. If bytes may be shared, outputs that an op may write in
    place do not count, and among storages that are copied to or from others only the largest live
    one counts.

    Examples
    --------
    >>> from cpplan.model.axes import Axis, Window
    >>> from cpplan.model.graph import Tensor
    >>> shape = {"shape": (4, 2), "dtype": "int8"}
    >>> tensors = Tensor("x", kind="input", **shape), Tensor("y", kind="output", **shape)
    >>> rows = Axis("rows", 4, (Window("x", 0), Window("y", 0)))
    >>> graph = Graph("g", tensors, (Op("f", "Relu", ("x",), ("y",), axes=(rows,)),))
    >>> least_piece(graph, Residency(), ())
    10
    """
    storages, places = Storages(graph, residency), cut_tensors(graph)
    copied: set[str] = set()
    if "placement" in sharing:
        copied = {graph.root[n][0] for op in graph.ops for p in op.placements for n in p[:2]}

    def together(needs: dict[str, int]) -> int:
        largest = max((need for root, need in needs.items() if root in copied), default=0)
        return largest + sum(need for root, need in needs.items() if root not in copied)

    stays = {"output"}
    stays |= {"input"} if residency.inputs == "keep" else set()
    stays |= {"constant"} if residency.constants == "keep" else set()
    retention: dict[str, int] = {}
    for tensor in graph.tensors:
        root = graph.root[tensor.name][0]
        if tensor.kind in stays and root in storages.size:
            # A view may leave bands of its storage free: count the view's bytes only.
            need = _elements(graph, tensor.name, places)
            retention[root] = max(retention.get(root, 0), need)
    brought = {root: storages.size[root] for root in storages.brought}
    always = sum(retention[root] for root in brought if root in retention)
    most = max(together(brought), together(retention))
    first: list[int] = []
    for op in graph.ops:
        needs = _needs(graph, storages, op, places)
        if "in place" in sharing:
            for output, _ in op.in_place:
                needs.pop(graph.root[output][0], None)
        if all(graph.root[name][0] in brought or name not in _made(graph) for name in op.inputs):
            new = {graph.root[name][0] for name in op.outputs + op.workspaces}
            new -= brought.keys() | copied
            first.append(sum(need for root, need in needs.items() if root in new))
        passing = {r: n for r, n in needs.items() if r not in retention or r not in brought}
        most = max(most, always + together(passing))
    return max(most, together(brought) + min(first, default=0))


def _made(graph: Graph) -> Collection[str]:
    return graph.producer.keys()


def _needs(graph: Graph, storages: Storages, op: Op, places: CutTensors) -> dict[str, int]:
    """Least bytes of each storage that a piece of an op needs."""
    found: dict[str, int] = {}
    for name in op.tensors:
        root = graph.root[name][0]
        if root in storages.size:
            found[root] = max(found.get(root, 0), _least(graph, op, name, places))
    return found


def _least(graph: Graph, op: Op, name: str, places: CutTensors) -> int:
    """Least bytes of a tensor that a piece of an op needs."""
    tensor = graph.tensor[name]
    if name not in places.places or not tensor.shape or graph.symbols is not None:
        return tensor.nbytes
    # Bytes in the gaps of a strided view do not count: they may lie in other bands.
    extents = list(tensor.shape)
    whole = bool(op.bodies) or op.sequence is not None
    for axis, shortest in () if whole else _shortest(graph, op, name, places):
        extents[axis] = min(extents[axis], shortest)
    return math.prod(extents) * BITS[str(tensor.dtype)] // 8


def _elements(graph: Graph, name: str, places: CutTensors) -> int:
    """Bytes of a tensor's elements, or of its whole storage if that is never cut."""
    tensor = graph.tensor[name]
    if name not in places.places or graph.symbols is not None:
        return graph.tensor[graph.root[name][0]].nbytes
    return math.prod(tensor.shape or ()) * BITS[str(tensor.dtype)] // 8


def _shortest(graph: Graph, op: Op, name: str, places: CutTensors) -> Iterator[tuple[int, int]]:
    """Axes of a tensor, each with the fewest positions that a step of the op needs."""
    shape = graph.tensor[name].shape
    assert shape is not None
    for axis in op.axes:
        # An op is not cut along an axis of one unit, or if an output cannot be cut there.
        if places.unit(op, axis) in (None, axis.extent):
            continue
        for window in axis.windows:
            place = places.place(name, window.axis)
            if window.tensor != name or place is None:
                continue
            low, high = _spans(window, axis.extent, shape[window.axis])
            pitches = -(-high // place.pitch) - low // place.pitch
            yield window.axis, int(pitches.min()) * place.pitch


def _spans(window: Window, steps: int, extent: int) -> tuple[Ints, Ints]:
    """Begin and end of what each step of an op accesses, within a tensor."""
    if window.table is None:
        begin = window.offset + window.stride * np.arange(steps)
        end = begin + window.size
    else:
        begin, end = np.array(window.table, np.int64).reshape(steps, 2).T
    begin = np.minimum(np.maximum(begin, 0), extent)
    return begin, np.maximum(np.minimum(end, extent), begin)
