"""The bound "least piece", proved again: bytes that some piece of an op, or the boundary, needs."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from cpplan.model.axes import Window
from cpplan.model.dtypes import BITS
from cpplan.model.graph import Graph
from cpplan.model.problem import Ints
from cpplan.model.residency import Residency
from cpplan.model.tensor import LIMIT
from cpplan.verification.piece_lines import CutTensors, cut_tensors
from cpplan.verification.storages import Mask, storages_held


def least_piece(graph: Graph, residency: Residency, sharing: Collection[str]) -> int:
    """Bytes that every plan of a graph needs, however its ops are split.

    A piece covers at least one step of each axis of its op, and needs the window of that step; a
    tensor without a window is needed whole. The inputs are live together with the first op's
    outputs, and the outputs at the end. If bytes may be shared, outputs that an op may write in
    place do not count, and among storages that are copied to or from others only the largest live
    one counts.
    """
    columns, places, many = graph.columns, cut_tensors(graph), len(graph.ops)
    names, root = columns.names, columns.root
    held, _, brought = storages_held(graph, residency)
    copied = np.zeros(len(names), np.bool_)
    if "placement" in sharing:
        _, parts, wholes, _ = columns.placements
        copied[root[np.concatenate([parts, wholes])]] = True

    def together(sizes: Ints) -> int:
        return int(sizes[copied].max(initial=0) + sizes[~copied].sum())

    stays = {"output"}
    stays |= {"input"} if residency.inputs == "keep" else set()
    stays |= {"constant"} if residency.constants == "keep" else set()
    elements = _elements(graph, places)
    retained, staying = np.zeros(len(names), np.int64), np.zeros(len(names), np.bool_)
    for k in np.flatnonzero(columns.are(stays) & held[root]).tolist():
        # A view may leave bands of its storage free: count the view's bytes only.
        own = columns.size[root[k]] if elements[k] < 0 else elements[k]
        retained[root[k]], staying[root[k]] = max(own, retained[root[k]]), True
    given = np.where(brought, columns.size, 0)
    lasting = brought & staying
    always = int(retained[lasting & ~copied].sum())
    op, storage, need, reading = _needs(graph, places, elements, held)
    free = ~lasting[storage]
    if "in place" in sharing:
        owner, output, _ = columns.in_place
        over = owner * len(names) + root[output]
        free &= ~np.isin(op * len(names) + storage, over)
    alone, alike = free & ~copied[storage], free & copied[storage]
    sums, largest, new = np.zeros((3, many), np.int64)
    largest += retained[lasting & copied].max(initial=0)
    np.add.at(sums, op[alone], need[alone])
    np.maximum.at(largest, op[alike], need[alike])
    most = max(together(given), together(retained))
    most = max(most, always + int((sums + largest).max(initial=0)))
    # The piece that runs first reads no other op's result: a piece of padding alone reads nothing.
    waits = np.zeros(many, np.bool_)
    made = np.zeros(len(names), np.bool_)
    made[columns.outputs.item] = True
    reads = columns.read
    waits[reads.owner[made[reads.item] & ~brought[root[reads.item]] & reading]] = True
    written = columns.written.owner * len(names) + root[columns.written.item]
    alone &= ~brought[storage] & np.isin(op * len(names) + storage, written)
    np.add.at(new, op[alone], need[alone])
    first = int(new[~waits].min()) if not waits.all() else 0
    return max(most, together(given) + first)


def _elements(graph: Graph, places: CutTensors) -> Ints:
    """Bytes of the elements of each tensor; -1 if it is never cut."""
    found = np.full(len(graph.tensors), -1, np.int64)
    for k, tensor in enumerate(graph.tensors):
        if tensor.name in places.places and graph.symbols is None:
            found[k] = math.prod(tensor.shape or ()) * BITS[str(tensor.dtype)] // 8
    return found


def _needs(
    graph: Graph, places: CutTensors, elements: Ints, held: Mask
) -> tuple[Ints, Ints, Ints, Mask]:
    """Op, storage and the least bytes of it that a piece of the op needs, as three columns.

    Only of storages in the arena, which are numbered as their tensors. The fourth column is true
    for each tensor that an op reads if every piece of the op reads some of it.
    """
    columns, many = graph.columns, len(graph.tensors)
    op = np.concatenate([columns.read.owner, columns.written.owner])
    tensor = np.concatenate([columns.read.item, columns.written.item])
    # Bytes in the gaps of a strided view do not count: they may lie in other bands.
    need = np.where(elements < 0, columns.size, elements)[tensor]
    if graph.symbols is None and len(columns.windows):
        whole, part = _extents(graph, places)
        pairs = op * many + tensor
        row = np.argsort(pairs)
        axes = columns.axes
        at = row[np.searchsorted(pairs[row], axes.op[axes.axis] * many + axes.tensor)]
        for place in range(int(axes.place.max()) + 1):
            here = axes.place == place
            fewest, extent = np.full(len(op), LIMIT, np.int64), np.ones(len(op), np.int64)
            np.minimum.at(fewest, at[here], part[here])
            extent[at[here]] = whole[here]
            need = np.where(fewest < extent, need // extent * fewest, need)
    storage = columns.root[tensor]
    kept = np.flatnonzero(held[storage])
    order = kept[np.lexsort((need[kept], storage[kept], op[kept]))]
    # Of the tensors in one storage, the one that needs the most comes last.
    order = order[np.diff(op[order] * many + storage[order], append=-1) != 0]
    return op[order], storage[order], need[order], need[: len(columns.read.item)] > 0


def _extents(graph: Graph, places: CutTensors) -> tuple[Ints, Ints]:
    """Positions along the axis of each window, and the fewest of them that a piece needs."""
    columns, axes = graph.columns, graph.columns.axes
    whole, part = columns.window_extents, columns.window_extents.copy()
    # Tensors whose storage holds no other tensor are cut anywhere, and so are ops that write them.
    cut = np.array([name in places.places for name in columns.names], np.bool_)
    simple = cut & (np.bincount(columns.root, minlength=len(cut))[columns.root] == 1)
    plain = np.array([not op.bodies and op.sequence is None for op in graph.ops], np.bool_)
    viewed = np.zeros(len(plain), np.bool_)
    viewed[columns.outputs.owner[~simple[columns.outputs.item]]] = True
    # An op is not cut along an axis of one unit, or if an output cannot be cut there.
    runs = plain[axes.op] & (axes.extent > 1)
    listed = [(op, axis) for op in graph.ops for axis in op.axes]
    for k in np.flatnonzero(viewed[axes.op]).tolist():
        runs[k] &= places.unit(*listed[k]) not in (None, listed[k][1].extent)
    rows = runs[axes.axis] & simple[axes.tensor]
    part[rows] = columns.shortest[rows]
    for k in np.flatnonzero(runs[axes.axis] & cut[axes.tensor] & ~simple[axes.tensor]).tolist():
        window = columns.windows[k]
        place = places.place(window.tensor, window.axis)
        if place is not None:
            low, high = _spans(window, int(axes.extent[axes.axis[k]]), int(whole[k]))
            pitches = -(-high // place.pitch) - low // place.pitch
            part[k] = min(int(pitches.min()) * place.pitch, int(whole[k]))
    return whole, part


def _spans(window: Window, steps: int, extent: int) -> tuple[Ints, Ints]:
    """Begin and end of what each step of an op accesses, within a tensor."""
    if window.table is None:
        begin = window.offset + window.stride * np.arange(steps)
        end = begin + window.size
    else:
        begin, end = np.array(window.table, np.int64).reshape(steps, 2).T
    begin = np.minimum(np.maximum(begin, 0), extent)
    return begin, np.maximum(np.minimum(end, extent), begin)
