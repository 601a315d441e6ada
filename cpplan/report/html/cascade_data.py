"""Cascades of a plan in pieces: interleaved ops, the times of their pieces, and their bands.

A cascade is a group of ops whose pieces run interleaved in time. Each op has a lane: along it are
the steps, across it the parts of the op's output, from the first (0) to the last (``SCALE``). The
tiles of one band of rows lie one after another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cpplan.model.graph import Graph, Op
from cpplan.model.plan import Plan
from cpplan.splitting.bands import Box
from cpplan.splitting.piece_graph import PieceGraph

SCALE = 10_000


@dataclass
class _Lane:
    """Runs of one op, ``(position, begin, end, again)``, and bands, with the bytes of each.

    A band is ``(written at, last needed at, begin, end)``, both positions in the order.
    """

    op: Op
    runs: list[tuple[int, int, int, int]] = field(default_factory=list)
    bands: list[tuple[int, int, int, int]] = field(default_factory=list)
    nbytes: list[int] = field(default_factory=list)

    @property
    def most_kept(self) -> int:
        """Most bytes written by the op that are needed later, at any one time."""
        changes: dict[int, int] = {}
        for (first, last, *_), nbytes in zip(self.bands, self.nbytes, strict=True):
            changes[first] = changes.get(first, 0) + nbytes
            changes[last + 1] = changes.get(last + 1, 0) - nbytes
        most = live = 0
        for position in sorted(changes):
            live += changes[position]
            most = max(most, live)
        return most


def cascades(plan: Plan, graph: Graph, pieces: PieceGraph) -> list[list[dict[str, Any]]]:
    """The lanes of each cascade, in the order of their first runs.

    Parameters
    ----------
    plan
        The plan, whose order names ops of the graph of pieces.
    graph
        The graph that was planned.
    pieces
        The graph of pieces of the plan.
    """
    cut = {piece.op: piece for piece in pieces.cuts}
    lanes: dict[str, _Lane] = {}
    # Band -> its lane, and the number of its last copy in the lane.
    written: dict[str, tuple[_Lane, int]] = {}
    seen: set[str] = set()
    shares = {name: _share(graph, *pieces.part[name]) for name in pieces.part}
    for position, name in enumerate(plan.order):
        op = pieces.graph.op[name]
        for tensor in op.inputs:
            if tensor in written:
                lane, number = written[tensor]
                first, _, *across = lane.bands[number]
                lane.bands[number] = first, position, across[0], across[1]
        source = pieces.source[name]
        if source not in cut:
            continue
        lane = lanes.setdefault(source, _Lane(graph.op[source]))
        found = [shares.get(tensor, (0, SCALE)) for tensor in op.outputs]
        for tensor, (begin, end) in zip(op.outputs, found, strict=True):
            stays = pieces.graph.tensor[tensor].kind == "output"
            last = len(plan.order) if stays else position
            written[tensor] = lane, len(lane.bands)
            lane.bands.append((position, last, begin, end))
            lane.nbytes.append(pieces.graph.tensor[tensor].nbytes)
        across = [min((low for low, _ in found), default=0), max((h for _, h in found), default=0)]
        lane.runs.append((position, across[0], across[1], int(name in seen)))
        seen.add(name)
    return [
        [_as_data(lane, cut[lane.op.name].axes, graph, pieces) for lane in group]
        for group in _groups(lanes)
    ]


def _share(graph: Graph, tensor: str, box: Box) -> tuple[int, int]:
    """Begin and end of a band within its tensor, in parts of :data:`SCALE`."""
    begin, width = 0.0, 1.0
    for (low, high), extent in zip(box, graph.tensor[tensor].shape or (), strict=True):
        begin += width * low / extent
        width *= (high - low) / extent
    return round(begin * SCALE), round((begin + width) * SCALE)


def _groups(lanes: Mapping[str, _Lane]) -> Iterator[list[_Lane]]:
    """Yield groups of lanes whose runs are interleaved."""
    group: list[_Lane] = []
    end = -1
    for lane in sorted(lanes.values(), key=lambda lane: lane.runs[0]):
        if group and lane.runs[0][0] > end:
            yield group
            group = []
        group.append(lane)
        end = max(end, lane.runs[-1][0])
    if group:
        yield group


def _as_data(
    lane: _Lane, axes: tuple[str, ...], graph: Graph, pieces: PieceGraph
) -> dict[str, Any]:
    """A lane as data for the page."""
    op = lane.op
    intervals = list(pieces.pieces[op.name])
    return {
        "op": op.name,
        "kind": op.kind,
        "axes": [
            [name, len({along[number] for along in intervals})] for number, name in enumerate(axes)
        ],
        "pieces": math.prod(len({along[k] for along in intervals}) for k in range(len(axes))),
        "again": sum(run[3] for run in lane.runs),
        "kept": lane.most_kept,
        "whole": sum(graph.tensor[name].nbytes for name in op.outputs),
        "runs": lane.runs,
        "bands": lane.bands,
    }
