"""Cuts of the ops, and the order of the pieces, from regions and their styles."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import NamedTuple

from cpplan.model.axes import Axis
from cpplan.model.graph import Graph, Op
from cpplan.model.pieces import Pieces
from cpplan.program.anf import Program
from cpplan.splitting.frontier import Choice
from cpplan.splitting.piece_graph import PieceGraph, split_graph
from cpplan.splitting.problem import SplitProblem
from cpplan.splitting.region import Region
from cpplan.splitting.styles import Run, Style
from cpplan.splitting.tensor_cuts import Interval, cut_positions, is_identity


class RegionRuns(NamedTuple):
    """A region, the axes of its last op along which it is cut, and its runs in order.

    There is no region if all ops run whole.
    """

    region: Region | None
    outer: str | None
    inner: str | None
    runs: list[Run]


def run_whole(start: int, stop: int) -> RegionRuns:
    """The runs of steps ``[start, stop)`` that are not cut."""
    return RegionRuns(None, None, None, [Run(step, None, None) for step in range(start, stop)])


def run_choice(problem: SplitProblem, choice: Choice) -> RegionRuns:
    """The runs of a region in the style chosen."""
    if choice.style == Style():
        return run_whole(choice.start, choice.stop)
    runs: list[Run] = []
    region = Region(problem, choice.start, choice.stop)
    region.estimate(choice.style, runs)
    return RegionRuns(region, choice.style.outer, choice.style.inner, runs)


def schedule(problem: SplitProblem, choices: Iterable[Choice]) -> tuple[PieceGraph, Program]:
    """The graph of pieces, and the program that runs it in the regions' order."""
    return join(problem, (run_choice(problem, choice) for choice in choices))


def join(problem: SplitProblem, parts: Iterable[RegionRuns]) -> tuple[PieceGraph, Program]:
    """The graph of pieces, and the program that runs the regions one after another."""
    runs: list[Run] = []
    styles: dict[int, tuple[str | None, str | None]] = {}
    kept: dict[int, bool] = {}
    for part in parts:
        region = part.region
        runs += part.runs
        if region is None:
            continue
        families = [
            None if name is None else region.family(name) for name in (part.outer, part.inner)
        ]
        for k, op in enumerate(region.ops):
            along = [None if family is None else family.axes[k] for family in families]
            one, other = (None if axis is None else axis.name for axis in along)
            styles[region.start + k] = one, other
            kept[region.start + k] = all(
                region.kept[region.local[problem.storage(name)]] for name in op.outputs
            )
    runs = [
        _in_own_steps(problem, run, styles[run.step]) if run.step in styles else run for run in runs
    ]
    ends: dict[int, tuple[set[int], set[int]]] = {}
    for run in runs:
        if run.step not in styles:
            continue
        both = ends.setdefault(run.step, (set(), set()))
        for found, interval in zip(both, (run.outer, run.inner), strict=True):
            found.update(interval or ())
    cuts: dict[str, dict[str, tuple[int, ...]]] = {}
    places: dict[int, list[list[int] | None]] = {}
    for step, both in ends.items():
        op, names = problem.ops[step], styles[step]
        extents = {axis.name: axis.extent for axis in op.axes}
        places[step] = []
        for name, found in zip(names, both, strict=True):
            extent = 0 if name is None else extents[name]
            interior = sorted(found - {0, extent})
            if name is None or not interior:
                places[step].append(None)
                continue
            cuts.setdefault(op.name, {})[name] = tuple(interior)
            places[step].append([0, *interior, extent])
    more = _cut_in_place(problem, cuts)
    pieces = [
        Pieces(name, tuple(along), tuple(along.values()))
        for name, along in ((op.name, cuts.get(op.name, {})) for op in problem.ops)
        if along
    ]
    graph = split_graph(problem.graph, pieces, problem.lines)
    number = {op.name: k for k, op in enumerate(graph.graph.ops)}
    order: list[int] = []
    done: set[int] = set()
    for run in runs:
        op = problem.ops[run.step]
        known = graph.pieces[op.name]
        for intervals in _tiles(run, places.get(run.step, ()), more.get(op.name, ())):
            k = number[known[intervals]]
            if k in done and (kept.get(run.step, True) or not graph.graph.ops[k].outputs):
                continue
            done.add(k)
            order.append(k)
    if not graph.graph.columns.runs_in(tuple(order)):
        order = after_what_they_wait_for(order, graph.graph.predecessors)
    return graph, Program(graph.graph, tuple(order))


def whole_ops_in_order(pieces: PieceGraph, ops: Iterable[Op]) -> Graph:
    """The graph of pieces in which the ops that run whole keep a given order."""
    names = {op.name for op in pieces.graph.ops}
    before = dict(pairwise(op.name for op in ops if op.name in names))
    after = {later: earlier for earlier, later in before.items()}
    made = (
        replace(op, after=tuple(dict.fromkeys((*op.after, after[op.name]))))
        if op.name in after
        else op
        for op in pieces.graph.ops
    )
    return replace(pieces.graph, ops=tuple(made))


def after_what_they_wait_for(
    order: Iterable[int], predecessors: Sequence[Collection[int]]
) -> list[int]:
    """A valid order, near the given one: each piece runs after all pieces that it waits for.

    A piece may wait for pieces that it does not read: those of an op that its own op runs after.
    Such pieces are moved to before it.
    """
    found: list[int] = []
    done: set[int] = set()
    sooner: set[int] = set()
    for piece in order:
        if piece in sooner:
            sooner.remove(piece)
            continue
        stack = [piece]
        while stack:
            missing = [k for k in predecessors[stack[-1]] if k not in done]
            stack += missing
            if not missing:
                k = stack.pop()
                if not stack or k not in done:
                    found.append(k)
                    done.add(k)
                    if stack:
                        sooner.add(k)
    return found


def _in_own_steps(problem: SplitProblem, run: Run, axes: tuple[str | None, str | None]) -> Run:
    """A run in steps of the op's own axes; the search may count several of these as one."""
    op, found = problem.ops[run.step], []
    for name, interval in zip(axes, (run.outer, run.inner), strict=True):
        steps = 1 if name is None else problem.steps(op, name)
        found.append(interval and (interval[0] * steps, interval[1] * steps))
    return Run(run.step, *found)


def _cut_in_place(
    problem: SplitProblem, cuts: dict[str, dict[str, tuple[int, ...]]]
) -> dict[str, list[list[Interval]]]:
    """Cut ops with in-place pairs wherever their inputs are cut: bands must correspond.

    ``cuts`` are the cuts of the ops by axis, to which more are added. Returns the intervals along
    the added axes, by op.
    """
    added: dict[str, list[list[Interval]]] = {}
    if "in place" not in problem.sharing:
        return added
    while True:
        given = [Pieces(name, tuple(by), tuple(by.values())) for name, by in cuts.items() if by]
        at = cut_positions(problem.graph, given, problem.lines)
        changed = False
        for op in problem.ops:
            for axis in (axis for axis in op.axes if axis.name in problem.axes(op)):
                own = cuts.get(op.name, {})
                interior = _shared_cuts(op, axis, at)
                if axis.name in own or not interior or overlaps(op, axis, own):
                    continue
                if any(position % problem.steps(op, axis.name) for position in interior):
                    continue
                cuts.setdefault(op.name, {})[axis.name] = tuple(interior)
                along = list(pairwise([0, *interior, axis.extent]))
                added.setdefault(op.name, []).append(along)
                changed = True
        if not changed:
            return added


def _shared_cuts(op: Op, axis: Axis, at: Mapping[str, Sequence[Collection[int]]]) -> list[int]:
    """Cuts of an op's in-place pairs along one of its axes, if both tensors share that axis."""
    found: set[int] = set()
    for pair in op.in_place:
        windows = [axis.window.get(name) for name in pair]
        for name, window in zip(pair, windows, strict=True):
            if name in at and all(w is not None and is_identity(w) for w in windows):
                assert window is not None
                found.update(at[name][window.axis])
    return sorted(found)


def overlaps(op: Op, axis: Axis, own: Collection[str]) -> bool:
    """True if one of the axes already cut has a window along the same axis of a tensor."""
    places = {(w.tensor, w.axis) for other in op.axes if other.name in own for w in other.windows}
    return any((w.tensor, w.axis) in places for w in axis.windows)


def _tiles(
    run: Run, places: Sequence[Sequence[int] | None], more: Iterable[list[Interval]]
) -> Iterable[tuple[Interval, ...]]:
    """Intervals, along the axes cut, of the pieces that one run covers."""
    along: list[list[Interval]] = []
    for interval, ends in zip((run.outer, run.inner), places, strict=False):
        if ends is not None and interval is not None:
            first, last = bisect_left(ends, interval[0]), bisect_left(ends, interval[1])
            along.append(list(pairwise(ends[first : last + 1])))
    return product(*along, *more)
