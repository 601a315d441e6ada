"""The best start: the cheapest that fits, else the smallest."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from support.remat_oracle import random_remat_problem, remat_chain
from support.sources import ROOT

from cpplan import load
from cpplan.ordering.bounds import topological_order
from cpplan.remat.footprint import least_footprint
from cpplan.remat.heuristics.checkpoints import given_order
from cpplan.remat.heuristics.starts import (
    first_schedules,
    smallest_by_cuts,
    smallest_by_dropping,
)
from cpplan.remat.known_schedules import KnownSchedules
from cpplan.remat.portfolio import ScheduleSearch
from cpplan.remat.problem import remat_problem
from cpplan.runtime.budget import Budget
from cpplan.runtime.deadline import Deadline

DATASETS = ROOT / "datasets"


def test_an_order_that_fits_stays():
    problem = remat_problem(remat_chain(4))
    assert first_schedules(problem, 6, [range(9)], Deadline(10)) == [(tuple(range(9)), "order")]


def test_first_schedule_is_the_cheapest_start():
    """n = 16 in 8 slots: as few runs as the published optimum of the chain program, 43."""
    problem = remat_problem(remat_chain(16))
    ((schedule, _),) = first_schedules(problem, 8, [range(33)], Deadline(60))
    assert problem.is_schedule(schedule)
    assert (problem.peak(schedule), len(schedule)) == (8, 43)


def test_infeasible_limit_gives_the_smallest_start():
    """2 slots are too few for any; dropping gets from 5 down to 3, which is the least."""
    problem = remat_problem(remat_chain(3))
    ((schedule, _),) = first_schedules(problem, 2, [range(7)], Deadline(60))
    assert problem.is_schedule(schedule)
    assert problem.peak(schedule) == 3


def test_expired_deadline_tries_only_the_orders():
    """The orders alone."""
    problem = remat_problem(remat_chain(4))
    assert first_schedules(problem, 4, [range(9)], Deadline(0)) == [(tuple(range(9)), "order")]


def test_smallest_by_dropping_meets_the_published_optimum_of_a_chain():
    """n = 16 at 43 runs: 8 slots; and no schedule of 42 runs in them."""
    problem, order = remat_problem(remat_chain(16)), range(33)
    for most, peak in ((43, 8), (42, 9)):
        found = smallest_by_dropping(problem, 3, 17, [order], Deadline(60), most_cost=most)
        assert problem.is_schedule(found.schedule)
        assert (problem.peak(found.schedule), len(found.schedule) <= most) == (peak, True)


def test_smallest_by_dropping_is_below_what_is_known_or_there_is_none():
    below = 0
    for seed in range(40):
        problem = random_remat_problem(seed, 12)
        units = tuple(range(len(problem)))
        peak, most = problem.peak(units), 1.5 * problem.total_cost(units)
        least = least_footprint(problem).bytes
        orders = [units, topological_order(problem.ordering)]
        found = smallest_by_dropping(problem, least, peak, orders, Deadline(60), most_cost=most)
        late = smallest_by_dropping(problem, least, peak, orders, Deadline(0), most_cost=most)
        assert late is None
        if found is None:
            continue
        assert problem.is_schedule(found.schedule)
        assert problem.total_cost(found.schedule) <= most
        assert problem.peak(found.schedule) < peak
        below += 1
    assert below > 5


def test_another_order_lowers_what_the_first_one_left():
    """The order of least peak, as the second one, ends no higher than alone, or with its peak."""
    lower = 0
    for seed in range(40):
        problem = random_remat_problem(seed, 12)
        first, second = tuple(range(len(problem))), topological_order(problem.ordering)
        most, deadline = 1.5 * problem.total_cost(first), Deadline(60)
        peaks = []
        for orders in ([first], [first, second]):
            found = smallest_by_dropping(problem, 0, 10**9, orders, deadline, most_cost=most)
            peaks.append(problem.peak(found.schedule))
        assert peaks[1] <= peaks[0]
        lower += peaks[1] < peaks[0]
    assert lower > 0


def test_a_network_of_thousands_of_ops_has_a_low_start_in_little_time():
    """Limits are tried along one order first: all orders at each limit took all of the time."""
    graph = load(DATASETS / "zoo/densenet121.train.json.gz")
    problem = remat_problem(graph)
    known = KnownSchedules(problem, given_order(problem))
    budget = Budget(Deadline(2.5, deterministic=True))
    found = ScheduleSearch(known).start_below(1.25 * known.base, budget)
    assert found.peak < known.once.peak / 8


def _mostly_free(seed, units):
    """A random problem in which seven of ten units cost nothing."""
    problem, rng = random_remat_problem(seed, units), random.Random(seed)
    return replace(problem, cost=tuple(0 if rng.random() < 0.7 else c + 1 for c in problem.cost))


def test_smallest_by_cuts_costs_no_more_than_allowed():
    """At no extra cost, some are below their order's peak; first runs keep the order if asked."""
    below = 0
    for seed in range(20):
        problem = _mostly_free(seed, 12)
        units = tuple(range(len(problem)))
        least, base = least_footprint(problem).bytes, problem.total_cost(units)
        found = smallest_by_cuts(
            problem, least, [units], Deadline(60), most_cost=base, reorder=False
        )
        if found is None:
            continue
        assert problem.is_schedule(found.schedule)
        assert problem.total_cost(found.schedule) <= base
        assert tuple(dict.fromkeys(found.schedule)) == units
        below += problem.peak(found.schedule) < problem.peak(units)
    assert below > 2


def test_where_repetitions_must_be_free_cuts_are_a_start():
    """Dropping ends at 30 bytes; a cut is at the least footprint."""
    problem = _mostly_free(10, 20)
    units = range(len(problem))
    base = problem.total_cost(units)
    search = ScheduleSearch(KnownSchedules(problem, units))
    found = search.start_below(base, Budget(Deadline(60, deterministic=True)))
    assert (found.peak, found.cost) == (least_footprint(problem).bytes, base) == (27, base)


def test_cuts_are_a_start_at_any_cost():
    """Dropping along limits halved from the order's peak end at 31 bytes."""
    problem = random_remat_problem(11, 40)
    search = ScheduleSearch(KnownSchedules(problem, range(len(problem))))
    found = search.start_below(math.inf, Budget(Deadline(60, deterministic=True)))
    assert found.peak == least_footprint(problem).bytes == 30


def test_no_cut_is_tried_after_the_deadline():
    problem = remat_problem(remat_chain(4))
    assert smallest_by_cuts(problem, 3, [range(9)], Deadline(0), most_cost=99) is None
