"""In several pools, no claim is made about orders or schedules that were not looked at."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from support.random_models import random_model

from cpplan import Graph, Plan, Pool, solve, to_anf
from cpplan.program.liveness import to_problem

OBJECTIVES = "preference", "total", "cost"


def orders_of(graph: Graph, most: int) -> Iterator[tuple[str, ...]]:
    """Yield the first orders of the ops, up to ``most``."""
    found = 0

    def extend(order: tuple[int, ...]) -> Iterator[tuple[str, ...]]:
        nonlocal found
        if len(order) == len(graph.ops) and found < most:
            found += 1
            yield tuple(graph.ops[k].name for k in order)
        for k in range(len(graph.ops)):
            if found < most and k not in order and order_allows(graph, order, k):
                yield from extend((*order, k))

    yield from extend(())


def order_allows(graph: Graph, order: tuple[int, ...], op: int) -> bool:
    return all(other in order for other in graph.predecessors[op])


def planned(source: object, pools: list[Pool], objective: str, **options: object) -> Plan:
    return solve(source, pools=pools, objective=objective, deterministic=True, **options)


@pytest.mark.parametrize("seed", [108, 194, 229, *range(24)])
def test_no_order_refutes_what_is_said_of_searched_ones(seed: int) -> None:
    rng = random.Random(seed)
    graph = random_model(rng)
    live = int(to_problem(to_anf(graph)).live_bytes().max(initial=0))
    if len(graph.ops) > 7 or not live:
        return
    small, other = (max(1, int(live * rng.uniform(0.2, 0.7))) for _ in range(2))
    pools = [Pool("a", small, cost_per_byte=rng.choice((1, 3)))]
    pools.append(Pool("b", other if rng.random() < 0.7 else None))
    objective, in_place = rng.choice(OBJECTIVES), rng.random() < 0.5
    plan = planned(graph, pools, objective, order="search", in_place=in_place, time_limit=0.5)
    for order in orders_of(graph, 40):
        program = to_anf(graph, order)
        found = planned(program, pools, objective, in_place=in_place, time_limit=0.1)
        if found.offset is None:
            continue
        assert plan.status != "infeasible"
        assert not plan.objective_bound or plan.objective_bound <= found.objective_value


@pytest.mark.parametrize("options", [{"order": "search"}, {"remat": True, "cost_limit": 1.3}])
def test_bounds_of_one_order_are_not_those_of_a_search(options):
    rng = random.Random(5)
    graph = random_model(rng)
    live = int(to_problem(to_anf(graph)).live_bytes().max(initial=0))
    pools = [Pool("a", live // 2), Pool("b")]
    given = planned(graph, pools, "total", time_limit=1)
    searched = planned(graph, pools, "total", time_limit=1, **options)
    assert given.objective_bound
    assert (searched.objective_bound, searched.lower_bound) == ((), None)
    assert searched.status == "feasible"
    assert searched.objective_value <= given.objective_value
