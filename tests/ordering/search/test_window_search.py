"""Window search: every order on the way is valid, no step goes up, and it gets there."""

from __future__ import annotations

from support.orders_oracle import layered

from cpplan.ordering.bounds import order_bounds, topological_order
from cpplan.ordering.search.downset_search import search_downsets
from cpplan.ordering.search.window_search import WindowSearch
from cpplan.runtime.deadline import Deadline


def test_peaks_never_rise_and_orders_stay_valid():
    problem = layered(1, layers=20, width=8)
    search = WindowSearch(problem, topological_order(problem), seed=0)
    before = search.peak
    for _ in range(10):
        search.run(2, target=0, states=2_000, deadline=Deadline(60))
        assert search.peak <= before
        assert problem.is_order(search.order.tolist())
        assert problem.peak(search.order) == search.peak
        before = search.peak


def test_reaches_the_optimum_that_exact_search_proves():
    problem = layered(2, layers=10, width=5)
    start = topological_order(problem)
    bound = order_bounds(problem).bound
    exact = search_downsets(problem, start, Deadline(60), level=bound, states=500_000)
    assert exact.complete
    search = WindowSearch(problem, start, seed=0)
    search.run(300, target=exact.peak, states=5_000, deadline=Deadline(60))
    assert search.peak == exact.peak < problem.peak(start)


def test_same_seed_same_order():
    problem = layered(4, layers=15, width=6)
    orders = []
    for _ in range(2):
        search = WindowSearch(problem, topological_order(problem), seed=5)
        search.run(20, target=0, states=1_000, deadline=Deadline(60))
        orders.append(search.order.tolist())
    assert orders[0] == orders[1]
