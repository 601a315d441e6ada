"""From regions and their styles to the cuts of ops, and the order of the pieces."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise, product

from cpplan.model.pieces import Pieces
from cpplan.program.anf import Program
from cpplan.splitting.frontier import Choice
from cpplan.splitting.piece_graph import Interval, PieceGraph, split_graph
from cpplan.splitting.problem import SplitProblem
from cpplan.splitting.region import Region, Run


def schedule(problem: SplitProblem, choices: Iterable[Choice]) -> tuple[PieceGraph, Program]:
    """The graph of pieces, and the program that runs it as the regions say."""
    runs: list[Run] = []
    styles: dict[int, tuple[str | None, str | None]] = {}
    kept: dict[int, bool] = {}
    for start, stop, style in choices:
        region = Region(problem, start, stop)
        region.estimate(style, runs)
        for k, op in enumerate(region.ops):
            outer = None if style.outer is None else region.family(style.outer)
            inner = None if style.inner is None else region.family(style.inner)
            along = [None if family is None else family.axes[k] for family in (outer, inner)]
            one, other = (None if axis is None else axis.name for axis in along)
            styles[start + k] = one, other
            kept[start + k] = all(
                region.kept[region.local[problem.storage(name)]] for name in op.outputs
            )
    ends: dict[int, tuple[set[int], set[int]]] = {}
    for run in runs:
        both = ends.setdefault(run.step, (set(), set()))
        for found, interval in zip(both, (run.outer, run.inner), strict=True):
            found.update(interval or ())
    pieces: list[Pieces] = []
    places: dict[int, list[list[int] | None]] = {}
    for step, both in ends.items():
        op, names = problem.ops[step], styles[step]
        extents = {axis.name: axis.extent for axis in op.axes}
        axes, cuts = [], []
        places[step] = []
        for name, found in zip(names, both, strict=True):
            extent = 0 if name is None else extents[name]
            interior = sorted(found - {0, extent})
            if name is None or not interior:
                places[step].append(None)
                continue
            axes.append(name)
            cuts.append(tuple(interior))
            places[step].append([0, *interior, extent])
        if axes:
            pieces.append(Pieces(op.name, tuple(axes), tuple(cuts)))
    graph = split_graph(problem.graph, pieces)
    number = {op.name: k for k, op in enumerate(graph.graph.ops)}
    order: list[int] = []
    done: set[int] = set()
    for run in runs:
        op = problem.ops[run.step]
        known = graph.pieces[op.name]
        for intervals in _tiles(run, places[run.step]):
            k = number[known[intervals]]
            if k in done and (kept[run.step] or not graph.graph.ops[k].outputs):
                continue
            done.add(k)
            order.append(k)
    return graph, Program(graph.graph, tuple(order))


def _tiles(run: Run, places: Sequence[Sequence[int] | None]) -> Iterable[tuple[Interval, ...]]:
    """Intervals of the pieces that one run covers, along the axes that are cut."""
    along: list[list[Interval]] = []
    for interval, ends in zip((run.outer, run.inner), places, strict=True):
        if ends is not None and interval is not None:
            first, last = bisect_left(ends, interval[0]), bisect_left(ends, interval[1])
            along.append(list(pairwise(ends[first : last + 1])))
    return product(*along)
