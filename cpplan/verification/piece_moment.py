"""The bound "live between pieces", proved again: bytes live at one moment of every splitting.

Each op has done a share of its steps, and a step runs once. Which ops read which tensors is cited
by the plan; what that keeps live, for all shares of the ops, is derived from the graph's windows
(:mod:`cpplan.verification.piece_readings`), and the least sum over all shares is found here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from cpplan.model.certificates import LiveBetween
from cpplan.model.errors import VerificationError
from cpplan.model.graph import Graph, Op
from cpplan.model.residency import Residency
from cpplan.verification.piece_readings import Cell, Read, Readings, steps_in
from cpplan.verification.piece_steps import Floats

_TINY, _MOST_PARTS = 1e-9, 256


def bytes_at_moment(
    graph: Graph, residency: Residency, sharing: Collection[str], moment: LiveBetween
) -> int:
    """Bytes live in every splitting at no more work, when an op has done the share that is cited.

    Raises
    ------
    VerificationError
        If the certificate cites what the graph does not have.
    """
    parts, at = moment.parts, moment.interval
    if graph.symbols is not None or not 1 <= parts <= _MOST_PARTS or not 0 <= at <= parts + 1:
        raise VerificationError("the certificate's share of an op is not one of a graph's")
    op = graph.op.get(moment.op)
    if op is None:
        raise VerificationError(f"the certificate cites the unknown op {moment.op!r}")
    rules = Readings(graph, residency, sharing)
    cited = [rules.read(reading) for reading in moment.readings]
    tensors = [reading.path[0] for reading in moment.readings]
    shares = sharing and (op.in_place or op.placements)
    if not rules.counts(op) or shares or not _passes(op, at, parts):
        return 0
    by_tensor = Counter(tensors)
    for name, read in zip(tensors, cited, strict=True):
        alone = read.maker is None and read.channel is not None
        if by_tensor[name] > (1 if alone else 2):
            raise VerificationError(f"the certificate counts tensor {name!r} too often")
    alike = _alike(graph, cited)
    cells: dict[str, list[Cell]] = {}
    for name, read in zip(tensors, cited, strict=True):
        joined = not read.kept and alike[read.reader] == alike.get(op.name)
        cells.setdefault(name, []).append(read.cell(joined, parts))
    sums = _least_sum([*cells.values()], op.name)
    least = float(sums[at if len(sums) > 1 else 0])
    least += rules.begun_by_a_step(op)
    return max(0, math.ceil(least * (1 - _TINY) - _TINY)) if math.isfinite(least) else 0


def _passes(op: Op, at: int, parts: int) -> bool:
    """True if the share of an op's steps is in the interval before one of its steps."""
    steps = steps_in(op)
    most = min(steps - 1, at * steps // parts)
    return at <= parts and most * parts >= (at - 1) * steps


def _alike(graph: Graph, cited: Sequence[Read]) -> Mapping[str, int]:
    """A number for each op; ops that run channel by channel on one tensor have the same."""
    names = {name for read in cited for name in (read.maker, read.reader) if name}
    number = {name: k for k, name in enumerate(sorted(names))}
    changed = True
    while changed:
        changed = False
        for read in cited:
            if read.channel is not None and read.maker is not None:
                least = min(number[read.maker], number[read.reader])
                changed |= number[read.maker] != number[read.reader]
                number[read.maker] = number[read.reader] = least
    return number


def _least_sum(tensors: Sequence[Sequence[Cell]], kept: str) -> Floats:
    """Least sum of all tensors' bytes, for each share of one op."""
    left = [tuple(cells) for cells in tensors]
    while names := {name for cells in left for scope, _ in cells for name in scope} - {kept}:
        near = {name: _near(left, name) for name in names}
        name = min(names, key=lambda each: (len(near[each]), each))
        rest = tuple(sorted(near[name]))
        if len(rest) > 2:
            raise VerificationError("the certificate cites too many readers of some tensors")
        mine = [cells for cells in left if any(name in scope for scope, _ in cells)]
        left = [cells for cells in left if not any(name in scope for scope, _ in cells)]
        left.append(((rest, _removed(mine, name, rest)),))
    total: Floats = np.zeros(1)
    for cells in left:
        total = total + _largest(cells, (kept,))
    return total


def _near(tensors: Sequence[Sequence[Cell]], name: str) -> set[str]:
    """The ops that share a tensor with one op."""
    scopes = [{each for scope, _ in cells for each in scope} for cells in tensors]
    return set().union(*(scope for scope in scopes if name in scope)) - {name}


def _removed(tensors: Sequence[Sequence[Cell]], name: str, rest: tuple[str, ...]) -> Floats:
    """Least sum of some tensors' bytes over the shares of one op, for those of its neighbours."""
    if len(rest) < 2:
        found = [_largest(cells, (name, *rest)) for cells in tensors]
        return np.asarray(np.add.reduce(np.broadcast_arrays(*found)).min(axis=0))
    places = ((scope, table) for cells in tensors for scope, table in cells if name in scope)
    scope, table = next(places)
    least = np.full((1, 1), np.inf)
    for label in range(table.shape[scope.index(name)]):
        total: Floats = np.zeros((1, 1))
        for cells in tensors:
            total = total + _largest([_fixed(cell, name, label) for cell in cells], rest)
        least = np.minimum(least, total)
    return least


def _fixed(cell: Cell, name: str, label: int) -> Cell:
    scope, table = cell
    if name not in scope:
        return cell
    k = scope.index(name)
    return scope[:k] + scope[k + 1 :], np.asarray(table.take(label, axis=k))


def _largest(cells: Sequence[Cell], over: tuple[str, ...]) -> Floats:
    """The largest of some cells, as an array over the shares of the ops of ``over``."""
    found = []
    for scope, table in cells:
        order = [name for name in over if name in scope]
        table = table.transpose([scope.index(name) for name in order])
        sizes = iter(table.shape)
        found.append(table.reshape([next(sizes) if name in scope else 1 for name in over]))
    return np.asarray(np.maximum.reduce(np.broadcast_arrays(*found)))
