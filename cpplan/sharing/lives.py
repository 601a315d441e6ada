"""When storages live, as far as it decides who may share bytes: at one order, or at any."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import Protocol

from cpplan.anf import Program
from cpplan.graph import Graph
from cpplan.problem import Problem
from cpplan.residency import Residency


class Lives(Protocol):
    """What must be known of two storages' lives."""

    def apart(self, one: str, other: str) -> bool:
        """Whether they are never live at one step."""

    def hands_over(self, one: str, other: str, op: int) -> bool:
        """Whether an op is the last to touch ``one``, for good, and the first to touch ``other``.

        Then they meet while the op runs, and at no other step.
        """


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

    def _precedes(self, one: str, other: str) -> bool:
        """Whether ``one`` is gone before ``other`` is written."""
        writer = self.writer.get(other)
        if writer is None or one in self.kept:
            return False
        return not self.touchers[one] & ~self.ancestors[writer]
