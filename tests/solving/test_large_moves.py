"""Plans in which tensors move take work in proportion to the graph."""

import sys
from collections.abc import Callable

import pytest

from cpplan import Graph, Plan, Pool, solve, verify
from cpplan.program import moved, storages
from cpplan.program.anf import to_anf
from cpplan.program.liveness import to_problem
from cpplan.spilling import problem
from tests.benchmarks.time_limits import GRAPHS


def lines_run(work: Callable[[], object]) -> int:
    """Lines of Python that some work runs; each turn of a comprehension is one."""
    count = 0

    def event(frame: object, kind: str, value: object) -> object:
        nonlocal count
        count += kind == "line"
        return event

    before = sys.gettrace()
    sys.settrace(event)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def in_half(graph: Graph, **options: object) -> Plan:
    """A plan in a fast pool that holds half the live bytes."""
    live = int(to_problem(to_anf(graph)).live_bytes().max())
    pools = [Pool("fast", live // 2), Pool("slow", direct=True)]
    return solve(
        graph,
        pools=pools,
        spill=True,
        in_place=True,
        deterministic=True,
        time_limit=0.01,
        **options,
    )


@pytest.mark.parametrize("name", ["fan_in", "fan_out", "local"])
def test_lines_that_verify_moves_grow_in_proportion_to_the_ops(name):
    graphs = [GRAPHS[name](ops) for ops in (90, 360)]
    plans = [in_half(graph) for graph in graphs]
    assert all(plan.moved_bytes for plan in plans)
    few, many = (
        lines_run(lambda graph=graph, plan=plan: verify(graph, plan))
        for graph, plan in zip(graphs, plans, strict=True)
    )
    assert many < 5 * few


def test_storages_are_found_once_to_plan_and_once_to_verify(monkeypatch):
    calls = []

    def find(*given):
        calls.append(given)
        return storages.find_storages(*given)

    for module in problem, moved:
        monkeypatch.setattr(module, "find_storages", find)
    assert in_half(GRAPHS["residual"](60)).moved_bytes
    assert len(calls) == 2
