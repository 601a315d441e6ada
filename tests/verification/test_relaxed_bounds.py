"""Bounds on every order where tensors may share bytes: derived by the checker, raised, refused."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from support.cases import seeds
from support.orders_oracle import random_graph
from support.sharing_oracle import random_sharing_graph

import cpplan
from cpplan import Graph, Op, Plan, Residency, Tensor, to_anf, verify
from cpplan.aliasing.alias_candidates import find_candidates
from cpplan.aliasing.segments import relax_sharing
from cpplan.io.plan_json import plan_from_dict, plan_to_dict
from cpplan.model.certificates import ForcedAt
from cpplan.model.errors import InputError, VerificationError
from cpplan.model.graph import Placement
from cpplan.ordering.bounds import order_bounds
from cpplan.ordering.problem import order_problem
from cpplan.verification import around
from cpplan.verification.access_trace import replay
from cpplan.verification.footprint import forced_live_bytes
from cpplan.verification.storages import relaxed_storages
from cpplan.verification.verifier import check_plan

KINDS = [("in place",), ("placement",), ("in place", "placement")]
RESIDENCIES = [
    Residency(),
    Residency(inputs="keep", constants="keep"),
    Residency(inputs="outside", outputs="outside"),
]


@pytest.mark.parametrize("seed", seeds(40))
def test_checker_and_planner_derive_the_same_relaxed_problem(seed):
    graph = random_sharing_graph(seed, 1 + seed % 7)
    for kinds in KINDS:
        for residency in RESIDENCIES:
            ordering = order_problem(graph, residency)
            problem, more = relax_sharing(ordering, find_candidates(graph, residency, kinds))
            planned = {
                name: (size, accessors, present, kept)
                for name, size, accessors, present, kept in zip(
                    problem.storages, problem.size.tolist(), problem.accessed_by,
                    problem.present.tolist(), problem.kept.tolist(), strict=True,
                )
            }  # fmt: skip
            storages = relaxed_storages(graph, residency, kinds, *replay(to_anf(graph), residency))
            derived = {
                name: (size, tuple(ops), name in storages.brought, name in storages.kept)
                for name, size in storages.size.items()
                if size and (ops := storages.accessors[name])
            }
            assert derived == planned
            assert (ordering.extra + more - problem.extra).tolist() == storages.saved


@cache
def sharing_plans() -> dict[str, list[tuple[Graph, Plan]]]:
    """Plans of random graphs that share bytes, by the name of their bound."""
    found: dict[str, list[tuple[Graph, Plan]]] = {}
    for seed in (2, 8, 18, 20, 34, 22, 27, 28, 32, 33, 36, 40, 45, 50, 60, 75):
        graph = random_sharing_graph(seed, 2 + seed % 6)
        plan = cpplan.solve(graph, order="search", in_place=True, deterministic=True, time_limit=1)
        if plan.sharing and plan.lower_bound:
            found.setdefault(str(plan.bound_by), []).append((graph, plan))
    return found


@pytest.mark.parametrize("name", ["forced live bytes", "minimum cut"])
def test_a_raised_bound_of_a_plan_that_shares_bytes_is_refused(name):
    cases = sharing_plans()[name]
    assert len(cases) >= 3
    for graph, plan in cases:
        assert check_plan(graph, plan).bound in ("recomputed", "certificate")
        for more in (1, 2, 7, 2**40):
            # With room above, so that nothing but the bound is wrong.
            wide = replace(
                plan, offset=plan.offset + 8 * more, peak=plan.peak + 8 * more, status="feasible"
            )
            try:
                verify(graph, wide)
            except VerificationError:  # a fixed or aligned offset may not be moved so
                wide = replace(plan, status="optimal")
            changed = replace(wide, lower_bound=plan.lower_bound + more)
            with pytest.raises(VerificationError):
                verify(graph, changed)


def test_a_mutated_flow_through_shared_bytes_is_refused():
    rng, tried = random.Random(1), 0
    for graph, plan in sharing_plans()["minimum cut"]:
        flow = plan.certificate
        for key in ("begun", "ended"):
            for k, (storage, op, amount) in enumerate(getattr(flow, key)):
                rows = list(getattr(flow, key))
                rows[k : k + 1] = rng.choice(
                    [[], [rows[k]] * 2, [(storage, op, amount + rng.choice([-1, 1]))],
                     [(f"{storage}'", op, amount)]]
                )  # fmt: skip
                broken = flow._replace(**{key: tuple(row for row in rows if row[2] > 0)})
                with pytest.raises(
                    VerificationError, match=r"no certificate|not a valid flow|flow proves"
                ):
                    verify(graph, replace(plan, certificate=broken))
                tried += 1
    assert tried >= 10


def test_bytes_that_the_caller_brings_and_an_op_writes_are_never_shared():
    """y comes from the caller, f writes part of it: g may not lie anywhere in its place."""
    tensors = (
        Tensor("y", 8, kind="output"),
        Tensor("part", 4, view_of=("y", 0)),
        Tensor("z", 8, kind="output"),
    )
    ops = (
        Op("f", outputs=("part",)),
        Op("g", inputs=("y",), outputs=("z",), placements=(Placement("y", "z", 0),), after=("f",)),
    )
    graph = Graph("brought", tensors, ops)
    assert not find_candidates(graph, Residency())
    plan = cpplan.solve(graph, order="search", placement=True)
    assert (plan.peak, plan.status) == (16, "optimal")


@pytest.mark.parametrize("seed", range(12))
def test_forced_bytes_are_the_same_in_groups_of_any_size(seed, monkeypatch):
    monkeypatch.setattr(around, "MOST_BITS", 1)
    monkeypatch.setattr(around, "LEAST_COLUMNS", 1 + seed % 3)
    graph = random_graph(seed, 3 + seed % 8)
    demands = replay(to_anf(graph), Residency())
    forced = order_bounds(order_problem(graph)).forced.tolist()
    most = forced_live_bytes(graph, Residency(), (), *demands)
    assert most == max(forced)
    for op, bytes_at in zip(graph.ops, forced, strict=True):
        alone = forced_live_bytes(graph, Residency(), (), *demands, at=op.name)
        assert bytes_at <= alone <= most


def waits() -> Graph:
    """While u runs, t waits for b."""
    tensors = Tensor("t", 8), Tensor("s", 1), Tensor("y", 4, kind="output")
    ops = (
        Op("a", outputs=("t",)),
        Op("u", outputs=("s",), after=("a",)),
        Op("b", inputs=("t", "s"), outputs=("y",)),
    )
    return Graph("waits", tensors, ops)


def test_the_op_that_proves_a_bound_may_be_named():
    graph = waits()
    plan = cpplan.solve(graph, order="search")
    assert (plan.lower_bound, plan.bound_by) == (13, "forced live bytes")
    named = replace(plan, certificate=ForcedAt("b"))
    assert check_plan(graph, named).bound == "recomputed"
    assert plan_from_dict(plan_to_dict(named)) == named
    with pytest.raises(VerificationError, match="lower bound of 9 B"):
        verify(graph, replace(plan, certificate=ForcedAt("u")))
    with pytest.raises(VerificationError, match=r"unknown op '\?'"):
        verify(graph, replace(plan, certificate=ForcedAt("?")))
    with pytest.raises(VerificationError, match="does not use"):
        verify(graph, replace(named, bound_by="Liu's algorithm"))
    wrong = {**plan_to_dict(named), "certificate": {"kind": "forced at", "op": 3}}
    with pytest.raises(InputError, match="certificate: op must be a string, not 3"):
        plan_from_dict(wrong)


def test_plans_of_many_ops_name_the_op(monkeypatch):
    from cpplan.ordering import bounds

    monkeypatch.setattr(bounds, "MANY_OPS", 2)
    graph = waits()
    plan = cpplan.solve(graph, order="search")
    assert plan.certificate == ForcedAt("b")
    assert np.array_equal(plan.offset, plan_from_dict(plan_to_dict(plan)).offset)
