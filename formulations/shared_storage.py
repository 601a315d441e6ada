"""Assignment of buffers to whole storages of least total size, as a constraint model.

Sets
    B        buffers, in leading order: by decreasing size, ties by row
    K        steps, each with the set of buffers that hold bytes during it
    G        groups, a partition of B; only buffers of one group share a storage

Parameters (sizes in units of u bytes, their greatest common divisor)
    s_b      size of b
    H        a limit on the total, in bytes
    L        a proved lower bound on the total, in bytes

Variables
    x_bl     b lies in the storage that l leads, for l = b and for every l before b in b's group
             that is never live together with b
    total    L <= u total <= H

Constraints
    one storage      for every b:  sum of x_bl over l  = 1
    led              x_bl <= x_ll
    apart            at every step, for every l:  sum of x_bl over the b live then  <= x_ll
    total            sum of s_l x_ll  = total

Objective
    minimise total

A storage is named by the first of its members in leading order: the largest, whose size is the
storage's size. So storages have no interchangeable numbers, and no variables for their sizes. For
each leader, the sets of buffers live at a step are restricted to buffers that it can lead, and
subsets of other sets are left out; for a set of a single buffer, ``apart`` equals ``led``.

The bound by rank is a lower bound L that needs no search. If c buffers of at least v bytes are live
at one step, they lie in c storages of at least v bytes each. So the k-th largest storage is at
least as large as the k-th largest buffer live at any step. The sum of these sizes over k bounds the
total (Pisarchyk and Lee, 2020). The bound is never below the live bytes of a step, which are the
same sum with one step for all k. The bounds of several groups are added.

Without groups this is *max-coloring* of an interval graph (Pemmaraju, Raman and Varadarajan,
"Buffer Minimization Using Max-Coloring", SODA 2004), NP-hard; with x_ll for the storages, it is the
asymmetric representatives formulation of colouring (Campêlo, Campos and Corrêa, 2008).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from ortools.sat.python import cp_model

from formulations.polled_model import PolledModel, poll
from formulations.proved_value import proved_value

if TYPE_CHECKING:
    from cpplan.model.problem import Ints, Problem
    from formulations.positions import Solved


def build(problem: Problem, group: Ints, *, upper: int, lower: int = 0) -> SharedStorageModel:
    """The model of a problem.

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
    ([2, 1, 2], 14)
    """
    sharing = SharedStorageModel(problem, group, upper, lower)
    sharing.add_storages()
    sharing.add_one_storage()
    sharing.add_apart()
    sharing.add_total()
    return sharing


@dataclass
class SharedStorageModel:
    """The model under construction, and how to read its solutions."""

    problem: Problem
    group: Ints
    upper: int
    lower: int
    model: PolledModel = field(default_factory=PolledModel)
    unit: int = field(init=False)
    lead: dict[int, dict[int, cp_model.IntVar]] = field(default_factory=dict)
    total: cp_model.IntVar = field(init=False)

    def __post_init__(self) -> None:
        self.unit = math.gcd(*self.problem.size.tolist()) or 1

    def add_storages(self) -> None:
        """The variables x_bl as ``lead[l][b]``: by leader, then by buffer."""
        order = leading_order(self.problem)
        meets = meeting(self.problem)
        for k, leader in enumerate(order.tolist()):
            rest = order[k + 1 :]
            may = rest[(self.group[rest] == self.group[leader]) & ~meets[leader, rest]]
            self.lead[leader] = {
                row: self.model.new_bool_var(f"x_{row}_{leader}") for row in [leader, *may.tolist()]
            }

    def add_one_storage(self) -> None:
        """Every buffer lies in one storage."""
        choices: list[list[cp_model.IntVar]] = [[] for _ in range(len(self.problem))]
        for members in self.lead.values():
            for row, lies_here in members.items():
                choices[row].append(lies_here)
        for choice in choices:
            self.model.add_exactly_one(choice)

    def add_apart(self) -> None:
        """A storage holds at most one buffer live at a step, and none without its leader."""
        for leader, members in self.lead.items():
            exists = members[leader]
            rows = np.array([row for row in members if row != leader], np.int64)
            crowded = np.zeros(len(self.problem), bool)
            for clique in live_sets(self.problem, rows):
                if len(clique) > 1:
                    crowded[clique] = True
                    # At most one, and none if the storage does not exist.
                    self.model.add_at_most_one(
                        [members[row] for row in clique.tolist()] + [~exists]
                    )
            for row in rows[~crowded[rows]].tolist():
                self.model.add_implication(members[row], exists)

    def add_total(self) -> None:
        """sum of s_l x_ll = total, minimised."""
        low, high = -(-self.lower // self.unit), self.upper // self.unit
        if high < low:
            # CP-SAT rejects an empty domain; a false clause makes the model infeasible.
            self.model.add_bool_or([])
        self.total = self.model.new_int_var(low, max(low, high), "total")
        sizes = (self.problem.size // self.unit).tolist()
        self.model.add(
            sum(sizes[leader] * members[leader] for leader, members in self.lead.items())
            == self.total
        )
        self.model.minimize(self.total)

    def hint(self, storage: Ints) -> None:
        """Start from these storage numbers, shape ``(n,)``; every variable gets a value."""
        leader_of: dict[int, int] = {}
        for row in leading_order(self.problem).tolist():
            leader_of.setdefault(int(storage[row]), row)
        total = 0
        for leader, members in self.lead.items():
            for row, lies_here in members.items():
                self.model.add_hint(lies_here, leader_of[int(storage[row])] == leader)
            if leader_of[int(storage[leader])] == leader:
                total += int(self.problem.size[leader]) // self.unit
        self.model.add_hint(self.total, total)

    def in_bytes(self, objective: float) -> int:
        """The total, bytes, for a value of the objective, or the bound for a bound on it."""
        return proved_value(objective) * self.unit

    def proved_bound(self, solver: cp_model.CpSolver) -> int:
        """The lower bound on the total that a run has proved, bytes."""
        return self.in_bytes(solver.best_objective_bound)

    def extract(self, solver: Solved) -> Ints:
        """For every buffer, shape ``(n,)``, the row that leads its storage."""
        storage = np.zeros(len(self.problem), np.int64)
        for leader, members in self.lead.items():
            for row, lies_here in members.items():
                if solver.boolean_value(lies_here):
                    storage[row] = leader
        return storage


def leading_order(problem: Problem) -> Ints:
    """Rows by decreasing size, ties by row."""
    return np.argsort(-problem.size, kind="stable")


def meeting(problem: Problem) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Pairs of buffers that hold bytes at a common step, as a mask of shape ``(n, n)``."""
    spans = problem.spans
    held = spans.end > spans.begin
    buffer, lower, upper = spans.buffer[held], spans.lower[held], spans.upper[held]
    meets = np.zeros((len(problem), len(problem)), bool)
    for row, begin, end in zip(buffer.tolist(), lower.tolist(), upper.tolist(), strict=True):
        poll()
        meets[row, buffer[(lower < end) & (begin < upper)]] = True
    return meets


def live_sets(problem: Problem, rows: Ints) -> list[Ints]:
    """Sets of these rows that hold bytes together, none a subset of the set before or after it.

    Examples
    --------
    >>> from cpplan.model.problem import Problem
    >>> problem = Problem(("a", "b", "c"), lower=[0, 1, 2], upper=[2, 3, 4], size=[4, 8, 6])
    >>> [clique.tolist() for clique in live_sets(problem, np.array([0, 1, 2]))]
    [[0, 1], [1, 2]]
    """
    spans = problem.spans
    chosen = np.zeros(len(problem), bool)
    chosen[rows] = True
    held = chosen[spans.buffer] & (spans.end > spans.begin)
    buffer, lower, upper = spans.buffer[held], spans.lower[held], spans.upper[held]
    starts, ends = np.unique(lower), np.unique(upper)
    if len(ends) == 0:
        return []
    # Ends of spans with no other end since the latest begin: the live set is largest there.
    latest_start = starts[np.searchsorted(starts, ends, side="left") - 1]
    closes = ends[latest_start >= np.concatenate([[-1], ends[:-1]])]
    # The spans begun before each end, less the spans ended before: each span is added once.
    by_start = np.argsort(lower, kind="stable")
    begun = np.searchsorted(lower[by_start], closes, side="left")
    live, sets = by_start[:0], []
    for first, last, end in zip([0, *begun[:-1]], begun, closes, strict=True):
        poll()
        live = np.concatenate([live[upper[live] >= end], by_start[first:last]])
        live = live[upper[live] >= end]
        sets.append(np.unique(buffer[live]))
    return sets
