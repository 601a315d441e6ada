"""Runs of units and their times, the part that models of rematerialization share.

Sets
    V        units, n of them; E, the precedences between their first runs
    c        runs 0, …, C_v - 1 of unit v; run 0 is the first one

Variables
    a_vc     v runs for the (c + 1)-th time; a_v0 = 1
    p_vc     the time of that run; its earliest possible time if there is no such run

Constraints
    first runs       p_u0 + 1 <= p_v0                        for (u, v) in E
    again            a_vc implies a_v,c-1 and p_v,c-1 + 1 <= p_vc

There are two grids of times.

Free order: times 0, …, N - 1, with at most N runs. As in ``formulations.positions``, runs may share
a time: all storages that one of them accesses are live then, so they can run one after another.

Staged: the first runs have a fixed order. Stage j ends with the first run of the order's unit j;
before that run, any units k < j run again, in order and each at most once. In stage j, unit k <= j
runs at time j (j + 1) / 2 + k (MOCCASIN, Bartan et al., 2023). No two runs share a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from ortools.sat.python import cp_model

from formulations.positions import Precedence, Solved

if TYPE_CHECKING:
    from cpplan.model.remat_problem import RematProblem


class Runs:
    """The runs of a problem's units as variables of a model.

    Parameters
    ----------
    problem
        Units and storages.
    model
        The model to which the variables are added.
    copies
        C_v of every unit, at least 1.
    order
        Units by their first runs, for the staged grid; ``None`` for a free order.

    Attributes
    ----------
    active
        a_vc of every unit; the number 1 for first runs.
    at
        p_vc of every unit; numbers if the times are fixed.
    end
        The time at which all units have run.
    """

    def __init__(
        self,
        problem: RematProblem,
        model: cp_model.CpModel,
        copies: Sequence[int],
        order: Sequence[int] | None,
    ):
        self.problem, self.model, self.order = problem, model, order
        self.copies = list(copies)
        units = range(len(problem))
        self.active: list[list[cp_model.IntVar | int]] = [[] for _ in units]
        self.at: list[list[cp_model.IntVar | int]] = [[] for _ in units]
        self.earliest: list[list[int]] = [[] for _ in units]
        self.latest: list[list[int]] = [[] for _ in units]
        if order is None:
            self._free_times()
        else:
            self._staged_times(order)

    def _free_times(self) -> None:
        precedence = Precedence(self.problem.ordering.predecessors)
        self.end = sum(self.copies)
        for unit, number in enumerate(self.copies):
            first = precedence.ancestors[unit].bit_count()
            last = self.end - 1 - precedence.descendants[unit].bit_count()
            self._add_run(unit, range(first, last + 1))
            for copy in range(1, number):
                self._add_run(unit, range(first + copy, self.end))

    def _staged_times(self, order: Sequence[int]) -> None:
        stage = {unit: k for k, unit in enumerate(order)}
        self.end = staged_time(len(order), 0)
        last_use = self._last_stages(order, stage)
        for unit, number in enumerate(self.copies):
            k = stage[unit]
            self._add_run(unit, [staged_time(k, k)])
            for copy in range(1, number):
                stages = range(k + copy, last_use[unit] + 1)
                if stages:
                    self._add_run(unit, [staged_time(j, k) for j in stages])
            self.copies[unit] = len(self.at[unit])

    def _last_stages(self, order: Sequence[int], stage: dict[int, int]) -> list[int]:
        """For every unit, the last stage in which a reader could use another run of it."""
        problem = self.problem
        readers = readers_of(problem)
        last = [stage[unit] for unit in range(len(problem))]
        for unit in reversed(order):
            for storage in problem.writes[unit]:
                if problem.ordering.kept[storage]:
                    last[unit] = len(order) - 1
                for reader in readers[storage]:
                    again = last[reader] if self.copies[reader] > 1 else stage[reader]
                    last[unit] = max(last[unit], again)
        return last

    def _add_run(self, unit: int, times: Sequence[int]) -> None:
        first = not self.at[unit]
        name = f"{unit}_{len(self.at[unit])}"
        self.earliest[unit].append(times[0])
        self.latest[unit].append(times[-1])
        if first and len(times) == 1:
            self.at[unit].append(times[0])
        else:
            domain = cp_model.Domain.from_values(list(times))
            self.at[unit].append(self.model.new_int_var_from_domain(domain, f"p_{name}"))
        self.active[unit].append(1 if first else self.model.new_bool_var(f"a_{name}"))

    def add_first_runs(self) -> None:
        """p_u0 + 1 <= p_v0; the staged grid implies it."""
        if self.order is not None:
            return
        for unit, before in enumerate(Precedence(self.problem.ordering.predecessors).reduced):
            for other in before:
                one, next_one = self.at[other][0], self.at[unit][0]
                if not (isinstance(one, int) and isinstance(next_one, int)):
                    self.model.add(one + 1 <= next_one)
        if self.problem.ordering.entry and self.end:
            self.model.add_min_equality(0, [at[0] for at in self.at])

    def add_again(self) -> None:
        """a_vc implies a_v,c-1 and p_v,c-1 + 1 <= p_vc; p_vc is its least value without a run."""
        for active, at, earliest in zip(self.active, self.at, self.earliest, strict=True):
            for copy in range(1, len(at)):
                here = active[copy]
                if copy > 1:
                    self.model.add_implication(here, active[copy - 1])
                self.model.add(at[copy - 1] + 1 <= at[copy]).only_enforce_if(here)
                self.model.add(at[copy] == earliest[copy]).only_enforce_if(~here)

    def place(self, schedule: Sequence[int]) -> tuple[tuple[int, ...], list[list[int]]] | None:
        """A schedule put on this grid, and the times of every unit's runs.

        ``None`` if the schedule does not fit the grid. Runs that serve no reader are left out.
        """
        laid = self._laid(schedule)
        if laid is None:
            return None
        units, fixed = [unit for _, unit in laid], self.order is not None
        needed = needed_runs(self.problem, units, fixed=fixed)
        laid = [run for run, need in zip(laid, needed, strict=True) if need]
        if self.order is None:
            laid = list(enumerate(unit for _, unit in laid))
        times: list[list[int]] = [[] for _ in self.at]
        for time, unit in laid:
            copy = len(times[unit])
            if copy >= self.copies[unit] or time > self.latest[unit][copy]:
                return None
            times[unit].append(time)
        return tuple(unit for _, unit in laid), times

    def _laid(self, schedule: Sequence[int]) -> list[tuple[int, int]] | None:
        """The times and units of a schedule's runs, ascending.

        ``None`` if two runs have the same time, or first runs come in another order.
        """
        if self.order is None:
            return list(enumerate(schedule))
        stage = {unit: k for k, unit in enumerate(self.order)}
        reached, laid = 0, []
        for unit in schedule:
            if stage[unit] > reached:
                return None
            laid.append((staged_time(reached, stage[unit]), unit))
            reached += stage[unit] == reached
        laid.sort()
        return None if any(one == other for one, other in pairwise(laid)) else laid

    def hint(self, times: Sequence[Sequence[int]]) -> None:
        """Hint every variable with its value in a schedule, given as the times of its runs."""
        for unit, at in enumerate(self.at):
            for copy, position in enumerate(at):
                runs = copy < len(times[unit])
                if not isinstance(position, int):
                    value = times[unit][copy] if runs else self.earliest[unit][copy]
                    self.model.add_hint(position, value)
                active = self.active[unit][copy]
                if not isinstance(active, int):
                    self.model.add_hint(active, runs)

    def extract(self, solver: Solved) -> tuple[int, ...]:
        """The units in the order of their times; runs that share a time, by unit number."""
        runs = [
            (solver.value(at), unit)
            for unit in range(len(self.at))
            for active, at in zip(self.active[unit], self.at[unit], strict=True)
            if solver.value(active)
        ]
        return tuple(unit for _, unit in sorted(runs))


def staged_time(stage: int, place: int) -> int:
    """The time at which the unit at ``place`` of the order runs in a stage.

    Examples
    --------
    >>> [staged_time(stage, place) for stage in range(3) for place in range(stage + 1)]
    [0, 1, 2, 3, 4, 5]
    """
    return stage * (stage + 1) // 2 + place


def readers_of(problem: RematProblem) -> list[list[int]]:
    """For every storage, the units that read it, ascending."""
    readers: list[list[int]] = [[] for _ in problem.ordering.size]
    for unit, reads in enumerate(problem.reads):
        for storage in reads:
            readers[storage].append(unit)
    return readers


def needed_runs(
    problem: RematProblem,
    schedule: Sequence[int],
    *,
    fixed: bool = False,
) -> list[bool]:
    """For every run of a schedule, True if a later run needs it.

    Without the other runs, the schedule has no larger peak. A first run is needed if another unit
    waits for it before the next run of its unit, or if the unit does not run again; if the order of
    first runs is ``fixed``, all first runs are needed.
    """
    wanted = problem.ordering.kept.tolist()
    waited, later = [False] * len(problem), [False] * len(problem)
    first = dict(zip(reversed(schedule), range(len(schedule) - 1, -1, -1), strict=True))
    # If bytes are live at the first step only, the unit that runs first matters.
    fixed = fixed or problem.ordering.entry > 0
    needed = [False] * len(schedule)
    for position in range(len(schedule) - 1, -1, -1):
        unit = schedule[position]
        begins = first[unit] == position
        serves = any(wanted[storage] for storage in problem.writes[unit])
        if not (serves or (begins and (fixed or waited[unit] or not later[unit]))):
            continue
        needed[position], later[unit], waited[unit] = True, True, False
        for before in problem.ordering.predecessors[unit]:
            waited[before] = True
        for storage in problem.writes[unit]:
            wanted[storage] = False
        for storage in problem.reads[unit]:
            wanted[storage] = True
    return needed
