"""The bounds "least footprint" and "forced live bytes", proved again: bytes that some op needs.

A program runs every op of the graph at least once, in an order that the graph allows, and may run
again those that compute the same values then: that is what a least footprint covers. What is forced
covers the programs that run every op once. From the graph, and from the touches of each op's first
run for what its bodies need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from cpplan.model.graph import Graph, Op
from cpplan.model.problem import Ints
from cpplan.model.residency import Residency
from cpplan.verification.access_trace import Touch, lifespans, outside
from cpplan.verification.runs import Run
from cpplan.verification.shared_bound import needed_otherwise


def least_footprint(
    graph: Graph,
    residency: Residency,
    sharing: Collection[str],
    touches: Sequence[Touch],
    runs: Sequence[Run],
) -> int:
    """Bytes that every program of a graph needs, whatever runs again and whatever is shared.

    If nothing may be shared, an op's first run needs all storages that it touches and the bytes
    that its bodies hold at once. It also needs every storage that cannot be computed twice, if the
    op or one that must come before touches that (or the caller brings it) and the op or one that
    must come after does (or it is kept). Kept storages are there at the end.

    If bytes may be shared, an op needs the storages that it touches, except for those it may write
    in place; of storages that any op copies to or from others, only the largest that it touches.

    Parameters
    ----------
    graph, residency
        What is planned.
    sharing
        The kinds of relations that the plan may choose.
    touches, runs
        Of any program of the graph.

    Examples
    --------
    >>> from cpplan.program.anf import to_anf
    >>> from cpplan.verification.access_trace import replay
    >>> from cpplan.model.graph import Tensor
    >>> tensors = Tensor("x", 8, kind="input"), Tensor("y", 8, kind="output")
    >>> graph = Graph("g", tensors, (Op("f", "", ("x",), ("y",), in_place=(("y", "x"),)),))
    >>> demands = replay(to_anf(graph), Residency())
    >>> least_footprint(graph, Residency(), (), *demands)
    16
    >>> least_footprint(graph, Residency(), ("in place",), *demands)
    8
    """
    storages = Storages(graph, residency)
    return _most_needed(storages, graph.predecessors, sharing, touches, runs)


def forced_live_bytes(
    graph: Graph,
    residency: Residency,
    sharing: Collection[str],
    touches: Sequence[Touch],
    runs: Sequence[Run],
    ends: tuple[Sequence[str], Sequence[str]] = ((), ()),
) -> int:
    """Bytes that every order of a graph needs which runs each op once, whatever is shared.

    As :func:`least_footprint`, but no storage is computed twice.

    Parameters
    ----------
    graph, residency
        What is planned.
    sharing
        The kinds of relations that the plan may choose.
    touches, runs
        Of any program of the graph.
    ends
        Names of the ops with which the orders begin, and with which they end.

    Examples
    --------
    >>> from cpplan.program.anf import to_anf
    >>> from cpplan.verification.access_trace import replay
    >>> from cpplan.model.graph import Tensor
    >>> tensors = Tensor("x", 8, kind="input"), Tensor("y", 8, kind="output")
    >>> graph = Graph("g", tensors, (Op("f", "", ("x",), ("y",)),))
    >>> forced_live_bytes(graph, Residency(), (), *replay(to_anf(graph), Residency()))
    16
    """
    storages = Storages(graph, residency, repeats=False)
    return _most_needed(storages, with_ends(graph, *ends), sharing, touches, runs)


def with_ends(
    graph: Graph, first: Sequence[str], last: Sequence[str]
) -> tuple[tuple[int, ...], ...]:
    """Ops that each op waits for if orders begin with ``first`` and end with ``last``.

    Examples
    --------
    >>> graph = Graph("g", (), tuple(Op(name, "") for name in "abcd"))
    >>> with_ends(graph, ["c"], ["a", "b"])
    ((2, 3), (2, 3, 0), (), (2,))
    """
    if not first and not last:
        return graph.predecessors
    number = {op.name: k for k, op in enumerate(graph.ops)}
    head, tail = ([number[name] for name in names] for names in (first, last))
    waits = [list(before) for before in graph.predecessors]
    outer = {*head, *tail}
    between = [k for k in range(len(waits)) if k not in outer]
    for k, op in enumerate(head):
        waits[op] += head[:k]
    for op in between:
        waits[op] += head
    for k, op in enumerate(tail):
        waits[op] += [*head, *between, *tail[:k]]
    return tuple(tuple(dict.fromkeys(before)) for before in waits)


def _most_needed(
    storages: Storages,
    predecessors: Sequence[Sequence[int]],
    sharing: Collection[str],
    touches: Sequence[Touch],
    runs: Sequence[Run],
) -> int:
    graph = storages.graph
    inside, constants = bytes_in_bodies(graph, touches, runs)
    if sharing:
        return constants + _least_shared(storages, predecessors, sharing, touches, runs, inside)
    end = sum(storages.size[root] for root in storages.kept)
    if not graph.ops:
        end += storages.untouched(kept=False)
    own = [sum(storages.size[root] for root in storages.of(op)) for op in graph.ops]
    beside = _beside(storages, predecessors, storages.touchers)
    needs = (np.array(own, np.int64) + inside + beside).tolist()
    return constants + max(end, *needs) if needs else constants + end


class Storages:
    """The storages of a graph that are in the arena.

    Attributes
    ----------
    size
        Bytes of each.
    kept
        Those that are there to the end.
    brought
        Those that the caller brings.
    touchers
        For each, the ops that touch it.
    again
        Those that an op which may run again begins.
    """

    def __init__(self, graph: Graph, residency: Residency, *, repeats: bool = True):
        self.graph = graph
        where = {
            "input": residency.inputs,
            "output": residency.outputs,
            "constant": residency.constants,
        }
        outside, kept = (
            {graph.root[t.name][0] for t in graph.tensors if where.get(t.kind) == wanted}
            for wanted in ("outside", "keep")
        )
        roots = [t for t in graph.tensors if graph.is_storage(t.name) and t.name not in outside]
        self.size = {tensor.name: tensor.nbytes for tensor in roots}
        self.kept = [tensor.name for tensor in roots if tensor.name in kept]
        self.brought = {
            t.name for t in roots if t.name not in graph.producer and t.kind != "workspace"
        }
        self.touchers: dict[str, list[int]] = {name: [] for name in self.size}
        self.again: set[str] = set()
        for k, op in enumerate(graph.ops):
            for root in self.of(op):
                self.touchers[root].append(k)
            if repeats and op.recomputable and op.sequence is None:
                written = {graph.root[name][0] for name in op.outputs + op.workspaces}
                self.again |= written - {graph.root[name][0] for name in op.inputs}

    def of(self, op: Op) -> list[str]:
        """Storages that an op touches."""
        roots = dict.fromkeys(self.graph.root[name][0] for name in op.tensors)
        return [root for root in roots if root in self.size]

    def untouched(self, *, kept: bool) -> int:
        """Bytes of storages that no op touches: those kept, or those of the first step only."""
        return sum(
            self.size[root]
            for root, ops in self.touchers.items()
            if not ops and (root in self.kept) == kept
        )


def bytes_in_bodies(
    graph: Graph, touches: Sequence[Touch], runs: Sequence[Run]
) -> tuple[Ints, int]:
    """Most bytes that the bodies of each op hold at once, and bytes of their constants."""
    first: dict[str, int] = {}
    for run in runs:
        first.setdefault(run.op.name, run.step)
    number = {first[op.name]: k for k, op in enumerate(graph.ops)}
    within: dict[int, list[Touch]] = {}
    for touch in touches:
        if touch.place.stay.inner and touch.owner in number:
            within.setdefault(number[touch.owner], []).append(touch)
    most, constants = np.zeros(len(graph.ops), np.int64), 0
    for k, inner in within.items():
        spans = lifespans(inner)
        constants += sum(stay.size for stay in spans if stay.kind == "constant")
        passing = [(stay.size, span) for stay, span in spans.items() if stay.kind != "constant"]
        steps = {lower for _, (lower, _) in passing}
        live = (sum(size for size, (lo, up) in passing if lo <= step < up) for step in steps)
        most[k] = max(live, default=0)
    return most, constants


def _beside(
    storages: Storages, predecessors: Sequence[Sequence[int]], roots: Iterable[str]
) -> Ints:
    """Bytes of some storages that an op does not touch and that are there at its first run."""
    beside = np.zeros(len(predecessors), np.int64)
    before, after = forced_runs(predecessors)
    for root in roots:
        touchers = storages.touchers[root]
        if root in storages.again:
            continue
        there = np.full(len(beside), root in storages.brought)
        wanted = np.full(len(beside), root in storages.kept)
        if not there.all():
            there |= _members((after[k] for k in touchers), len(beside))
        if not wanted.all():
            wanted |= _members((before[k] for k in touchers), len(beside))
        there[touchers] = False
        beside[there & wanted] += storages.size[root]
    return beside


def forced_runs(predecessors: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Ops that must run before each op, and ops that must run after it, as bit sets."""
    before, after = ([0] * len(predecessors) for _ in range(2))
    order = list(_topological(predecessors))
    for k in order:
        for other in predecessors[k]:
            before[k] |= before[other] | 1 << other
    for k in reversed(order):
        for other in predecessors[k]:
            after[other] |= after[k] | 1 << k
    return before, after


def _topological(predecessors: Sequence[Sequence[int]]) -> Iterator[int]:
    waiting = [len(set(before)) for before in predecessors]
    successors: list[list[int]] = [[] for _ in waiting]
    for k, before in enumerate(predecessors):
        for other in set(before):
            successors[other].append(k)
    ready = [k for k, count in enumerate(waiting) if not count]
    while ready:
        k = ready.pop()
        yield k
        for other in successors[k]:
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)


def _members(sets: Iterator[int], count: int) -> np.ndarray:
    """Mask of the numbers that are in any of some bit sets, shape ``(count,)``."""
    union = 0
    for bits in sets:
        union |= bits
    raw = np.frombuffer(union.to_bytes(-(-count // 8), "little"), np.uint8)
    return np.unpackbits(raw, count=count, bitorder="little").astype(bool)


def _least_shared(
    storages: Storages,
    predecessors: Sequence[Sequence[int]],
    sharing: Collection[str],
    touches: Sequence[Touch],
    runs: Sequence[Run],
    inside: Ints,
) -> int:
    """Bytes that some op needs of what it touches, and of constants, whatever shares bytes."""
    graph = storages.graph
    throughout = {
        root
        for root, ops in storages.touchers.items()
        if graph.tensor[root].kind == "constant" or (root in storages.kept and not ops)
    }
    first: dict[str, Run] = {}
    for run in runs:
        first.setdefault(run.op.name, run)
    steps = {run.step: name for name, run in first.items()}
    apart = _never_shared(storages, _written_in_bodies(graph, touches, steps))
    copied: set[str] = set()
    for run in first.values() if "placement" in sharing else ():
        for part, whole, _ in () if run.op.bodies else run.placements():
            ends = {graph.root[part.tensor][0], graph.root[whole.tensor][0]}
            if len(ends) == 2 and not ends & apart and part.size:
                copied |= ends
    # A storage that the op does not touch, and that no op copies, shares no bytes then.
    alone = (root for root in storages.touchers if root not in throughout | copied)
    beside = _beside(storages, predecessors, alone)
    most = 0
    for k, op in enumerate(graph.ops):
        own = set(storages.of(op)) - throughout
        run = first[op.name]
        for output, source in () if op.bodies or "in place" not in sharing else run.in_place():
            new, old = graph.root[output.tensor][0], graph.root[source.tensor][0]
            if new == old or {new, old} & apart or not output.size:
                continue
            if not needed_otherwise(run, output, source):
                own.discard(new)
        largest = max((storages.size[root] for root in own & copied), default=0)
        rest = sum(storages.size[root] for root in own - copied)
        most = max(most, largest + rest + int(inside[k] + beside[k]))
    return most + sum(storages.size[root] for root in throughout)


def _written_in_bodies(
    graph: Graph, touches: Sequence[Touch], steps: Mapping[int, str]
) -> dict[str, set[str]]:
    """Op -> storages outside its bodies that these write; ``steps`` are those of first runs."""
    found: dict[str, set[str]] = {}
    for touch in touches:
        place, name = touch.place, steps.get(-1 if touch.owner is None else touch.owner)
        if name is None or touch.op == name or place.stay.inner:
            continue
        if touch.writes and place.begin < place.end:
            found.setdefault(name, set()).add(graph.root[place.stay.tensors[0].name][0])
    return found


def _never_shared(storages: Storages, in_bodies: Mapping[str, set[str]]) -> set[str]:
    """Storages that share no bytes by choice: constants, workspaces, those of several writers."""
    graph = storages.graph
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
