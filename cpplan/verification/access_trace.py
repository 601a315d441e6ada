"""Access trace of a program: every read and write of bytes in memory, in order.

Every op reads its inputs, writes its outputs and workspaces, and needs all of them whole until it
ends. A tensor lies in a *retention*: one stretch of time that its storage spends in memory. From
the trace the checkers derive the buffers that must be in the arena, their lifespans, and the access
that destroyed a buffer's bytes. The trace follows from the graph and the order alone; no planner
and no lifespan analysis is trusted.

The retention of a tensor:

* an op reads a tensor in the retention in which it was last written; a view that no op produces
  lies in its base;
* an op that writes bytes of a storage that it also reads passes the storage on: it writes into the
  retention that it read;
* otherwise an op writes into the storage's newest retention; if that holds the tensor already, the
  tensor is computed again, and a new retention begins;
* an input or output of a body with the name of one of the op's tensors is that tensor.

The retention that holds a tensor of the caller's memory in the end is not in the arena. If one op
begins the tensor's storage and runs again, no retention of it is.

Bytes that a placement of the graph copies have the value of their source, so that two retentions
may hold them at one address. If a relation of the plan lets an op write over an input in place, the
input need not be intact when the op ends.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from cpplan.model.errors import VerificationError
from cpplan.model.graph import Graph, Op
from cpplan.model.residency import Residency
from cpplan.model.tensor import Tensor
from cpplan.program.anf import Program, to_anf
from cpplan.program.copy_names import op_copies, tensor_copies
from cpplan.verification.runs import Place, Retention, Run


class Access(NamedTuple):
    """Access to bytes at a step, which writes them or needs them as they were last written.

    ``op`` is ``None`` if the caller accesses them, before or after the program. ``source`` is the
    place from which the bytes are copied if the op only copies them. ``owner`` is the first step of
    the run to which the access belongs; an access in a body belongs to the run of the program's own
    op.
    """

    step: int
    op: str | None
    place: Place
    writes: bool
    source: Place | None = None
    owner: int | None = None


def trace(
    program: Program, residency: Residency, over: Collection[tuple[str, str]] = ()
) -> list[Access]:
    """Accesses to bytes in the arena, in the order in which they happen."""
    return replay(program, residency, over)[0]


def replay(
    program: Program, residency: Residency, over: Collection[tuple[str, str]] = ()
) -> tuple[list[Access], list[Run]]:
    """The accesses, as :func:`trace` gives them, and the runs of the program's own ops."""
    graph, last = program.graph, max(1, program.starts[-1]) - 1
    record = _Record(residency, frozenset(over))
    scope = _Scope(graph, record)
    written = {name for op in graph.ops for name in op.outputs + op.workspaces}
    for tensor in graph.tensors:
        if graph.is_storage(tensor.name) and tensor.name not in written:
            scope.begin_unproduced(tensor.name, None, 0)
    # The caller's inputs are in the arena until the first op has run, even if no op reads them.
    entered = program.starts[1] - 1 if program.order else 0
    record.accesses += [t._replace(step=entered, writes=False) for t in record.accesses]
    scope.run(program, 0)
    boundary = {
        "input": residency.inputs,
        "output": residency.outputs,
        "constant": residency.constants,
    }
    again = _written_again_in_place(graph)
    for tensor in graph.tensors:
        wanted = boundary.get(tensor.kind)
        if wanted == "outside":
            scope.place(tensor.name).retention.placed = False
            root = graph.root[tensor.name][0]
            if root in again:
                # Its later runs write the same bytes to the same place.
                for retention in scope.copies[root]:
                    retention.placed = False
        elif wanted == "keep" and tensor.kind != "constant":
            record.access(last, None, scope.place(tensor.name), writes=False)
    before = [Access(0, None, place, True) for place in record.constants]
    after = [Access(last, None, place, False) for place in record.constants]
    accesses = [*before, *record.accesses, *after]
    seen = [
        access
        if access.source is None or access.source.retention.placed
        else access._replace(source=None)
        for access in accesses
        if access.place.retention.placed
    ]
    return seen, record.runs


def lifespans(accesses: Iterable[Access]) -> dict[Retention, tuple[int, int]]:
    """Lifespan ``[lower, upper)`` of every retention, from its first access to its last."""
    spans: dict[Retention, tuple[int, int]] = {}
    for access in accesses:
        retention, step = access.place.retention, access.step
        known = spans.get(retention)
        if known is None:
            spans[retention] = step, step + 1
        elif not known[0] <= step < known[1]:
            spans[retention] = min(known[0], step), max(known[1], step + 1)
    return spans


def _written_again_in_place(graph: Graph) -> set[str]:
    """Storages that one op alone begins, except those in which the caller brings a tensor."""
    root, begun = graph.root, Counter[str]()
    for op in graph.ops:
        written = {root[name][0] for name in op.outputs + op.workspaces}
        begun.update(written - {root[name][0] for name in op.inputs})
    brought = {root[t.name][0] for t in graph.tensors if t.kind in ("input", "constant")}
    return {storage for storage, ops in begun.items() if ops == 1} - brought


class _Record:
    """Accesses, runs and names that all scopes of one program record."""

    def __init__(self, residency: Residency, over: frozenset[tuple[str, str]]):
        self.residency, self.over = residency, over
        self.accesses: list[Access] = []
        self.runs: list[Run] = []
        self.constants: list[Place] = []
        self.names: set[str] = set()
        self.owner: int | None = None

    def access(
        self, step: int, op: str | None, place: Place, *, writes: bool, source: Place | None = None
    ) -> None:
        self.accesses.append(Access(step, op, place, writes, source, self.owner))


class _Scope:
    """State of one run of a graph: the retention of the latest value of every tensor."""

    def __init__(
        self,
        graph: Graph,
        record: _Record,
        prefix: str = "",
        given: Mapping[str, Retention] | None = None,
    ):
        self.graph, self.record, self.prefix = graph, record, prefix
        self.home: dict[str, Retention] = {}
        self.newest: dict[str, Retention] = dict(given or {})
        self.given = frozenset(self.newest)
        self.names, self.op_names = tensor_copies(graph), op_copies(graph)
        self.bound: Counter[str] = Counter()
        self.copies: dict[str, list[Retention]] = {}
        lying: dict[str, list[Tensor]] = {}
        for tensor in graph.tensors:
            lying.setdefault(graph.root[tensor.name][0], []).append(tensor)
        self.tensors = {root: tuple(tensors) for root, tensors in lying.items()}
        for root, retention in self.newest.items():
            retention.alignment = math.lcm(retention.alignment, self._alignment(root))
            retention.tensors += self.tensors[root]

    def _alignment(self, root: str) -> int:
        return math.lcm(*(tensor.alignment for tensor in self.tensors[root]))

    def place(self, name: str, reader: str = "the caller") -> Place:
        """Buffer and byte offset at which the tensor's latest value lies."""
        if (retention := self.home.get(name)) is not None:
            return self._place_in(retention, name)
        holder = self.graph.holder[name]
        while (retention := self.home.get(holder)) is None:
            view_of = self.graph.tensor[holder].view_of
            if view_of is None or self.graph.is_storage(holder):
                raise VerificationError(f"{reader} reads tensor {name!r} before it is written")
            holder = self.graph.holder[view_of[0]]
        return self._place_in(retention, name)

    def begin_unproduced(self, root: str, op: str | None, step: int) -> None:
        """Begin a storage that no op writes: the caller or, for its body, ``op`` brings it."""
        if root not in self.newest:
            place = self._place_in(self._begin(root), root)
            if self.graph.tensor[root].kind != "constant":
                self.record.access(step, op, place, writes=True)
        self.home[root] = self.newest[root]

    def run(self, program: Program, start: int) -> None:
        for op, lower, upper in zip(program.ops, program.starts, program.starts[1:], strict=False):
            if not self.prefix:
                self.record.owner = start + lower
            self._run_op(op, start + lower, start + upper)
        if not self.prefix:
            self.record.owner = None

    def _run_op(self, op: Op, lower: int, upper: int) -> None:
        name, record = f"{self.prefix}{op.name}", self.record
        for tensor in op.inputs if self.graph.empty else ():
            # An empty view in a body, which nobody writes.
            unwritten = tensor not in self.home and tensor not in self.graph.producer
            if unwritten and tensor in self.graph.empty:
                self.begin_unproduced(tensor, name, lower)
        reads = [self.place(tensor, f"op {name!r}") for tensor in dict.fromkeys(op.inputs)]
        for place in reads:
            place.retention.reads += 1
            record.access(lower, name, place, writes=False)
        writes = []
        read_of: dict[Retention, list[Place]] = {}
        # Storage -> the latest retention of it that the op reads, and so passes on.
        passing: dict[str, Retention] = {}
        for place in reads:
            read_of.setdefault(place.retention, []).append(place)
            root = self.graph.root[place.tensor][0]
            if root not in passing or passing[root].number < place.retention.number:
                passing[root] = place.retention
        for tensor in op.outputs + op.workspaces:
            retention = self.home[tensor] = self._retention_to_write(tensor, passing)
            here = read_of.get(retention, ())
            retention.writes += not here
            place = self._place_in(retention, tensor)
            writes.append(place)
            passed = [(read.begin, read.end) for read in here]
            if not (passed or op.placements):
                record.access(lower, name, place, writes=True)
                continue
            # An empty write still makes the buffer live from this step on.
            for begin, end in [*outside(place.begin, place.end, passed)] or [(place.begin,) * 2]:
                for part, source in _by_source(place, begin, end, self._copied(op, tensor, reads)):
                    record.access(lower, name, part, writes=True, source=source)
        if op.bodies:
            call = f"{self.prefix}{self.op_names.copy(op.name, self.bound[op.name])}"
            self.bound[op.name] += 1
            step = lower
            for number, body in enumerate(op.bodies):
                step = self._run_body(body, op, step, call, number)
        run = self._run_record(op, lower, reads, writes)
        lost = self._overwritten(run, reads)
        for place in (*(read for read in reads if read not in lost), *writes):
            record.access(upper - 1, name, place, writes=False)

    def _run_record(
        self, op: Op, step: int, reads: Sequence[Place], writes: Sequence[Place]
    ) -> Run:
        retentions = {place.retention for place in reads}
        passed_on = frozenset(place.tensor for place in writes if place.retention in retentions)
        places = {place.tensor: place for place in (*reads, *writes)}
        run = Run(step, op, places, passed_on)
        if not self.prefix:
            self.record.runs.append(run)
        return run

    def _overwritten(self, run: Run, reads: Sequence[Place]) -> Collection[Place]:
        """Places of inputs that an output overwrites: they need not be intact at the op's end.

        The op may also read the same bytes under another name, perhaps after they are overwritten:
        such an input is listed only if the op may overwrite it under that name too.
        """
        if self.prefix or not self.record.over or not run.op.in_place:
            return ()
        lost: set[Place] = set()
        allowed = frozenset(run.op.in_place)
        at: dict[tuple[Retention, int, int], list[Place]] = {}
        for read in reads:
            at.setdefault(read[1:], []).append(read)
        for output, gone in run.in_place():
            if (output.copy, gone.copy) in self.record.over:
                lost.update(
                    read for read in at.get(gone[1:], ()) if (output.tensor, read.tensor) in allowed
                )
        return lost

    def _copied(self, op: Op, tensor: str, reads: Sequence[Place]) -> list[tuple[int, int, Place]]:
        """Ranges of an output's bytes ``[begin, end)`` that are only copied, with their sources."""
        _, start = self.graph.root[tensor]
        by_name = {place.tensor: place for place in reads}
        found = []
        for part, whole, offset in op.placements:
            size = self.graph.tensor[part].nbytes
            if whole == tensor and part in by_name:
                found.append((start + offset, start + offset + size, by_name[part]))
            elif part == tensor and whole in by_name:
                base = by_name[whole]
                begin = base.begin + offset
                found.append((start, start + size, base._replace(begin=begin, end=begin + size)))
        return sorted(found, key=lambda copy: copy[:2])

    def _run_body(self, body: Graph, op: Op, start: int, call: str, number: int) -> int:
        program = to_anf(body)
        stop = start + max(1, program.starts[-1])
        boundary = [t for t in body.tensors if t.kind in ("input", "output")]
        given = {
            tensor.name: self.place(tensor.name).retention
            for tensor in boundary
            if tensor.name in op.tensors and body.is_storage(tensor.name)
        }
        inner = _Scope(body, self.record, f"{call}/{number}/", given)
        # The op brings the inputs of its body, which stay as long as the body runs.
        carried = []
        inputs = {body.root[tensor.name][0] for tensor in boundary if tensor.kind == "input"}
        for root in dict.fromkeys(body.root[tensor.name][0] for tensor in boundary):
            if root not in body.producer:
                inner.begin_unproduced(root, call, start)
            elif root not in inputs:
                continue
            elif root not in given:
                self.record.access(
                    start, call, inner._place_in(inner._begin(root), root), writes=True
                )
            carried.append(inner._place_in(inner.newest[root], root))
        used = {body.root[name][0] for inner_op in body.ops for name in inner_op.tensors}
        for tensor in body.tensors:
            if tensor.kind == "constant" and tensor.name in used:
                inner.begin_unproduced(tensor.name, call, start)
        inner.run(program, start)
        # The op reads the body's outputs when the body ends; they need no bytes before they are
        # written.
        carried += [inner.place(tensor.name) for tensor in boundary if tensor.kind == "output"]
        for place in carried:
            self.record.access(stop - 1, call, place, writes=False)
        return stop

    def _retention_to_write(self, tensor: str, passing: Mapping[str, Retention]) -> Retention:
        root = self.graph.root[tensor][0]
        if root in passing:
            return passing[root]
        newest = self.newest.get(root)
        if newest is None or (root not in self.given and self.home.get(tensor) is newest):
            return self._begin(root)
        return newest

    def _begin(self, root: str) -> Retention:
        tensor, previous = self.graph.tensor[root], self.newest.get(root)
        number = 0 if previous is None else previous.number + 1
        name = f"{self.prefix}{self.names.copy(root, number)}"
        placed = tensor.kind != "constant" or self.record.residency.constants == "keep"
        if placed and name in self.record.names:
            raise VerificationError(f"two buffers would bear the name {name!r}")
        self.record.names.add(name)
        tensors = self.tensors[root]
        retention = Retention(
            name,
            number,
            tensor.nbytes,
            self._alignment(root),
            placed,
            tensors,
            tensor.kind,
            bool(self.prefix),
            names=self.names,
        )
        self.newest[root] = retention
        self.copies.setdefault(root, []).append(retention)
        if tensor.kind == "constant":
            # All copies of a constant's storage are in the arena throughout.
            self.record.constants.append(self._place_in(retention, root))
        return retention

    def _place_in(self, retention: Retention, tensor: str) -> Place:
        begin = self.graph.root[tensor][1]
        return Place(tensor, retention, begin, begin + self.graph.tensor[tensor].nbytes)


def _by_source(
    place: Place, begin: int, end: int, copied: Sequence[tuple[int, int, Place]]
) -> Iterator[tuple[Place, Place | None]]:
    """Pieces of bytes ``[begin, end)`` of a place, each with its source, or ``None`` if new."""
    for low, high, source in copied:
        low, first = max(low, begin), low
        high = min(high, end)
        if low < high:
            if begin < low:
                yield place._replace(begin=begin, end=low), None
            start = source.begin + low - first
            yield (
                place._replace(begin=low, end=high),
                source._replace(begin=start, end=start + high - low),
            )
            begin = high
    if begin < end or begin == place.begin:
        yield place._replace(begin=begin, end=max(begin, end)), None


def outside(begin: int, end: int, cover: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The parts of ``[begin, end)`` that the intervals of ``cover`` leave uncovered."""
    for low, high in sorted(cover):
        if begin < min(low, end):
            yield begin, min(low, end)
        begin = max(begin, high)
    if begin < end:
        yield begin, end
