"""Every figure of an explanation lies where exhaustive search says, with and without the rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.oracles import brute_force_peak, held, problems, programs
from support.orders_oracle import least_pressure, random_graph
from support.sharing_oracle import least_peak, random_sharing_graph

import cpplan
from cpplan.aliasing.alias_candidates import find_candidates
from cpplan.explanation import Relaxation, fullest_step, rules
from cpplan.explanation.relaxed import _outside
from cpplan.explanation.rules import ACCESSED, accessed_bound, make_rules
from cpplan.model.residency import Residency
from cpplan.program.liveness import to_problem


def _check(rule: Relaxation, with_it: int, without: int) -> None:
    assert rule.bound <= without
    assert rule.proved <= with_it
    assert rule.peak is None or rule.peak >= without
    assert (rule.at_least or 0) <= with_it - without <= rule.at_most
    assert rule.saved is None or rule.saved <= rule.before - without


@settings(max_examples=25)
@given(problems(most=5), st.sampled_from(["bump", "greedy_by_size", None]), st.booleans())
def test_packing_rules_show_true_optima(problem, algorithm, timed):
    plan = cpplan.solve(problem, time_limit=1, workers=1, algorithm=algorithm)
    found = plan.explain(problem, time_limit=0.2 if timed else None, workers=1)
    free = {
        "nothing": problem,
        "alignment": replace(problem, alignment=np.ones(len(problem), np.int64)),
        "fixed offsets": replace(problem, fixed={}),
    }
    optimum = brute_force_peak(problem)
    assert {rule.rule for rule in found.relaxations} <= free.keys()
    for rule in found.relaxations:
        _check(rule, optimum, brute_force_peak(free[rule.rule]))


@pytest.mark.parametrize("seed", range(8))
def test_order_rules_show_true_optima(seed):
    """The least live bytes over all orders: no plan in any order has a smaller peak."""
    graph = random_graph(seed, 5)
    plan = cpplan.solve(graph, time_limit=1, workers=1)
    optimum, best = brute_force_peak(to_problem(cpplan.to_anf(graph))), least_pressure(graph)
    for rule in plan.explain(graph, time_limit=1, workers=1).relaxations:
        if rule.rule in ("order", "run once"):
            assert rule.at_most >= (optimum - best if rule.rule == "order" else 0)
            assert rule.rule == "run once" or rule.bound <= best
        if rule.rule == "order":
            assert rule.at_least is None or rule.at_least <= optimum - best
    assert accessed_bound(graph, Residency()).value <= best


@pytest.mark.parametrize("seed", range(12))
def test_sharing_rules_show_true_optima(seed):
    """All candidates at once: what the bounds without each kind of rule leave is not less."""
    graph = random_sharing_graph(seed, 3)
    order, candidates = tuple(range(len(graph.ops))), find_candidates(graph, Residency())
    best = least_peak(graph, order)
    assert accessed_bound(graph, Residency(), candidates).value <= best
    plan = cpplan.solve(graph, time_limit=1, workers=1)
    both = cpplan.solve(graph, time_limit=1, workers=1, in_place=True)
    kinds = {f"no {candidate.relation.kind}" for candidate in candidates}
    found = {rule.rule: rule for rule in plan.explain(graph).relaxations}
    assert kinds == found.keys() & {"no in place", "no placement"}
    if len(kinds) == 1:
        assert found[kinds.pop()].at_most >= plan.peak - best
    assert both.explain(graph).order_bound <= best


@settings(max_examples=40)
@given(programs(), st.sampled_from(["inputs", "outputs", "constants"]), st.booleans())
def test_what_is_outside_leaves_the_rest_as_it_is(program, field, repeats):
    if not repeats:
        program = cpplan.to_anf(program.graph)
    residency = Residency(constants="keep")
    less = replace(residency, **{field: "outside"})
    kinds = frozenset({"in place", "placement"})
    quick = _outside(make_rules(program, residency, None, kinds), less)
    slow = make_rules(program, less, None, kinds)
    for column in ("lower", "upper", "size", "alignment"):
        fields = (dict(zip(r.problem.names, getattr(r.problem, column).tolist(), strict=True))
                  for r in (quick, slow))  # fmt: skip
        assert next(fields) == next(fields)
    assert (quick.candidates, quick.residency) == (slow.candidates, slow.residency)
    assert quick.bound() == slow.bound()


@pytest.mark.parametrize("seed", range(6))
def test_large_graphs_get_weaker_bounds_that_are_true(seed, monkeypatch):
    graph = random_graph(seed, 6)
    plan = cpplan.solve(graph, time_limit=1, workers=1)
    close = {rule.rule: rule for rule in plan.explain(graph).relaxations}
    monkeypatch.setattr(rules, "MOST_OPS", 0)
    for rule in plan.explain(graph).relaxations:
        if rule.rule in ("order", "run once"):
            assert rule.bound_by == ACCESSED
            assert rule.bound <= close[rule.rule].bound


@pytest.mark.parametrize("seed", range(12))
def test_filled_bytes_of_plans_that_share(seed):
    """Byte by byte."""
    graph = random_sharing_graph(seed, 4)
    plan = cpplan.solve(graph, time_limit=1, workers=1, in_place=True)
    problem = to_problem(cpplan.to_anf(graph))
    filled = []
    for step in range(int(plan.upper.max())):
        at = set()
        for row, name in enumerate(problem.names):
            for begin, end in held(problem, row, step):
                at |= {plan.offset[plan.row[name]] + k for k in range(begin, end)}
        filled.append(len(at))
    assert fullest_step.find_fullest_step(plan) == filled.index(max(filled))
    times, profile = fullest_step.filled_profile(plan)
    steps = np.searchsorted(times, np.arange(len(filled)), side="right") - 1
    assert profile[steps].tolist() == filled
    assert plan.explain().fullest.filled == max(filled)
