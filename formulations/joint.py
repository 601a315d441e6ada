"""The order of ops and the offsets of their storages together, as a constraint model.

Sets
    V        ops; E, the precedences between them: see ``formulations.positions``
    B        buffers: the storages; each op's own bytes; the bytes live throughout; the bytes live
             at the first step only

Parameters (addresses in units of u bytes, see ``cpplan.packing.reduction.address_unit``)
    s_i      size in bytes
    a_i      alignment, in units (1 if finer than the unit)
    H        a limit on the peak, in bytes
    L        a proved lower bound on the peak, in bytes
    g        the greatest common divisor of u and all sizes, bytes

Variables
    p_v      the step at which v runs
    b_i, e_i the steps [b_i, e_i) during which buffer i is live
    k_i      its offset in multiples of its alignment, 0 <= k_i <= (H - s_i) / (u a_i)
    peak     L <= g peak <= H

Constraints
    precedence, birth, death, first step         as in ``formulations.positions``
    no overlap       the rectangles [b_i, e_i) x [u a_i k_i, u a_i k_i + s_i) are pairwise disjoint
    height           u a_i k_i + s_i <= g peak
    pressure         at every step t:  sum of s_i over b_i <= t < e_i  <=  g peak

Objective
    minimise peak

This is the joint problem of OLLA (Steiner et al., 2022), lifetimes and locations in one model, with
``NoOverlap2D`` in place of pairwise disjunctions. The pressure is implied by the other constraints;
it prunes orders before any offset is chosen. Ops may share a step here too: buffers that are live
together after each op gets a step of its own are also live together at the shared step, so they lie
apart already.

An op's own bytes (bodies) are one buffer here, although a plan may scatter the tensors in them. So
the peak can be reached, but the bound holds only for layouts with these bytes in one block. The
same is true of the bytes live throughout and of the bytes of the first step. The model is for
graphs of a few dozen ops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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


class Layout(NamedTuple):
    """An order of ops and the offset of every buffer, bytes.

    Attributes
    ----------
    order
        Ops in order of execution, shape ``(ops,)``.
    offset
        Offset of every storage, shape ``(storages,)``.
    extra_offset
        Offset of every op's own bytes, shape ``(ops,)``; 0 if it has none.
    base_offset, entry_offset
        Offsets of the bytes live throughout, and of the bytes of the first step; 0 if there are
        none.
    """

    order: Ints
    offset: Ints
    extra_offset: Ints
    base_offset: int = 0
    entry_offset: int = 0

    def peak(self, problem: OrderProblem) -> int:
        """The end of the highest buffer, bytes."""
        offset = np.array([*self.offset, *self.extra_offset, self.base_offset, self.entry_offset])
        size = np.array([*problem.size, *problem.extra, problem.base, problem.entry])
        return int((offset + size)[size > 0].max(initial=0))


def build(
    problem: OrderProblem,
    alignment: Sequence[int] | Ints,
    extra_alignment: Sequence[int] | Ints,
    *,
    unit: int,
    upper: int,
    lower: int = 0,
) -> JointModel:
    """The model of a problem.

    Parameters
    ----------
    problem
        At least one op; its precedences have no cycle.
    alignment
        Alignment of every storage, bytes, shape ``(storages,)``.
    extra_alignment
        Alignment of every op's own bytes, shape ``(ops,)``.
    unit
        Bytes per address unit; divides or is a multiple of every alignment (``address_unit`` of all
        buffers; the bytes live throughout or at the first step only have alignment 1).
    upper, lower
        Limits on the peak, bytes.

    Examples
    --------
    >>> from cpplan.model.order_problem import OrderProblem
    >>> fork = OrderProblem(
    ...     predecessors=((), (0,), (0,)), extra=np.zeros(3, np.int64),
    ...     size=np.array([4, 8, 1]), accessed_by=((0, 1, 2), (0, 1), (2,)),
    ...     present=np.zeros(3, bool), kept=np.zeros(3, bool),
    ... )
    >>> joint = build(fork, [1, 8, 1], [1, 1, 1], unit=1, upper=20)
    >>> solver = cp_model.CpSolver()
    >>> solver.solve(joint.model) == cp_model.OPTIMAL
    True
    >>> layout = joint.extract(solver)
    >>> layout.peak(fork), layout.offset[:2].tolist()
    (12, [8, 0])
    """
    joint = JointModel(problem, unit, upper, lower)
    joint.positions.add_positions()
    joint.positions.add_precedence()
    joint.positions.add_lives()
    if problem.entry or any(life.idle for life in joint.positions.life):
        joint.positions.add_first_step()
    joint.add_buffers(alignment, extra_alignment)
    joint.add_no_overlap()
    joint.add_height()
    joint.add_pressure()
    return joint


@dataclass(slots=True)
class _Buffer:
    """A buffer of B with its steps, size in bytes and offset."""

    steps: cp_model.IntervalVar
    size: int
    step: int
    multiple: cp_model.IntVar


@dataclass
class JointModel:
    """The model under construction, and how to read its solutions."""

    problem: OrderProblem
    unit: int
    upper: int
    lower: int
    model: PolledModel = field(default_factory=PolledModel)
    positions: Positions = field(init=False)
    grain: int = field(init=False)
    peak: cp_model.IntVar = field(init=False)
    storages: list[_Buffer] = field(default_factory=list)
    extras: dict[int, _Buffer] = field(default_factory=dict)
    base: _Buffer | None = None
    entry: _Buffer | None = None

    def __post_init__(self) -> None:
        problem = self.problem
        self.positions = Positions(problem, self.model)
        sizes = (*problem.size.tolist(), *problem.extra.tolist(), problem.base, problem.entry)
        self.grain = math.gcd(self.unit, *sizes)

    @property
    def buffers(self) -> list[_Buffer]:
        """All rows of B."""
        rest = [buffer for buffer in (self.base, self.entry) if buffer is not None]
        return [*self.storages, *self.extras.values(), *rest]

    def add_buffers(
        self, alignment: Sequence[int] | Ints, extra_alignment: Sequence[int] | Ints
    ) -> None:
        """0 <= k_i <= (H - s_i) / (u a_i)."""
        problem, fixed = self.problem, self.model.new_fixed_size_interval_var
        for life, size, align in zip(
            self.positions.life, problem.size.tolist(), alignment, strict=True
        ):
            self.storages.append(self._buffer(self.positions.interval[life], size, int(align)))
        for op, (size, align) in enumerate(
            zip(problem.extra.tolist(), extra_alignment, strict=True)
        ):
            if size:
                self.extras[op] = self._buffer(self.positions.step_interval(op), size, int(align))
        if problem.base:
            self.base = self._buffer(fixed(0, len(problem), ""), problem.base, 1)
        if problem.entry:
            self.entry = self._buffer(fixed(0, 1, ""), problem.entry, 1)

    def _buffer(self, steps: cp_model.IntervalVar, size: int, alignment: int) -> _Buffer:
        step = max(self.unit, alignment)
        last = (self.upper - size) // step
        if last < 0:
            # CP-SAT rejects an empty domain; a false clause makes the model infeasible.
            self.model.add_bool_or([])
        return _Buffer(steps, size, step, self.model.new_int_var(0, max(0, last), "k"))

    def add_no_overlap(self) -> None:
        """Rectangles in steps × addresses are pairwise disjoint."""
        times, addresses = [], []
        for buffer in self.buffers:
            # The next buffer above starts on the grid, so rounding the end up to the grid loses no
            # layout.
            times.append(buffer.steps)
            addresses.append(
                self.model.new_fixed_size_interval_var(
                    buffer.step // self.unit * buffer.multiple, -(-buffer.size // self.unit), ""
                )
            )
        self.model.add_no_overlap_2d(times, addresses)

    def add_height(self) -> None:
        """u a_i k_i + s_i <= g peak, minimised."""
        low, high = -(-self.lower // self.grain), self.upper // self.grain
        if high < low:
            self.model.add_bool_or([])
        self.peak = self.model.new_int_var(low, max(low, high), "peak")
        for buffer in self.buffers:
            end = buffer.step // self.grain * buffer.multiple + buffer.size // self.grain
            self.model.add(end <= self.peak)
        self.model.minimize(self.peak)

    def add_pressure(self) -> None:
        """The bytes live at a step are at most the peak."""
        steps = [buffer.steps for buffer in self.buffers]
        demands = [buffer.size // self.grain for buffer in self.buffers]
        self.model.add_cumulative(steps, demands, self.peak)

    def hint(self, layout: Layout) -> None:
        """Start from this order and these offsets; every variable gets a value."""
        self.positions.hint(layout.order)
        for buffer, offset in self._placed(layout):
            self.model.add_hint(buffer.multiple, offset // buffer.step)
        self.model.add_hint(self.peak, layout.peak(self.problem) // self.grain)

    def _placed(self, layout: Layout) -> list[tuple[_Buffer, int]]:
        placed = list(zip(self.storages, layout.offset.tolist(), strict=True))
        placed += [(buffer, int(layout.extra_offset[op])) for op, buffer in self.extras.items()]
        if self.base is not None:
            placed.append((self.base, layout.base_offset))
        if self.entry is not None:
            placed.append((self.entry, layout.entry_offset))
        return placed

    def in_bytes(self, objective: float) -> int:
        """The peak, bytes, for a value of the objective, or the bound for a bound on it."""
        return proved_value(objective) * self.grain

    def proved_bound(self, solver: cp_model.CpSolver) -> int:
        """The lower bound that a run has proved on the peak within the limits, bytes."""
        return self.in_bytes(solver.best_objective_bound)

    def extract(self, solver: Solved) -> Layout:
        """The solution found."""

        def offset(buffer: _Buffer | None) -> int:
            return 0 if buffer is None else solver.value(buffer.multiple) * buffer.step

        extra_offset = np.zeros(len(self.problem), np.int64)
        for op, buffer in self.extras.items():
            extra_offset[op] = offset(buffer)
        return Layout(
            order=self.positions.extract(solver),
            offset=np.array([offset(buffer) for buffer in self.storages], np.int64),
            extra_offset=extra_offset,
            base_offset=offset(self.base),
            entry_offset=offset(self.entry),
        )
