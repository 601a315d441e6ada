"""Storages of a graph in the arena, whatever the order, and stretches that placements join."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from cpplan.model.graph import Graph
from cpplan.model.residency import Residency
from cpplan.verification.access_trace import Access, outside
from cpplan.verification.runs import Run
from cpplan.verification.shared_bound import joined_places, others_needed

Mask = npt.NDArray[np.bool_]


class Storages:
    """The storages of a graph that are in the arena.

    Attributes
    ----------
    size
        Storage -> bytes.
    kept
        Storages that are live to the end.
    brought
        Storages that the caller brings.
    accessors
        For each storage, the ops that access it.
    accessed
        For each op, the storages that it accesses.
    again
        Storages that are begun by an op that may run again.
    saved
        For each op, bytes of its results that may be written over its inputs.
    """

    def __init__(self, graph: Graph, residency: Residency, *, repeats: bool = True):
        self.graph = graph
        columns = graph.columns
        names, (storage, stays, brought) = columns.names, storages_held(graph, residency)
        rows = np.flatnonzero(storage)
        self.size: dict[str, int] = dict(
            zip([names[k] for k in rows.tolist()], columns.size[rows].tolist(), strict=True)
        )
        self.kept = [names[k] for k in np.flatnonzero(stays).tolist()]
        self.brought = {names[k] for k in np.flatnonzero(brought).tolist()}
        self.accessors: dict[str, list[int]] = {name: [] for name in self.size}
        self.accessed: list[list[str]] = []
        self.again: set[str] = set()
        self.saved = [0] * len(graph.ops)
        lists, accessors = (columns.read, columns.written), self.accessors
        roots = [names[k] for some in lists for k in columns.root[some.item].tolist()]
        begin, middle = 0, len(columns.read.item)
        for k, (reads, writes) in enumerate(
            zip(*(some.count.tolist() for some in lists), strict=True)
        ):
            read, written = roots[begin : begin + reads], roots[middle : middle + writes]
            begin, middle = begin + reads, middle + writes
            touched = [root for root in dict.fromkeys(read + written) if root in accessors]
            self.accessed.append(touched)
            for root in touched:
                accessors[root].append(k)
            op = graph.ops[k]
            if repeats and op.recomputable and op.sequence is None:
                self.again |= set(written) - set(read)

    def untouched(self, *, kept: bool) -> int:
        """Bytes of storages that no op accesses: the kept ones, or those of the first step only."""
        retention = set(self.kept)
        return sum(
            self.size[root]
            for root, ops in self.accessors.items()
            if not ops and (root in retention) == kept
        )


def storages_held(graph: Graph, residency: Residency) -> tuple[Mask, Mask, Mask]:
    """Masks of the tensors that are storages in the arena, of the kept ones, and those brought."""
    where = {
        "input": residency.inputs,
        "output": residency.outputs,
        "constant": residency.constants,
    }
    columns = graph.columns
    held, stays, made = np.zeros((3, len(columns.names)), np.bool_)
    absent, kept = (
        columns.root[columns.are({kind for kind, how in where.items() if how == wanted})]
        for wanted in ("outside", "keep")
    )
    held |= columns.storage
    held[absent] = False
    stays[kept] = True
    made[columns.outputs.item] = True
    return held, held & stays, held & ~(made | columns.are({"workspace"}))


def relaxed_storages(
    graph: Graph,
    residency: Residency,
    sharing: Collection[str],
    accesses: Sequence[Access],
    runs: Sequence[Run],
) -> Storages:
    """Storages that need no more bytes than any sharing, in any order that runs each op once.

    All placements are taken at once, as for ``live bytes, shared``: the storages that they join are
    cut where one of them begins or ends, and each stretch replaces the bytes there; it is named
    ``name[begin:end]`` by its bytes in the first storage over it. If common ops connect the
    storages over a stretch, so that it is live without a pause, all ops that access one of them
    access the stretch; else only the ops of the storage with the most do. If the placements
    contradict each other, only the largest storage counts. ``saved`` has the bytes of results that
    may be written over their op's inputs.
    """
    relaxed = Storages(graph, residency, repeats=False)
    first: dict[str, Run] = {}
    for run in runs:
        first.setdefault(run.op.name, run)
    apart = never_shared(relaxed, accesses, first)
    _join_all(relaxed, _placements(graph, sharing, first, apart))
    relaxed.saved = [
        sum(overwriting(graph, sharing, first[op.name], apart).values()) for op in graph.ops
    ]
    return relaxed


def relaxed_by(
    graph: Graph,
    residency: Residency,
    placements: Iterable[tuple[str, str, int]],
    saved: Sequence[int],
) -> Storages:
    """Relaxed storages, as :func:`relaxed_storages`, of a graph whose sharing is known."""
    relaxed = Storages(graph, residency, repeats=False)
    _join_all(relaxed, placements)
    relaxed.saved = list(saved)
    return relaxed


def _join_all(relaxed: Storages, placements: Iterable[tuple[str, str, int]]) -> None:
    """Replace all storages that placements join by stretches."""
    groups = joined_places(placements)
    if not groups:
        return
    row = {name: k for k, name in enumerate(relaxed.size)}
    kept = set(relaxed.kept)
    for places in groups:
        _join(relaxed, places, row, kept)
    relaxed.kept = [name for name in relaxed.size if name in kept]
    relaxed.accessed = [[] for _ in relaxed.graph.ops]
    for root, ops in relaxed.accessors.items():
        for k in ops:
            relaxed.accessed[k].append(root)


def overwriting(
    graph: Graph, sharing: Collection[str], run: Run, apart: Collection[str]
) -> dict[str, int]:
    """Storage -> most bytes that a run may write of it over its inputs.

    ``apart`` has the storages that share no bytes (:func:`never_shared`).
    """
    found: dict[str, int] = {}
    if run.op.bodies or "in place" not in sharing or not run.op.in_place:
        return found
    needed_otherwise = others_needed(run)
    for output, source in run.in_place():
        new, old = graph.root[output.tensor][0], graph.root[source.tensor][0]
        if new == old or new in apart or old in apart or not output.size:
            continue
        if not needed_otherwise(output, source):
            found[new] = max(output.size, found.get(new, 0))
    return found


def _placements(
    graph: Graph, sharing: Collection[str], first: Mapping[str, Run], apart: Collection[str]
) -> Iterator[tuple[str, str, int]]:
    """Pairs of storages, and the distance of the first above the second if placed."""
    for run in first.values() if "placement" in sharing else ():
        for part, whole, offset in () if run.op.bodies else run.placements():
            inner, outer = graph.root[part.tensor][0], graph.root[whole.tensor][0]
            if inner != outer and inner not in apart and outer not in apart and part.size:
                yield inner, outer, whole.begin + offset - part.begin


def _join(
    relaxed: Storages,
    places: Mapping[str, int] | Mapping[str, None],
    row: Mapping[str, int],
    kept: set[str],
) -> None:
    """Replace joined storages by their stretches."""
    members = sorted(places, key=row.__getitem__)
    size = {name: relaxed.size[name] for name in members}
    accessors = {name: relaxed.accessors[name] for name in members}
    retention, brought = kept & places.keys(), relaxed.brought & places.keys()
    begin = {name: place for name, place in places.items() if place is not None}
    gone = set(members)
    if not begin:
        gone.remove(max(members, key=lambda name: (size[name], -row[name])))
    for name in gone:
        del relaxed.size[name], relaxed.accessors[name]
    kept -= gone
    relaxed.brought -= gone
    cuts = sorted({edge for name, low in begin.items() for edge in (low, low + size[name])})
    position = {cut: k for k, cut in enumerate(cuts)}
    lying: list[list[str]] = [[] for _ in cuts]
    for name in members if begin else ():
        for k in range(position[begin[name]], position[begin[name] + size[name]]):
            lying[k].append(name)
    for over, (low, high) in zip(lying, pairwise(cuts), strict=False):
        if not over:
            continue
        name = f"{over[0]}[{low - begin[over[0]]}:{high - begin[over[0]]}]"
        while relaxed.size.get(name) or name in gone:
            name += "'"
        if not _connected([accessors[n] for n in over]):
            over = [max(over, key=lambda n: (len(accessors[n]), -row[n]))]
        relaxed.size[name] = high - low
        relaxed.accessors[name] = sorted({k for n in over for k in accessors[n]})
        if not retention.isdisjoint(over):
            kept.add(name)
        if not brought.isdisjoint(over):
            relaxed.brought.add(name)


def _connected(accessors: Sequence[Sequence[int]]) -> bool:
    """True if common ops connect storages: their union is then live without a pause."""
    waiting = [set(ops) for ops in accessors]
    reached = waiting.pop()
    while met := [ops for ops in waiting if not reached.isdisjoint(ops)]:
        waiting = [ops for ops in waiting if reached.isdisjoint(ops)]
        reached.update(*met)
    return not waiting


def never_shared(
    storages: Storages, accesses: Sequence[Access], first: Mapping[str, Run]
) -> set[str]:
    """Storages that share no bytes by choice: constants, workspaces, storages of several writers.

    ``first`` has the first run of every op, by the op's name.
    """
    graph = storages.graph
    in_bodies = _written_in_bodies(graph, accesses, {run.step: n for n, run in first.items()})
    apart = {root for root, _ in graph.root.values() if root not in storages.size}
    apart |= {t.name for t in graph.tensors if t.kind in ("constant", "workspace")}
    writers = Counter(storages.brought)
    for op in graph.ops:
        read: dict[str, list[tuple[int, int]]] = {}
        for name in op.inputs:
            root, begin = graph.root[name]
            read.setdefault(root, []).append((begin, begin + graph.tensor[name].nbytes))
        written = [name for name in op.outputs + op.workspaces if graph.tensor[name].nbytes]
        begun = {graph.root[name][0] for name in written} - read.keys()
        writers.update(begun | in_bodies.get(op.name, set()))
        for name in written:
            root, begin = graph.root[name]
            if root in read and any(outside(begin, begin + graph.tensor[name].nbytes, read[root])):
                apart.add(root)
    return apart | {root for root, count in writers.items() if count > 1}


def _written_in_bodies(
    graph: Graph, accesses: Sequence[Access], steps: Mapping[int, str]
) -> dict[str, set[str]]:
    """Op -> storages outside its bodies that the bodies write; ``steps`` are of first runs."""
    found: dict[str, set[str]] = {}
    for access in accesses:
        place, name = access.place, steps.get(-1 if access.owner is None else access.owner)
        if name is None or access.op == name or place.retention.inner:
            continue
        if access.writes and place.begin < place.end:
            found.setdefault(name, set()).add(graph.root[place.retention.tensors[0].name][0])
    return found
