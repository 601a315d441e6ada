"""More freedom never costs bytes: sharing, searched orders and both, on graphs of every kind.

Each mode has time enough to end or to come close. With far less, sharing, orders and both divide
the same work among more to try, and a part of a percent may be lost.
"""

from __future__ import annotations

import pytest

from cpplan import simulate, solve, verify
from tests.benchmarks.time_limits import GRAPHS

FREEDOM = {
    "given": {},
    "in place": {"in_place": True},
    "searched": {"order": "search"},
    "both": {"order": "search", "in_place": True},
}


def check_freedom(name: str, count: int, time_limit: float) -> None:
    """Plan a graph in every mode by counted work: each plan holds, and more freedom is no worse."""
    graph = GRAPHS[name](count)
    peaks = {}
    for mode, options in FREEDOM.items():
        plan = solve(graph, time_limit=time_limit, deterministic=True, **options)
        verify(graph, plan)
        simulate(graph, plan)
        assert plan.lower_bound <= plan.peak
        assert plan.status == "feasible" or plan.lower_bound == plan.peak
        peaks[mode] = plan.peak
    for less, more in (
        *(("given", "in place"), ("given", "searched")),
        *(("in place", "both"), ("searched", "both")),
    ):
        assert peaks[more] <= peaks[less], (less, more, peaks)


@pytest.mark.parametrize("name", GRAPHS)
def test_more_freedom_never_costs_bytes(name):
    check_freedom(name, 18, 0.02)


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_more_freedom_never_costs_bytes_of_larger_graphs(name):
    check_freedom(name, 45, 2)
