"""A window of an order as an ordering problem of its own.

If only the ops at the steps ``begin <= step < end`` change places, the storages live at the
window's two ends stay the same, so that the window is an ordering problem again: storages accessed
before the window are present, storages accessed after it are kept, and storages live throughout are
in ``base``. Its pressure is the whole order's pressure at these steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cpplan.model.errors import InputError
from cpplan.model.order_problem import OrderProblem
from cpplan.model.problem import Ints


class OrderWindows:
    """An order whose windows are taken out and put back, with its live bytes kept up to date.

    A window takes time linear in the accesses of its ops, however long the order is.

    Parameters
    ----------
    problem
        The ordering problem.
    order
        Every op once, after its predecessors.

    Attributes
    ----------
    order
        The ops in their present order, a list.
    live
        Bytes of ``base`` and of the storages live at every step, a list: the pressure without
        ``extra`` and ``entry``.
    """

    def __init__(self, problem: OrderProblem, order: Sequence[int] | Ints):
        self.problem = problem
        self.order = [int(op) for op in order]
        self._step = [0] * len(problem)
        for step, op in enumerate(self.order):
            self._step[op] = step
        self._size: list[int] = problem.size.tolist()
        self._extra: list[int] = problem.extra.tolist()
        self._present: list[bool] = problem.present.tolist()
        self._kept: list[bool] = problem.kept.tolist()
        self._first, self._last = [0] * len(self._size), [0] * len(self._size)
        change = [0] * (len(self.order) + 1)
        for storage, ops in enumerate(problem.accessed_by):
            steps = [self._step[op] for op in ops]
            first, last = min(steps), max(steps)
            self._first[storage], self._last[storage] = first, last
            change[0 if self._present[storage] else first] += self._size[storage]
            if not self._kept[storage]:
                change[last + 1] -= self._size[storage]
        self.live: list[int] = []
        live = problem.base
        for difference in change[:-1]:
            live += difference
            self.live.append(live)

    def pressure(self, step: int) -> int:
        """Bytes live at a step, with the op's ``extra`` and the first step's ``entry``."""
        entry = self.problem.entry if step == 0 else 0
        return self.live[step] + self._extra[self.order[step]] + entry

    def window(self, begin: int, end: int) -> OrderProblem:
        """The ops at the steps ``[begin, end)``, renumbered from 0 in their present order.

        Storages that live throughout the window are in its ``base``, accessed or not. Raises
        ``InputError`` if the window is empty or reaches beyond the order.
        """
        self._check(begin, end)
        problem, step = self.problem, self._step
        ops = self.order[begin:end]
        base = self.live[begin]
        size, accessed_by, present, kept = [], [], [], []
        for storage, local in self._accessed(begin, end).items():
            here_before = self._present[storage] or self._first[storage] < begin
            stays = self._kept[storage] or self._last[storage] >= end
            if here_before and stays:
                continue
            if here_before or self._first[storage] == begin:
                base -= self._size[storage]
            size.append(self._size[storage])
            accessed_by.append(tuple(local))
            present.append(here_before)
            kept.append(stays)
        return OrderProblem(
            predecessors=tuple(
                tuple(step[p] - begin for p in problem.predecessors[op] if step[p] >= begin)
                for op in ops
            ),
            extra=np.array([self._extra[op] for op in ops], np.int64),
            size=np.array(size, np.int64),
            accessed_by=tuple(accessed_by),
            present=np.array(present, bool),
            kept=np.array(kept, bool),
            base=base,
            entry=problem.entry if begin == 0 else 0,
            names=tuple(problem.names[op] for op in ops) if problem.names else (),
        )

    def put_back(self, begin: int, end: int, order: Sequence[int] | Ints) -> None:
        """Run the window's ops in this order: its op ``k`` is the one now at ``begin + k``.

        Raises ``InputError`` if the window is empty or reaches beyond the order.
        """
        self._check(begin, end)
        before = self._changes(begin, end)
        ops = self.order[begin:end]
        for step, local in enumerate(order, begin):
            self.order[step] = ops[local]
            self._step[ops[local]] = step
        for storage, local in self._accessed(begin, end).items():
            if self._first[storage] >= begin:
                self._first[storage] = begin + local[0]
            if self._last[storage] < end:
                self._last[storage] = begin + local[-1]
        after = self._changes(begin, end)
        shift = 0
        for step in range(begin, end):
            shift += after[step - begin] - before[step - begin]
            self.live[step] += shift

    def _changes(self, begin: int, end: int) -> list[int]:
        """Change of the live bytes at each step, by storages that begin or end in the window."""
        change = [0] * (end - begin + 1)
        for storage in self._accessed(begin, end):
            if not self._present[storage] and self._first[storage] >= begin:
                change[self._first[storage] - begin] += self._size[storage]
            if not self._kept[storage] and self._last[storage] < end:
                change[self._last[storage] + 1 - begin] -= self._size[storage]
        return change

    def _accessed(self, begin: int, end: int) -> dict[int, list[int]]:
        """Storages that the window's ops access, with the positions of these ops, ascending."""
        accessed: dict[int, list[int]] = {}
        for local, op in enumerate(self.order[begin:end]):
            for storage in self.problem.accesses[op]:
                accessed.setdefault(storage, []).append(local)
        return accessed

    def _check(self, begin: int, end: int) -> None:
        if not 0 <= begin < end <= len(self.order):
            raise InputError(f"[{begin}, {end}) is no window of {len(self.order)} ops")
