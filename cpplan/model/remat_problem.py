"""Rematerialization problem as data: ops that may run again, in units, and what they cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from cpplan.model.costs import sum_costs
from cpplan.model.graph import Graph
from cpplan.model.order_problem import OrderProblem
from cpplan.model.problem import Ints


@dataclass(frozen=True, eq=False)
class RematProblem:
    """Ops that may run again, what they read and write, and what they cost.

    Ops are grouped in *units*: a unit is an op of the graph, followed by the ops that only make
    views of its result. These run again whenever the first op does.

    Attributes
    ----------
    graph
        The graph.
    units
        For every unit, its ops as positions in ``graph.ops``, in order.
    ordering
        The ordering problem of the units: predecessors, storages, sizes.
    reads, writes
        For every unit, the storages it reads and those it begins, ascending.
    cost
        Cost of running each unit once.
    repeatable
        True for a unit that may run again, shape ``(units,)``.
    overwrites
        For every unit, the storages it reads and may overwrite in place, each by a different
        result; empty if no aliases in place are used.
    """

    graph: Graph
    units: tuple[tuple[int, ...], ...]
    ordering: OrderProblem
    reads: tuple[tuple[int, ...], ...]
    writes: tuple[tuple[int, ...], ...]
    cost: tuple[int | float, ...]
    repeatable: np.ndarray
    overwrites: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.units)

    def expand(
        self, schedule: Iterable[int], given: Sequence[int] | None = None
    ) -> tuple[int, ...]:
        """Order of a Program, as positions in ``graph.ops``, for a schedule of units.

        With a ``given`` order, that of the first runs of the units, ops first run in that order:
        those that only make views wait for their turn.
        """
        if given is None:
            return tuple(op for unit in schedule for op in self.units[unit])
        heads = {ops[0] for ops in self.units}
        order: list[int] = []
        begun = 0  # ops of the given order that have run
        done: set[int] = set()
        for unit in schedule:
            head = self.units[unit][0]
            if head in done:
                order += [op for op in self.units[unit] if op in done]
                continue
            stop = given.index(head, begun) + 1
            while stop < len(given) and given[stop] not in heads:
                stop += 1
            order += given[begun:stop]
            done.update(given[begun:stop])
            begun = stop
        return tuple(order)

    def total_cost(self, schedule: Iterable[int]) -> int | float:
        """Cost of running a schedule."""
        return sum_costs(self.cost[unit] for unit in schedule)

    @cached_property
    def exact_base(self) -> Fraction:
        """Cost of running every unit once, exactly."""
        multiples, unit = self._multiples
        return sum(multiples) * unit

    @cached_property
    def _multiples(self) -> tuple[list[int], Fraction]:
        """Costs as multiples of the largest unit that divides all of them, and this unit."""
        costs = [amount.as_integer_ratio() for amount in self.cost]
        denominator = math.lcm(*(below for _, below in costs))
        whole = [above * (denominator // below) for above, below in costs]
        divisor = math.gcd(*whole) or 1
        return [amount // divisor for amount in whole], Fraction(divisor, denominator)

    def whole_costs(self, times: int, most: int) -> tuple[Ints, Fraction]:
        """Costs in whole units, shape ``(units,)``, and the unit.

        If ``times`` their sum were above ``most``, the unit is larger, and costs are rounded down.
        """
        multiples, unit = self._multiples
        total = times * sum(multiples)
        if total > most:
            multiples = [multiple * most // total for multiple in multiples]
            unit *= Fraction(total, most)
        return np.array(multiples, np.int64), unit

    @cached_property
    def written_in_parts(self) -> frozenset[int]:
        """Storages begun by several units; these units run once, so there is one retention."""
        times = Counter(storage for written in self.writes for storage in written)
        return frozenset(storage for storage, count in times.items() if count > 1)

    @cached_property
    def begun_again(self) -> frozenset[int]:
        """Storages written, but not read, by some op that the graph allows to run again.

        A program that runs such an op again holds these storages in several retentions. A schedule
        of units has one retention of a storage from the start or begun by several units.
        """
        row = {name: k for k, name in enumerate(self.ordering.storages)}
        root, found = self.graph.root, set[str]()
        for op in self.graph.ops:
            if op.recomputable and op.sequence is None:
                written = {root[name][0] for name in op.outputs + op.workspaces}
                found |= written - {root[name][0] for name in op.inputs}
        return frozenset(row[name] for name in found if name in row)

    def retentions(self, schedule: Sequence[int]) -> list[tuple[int, int, int]]:
        """Retentions as ``(storage, begin, end)``, half-open ranges of positions. O(accesses).

        A retention that its last reader overwrites in place ends before that reader.
        """
        ordering, stop = self.ordering, len(schedule)
        began: dict[int, int] = {}
        ended: dict[int, int] = {}
        found: list[tuple[int, int, int]] = []
        for storage in np.flatnonzero(ordering.present).tolist():
            began[storage], ended[storage] = 0, 1
        for position, unit in enumerate(schedule):
            for storage in self.reads[unit]:
                ended[storage] = position + (storage not in self.overwrites[unit])
            for storage in self.writes[unit]:
                if storage in began and storage not in self.written_in_parts:
                    found.append((storage, began.pop(storage), ended[storage]))
                began.setdefault(storage, position)
                ended[storage] = position + 1
        for storage, first in began.items():
            found.append((storage, first, stop if ordering.kept[storage] else ended[storage]))
        return found

    def pressure(self, schedule: Sequence[int]) -> Ints:
        """Bytes live at every position of a schedule, shape ``(len(schedule),)``. O(accesses)."""
        ordering = self.ordering
        change = np.zeros(len(schedule) + 1, np.int64)
        for storage, begin, end in self.retentions(schedule):
            change[begin] += ordering.size[storage]
            change[end] -= ordering.size[storage]
        live: Ints = ordering.base + np.cumsum(change)[:-1]
        live += ordering.extra[np.asarray(schedule, np.int64)]
        live[:1] += ordering.entry
        return live

    def peak(self, schedule: Sequence[int]) -> int:
        """The largest :meth:`pressure` of a schedule, bytes."""
        return int(self.pressure(schedule).max(initial=self.ordering.base))

    def is_schedule(self, schedule: Iterable[int]) -> bool:
        """True if every unit runs, after its predecessors, and only repeatable units run again."""
        done: set[int] = set()
        for unit in schedule:
            if not done.issuperset(self.ordering.predecessors[unit]):
                return False
            if unit in done and not self.repeatable[unit]:
                return False
            done.add(unit)
        return len(done) == len(self)
