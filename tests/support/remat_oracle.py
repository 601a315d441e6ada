"""Rematerialization of small graphs: the least cost within a limit, from the definitions.

The oracle walks over what has run and what memory holds; it shares no code with
``RematProblem.pressure``. A value may be dropped at any time, and had better be dropped only when a
unit does not fit: holding more never forbids a later choice.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from heapq import heappop, heappush
from itertools import combinations, count

from support.orders_oracle import random_graph

from cpplan import Graph, Op, Tensor
from cpplan.model.remat_problem import RematProblem
from cpplan.remat.problem import remat_problem

_KINDS = ("intermediate", "output")


def remat_chain(
    n: int, sizes: int = 1, forward: list[float] | None = None, backward: list[float] | None = None
) -> Graph:
    """Nodes 0, …, 2n; node i reads i - 1, and 2n - i reads i too for i < n. Costs: 1 or given."""
    cost = [*(forward or [1] * (n + 1)), *(backward or [1] * n)]
    ops = tuple(
        Op(
            f"n{k}",
            inputs=tuple(f"t{j}" for j in sorted({k - 1, 2 * n - k if k > n else k - 1}) if j >= 0),
            outputs=(f"t{k}",),
            cost=cost[k],
        )
        for k in range(2 * n + 1)
    )
    tensors = tuple(Tensor(f"t{k}", sizes) for k in range(2 * n + 1))
    return Graph(f"chain {n}", tensors, ops)


def random_remat_problem(seed: int, ops: int) -> RematProblem:
    """The problem of a random graph."""
    return remat_problem(random_remat_graph(seed, ops))


def random_remat_graph(seed: int, ops: int) -> Graph:
    """Views, workspaces, outputs, zero sizes, several outputs; some ops may not run again."""
    rng = random.Random(seed)
    graph = random_graph(seed, ops) if seed % 4 == 0 else _graph_with_skips(rng, ops)
    changed = tuple(
        replace(op, cost=rng.choice((0, 1, 1, 2, 5)), recomputable=rng.random() < 0.85)
        for op in graph.ops
    )
    return replace(graph, ops=changed)


def _graph_with_skips(rng: random.Random, ops: int) -> Graph:
    """A chain whose early results are read late, so that it pays to make them again."""
    tensors = [Tensor("x", rng.randint(0, 2), kind="input")] if rng.random() < 0.3 else []
    made: list[Op] = []
    for k in range(ops):
        outputs = [Tensor(f"t{k}", rng.randint(3, 9))]
        if rng.random() < 0.2:
            outputs.append(Tensor(f"u{k}", rng.randint(0, 4), kind=rng.choice(_KINDS)))
        known = [t for t in tensors if t.kind != "workspace"]
        recent, early = known[-1:], rng.sample(known[:2], min(len(known[:-1]), rng.randint(0, 1)))
        if k and rng.random() < 0.1:
            recent = []
        read = tuple(
            dict.fromkeys(t.name for t in recent + (early if k > 2 or rng.random() < 0.1 else []))
        )
        spaces = [Tensor(f"s{k}", rng.randint(1, 5), kind="workspace")] * (rng.random() < 0.15)
        made.append(
            Op(
                f"op{k}",
                inputs=read,
                outputs=tuple(t.name for t in outputs),
                workspaces=tuple(t.name for t in spaces),
                after=(made[-1].name,) if made and rng.random() < 0.05 else (),
            )
        )
        tensors += outputs + spaces
    return Graph("skips", tuple(tensors), tuple(made))


def least_cost(problem: RematProblem, limit: int, copies: int | None = None) -> float | None:
    """The least cost of a schedule within a limit; each unit at most ``copies`` times."""
    found = cheapest_schedule(problem, limit, copies)
    return None if found is None else problem.total_cost(found)


def cheapest_schedule(
    problem: RematProblem, limit: int, copies: int | None = None
) -> list[int] | None:
    """A schedule of the least cost within a limit, by Dijkstra's algorithm over states."""
    ordering = problem.ordering
    rows = range(len(ordering.size))
    if ordering.base > limit:
        return None
    start = (0,) * len(problem), frozenset(s for s in rows if ordering.present[s])
    kept = frozenset(s for s in rows if ordering.kept[s])
    most = [(copies or 1) if again else 1 for again in problem.repeatable]
    tick = count()
    queue: list[tuple[float, int, tuple, list[int]]] = [(0, next(tick), start, [])]
    settled = set()
    while queue:
        cost, _, state, schedule = heappop(queue)
        if state in settled:
            continue
        settled.add(state)
        runs, held = state
        if all(runs) and kept <= held:
            return schedule
        for unit in range(len(problem)):
            again = runs[unit] > 0
            if not all(runs[before] for before in ordering.predecessors[unit]):
                continue
            if again and not (
                problem.repeatable[unit] and (copies is None or runs[unit] < most[unit])
            ):
                continue
            if not held.issuperset(problem.reads[unit]):
                continue
            after = list(runs)
            after[unit] = 1 if copies is None else runs[unit] + 1
            for holding in _fitting(problem, unit, held, limit, first=not any(runs)):
                step = cost + problem.cost[unit]
                heappush(queue, (step, next(tick), (tuple(after), holding), [*schedule, unit]))
    return None


def _fitting(
    problem: RematProblem, unit: int, held: frozenset[int], limit: int, first: bool
) -> Iterator[frozenset[int]]:
    """Maximal sets of storages that fit within the limit while a unit runs."""
    ordering = problem.ordering
    must = frozenset(problem.reads[unit] + problem.writes[unit])
    if first:  # what is there from the start is there at the first step, whatever it is for
        must |= held
    optional = sorted(held - must)
    bytes_left = (
        limit - ordering.base - int(ordering.extra[unit]) - (ordering.entry if first else 0)
    )
    size = ordering.size.tolist()
    bytes_left -= sum(size[s] for s in must)
    taken: list[frozenset[int]] = []
    for number in range(len(optional), -1, -1):
        for chosen in map(frozenset, combinations(optional, number)):
            fits = sum(size[s] for s in chosen) <= bytes_left
            if fits and not any(chosen < other for other in taken):
                taken.append(chosen)
                yield must | chosen


def every_schedule(problem: RematProblem, longest: int) -> Iterator[list[int]]:
    """All schedules of at most ``longest`` runs; for a handful of units."""

    def extend(schedule: list[int]) -> Iterator[list[int]]:
        if problem.is_schedule(schedule):
            yield schedule
        if len(schedule) == longest:
            return
        done = set(schedule)
        for unit in range(len(problem)):
            ready = done.issuperset(problem.ordering.predecessors[unit])
            if ready and (unit not in done or problem.repeatable[unit]):
                yield from extend([*schedule, unit])

    return extend([])


def interesting_limits(problem: RematProblem) -> list[int]:
    """Memory limits worth a test: one order's peak, and limits near the least that is feasible."""
    low, peak = -1, problem.peak(first_order(problem))
    high = peak
    while high - low > 1:
        middle = (low + high) // 2
        if least_cost(problem, middle) is None:
            low = middle
        else:
            high = middle
    return sorted({peak, *range(high - 1, high + 4), (high + peak) // 2}, reverse=True)


def first_order(problem: RematProblem) -> list[int]:
    """Some order: whatever may run, lowest number first."""
    order: list[int] = []
    while len(order) < len(problem):
        done = set(order)
        order.append(
            next(
                unit
                for unit in range(len(problem))
                if unit not in done and done.issuperset(problem.ordering.predecessors[unit])
            )
        )
    return order
