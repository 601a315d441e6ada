"""Assignment of buffers without gaps to storages by size class, as a constraint model.

Sets
    B        buffers, each live throughout [lower, upper)
    T        steps, each with the set of buffers live during it
    C        classes: pairs of a group and a size that some buffer of the group has

Parameters (sizes in units of u bytes, their greatest common divisor)
    s_b      size of b;  s_c, size of the storages of class c
    d_c      the largest number of buffers of c's group with at least s_c bytes live at one step
    H        a limit on the total, in bytes
    L        a proved lower bound on the total, in bytes

Variables
    x_bc     b lies in a storage of class c, for every c of b's group with s_c >= s_b
    y_c      the number of storages of class c
    total    L <= u total <= H

Constraints
    one class        for every b:  sum of x_bc over c  = 1
    room             at every step, for every c:  sum of x_bc over the b live then  <= y_c
    ranks            for every c:  sum of y_c' over the group's classes with s_c' >= s_c  >= d_c
    total            sum of s_c y_c  = total

Objective
    minimise total

The model does not decide the storage of a buffer within its class. If at most y intervals are live
at once, they fit into y storages: in the order of their first steps, each takes any free storage
(interval graphs are perfect). So no two solutions differ only in the numbers of equal storages, and
there is one literal per buffer and size, not per pair of buffers as in
``formulations.shared_storage``. Buffers with gaps need that model: the buffers of one class may
need more storages than there are buffers live at once.

A storage larger than its largest buffer is never useful, so every storage has the size of some
buffer. ``ranks`` follows from the rest and gives the linear relaxation the bound by rank (see
``formulations.shared_storage``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np
from ortools.sat.python import cp_model

from formulations.polled_model import PolledModel, poll
from formulations.proved_value import proved_value
from formulations.shared_storage import live_sets

if TYPE_CHECKING:
    from cpplan.model.problem import Ints, Problem
    from formulations.positions import Solved


def build(problem: Problem, group: Ints, *, upper: int, lower: int = 0) -> StorageClassesModel:
    """The model of a problem without gaps.

    Parameters
    ----------
    problem
        Buffers; steps may be sections (see ``cpplan.packing.reduction``).
    group
        A label for every buffer, shape ``(n,)``.
    upper, lower
        Limits on the total, bytes.

    Examples
    --------
    >>> from cpplan.model.problem import Problem
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 6])
    >>> sharing = build(problem, np.zeros(3, np.int64), upper=18)
    >>> solver = cp_model.CpSolver()
    >>> solver.solve(sharing.model) == cp_model.OPTIMAL
    True
    >>> sharing.extract(solver).tolist(), sharing.proved_bound(solver)
    ([0, 1, 0], 14)
    """
    if problem.gaps:
        raise ValueError("classes of storages are exact only for buffers without gaps")
    sharing = StorageClassesModel(problem, group, upper, lower)
    sharing.add_classes()
    sharing.add_one_class()
    sharing.add_room()
    sharing.add_ranks()
    sharing.add_total()
    return sharing


@dataclass
class StorageClassesModel:
    """The model under construction, and how to read its solutions."""

    problem: Problem
    group: Ints
    upper: int
    lower: int
    model: PolledModel = field(default_factory=PolledModel)
    unit: int = field(init=False)
    # Class (group, size) -> its number of storages; class -> buffer -> literal that it lies there.
    count: dict[tuple[int, int], cp_model.IntVar] = field(default_factory=dict)
    holds: dict[tuple[int, int], dict[int, cp_model.IntVar]] = field(default_factory=dict)
    total: cp_model.IntVar = field(init=False)

    def __post_init__(self) -> None:
        self.unit = math.gcd(*self.problem.size.tolist()) or 1
        self.cliques = live_sets(self.problem, np.arange(len(self.problem)))

    def add_classes(self) -> None:
        """The variables x_bc and y_c."""
        for label in np.unique(self.group).tolist():
            rows = np.flatnonzero(self.group == label)
            for size in np.unique(self.problem.size[rows])[::-1].tolist():
                small = rows[self.problem.size[rows] <= size].tolist()
                key = (label, size)
                most = self.upper // size if size else len(small)
                self.count[key] = self.model.new_int_var(0, min(len(small), most), f"y_{key}")
                self.holds[key] = {row: self.model.new_bool_var(f"x_{row}_{key}") for row in small}

    def add_one_class(self) -> None:
        """Every buffer lies in a storage of one class."""
        choices: list[list[cp_model.IntVar]] = [[] for _ in range(len(self.problem))]
        for members in self.holds.values():
            for row, lies_here in members.items():
                choices[row].append(lies_here)
        for choice in choices:
            self.model.add_exactly_one(choice)

    def add_room(self) -> None:
        """At every step, a class holds at most as many live buffers as it has storages."""
        for key, members in self.holds.items():
            # Buffers too large for the class are left out, which leaves fewer live sets.
            for clique in live_sets(self.problem, np.array(list(members), np.int64)):
                live = [members[row] for row in clique.tolist()]
                self.model.add(sum(live) <= self.count[key])

    def add_ranks(self) -> None:
        """The number of storages of at least a size is at least the number of such live buffers."""
        for label, size in self.count:
            poll()
            counted = (self.group == label) & (self.problem.size >= size)
            depth = max((int(counted[clique].sum()) for clique in self.cliques), default=0)
            larger = [y for (other, s), y in self.count.items() if other == label and s >= size]
            self.model.add(sum(larger) >= depth)

    def add_total(self) -> None:
        """sum of s_c y_c = total, minimised."""
        low, high = -(-self.lower // self.unit), self.upper // self.unit
        if high < low:
            # CP-SAT rejects an empty domain; a false clause makes the model infeasible.
            self.model.add_bool_or([])
        self.total = self.model.new_int_var(low, max(low, high), "total")
        self.model.add(
            sum(size // self.unit * y for (_, size), y in self.count.items()) == self.total
        )
        self.model.minimize(self.total)

    def hint(self, storage: Ints) -> None:
        """Start from these storage numbers, shape ``(n,)``; every variable gets a value."""
        class_of: dict[int, tuple[int, int]] = {}
        for row in np.argsort(-self.problem.size, kind="stable").tolist():
            key = (int(self.group[row]), int(self.problem.size[row]))
            class_of.setdefault(int(storage[row]), key)
        for key, members in self.holds.items():
            for row, lies_here in members.items():
                self.model.add_hint(lies_here, class_of[int(storage[row])] == key)
            self.model.add_hint(self.count[key], list(class_of.values()).count(key))
        self.model.add_hint(self.total, sum(size for _, size in class_of.values()) // self.unit)

    def in_bytes(self, objective: float) -> int:
        """The total, bytes, for a value of the objective, or the bound for a bound on it."""
        return proved_value(objective) * self.unit

    def proved_bound(self, solver: cp_model.CpSolver) -> int:
        """The lower bound on the total that a run has proved, bytes."""
        return self.in_bytes(solver.best_objective_bound)

    def extract(self, solver: Solved) -> Ints:
        """For every buffer, shape ``(n,)``, the row of the first buffer in its storage."""
        storage = np.zeros(len(self.problem), np.int64)
        upper = self.problem.upper
        for members in self.holds.values():
            chosen = [row for row, lies_here in members.items() if solver.boolean_value(lies_here)]
            # A buffer without bytes is never live and fits anywhere.
            rows = np.array([row for row in chosen if self.problem.size[row]], np.int64)
            storage[chosen] = rows[0] if len(rows) else chosen
            # For each storage, the step at which it is free again, and its first row.
            busy: list[tuple[int, int]] = []
            for row in rows[np.argsort(self.problem.lower[rows], kind="stable")].tolist():
                first = row
                if busy and busy[0][0] <= self.problem.lower[row]:
                    first = heappop(busy)[1]
                heappush(busy, (int(upper[row]), first))
                storage[row] = first
        return storage
