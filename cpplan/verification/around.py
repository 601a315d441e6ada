"""Ops that run before or after others in every order, in memory linear in the ops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from cpplan.model.problem import Ints
from cpplan.verification.storages import Storages

# Approximate bits of all bit sets together, and the smallest number of ops in a group.
MOST_BITS, LEAST_COLUMNS = 1 << 25, 256


class Surroundings:
    """The ops that must run before and after each op.

    Parameters
    ----------
    predecessors
        Ops that each op waits for; without a cycle.
    """

    def __init__(self, predecessors: Sequence[Sequence[int]]):
        self.predecessors = predecessors
        self.successors: list[list[int]] = [[] for _ in predecessors]
        for k, before in enumerate(predecessors):
            for other in before:
                self.successors[other].append(k)
        self.order = list(_topological(predecessors, self.successors))

    def before(self, op: int) -> set[int]:
        """Ops that run before an op in every order."""
        return _reached(self.predecessors, op)

    def after(self, op: int) -> set[int]:
        """Ops that run after an op in every order."""
        return _reached(self.successors, op)

    def groups(self, ops: Sequence[int]) -> Iterator[Sequence[int]]:
        """The ops in groups; the bit sets of one group have about 2**25 bits together."""
        width = max(LEAST_COLUMNS, MOST_BITS // max(1, len(self.predecessors)))
        return (ops[begin : begin + width] for begin in range(0, len(ops), width))

    def at_or_before(self, chosen: Sequence[int]) -> list[int]:
        """For each op, as bits, the chosen ops that are this op or must run before it."""
        bits = self._own(chosen)
        for op in self.order:
            for other in self.predecessors[op]:
                bits[op] |= bits[other]
        return bits

    def at_or_after(self, chosen: Sequence[int]) -> list[int]:
        """For each op, as bits, the chosen ops that are this op or must run after it."""
        bits = self._own(chosen)
        for op in reversed(self.order):
            for other in self.predecessors[op]:
                bits[other] |= bits[op]
        return bits

    def all_wait(self, pairs: Iterable[tuple[int, int]]) -> tuple[int, int] | None:
        """The first pair whose first op need not run after its second, or ``None``."""
        doubtful = [(one, other) for one, other in pairs if other not in self.predecessors[one]]
        earlier = sorted({other for _, other in doubtful})
        for chosen in self.groups(earlier):
            bit = {op: k for k, op in enumerate(chosen)}
            before = self.at_or_before(chosen)
            for one, other in doubtful:
                if other in bit and (one == other or not before[one] >> bit[other] & 1):
                    return one, other
        return None

    def _own(self, chosen: Sequence[int]) -> list[int]:
        bits = [0] * len(self.predecessors)
        for k, op in enumerate(chosen):
            bits[op] = 1 << k
        return bits


def bytes_beside(
    storages: Storages, around: Surroundings, roots: Iterable[str], chosen: Sequence[int]
) -> Ints:
    """Bytes of storages that are live while each chosen op runs, but that the op does not access.

    They are live in every order of first runs. O((ops + storages) × chosen / a machine word).
    """
    before, after = around.at_or_before(chosen), around.at_or_after(chosen)
    everyone, bit = (1 << len(chosen)) - 1, {op: 1 << k for k, op in enumerate(chosen)}
    beside, kept = np.zeros(len(chosen), np.int64), set(storages.kept)
    throughout = 0
    for root in roots:
        if root in storages.again:
            continue
        live, accessors = everyone, storages.accessors[root]
        if root not in storages.brought:
            live = _union(after, accessors)
        if live and root not in kept:
            live &= _union(before, accessors)
        own = 0
        for op in accessors:
            own |= bit.get(op, 0)
        live &= ~own
        if live == everyone:
            throughout += storages.size[root]
        elif live:
            beside[_members(live, len(chosen))] += storages.size[root]
    return beside + throughout


def bytes_beside_one(storages: Storages, predecessors: Sequence[Sequence[int]], op: int) -> int:
    """The result of :func:`bytes_beside` for all storages and one op, in O(ops + accesses)."""
    successors: list[list[int]] = [[] for _ in predecessors]
    for k, earlier in enumerate(predecessors):
        for other in earlier:
            successors[other].append(k)
    before, after = np.zeros((2, len(predecessors)), np.bool_)
    before[[op, *_reached(predecessors, op)]] = True
    after[[op, *_reached(successors, op)]] = True
    names = list(storages.size)
    lists = [storages.accessors[name] for name in names]
    accessing = np.fromiter(chain.from_iterable(lists), np.int64)
    owner = np.repeat(np.arange(len(names)), np.fromiter(map(len, lists), np.int64, len(names)))
    kept, brought = set(storages.kept), storages.brought
    live = np.array([name in brought for name in names], np.bool_)
    ends = np.array([name in kept for name in names], np.bool_)
    again = np.array([name in storages.again for name in names], np.bool_)
    # A storage is live if this op or one before it accesses it, and this op or one after it does.
    live[owner[before[accessing]]] = True
    ends[owner[after[accessing]]] = True
    live &= ends & ~again
    live[owner[accessing == op]] = False
    return sum(
        size for size, there in zip(storages.size.values(), live.tolist(), strict=True) if there
    )


def _union(sets: Sequence[int], numbers: Iterable[int]) -> int:
    union = 0
    for k in numbers:
        union |= sets[k]
    return union


def _members(bits: int, count: int) -> Ints:
    """Positions of the bits that are 1."""
    raw = np.frombuffer(bits.to_bytes(-(-count // 8), "little"), np.uint8)
    return np.flatnonzero(np.unpackbits(raw, count=count, bitorder="little"))


def _reached(links: Sequence[Sequence[int]], start: int) -> set[int]:
    found = set(links[start])
    stack = list(found)
    while stack:
        for other in links[stack.pop()]:
            if other not in found:
                found.add(other)
                stack.append(other)
    return found


def _topological(
    predecessors: Sequence[Sequence[int]], successors: Sequence[Sequence[int]]
) -> Iterator[int]:
    waiting = [len(before) for before in predecessors]
    ready = [k for k, count in enumerate(waiting) if not count]
    while ready:
        k = ready.pop()
        yield k
        for other in successors[k]:
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)
