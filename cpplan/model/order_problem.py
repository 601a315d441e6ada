"""Ordering problem as data: ops with their precedences, and the storages that they access."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from cpplan.model.problem import Ints


@dataclass(frozen=True, eq=False)
class OrderProblem:
    """Ops with their precedences and the storages they access, all by number.

    Attributes
    ----------
    predecessors
        For every op, the ops that must have run before it.
    extra
        Bytes live only while the op runs (workspaces, bodies), shape ``(ops,)``.
    size
        Bytes of every storage, shape ``(storages,)``; all positive.
    accessed_by
        For every storage, the ops that read or write it, ascending. A storage that no op accesses
        is live throughout if kept, else at the first step only; these are mostly summed up in
        ``base`` and ``entry``.
    present
        True for a storage that is live from the start, shape ``(storages,)``.
    kept
        True for a storage that stays live to the end, shape ``(storages,)``.
    base
        Bytes that are live throughout and that no op accesses.
    entry
        Bytes that are live during the first op only (inputs that no op reads).
    names, storages
        Names of the ops and of the storages; empty if they have none.
    """

    predecessors: tuple[tuple[int, ...], ...]
    extra: Ints
    size: Ints
    accessed_by: tuple[tuple[int, ...], ...]
    present: np.ndarray
    kept: np.ndarray
    base: int = 0
    entry: int = 0
    names: tuple[str, ...] = ()
    storages: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.predecessors)

    @cached_property
    def accesses(self) -> tuple[tuple[int, ...], ...]:
        """For every op, the storages it reads or writes, ascending."""
        storages: list[list[int]] = [[] for _ in self.predecessors]
        for storage, ops in enumerate(self.accessed_by):
            for op in ops:
                storages[op].append(storage)
        return tuple(map(tuple, storages))

    @cached_property
    def successors(self) -> tuple[tuple[int, ...], ...]:
        """For every op, the ops that wait for it."""
        after: list[list[int]] = [[] for _ in self.predecessors]
        for op, before in enumerate(self.predecessors):
            for other in before:
                after[other].append(op)
        return tuple(map(tuple, after))

    @cached_property
    def _accessing(self) -> tuple[Ints, Ints]:
        """``accessed_by`` one storage after another, and the start of each."""
        counts = [len(ops) for ops in self.accessed_by]
        ops = np.fromiter(chain.from_iterable(self.accessed_by), np.int64, sum(counts))
        return ops, np.cumsum([0, *counts[:-1]])

    @cached_property
    def idle(self) -> np.ndarray:
        """True for every storage that no op accesses, shape ``(storages,)``."""
        return np.array([not ops for ops in self.accessed_by], bool)

    def pressure(self, order: Iterable[int]) -> Ints:
        """Bytes live at every step of an order, shape ``(ops,)``. O(ops + accesses)."""
        order = np.fromiter(order, np.int64)
        step = np.empty(len(order), np.int64)
        step[order] = np.arange(len(order))
        change = np.zeros(len(order) + 1, np.int64)
        if len(self.size):
            ops, starts = self._accessing
            steps, accessed = step[ops], ~self.idle
            begins, ends = np.zeros((2, len(self.size)), np.int64)
            if accessed.any():
                begins[accessed] = np.minimum.reduceat(steps, starts[accessed])
                ends[accessed] = np.maximum.reduceat(steps, starts[accessed])
            np.add.at(change, np.where(self.present, 0, begins), self.size)
            np.subtract.at(change, ends[~self.kept] + 1, self.size[~self.kept])
        live: Ints = self.base + np.cumsum(change)[:-1] + self.extra[order]
        live[:1] += self.entry
        return live

    def peak(self, order: Iterable[int]) -> int:
        """The largest :meth:`pressure` of an order, bytes."""
        idle = self.base if len(self) else self.base + self.entry
        return int(self.pressure(order).max(initial=idle))

    def is_order(self, order: Iterable[int]) -> bool:
        """True if every op comes once, after its predecessors."""
        done: set[int] = set()
        for op in order:
            if op in done or not done.issuperset(self.predecessors[op]):
                return False
            done.add(op)
        return len(done) == len(self)
