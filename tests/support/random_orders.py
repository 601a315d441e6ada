"""Random ordering problems, and their smallest peak from the definition.

The oracle walks all orders and counts, at each step, what has been or is being accessed and still
will be; it shares no code with ``OrderProblem.pressure``.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import permutations

import numpy as np

from cpplan.model.graph import Graph
from cpplan.model.order_problem import OrderProblem


def random_order_problem(rng: random.Random, ops: int, *, unit: int = 1) -> OrderProblem:
    """Storages accessed by one to four ops, control edges, extras, and all that ends may carry."""
    edges: list[set[int]] = [set() for _ in range(ops)]
    size, accessed_by, present, kept = [], [], [], []
    # Edges go up in a shuffled numbering, so that 0, 1, 2, … need not be an order.
    name = rng.sample(range(ops), ops)
    for _ in range(rng.randint(0, 2 * ops) if ops else 0):
        users = sorted(rng.sample(range(ops), min(ops, rng.randint(1, 4))))
        given = rng.random() < 0.2
        if not given:
            for reader in users[1:]:
                edges[name[reader]].add(name[users[0]])
        size.append(unit * rng.randint(1, 9))
        accessed_by.append(tuple(sorted(name[k] for k in users)))
        present.append(given)
        kept.append(rng.random() < 0.2)
    for _ in range(rng.randint(0, ops // 2)):
        one, other = sorted(rng.sample(range(ops), 2))
        edges[name[other]].add(name[one])
    return OrderProblem(
        predecessors=tuple(tuple(sorted(before)) for before in edges),
        extra=np.array([unit * rng.choice((0, 0, 0, 5)) for _ in range(ops)], np.int64),
        size=np.array(size, np.int64),
        accessed_by=tuple(accessed_by),
        present=np.array(present, bool),
        kept=np.array(kept, bool),
        base=unit * rng.choice((0, 0, 7)),
        entry=unit * rng.choice((0, 0, 11)),
    )


def random_topological(rng: random.Random, problem: OrderProblem) -> list[int]:
    """An order, each op chosen at random among those that may run."""
    order: list[int] = []
    while len(order) < len(problem):
        ready = [
            op
            for op in range(len(problem))
            if op not in order and set(problem.predecessors[op]) <= set(order)
        ]
        order.append(rng.choice(ready))
    return order


def every_order(problem: OrderProblem | Graph) -> Iterator[tuple[int, ...]]:
    """All orders of a problem or of a graph's ops; for up to about eight ops."""
    for order in permutations(range(len(problem.predecessors))):
        step = {op: k for k, op in enumerate(order)}
        pairs = ((p, op) for op, before in enumerate(problem.predecessors) for p in before)
        if all(step[p] < step[op] for p, op in pairs):
            yield order


def live_bytes(problem: OrderProblem, order: tuple[int, ...]) -> list[int]:
    """Bytes live at every step, one step at a time."""
    live = []
    for k, op in enumerate(order):
        so_far, from_now = set(order[: k + 1]), set(order[k:])
        total = problem.base + int(problem.extra[op]) + (problem.entry if k == 0 else 0)
        for storage, users in enumerate(problem.accessed_by):
            born = problem.present[storage] or so_far.intersection(users)
            needed = problem.kept[storage] or from_now.intersection(users)
            total += int(problem.size[storage]) if born and needed else 0
        live.append(total)
    return live


def brute_force_order_peak(problem: OrderProblem) -> int:
    """The smallest peak over all orders."""
    return min(max(live_bytes(problem, order), default=0) for order in every_order(problem))
