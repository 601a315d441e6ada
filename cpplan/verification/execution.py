"""Level 3 of verification: the real model, with real numbers, inside the planned arena.

Every op of a model runs twice with the same kernel: once without a plan, each result in memory of
its own, and once on one NumPy arena of exactly ``plan.peak`` bytes. First, all bytes that the op
will write, also in its bodies, are filled with a pattern, as a kernel that writes while it reads
would change them; bytes written in place, and bytes already at the place to which they would be
copied, are left unchanged. Then the op's inputs, and then its results, are compared bit for bit
with the unplanned run. Once the results are in the arena, its inputs and outputs are compared
again, except for inputs overwritten in place, and its scratch memory must still hold the pattern.
So a plan that breaks any op is caught at that op, even if the final outputs hide it.

A :class:`ModelRun`, which the reader of a format provides, has the kernels. Moves between pools run
as ops of their own (:func:`execute_with_moves`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Protocol

import numpy as np

from cpplan.model.errors import VerificationError
from cpplan.model.graph import Graph, Op
from cpplan.model.plan import Plan
from cpplan.verification.access_trace import Access
from cpplan.verification.lowering import Lowered
from cpplan.verification.moves import check_moves
from cpplan.verification.needed_buffers import planned_offsets, pool_starts
from cpplan.verification.relations import pairs_in_place
from cpplan.verification.runs import Place
from cpplan.verification.tensor_bytes import Array, Bytes, from_bytes, to_bytes

_SCRATCH = np.uint8(0xA5)
# Stands for constants of bodies, whose values the model's runtime keeps to itself.
_INNER = np.uint8(0x5A)


@dataclass(frozen=True, slots=True, eq=False)
class Execution:
    """Counts and outputs of an execution.

    Attributes
    ----------
    steps
        Ops run in the arena, recomputations included.
    bytes_checked
        Bytes of the arena compared with the unplanned run.
    arena_bytes
        The arena's size.
    outputs
        The model's outputs by name, read from the arena at the end.
    """

    steps: int
    bytes_checked: int
    arena_bytes: int
    outputs: Mapping[str, Array] = field(repr=False)


class ModelRun(Protocol):
    """A model with values for its inputs and constants, whose ops can be run one by one.

    Attributes
    ----------
    graph
        The model; every tensor that lies in an arena, except workspaces, has a dtype.
    output_names
        The model's outputs in its order.
    """

    @property
    def graph(self) -> Graph:
        """The model's graph."""

    @property
    def output_names(self) -> Sequence[str]:
        """The model's outputs in its order."""

    def values(self) -> Mapping[str, Array]:
        """Every value of the unplanned run, constants and inputs included."""

    def compute(self, op: Op, arrays: Mapping[str, Array]) -> Mapping[str, Array]:
        """Results of an op on these inputs; others have their values of the unplanned run."""


def execute_in_arena(run: ModelRun, plan: Plan) -> Execution:
    """Run a model inside the planned arena; raise if a byte differs from the unplanned run."""
    offsets = planned_offsets(plan) + pool_starts(plan)
    if plan.peak is None:
        raise VerificationError("the plan holds no peak")
    lowered = Lowered(run.graph, plan)
    arena: Bytes = np.full(plan.peak, _SCRATCH)
    placed = dict(zip(plan.buffers, offsets.tolist(), strict=True))
    return _Arena(run.graph, arena, placed, plan, run.values()).execute(lowered, run)


class _Arena:
    """The arena's bytes, with the expected values and the last writers."""

    def __init__(
        self,
        graph: Graph,
        arena: Bytes,
        offset: Mapping[str, int],
        plan: Plan,
        unplanned: Mapping[str, Array],
    ):
        self.graph, self.bytes, self.offset = graph, arena, offset
        # Kernels have scratch memory of their own; the pattern stands for what they write there.
        scratch = [tensor for tensor in graph.tensors if tensor.kind == "workspace"]
        pattern = {tensor.name: np.full(tensor.nbytes, _SCRATCH) for tensor in scratch}
        self.unplanned = {**unplanned, **pattern}
        self.over = pairs_in_place(graph, plan)
        self.writes: list[tuple[int, int, str]] = []
        self.checked = 0

    def execute(self, lowered: Lowered, run: ModelRun) -> Execution:
        program, accesses = lowered.program, lowered.accesses
        callers = [access for access in accesses if access.op is None]
        before = list(takewhile(lambda access: access.op is None, accesses))
        groups: list[list[Access]] = [[] for _ in program.order]
        for access in accesses:
            if access.op is not None:
                groups[bisect_right(program.starts, access.step) - 1].append(access)
        for access in before:
            if access.writes:
                self._write(access.place, self._expected(access.place), "the caller")
            else:
                self._check(access.place, "before the first step:")
        for op, step, group in zip(program.ops, program.starts, groups, strict=False):
            self._run_op(op, step, group, run)
        for access in callers[len(before) :]:
            self._check(access.place, "after the last step:")
        lying = {access.place.tensor: access.place for access in callers}
        outputs = {
            name: self._load(lying[name]).copy() if name in lying else self.unplanned[name]
            for name in run.output_names
        }
        return Execution(len(program.order), self.checked, len(self.bytes), outputs)

    def _run_op(self, op: Op, step: int, accesses: list[Access], run: ModelRun) -> None:
        where = f"step {step}: op {op.name!r}"
        writes = [access for access in accesses if access.writes]
        in_place = {output for output, _ in self.over}
        for access in writes:
            lies_there = access.source is not None and self._span(access.source) == self._span(
                access.place
            )
            if not lies_there and access.place.copy not in in_place:
                begin, end = self._span(access.place)
                self.bytes[begin:end] = _SCRATCH
                self._log(access.place, f"{access.op!r} at step {access.step}")
        own = set(op.tensors)
        # The op's own checks come last, so that they stand for its tensors.
        checks = [t.place for t in accesses if not t.writes and t.op == op.name]
        places = {place.tensor: place for place in checks if place.tensor in own}
        # An input is checked before and after the op; one that is overwritten, only before.
        times = Counter(place.tensor for place in checks)
        lost = {name for name in op.inputs if times[name] == 1}
        for name in op.inputs:
            if name in places:
                self._check(places[name], f"{where} reads")
        placed = {name: places[name] for name in op.inputs if name in places}
        arrays = {name: self._load(place) for name, place in placed.items()}
        results = run.compute(op, arrays)
        for name, result in results.items():
            expected = self.unplanned[name]
            dtype = self._dtype(name)
            same = result.shape == expected.shape
            if not same or not np.array_equal(to_bytes(result, dtype), to_bytes(expected, dtype)):
                raise VerificationError(
                    f"{where} computes other bytes for {name!r} than in the unplanned run, "
                    "from the same inputs"
                )
        for access in writes:
            if access.place.tensor in op.outputs and access.op == op.name:
                result = results[access.place.tensor]
                self._store(access.place, result, f"{op.name!r} at step {step}")
        lost |= self._add(op, step, places, results)
        for name, place in places.items():
            if name not in lost:
                did = "had read" if name in op.inputs else "wrote"
                self._check(place, f"{where} {did}")

    def _add(
        self, op: Op, step: int, places: Mapping[str, Place], results: Mapping[str, Array]
    ) -> set[str]:
        """Store outputs that an op writes over an input's storage; return the inputs they replace.

        Such an output is declared a view of the input but has other bytes, such as a sum added to.
        """
        replaced: set[str] = set()
        for name in op.outputs:
            if self.graph.tensor[name].view_of is None:
                continue
            roots = {n for n in op.inputs if n in places and self._is_at(places, n, name)}
            before = [to_bytes(self.unplanned[n], self._dtype(n)) for n in roots]
            after = to_bytes(self.unplanned[name], self._dtype(name))
            if roots and not any(np.array_equal(one, after) for one in before):
                self._store(places[name], results[name], f"{op.name!r} at step {step}")
                replaced |= roots
        return replaced

    def _is_at(self, places: Mapping[str, Place], one: str, other: str) -> bool:
        """True if two tensors lie at the same bytes."""
        return other in places and self._span(places[one]) == self._span(places[other])

    def _span(self, place: Place) -> tuple[int, int]:
        """Addresses of a tensor's bytes."""
        if place.retention.name not in self.offset:
            raise VerificationError(f"the plan places no buffer {place.retention.name!r}")
        offset = self.offset[place.retention.name]
        begin, end = offset + place.begin, offset + place.end
        if begin < 0 or end > len(self.bytes):
            raise VerificationError(
                f"tensor {place.tensor!r} at bytes [{begin}, {end}) lies outside the arena of "
                f"{len(self.bytes)} B"
            )
        return begin, end

    def _part(self, place: Place, value: Array) -> Bytes:
        """The bytes of a tensor's value that lie at a place; it may hold only a part of them.

        They may be fewer than planned: a branch or a loop may write fewer bytes than its maximum.
        """
        start = self.graph.root[place.tensor][1]
        whole = to_bytes(value, self._dtype(place.tensor))
        return whole[place.begin - start : place.end - start]

    def _expected(self, place: Place) -> Bytes:
        """The bytes of the unplanned run that lie at a place."""
        if place.tensor not in self.graph.tensor:  # a constant of a body
            return np.full(place.end - place.begin, _INNER)
        return self._part(place, self.unplanned[place.tensor])

    def _store(self, place: Place, value: Array, writer: str) -> None:
        self._write(place, self._part(place, value), writer)

    def _write(self, place: Place, part: Bytes, writer: str) -> None:
        begin, _ = self._span(place)
        self.bytes[begin : begin + len(part)] = part
        self._log(place, writer)

    def _load(self, place: Place) -> Array:
        begin, _ = self._span(place)
        expected = self.unplanned[place.tensor]
        raw = self.bytes[begin : begin + len(self._part(place, expected))]
        return from_bytes(raw, self._dtype(place.tensor), expected)

    def _dtype(self, tensor: str) -> str:
        held = self.graph.tensor[tensor]
        dtype = "uint8" if held.kind == "workspace" else held.dtype
        assert dtype is not None  # the reader refuses tensors without a dtype
        return dtype

    def _check(self, place: Place, where: str) -> None:
        begin, _ = self._span(place)
        expected = self._expected(place)
        actual = self.bytes[begin : begin + len(expected)]
        self.checked += len(expected)
        if np.array_equal(actual, expected):
            return
        address = begin + int(np.argmax(actual != expected))
        writers = (by for low, high, by in reversed(self.writes) if low <= address < high)
        raise VerificationError(
            f"{where} tensor {place.tensor!r} at bytes [{begin}, {begin + len(expected)}), but "
            f"byte {address} is not that of the unplanned run: last written by "
            f"{next(writers, 'nobody')}"
        )

    def _log(self, place: Place, writer: str) -> None:
        self.writes.append((*self._span(place), f"{writer} as {place.tensor!r}"))


def execute_with_moves(run: ModelRun, plan: Plan) -> Execution:
    """Run a model by a plan with moves; raise if a byte differs from the unplanned run.

    The pools lie one above the other in one arena. A move copies the bytes at its source; at every
    step, the copies of a tensor must have the bytes of the unplanned run.
    """
    lowered = Lowered(run.graph, plan)
    inner, moving, runs = lowered.moving
    check_moves(inner, moving)
    moved = lowered.moved
    origin = {copy: runs.get(tensor, tensor) for copy, tensor in moved.origin.items()}
    moved_run = _MovedRun(run, lowered.graph, origin, moved.ends, runs)
    done = execute_in_arena(moved_run, lowered.plan)
    outputs = {name: done.outputs[moved.ends[name]] for name in run.output_names}
    return Execution(done.steps, done.bytes_checked, done.arena_bytes, outputs)


class _MovedRun:
    """The kernels of a model for the copies of its tensors."""

    def __init__(
        self,
        run: ModelRun,
        graph: Graph,
        origin: Mapping[str, str],
        ends: Mapping[str, str],
        runs: Mapping[str, str],
    ):
        self.run, self.graph, self.origin, self.runs = run, graph, origin, runs
        self.output_names: Sequence[str] = tuple(ends[name] for name in run.output_names)

    def values(self) -> Mapping[str, Array]:
        """Values of the unplanned run; all copies of a tensor have the tensor's value."""
        known = self.run.values()
        copies = {copy: known[tensor] for copy, tensor in self.origin.items() if tensor in known}
        return {**known, **copies}

    def compute(self, op: Op, arrays: Mapping[str, Array]) -> Mapping[str, Array]:
        """Results of an op, or the bytes that a move copies."""
        name = self.runs.get(op.name, op.name)
        if name not in self.run.graph.op:
            return dict.fromkeys(op.outputs, arrays[op.inputs[0]])
        found = self.run.compute(
            self.run.graph.op[name],
            {self.origin.get(name, name): array for name, array in arrays.items()},
        )
        return {
            copy: found[tensor]
            for copy, tensor in ((name, self.origin.get(name, name)) for name in op.outputs)
            if tensor in found
        }
