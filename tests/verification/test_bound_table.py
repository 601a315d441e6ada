"""Bounds by name: every planner's is in the table, and none passes where it proves nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.remat_oracle import remat_chain

import cpplan
from cpplan import Graph, Op, Plan, Pool, Problem, Tensor, verify
from cpplan.io.plan_json import plan_from_dict, plan_to_dict
from cpplan.model.errors import VerificationError
from cpplan.model.small_graphs import forward_and_back
from cpplan.verification.bound_table import (
    COST_BOUNDS,
    PEAK_BOUNDS,
    POOL_BOUNDS,
    find_bound,
    why_not,
)
from cpplan.verification.verifier import check_plan

HAND = Path(__file__).parents[2] / "datasets/hand"
NAMES = sorted({bound.name for bound in (*PEAK_BOUNDS, *POOL_BOUNDS, *COST_BOUNDS)})
PEAK = {bound.name: bound for bound in PEAK_BOUNDS}


def two_chains() -> Graph:
    """Each op reads 8 B and writes 1 B; both inputs are read last in the given order: 17 B."""
    tensors = [Tensor(name, 8) for name in "ab"] + [Tensor(n, 1, kind="output") for n in "cd"]
    ops = (
        Op("fa", outputs=("a",)),
        Op("fb", outputs=("b",)),
        Op("fc", inputs=("a",), outputs=("c",)),
        Op("fd", inputs=("b",), outputs=("d",)),
    )
    return Graph("two chains", tuple(tensors), ops)


@cache
def bumped() -> tuple[Problem | Graph, Plan]:
    graph = cpplan.load(HAND / "fragmentation.json")
    plan = cpplan.solve(graph, algorithm="bump")
    assert plan.peak > plan.lower_bound
    return graph, plan


def test_every_name_that_planners_use_is_in_the_table():
    from cpplan.aliasing import bounds as bound
    from cpplan.aliasing import cp_sat
    from cpplan.ordering import bounds as order_bounds
    from cpplan.ordering import cuts as order_cuts
    from cpplan.ordering import solve as ordering
    from cpplan.ordering.search import cp_sat_joint, cp_sat_ordering
    from cpplan.packing import bounds
    from cpplan.packing.pools import cp_sat_pools
    from cpplan.packing.search import cp_sat_packing, niche_search
    from cpplan.remat import cut_bounds as cut_bound
    from cpplan.remat import footprint as bound_names
    from cpplan.remat.heuristics import chain
    from cpplan.remat.search import cp_sat_remat, local_search
    from cpplan.solving import order_turns
    from cpplan.splitting import between_pieces
    from cpplan.splitting import bounds as splitting

    none = np.zeros(0, np.int64)
    empty = Problem((), none, none, none)
    found = (bounds.live_bytes_bound, bounds.fixed_offset_bound, bounds.largest_buffer_bound)
    peak = [one(empty).name for one in found]
    peak += [cp_sat_packing._name(word) for word in cp_sat_packing.STRATEGIES]
    peak += [niche_search.NAME, cp_sat.SHARING, bound.NAME]
    peak += [order_bounds.FORCED, order_cuts.NAME, ordering.EXACT, ordering.LIU]
    peak += [
        cp_sat_ordering.NAME,
        cp_sat_joint.NAME,
        cp_sat.JOINT_SHARING,
        order_turns.ALIASED,
    ]
    peak += [splitting.NAME, between_pieces.NAME]
    peak += [bound_names.FOOTPRINT, bound_names.REACH, bound_names.CHAIN, bound_names.CUTS]
    peak += [bound_names.COST_AT_CUTS]
    cost = [cut_bound.RUNS_ONCE, cut_bound.RELAXED, cut_bound.INTEGRAL, chain.NAME]
    cost += [cp_sat_remat.NAME, cp_sat_remat.BASE, local_search.ONCE]
    assert set(peak) == set(PEAK)
    assert set(cost) == {bound.name for bound in COST_BOUNDS}
    pools = {bound.name for bound in POOL_BOUNDS}
    assert {bound.NAME, cp_sat_pools.NAME, cp_sat_pools.LIQUID_NAME} < pools


@pytest.mark.parametrize(
    "name",
    ["accesses", "live bytes beyond the other pools", "live bytes beyond the preferred pools"],
)
def test_a_bound_of_several_pools_proves_nothing_in_one(name):
    """The best packing of the example takes 5 B."""
    graph, plan = bumped()
    claim = replace(plan, lower_bound=plan.peak, bound_by=name, status="optimal")
    with pytest.raises(VerificationError, match="no known bound"):
        verify(graph, claim)


@pytest.mark.parametrize(
    "name",
    ["CP-SATANIC", "CP-SAT TWA ", "cp-sat", "niche searches", "forced live bytes!", "", None],
)
def test_names_are_compared_whole(name):
    graph, plan = bumped()
    claim = replace(plan, lower_bound=plan.peak, bound_by=name, status="optimal")
    with pytest.raises(VerificationError, match="no known bound"):
        verify(graph, claim)


@cache
def repeating() -> tuple[Graph, Plan]:
    graph = remat_chain(4)
    return graph, cpplan.solve(graph, remat=True, memory_limit=4, time_limit=5)


@pytest.mark.parametrize("name", sorted(n for n in PEAK if PEAK[n].reach == "every order"))
def test_bounds_on_orders_prove_nothing_where_ops_run_again(name):
    graph, plan = repeating()
    assert len(plan.order) > len(graph.ops)
    verify(graph, plan)
    with pytest.raises(VerificationError, match=r"may run ops again|nothing shares bytes"):
        verify(graph, replace(plan, bound_by=name))


def test_order_bounds_are_refused_for_a_remat_plan_that_repeats_nothing():
    graph = remat_chain(2)
    plan = cpplan.solve(graph, remat=True, memory_limit=100, time_limit=5)
    assert len(plan.order) == len(graph.ops)
    with pytest.raises(VerificationError, match="may run ops again"):
        verify(graph, replace(plan, bound_by="downset search"))


def test_only_what_was_computed_again_is_called_recomputed():
    graph, plan = bumped()
    assert check_plan(graph, plan).bound == "recomputed"
    searched = replace(plan, bound_by="niche search")
    assert check_plan(graph, searched).bound == "searched"
    assert check_plan(graph, replace(plan, lower_bound=None)).bound is None


def test_forced_live_bytes_are_recomputed():
    graph = two_chains()
    plan = cpplan.solve(graph, order="search")
    assert (plan.peak, plan.scope) == (10, "every order")
    given = cpplan.solve(graph)
    assert given.peak == 17
    claim = replace(given, scope="every order", bound_by="forced live bytes", status="feasible")
    assert check_plan(graph, replace(claim, lower_bound=9)).bound == "recomputed"
    with pytest.raises(VerificationError, match="forced live bytes' proves a lower bound of 9 B"):
        verify(graph, replace(claim, lower_bound=10))


def test_orders_with_given_ends_have_more_forced_bytes():
    """With both 8 B written first, both are there when the first is read."""
    graph = two_chains()
    plan = cpplan.solve(graph, order="search", first=["fa", "fb"], last=["fd"])
    assert (plan.peak, plan.lower_bound, plan.first, plan.last) == (17, 17, ("fa", "fb"), ("fd",))
    assert check_plan(graph, replace(plan, bound_by="forced live bytes")).bound == "recomputed"
    assert plan_from_dict(plan_to_dict(plan)) == plan
    with pytest.raises(VerificationError, match="lower bound of 9 B"):
        verify(graph, replace(plan, bound_by="forced live bytes", first=(), last=()))
    with pytest.raises(VerificationError, match="'fb' come first, but its order has 'fa' there"):
        verify(graph, replace(plan, first=("fb",)))


@cache
def given_order() -> tuple[Graph, Plan]:
    graph = two_chains()
    return graph, cpplan.solve(graph)


@pytest.mark.parametrize("name", NAMES)
def test_no_bound_raised_to_the_peak_passes_as_recomputed(name):
    """Any name is tried; a bound that passes is called searched."""
    for graph, plan in (bumped(), given_order()):
        for scope in ("given order", "every order"):
            claim = replace(
                plan, lower_bound=plan.peak, bound_by=name, status="optimal", scope=scope
            )
            if plan.peak == plan.lower_bound and scope == "given order":
                claim = replace(claim, lower_bound=plan.peak + 1)
            try:
                proof = check_plan(graph, claim).bound
            except VerificationError:
                continue
            assert proof == "searched"


def test_several_pools_prove_nothing_about_every_order():
    pools = Pool("fast", capacity=8), Pool("slow")
    graph = two_chains()
    plan = cpplan.solve(graph, pools=pools, time_limit=2)
    assert check_plan(graph, plan).bound == "recomputed"
    with pytest.raises(VerificationError, match="several pools are of one order"):
        verify(graph, replace(plan, scope="every order"))
    for name in ("CP-SATANIC", "accesses; hope", "niche search", "forced live bytes"):
        with pytest.raises(VerificationError, match="no known bound"):
            verify(graph, replace(plan, bound_by=name))


def test_a_cost_is_bounded_by_known_names_only():
    graph, plan = repeating()
    assert check_plan(graph, plan).cost_bound == "searched"
    for name in ("chain programs", "CP-SAT", None):
        with pytest.raises(VerificationError, match="is no known bound"):
            verify(graph, replace(plan, cost_bound_by=name))
    with pytest.raises(VerificationError, match="every op once costs"):
        verify(graph, replace(plan, cost_bound_by="every op once"))
    plain = cpplan.solve(graph)
    with pytest.raises(VerificationError, match="claims no bound on it"):
        verify(graph, replace(plain, cost_bound_by="chain program"))


@given(st.text(max_size=30))
@settings(max_examples=50, deadline=None)
def test_unknown_names_are_refused(name):
    graph, plan = bumped()
    if name not in PEAK:
        with pytest.raises(VerificationError, match="no known bound"):
            verify(graph, replace(plan, bound_by=name))


def test_each_bound_says_where_it_applies():
    none = np.zeros(0, np.int64)
    plan = Plan("p", "feasible", (), none, none, none, none, cost=1, base_cost=1)
    shared = replace(plan, sharing=("in place",))
    everywhere = [n for n in PEAK if why_not(PEAK[n], plan) is None]
    assert {"live bytes", "niche search", "minimum cut", "least reach"} < set(everywhere)
    assert "live bytes, shared" not in everywhere
    sharing = [n for n in PEAK if why_not(PEAK[n], shared) is None]
    assert {"live bytes, shared", "CP-SAT sharing", "least footprint"} < set(sharing)
    assert not {"live bytes", "niche search", "least reach"} & set(sharing)
    assert find_bound(COST_BOUNDS, "every op once").proof == "recomputed"


def test_the_largest_buffer_bounds_every_order_that_runs_ops_once() -> None:
    graph = two_chains()
    plan = cpplan.solve(graph, order="search")
    assert plan.scope == "every order"
    weak = {"status": "feasible", "bound_by": "largest buffer", "certificate": None}
    assert verify(graph, replace(plan, lower_bound=8, **weak)) is None
    with pytest.raises(VerificationError, match="no buffer has 9 B"):
        verify(graph, replace(plan, lower_bound=9, **weak))
    with pytest.raises(
        VerificationError, match="is of one order, but the plan's scope is 'every splitting'"
    ):
        verify(graph, replace(plan, lower_bound=8, scope="every splitting", **weak))


def test_the_largest_buffer_bounds_every_schedule_if_it_is_of_one_that_runs_ops_once() -> None:
    graph = forward_and_back()
    weak = {"bound_by": "largest buffer", "certificate": None}
    for limit, runs in ((48, 5), (24, 6)):
        plan = cpplan.solve(graph, remat=True, memory_limit=limit, order="search")
        assert (plan.scope, len(plan.order)) == ("every order", runs)
        largest = replace(plan, lower_bound=int(plan.size.max()), **weak)
        if runs == 5:
            verify(graph, largest)
        else:
            with pytest.raises(VerificationError, match="is of one order"):
                verify(graph, largest)
