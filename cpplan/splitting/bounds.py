"""A lower bound on the peak of every splitting: bytes that one piece or the boundary needs."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cpplan.model.axes import Axis
from cpplan.model.dtypes import BITS
from cpplan.model.graph import Op
from cpplan.model.printable import printable
from cpplan.model.problem import Ints
from cpplan.splitting.problem import Mask, SplitProblem

NAME = "least piece"


class LeastPiece(NamedTuple):
    """Bytes that every splitting needs, and the op that needs them.

    ``op`` is ``None`` if the model's inputs or outputs need them; ``whole`` is true if the op
    cannot be split.
    """

    bytes: int
    op: str | None
    whole: bool = False


def describe(least: LeastPiece) -> str:
    """The part of a model that needs the bytes, as text."""
    if least.op is None:
        return "the boundary of the model, its inputs or its outputs,"
    how = "which cannot be split" if least.whole else "in pieces"
    return f"op {printable(least.op)}, {how},"


def least_piece(problem: SplitProblem) -> LeastPiece:
    """Bytes that one op or the boundary needs, however ops are split.

    A piece needs all bytes that it accesses. Along a tensor's axis that is a window of an op's
    axis, a piece accesses at least the shortest interval; along any other axis it accesses
    everything. An op without axes accesses its tensors whole. The inputs are live at the first
    step, together with the outputs of the first run, and the model's outputs are live at the end.
    If tensors may share bytes, outputs that may be written in place do not count, and among
    storages that may be placed in one another only the largest counts; as in
    :func:`cpplan.remat.footprint.shared_footprint`.
    """
    graph, shared, given = problem.graph, problem.sharing, np.array(problem.given, np.bool_)
    columns, several, many = graph.columns, len(problem.size), len(graph.ops)
    # Storage of each tensor; here a view never counts as a storage of its own.
    place = np.zeros(len(columns.names), np.int64)
    place[[columns.number[name] for name in problem.names]] = np.arange(several)
    storage = place[columns.root]
    copied, brought = np.zeros(several, np.bool_), np.where(given, problem.size, 0)
    if "placement" in shared:
        _, part, whole, _ = columns.placements
        copied[storage[part]] = copied[storage[whole]] = True
    stays = _staying(problem, storage)
    throughout = given & (stays >= 0)
    best = max(
        LeastPiece(_sum(brought, copied), None),
        LeastPiece(_sum(np.maximum(stays, 0), copied), None),
        key=lambda found: found.bytes,
    )
    op, at, least, reading = _accessed(problem, storage)
    counted = ~throughout[at]
    if "in place" in shared:
        owner, output, _ = columns.in_place
        counted &= ~np.isin(op * several + at, owner * several + storage[output])
    needs = np.zeros((2, many), np.int64)
    needs[1] = stays[throughout & copied].max(initial=0)
    apart, largest = counted & ~copied[at], counted & copied[at]
    np.add.at(needs[0], op[apart], least[apart])
    np.maximum.at(needs[1], op[largest], least[largest])
    always = int(stays[throughout & ~copied].sum())
    in_order = needs.sum(axis=0)[np.array(problem.program.order, np.int64)] + always
    if many and in_order.max() > best.bytes:
        most = problem.ops[int(in_order.argmax())]
        best = LeastPiece(int(in_order.max()), most.name, not _axes(problem, most))
    # The first piece reads nothing but what the caller brings; one of padding alone, nothing.
    begins = np.ones(many, np.bool_)
    begins[columns.read.owner[~given[storage[columns.read.item]] & reading]] = False
    written = columns.written.owner * several + storage[columns.written.item]
    new, made = np.zeros(many, np.int64), apart & ~given[at]
    made &= np.isin(op * several + at, written)
    np.add.at(new, op[made], least[made])
    start = _sum(brought, copied) + (int(new[begins].min()) if begins.any() else 0)
    return max(best, LeastPiece(start, None), key=lambda found: found.bytes)


def _sum(sizes: Ints, copied: Mask) -> int:
    """Bytes of storages that are live together; the ones in ``copied`` count as their largest."""
    return int(sizes[~copied].sum() + sizes[copied].max(initial=0))


def _staying(problem: SplitProblem, storage: Ints) -> Ints:
    """Bytes of each storage that must stay in the arena to the end; -1 if none of it must.

    If a storage may be cut, only the elements of its outputs must stay.
    """
    residency = problem.residency
    kinds = {"output"}
    kinds |= {"input"} if residency.inputs == "keep" else set()
    kinds |= {"constant"} if residency.constants == "keep" else set()
    stays = np.full(len(problem.size), -1, np.int64)
    for tensor, m in zip(problem.graph.tensors, storage.tolist(), strict=True):
        if tensor.kind in kinds:
            need = problem.size[m]
            if tensor.name in problem.lines and tensor.shape is not None:
                need = min(need, math.prod(tensor.shape) * BITS[str(tensor.dtype)] // 8)
            stays[m] = max(stays[m], need)
    return stays


def _axes(problem: SplitProblem, op: Op) -> list[Axis]:
    """Axes along which an op may be cut."""
    return [axis for axis in op.axes if problem.lines.steps(op, axis) is not None]


def _accessed(problem: SplitProblem, storage: Ints) -> tuple[Ints, Ints, Ints, Mask]:
    """Op, storage, and the least bytes of it that a piece of the op accesses, as columns.

    Also, for each tensor that an op reads, true if every piece of the op reads some of it.
    """
    graph, lines, columns = problem.graph, problem.lines, problem.graph.columns
    read, written, many = columns.read, columns.written, len(graph.tensors)
    op = np.concatenate([read.owner, written.owner])
    tensor = np.concatenate([read.item, written.item])
    size = np.array(problem.size, np.int64)[storage]
    view = columns.root != np.arange(many)
    bytes_of = np.where(view, np.minimum(size, columns.size), size)
    for k, own in enumerate(graph.tensors):
        if own.name in lines and size[k]:
            bytes_of[k] = math.prod(own.shape or ()) * BITS[str(own.dtype)] // 8
    least = bytes_of[tensor]
    cut, shortest = _cut_windows(problem)
    cut &= size[columns.axes.tensor] > 0
    axes, extent = columns.axes, columns.window_extents
    row = np.full(0, 0, np.int64)
    if cut.any():
        order = np.argsort(op * many + tensor)
        wanted = axes.op[axes.axis] * many + axes.tensor
        row = order[np.searchsorted((op * many + tensor)[order], wanted)]
    for place in set(axes.place[cut].tolist()):
        here = np.flatnonzero(cut & (axes.place == place))
        whole, part = np.ones_like(least), np.ones_like(least)
        whole[row[here]] = part[row[here]] = extent[here]
        np.minimum.at(part, row[here], shortest[here])
        least = least // whole * part
    reading = least[: len(read.item)] > 0
    pairs = op * len(problem.size) + storage[tensor]
    order = np.argsort(pairs, kind="stable")
    first = np.flatnonzero(np.diff(pairs[order], prepend=-1))
    if len(first):
        least = np.maximum.reduceat(least[order], first)
    return op[order[first]], storage[tensor[order[first]]], least, reading


def _cut_windows(problem: SplitProblem) -> tuple[Mask, Ints]:
    """Mask of the windows along which pieces are cut, and the fewest positions of a piece there."""
    graph, lines, columns = problem.graph, problem.lines, problem.graph.columns
    axes, ops, windows, alone = columns.axes, graph.ops, columns.windows, problem.alone
    used, steps = axes.extent > 1, [axis for op in ops for axis in op.axes]
    for k in np.flatnonzero(problem.special[axes.op]).tolist():
        used[k] = lines.steps(ops[axes.op[k]], steps[k]) is not None
    cut, shortest = used[axes.axis] & alone[axes.tensor], columns.shortest.copy()
    for k in np.flatnonzero(used[axes.axis] & ~alone[axes.tensor]).tolist():
        window = windows[k]
        if lines.has(window):
            low, high = problem.intervals(window, steps[axes.axis[k]])
            units = max(0, int((high - low).min()))
            cut[k], shortest[k] = True, units * lines.grain[window.tensor][window.axis]
    return cut, shortest
