"""Recomputation: every schedule of runs up to a cost, each packed by trying all offsets."""

from __future__ import annotations

import random
from collections.abc import Iterator

from cpplan import Graph, simulate, solve, verify

from .boxes import least_height
from .case import Case, python_of
from .made import random_graph
from .packing import arguments
from .runs import repeated_boxes, waits_for

_MOST_SCHEDULES = 500  # of one case: then what was tried counts


def remat(rng: random.Random) -> Case:
    """The least cost within a limit, or the fewest bytes at a cost."""
    graph = random_graph(rng, rng.randint(2, 5), views=False, costs=True)
    given = tuple(range(len(graph.ops)))
    height = least_height(repeated_boxes(graph, given)) or 0
    options: dict[str, object] = {"remat": True, "deterministic": True, "time_limit": 0.3}
    if rng.random() < 0.6:
        options["memory_limit"] = rng.randint((height + 1) // 2, height)
    else:
        options["cost_limit"] = rng.choice([1.0, 1.2, 1.5])
    if rng.random() < 0.25:
        options["order"] = "given"
    lines = f"graph = {python_of(graph)}", f"plan = solve(graph, {arguments(options)})"

    def false() -> list[str]:
        plan = solve(graph, **options)
        if plan.offset is not None:
            verify(graph, plan)
            simulate(graph, plan)
        base = sum(op.cost for op in graph.ops)
        kept_order = "order" in options
        if "cost_limit" in options:
            return _false_peak(graph, plan, options["cost_limit"] * base, kept_order)  # type: ignore[operator]
        return _false_cost(graph, plan, int(options["memory_limit"]), base, kept_order)  # type: ignore[call-overload]

    return Case(lines, false)


def _false_peak(graph: Graph, plan: object, most: float, kept_order: bool) -> list[str]:
    bound, wrong = plan.lower_bound, []  # type: ignore[attr-defined]
    if plan.cost is not None and plan.cost > most + 1e-9:  # type: ignore[attr-defined]
        wrong.append(f"assert plan.cost <= {most}")
    optimal = plan.status == "optimal"  # type: ignore[attr-defined]
    better = (plan.peak if optimal else bound) or 0  # type: ignore[attr-defined]
    for schedule in _schedules(graph, most, kept_order):
        found = least_height(repeated_boxes(graph, schedule), better - 1)
        if found is not None:
            names = [graph.ops[k].name for k in schedule]
            what = "peak" if optimal else "lower_bound"
            wrong.append(f"assert plan.{what} <= {found}  # {better}; {names} takes {found} B")
            break
    return wrong


def _false_cost(graph: Graph, plan: object, limit: int, base: float, kept_order: bool) -> list[str]:
    wrong = []
    if plan.offset is None:  # type: ignore[attr-defined]
        if plan.status != "infeasible":  # type: ignore[attr-defined]
            return []
        most, what = 2 * base, "status != 'infeasible'"
    else:
        if plan.peak > limit:  # type: ignore[attr-defined]
            wrong.append(f"assert plan.peak <= {limit}")
        optimal = plan.status == "optimal"  # type: ignore[attr-defined]
        value = plan.cost if optimal else plan.cost_bound  # type: ignore[attr-defined]
        if value is None:
            return wrong
        most, what = value - 1, f"{'cost' if optimal else 'cost_bound'} < {value}"
    for schedule in _schedules(graph, most, kept_order):
        if least_height(repeated_boxes(graph, schedule), limit) is not None:
            names = [graph.ops[k].name for k in schedule]
            wrong.append(f"assert plan.{what}  # {names} fits {limit} B")
            break
    return wrong


def _schedules(graph: Graph, most: float, kept_order: bool) -> Iterator[tuple[int, ...]]:
    """Schedules of a cost up to ``most`` in which every op runs, the shortest first."""
    waits = waits_for(graph)
    rest = sum(op.cost for op in graph.ops)
    # (schedule, its cost, cost of what has not run yet)
    front: list[tuple[tuple[int, ...], float, float]] = [((), 0, rest)]
    shown = 0
    while front:
        longer = []
        for schedule, cost, missing in front:
            if missing == 0 and len(set(schedule)) == len(graph.ops):
                shown += 1
                yield schedule
                if shown == _MOST_SCHEDULES:
                    return
            done = set(schedule)
            for k, op in enumerate(graph.ops):
                again = k in done
                if not waits[k] <= done or (again and not op.recomputable):
                    continue
                if kept_order and not again and k != len(done):
                    continue
                if schedule and again and schedule[-1] == k:
                    continue  # twice in a row brings nothing
                left = missing if again else missing - op.cost
                if cost + op.cost + left <= most + 1e-9:
                    longer.append(((*schedule, k), cost + op.cost, left))
        front = longer[: 10 * _MOST_SCHEDULES]
