"""All choices of an order and its gaps, the cheapest first, where these are few.

Ops run one after another. A state tells which ops are done, which storages lie in the fast pool,
and which have a copy in the slow one. An op leads from a state to others: each of its operands is
accessed in one of the pools, and stays in the fast one afterwards or leaves it. All states that can
be reached are visited, layer by layer: after one op, after two, and so on. Then they are walked
again from the start, the cheapest choice first. Bytes in the fast pool count; offsets, and the
capacity of the slow pool, do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

import numpy as np

from cpplan.model.graph import Graph
from cpplan.model.spill_problem import Flags, SpillProblem
from cpplan.runtime.deadline import Deadline, TimeUpError

# Most steps from one state of the pools to the next.
_EVERY_CHOICE_EDGES = 20_000

ALL_GAPS, ALL_ORDERS = "search of all gaps", "search of all orders and gaps"
# Deterministic seconds of a transition between states.
_RATE = 2e-5


class State(NamedTuple):
    """Sets of ops and of storages, as bits: ops done, storages in the fast and in the slow pool."""

    done: int
    fast: int
    slow: int


class _Edge(NamedTuple):
    """An op run in a state: its cost, the next state, and the storages kept after it."""

    op: int
    cost: int
    state: State
    kept: int


class _Access(NamedTuple):
    """A storage, whether its op must have it in the fast pool, and the cost if not."""

    storage: int
    near: bool
    cost: int


class _Way(NamedTuple):
    """A way of an access, or of several: its cost, the room that it takes, and storages as bits.

    ``near`` are accessed in the fast pool, ``kept`` there afterwards, and ``slow`` written to the
    slow pool.
    """

    cost: int = 0
    room: int = 0
    near: int = 0
    kept: int = 0
    slow: int = 0


class _Pair(NamedTuple):
    """An output that may be written over an input, and the room that this saves."""

    output: int
    source: int
    room: int


class Ordered(NamedTuple):
    """An order of the ops, the gaps kept, and what the moves cost.

    ``kept`` has the storages that lie in the fast pool at first, then those that stay there after
    each op, as bits; a result that nothing reads is among them if it is written there.
    """

    order: tuple[int, ...]
    kept: tuple[int, ...]
    cost: int

    def gaps(self, problem: SpillProblem) -> Flags:
        """The gaps kept, in the problem of this order."""
        before = problem.gap_before
        step = np.where(before < 0, 0, problem.access_step[before] + 1).tolist()
        rows = zip(problem.gap_storage.tolist(), step, strict=True)
        found: Flags = np.array([self.kept[at] >> s & 1 for s, at in rows], bool)
        return found


class EveryChoice:
    """The choices of a problem.

    Parameters
    ----------
    graph
        The model.
    problem
        Its spilling problem at one order.
    order
        That order.
    any_order
        True to choose the order too.
    """

    def __init__(
        self, graph: Graph, problem: SpillProblem, order: Sequence[int], *, any_order: bool
    ):
        self.problem = problem
        self.ops, self.storages = len(order), len(problem.names)
        self.before = [sum(1 << one for one in several) for several in graph.predecessors]
        if not any_order:
            for step, op in enumerate(order):
                self.before[op] |= sum(1 << earlier for earlier in order[:step])
        self.accesses: list[list[_Access]] = [[] for _ in order]
        self.users = [0] * self.storages
        rows = zip(
            problem.access_storage.tolist(), problem.access_step.tolist(),
            problem.access_near.tolist(), problem.access_cost.tolist(), strict=True,
        )  # fmt: skip
        for storage, step, near, cost in rows:
            self.accesses[order[step]].append(_Access(storage, near, cost))
            self.users[storage] |= 1 << order[step]
        self.pairs = self._pairs(order)
        self.room = problem.room.tolist()
        self.spill, self.reload = problem.spill_cost.tolist(), problem.reload_cost.tolist()
        # Storages that never leave the fast pool, and those that may be kept there.
        fixed = np.zeros(self.storages, bool)
        fixed[problem.gap_storage[problem.gap_fixed == 1]] = True
        keeps = np.zeros(self.storages, bool)
        inner = (problem.gap_before >= 0) & (problem.gap_fixed != 0)
        keeps[problem.gap_storage[inner]] = True
        self.fixed, self.keeps = fixed.tolist(), keeps.tolist()
        self.stay = problem.stay.tolist()
        self.lasts = sum(1 << row for row in np.flatnonzero(problem.lasts).tolist())
        self.base = problem.base.tolist()
        self._alive: dict[int, int] = {}

    def _pairs(self, order: Sequence[int]) -> list[list[_Pair]]:
        problem = self.problem
        pairs: list[list[_Pair]] = [[] for _ in order]
        storage = problem.access_storage
        for credit, access in zip(
            problem.over_credit.tolist(), problem.over_access.tolist(), strict=True
        ):
            output = int(storage[problem.credit_access[credit]])
            room = int(problem.credit_room[credit])
            op = order[int(problem.credit_step[credit])]
            pairs[op].append(_Pair(output, int(storage[access]), room))
        return pairs

    def alive(self, done: int) -> int:
        """Storages that are needed after these ops."""
        if done not in self._alive:
            used = sum(1 << row for row, users in enumerate(self.users) if users & ~done)
            self._alive[done] = self.lasts | used
        return self._alive[done]

    def starts(self) -> list[State]:
        """States before the first op: the caller puts what it brings into one of the pools."""
        problem = self.problem
        first = (problem.gap_before < 0) & ~problem.written[problem.gap_storage]
        states = [State(0, 0, 0)]
        for gap in np.flatnonzero(first).tolist():
            bit, fixed = 1 << int(problem.gap_storage[gap]), int(problem.gap_fixed[gap])
            slow = [s._replace(slow=s.slow | bit) for s in states if fixed != 1]
            fast = [s._replace(fast=s.fast | bit) for s in states if fixed != 0]
            states = slow + fast
        return states

    def visit(self, most: int | None, deadline: Deadline) -> bool:
        """Visit all states, but for choices that cost ``most`` or more; false if they are too many.

        Raises
        ------
        TimeUpError
            If the deadline passes.
        """
        layers: list[dict[State, int]] = [dict.fromkeys(self.starts(), 0)]
        transitions, limit = 0, _EVERY_CHOICE_EDGES
        self.edges: dict[State, list[_Edge]] = {}
        for _ in range(self.ops):
            following: dict[State, int] = {}
            for state, paid in layers[-1].items():
                edges = [
                    edge
                    for op in range(self.ops)
                    if not (state.done >> op & 1 or self.before[op] & ~state.done)
                    for edge in self._after(op, state)
                    if most is None or paid + edge.cost < most
                ]
                self.edges[state] = edges
                for edge in edges:
                    known = following.get(edge.state, paid + edge.cost)
                    following[edge.state] = min(known, paid + edge.cost)
                transitions += len(edges)
                deadline.check(_RATE * (1 + len(edges)))
                if transitions > limit:
                    return False
            layers.append(following)
        self.left = dict.fromkeys(layers.pop(), 0)
        for layer in reversed(layers):
            for state in layer:
                costs = [
                    e.cost + self.left[e.state] for e in self.edges[state] if e.state in self.left
                ]
                if costs:
                    self.left[state] = min(costs)
        return True

    def _after(self, op: int, state: State) -> Iterator[_Edge]:
        """All ways to run an op in a state that fit into the fast pool."""
        done = state.done | 1 << op
        alive, step = self.alive(done), state.done.bit_count()
        free = self.problem.capacity - self.base[step]
        free -= sum(room for row, room in enumerate(self.room) if state.fast >> row & 1)
        most = sum(pair.room for pair in self.pairs[op])
        ways, rest = [_Way()], state.fast
        for access in self.accesses[op]:
            rest &= ~(1 << access.storage)
            more = self._ways(access, state, alive)
            ways = [
                _Way(*(one + other for one, other in zip(way, new, strict=True)))
                for way in ways
                for new in more
                if way.room + new.room <= free + most
            ]
        for way in ways:
            if way.room <= free or way.room - self._saved(op, way) <= free:
                kept = rest | way.kept
                slow = (state.slow | way.slow) & alive
                yield _Edge(op, way.cost, State(done, kept & alive, slow), kept)

    def _ways(self, access: _Access, state: State, alive: int) -> list[_Way]:
        """Ways of one access: in either pool, to stay in the fast one afterwards or to leave it."""
        row, near, cost = access
        bit, room = 1 << row, self.room[row]
        lives, copied = bool(alive & bit), bool(state.slow & bit)
        if state.fast & bit:
            ways = [_Way(near=bit, kept=bit)] if lives else [_Way(near=bit)]
            if lives and copied:
                ways.append(_Way(near=bit))
            elif lives and not (self.fixed[row] or self.stay[row]):
                ways.append(_Way(self.spill[row], near=bit, slow=bit))
            return ways
        if copied:
            ways = [_Way(self.reload[row], room, bit)] if near else [_Way(cost)]
            if lives and self.keeps[row]:
                ways.append(_Way(self.reload[row], room, bit, bit))
            return ways
        ways = [] if near else [_Way(self.spill[row], slow=bit)]
        if near and lives and not self.fixed[row]:
            ways.append(_Way(self.spill[row], room, bit, slow=bit))
        if near or self.keeps[row]:
            ways.append(_Way(0, room, bit, bit))
        return ways

    def _saved(self, op: int, way: _Way) -> int:
        """Most room saved by outputs that are written over inputs, which leave the fast pool."""
        # Output -> inputs that it may be written over, with the room that each saves.
        sources: dict[int, list[tuple[int, int]]] = {}
        for output, source, room in self.pairs[op]:
            if way.near >> output & 1 and (way.near & ~way.kept) >> source & 1:
                sources.setdefault(output, []).append((source, room))

        def best(outputs: list[int], left: dict[int, int]) -> int:
            if not outputs:
                return 0
            output, *others = outputs
            found = best(others, left)
            for source, room in sources[output]:
                saved = min(room, left.get(source, self.room[source]))
                rest = left.get(source, self.room[source]) - saved
                found = max(found, saved + best(others, {**left, source: rest}))
            return found

        return best(list(sources), {})

    def cheapest_first(self) -> Iterator[Ordered]:
        """Yield the choices visited, the cheapest first."""
        number = count()
        starts = [(self.left[s], next(number), 0, s, None) for s in self.starts() if s in self.left]
        queue: list[tuple[int, int, int, State, _Trail | None]] = sorted(starts)
        while queue:
            _, _, paid, state, trail = heappop(queue)
            if state.done.bit_count() == self.ops:
                yield _choice(trail, paid)
            for edge in self.edges.get(state, ()):
                if edge.state in self.left:
                    cost = paid + edge.cost
                    after = _Trail(trail, state.fast, edge)
                    rank = cost + self.left[edge.state], -next(number)
                    heappush(queue, (*rank, cost, edge.state, after))

    def settle(
        self, place: Callable[[Ordered], bool | None], most: int | None, deadline: Deadline
    ) -> int | None:
        """Place choices that cost less than ``most``, the cheapest first, until one fits."""
        least = 0
        with suppress(TimeUpError):
            if not self.visit(most, deadline):
                return 0
            for choice in self.cheapest_first():
                least = choice.cost
                if place(choice) is not False:
                    return least
                deadline.check()
            return most
        return least


class _Trail(NamedTuple):
    """The last op run, the storages in the fast pool before it, and the ops before."""

    earlier: _Trail | None
    fast: int
    edge: _Edge


def _choice(trail: _Trail | None, paid: int) -> Ordered:
    edges, first = [], 0
    while trail is not None:
        edges.append(trail.edge)
        first, trail = trail.fast, trail.earlier
    edges.reverse()
    return Ordered(tuple(edge.op for edge in edges), (first, *(edge.kept for edge in edges)), paid)
