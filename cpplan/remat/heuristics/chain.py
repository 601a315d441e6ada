"""The cheapest schedule of a chain that runs forward and then back, exactly.

Forward units f_0, …, f_n each read the value before; backward units g_{n-1}, …, g_0 each read the
backward value before (the first one f_n's) and f_k's value: a network of layers in a row and its
gradient. All values are of one size. With the values in *slots* of that size, the least cost obeys
the recursion of checkpointing (Griewank and Walther, Algorithm 799: Revolve, 2000), here for any
costs of the units and with all that a unit reads and writes counted as live:

    C(i, k, m)   of running g_k, …, g_i, given f_i's value and g_{k+1}'s, in m slots with these:
                 if i = k: cost(g_i), if m >= 3;  else the least over j in (i, k] of
                 cost(f_{i+1}, …, f_j) + C(j, k, m - 1) + C(i, j - 1, m)
    D(i, m)      of running f_{i+1}, …, f_n and g_{n-1}, …, g_i, given f_i's value

where running from f_i to f_j takes three slots (for the values of f_i, g_{k+1} and f_j), one more
if a forward unit lies between, one less before f_0, and one less if no g has run yet. With values
of several sizes the recursion does not hold: it may then pay to drop a value before its last use.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cpplan.model.remat_problem import RematProblem
from cpplan.remat.known_schedules import RematOutcome
from cpplan.runtime.deadline import Deadline

NAME = "chain program"


@dataclass(frozen=True, slots=True)
class Chain:
    """Units that make a chain, forward and back.

    Attributes
    ----------
    forward
        f_0, …, f_n.
    backward
        g_0, …, g_{n-1}; the last of them runs first.
    size
        Bytes of every value.
    base
        Bytes that are live throughout.
    """

    forward: tuple[int, ...]
    backward: tuple[int, ...]
    size: int
    base: int


def as_chain(problem: RematProblem) -> Chain | None:
    """The units of a chain, forward and back, or ``None`` if the problem is none. O(units).

    In a chain each unit writes one value of the same size, needs no other bytes, and waits only for
    the units whose values it reads; forward units may run again; only the last value is kept.
    """
    ordering, count = problem.ordering, len(problem)
    plain = count % 2 and len(ordering.size) == count and not ordering.entry
    if not plain or ordering.extra.any() or ordering.present.any():
        return None
    if (ordering.size != ordering.size[0]).any() or any(len(w) != 1 for w in problem.writes):
        return None
    writer = {written[0]: unit for unit, written in enumerate(problem.writes)}
    order = _only_order(problem)
    if order is None or len(writer) != count:
        return None
    last = count // 2
    for k, unit in enumerate(order):
        expected = {order[k - 1]} if k else set()
        if k > last:
            expected.add(order[2 * last - k])
        if {writer[storage] for storage in problem.reads[unit]} != expected:
            return None
        if not expected.issuperset(ordering.predecessors[unit]):
            return None
        if k <= last and not problem.repeatable[unit]:
            return None
        if k < 2 * last and ordering.kept[problem.writes[unit][0]]:
            return None
    size = int(ordering.size[0])
    return Chain(tuple(order[: last + 1]), tuple(reversed(order[last + 1 :])), size, ordering.base)


def solve_chain(
    problem: RematProblem, chain: Chain, limit: int, deadline: Deadline
) -> RematOutcome | None:
    """The cheapest schedule within a limit; ``None`` if there is none. O(n³ × slots)."""
    last = len(chain.backward)
    # Slots beyond one for every live value have no effect.
    slots = min((limit - chain.base) // chain.size, last + 3)
    schedule = _Program(problem, chain, slots, deadline).schedule() if slots > 0 else None
    if schedule is None:
        return None
    cost = problem.total_cost(schedule)
    return RematOutcome(tuple(schedule), problem.peak(schedule), cost, cost, NAME, NAME)


def _only_order(problem: RematProblem) -> list[int] | None:
    """The order of the units if only one is valid, else ``None``."""
    waiting = [len(before) for before in problem.ordering.predecessors]
    ready = [unit for unit, number in enumerate(waiting) if not number]
    order: list[int] = []
    while len(ready) == 1:
        order.append(ready.pop())
        for after in problem.ordering.successors[order[-1]]:
            waiting[after] -= 1
            if not waiting[after]:
                ready.append(after)
    return order if len(order) == len(problem) else None


class _Program:
    """The tables of the recursion, for all numbers of slots; row 0 is the start, f_{-1}.

    ``back[i, k, m]`` is C(i, k, m), ``out[i, m]`` is D(i, m); rows are shifted by one.
    """

    def __init__(self, problem: RematProblem, chain: Chain, slots: int, deadline: Deadline):
        self.chain, self.slots = chain, slots
        self.last = last = len(chain.backward)
        costs = problem.cost
        whole = all(isinstance(cost, int) for cost in costs) and sum(costs) < 2**40
        kind = np.int64 if whole else np.float64
        self.never = kind(2**60) if whole else kind(np.inf)
        forward = np.array([costs[unit] for unit in chain.forward], kind)
        self.walked = np.concatenate((np.zeros(1, kind), np.cumsum(forward)))
        self.turn = np.array([costs[unit] for unit in chain.backward], kind)
        self.back = np.full((last + 1, last + 1, slots + 1), self.never, kind)
        self.out = np.full((last + 1, slots + 1), self.never, kind)
        for i in range(last - 1, -2, -1):
            for k in range(i, last):
                deadline.check()
                self.back[i + 1, k + 1] = self._best_back(i, k)[0]
            self.out[i + 1] = self._best_out(i)[0]

    def _best_back(self, i: int, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Costs C(i, k, ·) and their best j, each of shape ``(slots + 1,)``."""
        nowhere = np.zeros(self.slots + 1, np.int64)
        best = np.full(self.slots + 1, self.never)
        if k == i:
            if i < 0:
                best[:] = 0
            else:
                best[3:] = self.turn[i]
            return best, nowhere
        j = np.arange(i + 1, k + 1)
        return self._best_step(i, j, self.back[j + 1, k + 1], held=1)

    def _best_out(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Costs D(i, ·) and their best j: n if f_n runs without another value kept."""
        j = np.arange(i + 1, self.last)
        after = np.concatenate((self.out[j + 1], np.zeros((1, self.slots + 1), self.out.dtype)))
        return self._best_step(i, np.arange(i + 1, self.last + 1), after, held=0)

    def _best_step(
        self, i: int, j: np.ndarray, after: np.ndarray, held: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Least cost over j for each number of slots, and the best j.

        The cost is that of running from f_i to f_j, plus ``after`` in the slots left, plus
        C(i, j - 1, ·). ``held`` slots are taken by a backward value.
        """
        kept = int(i >= 0)
        cost = np.full((len(j), self.slots + 1), self.never)
        cost[:, kept:] = after[:, : self.slots + 1 - kept]
        rest = self.back[i + 1, j]
        total = np.minimum(cost + rest, self.never)
        total += (self.walked[j + 1] - self.walked[i + 1])[:, None]
        between = (j > i + 1).astype(np.int64)
        needs = held + kept + 1 + between
        total[np.arange(self.slots + 1)[None, :] < needs[:, None]] = self.never
        choice = total.argmin(axis=0)
        best = np.minimum(total[choice, np.arange(self.slots + 1)], self.never)
        return best, j[choice]

    def schedule(self) -> list[int] | None:
        """The schedule of least cost, or ``None`` if none fits."""
        chain, last = self.chain, self.last
        if self.out[0, self.slots] >= self.never:
            return None
        units: list[int] = []
        # A stack of the tasks (i, k, m) still to do; k = n if no backward unit has run.
        tasks = [(-1, last, self.slots)]
        while tasks:
            i, k, m = tasks.pop()
            if i == k:
                units += [chain.backward[i]] if i >= 0 else []
                continue
            best = self._best_out(i) if k == last else self._best_back(i, k)
            j = int(best[1][m])
            units += chain.forward[i + 1 : j + 1]
            tasks.append((i, j - 1, m))
            if j < last:
                tasks.append((j, k, m - int(i >= 0)))
        return units
