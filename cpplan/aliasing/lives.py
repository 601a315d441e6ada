"""When storages live, as far as it decides who may share bytes: at one order, or at any."""

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

# Storages of which one number says when all have ended.
_BLOCK = 256


class Lives(Protocol):
    """What must be known of two storages' lives."""

    def apart(self, one: str, other: str) -> bool:
        """Whether they are never live at one step."""

    def hands_over(self, one: str, other: str, op: int) -> bool:
        """Whether an op is the last to touch ``one``, for good, and the first to touch ``other``.

        Then they meet while the op runs, and at no other step.
        """

    def together(self, names: Sequence[str]) -> Callable[[str], Sequence[str]]:
        """Of each of these storages, the others of them that may be live at one step with it."""


def kept_storages(graph: Graph, residency: Residency) -> set[str]:
    """Storages that somebody reads when all ops have run, or that must stay as they are."""
    kept = set()
    for tensor in graph.tensors:
        stays = tensor.kind in ("output", "constant")
        if stays or (tensor.kind == "input" and residency.inputs == "keep"):
            kept.add(graph.root[tensor.name][0])
    return kept


class ProgramLives:
    """Lives at a program's order; it binds every op once.

    Parameters
    ----------
    program
        Ops in order.
    problem
        The program's buffers, as ``to_problem`` gives them.
    residency
        What the caller does with the boundary.
    """

    def __init__(self, program: Program, problem: Problem, residency: Residency):
        self.kept = kept_storages(program.graph, residency)
        names = problem.names
        self.lower: dict[str, int] = dict(zip(names, problem.lower.tolist(), strict=True))
        self.upper: dict[str, int] = dict(zip(names, problem.upper.tolist(), strict=True))
        self.step = dict(zip(program.order, program.starts, strict=False))

    def apart(self, one: str, other: str) -> bool:
        return self.upper[one] <= self.lower[other] or self.upper[other] <= self.lower[one]

    def hands_over(self, one: str, other: str, op: int) -> bool:
        step = self.step[op]
        return one not in self.kept and self.upper[one] == step + 1 and self.lower[other] == step

    def together(self, names: Sequence[str]) -> Callable[[str], Sequence[str]]:
        """O(names log names) to begin with; then O(names / 256 + those found) as a rule."""
        ordered = sorted(names, key=self.lower.__getitem__)
        lower = np.array([self.lower[name] for name in ordered], np.int64)
        upper = np.array([self.upper[name] for name in ordered], np.int64)
        starts = np.arange(0, len(ordered), _BLOCK)
        last = np.maximum.reduceat(upper, starts) if len(ordered) else upper

        def live_with(name: str) -> list[str]:
            begin, end = self.lower[name], self.upper[name]
            # What begins later meets it if it begins before the end; what begins earlier, if it
            # ends after the beginning.
            many = int(np.searchsorted(lower, end, side="left"))
            blocks = np.flatnonzero(last[: -(-many // _BLOCK)] > begin) * _BLOCK
            rows = (blocks[:, None] + np.arange(_BLOCK)).ravel()
            rows = rows[rows < many]
            return [ordered[k] for k in rows[upper[rows] > begin].tolist() if ordered[k] != name]

        return live_with


class AnyOrderLives:
    """What holds of lives in every order that a graph allows. O(ops² / 64) words."""

    def __init__(self, graph: Graph, residency: Residency):
        self.graph = graph
        self.kept = kept_storages(graph, residency)
        self.touchers: dict[str, int] = defaultdict(int)
        self.writer: dict[str, int] = {}
        for number, op in enumerate(graph.ops):
            for name in op.tensors:
                self.touchers[graph.root[name][0]] |= 1 << number
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
        rest = self.touchers[one] & ~(1 << op)
        last = one not in self.kept and not rest & ~self.ancestors[op]
        return last and self.touchers[one] != rest and self.writer.get(other) == op

    def together(self, names: Sequence[str]) -> Callable[[str], Sequence[str]]:
        """O(storages × (storages + ops)) bits at a time."""
        ops = len(self.graph.ops)
        # Whether every toucher of a storage (row) comes before an op (column) in every order.
        gone = np.zeros((len(names), ops), bool)
        after = self._descendants()
        for row, name in enumerate(names):
            touchers = np.flatnonzero(_bits(self.touchers[name], ops))
            if len(touchers) and name not in self.kept:
                gone[row] = after[touchers].all(axis=0)
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
        """Row: an op; column: an op that runs after it in every order."""
        ops = len(self.graph.ops)
        before = np.array([_bits(bits, ops) for bits in self.ancestors]).reshape(ops, ops)
        after: NDArray[np.bool_] = before.T
        return after

    def _precedes(self, one: str, other: str) -> bool:
        """Whether ``one`` is gone before ``other`` is written."""
        writer = self.writer.get(other)
        if writer is None or one in self.kept:
            return False
        return not self.touchers[one] & ~self.ancestors[writer]


def _bits(bits: int, count: int) -> NDArray[np.bool_]:
    """The lowest bits of an integer as an array, shape ``(count,)``."""
    raw = np.frombuffer(bits.to_bytes(-(-count // 8), "little"), np.uint8)
    return np.unpackbits(raw, count=count, bitorder="little").astype(bool)
