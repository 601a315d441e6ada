"""Schedules from minimum cuts: values retained over each tight position, with all that they save.

Dropping and eviction free one value at a time. Just above the least bytes that is too little: in a
chain, freeing a value keeps the value that it is made from, and nothing is won before all values of
the chain are freed together. A minimum cut chooses the values to retain over a position at once.

The positions of an order are *tight* where more bytes are live than the limit allows. They part the
order, and are treated from the last to the first. What is read after a tight position, up to the
next one or retained over that one, is either retained over the position, at the price of its bytes,
or computed again after it, at the price of its cost. A value computed again needs what its unit
reads, recursively. The cheapest choice is a minimum cut. The exchange rate of cost against bytes is
the largest for which the values retained fit beside the bytes that the tight unit accesses.

PyTorch's partitioner cuts once, between forward and backward pass, and by bytes saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cpplan.model.remat_problem import RematProblem
from cpplan.ordering.bounds import topological_order
from cpplan.ordering.heuristics.by_depth import finished
from cpplan.remat.footprint import accessed_bytes
from cpplan.runtime.deadline import Deadline

# Minimum cuts: most positions treated, and exchange rates of bytes against cost tried for each.
_TIGHT_POSITIONS = 64
_EXCHANGE_RATES = 12

NAME = "minimum cuts"
# Capacity of a byte, of an arc that no minimum cut contains, and of the highest cost.
_BYTE, _ENDLESS, _MOST = 1 << 10, 1 << 62, 1 << 58
# Binary logarithms of the least and the largest exchange rate: bytes for the cost of every unit.
_LOW, _HIGH = -10.0, 50.0
# Arcs of a network solved in a second, about, for deadlines that count work.
_RATE = 1e7
_SOURCE, _SINK = 0, 1


def retain_by_cuts(
    problem: RematProblem, limit: int, order: Sequence[int], deadline: Deadline
) -> tuple[int, ...]:
    """A schedule along an order of units, with values retained at tight positions by minimum cuts.

    It may exceed the limit: bytes live while values are computed again are not looked at. O(tight
    positions × maximum flow).
    """
    units = tuple(order)
    cuts = _Cuts(problem, limit, units, deadline)
    made: list[list[int]] = []
    wanted, end = set(np.flatnonzero(problem.ordering.kept).tolist()), len(units)
    for place in reversed(cuts.tight()):
        chosen = cuts.choose(place, end, wanted)
        made.append(_window(problem, units, chosen, place, end, wanted))
        wanted, end = chosen.retained, place + 1
    runs = list(units[:end])
    for part in reversed(made):
        runs += part
    return tuple(runs)


def orders_by_need(problem: RematProblem) -> list[tuple[int, ...]]:
    """Two orders, each a post-order: results of ops that access few bytes first, or of many first.

    The need of a unit is the most bytes that it, or a unit that it waits for, accesses. Of the
    units that one waits for, those of most need run first.
    """
    ordering = problem.ordering
    need = accessed_bytes(problem).tolist()
    for unit in topological_order(ordering):
        need[unit] = max([need[unit], *(need[before] for before in ordering.predecessors[unit])])
    before = [sorted(units, key=lambda u: -need[u]) for units in ordering.predecessors]
    last = [unit for unit, after in enumerate(ordering.successors) if not after]
    found = []
    for sign in (1, -1):
        roots = sorted(last, key=lambda unit: sign * need[unit])
        found.append(tuple(finished(roots, before)))
    return found


@dataclass(frozen=True, slots=True)
class _Choice:
    """Storages retained over a tight position, and units that run again after it."""

    retained: set[int]
    again: set[int]


class _Cuts:
    """The minimum cuts of one order."""

    def __init__(
        self, problem: RematProblem, limit: int, order: tuple[int, ...], deadline: Deadline
    ):
        self._problem, self._limit, self._order, self._deadline = problem, limit, order, deadline
        ordering = problem.ordering
        self._accessed = accessed_bytes(problem)
        place = {unit: k for k, unit in enumerate(order)}
        # Storage -> position from which on it is there; ``None`` for one there from the start.
        self._begins = [
            None if there or not units else min(place[unit] for unit in units)
            for there, units in zip(ordering.present, ordering.accessed_by, strict=True)
        ]
        # Storage -> the unit that may run again to compute it.
        self._writer: dict[int, int] = {}
        parts = problem.written_in_parts
        for unit, written in enumerate(problem.writes):
            if problem.repeatable[unit]:
                self._writer.update((s, unit) for s in written if s not in parts)
        total = float(sum(problem.cost)) or 1.0
        self._cost = np.array(problem.cost, np.float64) / total

    def tight(self) -> list[int]:
        """Positions beyond the limit, ascending; if many, those whose units access most bytes.

        Only positions where the live bytes are largest, or begin or cease to be, count then.
        """
        live = self._problem.pressure(self._order)
        found = np.flatnonzero(live > self._limit)
        if len(found) > _TIGHT_POSITIONS:
            around = np.concatenate(([live[0]], live, [live[-1]]))
            before, after = around[:-2], around[2:]
            top = (live >= before) & (live >= after) & ((live > before) | (live > after))
            found = found[top[found]]
            accessed = self._accessed[np.array(self._order)[found]]
            most = np.argsort(-accessed, kind="stable")[:_TIGHT_POSITIONS]
            found = np.sort(found[most])
        return [int(place) for place in found]

    def choose(self, place: int, end: int, wanted: set[int]) -> _Choice:
        """The choice for a tight position; ``wanted`` is retained over the next one, at ``end``."""
        network = self._network(place, end, wanted)
        room = self._limit - int(self._accessed[self._order[place]])
        low, high = _LOW, _HIGH
        best = self._cut(network, high)
        if network.bytes_of(best) > room:
            best = self._cut(network, low)
            if network.bytes_of(best) <= room:
                for _ in range(_EXCHANGE_RATES):
                    middle = (low + high) / 2
                    found = self._cut(network, middle)
                    if network.bytes_of(found) <= room:
                        low, best = middle, found
                    else:
                        high = middle
        return best

    def _network(self, place: int, end: int, wanted: set[int]) -> _Network:
        problem, ordering = self._problem, self._problem.ordering
        needed = {s for s in wanted if self._begun(s, place)}
        for unit in self._order[place + 1 : end]:
            needed.update(s for s in ordering.accesses[unit] if self._begun(s, place))
        seen, waiting, units = set(needed), list(needed), set[int]()
        while waiting:
            unit = self._writer.get(waiting.pop(), -1)
            if unit >= 0 and unit not in units:
                units.add(unit)
                more = {s for s in problem.reads[unit] if self._begins[s] is not None} - seen
                seen |= more
                waiting += more
        # A unit cannot run again if it does not fit beside the results that are there already.
        fixed = {s for s in np.flatnonzero(ordering.kept).tolist() if self._begun(s, place)}
        held = int(ordering.size[list(fixed)].sum())
        large = {
            unit
            for unit in units
            if held
            + int(self._accessed[unit])
            - sum(int(ordering.size[s]) for s in fixed.intersection(ordering.accesses[unit]))
            > self._limit
        }
        return _Network(
            problem, needed, sorted(seen), sorted(units), large, self._writer,
            set(ordering.accesses[self._order[place]]), self._begins,
        )  # fmt: skip

    def _begun(self, storage: int, place: int) -> bool:
        """True if a storage that is not there from the start has begun at a position."""
        begins = self._begins[storage]
        return begins is not None and begins <= place

    def _cut(self, network: _Network, rate: float) -> _Choice:
        self._deadline.check()
        self._deadline.spend(len(network.tails) / _RATE)
        return network.cut(_BYTE * 2.0**rate * self._cost[network.units])


class _Network:
    """The network of one tight position: storages and units as nodes.

    A storage on the side of the source is needed; it is retained unless its unit is there too.
    """

    def __init__(
        self,
        problem: RematProblem,
        needed: set[int],
        storages: list[int],
        units: list[int],
        large: set[int],
        writer: dict[int, int],
        free: set[int],
        begins: list[int | None],
    ):
        self.units, self._storages, self._free = units, storages, free
        self._writer, self._size = writer, problem.ordering.size
        self._storage_node = {s: 2 + k for k, s in enumerate(storages)}
        self._unit_node = {unit: 2 + len(storages) + k for k, unit in enumerate(units)}
        node, run = self._storage_node, self._unit_node
        arcs = [(_SOURCE, node[s], _ENDLESS) for s in sorted(needed)]
        arcs += [
            (
                node[s],
                run.get(writer.get(s, -1), _SINK),
                0 if s in free else _BYTE * int(self._size[s]),
            )
            for s in storages
        ]
        arcs += [
            (run[unit], node[s], _ENDLESS)
            for unit in units
            for s in problem.reads[unit]
            if begins[s] is not None
        ]
        arcs += [(run[unit], _SINK, _ENDLESS if unit in large else 0) for unit in units]
        table = np.array(arcs, np.int64).reshape(-1, 3)
        self.tails, self._heads, self._capacity = table.T.copy()

    def cut(self, price: np.ndarray) -> _Choice:
        """The choice by a minimum cut, for the price of every unit."""
        from ortools.graph.python.max_flow import SimpleMaxFlow

        capacity = self._capacity.copy()
        if self.units:
            own = capacity[-len(self.units) :]
            np.maximum(own, 1 + np.minimum(price, _MOST).astype(np.int64), out=own)
        flow = SimpleMaxFlow()
        flow.add_arcs_with_capacity(self.tails, self._heads, capacity)
        status = flow.solve(_SOURCE, _SINK)
        assert status == flow.OPTIMAL
        side = set(flow.get_source_side_min_cut())
        again = {unit for unit, node in self._unit_node.items() if node in side}
        retained = {
            s
            for s, node in self._storage_node.items()
            if node in side and self._writer.get(s, -1) not in again
        }
        return _Choice(retained, again)

    def bytes_of(self, choice: _Choice) -> int:
        """Bytes retained that the tight unit does not access."""
        return int(self._size[list(choice.retained - self._free)].sum())


def _window(
    problem: RematProblem,
    order: tuple[int, ...],
    chosen: _Choice,
    place: int,
    end: int,
    wanted: set[int],
) -> list[int]:
    """The runs after a tight position up to ``end``; values are computed again when read first."""
    missing = {s: unit for unit in chosen.again for s in problem.writes[unit]}
    runs: list[int] = []

    def restore(storage: int) -> None:
        """Run the unit of a storage, after the units of what it reads, if it is still missing."""
        waiting = [storage]
        while waiting:
            unit = missing.get(waiting[-1])
            before = [] if unit is None else [s for s in problem.reads[unit] if s in missing]
            waiting += before
            if not before:
                waiting.pop()
                if unit is not None:
                    runs.append(unit)
                    for s in problem.writes[unit]:
                        del missing[s]

    for k in range(place + 1, end):
        if k + 1 == end:
            for storage in sorted(wanted):
                restore(storage)
        for storage in problem.ordering.accesses[order[k]]:
            restore(storage)
        runs.append(order[k])
    return runs
