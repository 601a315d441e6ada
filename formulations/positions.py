"""Steps of ops and lifespans of storages, the part that all models of an order share.

Sets
    V        ops, n of them; E, the precedences between them, transitively reduced
    S        storages; T_s, the ops that access s
    T'_s     the ops of T_s that no other op of T_s must precede
    T"_s     the ops of T_s that must precede no other op of T_s

Parameters
    A_v, D_v the number of ancestors and of descendants of v

Variables
    p_v      the step at which v runs, A_v <= p_v <= n - 1 - D_v
    b_s      the first step at which s is live
    e_s      the first step at which s is free again

Constraints
    precedence       p_u + 1 <= p_v                          for (u, v) in E
    birth            b_s <= p_v for v in T'_s;  b_s = 0 if the caller brings s
    death            e_s >= p_v + 1 for v in T"_s;  e_s = n if s is kept;  e_s = 1 if T_s is empty
    first step       some p_v = 0; only if bytes are live at the first step only, such as a storage
                     that no op accesses

Ops may share a step. Every storage that one of these ops accesses is then live at that step, so
running them one after another, in any order, needs no more bytes than the model counts. Conversely,
every order is a solution without shared steps. Without an ``AllDifferent``, CP-SAT proves several
times faster. Birth and death are inequalities: a solution never gains by a longer lifespan. If T'_s
or T"_s is a single op, as for every storage with one producer, b_s or e_s is the step of that op
and not a variable of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from ortools.sat.python import cp_model

if TYPE_CHECKING:
    from cpplan.model.order_problem import OrderProblem
    from cpplan.model.problem import Ints

# A source of the variables' values: a finished run, or a solution found during a run.
Solved: TypeAlias = "cp_model.CpSolver | cp_model.CpSolverSolutionCallback"


class Precedence:
    """Precedences between ops; a set of ops is the bits of an int.

    Examples
    --------
    >>> diamond = Precedence(((), (0,), (0,), (0, 1, 2)))
    >>> diamond.ancestors[3].bit_count(), diamond.descendants[0].bit_count()
    (3, 3)
    >>> diamond.reduced[3]
    [1, 2]
    >>> diamond.earliest([3, 1, 2]), diamond.latest([0, 1, 2])
    ([1, 2], [1, 2])
    """

    def __init__(self, predecessors: Sequence[Sequence[int]]):
        count = len(predecessors)
        waiting = [len(before) for before in predecessors]
        after: list[list[int]] = [[] for _ in predecessors]
        for op, before in enumerate(predecessors):
            for other in before:
                after[other].append(op)
        order = [op for op in range(count) if not waiting[op]]
        for op in order:
            for other in after[op]:
                waiting[other] -= 1
                if not waiting[other]:
                    order.append(other)
        self.ancestors, self.descendants = [0] * count, [0] * count
        for op in order:
            for other in predecessors[op]:
                self.ancestors[op] |= self.ancestors[other] | 1 << other
        for op in reversed(order):
            for other in after[op]:
                self.descendants[op] |= self.descendants[other] | 1 << other
        #: For every op, the predecessors that precede none of its other predecessors.
        self.reduced = [self.latest(sorted(set(before))) for before in predecessors]

    def earliest(self, ops: Iterable[int]) -> list[int]:
        """The ops that none of the other given ops must precede, ascending."""
        ops = sorted(ops)
        members = sum(1 << op for op in ops)
        return [op for op in ops if not self.ancestors[op] & members]

    def latest(self, ops: Iterable[int]) -> list[int]:
        """The ops that must precede none of the other given ops, ascending."""
        ops = sorted(ops)
        members = sum(1 << op for op in ops)
        return [op for op in ops if not self.descendants[op] & members]


@dataclass(eq=False)
class Life:
    """The lifespan of storages that begin and end with the same ops.

    Attributes
    ----------
    earliest
        The storages are live from the first of these ops; empty if they are present from the start.
    latest
        The storages are freed after the last of these ops; empty if they are kept to the end, or
        idle.
    idle
        True if no op accesses the storages: they are live at the first step only.
    begin, end, length
        Steps; constants or affine expressions in one variable.
    own
        The variables among the three, by their names: "begin", "end" or "length".
    """

    earliest: tuple[int, ...]
    latest: tuple[int, ...]
    idle: bool = False
    begin: cp_model.LinearExpr | int = 0
    end: cp_model.LinearExpr | int = 0
    length: cp_model.LinearExpr | int = 0
    own: list[tuple[str, cp_model.IntVar]] = field(default_factory=list)

    def at(self, step: Ints) -> dict[str, int]:
        """Begin, end and length if op ``v`` runs at ``step[v]``."""
        begin = int(step[list(self.earliest)].min()) if self.earliest else 0
        end = int(step[list(self.latest)].max()) + 1 if self.latest else len(step)
        if self.idle:
            end = 1
        return {"begin": begin, "end": end, "length": end - begin}


class Positions:
    """The steps of a problem's ops and the lifespans of its storages, as variables of a model.

    Attributes
    ----------
    position
        p_v of every op.
    life
        The lifespan of every storage; storages that begin and end with the same ops share one.
    interval
        The interval variable of every lifespan, in the order of first occurrence in ``life``.
    """

    def __init__(self, problem: OrderProblem, model: cp_model.CpModel):
        self.problem, self.model = problem, model
        self.precedence = Precedence(problem.predecessors)
        self.position: list[cp_model.IntVar] = []
        self.life: list[Life] = []
        self.interval: dict[Life, cp_model.IntervalVar] = {}

    def add_positions(self) -> None:
        """A_v <= p_v <= n - 1 - D_v."""
        for op in range(len(self.problem)):
            first = self.precedence.ancestors[op].bit_count()
            last = len(self.problem) - 1 - self.precedence.descendants[op].bit_count()
            self.position.append(self.model.new_int_var(first, last, f"p_{op}"))

    def add_precedence(self) -> None:
        """p_u + 1 <= p_v."""
        for op, before in enumerate(self.precedence.reduced):
            for other in before:
                self.model.add(self.position[other] + 1 <= self.position[op])

    def add_first_step(self) -> None:
        """Some p_v = 0."""
        first = [op for op, before in enumerate(self.precedence.ancestors) if not before]
        self.model.add_min_equality(0, [self.position[op] for op in first])

    def add_lives(self) -> None:
        """b_s <= p_v for v in T'_s, and e_s >= p_v + 1 for v in T"_s."""
        lives: dict[tuple[tuple[int, ...], tuple[int, ...], bool], Life] = {}
        problem = self.problem
        for ops, present, kept in zip(
            problem.accessed_by, problem.present.tolist(), problem.kept.tolist(), strict=True
        ):
            earliest = () if present else tuple(self.precedence.earliest(ops))
            latest = () if kept else tuple(self.precedence.latest(ops))
            idle = not (ops or kept)
            life = lives.get((earliest, latest, idle))
            if life is None:
                life = lives[earliest, latest, idle] = Life(earliest, latest, idle)
                self._add_birth(life)
                self._add_death(life)
                self._add_interval(life)
            self.life.append(life)

    def _add_birth(self, life: Life) -> None:
        if len(life.earliest) == 1:
            life.begin = self.position[life.earliest[0]]
        elif life.earliest:
            birth = self.model.new_int_var(0, len(self.problem) - 1, "b")
            for op in life.earliest:
                self.model.add(birth <= self.position[op])
            life.begin = birth
            life.own.append(("begin", birth))

    def _add_death(self, life: Life) -> None:
        life.end = 1 if life.idle else len(self.problem)
        if len(life.latest) == 1:
            life.end = self.position[life.latest[0]] + 1
        elif life.latest:
            death = self.model.new_int_var(1, len(self.problem), "e")
            for op in life.latest:
                self.model.add(death >= self.position[op] + 1)
            life.end = death
            life.own.append(("end", death))

    def _add_interval(self, life: Life) -> None:
        if not life.earliest or not life.latest:
            life.length = life.end - life.begin
        elif life.earliest == life.latest and len(life.earliest) == 1:
            life.length = 1
        else:
            length = self.model.new_int_var(1, len(self.problem), "l")
            life.length = length
            life.own.append(("length", length))
        self.interval[life] = self.model.new_interval_var(life.begin, life.length, life.end, "")

    def step_interval(self, op: int) -> cp_model.IntervalVar:
        """[p_v, p_v + 1)."""
        return self.model.new_fixed_size_interval_var(self.position[op], 1, "")

    def hint(self, order: Sequence[int] | Ints) -> Ints:
        """Hint every variable with its value in an order; returns the step of every op."""
        step = np.empty(len(self.problem), np.int64)
        step[np.asarray(order, np.int64)] = np.arange(len(step))
        for op, position in enumerate(self.position):
            self.model.add_hint(position, int(step[op]))
        for life in self.interval:
            value = life.at(step)
            for name, variable in life.own:
                self.model.add_hint(variable, value[name])
        return step

    def extract(self, solver: Solved) -> Ints:
        """The ops by their steps in the solution found; ops of one step by number."""
        steps = np.array([solver.value(position) for position in self.position], np.int64)
        return np.argsort(steps, kind="stable")
