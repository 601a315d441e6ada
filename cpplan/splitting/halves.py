"""Pieces cut in two, for plans in which what one step reads and writes makes the peak.

While a line of a tensor is written, the line that it replaces is still held. Written in two halves,
half a line is held. So once an order of pieces is found, each piece is cut in two along an axis of
what it writes, and its parts run in its place.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise

from cpplan.model.axes import Axis
from cpplan.model.graph import Op
from cpplan.model.pieces import Pieces
from cpplan.runtime.deadline import Deadline
from cpplan.splitting.elements import writes_along
from cpplan.splitting.piece_graph import PieceGraph, split_graph
from cpplan.splitting.problem import SplitProblem
from cpplan.splitting.schedule import overlaps

# Counted seconds of making and measuring a piece.
WORK_PER_PIECE = 1e-4
# Axis of an op -> positions at which it is cut.
Cuts = dict[str, tuple[int, ...]]


def halved(
    problem: SplitProblem, pieces: PieceGraph, place: int, deadline: Deadline
) -> PieceGraph | None:
    """The pieces cut in two along one axis of the tensors written; ``None`` if none can be in time.

    Ops that cost nothing stay as they are, and so do ops of tensors whose bands would be padded. At
    most one try for each op: after each, the ops of some tensors stay whole.
    """
    known = {each.op: dict(zip(each.axes, each.cuts, strict=True)) for each in pieces.cuts}
    axes = {op.name: _axis(problem, op, place, known.get(op.name, {})) for op in problem.ops}
    padded = _padded(pieces)
    while not deadline.expired():
        cuts: list[Pieces] = []
        more = False
        for op in problem.ops:
            here, axis = known.get(op.name, {}), axes[op.name]
            if axis is not None:
                ends = _halves(problem, op, axis, here.get(axis.name, ()))
                more |= ends != here.get(axis.name)
                here = {**here, axis.name: ends}
            if here:
                cuts.append(Pieces(op.name, tuple(here), tuple(here.values())))
        if not more:
            return None
        finer = split_graph(problem.graph, cuts, problem.lines)
        deadline.spend(WORK_PER_PIECE * len(finer.graph.ops))
        wasted = _padded(finer) - padded
        if not wasted:
            return finer
        whole = [
            name
            for name, axis in axes.items()
            if axis is not None and wasted & {window.tensor for window in axis.windows}
        ]
        if not whole:  # no op that is cut here accesses these bands
            return None
        axes.update(dict.fromkeys(whole))
    return None


def order_of_parts(pieces: PieceGraph, order: Iterable[int], finer: PieceGraph) -> list[int]:
    """The parts of pieces in the order of the pieces, those of each in their own order."""
    number = {op.name: k for k, op in enumerate(finer.graph.ops)}
    coarse, fine = ({each.op: each.axes for each in graph.cuts} for graph in (pieces, finer))
    parts: dict[str, list[int]] = {}
    for op, known in pieces.pieces.items():
        at = [fine[op].index(axis) for axis in coarse.get(op, ())]
        begins = [sorted({intervals[k][0] for intervals in known}) for k in range(len(at))]
        piece_at = {tuple(low for low, _ in intervals): name for intervals, name in known.items()}
        for intervals, name in finer.pieces[op].items():
            lows = [intervals[k][0] for k in at]
            begin = (
                ends[bisect_right(ends, low) - 1] for ends, low in zip(begins, lows, strict=True)
            )
            parts.setdefault(piece_at[tuple(begin)], []).append(number[name])
    return [part for k in order for part in parts[pieces.graph.ops[k].name]]


def _axis(problem: SplitProblem, op: Op, place: int, known: Cuts) -> Axis | None:
    """The axis of an op that writes along an axis of tensors and may be cut beside its others."""
    for axis in problem.axes(op).values() if op.cost else ():
        others = known.keys() - {axis.name}
        if axis.extent > 1 and writes_along(op, axis, place) and not overlaps(op, axis, others):
            return axis
    return None


def _halves(problem: SplitProblem, op: Op, axis: Axis, known: tuple[int, ...]) -> tuple[int, ...]:
    """Positions at which an axis is cut, and those in the middle between them."""
    n = problem.steps(op, axis.name)
    steps = pairwise(position // n for position in (0, *known, axis.extent * n))
    middle = ((low + high) // 2 * n for low, high in steps if high - low > 1)
    return tuple(sorted({*known, *middle}))


def _padded(pieces: PieceGraph) -> set[str]:
    """Tensors whose bands take more bytes than their own, since each is aligned."""
    tensor = pieces.graph.tensor
    return {
        name
        for name, bands in pieces.bands.items()
        if any(tensor[band.name].nbytes % tensor[band.name].alignment for band in bands)
    }
