"""Schedules that treat equal parts of a graph alike: one decision for all equal layers.

Units with equal neighbourhoods form a *class*, like the same op of every layer. All storages of a
class are freed together in the longest gap between their accesses, and computed again right before
the next access. Classes are freed one after another, by bytes saved beyond the limit for each unit
of cost. Then as many members of each class as the limit allows are kept again, by bisection. So the
number of decisions is that of one layer, whatever the number of layers. After each decision, the
whole schedule is measured exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cpplan.model.remat_problem import RematProblem
from cpplan.runtime.deadline import Deadline

# Targets for equal parts alike, as shares of the limit, before members are kept again.
_ALIKE_LIMITS = (1.0, 0.96, 0.92, 0.87, 0.81, 0.74)

NAME = "equal parts alike"
# Rounds of refining a unit's class by the classes of its neighbours.
_ROUNDS = 3
# Deterministic seconds of making and measuring a schedule, for each unit of the order.
_SECONDS_PER_UNIT = 1e-5


def find_classes(problem: RematProblem, rounds: int = _ROUNDS) -> list[int]:
    """Class number of every unit; units with equal neighbourhoods are in the same class."""
    ordering, graph = problem.ordering, problem.graph
    size = ordering.size.tolist()
    kinds: list[object] = [
        (
            tuple(graph.ops[op].kind for op in ops),
            tuple(size[s] for s in problem.reads[unit]),
            tuple(size[s] for s in problem.writes[unit]),
            problem.cost[unit],
            bool(problem.repeatable[unit]),
        )
        for unit, ops in enumerate(problem.units)
    ]
    before: list[list[int]] = [[] for _ in problem.units]
    after: list[list[int]] = [[] for _ in problem.units]
    writer = {s: unit for unit, written in enumerate(problem.writes) for s in written}
    for unit, read in enumerate(problem.reads):
        for storage in read:
            if storage in writer:
                before[unit].append(writer[storage])
                after[writer[storage]].append(unit)
    found = _numbered(kinds)
    for _ in range(rounds):
        found = _numbered(
            [
                (
                    found[unit],
                    tuple(found[other] for other in before[unit]),
                    tuple(sorted(found[other] for other in after[unit])),
                )
                for unit in range(len(found))
            ]
        )
    return found


def plan_alike(
    problem: RematProblem, order: Sequence[int], limit: int, deadline: Deadline
) -> tuple[int, ...] | None:
    """A schedule within the limit that treats equal parts alike, or ``None`` if none is found."""
    best: tuple[int, ...] | None = None
    for part in _ALIKE_LIMITS:
        # A lower target leads to other choices; classes freed in excess are then kept again.
        found = _Search(problem, order, limit, deadline).run(int(part * limit))
        if found is None:
            break
        if best is None or problem.total_cost(found) < problem.total_cost(best):
            best = found
    return best


def _numbered(values: Sequence[object]) -> list[int]:
    known: dict[object, int] = {}
    return [known.setdefault(value, len(known)) for value in values]


@dataclass(frozen=True)
class _Gap:
    """Positions in the order of the two accesses of a storage that are farthest apart."""

    last: int
    next: int


class _Search:
    def __init__(self, problem: RematProblem, order: Sequence[int], limit: int, deadline: Deadline):
        self.problem, self.order, self.limit, self.deadline = problem, order, limit, deadline
        self.writer: dict[int, int] = {}
        for unit, written in enumerate(problem.writes):
            if problem.repeatable[unit]:
                self.writer.update(dict.fromkeys(written, unit))
        accesses: dict[int, list[int]] = {}
        for position, unit in enumerate(order):
            for storage in (*problem.reads[unit], *problem.writes[unit]):
                accesses.setdefault(storage, []).append(position)
        self.end = {storage: found[-1] for storage, found in accesses.items()}
        self.gaps: dict[int, _Gap] = {}
        for storage, found in accesses.items():
            if storage in self.writer and not problem.ordering.kept[storage]:
                pairs = pairwise(found)
                last, following = max(pairs, key=lambda p: p[1] - p[0], default=(0, 0))
                if following - last > 1:
                    self.gaps[storage] = _Gap(last, following)
        classes = find_classes(problem)
        self.members: dict[tuple[int, int], list[int]] = {}
        for storage in self.gaps:
            unit = self.writer[storage]
            key = classes[unit], problem.writes[unit].index(storage)
            self.members.setdefault(key, []).append(storage)
        for members in self.members.values():
            members.sort(key=lambda s: self.gaps[s].last)
        self.dropped: set[int] = set()

    def run(self, target: int) -> tuple[int, ...] | None:
        """A schedule within the limit, derived from one within the target."""
        chosen: list[tuple[int, int]] = []
        refused: set[tuple[int, int]] = set()
        schedule, places = self._schedule()
        pressure = self.problem.pressure(schedule)
        while pressure.max(initial=0) > target:
            if self.deadline.expired():
                return None
            best = self._best_class(target, places, pressure, refused)
            if best is None:
                return None
            before = _excess(pressure, target)
            self.dropped |= set(self.members[best])
            schedule, places = self._schedule()
            pressure = self.problem.pressure(schedule)
            refused.add(best)
            if _excess(pressure, target) < before:
                chosen.append(best)
            else:
                self.dropped -= set(self.members[best])
                schedule, places = self._schedule()
                pressure = self.problem.pressure(schedule)
        self._take_back(chosen)
        return self._schedule()[0]

    def _best_class(
        self,
        target: int,
        places: list[int],
        pressure: np.ndarray,
        refused: set[tuple[int, int]],
    ) -> tuple[int, int] | None:
        """The class that saves most bytes beyond the target for its cost."""
        over = np.cumsum(np.concatenate(([0], pressure > target)))
        size = self.problem.ordering.size
        best, most = None, 0.0
        for key, members in self.members.items():
            if key in refused:
                continue
            saved = sum(
                int(size[s])
                * int(over[places[self.gaps[s].next]] - over[places[self.gaps[s].last] + 1])
                for s in members
            )
            if saved <= 0:
                continue
            # Members are alike, so that the middle one represents all.
            cost = len(members) * self._cost_again(members[len(members) // 2])
            score = saved / (cost + 1e-9)
            if score > most:
                best, most = key, score
        return best

    def _cost_again(self, storage: int) -> float:
        """Cost of computing a storage again at its next access."""
        position = self.gaps[storage].next
        seen: set[int] = set()
        waiting, total = [self.writer[storage]], 0.0
        while waiting:
            unit = waiting.pop()
            if unit in seen:
                continue
            seen.add(unit)
            total += float(self.problem.cost[unit])
            waiting += [
                self.writer[s] for s in self.problem.reads[unit] if self._is_gone(s, position)
            ]
        return total

    def _is_gone(self, storage: int, position: int) -> bool:
        """True if a storage can be computed again and is not live at a position of the order."""
        if storage not in self.writer or self.problem.ordering.kept[storage]:
            return False
        if storage in self.dropped and position >= self.gaps[storage].next:
            return True
        return position > self.end[storage] or (
            storage in self.dropped and position > self.gaps[storage].last
        )

    def _schedule(self) -> tuple[tuple[int, ...], list[int]]:
        """The schedule for the dropped storages, and the place of every position of the order."""
        self.deadline.spend(_SECONDS_PER_UNIT * len(self.order))
        found: list[int] = []
        places: list[int] = []
        again: set[int] = set()
        for position, unit in enumerate(self.order):
            waiting = [s for s in self.problem.reads[unit] if self._missing(s, position, again)]
            while waiting:
                storage = waiting[-1]
                if not self._missing(storage, position, again):
                    waiting.pop()
                    continue
                writer = self.writer[storage]
                missing = [
                    s for s in self.problem.reads[writer] if self._missing(s, position, again)
                ]
                if missing:
                    waiting += missing
                else:
                    found.append(writer)
                    again |= set(self.problem.writes[writer])
                    waiting.pop()
            places.append(len(found))
            found.append(unit)
        return tuple(found), places

    def _missing(self, storage: int, position: int, again: set[int]) -> bool:
        return storage not in again and self._is_gone(storage, position)

    def _take_back(self, chosen: Sequence[tuple[int, int]]) -> None:
        """Keep as many members of each class as the limit allows, the costliest classes first."""
        middle_of = {key: self.members[key][len(self.members[key]) // 2] for key in chosen}
        cost = {key: self._cost_again(storage) for key, storage in middle_of.items()}
        for key in sorted(chosen, key=cost.__getitem__, reverse=True):
            members = self.members[key]
            low, high = 0, len(members)  # `low` members can be kept, more than `high` cannot
            while low < high and not self.deadline.expired():
                middle = (low + high + 1) // 2
                if self._fits(members, middle):
                    low = middle
                else:
                    high = middle - 1
            self.dropped |= set(members)
            self.dropped -= set(members[len(members) - low :])

    def _fits(self, members: Sequence[int], kept: int) -> bool:
        """True if the limit holds with the last ``kept`` members kept."""
        dropped = set(self.dropped)
        self.dropped |= set(members)
        self.dropped -= set(members[len(members) - kept :])
        fits = self.problem.peak(self._schedule()[0]) <= self.limit
        self.dropped = dropped
        return fits


def _excess(pressure: np.ndarray, limit: int) -> int:
    """Sum of the bytes beyond the limit over all positions."""
    return int(np.maximum(pressure - limit, 0).sum())
