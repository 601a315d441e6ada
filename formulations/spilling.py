"""Spilling: the gaps between accesses through which storages are kept in a fast pool.

Sets
    S        storages;  A_s, accesses of s in order of time;  G_s, gaps between them, and one
             before the first access if the caller brings s, one after the last if s is kept
    T        steps;  a_t, G_t, the accesses at t and the gaps that hold t
    C        credits: an output o_c that may be written over one of the inputs I_c at step t_c

Parameters (rooms in units of their greatest common divisor)
    r_s          room of s in the fast pool
    v_s, w_s     cost of a spill and of a reload of s: bytes moved, or the cycles of the move
    d_a          cost of access a if it reads in the slow pool
    b_t          room taken at t by storages that cannot move
    k_c          room that credit c saves
    R            capacity of the fast pool

Variables
    x_g      gap g is kept
    p_a      access a happens in the fast pool
    y_s      s is written to the slow pool
    q_ci     credit c counts: o_c is written over input i
    h_t      room taken at t by gaps that hold t; only if there would be very many terms without

Constraints
    held         x_g implies p_a of the accesses at both ends of g
    written back y_s >= 1 - x_g for every gap of a storage s that an op writes, and
                 y_s >= 1 - p_a for its first access a;  y_s >= x_0 - x_g if the caller brings s,
                 with 0 the first gap
    stays        x_g >= x_0 for an input that must be in the caller's pool again at the end
    over         q_ci implies p of the output and of i, and not x_g of the gap g after i;
                 sum over i of q_ci <= 1
    capacity     at every step:  b_t + sum of r_s p_a + sum of r_s x_g - sum of k_c q_ci <= R
    chained      h_t = h_t-1 + sum of r_s x_g of gaps that begin at t - the same of gaps that end

Objective
    minimise the cost of moves:  sum of v_s y_s
             + sum over gaps g that end in access a of  w_s (p_a - x_g) + d_a (1 - p_a)

The retention part of COSMA (Zhang et al., arXiv 2311.18246) at one order, with the offsets left to
packing. If a gap is not kept, the storage leaves the pool right after the access before the gap and
is reloaded right before the access after it: other times would gain nothing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from ortools.sat.python import cp_model

from formulations.polled_model import PolledModel, poll
from formulations.positions import Solved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from cpplan.model.spill_problem import SpillProblem

Literal = cp_model.IntVar
# Sum of the gaps' steps above which the room held is chained from step to step.
_MANY_TERMS = 300_000


def build(problem: SpillProblem) -> SpillModel:
    """The model of a problem.

    Examples
    --------
    >>> from cpplan.model.pool import Pool
    >>> from cpplan.model.residency import Residency
    >>> from cpplan.model.small_graphs import kept_meanwhile
    >>> from cpplan.program.anf import to_anf
    >>> from cpplan.spilling.problem import spill_problem
    >>> pools = Pool("fast", 16), Pool("slow")
    >>> problem = spill_problem(to_anf(kept_meanwhile()), Residency(), pools)
    >>> model = build(problem)
    >>> solver = cp_model.CpSolver()
    >>> solver.solve(model.model) == cp_model.OPTIMAL, model.in_bytes(solver.objective_value)
    (True, 16)
    """
    return SpillModel(problem)


class SpillModel:
    """The constraint model; see the module's docstring for its names."""

    def __init__(self, problem: SpillProblem):
        self.problem, self.model = problem, PolledModel()
        numbers = [*problem.room.tolist(), *problem.credit_room.tolist(), *problem.base.tolist()]
        self.unit = math.gcd(*numbers) or 1
        self.limit = problem.capacity // self.unit
        self.unit_moved = problem.grain
        new = self.model.new_bool_var
        self.x: list[Literal | int] = [
            new(f"x{g}") if fixed < 0 else int(fixed)
            for g, fixed in enumerate(problem.gap_fixed.tolist())
        ]
        self.p: list[Literal | int] = [
            1 if must else new(f"p{a}") for a, must in enumerate(problem.access_near.tolist())
        ]
        self.y = [new(f"y{s}") for s in range(len(problem.names))]
        self.q: dict[tuple[int, int], Literal] = {}
        self.h: list[cp_model.IntVar] = []
        # Step -> its row of capacity in the model.
        self.rows: dict[int, int] = {}
        self._held()
        self._written_back()
        self._stays()
        self._over()
        self._capacity()
        self._objective()

    def _implies(self, one: Literal | int, other: Literal | int) -> None:
        """``one <= other``, where both may be constants."""
        if one is other or (isinstance(one, int) and one == 0):
            return
        if isinstance(other, int) and other == 1:
            return
        self.model.add(one <= other)

    def _held(self) -> None:
        problem = self.problem
        for gap, (before, after) in enumerate(
            zip(problem.gap_before.tolist(), problem.gap_after.tolist(), strict=True)
        ):
            for access in (before, after):
                if access >= 0:
                    self._implies(self.x[gap], self.p[access])

    def _written_back(self) -> None:
        problem = self.problem
        for gap, storage in enumerate(problem.gap_storage.tolist()):
            if problem.written[storage]:
                self.model.add(self.y[storage] >= 1 - self.x[gap])
            elif gap != self._start(storage):
                self.model.add(self.y[storage] >= self.x[self._start(storage)] - self.x[gap])
        for storage, access in self._first_access().items():
            if problem.written[storage]:
                self.model.add(self.y[storage] >= 1 - self.p[access])

    def _stays(self) -> None:
        problem = self.problem
        for gap, storage in enumerate(problem.gap_storage.tolist()):
            if problem.stay[storage] and gap != self._start(storage):
                self._implies(self.x[self._start(storage)], self.x[gap])

    def _over(self) -> None:
        problem = self.problem
        of_credit: dict[int, list[Literal]] = {}
        rows = zip(
            problem.over_credit.tolist(), problem.over_access.tolist(), problem.over_gap.tolist(),
            strict=True,
        )  # fmt: skip
        for credit, access, gap in rows:
            used = self.model.new_bool_var(f"q{credit},{access}")
            self.q[credit, access] = used
            of_credit.setdefault(credit, []).append(used)
            self._implies(used, self.p[access])
            self._implies(used, self.p[int(problem.credit_access[credit])])
            if gap >= 0:
                self.model.add(used <= 1 - self.x[gap])
        for several in of_credit.values():
            self.model.add(sum(several) <= 1)

    def _capacity(self) -> None:
        problem, unit = self.problem, self.unit
        terms: list[list[Literal | int]] = [[] for _ in range(problem.steps)]
        factors: list[list[int]] = [[] for _ in range(problem.steps)]
        room = (problem.room // unit).tolist()
        for access, (storage, step) in enumerate(
            zip(problem.access_storage.tolist(), problem.access_step.tolist(), strict=True)
        ):
            terms[step].append(self.p[access])
            factors[step].append(room[storage])
        tight = self._tight()
        length = (problem.gap_upper - problem.gap_lower).sum()
        if length > _MANY_TERMS:
            self._chain(room)
            for step, held in enumerate(self.h):
                terms[step].append(held)
                factors[step].append(1)
        else:
            for gap, storage in enumerate(problem.gap_storage.tolist()):
                poll()
                for step in range(int(problem.gap_lower[gap]), int(problem.gap_upper[gap])):
                    if tight[step]:
                        terms[step].append(self.x[gap])
                        factors[step].append(room[storage])
        for (credit, _), used in self.q.items():
            step = int(problem.credit_step[credit])
            terms[step].append(used)
            factors[step].append(-int(problem.credit_room[credit]) // unit)
        for step in np.flatnonzero(tight).tolist():
            poll()
            constant = int(problem.base[step]) // unit
            constant += sum(
                f * t for f, t in zip(factors[step], terms[step], strict=True) if isinstance(t, int)
            )
            pairs = [
                (f, t)
                for f, t in zip(factors[step], terms[step], strict=True)
                if not isinstance(t, int)
            ]
            total = cp_model.LinearExpr.weighted_sum([t for _, t in pairs], [f for f, _ in pairs])
            self.rows[step] = self.model.add(total <= self.limit - constant).index

    def _chain(self, room: Sequence[int]) -> None:
        """Room held by gaps at each step, from the room at the step before."""
        problem = self.problem
        changes: list[list[tuple[int, Literal | int]]] = [[] for _ in range(problem.steps + 1)]
        for gap, storage in enumerate(problem.gap_storage.tolist()):
            if problem.gap_lower[gap] < problem.gap_upper[gap]:
                changes[int(problem.gap_lower[gap])].append((room[storage], self.x[gap]))
                changes[int(problem.gap_upper[gap])].append((-room[storage], self.x[gap]))
        most = sum(room)
        self.h = [self.model.new_int_var(0, most, f"h{t}") for t in range(problem.steps)]
        for step, held in enumerate(self.h):
            poll()
            before = self.h[step - 1] if step else 0
            total = sum(factor * term for factor, term in changes[step])
            self.model.add(held == before + total)

    def _tight(self) -> NDArray[np.bool_]:
        """Mask of the steps that may exceed their limit: the others need no row."""
        problem = self.problem
        most = problem.base.copy()
        np.add.at(most, problem.access_step, problem.room[problem.access_storage])
        change = np.zeros(problem.steps + 1, np.int64)
        kept = problem.gap_fixed != 0
        room = problem.room[problem.gap_storage[kept]]
        np.add.at(change, problem.gap_lower[kept], room)
        np.subtract.at(change, problem.gap_upper[kept], room)
        most += np.cumsum(change)[:-1]
        tight: NDArray[np.bool_] = most // self.unit > self.limit
        return tight

    def _objective(self) -> None:
        problem, unit = self.problem, self.unit_moved
        terms: list[Literal] = []
        factors: list[int] = []
        constant = 0

        def add(factor: int, term: Literal | int) -> None:
            nonlocal constant
            if isinstance(term, int):
                constant += factor * term
            elif factor:
                terms.append(term)
                factors.append(factor)

        spill, reload = ((c // unit).tolist() for c in (problem.spill_cost, problem.reload_cost))
        for storage, spilled in enumerate(self.y):
            add(spill[storage], spilled)
        for gap, (storage, after) in enumerate(
            zip(problem.gap_storage.tolist(), problem.gap_after.tolist(), strict=True)
        ):
            if after < 0:
                continue
            direct = int(problem.access_cost[after]) // unit
            add(reload[storage], self.p[after])
            add(-reload[storage], self.x[gap])
            constant += direct
            add(-direct, self.p[after])
        total = cp_model.LinearExpr.weighted_sum(terms, factors) + constant
        self.model.minimize(total)

    def _start(self, storage: int) -> int:
        """The gap before the first access of a storage that the caller brings: its first gap."""
        return int(np.searchsorted(self.problem.gap_storage, storage))

    def _first_access(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for access, storage in enumerate(self.problem.access_storage.tolist()):
            found.setdefault(storage, access)
        return found

    def hint(self, kept: NDArray[np.bool_]) -> None:
        """Hint at the solution with these gaps kept."""
        problem = self.problem
        near, spilled = problem.near(kept), problem.spilled(kept)
        for variables, values in ((self.x, kept), (self.p, near), (self.y, spilled)):
            for variable, value in zip(variables, values.tolist(), strict=True):
                if not isinstance(variable, int):
                    self.model.add_hint(variable, bool(value))
        if self.h:
            held = np.zeros(problem.steps + 1, np.int64)
            room = problem.room[problem.gap_storage[kept]] // self.unit
            np.add.at(held, problem.gap_lower[kept], room)
            np.subtract.at(held, problem.gap_upper[kept], room)
            for variable, value in zip(self.h, np.cumsum(held)[:-1].tolist(), strict=True):
                self.model.add_hint(variable, value)
        done: set[int] = set()
        rows = zip(
            problem.over_credit.tolist(), problem.over_access.tolist(), problem.over_gap.tolist(),
            strict=True,
        )  # fmt: skip
        for credit, access, gap in rows:
            works = near[access] and near[problem.credit_access[credit]] and credit not in done
            works = bool(works and (gap < 0 or not kept[gap]))
            done |= {credit} if works else set()
            self.model.add_hint(self.q[credit, access], works)

    def extract(self, solver: Solved) -> NDArray[np.bool_]:
        """Mask of the gaps kept in the solution."""
        kept = [x == 1 if isinstance(x, int) else solver.value(x) == 1 for x in self.x]
        found: NDArray[np.bool_] = np.array(kept, dtype=np.bool_)
        return found

    def in_bytes(self, objective: float) -> int:
        """Bytes moved for a value of the objective or a bound on it."""
        return math.ceil(objective - 1e-6) * self.unit_moved
