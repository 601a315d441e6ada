"""Lifespans of storages as the rules of sharing need them, at one order or for every order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cpplan.model.graph import Graph
from cpplan.model.problem import Problem
from cpplan.model.residency import Residency
from cpplan.program.anf import Program

# Storages per block; a block is skipped by the last end of its storages.
_BLOCK = 256


class Lives(Protocol):
    """The facts about storages' lifespans that the rules of sharing need."""

    def apart(self, one: str, other: str) -> bool:
        """True if the two storages are never live at one step."""

    def hands_over(self, one: str, other: str, op: int) -> bool:
        """True if an op is the last to access ``one``, for good, and the first to access ``other``.

        Both are then live together at the op's step only.
        """

    def together(self, names: Sequence[str]) -> Callable[[str], Sequence[str]]:
        """Function from one of these storages to the others that may be live at the same step."""


def kept_storages(graph: Graph, residency: Residency) -> set[str]:
    """Storages that are read after all ops have run, or that no op may change."""
    columns = graph.columns
    stays = columns.are({"output", "constant", *(["input"] * (residency.inputs == "keep"))})
    return {columns.names[k] for k in columns.root[stays].tolist()}


class ProgramLives:
    """Lifespans at a program's order; the program must bind every op once.

    Parameters
    ----------
    program
        Ops in order.
    problem
        The program's buffers, as ``to_problem`` gives them.
    residency
        The caller's use of the boundary tensors.
    """

    def __init__(self, program: Program, problem: Problem, residency: Residency):
        self._program, self._problem, self._residency = program, problem, residency

    @cached_property
    def kept(self) -> set[str]:
        """Storages that are read after all ops have run, or that no op may change."""
        return kept_storages(self._program.graph, self._residency)

    @cached_property
    def lower(self) -> dict[str, int]:
        """Storage -> its first step."""
        return dict(zip(self._problem.names, self._problem.lower.tolist(), strict=True))

    @cached_property
    def upper(self) -> dict[str, int]:
        """Storage -> the step after its last."""
        return dict(zip(self._problem.names, self._problem.upper.tolist(), strict=True))

    @cached_property
    def step(self) -> dict[int, int]:
        """Op -> its first step."""
        return dict(zip(self._program.order, self._program.starts, strict=False))

    def apart(self, one: str, other: str) -> bool:
        return self.upper[one] <= self.lower[other] or self.upper[other] <= self.lower[one]

    def hands_over(self, one: str, other: str, op: int) -> bool:
        step = self.step[op]
        return one not in self.kept and self.upper[one] == step + 1 and self.lower[other] == step

    def together(self, names: Sequence[str]) -> Callable[[str], Sequence[str]]:
        """The function of :meth:`Lives.together`, built in O(names log names).

        A call usually takes O(names / 256 + storages found).
        """
        ordered = sorted(names, key=self.lower.__getitem__)
        lower = np.array([self.lower[name] for name in ordered], np.int64)
        upper = np.array([self.upper[name] for name in ordered], np.int64)
        starts = np.arange(0, len(ordered), _BLOCK)
        last = np.maximum.reduceat(upper, starts) if len(ordered) else upper

        def live_with(name: str) -> list[str]:
            begin, end = self.lower[name], self.upper[name]
            # Two storages are live together if each begins before the other ends.
            many = int(np.searchsorted(lower, end, side="left"))
            blocks = np.flatnonzero(last[: -(-many // _BLOCK)] > begin) * _BLOCK
            rows = (blocks[:, None] + np.arange(_BLOCK)).ravel()
            rows = rows[rows < many]
            return [ordered[k] for k in rows[upper[rows] > begin].tolist() if ordered[k] != name]

        return live_with


class AnyOrderLives:
    """Facts about lifespans that hold in every order of a graph, in O(ops² / 64) words."""

    def __init__(self, graph: Graph, residency: Residency):
        self.graph = graph
        self.kept = kept_storages(graph, residency)
        self.accessors: dict[str, int] = defaultdict(int)
        self.writer: dict[str, int] = {}
        for number, op in enumerate(graph.ops):
            for name in op.tensors:
                self.accessors[graph.root[name][0]] |= 1 << number
            for name in op.outputs + op.workspaces:
                self.writer.setdefault(graph.root[name][0], number)

    @cached_property
    def ancestors(self) -> list[int]:
        """For every op, the ops that run before it in every order, as bits."""
        before = [0] * len(self.graph.ops)
        done = [False] * len(before)
        for sink in range(len(before)):
            stack = [sink]
            while stack:
                op = stack[-1]
                waiting = [p for p in self.graph.predecessors[op] if not done[p]]
                if waiting and not done[op]:
                    stack += waiting
                    continue
                stack.pop()
                done[op] = True
                for other in self.graph.predecessors[op]:
                    before[op] |= before[other] | 1 << other
        return before

    def apart(self, one: str, other: str) -> bool:
        return self._precedes(one, other) or self._precedes(other, one)

    def hands_over(self, one: str, other: str, op: int) -> bool:
        rest = self.accessors[one] & ~(1 << op)
        last = one not in self.kept and not rest & ~self.ancestors[op]
        return last and self.accessors[one] != rest and self.writer.get(other) == op

    def together(self, names: Sequence[str]) -> Callable[[str], Sequence[str]]:
        """The function of :meth:`Lives.together`, built in O(storages × (storages + ops))."""
        ops = len(self.graph.ops)
        # True if all ops that access a storage (row) precede an op (column) in every order.
        gone = np.zeros((len(names), ops), bool)
        after = self._descendants()
        for row, name in enumerate(names):
            accessors = np.flatnonzero(_bits(self.accessors[name], ops))
            if len(accessors) and name not in self.kept:
                gone[row] = after[accessors].all(axis=0)
        writer = np.array([self.writer.get(name, -1) for name in names], np.int64)
        written = writer >= 0
        found = {}
        for row, name in enumerate(names):
            apart = written & gone[row][writer]
            if writer[row] >= 0:
                apart |= gone[:, writer[row]]
            apart[row] = True
            found[name] = [names[k] for k in np.flatnonzero(~apart).tolist()]
        return found.__getitem__

    def _descendants(self) -> NDArray[np.bool_]:
        """Mask of ops (column) that run after an op (row) in every order, shape ``(ops, ops)``."""
        ops = len(self.graph.ops)
        before = np.array([_bits(bits, ops) for bits in self.ancestors]).reshape(ops, ops)
        after: NDArray[np.bool_] = before.T
        return after

    def _precedes(self, one: str, other: str) -> bool:
        """True if ``one`` is dead before ``other`` is written."""
        writer = self.writer.get(other)
        if writer is None or one in self.kept:
            return False
        return not self.accessors[one] & ~self.ancestors[writer]


def _bits(bits: int, count: int) -> NDArray[np.bool_]:
    """The lowest bits of an integer as an array, shape ``(count,)``."""
    raw = np.frombuffer(bits.to_bytes(-(-count // 8), "little"), np.uint8)
    return np.unpackbits(raw, count=count, bitorder="little").astype(bool)
