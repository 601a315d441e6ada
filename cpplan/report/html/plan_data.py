"""Data of a plan's report: the plan by columns, and facts that follow from the model.

Cascades of a plan in pieces: interleaved ops, the times of their pieces, and their bands.

A cascade is a group of ops whose pieces run interleaved in time. Each op has a lane: along it are
the steps, across it the parts of the op's output, from the first (0) to the last (``SCALE``). The
tiles of one band of rows lie one after another.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cpplan.io.plan_json import plan_head
from cpplan.model.errors import InputError
from cpplan.model.graph import Graph, Op
from cpplan.model.plan import Plan
from cpplan.model.version import __version__
from cpplan.program.anf import Program, to_anf
from cpplan.splitting.bands import Box
from cpplan.splitting.piece_graph import PieceGraph, as_pieces

if TYPE_CHECKING:
    from cpplan.model.problem import Problem

ROLES = ("intermediate", "input", "output", "constant", "workspace")
_COPY = re.compile(r"(.+)~\d+", re.DOTALL)
SCALE = 10_000


def plan_data(plan: Plan, source: Graph | Program | Problem | None = None) -> dict[str, Any]:
    """All data that the report shows, ready for JSON.

    ``plan`` and ``columns`` together equal the result of
    :func:`cpplan.io.plan_json.plan_to_dict` with clock readings: the page can write that file
    again. (A browser's numbers are exact below 2**53.)

    Raises
    ------
    InputError
        If the plan is for another model than ``source``.
    """
    from cpplan.packing.problem import as_problem

    head = plan_head(plan, clock=True)
    del head["buffers"]
    whole, unsplit, pieces = plan, source, None
    if plan.pieces and isinstance(source, (Graph, Program)):
        plan, pieces = as_pieces(plan, source)
        source = pieces.graph
    graph = source.graph if isinstance(source, Program) else source
    graph = graph if isinstance(graph, Graph) else None
    if graph is not None:
        check_model(plan, graph)
    found = None
    if pieces is not None and isinstance(unsplit, (Graph, Program)):
        found = cascades(plan, unsplit if isinstance(unsplit, Graph) else unsplit.graph, pieces)
    problem = None if source is None else as_problem(source, plan.residency)
    return {
        "cpplan": __version__,
        "plan": head,
        "columns": {
            "name": list(plan.buffers),
            "size": plan.size.tolist(),
            "lower": plan.lower.tolist(),
            "upper": plan.upper.tolist(),
            "offset": None if plan.offset is None else plan.offset.tolist(),
            "pool": plan.pool.tolist() if len(plan.pools) > 1 else None,
            "alignment": _alignment(plan, problem, graph),
            **_roles(plan, graph),
        },
        "spans": _spans(plan),
        "starts": _starts(plan, graph),
        "given": _given_order(plan, problem, source),
        "symbols": _symbols(plan),
        "cascades": found,
        "rules": None if unsplit is None or whole.spills else _rules(whole, unsplit),
    }


def check_model(plan: Plan, graph: Graph) -> None:
    """Raise if a plan is of another model."""
    ops = {op.name for op in graph.ops}
    stray = next((name for name in plan.order if name not in ops), None)
    if stray is not None:
        raise InputError(
            f"plan {plan.name!r} runs op {stray!r}, but model {graph.name!r} has no such op"
        )
    missing = next(iter(sorted(ops.difference(plan.order))), None)
    if missing is not None:
        raise InputError(f"plan {plan.name!r} does not run op {missing!r} of model {graph.name!r}")


def _spans(plan: Plan) -> dict[str, list[int]] | None:
    """The rectangles of the plan's buffers by column, or ``None`` without gaps."""
    if not plan.gaps:
        return None
    return {field: column.tolist() for field, column in plan.spans._asdict().items()}


def _alignment(plan: Plan, problem: Problem | None, graph: Graph | None) -> list[int] | None:
    """Alignment of every buffer, or ``None`` if unknown or 1 for all.

    A further copy has the alignment of its original.
    """
    if problem is None:
        return None
    known = dict(zip(problem.names, problem.alignment.tolist(), strict=True))
    named = plan.buffers if graph is None else _originals(plan, graph)
    found = [known.get(name, 1) for name in named]
    return found if max(found, default=1) > 1 else None


def _roles(plan: Plan, graph: Graph | None) -> dict[str, list[int]]:
    """Role of every buffer as a position in :data:`ROLES`, and 1 if it is a further copy.

    A storage that holds an output is an output, whatever else lies in it; otherwise one that holds
    an input is an input.
    """
    original = _originals(plan, graph)
    role = np.zeros(len(plan.buffers), np.int64)
    if graph is not None:
        kinds = [graph.tensor[name].kind if name in graph.tensor else None for name in original]
        role[[kind == "workspace" for kind in kinds]] = ROLES.index("workspace")
        role[[kind == "constant" for kind in kinds]] = ROLES.index("constant")
    else:
        constant = [k for k, pool in enumerate(plan.pools) if pool.kind == "constant"]
        role[np.isin(plan.pool, constant)] = ROLES.index("constant")
    for which, names in (("input", plan.inputs), ("output", plan.outputs)):
        for tensor in names:
            row = plan.row.get(plan.views.get(tensor, (tensor, 0))[0])
            if row is not None:
                role[row] = ROLES.index(which)
    again = [int(a != b) for a, b in zip(original, plan.buffers, strict=True)]
    return {"role": role.tolist(), "again": again}


def _originals(plan: Plan, graph: Graph | None) -> list[str]:
    """For each buffer, the name of the tensor that it copies; the first copy has that name."""
    if len(plan.order) == len(set(plan.order)):
        return list(plan.buffers)
    if graph is not None:
        from cpplan.program.copy_names import tensor_copies

        split = tensor_copies(graph).split
        return [name if name in graph.tensor else split(name)[0] for name in plan.buffers]
    copies = ((name, _COPY.fullmatch(name)) for name in plan.buffers)
    return [copy[1] if copy is not None and copy[1] in plan.row else name for name, copy in copies]


def _starts(plan: Plan, graph: Graph | None) -> list[int] | None:
    """First step of every op in the order, and the last step; ``None`` if they are not known.

    An op with bodies takes several steps. Without the model, the steps are known only if the plan
    keeps an output to the end and has as many steps as ops.
    """
    if graph is not None and plan.order:
        return list(to_anf(graph, plan.order).starts)
    last = int(np.max(plan.upper, initial=0))
    kept = bool(plan.outputs) and plan.residency.outputs == "keep"
    return list(range(last + 1)) if kept and last == len(plan.order) else None


def _given_order(
    plan: Plan, problem: Problem | None, source: Graph | Program | Problem | None
) -> dict[str, Any] | None:
    """Live bytes in the model's own order, and the place of each op of the plan there."""
    if problem is None or not isinstance(source, (Graph, Program)) or not plan.order:
        return None
    times, live = problem.live_profile()
    program = source if isinstance(source, Program) else to_anf(source)
    place = {name: k for k, name in reversed(list(enumerate(program.names)))}
    return {
        "times": times.tolist(),
        "live": live.tolist(),
        "place": [place[name] for name in plan.order],
    }


def _rules(plan: Plan, source: Graph | Program | Problem) -> list[list[Any]]:
    """Most bytes that each rule of the plan may cost, by bounds computed without a search."""
    from cpplan.explanation.explaining import explain

    found = explain(plan, source).relaxations
    return [[r.rule, r.instead, r.at_most, r.bound, r.bound_by] for r in found]


def _symbols(plan: Plan) -> dict[str, Any] | None:
    """Sizes that depend on variables, as text; the columns hold them at the upper bounds."""
    layout = plan.symbols
    if layout is None:
        return None
    sizes = [str(size) for size in layout.sizes_of(plan.buffers)]
    return {
        "dims": [
            [name, *("" if end is None else str(end) for end in (lower, upper))]
            for name, (lower, upper) in layout.dims.items()
        ],
        "size": {
            str(row): formula for row, formula in enumerate(sizes) if formula != str(plan.size[row])
        },
        "unbounded": [
            [name, str(held.nbytes), held.storage] for name, held in layout.unbounded.items()
        ],
        "lost": [[name, why] for name, why in layout.lost.items()],
    }


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
