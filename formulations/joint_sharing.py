"""The order of ops, the offsets of storages and their aliases together, as a constraint model.

Sets
    V        ops; E, the precedences between them: see ``formulations.positions``
    S        storages
    D_ij     for a pair i < j of storages, the distances at which the two may share bytes: either
             both then hold the same value, or an op v may write one of them in place over the
             other, o; a distance of the second kind comes with (v, o)

Parameters (addresses in units of u bytes)
    s_i      size
    a_i      alignment, in units (1 if finer than the unit)
    H, L     a limit on the peak, and a proved lower bound, in bytes

Variables
    p_v      the step at which v runs
    b_i, e_i the steps [b_i, e_i) during which storage i is live
    k_i      its offset in multiples of its alignment; o_i = a_i k_i
    below_ij, above_ij, before_ij, after_ij, at_ijd    the relation between i and j
    peak     L <= u peak <= H

Constraints
    precedence, birth, death, first step         as in ``formulations.positions``
    pair             one of below_ij, above_ij, before_ij, after_ij, at_ijd holds
    below, above     below_ij => o_i + s_i <= o_j;     above_ij => o_j + s_j <= o_i
    before, after    before_ij => e_i <= b_j;          after_ij => e_j <= b_i
    at               at_ijd => o_j - o_i = d
    in place         at_ijd => p_w + 1 <= p_v for all other ops w that access o, for d with (v, o)
    peak             o_i + s_i <= peak

Objective
    minimise peak

One ``NoOverlap2D`` keeps all storages apart that share no bytes. A storage that is kept to the end
is never overwritten. The model is for graphs of a few dozen ops in which every byte belongs to a
storage (no bodies).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from ortools.sat.python import cp_model

from formulations.polled_model import PolledModel
from formulations.positions import Positions, Solved
from formulations.proved_value import proved_value

if TYPE_CHECKING:
    from cpplan.model.order_problem import OrderProblem
    from cpplan.model.problem import Ints


class Meeting(NamedTuple):
    """A distance at which a pair may share bytes.

    Attributes
    ----------
    shift
        Address of storage ``j`` less the address of storage ``i``, bytes.
    op, old
        The op that overwrites storage ``old``; ``None`` if both hold the same value.
    """

    shift: int
    op: int | None = None
    old: int | None = None


class SharedLayout(NamedTuple):
    """An order, shape ``(ops,)``, and the offsets of the storages, bytes, shape ``(storages,)``."""

    order: Ints
    offset: Ints


def build(
    problem: OrderProblem,
    alignment: Sequence[int] | Ints,
    meetings: Mapping[tuple[int, int], Sequence[Meeting]],
    *,
    unit: int,
    upper: int,
    lower: int = 0,
) -> JointSharingModel:
    """The model of a problem.

    Parameters
    ----------
    problem
        Ops and storages; its ``extra``, ``base`` and ``entry`` are zero.
    alignment
        Alignment of every storage, bytes, shape ``(storages,)``.
    meetings
        Storages ``(i, j)``, ``i < j`` -> the distances at which they may share bytes.
    unit
        Bytes per address unit: divides all sizes and distances, and divides or is a multiple of
        every alignment.
    upper, lower
        Limits on the peak, bytes.

    Examples
    --------
    >>> from cpplan.model.order_problem import OrderProblem
    >>> chain = OrderProblem(
    ...     predecessors=((), (0,)), extra=np.zeros(2, np.int64), size=np.array([4, 4]),
    ...     accessed_by=((0, 1), (1,)), present=np.zeros(2, bool), kept=np.array([False, True]),
    ... )
    >>> joint = build(chain, [1, 1], {(0, 1): [Meeting(0, op=1, old=0)]}, unit=4, upper=8)
    >>> solver = cp_model.CpSolver()
    >>> solver.solve(joint.model) == cp_model.OPTIMAL
    True
    >>> joint.in_bytes(solver.objective_value)
    4
    """
    joint = JointSharingModel(problem, list(map(int, alignment)), meetings, unit, upper, lower)
    joint.positions.add_positions()
    joint.positions.add_precedence()
    joint.positions.add_lives()
    if any(life.idle for life in joint.positions.life):
        joint.positions.add_first_step()
    joint.add_offsets()
    joint.add_pairs()
    joint.add_no_overlap()
    joint.add_peak()
    return joint


@dataclass
class JointSharingModel:
    """The model under construction, and how to read its solutions."""

    problem: OrderProblem
    alignment: Sequence[int]
    meetings: Mapping[tuple[int, int], Sequence[Meeting]]
    unit: int
    upper: int
    lower: int
    model: PolledModel = field(default_factory=PolledModel)
    positions: Positions = field(init=False)
    multiple: list[cp_model.IntVar] = field(default_factory=list)
    relation: dict[tuple[int, int, str], cp_model.IntVar] = field(default_factory=dict)
    at: dict[tuple[int, int, Meeting], cp_model.IntVar] = field(default_factory=dict)
    peak: cp_model.IntVar = field(init=False)

    def __post_init__(self) -> None:
        self.positions = Positions(self.problem, self.model)
        self.size = [size // self.unit for size in self.problem.size.tolist()]
        self.factor = [max(1, alignment // self.unit) for alignment in self.alignment]
        self.sharing = {row for pair in self.meetings for row in pair}

    def add_offsets(self) -> None:
        """o_i = a_i k_i."""
        for row, size in enumerate(self.size):
            last = (self.upper // self.unit - size) // self.factor[row]
            if last < 0:
                # CP-SAT rejects an empty domain; a false clause makes the model infeasible.
                self.model.add_bool_or([])
            self.multiple.append(self.model.new_int_var(0, max(0, last), f"k_{row}"))

    def add_pairs(self) -> None:
        """A pair is apart in addresses or in time, or at a distance at which it may share bytes."""
        for j in range(len(self.size)):
            for i in range(j):
                if i in self.sharing or j in self.sharing:
                    self._add_pair(i, j)

    def _add_pair(self, i: int, j: int) -> None:
        one, other = self._offset(i), self._offset(j)
        first, second = self.positions.life[i], self.positions.life[j]
        choices = []
        for name, low, high in (
            ("below", one + self.size[i], other),
            ("above", other + self.size[j], one),
            ("before", first.end, second.begin),
            ("after", second.end, first.begin),
        ):
            literal = self.model.new_bool_var(f"{name}_{i}_{j}")
            self.model.add(low <= high).only_enforce_if(literal)
            self.relation[i, j, name] = literal
            choices.append(literal)
        for meeting in self.meetings.get((i, j), ()):
            literal = self.model.new_bool_var(f"at_{i}_{j}_{meeting.shift}")
            distance = meeting.shift // self.unit
            self.model.add(other - one == distance).only_enforce_if(literal)
            self._add_in_place(meeting, literal)
            self.at[i, j, meeting] = literal
            choices.append(literal)
        self.model.add_bool_or(choices)

    def _add_in_place(self, meeting: Meeting, literal: cp_model.IntVar) -> None:
        """All other ops that access the overwritten storage have run before."""
        if meeting.op is None or meeting.old is None:
            return
        if self.problem.kept[meeting.old]:
            self.model.add(literal == 0)
        for op in self.problem.accessed_by[meeting.old]:
            if op != meeting.op:
                before = self.positions.position[op] + 1 <= self.positions.position[meeting.op]
                self.model.add(before).only_enforce_if(literal)

    def add_no_overlap(self) -> None:
        """Storages that share no bytes lie apart in steps × addresses."""
        rows = [row for row in range(len(self.size)) if row not in self.sharing]
        times = [self.positions.interval[self.positions.life[row]] for row in rows]
        addresses = [
            self.model.new_fixed_size_interval_var(self._offset(row), self.size[row], "")
            for row in rows
        ]
        self.model.add_no_overlap_2d(times, addresses)

    def add_peak(self) -> None:
        """o_i + s_i <= peak, minimised."""
        low, high = -(-self.lower // self.unit), self.upper // self.unit
        if high < low:
            self.model.add_bool_or([])
        self.peak = self.model.new_int_var(low, max(low, high), "peak")
        for row, size in enumerate(self.size):
            self.model.add(self._offset(row) + size <= self.peak)
        self.model.minimize(self.peak)

    def hint(self, layout: SharedLayout) -> None:
        """Start from this order and these offsets; every variable gets a value."""
        step = self.positions.hint(layout.order)
        where = (np.asarray(layout.offset, np.int64) // self.unit).tolist()
        for row, k in enumerate(self.multiple):
            self.model.add_hint(k, where[row] // self.factor[row])
        lives = [life.at(step) for life in self.positions.life]
        for (i, j, name), literal in self.relation.items():
            holds = {
                "below": where[i] + self.size[i] <= where[j],
                "above": where[j] + self.size[j] <= where[i],
                "before": lives[i]["end"] <= lives[j]["begin"],
                "after": lives[j]["end"] <= lives[i]["begin"],
            }
            self.model.add_hint(literal, holds[name])
        for (i, j, meeting), literal in self.at.items():
            there = where[j] - where[i] == meeting.shift // self.unit
            self.model.add_hint(literal, there and self._last_to_access(meeting, step))
        ends = [at + size for at, size in zip(where, self.size, strict=True)]
        self.model.add_hint(self.peak, max(ends, default=0))

    def _last_to_access(self, meeting: Meeting, step: Ints) -> bool:
        if meeting.op is None or meeting.old is None:
            return True
        others = (op for op in self.problem.accessed_by[meeting.old] if op != meeting.op)
        earlier = all(step[op] < step[meeting.op] for op in others)
        return earlier and not self.problem.kept[meeting.old]

    def in_bytes(self, objective: float) -> int:
        """The peak, bytes, for a value of the objective, or the bound for a bound on it."""
        return proved_value(objective) * self.unit

    def extract(self, solver: Solved) -> SharedLayout:
        """The solution found."""
        offsets = [
            solver.value(k) * factor * self.unit
            for k, factor in zip(self.multiple, self.factor, strict=True)
        ]
        return SharedLayout(self.positions.extract(solver), np.array(offsets, np.int64))

    def _offset(self, row: int) -> cp_model.LinearExpr:
        return self.factor[row] * self.multiple[row]
